"""The command npov: inputs of NPOV responses, and responses with errors put into them."""

import argparse

from faith_jax.cli.parser import add_command, add_commands
from faith_jax.runs.options import NpovInputs, NpovSets

_TEXT = """Makes inputs of NPOV responses, and sets of responses with errors.

The data of Chang 2024's study of error detection, which `faith-jax reproduce npov_detection` runs
as a whole (docs/detection.md).

Examples:
  %(prog)s inputs --output=inputs
  t5x infer --gin_file=runs/infer_file.gin --gin.CHECKPOINT_PATH=runs/npov \\
      --gin.INPUT_FILE=inputs/t0.0.jsonl --gin.INFER_OUTPUT_DIR=responses
  %(prog)s sets --input=responses/predictions.jsonl --output=data
"""


def add_npov_command(commands: argparse._SubParsersAction) -> None:
    """Adds `npov` with its two parts."""
    command = add_command(commands, "npov", _TEXT)
    parts = command.add_subparsers(dest="part", metavar="inputs|sets", required=True)
    add_commands(parts, (Inputs, Sets))


class Inputs(NpovInputs):
    """Writes what a generator responds to.

    Combinations of each topic's arguments, in a file for each temperature.
    """

    def run(self) -> None:
        from faith_jax.runs.data.npov_sets import write_inputs

        print("\n".join(write_inputs(self)))


class Sets(NpovSets):
    """Writes training and test sets of responses with errors.

    Finds the responses that are free of errors, and puts errors into them.
    """

    def run(self) -> None:
        from faith_jax.runs.data.npov_sets import write_sets

        print(write_sets(self), end="")
