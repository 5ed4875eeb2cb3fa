"""The options that the papers' tables and data share, for the command line and for the runs.

`faith_jax.cli.parser` says how a field becomes an option. Nothing slow is imported here.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.settings import NotNegative, OutputPath, Positive, PositiveShare
from faith_jax.runs.options import Names, Resamples

# Options of scorers in the tables of Dziri 2022 and Nandwani 2023; given even if they equal the
# scorer's default, so that they are recorded in the settings of kept files.
PAPERS_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bertscore": {"lower_grounding": True},
    "pmi_faith_mean": {"score_cue": True},
}


def absolute(path: str) -> str:
    """Makes an existing path absolute, since a workflow runs in its own folder; keeps names."""
    full_path = os.path.abspath(os.path.expanduser(path))
    return full_path if path and os.path.exists(full_path) else path


def absolute_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a scorer's options with absolute paths; see `absolute`."""
    return {
        name: absolute(value) if isinstance(value, str) else value
        for name, value in options.items()
    }


Folder = Annotated[str, absolute]
Length = Annotated[int, msgspec.Meta(ge=8, description="a whole number, at least 8")]


def check_names(option: str, names: Iterable[str], choices: Iterable[str]) -> None:
    """Raises a ConfigError if an option was given a name that is not one of its choices."""
    for name in names:
        if name not in choices:
            raise ConfigError(
                f"--{option}: there is no {name!r}.{did_you_mean(name, choices)} There are: "
                f"{', '.join(choices)}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """The output of a table.

    Attributes:
      output (FOLDER): where all files are written
      sample: use the samples in the package
    """

    name: ClassVar[str]
    output: OutputPath
    sample: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScorerTableOptions(Output):
    """A table of scorers.

    Attributes:
      scorers (NAMES): separated by commas (without: those that need no model)
      scorer_option (SCORER.NAME=VALUE): an option of a scorer, such as
        pmi_faith_mean.model=FOLDER (repeatable)
      scored (FILE): test data that is already scored by any system, as `faith-jax evaluate` reads
        it; nothing is scored then, and --scorers names columns of the file (repeatable)
      development (FILE): the scored development data for --scored
      cluster_field (NAME): a field of --scored; rows with the same value depend on each other
        (default: rows with the same grounding)
      slice_field (NAME): a field of --scored that names the part of a row (default: the
        benchmark's own field, or else corpus, or the file's name)
      undefined (VALUE): the score that replaces undefined ones (default: rows without a score are
        left out)
    """

    file_name: ClassVar[str]
    scorers: Names = ()
    scorer_option: tuple[str, ...] = ()
    scored: tuple[str, ...] = ()
    development: str = ""
    cluster_field: str = "auto"
    slice_field: str = ""
    undefined: float | None = None

    def __post_init__(self):
        if self.scored and (self.sample or self.scorer_option):
            other = "--sample" if self.sample else "--scorer-option"
            raise ConfigError(f"{other}: goes with scorers, not with --scored.")
        for name in ("development", "cluster_field", "slice_field"):
            if not self.scored and getattr(self, name) != getattr(ScorerTableOptions, name):
                raise ConfigError(f"--{name.replace('_', '-')}: goes with --scored.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workflow(Output):
    """How a workflow runs.

    Subclasses for tables have the dotted name of the module that checks these options and lists
    the table's steps.

    Attributes:
      cores (N): cores that steps share; 0 = all
      dry_run: only show the commands
      snakemake (ARGUMENT): passed to Snakemake, such as --snakemake=--profile=slurm (repeatable)
      seed: of all random draws
    """

    module: ClassVar[str]
    cores: NotNegative = 0
    dry_run: bool = False
    snakemake: tuple[str, ...] = ()
    seed: NotNegative = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluated(Workflow):
    """The options that most workflows have.

    Attributes:
      vocabulary (PATH): the tokenizer of models that have none
      batch_size (N): rows decoded at once
      resamples (N): of intervals and tests
    """

    vocabulary: Folder = ""
    batch_size: Positive = 16
    resamples: Resamples = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged(Evaluated):
    """Models that judge responses.

    Attributes:
      bertscore_model (FOLDER): an encoder; usually roberta-large
      q2_model (FOLDER): asks questions about a response, for Q²
      q2_answer_model (FOLDER): answers them (without: the same)
      q2_nli_model (FOLDER): compares answers, and judges responses without questions
      scorer_option (SCORER.NAME=VALUE): an option of a scorer with a model, such as
        bertscore.baseline=FILE, which rescales as the papers do (repeatable)
      limit (N): only the first rows of each data set; 0 = all
    """

    # The option for each scorer's model.
    judges: ClassVar[Mapping[str, str]] = {}
    bertscore_model: Folder = ""
    q2_model: Folder = ""
    q2_answer_model: Folder = ""
    q2_nli_model: Folder = ""
    scorer_option: tuple[str, ...] = ()
    limit: NotNegative = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class GeneratorOptions:
    """How models respond to changed rows, and how processes share the rows.

    Attributes:
      vocabulary (FILE): the tokenizer of generators that have none
      tagger: finds entities and parts of speech: spacy:PIPELINE, or rules, which needs no model and
        misses much
      max_length (N): tokens of a response
      max_input_length (N): tokens of an input
      batch_size (N): rows decoded at once
      seed (N): of substitutes and sampling
      top_p: of nucleus sampling, as in the paper
      shards (N): into which the rows are split; any number of processes share them, by the same
        command on machines with a common disk (default: one for every 5,000 rows)
      restart: discard the output of a stopped run with other settings
    """

    vocabulary: str | None = None
    tagger: str = "spacy:en_core_web_sm"
    max_length: Positive = 64
    max_input_length: Positive = 512
    batch_size: Positive = 16
    seed: NotNegative = 0
    top_p: PositiveShare = 0.9
    shards: NotNegative = 0
    restart: bool = False
