"""Chang 2024's detection study: who detects hallucinations and coverage errors of NPOV responses.

By example (table 1): error-free responses against those with the error, whatever else they have. By
word (table 3): words of arguments that are not told against the others, and words of the response
that no argument says against the others.

`npov_cells` has an AUC with its interval for each scorer; `detections` also compares each method
with the best one of its test set and error.
"""

import contextlib
import dataclasses
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.errors import InputError
from faith_jax.statistics.auc_table import AucCell
from faith_jax.statistics.bootstrap import Interval, bootstrap_auc, percentile_interval
from faith_jax.statistics.roc import roc_auc
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.significance import SIGNIFICANT, bonferroni, hanley_mcneil_test

ERRORS = ("hallucination", "coverage")
_TRUTH = {"0": False, "1": True, "false": False, "true": True}
# The fields that say of an example which errors it has.
_FIELDS = {"hallucination": "has_hallucination", "coverage": "has_coverage_error"}


class Judged(NamedTuple):
    """An example, or a word of one, and what a scorer says of it.

    Attributes:
      row: the example's number.
      score: higher = more faithful.
      label: 0 = it has the error, 1 = it has none.
    """

    row: int
    score: float
    label: float


def npov_cells(
    corpora: Mapping[str, Corpus],
    slice_field: str = "",
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    words: bool = False,
) -> dict[tuple[str, str], dict[str, AucCell]]:
    """Returns the AUC of each scorer by error and slice.

    A scorer detects the error that its name holds ("npov_rouge1_coverage"), or both where it names
    none. See `judged` for the fields that rows need.

    Args:
      corpora: the scored rows.
      slice_field: the field that names an example's slice; "" = each corpus is one.
      resamples: of the bootstrap over examples.
      confidence: of the intervals.
      seed: of the resamples.
      words: detect words; scorers without words have no cells.

    Returns:
      By (error, scorer), then slice; NaN where a slice lacks one of the kinds.

    Raises:
      InputError: where a row lacks one of the fields, or has another value there.
    """
    found: dict[tuple[str, str], dict[str, AucCell]] = {}
    for number, (name, part) in enumerate(_slices(corpora, slice_field).items()):
        for error in ERRORS:
            for scorer in detectors(part, error, words):
                rows = list(judged(part, scorer, error, words).values())
                cell = _cell(rows, part.ids, resamples, confidence, (seed, number))
                found.setdefault((error, scorer), {})[name] = cell
    return found


def detectors(part: Corpus, error: str, words: bool = False) -> list[str]:
    """Returns the scorers that detect an error: its name is in theirs, or none is."""
    other = next(name for name in ERRORS if name != error)
    named = [name for name in part.scores if error in name or other not in name]
    if not words:
        return named
    if error == "hallucination" and not _has_spans(part):
        return []
    return [name for name in named if name in part.words]


def without_spans(corpora: Mapping[str, Corpus], slice_field: str = "") -> tuple[str, ...]:
    """Returns why words of hallucinations are not detected, where that is so.

    Args:
      corpora: see `npov_cells`.
      slice_field: see `npov_cells`.
    """
    lacking = [
        name
        for name, part in _slices(corpora, slice_field).items()
        if not _has_spans(part) and set(detectors(part, "hallucination")) & set(part.words)
    ]
    if not lacking:
        return ()
    return (
        f"Hallucinations: left out for {', '.join(lacking)}, whose rows do not say which words are "
        "hallucinated (the field 'hallucinated_spans').",
    )


def _has_spans(part: Corpus) -> bool:
    """Returns whether all rows say which words of the response are hallucinated."""
    return bool(part.fields) and all("hallucinated_spans" in fields for fields in part.fields)


def judged(part: Corpus, scorer: str, error: str, words: bool = False) -> dict[Hashable, Judged]:
    """Returns the examples that are error-free or have the error, or the words that may be wrong.

    Examples say which errors they have in the fields `has_hallucination` and `has_coverage_error`
    ("0" or "1"). Uncovered are the words of the argument that the field `added_argument` names, or
    of those that it lists in JSON. Hallucinated are the words of the response that meet one of the
    spans of the field `hallucinated_spans`, a JSON list of [start, end].

    Args:
      part: the scored rows.
      scorer: of `detectors`.
      error: of `ERRORS`.
      words: see `npov_cells`.

    Returns:
      By row, or by row, text, start and end of a word; without undefined scores.

    Raises:
      InputError: where a row lacks one of the fields, or has another value there.
    """
    found: dict[Hashable, Judged] = {}
    if not words:
        flags = {name: _flags(part, field) for name, field in _FIELDS.items()}
        for row, score in enumerate(part.scores[scorer].tolist()):
            clean = not any(values[row] for values in flags.values())
            if (clean or flags[error][row]) and not math.isnan(score):
                found[row] = Judged(row, score, float(clean))
        return found
    is_hallucination = error == "hallucination"
    added = [] if is_hallucination else _added_arguments(part)
    for row, row_words in enumerate(part.words[scorer]):
        spans = _spans(part, row) if is_hallucination else []
        for start, end, score, text in row_words:
            if (text is None) != is_hallucination:
                continue
            if text is None:
                wrong = any(start < last and first < end for first, last in spans)
            else:
                wrong = part.groundings[row][text] in added[row]
            found[row, text, start, end] = Judged(row, float(score), float(not wrong))
    return found


