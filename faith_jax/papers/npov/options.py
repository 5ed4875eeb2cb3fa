"""The options of Chang 2024's data and tables, for the command line and for the runs.

`faith_jax.cli.parser` says how a field becomes an option. Nothing slow is imported here.
"""

import dataclasses
from typing import Annotated, ClassVar

import msgspec

from faith_jax.core.settings import NotNegative, Positive, Share, from_text
from faith_jax.papers.options import Evaluated, Folder, absolute
from faith_jax.runs.options import Names


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovTopics:
    """The topics of NPOV responses.

    Attributes:
      knowledge (FOLDER): with topics.jsonl; or sample, the topics in the package
      seed (N): of all random draws
    """

    knowledge: str = "sample"
    seed: NotNegative = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovCombinations:
    """Topics and combinations of arguments to respond to.

    Attributes:
      splits (NAMES): of the topics, separated by commas (without: all splits)
      combinations (N): of arguments for each topic, at most
    """

    splits: Names = ("train", "validation", "test")
    combinations: Positive = 18


def _parse_error_ratio(text: str) -> float:
    """Returns the number of rows with a synthetic error for each error-free row."""
    # Section 4.2: 667 rows with a hallucination, a coverage error or both, for 312 without errors.
    if text == "published":
        return 667 / 312
    expected = "a number above 0 and at most 3, the kinds of errors, or published"
    return from_text(text, Annotated[float, msgspec.Meta(gt=0, le=3, description=expected)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovErrors:
    """Which responses are free of errors, and which errors are put into them.

    Attributes:
      marks (FILE): people's marks of these responses, from `faith-jax annotate read --output`
        (without: a rule of words says which responses are free of errors)
      errors_per_response (NUMBER): rows with a synthetic error for each error-free response, at
        most 3; published = 667/312, as in section 4.2 (without: one of each kind, up to 3)
      least_recall (SHARE): of an argument's words that a response must have, for the rule
      least_precision (SHARE): of a response's words that its input must have, for the rule
    """

    marks: str = ""
    errors_per_response: Annotated[float | None, _parse_error_ratio] = None
    least_recall: Share = 0.8
    least_precision: Share = 0.6


def _resolve_topics_path(path: str) -> str:
    return path if path == NpovTopics.knowledge else absolute(path)


def _parse_two_folders(text: str) -> tuple[str, ...]:
    folders = tuple(absolute(part.strip()) for part in text.split(","))
    if len(folders) != 2 or not any(folders):
        raise ValueError(f"expected two folders with a comma, got {text!r}")
    return folders


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovDetection(NpovErrors, NpovCombinations, NpovTopics, Evaluated):
    """Chang 2024, tables 1, 2, 3, 5 and 6: detection of errors in a model's responses.

    A generator responds, errors are put into its responses, and the tables show how well ROUGE,
    salience and classifiers detect them (docs/detection.md).

    Attributes:
      knowledge (FOLDER): with topics.jsonl; or sample, the topics in the package
      marks (FILE): people's marks of these responses, from `faith-jax annotate read --output`
        (without: a rule of words says which responses are free of errors)
      model (CHECKPOINT): the generator: any language model
      hallucination_model (FOLDER): table 1's classifier for hallucinations (without: dev's)
      coverage_model (FOLDER): table 1's classifier for coverage errors (without: dev's)
      classifiers (NAME=HALL_FOLDER,COV_FOLDER): by training data: synth, para, dev, org or
        annotation_free; one of the folders may be left out (repeatable)
      salience_model (CHECKPOINT): whose gradients are used (without: the generator's)
      max_length (N): tokens of a response at most
      max_input_length (N): tokens of an input at most; the rest is cut at its end
    """

    name: ClassVar = "npov_detection"
    module: ClassVar = "faith_jax.papers.npov.detection_tables"
    knowledge: Annotated[str, _resolve_topics_path] = NpovTopics.knowledge
    marks: Folder = ""
    model: Folder = ""
    hallucination_model: Folder = ""
    coverage_model: Folder = ""
    classifiers: dict[str, Annotated[tuple[str, ...], _parse_two_folders]] = dataclasses.field(
        default_factory=dict
    )
    salience_model: Folder = ""
    max_length: Positive = 256
    max_input_length: Positive = 512
