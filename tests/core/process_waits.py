"""One of two processes, of which the second comes late and then fails; see test_processes.py."""

import sys
import time

import jax

from faith_jax.core import processes
from faith_jax.core.errors import CheckpointError, ConfigError, FaithJaxError, ProcessError


def agree(index):
    """Prints the values that both agree on, and the error about a process that does not come."""
    print(processes.from_all([index, 7], "a").tolist(), processes.from_first(index + 5, "b"))
    print(processes.text_of_first_process(lambda: "täx", "a text"))
    problems = (ConfigError("mine") if index else None, KeyError("his") if index else None)
    # Of two problems, the one with the lower place is raised.
    both = (CheckpointError(f"of {index}, täx"), 3 - index)
    for problem, place in (*((problem, 0) for problem in problems), both):
        try:
            processes.raise_together(problem, "count", place)
        except (FaithJaxError, KeyError) as error:
            print(type(error).__name__, error)
    processes.raise_together(None, "count")
    if index:
        time.sleep(2)
    processes.limit_waits(1)
    try:
        processes.wait_for_all("the output is written")
    except ProcessError as error:
        print(error, flush=True)
    processes.limit_waits(3600)


def main(address, index):
    jax.distributed.initialize(address, 2, index, heartbeat_timeout_seconds=3)
    agree(index)
    processes._END_WAIT = 1
    try:
        if index:
            raise ConfigError("row 3 is bad.")
        processes.wait_for_all("all rows are read")
    except ConfigError:
        processes.end_together(2)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
