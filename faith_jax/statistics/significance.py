"""Tests of whether two scorers' ROC AUCs on the same rows differ by more than chance.

All tests are paired and two-sided. `area_components` gives AUCs and their differences as estimates,
with intervals and p-values by Student's t. To reproduce published tables there are other tests:
`approximate_randomization`, `delong_test` with the normal distribution, and the older
`hanley_mcneil_test`, which needs only AUCs and counts. All but the last support clusters: rows that
depend on each other, such as responses to one document.

Scores of two scorers, a and b, and labels are [rows], as `auc.check_scores` requires.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.statistics.auc import area_components, check_scores, roc_auc
from faith_jax.statistics.bootstrap import cluster_numbers

SIGNIFICANT = 0.05
Item = TypeVar("Item", bound=Hashable)


class AucDifference(NamedTuple):
    """A difference of two AUCs, a less b, and its two-sided p-value; NaN if a class is missing."""

    difference: float
    p_value: float


class Exchanges(NamedTuple):
    """The difference of two AUCs, and the difference after each round of exchanges: [rounds]."""

    difference: float
    exchanged: NDArray[np.float64]


def exchanges(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    labels: ArrayLike,
    rounds: int = 1000,
    seed: int | Sequence[int] = 0,
    clusters: Sequence[Hashable] | None = None,
) -> Exchanges:
    """Exchanges two scorers' scores row by row at random, for `approximate_randomization`.

    Scorers have different scales, so each scorer's scores are first replaced by their ranks, which
    changes no AUC. With clusters, scores of a cluster are exchanged together.
    """
    from scipy import stats  # imported here, as it takes a second

    (first, positive), (second, _) = check_scores(scores_a, labels), check_scores(scores_b, labels)
    difference = roc_auc(first, positive) - roc_auc(second, positive)
    if math.isnan(difference):
        return Exchanges(math.nan, np.full(rounds, math.nan))
    # If the scorers are equally good, swapping a row's two scores is as likely as not. Rows of a
    # cluster are swapped together, else the exchanges would vary less than the figure does.
    groups = cluster_numbers(positive.size, clusters)
    ranks = np.stack([stats.rankdata(first), stats.rankdata(second)])
    # Replace ranks by integers in the same order, so that areas are sums of counts without sorting:
    # [scorers, rows], below `distinct`.
    _, places = np.unique(ranks, return_inverse=True)
    places = places.reshape(ranks.shape)
    distinct, generator = int(places.max()) + 1, np.random.default_rng(seed)
    count = int(groups.max()) + 1
    wins = np.empty(rounds, np.int64)
    # Split by class: [scorers, rows of the class].
    sides = [(places[:, rows], groups[rows]) for rows in (positive, ~positive)]
    for number in range(rounds):
        swap = generator.random(count) < 0.5
        exchanged = []
        for (first_places, second_places), side_groups in sides:
            # Arithmetic is ten times as fast as np.where.
            moved = (second_places - first_places) * swap.take(side_groups)
            exchanged.append((first_places + moved, second_places - moved))
        (first_positives, second_positives), (first_negatives, second_negatives) = exchanged
        # Twice the wins, first less second: the difference of the areas times twice the number of
        # pairs.
        wins[number] = _count_wins_twice(first_positives, first_negatives, distinct)
        wins[number] -= _count_wins_twice(second_positives, second_negatives, distinct)
    positives = int(positive.sum())
    return Exchanges(difference, wins / (2 * positives * (positive.size - positives)))


def _count_wins_twice(
    positives: NDArray[np.intp], negatives: NDArray[np.intp], distinct: int
) -> int:
    """Returns the sum over all pairs of 2 if the positive is above the negative, 1 for a tie."""
    # A win counts 2, so that a tie, half a win, is an integer: 2 (below or equal) - equal =
    # 2 below + equal.
    counts = np.bincount(negatives, minlength=distinct)
    below = np.cumsum(counts)
    return int(2 * below.take(positives).sum() - counts.take(positives).sum())


def approximate_randomization(parts: Sequence[Exchanges]) -> AucDifference:
    """Tests the difference of two scorers' AUCs, or of their means over several corpora.

    `parts` are the exchanges of each corpus, with as many rounds but different seeds. The p-value,
    how often exchanges make as large a difference, is at least 1 / (rounds + 1) (Noreen 1989).
    """
    difference = float(np.mean([part.difference for part in parts]))
    # Combine round i of all corpora: rounds are independent, so any pairing will do.
    exchanged = np.mean([part.exchanged for part in parts], axis=0)
    if math.isnan(difference):
        return AucDifference(difference, math.nan)
    # Differences that are equal except for rounding, common with few rows, count as extreme.
    extreme = int(np.count_nonzero(np.abs(exchanged) >= abs(difference) - 1e-12))
    # The observed arrangement is one of those possible, so the p-value is never 0.
    return AucDifference(difference, (extreme + 1) / (len(exchanged) + 1))


def delong_test(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    labels: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
) -> AucDifference:
    """Tests with `area_components` and the normal distribution (DeLong 1988, as in Sun 2014)."""
    parts = area_components([scores_a, scores_b], labels, clusters)
    estimate = parts.estimate([1.0, -1.0])
    # z² = difference² / variance, without degrees of freedom, as published.
    return _normal_test(estimate.value, estimate.error**2)


def hanley_mcneil_error(area: float, positives: int, negatives: int) -> float:
    """Returns the standard error of an AUC from its value and the class sizes (Hanley 1982)."""
    if not positives or not negatives:
        return math.nan
    # For exponentially distributed scores: the probability that two positives are above one
    # negative, and that one positive is above two negatives.
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    # (A(1 - A) + (m - 1)(Q1 - A²) + (n - 1)(Q2 - A²)) / mn.
    variance = area * (1 - area) + (positives - 1) * (q1 - area**2)
    variance += (negatives - 1) * (q2 - area**2)
    return math.sqrt(max(0.0, variance) / (positives * negatives))


def hanley_mcneil_test(
    scores_a: ArrayLike, scores_b: ArrayLike, labels: ArrayLike
) -> AucDifference:
    """Tests with Hanley and McNeil's standard errors (Hanley 1983).

    The correlation of the two AUCs is DeLong's estimate instead of the paper's table.
    """
    parts = area_components([scores_a, scores_b], labels)
    areas = parts.areas
    # The variances s² and t² of two areas and that of their difference give r: s² + t² - 2rst.
    first, second, both = (parts.estimate(w).error ** 2 for w in ([1, 0], [0, 1], [1, -1]))
    # A scorer that ranks perfectly has no variance and no correlation.
    product = 4 * first * second
    correlation = (first + second - both) / math.sqrt(product) if product > 0 else 0.0
    positive = np.asarray(labels).astype(bool)
    sizes = int(positive.sum()), int((~positive).sum())
    errors = [hanley_mcneil_error(area, *sizes) for area in areas]
    variance = errors[0] ** 2 + errors[1] ** 2 - 2 * correlation * errors[0] * errors[1]
    return _normal_test(areas[0] - areas[1], variance)


def _normal_test(difference: float, variance: float) -> AucDifference:
    if variance <= 1e-18:  # the scorers order the rows alike, or have no variance
        return AucDifference(float(difference), float(abs(difference) < 1e-12))
    # erfc(z / √2) = 2 (1 - Φ(z)), without cancellation in 1 - Φ for small p-values.
    p_value = math.erfc(abs(difference) / math.sqrt(2 * variance))
    return AucDifference(float(difference), float(p_value))


def bonferroni(p_values: ArrayLike) -> NDArray[np.float64]:
    """Returns p-values times their number, at most 1; NaN are kept and not counted.

    >>> bonferroni([0.01, 0.4]).tolist()
    [0.02, 0.8]
    """
    values = np.asarray(p_values, np.float64)
    return np.minimum(1.0, values * np.count_nonzero(~np.isnan(values)))


def holm_by_baseline(p_values: Mapping[tuple[Item, str], float]) -> dict[tuple[Item, str], float]:
    """Applies `holm` to the p-values of each baseline; keys are (compared item, baseline)."""
    corrected: dict[tuple[Item, str], float] = {}
    # All comparisons with the same baseline are a family of tests.
    for baseline in dict.fromkeys(baseline for _, baseline in p_values):
        pairs = [pair for pair in p_values if pair[1] == baseline]
        adjusted = holm([p_values[pair] for pair in pairs]).tolist()
        corrected |= zip(pairs, adjusted, strict=True)
    return corrected


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Returns p-values after Holm's step-down correction; NaN are kept and not counted.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, np.float64)
    corrected = np.full(values.shape, math.nan)
    places = np.flatnonzero(~np.isnan(values))
    # In ascending order, the kth smallest of m is multiplied by m - k + 1, the number of remaining
    # hypotheses; the running maximum keeps the order of the p-values.
    places = places[np.argsort(values[places], kind="stable")]
    factors = np.arange(len(places), 0, -1)
    corrected[places] = np.minimum(1.0, np.maximum.accumulate(values[places] * factors))
    return corrected
