"""The command that makes the data of Chang 2024's study of error detection: npov."""

import dataclasses

from faith_jax.core.settings import OutputPath
from faith_jax.papers.npov.options import NpovCombinations, NpovErrors, NpovTopics


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs(NpovCombinations, NpovTopics):
    """Writes the inputs of a generator.

    The inputs are combinations of each topic's arguments, in a file for each temperature.

    Attributes:
      output (FOLDER): gets a file for each temperature: t0.0.jsonl and t0.7.jsonl
    """

    output: OutputPath

    def run(self) -> list[str]:
        from faith_jax.papers.npov.error_sets import write_inputs

        return write_inputs(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sets(NpovErrors, NpovTopics):
    """Writes training and test sets of responses with errors.

    Finds the responses that are free of errors, and puts errors into them.

    Attributes:
      input (FILE): responses, from t5x infer
      output (FOLDER): gets train_….jsonl, validation.jsonl and test_….jsonl, as far as they can be
        made; test.jsonl, with all test sets; and sets.json, with the printed tables
    """

    input: str
    output: OutputPath

    def run(self) -> str:
        from faith_jax.papers.npov.error_sets import write_sets

        return write_sets(self)


class Npov:
    r"""Makes inputs of NPOV responses, and sets of responses with errors.

    An NPOV response takes a neutral point of view: it tells the arguments of both sides. This makes
    the data of Chang 2024's study of error detection; `faith-jax reproduce npov_detection` runs the
    whole study (docs/detection.md).

    Examples:
      %(prog)s inputs --output=inputs
      t5x infer --gin_file=runs/infer_file.gin --gin.CHECKPOINT_PATH=runs/npov \
          --gin.INPUT_FILE=inputs/t0.0.jsonl --gin.INFER_OUTPUT_DIR=responses
      %(prog)s sets --input=responses/predictions.jsonl --output=data
    """

    parts = (Inputs, Sets)
