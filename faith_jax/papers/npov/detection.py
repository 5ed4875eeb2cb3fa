"""Chang 2024's study of detecting hallucinations and coverage errors in NPOV responses.

By example (table 1): error-free responses against responses with the error, whatever other errors
they have. By word (table 3): words of untold arguments against words of the others, and words of
the response that no argument says against its other words.

`detections` computes each method's AUC with an interval, and compares it with the best method for
the same test set and error.
"""

import dataclasses
import math
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from faith_jax.core.errors import InputError
from faith_jax.statistics.auc import auc_of_weights
from faith_jax.statistics.auc_table import ALL_EQUAL, AucCell
from faith_jax.statistics.bootstrap import NO_INTERVAL, Draws, bootstrap
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.significance import SIGNIFICANT, bonferroni, hanley_mcneil_test
from faith_jax.statistics.units import AUTO, units_of

ERRORS = ("hallucination", "coverage")
_TRUTH = {"0": False, "1": True, "false": False, "true": True}
# The fields that say which errors an example has.
ERROR_FIELDS = {"hallucination": "has_hallucination", "coverage": "has_coverage_error"}


class JudgedItem(NamedTuple):
    """An example or a word of an example: row, score, and label (0 = it has the error)."""

    row: int
    score: float
    label: float


def detectors(part: Corpus, error: str, words: bool = False) -> list[str]:
    """Returns the scorers that detect an error: their names contain it, or no error."""
    other_error = next(name for name in ERRORS if name != error)
    named = [name for name in part.scores if error in name or other_error not in name]
    if words and error == "hallucination" and not has_spans(part):
        return []
    return [name for name in named if name in part.words] if words else named


def has_spans(part: Corpus) -> bool:
    """Whether all rows say which words of the response are hallucinated."""
    return bool(part.fields) and all("hallucinated_spans" in fields for fields in part.fields)


def select_judged_rows(
    part: Corpus, scorer: str, error: str, words: bool = False
) -> dict[Hashable, JudgedItem]:
    """Returns the scored examples that are error-free or have the error, by row.

    With `words`, returns the words that may be wrong, by (row, text, start, end). The fields
    `has_hallucination` and `has_coverage_error` ("0" or "1") say which errors an example has.
    Uncovered words are those of the argument in the field `added_argument`, or of several in JSON.
    Hallucinated words are those of the response that overlap a span of the field
    `hallucinated_spans`, a JSON list of [start, end].

    Raises:
      InputError: if a row lacks one of the fields, or has another value in it.
    """
    examples: dict[Hashable, JudgedItem] = {}
    if not words:
        flags = {name: _read_error_flags(part, field) for name, field in ERROR_FIELDS.items()}
        for row, score in enumerate(part.scores[scorer].tolist()):
            clean = not any(values[row] for values in flags.values())
            if (clean or flags[error][row]) and not math.isnan(score):
                examples[row] = JudgedItem(row, score, float(clean))
        return examples
    is_hallucination = error == "hallucination"
    added = (
        [] if is_hallucination else [_read_arguments(text) for text in part.field("added_argument")]
    )
    for row, row_words in enumerate(part.words[scorer]):
        spans = _read_hallucinated_spans(part, row) if is_hallucination else []
        for start, end, score, text in row_words:
            if (text is None) != is_hallucination:
                continue
            if text is None:
                wrong = any(start < last and first < end for first, last in spans)
            else:
                wrong = part.groundings[row][text] in added[row]
            examples[row, text, start, end] = JudgedItem(row, float(score), float(not wrong))
    return examples


def _read_error_flags(part: Corpus, field: str) -> list[bool]:
    values = part.field(field)
    for identifier, value in zip(part.ids, values, strict=True):
        if value not in _TRUTH:
            raise InputError(
                f"{part.name}: row {identifier!r}: field {field!r}: expected 0 or 1, got {value!r}."
            )
    return [_TRUTH[value] for value in values]


def _read_arguments(text: str) -> list[str]:
    """Returns the arguments that a response leaves out, from a text or a JSON list."""
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        return [text] if text else []


def _read_hallucinated_spans(part: Corpus, row: int) -> list[tuple[int, int]]:
    text = part.fields[row]["hallucinated_spans"]
    try:
        return msgspec.json.decode(text or "[]", type=list[tuple[int, int]])
    except msgspec.MsgspecError:
        raise InputError(
            f"{part.name}: row {part.ids[row]!r}: field 'hallucinated_spans': expected a JSON list "
            f"of [start, end], got {text!r}."
        ) from None


