"""The options of `calibrate` and `accept`, shared by the command line and the runs themselves.

`faith_jax.cli.parser` turns fields into command-line options. Nothing slow is imported here.
"""

import dataclasses
from typing import Literal

from faith_jax.core.errors import ConfigError
from faith_jax.core.files.stores import path_of
from faith_jax.core.files.whole import is_stream
from faith_jax.core.settings import NotNegative, OutputPath
from faith_jax.runs.options import Json, OpenShare, Png

Guarantee = Literal["learn_then_test", "conformal_risk_control"]


@dataclasses.dataclass(frozen=True)
class CalibrateOptions:
    """Labelled scores, and the guarantee that thresholds must have.

    Attributes:
      files (FILE): scored .jsonl, .csv or .parquet files, or TFDS folders, with labels (1 =
        faithful)
      output (JSON): the calibration, which faith-jax accept reads
      scorer (NAME): the scorer to calibrate; in CSV files, the column (default: the only one)
      guarantee: learn_then_test: of the accepted responses at most TARGET are unfaithful, with this
        confidence; conformal_risk_control: of all responses at most TARGET are accepted and
        unfaithful, on average over calibrations
      target (SHARE): the largest share of unfaithful responses, in (0, 1)
      reject_target (SHARE): the largest share of faithful responses, for rejecting (default:
        TARGET)
      confidence: that learn_then_test holds, for each threshold
      simultaneous: the confidence holds for all thresholds of all corpora at once
      cluster_field (NAME): rows with the same value of this field depend on each other: id,
        grounding, question or a column of yours; none = all rows are independent; auto = rows with
        the same grounding depend on each other
      seed: for random draws
      figure (PATH): draw the accepted share over targets (PNG); choose the target before you look
    """

    files: tuple[str, ...]
    _: dataclasses.KW_ONLY
    output: Json
    scorer: str = ""
    guarantee: Guarantee = "learn_then_test"
    target: OpenShare = 0.05
    reject_target: OpenShare | None = None
    confidence: OpenShare = 0.95
    simultaneous: bool = False
    cluster_field: str = "auto"
    seed: NotNegative = 0
    figure: Png = ""

    def __post_init__(self):
        if not self.output:
            raise ConfigError("--output: name the file of the calibration, such as scores.json.")
        # Conformal risk control holds on average, not with a confidence.
        for name in ("confidence", "simultaneous"):
            is_given = getattr(self, name) != getattr(CalibrateOptions, name)
            if is_given and self.guarantee != "learn_then_test":
                raise ConfigError(f"--{name}: goes with --guarantee=learn_then_test.")


@dataclasses.dataclass(frozen=True)
class AcceptOptions:
    """New scores, and the calibration that decides about them.

    Attributes:
      files (FILE): scored .jsonl, .csv or .parquet files, or TFDS folders
      calibration (JSON): made by faith-jax calibrate
      output (JSONL): the rows with decision (accept, reject or abstain), probability (that the
        response is faithful, null = unknown) and reason
      corpus (NAME): the corpus of the calibration that these rows resemble, whatever their own
        corpus is called (default: the corpus of the same name)
      pooled: decide by the threshold of all corpora together, for rows in the same mix of corpora
      alarm (LEVEL): how often the test that compares scores with the calibration's may raise a
        false alarm
      cluster_field (NAME): as for faith-jax calibrate (default: the calibration's)
      seed: for the random draws of the test
    """

    files: tuple[str, ...]
    _: dataclasses.KW_ONLY
    calibration: str
    output: OutputPath
    corpus: str = ""
    pooled: bool = False
    alarm: OpenShare = 0.01
    cluster_field: str = ""
    seed: NotNegative = 0

    def __post_init__(self):
        if self.corpus and self.pooled:
            raise ConfigError("Give either --corpus or --pooled.")
        if not self.output.endswith(".jsonl") and not is_stream(path_of(self.output)):
            raise ConfigError(f"--output: {self.output}: name a .jsonl file.")
