import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax._src import distributed

from faith_jax.core import processes
from faith_jax.core.errors import ConfigError, ProcessError
from tests.paths import REPOSITORY
from tests.training.processes import free_port


def test_one_process_alone_waits_for_nobody():
    processes.wait_for_all("nothing")
    processes.end_together(2)  # does not end it: the caller does
    np.testing.assert_array_equal(processes.from_all([3, 4], "a"), [[3, 4]])
    assert processes.from_first(3, "a") == 3
    assert processes.text_of_first_process(lambda: "tea", "a text") == "tea"
    assert processes.number_of_first_process(lambda: 3, "a number") == 3
    processes.raise_together(None, "count")
    with pytest.raises(ConfigError, match=r"^mine$"):
        processes.raise_together(ConfigError("mine"), "count")


def test_a_process_that_has_ended_is_not_said_to_be_late(monkeypatch):
    class Client:
        def wait_at_barrier(self, barrier, milliseconds):
            raise jax.errors.JaxRuntimeError(
                "INTERNAL: Barrier failed because: task is set to ERROR: UNAVAILABLE: Task 1 "
                f"heartbeat timeout. Barrier Id: {barrier}::0, Task: 1"
            )

    monkeypatch.setattr(distributed.global_state, "client", Client())
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(
        ProcessError, match=r"^another process of this run ended before it is done;"
    ):
        processes.wait_for_all("it is done")


@pytest.mark.faults
def test_two_processes_agree_and_neither_is_left_hanging():
    address = f"127.0.0.1:{free_port()}"
    pair = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.core.process_waits", address, str(index)],
            cwd=REPOSITORY,
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in (0, 1)
    ]
    first, second = (process.communicate(timeout=120) for process in pair)
    lines = [
        [line for line in out.splitlines() if not line.startswith("[Gloo]")]
        for out, _ in (first, second)
    ]
    # The second one failed alone, has its own status and says why; JAX has ended the first one.
    assert pair[1].returncode == 2, second
    assert "ConfigError: row 3 is bad." in second[1]
    assert pair[0].returncode not in (0, None)
    agreed = ["[[0, 7], [1, 7]] 5", "täx"]
    assert lines[0] == [
        *agreed,
        "ConfigError mine",
        "ConfigError process 1 could not count; see what it says.",
        "CheckpointError of 1, täx",
        "process 1 of this run did not come within 1 second to where the output is written; see "
        "what it says. The same command resumes.",
    ]
    errors = ["ConfigError mine", "KeyError 'his'", "CheckpointError of 1, täx"]
    assert lines[1][:5] == [*agreed, *errors]
