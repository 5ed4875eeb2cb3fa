"""The process that compiles: it reads requests as lines of JSON, and answers each with a line.

It is a separate process because libtpu disturbs hosts without TPUs, and because the number of
devices that a CPU pretends to be must be set before JAX starts. The first request holds the recipe
and the topology, and each further one is a `PlanRequest`.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple

from faith_jax.core.errors import FaithJaxError
from faith_jax.planning.topologies import Topology, parse_topology


class Recipe(NamedTuple):
    """A job to plan, and the arguments of `faith_jax.gin_files.config.parse`."""

    gin_files: Sequence[str]
    bindings: Sequence[str]
    search_paths: Sequence[str] = ()
    allow: Sequence[str] = ()
    job: str = "run"  # "run", "score" or "salience"


class PlanRequest(NamedTuple):
    """A request for a plan with other settings; `evaluations` of a training are optional."""

    choice: Mapping[str, Any] = {}
    evaluations: bool = True


class RecipeFacts(NamedTuple):
    """Facts of a recipe on devices that are known before anything is compiled.

    Attributes:
      job: see `programs.RunPrograms`.
      rows: of a batch.
      devices: number of devices.
      slices: number of slices in the mesh; each holds all parameters.
      summed: bytes of a row that partitions add up, see `programs.summed_bytes`; 0 if other
        partitioning rules make this unknown.
      config: the configuration that gin files and bindings have set.
      versions: of the packages that compile.
      couples_rows: whether a batch cannot be split into microbatches, see `Objective.couples_rows`.
    """

    job: str
    rows: int
    devices: int
    slices: int
    summed: int
    config: str
    versions: Mapping[str, str]
    couples_rows: bool = False


class Session:
    """A recipe on the devices of a topology; makes its plans.

    Raises:
      ConfigError: the gin files configure no run that can be planned.
    """

    def __init__(self, recipe: Recipe, topology: Topology):
        import gin

        from faith_jax.gin_files import config as gin_config
        from faith_jax.models.partitioning import MESH_AXES, SLICE_AXIS
        from faith_jax.planning import programs

        self._topology = topology
        self._devices = topology.devices()
        gin_config.parse(
            recipe.gin_files,
            recipe.bindings,
            recipe.search_paths,
            recipe.allow,
            unused=programs.UNUSED,
            uncalled=programs.STEPS,
        )
        self._configured = programs.configure_job(recipe.job)
        partitioner = self._configured.partitioner(self._devices)
        splits = {("mlp", MESH_AXES[1]), ("joined_kv", MESH_AXES[1])} <= set(partitioner.rules)
        packages = ("faith_jax", "jax", *topology.compilers())
        self.facts = RecipeFacts(
            job=self._configured.name,
            rows=self._configured.rows,
            devices=len(self._devices),
            slices=partitioner.mesh.shape.get(SLICE_AXIS, 1),
            summed=self._configured.summed if splits else 0,
            config=gin.config_str(),
            versions={package: metadata.version(package) for package in packages},
            couples_rows=self._configured.couples_rows,
        )

    def plan(self, request: PlanRequest) -> dict[str, Any]:
        """Returns the `cost_report` of the recipe with other settings."""
        from faith_jax.planning import compiled_costs

        job = self._configured.make(request.choice, self._devices)
        return compiled_costs.cost_report(job, self._topology, request.evaluations)


def answers(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yields the answer to each request: {"result": …} or {"error": message}.

    The first result is the `RecipeFacts`; all others are plans.
    """
    session = None
    for line in lines:
        request = json.loads(line)
        try:
            if session is None:
                recipe = Recipe(**request["recipe"])
                session = Session(recipe, parse_topology(request["topology"]))
                yield {"result": session.facts._asdict()}
            else:
                yield {"result": session.plan(PlanRequest(**request))}
        except FaithJaxError as error:
            yield {"error": str(error).partition("\n")[0]}


def main() -> None:
    """Answers on standard output; redirects all other printing there to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        with contextlib.suppress(BrokenPipeError):
            for answer in answers(iter(sys.stdin)):
                print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
