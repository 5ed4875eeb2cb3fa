"""Do new scores look like those of a calibration, and would it be noticed if they did not?

A guarantee holds for units that are exchangeable with the calibration's. Labels of new responses
are not there to check it, but scores are: the two-sample test of Kolmogorov and Smirnov compares
their distributions, with one row of each unit, so that the rows are independent. That it finds
nothing proves nothing: the smallest change that it would find tells what that is worth.

Reference: Hodges 1958, The significance probability of the Smirnov two-sample test.

>>> compare_scores(np.arange(100.0), np.arange(50.0, 150.0)).p_value < 0.001
True
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The change whose power is told: some new rows have scores of the calibration's lowest tenth.
_LOWEST = 0.1
_SIMULATIONS = 1000
_POWER = 0.8  # the probability to notice it
# Values of the simulated scores at most.
_MOST_VALUES = 500


class DriftTest(NamedTuple):
    """The largest difference of two samples' cumulative shares, in [0, 1].

    The p-value is of the hypothesis that they are equal; too large where there are ties.
    """

    distance: float
    p_value: float


def compare_scores(reference: Floats, new: Floats) -> DriftTest:
    """Returns how far new scores [rows] are from those of a calibration [rows]."""
    from scipy import stats

    found = stats.ks_2samp(reference, new, method="asymp")
    return DriftTest(float(found.statistic), float(found.pvalue))


def compare_shares(reference: NDArray[np.intp], new: NDArray[np.intp]) -> float:
    """Returns the p-value of the hypothesis that counts [classes] come from the same mix.

    Pearson's test; 1 for fewer than two classes that occur.
    """
    from scipy import stats

    counts = np.stack([reference, new])[:, reference + new > 0]
    if counts.shape[1] < 2 or not counts.any(axis=1).all():
        return 1.0
    return float(stats.chi2_contingency(counts, correction=False).pvalue)


def detectable_share(reference: Floats, rows: int, level: float, seed: int = 0) -> float:
    """Returns which share of new rows must have low scores for `compare_scores` to notice.

    The smallest share, from 0 to 1, such that where so many new rows have a score of the lowest
    tenth of the reference [rows], and the others are as before, the p-value is at most `level` with
    a probability of at least 0.8. NaN = no share is noticed so often. By simulation: both samples
    are drawn from the reference.
    """
    from scipy import stats

    counts = np.unique(reference, return_counts=True)[1]
    # Many values are put together, in order, so that a group holds about as many rows: the distance
    # of groups is hardly smaller, and never larger.
    groups = ((np.cumsum(counts) - 1) * _MOST_VALUES // reference.size).astype(np.intp)
    counts = np.bincount(groups, counts)
    usual = counts[counts > 0] / counts.sum()
    # Of the lowest tenth the last value counts in part, so that ties make it no larger.
    low = np.diff(np.minimum(np.cumsum(usual), _LOWEST), prepend=0) / _LOWEST
    size = reference.size
    # The distance from which on the test of this many rows gives a p-value of at most `level`.
    critical = stats.kstwo.isf(level, np.round(size * rows / (size + rows)))

    def power_at(share: float) -> float:
        # The same seed for each share, so that the bisection does not follow the noise of draws.
        generator = np.random.default_rng(seed)
        old = generator.multinomial(size, usual, _SIMULATIONS) / size
        mixed = (1 - share) * usual + share * low
        new = generator.multinomial(rows, mixed / mixed.sum(), _SIMULATIONS) / rows
        # [simulations, groups]: the differences of the cumulative shares.
        distances = np.abs(np.cumsum(new - old, axis=1)).max(axis=1)
        return float(np.mean(distances >= critical - 1e-12))

    if power_at(1.0) < _POWER:
        return math.nan
    # Power rises with the share: bisection over whole percents.
    fails, suffices = 0, 100
    while suffices - fails > 1:
        middle = (fails + suffices) // 2
        is_enough = power_at(middle / 100) >= _POWER
        fails, suffices = (fails, middle) if is_enough else (middle, suffices)
    return suffices / 100
