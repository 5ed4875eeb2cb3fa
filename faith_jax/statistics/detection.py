"""How well calls find unfaithful responses: balanced accuracy, precision, recall and F1.

A figure is a function of sums over rows, such as how many faithful rows there are and how many of
them are called so. Its standard error comes from leaving out one unit at a time (all rows of a
document), by subtracting the unit's sums: no row is drawn, and nothing depends on a seed.

>>> labels, calls = np.array([1, 1, 0, 0]), np.array([True, False, False, False])
>>> balanced_accuracy(labels, calls, np.arange(4)).value
0.75
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.statistics.estimates import Estimate, jackknife_sums, unit_sums

Floats = NDArray[np.float64]
Span = tuple[int, int]  # of characters: start, end, exclusive
_ROUNDING = 1e-24  # a variance that is rounding


def balanced_accuracy(labels: ArrayLike, calls: ArrayLike, units: NDArray[np.intp]) -> Estimate:
    """Returns the mean of the shares of faithful and of unfaithful rows that are called so.

    It is in [0, 1]; 0.5 is chance. NaN where a class is missing; without an error where leaving out
    a unit leaves none of a class. Labels (1 = faithful, 0 = not), calls (whether a row is called
    faithful) and the numbers of the rows' units, from 0, are [rows].
    """
    truth, called = np.asarray(labels, np.float64), np.asarray(calls, bool)
    # [units, 4]: faithful rows, those called so; unfaithful rows, those called so.
    sums = _sum_by_unit(*_of_classes(truth, called), units=units)
    rows = sums[:, [0, 2]]
    # An end of the scale rests on the units of the smaller class.
    ends = int(np.count_nonzero(rows, axis=0).min(initial=len(sums)))
    return _two_class_estimate(_mean_recall, sums, rows, sums[:, [1, 3]], 1)._replace(ends=ends)


def balanced_accuracy_difference(
    labels: ArrayLike, calls: ArrayLike, others: ArrayLike, units: NDArray[np.intp]
) -> Estimate:
    """Returns by how much the balanced accuracy of calls is above that of others, paired by unit.

    The p-value is at least that of exchanging the units in which the two call rows differently.
    """
    truth, (called, beside) = np.asarray(labels, np.float64), np.array([calls, others], bool)
    first, second = _of_classes(truth, called), _of_classes(truth, beside)
    sums = _sum_by_unit(*first, *second, units=units)

    def difference(part: Floats) -> Floats:
        return _mean_recall(part[:, :4]) - _mean_recall(part[:, 4:])

    rows, gains = sums[:, [0, 2]], sums[:, [1, 3]] - sums[:, [5, 7]]
    differing = len(np.unique(units[called != beside]))
    estimate = _two_class_estimate(difference, sums, rows, gains, 0)
    return estimate._replace(differing=differing)


def error_figures(
    hits: ArrayLike, called: ArrayLike, true: ArrayLike, units: NDArray[np.intp]
) -> tuple[Estimate, Estimate, Estimate]:
    """Returns precision, recall and F1 of what is called an error, each in [0, 1].

    Of each row [rows] how much (responses or characters) is called an error and is one, is called
    one, and is one; and the number of its unit, from 0.
    """
    sums = _sum_by_unit(hits, called, true, units=units)
    # Rows that are neither called errors nor are errors change no figure, and weigh nothing.
    weights = sums[:, 1] + sums[:, 2]
    return (
        jackknife_sums(lambda s: _divide_or_nan(s[:, 0], s[:, 1]), sums, weights),
        jackknife_sums(lambda s: _divide_or_nan(s[:, 0], s[:, 2]), sums, weights),
        # 2PR / (P + R) with P = hits / called and R = hits / true.
        jackknife_sums(lambda s: _divide_or_nan(2 * s[:, 0], s[:, 1] + s[:, 2]), sums, weights),
    )


def best_balanced_threshold(scores: ArrayLike, labels: ArrayLike) -> float:
    """Returns the score from which on calling rows faithful has the best balanced accuracy.

    Of several equally good ones it is the highest; NaN where a class is missing. Scores (higher =
    more faithful) and labels (1 = faithful, 0 = not) are [rows]; a row with NaN does not count.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    defined = ~np.isnan(values + truth)
    values, truth = values[defined], truth[defined]
    if np.unique(truth).size < 2:
        return math.nan
    # Falling, so that the first of several equally good ones is the highest.
    places = np.unique(values)[::-1]
    scores_of_ones, scores_of_zeros = np.sort(values[truth == 1]), np.sort(values[truth == 0])
    # Called right: the ones at or above a threshold, and the zeros below it. [distinct scores].
    recall_of_ones = 1 - np.searchsorted(scores_of_ones, places) / scores_of_ones.size
    recall_of_zeros = np.searchsorted(scores_of_zeros, places) / scores_of_zeros.size
    mean = (recall_of_ones + recall_of_zeros) / 2
    return float(places[mean >= mean.max() - 1e-12][0])  # equal but for rounding


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """Returns the same characters as spans in order that do not meet.

    >>> merge_spans([(5, 8), (0, 3), (2, 4), (9, 9)])
    [(0, 4), (5, 8)]
    """
    joined: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def called_spans(words: Sequence[Sequence[Any]], response: str, cut: float) -> list[Span]:
    """Returns the spans of a response whose words have scores below a cut.

    Words that nothing but white space parts are one span, as people mark them.
    """
    called = sorted(
        (start, end) for start, end, score, text in words if text is None and score < cut
    )
    bridges = [
        (end, start)
        for (_, end), (start, _) in itertools.pairwise(called)
        if end < start and response[end:start].isspace()
    ]
    return merge_spans([*called, *bridges])


