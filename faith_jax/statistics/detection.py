"""How well calls find unfaithful responses: balanced accuracy, precision, recall and F1.

A figure is a function of sums over rows, such as the number of faithful rows and how many of them
are called faithful. Its standard error comes from leaving out one unit (all rows of a document) at
a time, by subtracting the unit's sums: nothing is drawn at random.

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

from faith_jax.statistics.intervals import Estimate, jackknife_sums, unit_sums

Floats = NDArray[np.float64]
Span = tuple[int, int]  # start and end (exclusive), in characters
_ROUNDING = 1e-24  # smaller variances are rounding


def balanced_accuracy(labels: ArrayLike, calls: ArrayLike, units: NDArray[np.intp]) -> Estimate:
    """Returns the balanced accuracy: the mean recall of faithful and of unfaithful rows.

    It is in [0, 1]; 0.5 is chance. NaN if a class is missing; the error is NaN if leaving out a
    unit removes a class. Labels (1 = faithful, 0 = not), calls (whether a row is called faithful)
    and the numbers of the rows' units, from 0, are [rows].
    """
    truth, called = np.asarray(labels, np.float64), np.asarray(calls, bool)
    # [units, 4]: faithful rows, and correct calls among them; unfaithful rows, and correct calls.
    sums = _sum_by_unit(*_of_classes(truth, called), units=units)
    rows = sums[:, [0, 2]]
    # The evidence for a value at an end of the scale is limited by the smaller class.
    ends = int(np.count_nonzero(rows, axis=0).min(initial=len(sums)))
    return _two_class_estimate(_mean_recall, sums, rows, sums[:, [1, 3]], 1)._replace(ends=ends)


def balanced_accuracy_difference(
    labels: ArrayLike, calls: ArrayLike, others: ArrayLike, units: NDArray[np.intp]
) -> Estimate:
    """Returns the balanced accuracy of calls less that of others, paired by unit.

    The p-value is at least that of exchanging the units in which the calls differ.
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
    """Returns precision, recall and F1 of called errors, each in [0, 1].

    For each row [rows], `called` is the amount (responses or characters) called an error, `true`
    the amount that is an error, `hits` the amount that is both, `units` the unit's number, from 0.
    """
    sums = _sum_by_unit(hits, called, true, units=units)
    # Rows without called or true errors do not affect any figure and have weight 0.
    weights = sums[:, 1] + sums[:, 2]
    return (
        jackknife_sums(lambda s: _divide_or_nan(s[:, 0], s[:, 1]), sums, weights),
        jackknife_sums(lambda s: _divide_or_nan(s[:, 0], s[:, 2]), sums, weights),
        # 2PR / (P + R) with P = hits / called and R = hits / true.
        jackknife_sums(lambda s: _divide_or_nan(2 * s[:, 0], s[:, 1] + s[:, 2]), sums, weights),
    )


def best_balanced_threshold(scores: ArrayLike, labels: ArrayLike) -> float:
    """Returns the threshold for calling rows faithful with the best balanced accuracy.

    Rows at or above it are called faithful. Ties go to the highest; NaN if a class is missing.
    Scores (higher = more faithful) and labels (1 = faithful, 0 = not) are [rows]; rows with NaN are
    ignored.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    defined = ~np.isnan(values + truth)
    values, truth = values[defined], truth[defined]
    if np.unique(truth).size < 2:
        return math.nan
    # In descending order, so that the first of several best ones is the highest.
    places = np.unique(values)[::-1]
    scores_of_ones, scores_of_zeros = np.sort(values[truth == 1]), np.sort(values[truth == 0])
    # Correct calls are ones at or above a threshold, and zeros below it: [distinct scores].
    recall_of_ones = 1 - np.searchsorted(scores_of_ones, places) / scores_of_ones.size
    recall_of_zeros = np.searchsorted(scores_of_zeros, places) / scores_of_zeros.size
    mean = (recall_of_ones + recall_of_zeros) / 2
    return float(places[mean >= mean.max() - 1e-12][0])  # equal except for rounding


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """Merges overlapping and adjacent spans; returns sorted, disjoint spans.

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

    Words with only white space between them form one span, as in human annotations.
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
    """Returns the number of characters in both lists of spans, from `merge_spans`."""
    # Merged spans do not overlap, so no character counts twice.
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second)


def _sum_by_unit(*columns: ArrayLike, units: NDArray[np.intp]) -> Floats:
    """Returns the sums of columns [rows] over the rows of each unit: [units, columns]."""
    values = np.stack([np.asarray(column, np.float64) for column in columns], axis=1)
    return unit_sums(values, units, int(units.max(initial=-1)) + 1)


def _of_classes(truth: Floats, called: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Returns masks [rows]: faithful, correct calls of them, unfaithful, correct calls of them."""
    return [truth == 1, (truth == 1) & called, truth == 0, (truth == 0) & ~called]


def _two_class_estimate(
    figure: Callable[[Floats], Floats], sums: Floats, rows: Floats, gains: Floats, added: int
) -> Estimate:
    """Returns the mean over both classes of a rate, or of a difference of rates.

    If all rows of exactly one class are called alike, this class gets the variance that two more
    units would give it: one called right and one wrong (Agresti & Caffo 2000), or for a difference,
    half a unit of each kind (Agresti & Min 2005). Otherwise a class of, say, three rows would seem
    certain. The degrees of freedom are those of the sum of two variances, as for AUCs
    (`AreaComponents.estimate`), each with the effective number of equally large units.

    Args:
      figure: maps the sums over some units to the figure.
      sums: sums of each unit, [units, columns].
      rows: number of rows of each class in each unit, [units, 2].
      gains: number of these rows that are called right; for a difference, less the number that the
        others call right: [units, 2].
      added: the sum of the gains of the two added units.
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
    # If both classes are constant, the variance is unknown: see `Estimate.is_constant`.
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
