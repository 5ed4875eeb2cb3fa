"""How well scores tell faithful responses from others: the area under the ROC curve.

Labels are 1 (faithful) and 0; scores are higher for what is more faithful. Ties count half.

>>> roc_auc([0.9, 0.8, 0.8, 0.1], [1, 1, 0, 0])
0.875
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Weights of this many cells are held at a time: [rows, resamples].
_CELLS = 1 << 24


def checked(scores: ArrayLike, labels: ArrayLike) -> tuple[NDArray, NDArray]:
    """Returns scores [..., rows] as float64 and labels [rows] as bool.

    Raises:
      ValueError: for lengths that differ, scores that are not finite, and other labels.
    """
    values = np.asarray(scores, np.float64)
    given = np.asarray(labels)
    if given.ndim != 1 or values.shape[-1:] != given.shape:
        raise ValueError(f"Scores of the shape {values.shape} and labels of {given.shape}.")
    if not np.isfinite(values).all():
        place = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(f"The score of row {place[-1]} is {values[tuple(place)]}.")
    if not np.isin(given, (0, 1)).all():
        raise ValueError("Labels are 0 and 1.")
    return values, given.astype(bool)


def roc_auc(scores: ArrayLike, labels: ArrayLike) -> float:
    """Returns the area under the ROC curve, in [0, 1]; NaN where one of the classes is missing.

    It is the probability that a faithful response has a higher score than another one, ties
    counting
    half; 0.5 = chance. Scores and labels are [rows], as `checked` wants them.
    """
    values, positive = checked(scores, labels)
    weights = np.ones((positive.size, 1), np.uint16)
    return float(weighted_roc_auc(values, positive, weights)[0])


def weighted_roc_auc(
    scores: NDArray[np.float64], positive: NDArray[np.bool_], weights: NDArray[np.unsignedinteger]
) -> NDArray[np.float64]:
    """Returns one AUC for each column of weights, exactly; NaN where a class has no weight.

    The rows are sorted once for all columns. Scores and `positive` are [rows]; weights are whole
    numbers [rows, columns], how often each row counts.
    """
    places = np.flatnonzero(~positive)
    places = places[np.argsort(scores[places], kind="stable")]
    negatives = weights[places]
    ordered, own = scores[places], scores[positive]
    # How many negatives lie below each positive, and how many do not lie above it.
    below = np.searchsorted(ordered, own, side="left")
    not_above = np.searchsorted(ordered, own, side="right")
    tied = bool((below != not_above).any())
    positives = weights[positive]
    step = max(1, _CELLS // max(1, len(scores)))
    found = [
        _areas(positives[:, i : i + step], negatives[:, i : i + step], below, not_above, tied)
        for i in range(0, weights.shape[1], step)
    ]
    return np.concatenate(found) if found else np.zeros(0)


def _areas(
    positives: NDArray[np.unsignedinteger],
    negatives: NDArray[np.unsignedinteger],
    below: NDArray[np.intp],
    not_above: NDArray[np.intp],
    tied: bool,
) -> NDArray[np.float64]:
    columns = positives.shape[1]
    totals = positives.sum(axis=0, dtype=np.int64), negatives.sum(axis=0, dtype=np.int64)
    largest = max((int(p) * int(n) for p, n in zip(*totals, strict=True)), default=0)
    sums = np.int32 if 2 * largest < 2**31 else np.int64
    # Small integers where they hold the counts: half of the memory to move.
    small = max(totals[0].max(initial=0), totals[1].max(initial=0)) < 2**16
    kind = np.uint16 if small else np.int64
    cumulative: NDArray[np.integer] = np.zeros((len(negatives) + 1, columns), kind)
    for row, drawn in enumerate(negatives):  # ten times as fast as cumsum along this axis
        np.add(cumulative[row], drawn, out=cumulative[row + 1])
    weights: NDArray[np.integer] = positives.astype(kind, copy=False)
    wins = np.einsum("pc,pc->c", weights, cumulative[below], dtype=sums)
    ties: Any = 0
    if tied:
        ties = np.einsum("pc,pc->c", weights, cumulative[not_above], dtype=sums) - wins
    with np.errstate(invalid="ignore", divide="ignore"):
        return (wins + 0.5 * ties) / (totals[0] * totals[1].astype(np.float64))
