"""Chang 2024's detection study: who detects hallucinations and coverage errors of NPOV responses.

By example (table 1): error-free responses against those with the error, whatever else they have. By
word (table 3): words of arguments that are not told against the others, and words of the response
that no argument says against the others.

`detections` has an AUC with its interval for each method, and compares it with the best one of its
test set and error.
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
# The fields that say of an example which errors it has.
ERROR_FIELDS = {"hallucination": "has_hallucination", "coverage": "has_coverage_error"}


class JudgedItem(NamedTuple):
    """An example, or a word of one: its row, its score, and its label (0 = it has the error)."""

    row: int
    score: float
    label: float


def detectors(part: Corpus, error: str, words: bool = False) -> list[str]:
    """Returns the scorers that detect an error: its name is in theirs, or none is."""
    other_error = next(name for name in ERRORS if name != error)
    named = [name for name in part.scores if error in name or other_error not in name]
    if words and error == "hallucination" and not has_spans(part):
        return []
    return [name for name in named if name in part.words] if words else named


def has_spans(part: Corpus) -> bool:
    """Returns whether all rows say which words of the response are hallucinated."""
    return bool(part.fields) and all("hallucinated_spans" in fields for fields in part.fields)


def select_judged_rows(
    part: Corpus, scorer: str, error: str, words: bool = False
) -> dict[Hashable, JudgedItem]:
    """Returns by row the examples that are error-free or have the error, but undefined scores.

    With `words`, it returns the words that may be wrong, by row, text, start and end. Examples say
    which errors they have in the fields `has_hallucination` and `has_coverage_error` ("0" or "1").
    Uncovered are the words of the argument that the field `added_argument` names, or of those that
    it lists in JSON. Hallucinated are the words of the response that meet one of the spans of the
    field `hallucinated_spans`, a JSON list of [start, end].

    Raises:
      InputError: where a row lacks one of the fields, or has another value there.
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
    """Returns the arguments that a response leaves out, of one text or a JSON list."""
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
    """Returns the area; examples of one unit are drawn together, with all their words."""
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
    """Which cell of a table it is."""

    slice: str
    error: str
    method: str


@dataclasses.dataclass(frozen=True)
class Detection:
    """How well a method detects an error in a test set.

    Attributes:
      cell: the AUC with its interval.
      p_value: corrected, of the difference to the best method; NaN for the best itself and where
        there is nothing to compare.
      rows: that are compared, or words.
      errors: how many of them have the error.
      best: whether no other method has a larger AUC.
    """

    cell: AucCell
    p_value: float
    rows: int
    errors: int
    best: bool

    @property
    def significant(self) -> bool:
        """Whether it is significantly worse than the best."""
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

    It is Hanley and McNeil's test on the rows, or words, that all of them score, with Bonferroni's
    correction over all comparisons of the table.

    Args:
      corpora: the scored test sets, with the fields that `select_judged_rows` describes.
      methods: for each method the scorer of each error; those without scores have no cells.
      words: of words, not of examples.
      resamples: of the bootstrap over units.
      seed: of the resamples.
      cluster_field: what rows of a unit share; see `faith_jax.statistics.units.units_of`.
      confidence: of the intervals.
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
    """Returns the methods of one test set and error, with p-values that are not corrected yet."""
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
    """Returns how many methods of a table are compared with a best one."""
    return sum(not math.isnan(detection.p_value) for detection in table.values())
