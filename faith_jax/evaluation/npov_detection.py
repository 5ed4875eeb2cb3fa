"""Chang 2024's tables 1, 2, 3, 5 and 6: how well methods detect errors, compared with the best.

Each cell has a bootstrap interval over clusters of rows, and the p-value of its difference to the
best method of its test set and error: Hanley and McNeil's test on the rows, or words, that all of
them score, with Bonferroni's correction over all comparisons of a table.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from faith_jax.evaluation.auc_table import SIGNIFICANT, AucCell
from faith_jax.evaluation.npov_table import (
    ERRORS,
    compared_rows,
    npov_cells,
    npov_word_cells,
    word_scores,
)
from faith_jax.evaluation.scored_corpora import Corpus
from faith_jax.evaluation.significance import bonferroni, hanley_mcneil_test

AGGREGATIONS = ("max", "sum", "negative_entropy")


def salience_name(error: str, aggregation: str) -> str:
    """Returns the name of salience's scores by an aggregation; the usual one has no suffix."""
    suffix = "" if aggregation == AGGREGATIONS[0] else f"_{aggregation}"
    return f"salience_{error}{suffix}"


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
    """Returns the cells of a table.

    Args:
      corpora: the scored test sets.
      methods: for each method the scorer of each error; those without scores have no cells.
      words: of words, not of examples.
      resamples: of the bootstrap.
      seed: of the resamples.
      cluster_field: rows with the same value are drawn together.

    Raises:
      InputError: for rows that lack their fields.
    """
    wanted = {scorer for scorers in methods.values() for scorer in scorers.values()}
    kept = {
        name: corpus.only([scorer for scorer in corpus.scores if scorer in wanted])
        for name, corpus in corpora.items()
    }
    measure = npov_word_cells if words else npov_cells
    cells = measure(kept, "", resamples, seed=seed, cluster_field=cluster_field)
    found: dict[Key, Detection] = {}
    for name, corpus in kept.items():
        for error in ERRORS:
            own = {
                method: cells[error, scorers[error]][name]
                for method, scorers in methods.items()
                if name in cells.get((error, scorers.get(error, "")), {})
            }
            scorers = {method: methods[method][error] for method in own}
            found |= _compared(corpus, error, own, scorers, words)
    return _corrected(found)


def _compared(
    corpus: Corpus,
    error: str,
    cells: Mapping[str, AucCell],
    scorers: Mapping[str, str],
    words: bool,
) -> dict[Key, Detection]:
    """Returns the cells of one test set and error, with p-values that are not corrected yet."""
    if not cells:
        return {}
    scores, labels = (_word_rows if words else _rows)(corpus, error, scorers)
    areas = {method: cell.auc for method, cell in cells.items()}
    best = max(areas, key=lambda method: -math.inf if math.isnan(a := areas[method]) else a)
    found = {}
    for method, cell in cells.items():
        is_best = method == best and not math.isnan(cell.auc)
        p_value = math.nan
        if not is_best and not math.isnan(cell.auc):
            p_value = hanley_mcneil_test(scores[best], scores[method], labels).p_value
        key, errors = Key(corpus.name, error, method), int(len(labels) - labels.sum())
        found[key] = Detection(cell, p_value, len(labels), errors, is_best)
    return found


def _rows(
    corpus: Corpus, error: str, scorers: Mapping[str, str]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns the methods' scores of the examples that all of them score, and the labels."""
    rows, labels = compared_rows(corpus, error)
    scores = {method: corpus.scores[scorer][rows] for method, scorer in scorers.items()}
    known = ~np.any([np.isnan(values) for values in scores.values()], axis=0)
    return {method: values[known] for method, values in scores.items()}, labels[known]


def _word_rows(
    corpus: Corpus, error: str, scorers: Mapping[str, str]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns the methods' scores of the words that all of them score, and the labels."""
    found = {
        method: {word[:4]: word for word in word_scores(corpus, scorer, error)}
        for method, scorer in scorers.items()
    }
    first, *others = found.values()
    common = [place for place in first if all(place in words for words in others)]
    labels = np.array([float(not first[place].wrong) for place in common])
    scores = {
        method: np.array([words[place].score for place in common])
        for method, words in found.items()
    }
    return scores, labels


def _corrected(found: Mapping[Key, Detection]) -> dict[Key, Detection]:
    values = bonferroni([detection.p_value for detection in found.values()]).tolist()
    return {
        key: dataclasses.replace(detection, p_value=value)
        for (key, detection), value in zip(found.items(), values, strict=True)
    }


def comparisons(found: Mapping[Key, Detection]) -> int:
    """Returns how many methods of a table are compared with a best one."""
    return sum(not math.isnan(detection.p_value) for detection in found.values())