def _compute_auc_cell(
    judgements: Mapping[Hashable, JudgedItem],
    units: NDArray[np.intp],
    resamples: int,
    seed: tuple[int, int],
    confidence: float,
) -> AucCell:
    """Returns the AUC and its interval; examples of a unit, with all words, are drawn together."""
    rows = judgements.values()
    scores, labels = np.array([row.score for row in rows]), np.array([row.label for row in rows])
    if len(np.unique(labels)) < 2:
        return AucCell(math.nan, NO_INTERVAL)
    if not np.ptp(scores):
        return AucCell(math.nan, NO_INTERVAL, undefined=ALL_EQUAL)
    clusters, draws = [units[row.row] for row in rows], Draws(resamples, confidence, seed)
    (cell,) = bootstrap(auc_of_weights(scores[None], labels), len(labels), draws, clusters)
    return AucCell(*cell)


class Key(NamedTuple):
    """The position of a cell in a table."""

    slice: str
    error: str
    method: str


@dataclasses.dataclass(frozen=True)
class Detection:
    """How well a method detects an error in a test set.

    Attributes:
      cell: the AUC with its interval.
      p_value: corrected p-value of the difference to the best method; NaN for the best itself, and
        if there is nothing to compare.
      rows: number of compared rows, or words.
      errors: number of these with the error.
      best: whether no other method has a larger AUC.
    """

    cell: AucCell
    p_value: float
    rows: int
    errors: int
    best: bool

    @property
    def significant(self) -> bool:
        """Whether the method is significantly worse than the best."""
        return self.p_value <= SIGNIFICANT


def detections(
    corpora: Mapping[str, Corpus],
    methods: Mapping[str, Mapping[str, str]],
    words: bool = False,
    resamples: int = 1000,
    seed: int = 0,
    cluster_field: str = AUTO,
    confidence: float = 0.95,
) -> dict[Key, Detection]:
    """Returns the cells of a table, each method compared with the best of its test set and error.

    Uses Hanley and McNeil's test on the rows, or words, that all methods score, with Bonferroni's
    correction over all comparisons of the table.

    Args:
      corpora: the scored test sets, with the fields that `select_judged_rows` describes.
      methods: for each method, the scorer of each error; scorers without scores have no cells.
      words: detect erroneous words instead of examples.
      resamples: number of resamples of the bootstrap over units.
      seed: seed of the resamples.
      cluster_field: see `faith_jax.statistics.units.units_of`.
      confidence: confidence of the intervals.
    """
    table: dict[Key, Detection] = {}
    for number, (name, corpus) in enumerate(corpora.items()):
        units = units_of([corpus], cluster_field).numbers
        for error in ERRORS:
            usable = detectors(corpus, error, words)
            rows = {
                method: select_judged_rows(corpus, scorers[error], error, words)
                for method, scorers in methods.items()
                if scorers.get(error) in usable
            }
            drawn = units, resamples, (seed, number), confidence
            cells = {
                method: _compute_auc_cell(examples, *drawn) for method, examples in rows.items()
            }
            for method, detection in _compare_methods(cells, rows).items():
                table[Key(name, error, method)] = detection
    corrected = bonferroni([detection.p_value for detection in table.values()]).tolist()
    return {
        key: dataclasses.replace(detection, p_value=value)
        for (key, detection), value in zip(table.items(), corrected, strict=True)
    }


def _compare_methods(
    cells: Mapping[str, AucCell], rows: Mapping[str, Mapping[Hashable, JudgedItem]]
) -> dict[str, Detection]:
    """Returns the methods' results for a test set and error, with uncorrected p-values."""
    if not cells:
        return {}
    first, *further = rows.values()
    common = [key for key in first if all(key in examples for examples in further)]
    labels = np.array([first[key].label for key in common])
    scores = {m: np.array([examples[key].score for key in common]) for m, examples in rows.items()}
    areas = {m: -math.inf if math.isnan(cell.auc) else cell.auc for m, cell in cells.items()}
    best = max(areas, key=areas.__getitem__)
    errors, by_method = int(len(labels) - labels.sum()), {}
    for method, cell in cells.items():
        has_area, is_best = not math.isnan(cell.auc), method == best
        p_value = math.nan
        if has_area and not is_best:
            p_value = hanley_mcneil_test(scores[best], scores[method], labels).p_value
        by_method[method] = Detection(cell, p_value, len(labels), errors, has_area and is_best)
    return by_method


def comparisons(table: Mapping[Key, Detection]) -> int:
    """Returns how many methods of a table are compared with a best method."""
    return sum(not math.isnan(detection.p_value) for detection in table.values())
