"""One process of a run: several `t5x` commands, one after another.

Run as `python -m tests.training.process_driver COMMANDS.json`, a list of argument lists. The
first may carry --coordinator_address, --process_count and --process_index; the process then stays
one of several. An argument list that starts with "terminate" sends this process SIGTERM when the
third step of the training run behind it is done. Prints the exit status of each command.
"""

import json
import os
import signal
import sys
import time

from faith_jax import cli
from faith_jax.training.trainer import Trainer


def terminate_in_the_third_step() -> None:
    """Makes steps slow enough that a run does not end before the processes have agreed."""
    train_step, steps = Trainer.train_step, []

    def slow_step(self, *arguments):
        steps.append(1)
        if len(steps) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        if len(steps) >= 3:
            time.sleep(0.5)
        return train_step(self, *arguments)

    Trainer.train_step = slow_step


def main(path: str) -> None:
    """Runs the commands."""
    with open(path, encoding="utf-8") as file:
        commands = json.load(file)
    for arguments in commands:
        if arguments[0] == "terminate":
            terminate_in_the_third_step()
            arguments = arguments[1:]
        print(json.dumps({"command": arguments[0], "status": cli.t5x_main(arguments)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