def shared_characters(first: Sequence[Span], second: Sequence[Span]) -> int:
    """Returns how many characters are in both; each is of `merge_spans`."""
    # Merged spans do not overlap, so that no character counts twice.
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second)


def _sum_by_unit(*columns: ArrayLike, units: NDArray[np.intp]) -> Floats:
    """Returns the sums of columns [rows] over the rows of each unit: [units, columns]."""
    values = np.stack([np.asarray(column, np.float64) for column in columns], axis=1)
    return unit_sums(values, units, int(units.max(initial=-1)) + 1)


def _of_classes(truth: Floats, called: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Returns which rows are faithful, and called so; unfaithful, and called so: [rows] each."""
    return [truth == 1, (truth == 1) & called, truth == 0, (truth == 0) & ~called]


def _two_class_estimate(
    figure: Callable[[Floats], Floats], sums: Floats, rows: Floats, gains: Floats, added: int
) -> Estimate:
    """Returns the mean of a rate of each class, or of its differences.

    Where all rows of one class are called alike, and those of the other one are not, the class has
    the variance that two more units would give it: one called right and one wrong (Agresti & Caffo
    2000), or of a difference half a unit of each kind (Agresti & Min 2005). Else a class of three
    rows would be known for certain. The degrees of freedom are those of two variances that are
    added, as for AUCs (`AreaComponents.estimate`), each of as many units of equal size as weigh
    alike.

    Args:
      figure: of the sums over some units.
      sums: of each unit, [units, columns].
      rows: of each class in each unit, [units, 2].
      gains: how many of them are called right; of a difference, less those that the others call
        right: [units, 2].
      added: the sum of the gains of the two units that are added.
    """
    estimate = jackknife_sums(figure, sums, np.ones(len(sums)))
    if math.isnan(estimate.value + estimate.error):
        return estimate
    totals, counts = rows.sum(axis=0), np.count_nonzero(rows, axis=0)
    rates = gains.sum(axis=0) / totals
    variances = counts / (counts - 1) * (((gains - rates * rows) / totals) ** 2).sum(axis=0)
    is_constant = variances < _ROUNDING
    more = counts + 2
    squares = (counts * rates**2 + 1) / more - ((counts * rates + added) / more) ** 2
    # Where both classes are constant, nothing is known: see `Estimate.is_constant`.
    unseen = np.where(is_constant & ~is_constant.all(), squares / more, 0.0)
    parts = (variances + unseen) / 4  # the figure is the mean of two rates
    spread = float(np.sum(parts**2 / (totals**2 / (rows**2).sum(axis=0) - 1)))
    degrees = min(len(sums) - 1, parts.sum() ** 2 / spread) if spread else min(counts) - 1
    error = math.sqrt(estimate.error**2 + unseen.sum() / 4)
    return estimate._replace(error=error, degrees=max(1.0, float(degrees)))


def _mean_recall(sums: Floats) -> Floats:
    # Balanced accuracy: the mean of sensitivity and specificity.
    recalls = _divide_or_nan(sums[:, 1], sums[:, 0]), _divide_or_nan(sums[:, 3], sums[:, 2])
    return (recalls[0] + recalls[1]) / 2


def _divide_or_nan(part: Floats, total: Floats) -> Floats:
    return np.divide(part, total, out=np.full(total.shape, np.nan), where=total > 0)
