"""The area under the ROC curve (AUC): how well scores separate faithful responses from others.

`area_components` gives an AUC with DeLong's standard error, for intervals and tests in the tables
of scorers. The interval is `Estimate.interval(bounds=(0, 1))` of `statistics.intervals`: Wilson's,
with Student's t, at the number of rows that this error corresponds to. `auc_of_weights` is for
`statistics.bootstrap`, which resamples rows with everything that belongs to them, such as words.

Labels are 1 (faithful) and 0; higher scores mean more faithful. Ties count half.

>>> roc_auc([0.9, 0.8, 0.8, 0.1], [1, 1, 0, 0])
0.875
>>> auc_of_weights([[0.9, 0.2, 0.6, 0.1]], [1, 0, 0, 1])(np.array([[1, 1, 1, 1], [2, 1, 0, 0]]))
array([[0.5, 1. ]])
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.statistics.bootstrap import cluster_numbers
from faith_jax.statistics.intervals import Estimate, unit_sums


def check_scores(scores: ArrayLike, labels: ArrayLike) -> tuple[NDArray, NDArray]:
    """Returns scores [..., rows] as float64 and labels [rows] as bool.

    Raises:
      ValueError: on different lengths, scores that are not finite, and labels except 0 and 1.
    """
    # Converting float32 to float64 is exact, so it keeps order and ties.
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
    """Returns the area under the ROC curve, in [0, 1]; NaN if a class is missing.

    This is the probability that a faithful response has a higher score than an unfaithful one, ties
    counting half; 0.5 = chance. Scores and labels are [rows], as `check_scores` requires.
    """
    values, positive = check_scores(scores, labels)
    weights = np.ones((1, positive.size), np.uint16)
    return float(_weighted_areas(_sort_classes(values, positive), weights)[0])


def auc_of_weights(
    scores: ArrayLike | Sequence[ArrayLike], labels: ArrayLike
) -> Callable[[NDArray[np.integer]], NDArray[np.float64]]:
    """Returns a function from how often each row counts, [lines, rows], to AUCs [scorers, lines].

    Scores are [scorers, rows], labels [rows]. NaN if a class is missing.
    """
    values, positive = check_scores(np.asarray(scores, np.float64), labels)
    # Weights do not change the order of rows, so sort only once.
    orders = [_sort_classes(row, positive) for row in values]
    return lambda weights: np.stack([_weighted_areas(order, weights) for order in orders])


class _SortedClasses(NamedTuple):
    """The rows of both classes, sorted by their scores.

    Attributes:
      positives: numbers of the positive rows.
      negatives: numbers of the negative rows.
      below: for each positive, the number of negatives below it.
      not_above: for each positive, the number of negatives not above it; None = no ties.
    """

    positives: NDArray[np.intp]
    negatives: NDArray[np.intp]
    below: NDArray[np.intp]
    not_above: NDArray[np.intp] | None


def _sort_classes(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> _SortedClasses:
    """Sorts the rows of each class; `positive` is whether a row is faithful, [rows]."""
    places = np.argsort(scores, kind="stable")
    positives, negatives = places[positive[places]], places[~positive[places]]
    ordered, positive_scores = scores[negatives], scores[positives]
    # The area is the Mann-Whitney statistic over all pairs. It needs only how many negatives lie
    # below each positive, and how many tie with it.
    below = np.searchsorted(ordered, positive_scores, side="left")
    not_above = np.searchsorted(ordered, positive_scores, side="right")
    # Without ties, resamples can skip the second look-up.
    tied = bool((below != not_above).any())
    return _SortedClasses(positives, negatives, below, not_above if tied else None)


def _weighted_areas(order: _SortedClasses, weights: NDArray[np.integer]) -> NDArray[np.float64]:
    """Returns the exact AUC for each line of weights [lines, rows], how often each row counts.

    NaN if a class has no weight.
    """
    positives, negatives = (weights.take(side, axis=1) for side in order[:2])  # faster than [:, …]
    # In int64, nothing overflows, and sums are exact.
    totals = (side.sum(axis=1, dtype=np.int64) for side in (positives, negatives))
    pairs = np.prod([side.astype(np.float64) for side in totals], axis=0)
    # The total weight of the first n negatives, for n from 0 to all of them.
    cumulative = np.zeros((len(weights), len(order.negatives) + 1), np.int64)
    np.cumsum(negatives, axis=1, out=cumulative[:, 1:])
    # Summed over positives: weight times the total weight of the negatives below it, [lines].
    wins = np.einsum("lp,lp->l", positives, cumulative.take(order.below, axis=1), dtype=np.int64)
    ties: Any = 0
    if order.not_above is not None:
        # Negatives up to a positive's score, less the negatives below it, are ties.
        reached = cumulative.take(order.not_above, axis=1)
        ties = np.einsum("lp,lp->l", positives, reached, dtype=np.int64) - wins
    # A resample that lacks a class has no pairs and no area: 0 / 0 is NaN.
    with np.errstate(invalid="ignore", divide="ignore"):
        return (wins + 0.5 * ties) / pairs


class AreaComponents(NamedTuple):
    """The contributions of units to scorers' AUCs, which determine the AUCs' covariance.

    Attributes:
      areas: [scorers]; NaN if a class is missing.
      of_positives: [scorers, units]; for each faithful row of a unit, the share of unfaithful rows
        that it beats, less the AUC; summed, and divided by the number of faithful rows.
      of_negatives: the same for unfaithful rows, with the share of faithful rows that beat them.
      counts: number of units with faithful rows, with unfaithful rows, and of all units.
    """

    areas: NDArray[np.float64]
    of_positives: NDArray[np.float64]
    of_negatives: NDArray[np.float64]
    counts: tuple[int, int, int]

    def estimate(self, weights: ArrayLike) -> Estimate:
        """Returns the weighted sum of the AUCs, such as a difference with the weights 1 and -1.

        `weights` are [scorers]. The degrees of freedom are those of the sum of two variances, one
        for each class, and fewer than the number of units.

        References: Obuchowski 1997 (the variance); Brunner & Munzel 2000, The nonparametric
        Behrens-Fisher problem: asymptotic theory and a small-sample approximation (degrees).
        """
        factors = np.asarray(weights, np.float64)
        value, units = float(factors @ self.areas), self.counts[2]
        if min(self.counts) < 2 or math.isnan(value):
            return Estimate(value, math.nan, math.nan, units)
        # The variance of a linear combination of AUCs follows from the same combination of their
        # contributions, unit by unit: w'Cw without the matrix C.
        first, second = factors @ self.of_positives, factors @ self.of_negatives
        of_first, of_second, of_both = (count / (count - 1) for count in self.counts)
        parts = [of_first * float(first @ first), of_second * float(second @ second)]
        # Only rounding can make it negative: |2ab| is at most a² + b², and the factor of the
        # product is the smallest of the three.
        variance = max(0.0, sum(parts) + 2 * of_both * float(first @ second))
        # Satterthwaite: (a + b)² / (a² / (n - 1) + b² / (m - 1)), with the units of each class.
        # `zip` leaves out the third count, all units.
        spread = sum(p**2 / (n - 1) for p, n in zip(parts, self.counts, strict=False))
        degrees = min(units - 1, sum(parts) ** 2 / spread) if spread > 0 else units - 1
        # The evidence for a perfect AUC is limited by its smaller class: one positive above all
        # negatives is one observation.
        ends = min(self.counts[:2])
        return Estimate(value, math.sqrt(variance), max(1.0, degrees), units, ends)


def area_components(
    scores: ArrayLike | Sequence[ArrayLike],
    labels: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
) -> AreaComponents:
    """Returns the components of scorers' AUCs by unit: a row, or all rows of a cluster.

    Reference: Obuchowski 1997, Nonparametric analysis of clustered ROC curve data, section 2; for
    independent rows, this equals DeLong 1988.
    """
    from scipy import stats

    values, positive = check_scores(np.asarray(scores, np.float64), labels)
    groups = cluster_numbers(positive.size, clusters)
    positives, negatives = values[:, positive], values[:, ~positive]
    m, n = positives.shape[1], negatives.shape[1]
    units = len(np.unique(groups))
    if not m or not n:
        nothing = np.zeros((len(values), units))
        return AreaComponents(np.full(len(values), math.nan), nothing, nothing, (0, 0, units))
    # DeLong's placement values by ranks (Sun 2014): a positive's rank among all rows, less its rank
    # among the positives, is the number of negatives it beats. Tied rows share their mean rank, so
    # a tie counts half.
    everywhere = stats.rankdata(np.concatenate([positives, negatives], axis=1), axis=1)
    # The share of negatives that each positive beats, and of positives that beat each negative.
    beaten = (everywhere[:, :m] - stats.rankdata(positives, axis=1)) / n
    beating = 1 - (everywhere[:, m:] - stats.rankdata(negatives, axis=1)) / m
    areas = beaten.mean(axis=1)
    positive_groups, negative_groups = groups[positive], groups[~positive]
    # Sum by unit before squaring, so that the variance includes the covariance of a unit's rows.
    # Divide by the class's size, as the AUC is a mean over its rows.
    return AreaComponents(
        areas,
        unit_sums((beaten - areas[:, None]).T / m, positive_groups, units).T,
        unit_sums((beating - areas[:, None]).T / n, negative_groups, units).T,
        (len(np.unique(positive_groups)), len(np.unique(negative_groups)), units),
    )


def below_chance(area: Estimate, sure: float = 0.99) -> str:
    """Returns text on an AUC below 0.5, as of labels that mean the opposite; "" = it may not be."""
    high = area.interval(sure, (0.0, 1.0)).high
    return f"AUC {area.value:.2f}, {sure:.0%} interval up to {high:.2f}" if high < 0.5 else ""


def warn_of_turned_labels(name: str, areas: Iterable[Estimate]) -> Iterator[str]:
    """Yields a warning if the AUCs of all scorers of a corpus are below chance, beyond doubt."""
    turned = [below_chance(area) for area in areas]
    if turned and all(turned):
        yield (
            f"{name}: Warning: rows with the label 0 have higher scores of every scorer than "
            "those with 1, beyond chance. 1 must mean faithful, and higher scores more "
            "faithful; score --labels-are-errors turns labels that mean an error."
        )
