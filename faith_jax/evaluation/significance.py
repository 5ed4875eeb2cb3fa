"""Whether two scorers' ROC AUCs on the same rows differ by more than chance.

All tests are paired and two-sided. `approximate_randomization` assumes least; `delong_test` has a
closed form; `hanley_mcneil_test` is the older form that needs AUCs and counts only. Several tests
at once are corrected by `bonferroni` or `holm`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from faith_jax.evaluation.roc import checked, roc_auc, weighted_roc_auc


class Comparison(NamedTuple):
    """The outcome of a test of two scorers, a and b.

    Attributes:
      difference: AUC of a minus AUC of b.
      statistic: standard normal under the null hypothesis; NaN where the test has none.
      p_value: two-sided; NaN where a class is missing.
    """

    difference: float
    statistic: float
    p_value: float


def approximate_randomization(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    labels: ArrayLike,
    rounds: int = 1000,
    seed: int | Sequence[int] = 0,
) -> Comparison:
    """Tests by exchanging the two scorers' scores row by row at random (Noreen 1989).

    Scorers have different scales, so each one's scores are replaced by their ranks first, which
    changes no AUC.

    Args:
      scores_a: [rows].
      scores_b: [rows].
      labels: [rows].
      rounds: of exchanges; p is at least 1 / (rounds + 1).
      seed: the same seed gives the same exchanges.

    Raises:
      ValueError: see `faith_jax.evaluation.roc.checked`; for fewer than one round.
    """
    if rounds < 1:
        raise ValueError(f"At least one round is needed, not {rounds}.")
    (first, positive), (second, _) = checked(scores_a, labels), checked(scores_b, labels)
    difference = roc_auc(first, positive) - roc_auc(second, positive)
    if math.isnan(difference):
        return Comparison(math.nan, math.nan, math.nan)
    ranks = np.stack([stats.rankdata(first), stats.rankdata(second)])
    generator = np.random.default_rng(seed)
    once, extreme = np.ones((positive.size, 1), np.uint16), 0
    for _ in range(rounds):
        swap = generator.random(positive.size) < 0.5
        mixed = np.where(swap, ranks[::-1], ranks)
        areas = [weighted_roc_auc(row, positive, once)[0] for row in mixed]
        extreme += abs(areas[0] - areas[1]) >= abs(difference) - 1e-12
    return Comparison(difference, math.nan, (extreme + 1) / (rounds + 1))


def delong_test(scores_a: ArrayLike, scores_b: ArrayLike, labels: ArrayLike) -> Comparison:
    """Tests by the AUCs' covariance (DeLong 1988, in the form of Sun 2014).

    Args:
      scores_a: [rows].
      scores_b: [rows].
      labels: [rows].

    Raises:
      ValueError: see `faith_jax.evaluation.roc.checked`.
    """
    areas, covariance = delong_covariance([scores_a, scores_b], labels)
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    return _normal_test(areas[0] - areas[1], variance)


def delong_covariance(
    scores: ArrayLike | Sequence[ArrayLike], labels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the scorers' AUCs [scorers] and their covariance [scorers, scorers].

    Args:
      scores: [scorers, rows].
      labels: [rows]; with fewer than two rows of a class the covariance is NaN.

    Raises:
      ValueError: see `faith_jax.evaluation.roc.checked`.
    """
    values, positive = checked(np.asarray(scores, np.float64), labels)
    positives, negatives = values[:, positive], values[:, ~positive]
    m, n = positives.shape[1], negatives.shape[1]
    if not m or not n:
        return np.full(len(values), math.nan), np.full((len(values),) * 2, math.nan)
    everywhere = stats.rankdata(np.concatenate([positives, negatives], axis=1), axis=1)
    # Each row's share of the other class that it beats, ties counting half.
    beaten = (everywhere[:, :m] - stats.rankdata(positives, axis=1)) / n
    beating = 1 - (everywhere[:, m:] - stats.rankdata(negatives, axis=1)) / m
    if min(m, n) < 2:
        return beaten.mean(axis=1), np.full((len(values),) * 2, math.nan)
    covariance = np.atleast_2d(np.cov(beaten)) / m + np.atleast_2d(np.cov(beating)) / n
    return beaten.mean(axis=1), covariance


def hanley_mcneil_error(area: float, positives: int, negatives: int) -> float:
    """Returns the standard error of an AUC from its size and the counts (Hanley 1982).

    Args:
      area: the AUC.
      positives: rows with the label 1.
      negatives: rows with the label 0.
    """
    if not positives or not negatives:
        return math.nan
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (positives - 1) * (q1 - area**2)
    variance += (negatives - 1) * (q2 - area**2)
    return math.sqrt(max(0.0, variance) / (positives * negatives))


def hanley_mcneil_test(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    labels: ArrayLike,
    correlation: float | None = None,
) -> Comparison:
    """Tests by Hanley and McNeil's standard errors (Hanley 1983).

    Args:
      scores_a: [rows].
      scores_b: [rows].
      labels: [rows].
      correlation: of the two AUCs; None = DeLong's estimate from the scores, in place of the
        paper's table; 0 = as if the rows were different ones (Hanley 1982).

    Raises:
      ValueError: see `faith_jax.evaluation.roc.checked`.
    """
    areas, covariance = delong_covariance([scores_a, scores_b], labels)
    if correlation is None:
        product = covariance[0, 0] * covariance[1, 1]
        correlation = covariance[0, 1] / math.sqrt(product) if product > 0 else 0.0
    positive = np.asarray(labels).astype(bool)
    sizes = int(positive.sum()), int((~positive).sum())
    errors = [hanley_mcneil_error(area, *sizes) for area in areas]
    variance = errors[0] ** 2 + errors[1] ** 2 - 2 * correlation * errors[0] * errors[1]
    return _normal_test(areas[0] - areas[1], variance)


def _normal_test(difference: float, variance: float) -> Comparison:
    if math.isnan(difference) or math.isnan(variance):
        return Comparison(float(difference), math.nan, math.nan)
    if variance <= 1e-18:  # the scorers order the rows alike, or nothing varies
        same = abs(difference) < 1e-12
        return Comparison(float(difference), 0.0 if same else math.inf, float(same))
    statistic = float(difference / math.sqrt(variance))
    return Comparison(float(difference), statistic, float(2 * stats.norm.sf(abs(statistic))))


def bonferroni(p_values: ArrayLike) -> NDArray[np.float64]:
    """Returns p-values times their number, at most 1; those that are NaN stay and do not count.

    >>> bonferroni([0.01, 0.4]).tolist()
    [0.02, 0.8]
    """
    values = np.asarray(p_values, np.float64)
    return np.minimum(1.0, values * np.count_nonzero(~np.isnan(values)))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Returns p-values after Holm's step-down correction, which no Bonferroni beats in power.

    Those that are NaN stay and do not count.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, np.float64)
    corrected = np.full(values.shape, math.nan)
    places = np.flatnonzero(~np.isnan(values))
    places = places[np.argsort(values[places], kind="stable")]
    factors = np.arange(len(places), 0, -1)
    corrected[places] = np.minimum(1.0, np.maximum.accumulate(values[places] * factors))
    return corrected
