"""Chang 2024's tables 1 and 3: detecting hallucinations and coverage errors of NPOV responses.

By example (table 1): error-free responses against those with the error. By word (table 3): words of
arguments that are not told against the others, and words of the response that no argument says
against the others.
"""

import contextlib
import json
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

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
    cluster_field: str = "",
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
      cluster_field: rows with the same value of this field are drawn together; "" = each on its
        own.

    Returns:
      By (error, scorer), then slice; NaN where a slice lacks one of the kinds.

    Raises:
      InputError: where a row lacks one of the fields, or none of the scorers detects anything.
    """
    found: dict[tuple[str, str], dict[str, AucCell]] = {}
    for number, (name, part) in enumerate(_slices(corpora, slice_field).items()):
        groups = np.array(part.field(cluster_field) if cluster_field else part.ids)
        for error in ERRORS:
            rows, labels = compared_rows(part, error)
            clusters = groups[rows].tolist() if cluster_field else None
            for scorer in detectors(part, error):
                scores = part.scores[scorer][rows]
                cell = _cell(scores, labels, resamples, confidence, (seed, number), clusters)
                found.setdefault((error, scorer), {})[name] = cell
    return found


def npov_word_cells(
    corpora: Mapping[str, Corpus],
    slice_field: str = "",
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    cluster_field: str = "",
) -> dict[tuple[str, str], dict[str, AucCell]]:
    """Returns the AUC of each scorer's words by error and slice, over all words of the slice.

    Uncovered are the words of the argument that the field `added_argument` names, or of those that
    it lists in JSON. Hallucinated are the words of the response that meet one of the spans of the
    field `hallucinated_spans`, a JSON list of [start, end]; a slice whose rows lack it has no such
    cell. Responses are drawn whole, or with a cluster field all of a cluster.

    Arguments and result are those of `npov_cells`; scorers without words have no cells.

    Raises:
      InputError: where a row lacks `added_argument`, or its spans are no list of pairs.
    """
    found: dict[tuple[str, str], dict[str, AucCell]] = {}
    for number, (name, part) in enumerate(_slices(corpora, slice_field).items()):
        groups = part.field(cluster_field) if cluster_field else list(part.ids)
        for error in ERRORS:
            if error == "hallucination" and not has_spans(part):
                continue
            for scorer in detectors(part, error):
                if scorer not in part.words:
                    continue
                words = word_scores(part, scorer, error)
                scores = np.array([word.score for word in words])
                labels = np.array([float(not word.wrong) for word in words])
                clusters = [groups[word.row] for word in words]
                cell = _cell(scores, labels, resamples, confidence, (seed, number), clusters)
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
        if not has_spans(part) and set(detectors(part, "hallucination")) & set(part.words)
    ]
    if not lacking:
        return ()
    return (
        f"Hallucinations: left out for {', '.join(lacking)}, whose rows do not say which words are "
        "hallucinated (the field 'hallucinated_spans').",
    )


def has_spans(part: Corpus) -> bool:
    """Returns whether all rows say which words of the response are hallucinated."""
    return bool(part.fields) and all("hallucinated_spans" in fields for fields in part.fields)


class ScoredWord(NamedTuple):
    """A word of a row and what a scorer says of it.

    Attributes:
      row: its number.
      text: of the grounding's text, None = the response.
      start: offset of its first character in the text.
      end: behind its last.
      score: higher = more faithful.
      wrong: whether it is part of the error.
    """

    row: int
    text: int | None
    start: int
    end: int
    score: float
    wrong: bool


def word_scores(part: Corpus, scorer: str, error: str) -> list[ScoredWord]:
    """Returns the words that may be part of an error: of the response, or of the arguments.

    Args:
      part: with the fields that `npov_word_cells` reads.
      scorer: one that scores words.
      error: of `ERRORS`.
    """
    is_hallucination = error == "hallucination"
    added = [] if is_hallucination else _added_arguments(part)
    found = []
    for row, words in enumerate(part.words[scorer]):
        spans = _spans(part, row) if is_hallucination else []
        for start, end, score, text in words:
            if (text is None) != is_hallucination:
                continue
            if text is None:
                wrong = any(start < last and first < end for first, last in spans)
            else:
                wrong = part.groundings[row][text] in added[row]
            found.append(ScoredWord(row, text, start, end, float(score), wrong))
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


def detectors(corpus: Corpus, error: str) -> list[str]:
    """Returns the scorers that detect an error: its name is in theirs, or none is."""
    other = next(name for name in ERRORS if name != error)
    return [name for name in corpus.scores if error in name or other not in name]


def compared_rows(corpus: Corpus, error: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns which rows are error-free or have the error: [rows], and of these which are free.

    Raises:
      InputError: see `npov_cells`.
    """
    given = {name: _flags(corpus, field) for name, field in _FIELDS.items()}
    clean = ~np.any(list(given.values()), axis=0)
    rows = clean | given[error]
    return rows, clean[rows].astype(float)


def _cell(
    scores: np.ndarray,
    labels: np.ndarray,
    resamples: int,
    confidence: float,
    seed: tuple[int, int],
    clusters: Sequence[Hashable] | None = None,
) -> AucCell:
    known = ~np.isnan(scores)
    scores, labels = scores[known], labels[known]
    if clusters is not None:
        clusters = [cluster for cluster, kept in zip(clusters, known, strict=True) if kept]
    area = roc_auc(scores, labels)
    if area != area:
        return AucCell(area, Interval(area, area))
    areas = bootstrap_auc(scores[None], labels, resamples, seed, clusters)[0]
    return AucCell(area, percentile_interval(areas, confidence))
