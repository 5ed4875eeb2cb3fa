"""The process that compiles: it reads requests as lines of JSON, and answers each with a line.

It is a process of its own because libtpu disturbs hosts without TPUs, and because the number of
devices that a CPU pretends to be is set before JAX begins. The first request says the gin files and
the topology, each further one the settings that are tried (`Choice`).
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import FaithJaxError
from faith_jax.runs.planning.topologies import Topology, parse_topology


class Recipe(NamedTuple):
    """What is planned: a job, and what `faith_jax.runs.gin_config.parse` reads."""

    gin_files: Sequence[str]
    bindings: Sequence[str]
    search_paths: Sequence[str] = ()
    allow: Sequence[str] = ()
    job: str = "run"  # one of `programs.JOBS`


class Session:
    """A recipe on devices, of which plans are made.

    Raises:
      ConfigError: where the gin files configure no run that can be planned.
    """

    def __init__(self, recipe: Recipe, topology: Topology, devices: Sequence[Any] | None = None):
        from faith_jax.runs import gin_config
        from faith_jax.runs.planning import programs

        self._topology = topology
        self._devices = topology.devices() if devices is None else devices
        gin_config.parse(*recipe[:4], unused=programs.UNUSED)
        self._make = programs.configured(recipe.job)

    def plan(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the `cost_report` of the recipe with these settings; see `programs.Choice`."""
        from faith_jax.runs.planning import compiled_costs, programs

        program = self._make(programs.Choice(**choice), self._devices)
        return compiled_costs.cost_report(program, self._topology)


def answers(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yields the answer to each request: {"plan": …} or {"error": the message of a mistake}."""
    session = None
    for line in lines:
        request = json.loads(line)
        try:
            if session is None:
                recipe = Recipe(**request["recipe"])
                session = Session(recipe, parse_topology(request["topology"]))
                yield {"plan": None}
            else:
                yield {"plan": session.plan(request)}
        except FaithJaxError as error:
            yield {"error": str(error).partition("\n")[0]}


def main() -> None:
    """Answers on what was standard output; what libraries print goes to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        with contextlib.suppress(BrokenPipeError):
            for answer in answers(iter(sys.stdin)):
                print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
