"""Asks the process that compiles (`faith_jax.planning.worker`) for plans."""

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
from faith_jax.planning.worker import Facts, Question, Recipe

# Returns the plan of a recipe with other settings; see `compiled_costs.cost_report`.
Planner = Callable[[Question], dict[str, Any]]
_LAST_LINES = 3  # lines of a process that has failed


class CompilingProcess:
    """A process that compiles a recipe for a topology; a context manager, which ends it.

    Within it, `facts` are the recipe's.

    Raises:
      ConfigError: for a mistake in the recipe or a choice, and without libtpu where it is needed.
      ProcessError: where the process fails.
    """

    def __init__(self, recipe: Recipe, topology: Topology):
        check_libtpu(topology)
        self._recipe, self._topology = recipe, topology

    def __enter__(self) -> Self:
        environment = os.environ | self._topology.environment()
        # Programs of accelerators that are not here cannot be kept and opened again.
        environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        if self._topology.is_tpu:
            environment.pop("XLA_FLAGS", None)  # flags of CPUs, which libtpu does not know
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faith_jax.planning.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
        )
        try:
            recipe = self._recipe._asdict()
            facts = self._request_answer({"recipe": recipe, "topology": self._topology.name})
            self.facts = Facts(**facts)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            # Closing the pipe tries once more to send what a dead process has not read.
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def __call__(self, question: Question) -> dict[str, Any]:
        """Returns the plan of the recipe with other settings; see `Planner`."""
        return self._request_answer(question._asdict())

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
        return answer["found"]


def remembering(ask: Planner, path: pathlib.Path) -> Planner:
    """Returns a planner that keeps its plans in a file, and does not ask for them again."""
    count_whole_rows(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known_plans = [(Question(**row["question"]), row["plan"]) for row in rows]

    def plan(question: Question) -> dict[str, Any]:
        for past, past_plan in known_plans:
            if past == question:
                return past_plan
        new_plan = ask(question)
        append_rows(path, [{"question": question._asdict(), "plan": new_plan}])
        return new_plan

    return plan
