"""Requests plans from the process that compiles (`faith_jax.planning.worker`)."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Self

from faith_jax.core.errors import ConfigError, ProcessError
from faith_jax.core.files import append_rows, count_whole_rows
from faith_jax.planning.topologies import Topology, check_libtpu
from faith_jax.planning.worker import PlanRequest, Recipe, RecipeFacts

# Makes the plan of a recipe with other settings, as `compiled_costs.cost_report` returns it. Its
# keys are `topology`, `devices`, `compiler`, `job`, `settings`, `mesh`, `fits` and `memory`; also
# `free_share` if the memory is known, `compile_seconds` and `work` if it was compiled, and
# `evaluations` if they were asked for.
Planner = Callable[[PlanRequest], dict[str, Any]]
_LAST_LINES = 3  # lines of a failed process's messages that its error shows


class CompilingProcess:
    """A process that compiles a recipe for a topology; a context manager that ends the process.

    Inside the context, `facts` are the `RecipeFacts` of the recipe.

    Raises:
      ConfigError: the recipe or a choice has a mistake, or libtpu is needed and missing.
      ProcessError: the process fails.
    """

    def __init__(self, recipe: Recipe, topology: Topology):
        check_libtpu(topology)
        self._recipe, self._topology = recipe, topology

    def __enter__(self) -> Self:
        environment = os.environ | self._topology.environment()
        # Programs for accelerators that are not present cannot be cached and reloaded.
        environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        if self._topology.is_tpu:
            environment.pop("XLA_FLAGS", None)  # CPU flags, which libtpu rejects
        with contextlib.ExitStack() as held:
            self._errors = held.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "faith_jax.planning.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                text=True,
            )
            held.callback(self._end_process)
            recipe = self._recipe._asdict()
            facts = self._request_answer({"recipe": recipe, "topology": self._topology.name})
            self.facts = RecipeFacts(**facts)
            # Nothing has failed: keep the process until the caller's context ends.
            self._held = held.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._held.close()

    def _end_process(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            # Closing the pipe tries to flush data that a dead process has not read.
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def __call__(self, request: PlanRequest) -> dict[str, Any]:
        """Returns a plan with the keys that `Planner` lists."""
        return self._request_answer(request._asdict())

    def _request_answer(self, request: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._process.wait()
            self._errors.seek(0)
            messages = self._errors.read().decode(errors="replace").strip().splitlines()
            last_lines = " | ".join(messages[-_LAST_LINES:])
            raise ProcessError(
                f"The process that compiles has ended with status {status}: {last_lines}",
                status or 1,
            )
        answer = json.loads(line)
        if "error" in answer:
            raise ConfigError(answer["error"])
        return answer["result"]


def keep_plans_in_file(planner: Planner, path: pathlib.Path) -> Planner:
    """Returns a planner that keeps its plans in a file, and reuses the plans in it."""
    count_whole_rows(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    kept_plans = [(PlanRequest(**row["question"]), row["plan"]) for row in rows]

    def plan(request: PlanRequest) -> dict[str, Any]:
        for kept_request, kept_plan in kept_plans:
            if kept_request == request:
                return kept_plan
        new_plan = planner(request)
        append_rows(path, [{"question": request._asdict(), "plan": new_plan}])
        return new_plan

    return plan
