"""One process of a run: several `t5x` commands, one after another.

Run as `python -m tests.training.process_driver COMMANDS.json`, a list of argument lists. The
first may have --coordinator_address, --process_count and --process_index; the process then stays
one of several. "terminate" and a process in front of a training command send SIGTERM to that
process in the third step. "kill", a process and a batch in front of an inference command send
SIGKILL to that process in that batch, to process 0 while it writes. Prints the exit status of each
command, and ends with the last one.
"""

import json
import os
import signal
import sys
import time

import jax

from faith_jax import cli
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.runs import infer
from faith_jax.training.trainer import Trainer

TRAIN_STEP = Trainer.train_step


def terminate_in_the_third_step(process: int) -> None:
    """Sends SIGTERM in the third step, and slows down steps so that the processes can agree."""
    steps = []

    def slow_step(self, *arguments):
        steps.append(1)
        if len(steps) == 3 and jax.process_index() == process:
            os.kill(os.getpid(), signal.SIGTERM)
        if len(steps) >= 3:
            time.sleep(0.5)
        return TRAIN_STEP(self, *arguments)

    Trainer.train_step = slow_step


def kill_in_batch(process: int, batch: int) -> None:
    """Kills process 0 after it has written 1.5 rows of the batch, and others before decoding it."""
    append, decode, calls = infer.append_rows, BatchDecoder.__call__, []

    def dying_decode(self, *arguments):
        calls.append(1)
        if jax.process_index() == process != 0 and len(calls) == batch:
            os.kill(os.getpid(), signal.SIGKILL)
        if jax.process_index() != process and not self._partitioner.mesh.is_multi_process:
            time.sleep(300)  # leaves a shard to the other process, until the test kills this one
        return decode(self, *arguments)

    def dying_append(path, rows):
        if jax.process_index() == process == 0 and len(calls) == batch:
            append(path, rows[:1])
            with path.open("a") as file:
                file.write('{"id": "cut')
            os.kill(os.getpid(), signal.SIGKILL)
        append(path, rows)

    BatchDecoder.__call__, infer.append_rows = dying_decode, dying_append


def main(path: str) -> int:
    """Runs the commands."""
    infer.WINDOW = 1  # one batch at a time, so that kills hit between batches
    with open(path, encoding="utf-8") as file:
        commands = json.load(file)
    for arguments in commands:
        if arguments[0] == "terminate":
            terminate_in_the_third_step(arguments[1])
            arguments = arguments[2:]
        else:
            Trainer.train_step = TRAIN_STEP
        if arguments[0] == "kill":
            kill_in_batch(*arguments[1:3])
            arguments = arguments[3:]
        run = cli.main if arguments[0] == "score" else cli.t5x_main
        status = run(arguments)
        print(json.dumps({"command": arguments[0], "status": status}), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
