"""Tests whether new scores are distributed like a calibration's, and the power of these tests.

A guarantee holds for units that are exchangeable with the calibration's. New responses have no
labels to check this, but they have scores: the two-sample Kolmogorov-Smirnov test compares their
distributions, using one row of each unit, so that the rows are independent. A test that finds no
difference proves nothing; the smallest change that it would detect shows how informative it is.

Reference: Hodges 1958, The significance probability of the Smirnov two-sample test.

>>> compare_scores(np.arange(100.0), np.arange(50.0, 150.0)).p_value < 0.001
True
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The change to detect: some new rows have scores from the calibration's lowest tenth.
_LOWEST = 0.1
_SIMULATIONS = 1000
_POWER = 0.8  # the required probability of detection
# Maximum number of distinct simulated scores.
_MOST_VALUES = 500


class DriftTest(NamedTuple):
    """The largest difference of two samples' cumulative shares, in [0, 1].

    The p-value is for the hypothesis of equal distributions; it is too large if there are ties.
    """

    distance: float
    p_value: float


def compare_scores(reference: Floats, new: Floats) -> DriftTest:
    """Compares new scores [rows] with a calibration's [rows]."""
    from scipy import stats

    found = stats.ks_2samp(reference, new, method="asymp")
    return DriftTest(float(found.statistic), float(found.pvalue))


def compare_shares(reference: NDArray[np.intp], new: NDArray[np.intp]) -> float:
    """Returns the p-value of the hypothesis that counts [classes] have the same distribution.

    Uses Pearson's test; returns 1 if fewer than two classes occur, or one side is empty.
    """
    from scipy import stats

    counts = np.stack([reference, new])[:, reference + new > 0]
    if counts.shape[1] < 2 or not counts.any(axis=1).all():
        return 1.0
    return float(stats.chi2_contingency(counts, correction=False).pvalue)


def detectable_share(reference: Floats, rows: int, level: float, seed: int = 0) -> float:
    """Returns the share of new rows that must have low scores for `compare_scores` to detect it.

    This is the smallest share, from 0 to 1, such that if this share of the new rows has scores from
    the lowest tenth of the reference [rows], and the others are unchanged, the p-value is at most
    `level` with a probability of at least 0.8; NaN if no share is detected that often. Computed by
    simulation: both samples are drawn from the reference.
    """
    from scipy import stats

    counts = np.unique(reference, return_counts=True)[1]
    # Group neighbouring values so that groups have about equally many rows: this makes the distance
    # only slightly smaller, never larger.
    groups = ((np.cumsum(counts) - 1) * _MOST_VALUES // reference.size).astype(np.intp)
    counts = np.bincount(groups, counts)
    usual = counts[counts > 0] / counts.sum()
    # The last value of the lowest tenth counts partially, so that ties do not enlarge the tenth.
    low = np.diff(np.minimum(np.cumsum(usual), _LOWEST), prepend=0) / _LOWEST
    size = reference.size
    # The smallest distance for which the test with this many rows has a p-value of at most `level`.
    critical = stats.kstwo.isf(level, np.round(size * rows / (size + rows)))

    def power_at(share: float) -> float:
        # Use the same seed for each share, so that the bisection does not follow sampling noise.
        generator = np.random.default_rng(seed)
        old = generator.multinomial(size, usual, _SIMULATIONS) / size
        mixed = (1 - share) * usual + share * low
        new = generator.multinomial(rows, mixed / mixed.sum(), _SIMULATIONS) / rows
        # [simulations, groups]: the differences of the cumulative shares.
        distances = np.abs(np.cumsum(new - old, axis=1)).max(axis=1)
        return float(np.mean(distances >= critical - 1e-12))

    if power_at(1.0) < _POWER:
        return math.nan
    # Power rises with the share, so bisect over whole percents.
    fails, suffices = 0, 100
    while suffices - fails > 1:
        middle = (fails + suffices) // 2
        is_enough = power_at(middle / 100) >= _POWER
        fails, suffices = (fails, middle) if is_enough else (middle, suffices)
    return suffices / 100
