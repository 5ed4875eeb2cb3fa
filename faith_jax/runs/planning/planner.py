"""Asks the process that compiles (`faith_jax.runs.planning.worker`) for plans."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Self

from faith_jax.core.errors import ConfigError, ProcessError
from faith_jax.runs.planning.topologies import Topology, check_libtpu
from faith_jax.runs.planning.worker import Recipe

# Returns the plan of a recipe with these settings in place of its own; see `programs.Choice`.
Planner = Callable[[Mapping[str, Any]], dict[str, Any]]
_TOLD = 3  # lines of a process that has failed


class CompilingProcess:
    """A process that compiles a recipe for a topology; a context manager, which ends it.

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
            [sys.executable, "-m", "faith_jax.runs.planning.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
        )
        try:
            recipe = self._recipe._asdict()
            self._asked({"recipe": recipe, "topology": self._topology.name})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            stream.close()

    def __call__(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the plan of the recipe with these settings; see `Planner`."""
        return self._asked(choice)

    def _asked(self, request: Mapping[str, Any]) -> Any:
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
            told = self._errors.read().decode(errors="replace").strip().splitlines()[-_TOLD:]
            raise ProcessError(
                f"The process that compiles has ended with status {status}: {' | '.join(told)}",
                status or 1,
            )
        answer = json.loads(line)
        if "error" in answer:
            raise ConfigError(answer["error"])
        return answer["plan"]