def _added_arguments(part: Corpus) -> list[list[str]]:
    """Returns the arguments of each row that its response leaves out: one text, or a JSON list."""
    found = []
    for text in part.field("added_argument"):
        texts = None
        if text.startswith("["):
            with contextlib.suppress(ValueError):
                texts = json.loads(text)
        is_list = isinstance(texts, list) and all(isinstance(one, str) for one in texts)
        found.append(texts if is_list and texts is not None else [text] if text else [])
    return found


def _spans(part: Corpus, row: int) -> list[list[int]]:
    text = part.fields[row]["hallucinated_spans"]
    try:
        spans = json.loads(text or "[]")
        if all(len(span) == 2 and all(isinstance(i, int) for i in span) for span in spans):
            return spans
    except (ValueError, TypeError):
        pass
    raise InputError(
        f"{part.name}: row {part.ids[row]!r}: field 'hallucinated_spans': expected a JSON list of "
        f"[start, end], got {text!r}."
    )


def _slices(corpora: Mapping[str, Corpus], field: str) -> dict[str, Corpus]:
    if not field:
        return dict(corpora)
    slices: dict[str, Corpus] = {}
    for corpus in corpora.values():
        names = corpus.field(field)
        for name in dict.fromkeys(names):
            if name in slices:
                raise InputError(f"Two corpora have the slice {name!r}.")
            slices[name] = corpus.part(np.array([other == name for other in names]))
    return slices


def _flags(corpus: Corpus, field: str) -> np.ndarray:
    values = corpus.field(field)
    for identifier, value in zip(corpus.ids, values, strict=True):
        if value not in _TRUTH:
            raise InputError(
                f"{corpus.name}: row {identifier!r}: field {field!r}: expected 0 or 1, got "
                f"{value!r}."
            )
    return np.array([_TRUTH[value] for value in values])


def _cell(
    rows: Sequence[Judged],
    groups: Sequence[str],
    resamples: int,
    confidence: float,
    seed: tuple[int, int],
) -> AucCell:
    """Returns the area; examples of one group are drawn together, with all their words."""
    scores, labels = np.array([row.score for row in rows]), np.array([row.label for row in rows])
    area = roc_auc(scores, labels)
    if math.isnan(area):
        return AucCell(area, Interval(area, area))
    clusters = [groups[row.row] for row in rows]
    areas = bootstrap_auc(scores[None], labels, resamples, seed, clusters)[0]
    return AucCell(area, percentile_interval(areas, confidence))


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
    cluster_field: str = "",
) -> dict[Key, Detection]:
    """Returns the cells of a table, each method compared with the best of its test set and error.

    It is Hanley and McNeil's test on the rows, or words, that all of them score, with Bonferroni's
    correction over all comparisons of the table.

    Args:
      corpora: the scored test sets.
      methods: for each method the scorer of each error; those without scores have no cells.
      words: of words, not of examples.
      resamples: of the bootstrap.
      seed: of the resamples.
      cluster_field: rows with the same value are drawn together; "" = each on its own.

    Raises:
      InputError: for rows that lack their fields.
    """
    found: dict[Key, Detection] = {}
    for number, (name, corpus) in enumerate(corpora.items()):
        groups = corpus.field(cluster_field) if cluster_field else corpus.ids
        for error in ERRORS:
            known = detectors(corpus, error, words)
            rows = {
                method: judged(corpus, scorers[error], error, words)
                for method, scorers in methods.items()
                if scorers.get(error) in known
            }
            cells = {
                method: _cell(list(own.values()), groups, resamples, 0.95, (seed, number))
                for method, own in rows.items()
            }
            for method, detection in _compared(cells, rows).items():
                found[Key(name, error, method)] = detection
    corrected = bonferroni([detection.p_value for detection in found.values()]).tolist()
    return {
        key: dataclasses.replace(detection, p_value=value)
        for (key, detection), value in zip(found.items(), corrected, strict=True)
    }


def _compared(
    cells: Mapping[str, AucCell], rows: Mapping[str, Mapping[Hashable, Judged]]
) -> dict[str, Detection]:
    """Returns the methods of one test set and error, with p-values that are not corrected yet."""
    if not cells:
        return {}
    first, *others = rows.values()
    common = [key for key in first if all(key in other for other in others)]
    labels = np.array([first[key].label for key in common])
    scores = {m: np.array([own[key].score for key in common]) for m, own in rows.items()}
    areas = {m: -math.inf if math.isnan(cell.auc) else cell.auc for m, cell in cells.items()}
    best = max(areas, key=areas.__getitem__)
    errors, found = int(len(labels) - labels.sum()), {}
    for method, cell in cells.items():
        has_area, p_value = not math.isnan(cell.auc), math.nan
        if has_area and method != best:
            p_value = hanley_mcneil_test(scores[best], scores[method], labels).p_value
        is_best = has_area and method == best
        found[method] = Detection(cell, p_value, len(labels), errors, is_best)
    return found


def comparisons(found: Mapping[Key, Detection]) -> int:
    """Returns how many methods of a table are compared with a best one."""
    return sum(not math.isnan(detection.p_value) for detection in found.values())
