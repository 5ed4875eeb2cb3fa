"""Chang 2024's tables 1 and 3: detecting hallucinations and coverage errors of NPOV responses.

By example (table 1): error-free responses against those with the error. By word (table 3): words of
arguments that are not told against the others, and words of the response that no argument says
against the others.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from faith_jax.errors import InputError
from faith_jax.evaluation.auc_table import AucCell
from faith_jax.evaluation.bootstrap import Interval, bootstrap_auc, percentile_interval
from faith_jax.evaluation.roc import roc_auc
from faith_jax.evaluation.scored_corpora import Corpus

ERRORS = ("hallucination", "coverage")
_TRUTH = {"0": False, "1": True, "false": False, "true": True}
# The fields that say of an example which errors it has.
_FIELDS = {"hallucination": "has_hallucination", "coverage": "has_coverage_error"}


def npov_cells(
    corpora: Mapping[str, Corpus],
    slice_field: str = "",
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[tuple[str, str], dict[str, AucCell]]:
    """Returns the AUC of each scorer by error and slice.

    A slice compares error-free examples with those that have the error, whatever else they have. A
    scorer detects the error that its name holds ("npov_rouge1_coverage"), or both where it names
    none.

    Args:
      corpora: with the fields `has_hallucination` and `has_coverage_error` ("0" or "1").
      slice_field: the field that names an example's slice; "" = each corpus is one.
      resamples: of the bootstrap.
      confidence: of the intervals.
      seed: of the resamples.

    Returns:
      By (error, scorer), then slice; NaN where a slice lacks one of the kinds.

    Raises:
      InputError: where a row lacks one of the fields, or none of the scorers detects anything.
    """
    found: dict[tuple[str, str], dict[str, AucCell]] = {}
    for number, (name, part) in enumerate(_slices(corpora, slice_field).items()):
        given = {error: _flags(part, field) for error, field in _FIELDS.items()}
        clean = ~np.any(list(given.values()), axis=0)
        for error in ERRORS:
            rows = clean | given[error]
            labels = clean[rows].astype(float)
            for scorer in _detectors(part, error):
                scores = part.scores[scorer][rows]
                cell = _cell(scores, labels, resamples, confidence, (seed, number))
                found.setdefault((error, scorer), {})[name] = cell
    return found


def npov_word_cells(
    corpora: Mapping[str, Corpus],
    slice_field: str = "",
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[tuple[str, str], dict[str, AucCell]]:
    """Returns the AUC of each scorer's words by error and slice, over all words of the slice.

    Uncovered are the words of the argument that the field `added_argument` names. Hallucinated are
    the words of the response that meet one of the spans of the field `hallucinated_spans`, a JSON
    list of [start, end]; a slice whose rows lack it has no such cell. Responses are drawn whole.

    Arguments and result are those of `npov_cells`; scorers without words have no cells.

    Raises:
      InputError: where a row lacks `added_argument`, or its spans are no list of pairs.
    """
    found: dict[tuple[str, str], dict[str, AucCell]] = {}
    for number, (name, part) in enumerate(_slices(corpora, slice_field).items()):
        for error in ERRORS:
            if error == "hallucination" and not _has_spans(part):
                continue
            for scorer in _detectors(part, error):
                if scorer not in part.words:
                    continue
                scores, labels, rows = _word_rows(part, scorer, error)
                cell = _cell(scores, labels, resamples, confidence, (seed, number), rows)
                found.setdefault((error, scorer), {})[name] = cell
    return found


def without_spans(corpora: Mapping[str, Corpus], slice_field: str = "") -> tuple[str, ...]:
    """Returns why words of hallucinations are not detected, where that is so.

    Args:
      corpora: see `npov_cells`.
      slice_field: see `npov_cells`.
    """
    lacking = [
        name
        for name, part in _slices(corpora, slice_field).items()
        if not _has_spans(part) and set(_detectors(part, "hallucination")) & set(part.words)
    ]
    if not lacking:
        return ()
    return (
        f"Hallucinations: left out for {', '.join(lacking)}, whose rows do not say which words are "
        "hallucinated (the field 'hallucinated_spans').",
    )


def _has_spans(part: Corpus) -> bool:
    return bool(part.fields) and all("hallucinated_spans" in fields for fields in part.fields)


def _word_rows(part: Corpus, scorer: str, error: str) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Returns the words' scores, whether each is free of the error, and the row it belongs to."""
    added = part.field("added_argument") if error == "coverage" else []
    scores, labels, rows = [], [], []
    for row, words in enumerate(part.words[scorer]):
        spans = _spans(part, row) if error == "hallucination" else []
        for start, end, score, text in words:
            if (text is None) != (error == "hallucination"):
                continue
            if error == "hallucination":
                wrong = any(start < last and first < end for first, last in spans)
            else:
                wrong = part.groundings[row][text] == added[row]
            scores.append(float(score))
            labels.append(float(not wrong))
            rows.append(row)
    return np.array(scores), np.array(labels), rows


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


def _detectors(corpus: Corpus, error: str) -> list[str]:
    other = next(name for name in ERRORS if name != error)
    return [name for name in corpus.scores if error in name or other not in name]


def _cell(
    scores: np.ndarray,
    labels: np.ndarray,
    resamples: int,
    confidence: float,
    seed: tuple[int, int],
    clusters: Sequence[int] | None = None,
) -> AucCell:
    if clusters is None:
        known = ~np.isnan(scores)
        scores, labels = scores[known], labels[known]
    area = roc_auc(scores, labels)
    if area != area:
        return AucCell(area, Interval(area, area))
    areas = bootstrap_auc(scores[None], labels, resamples, seed, clusters)[0]
    return AucCell(area, percentile_interval(areas, confidence))
