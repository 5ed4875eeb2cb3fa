"""How well scores tell faithful responses from others: the area under the ROC curve.

Labels are 1 (faithful) and 0; scores are higher for what is more faithful. Ties count half.

>>> roc_auc([0.9, 0.8, 0.8, 0.1], [1, 1, 0, 0])
0.875
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Weights of this many cells are held at a time: [resamples, rows].
CELLS = 1 << 19


def checked(scores: ArrayLike, labels: ArrayLike) -> tuple[NDArray, NDArray]:
    """Returns scores [..., rows] as float64 and labels [rows] as bool.

    Raises:
      ValueError: for lengths that differ, scores that are not finite, and other labels.
    """
    values = np.asarray(scores, np.float64)
    classes = np.asarray(labels)
    if classes.ndim != 1 or values.shape[-1:] != classes.shape:
        raise ValueError(f"Scores of the shape {values.shape} and labels of {classes.shape}.")
    if not np.isfinite(values).all():
        place = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(f"The score of row {place[-1]} is {values[tuple(place)]}.")
    if not np.isin(classes, (0, 1)).all():
        raise ValueError("Labels are 0 and 1.")
    return values, classes.astype(bool)


def roc_auc(scores: ArrayLike, labels: ArrayLike) -> float:
    """Returns the area under the ROC curve, in [0, 1]; NaN where one of the classes is missing.

    It is the probability that a faithful response has a higher score than another one, ties
    counting half; 0.5 = chance. Scores and labels are [rows], as `checked` wants them.
    """
    values, positive = checked(scores, labels)
    weights = np.ones((positive.size, 1), np.uint16)
    return float(weighted_roc_auc(values, positive, weights)[0])


def weighted_roc_auc(
    scores: NDArray[np.float64], positive: NDArray[np.bool_], weights: NDArray[np.unsignedinteger]
) -> NDArray[np.float64]:
    """Returns one AUC for each column of weights, exactly; NaN where a class has no weight.

    Scores and `positive` are [rows]; weights are whole numbers [rows, columns], how often each row
    counts.
    """
    order, step = sorted_classes(scores, positive), max(1, CELLS // max(1, len(scores)))
    lines = weights.T
    areas = [weighted_areas(order, lines[i : i + step]) for i in range(0, len(lines), step)]
    return np.concatenate(areas) if areas else np.zeros(0)


class SortedClasses(NamedTuple):
    """The rows of both classes, sorted by their scores.

    Attributes:
      positives: the numbers of the rows.
      negatives: likewise.
      below: how many negatives lie below each positive.
      not_above: how many do not lie above it; None = as many, as there are no ties.
    """

    positives: NDArray[np.intp]
    negatives: NDArray[np.intp]
    below: NDArray[np.intp]
    not_above: NDArray[np.intp] | None


def sorted_classes(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> SortedClasses:
    """Sorts rows once, for all weights; see `weighted_roc_auc`."""
    places = np.argsort(scores, kind="stable")
    positives, negatives = places[positive[places]], places[~positive[places]]
    ordered, positive_scores = scores[negatives], scores[positives]
    below = np.searchsorted(ordered, positive_scores, side="left")
    not_above = np.searchsorted(ordered, positive_scores, side="right")
    tied = bool((below != not_above).any())
    return SortedClasses(positives, negatives, below, not_above if tied else None)


def weighted_areas(
    order: SortedClasses, weights: NDArray[np.unsignedinteger]
) -> NDArray[np.float64]:
    """Returns one AUC for each line of weights [lines, rows]; see `weighted_roc_auc`."""
    positives, negatives = (weights.take(side, axis=1) for side in order[:2])  # faster than [:, …]
    totals = (side.sum(axis=1, dtype=np.int64) for side in (positives, negatives))
    pairs = np.prod([side.astype(np.float64) for side in totals], axis=0)
    # How much weight lies below the first negatives, from none to all of them.
    cumulative = np.zeros((len(weights), len(order.negatives) + 1), np.int64)
    np.cumsum(negatives, axis=1, out=cumulative[:, 1:])
    wins = np.einsum("lp,lp->l", positives, cumulative.take(order.below, axis=1), dtype=np.int64)
    ties: Any = 0
    if order.not_above is not None:
        reached = cumulative.take(order.not_above, axis=1)
        ties = np.einsum("lp,lp->l", positives, reached, dtype=np.int64) - wins
    with np.errstate(invalid="ignore", divide="ignore"):
        return (wins + 0.5 * ties) / pairs
