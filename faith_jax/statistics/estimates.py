"""Estimates with a standard error: intervals and p-values by Student's t.

A unit is a row, or all rows that depend on each other, such as those about one document. The same
standard error and degrees of freedom give the interval and the p-value of a difference, so that the
two agree: the p-value is below 0.05 exactly where the 95% interval leaves out 0.

Standard errors of means, shares and BLEU come from leaving out one unit at a time
(`jackknife_sums`); those of AUCs from `faith_jax.statistics.auc.area_components`. For a mean over
independent rows it is the one-sample t test, and for a difference of two means on the same rows the
paired one.

References: Efron & Stein 1981, The jackknife estimate of variance. MacKinnon, Nielsen & Webb 2023,
Cluster-robust inference: a guide to empirical practice (units left out whole: "CV3"). Carter,
Schnepel & Steigerwald 2017, Asymptotic behavior of a t-test robust to cluster heterogeneity (the
effective number of units of unequal size).

>>> rows = np.stack([[0.9, 0.4, 0.8, 0.7, 0.6], np.ones(5)], axis=1)  # a score, and one row
>>> estimate = jackknife_sums(lambda sums: sums[:, 0] / sums[:, 1], rows, np.ones(5))
>>> estimate.interval().low > 0, round(estimate.error, 4), estimate.degrees
(True, 0.086, 4.0)
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.statistics.bootstrap import NO_INTERVAL, Interval

# With fewer units, intervals and tests rest on the units' values being about normal.
ENOUGH_UNITS = 10
_NOTHING = 1e-12  # a standard error that is rounding
_POWER = 0.8  # the probability to find a difference that is there


class Estimate(NamedTuple):
    """A figure and how far it may be from that of all rows there could be.

    Attributes:
      value: of the figure, or of a difference of two; NaN where it is undefined.
      error: the standard error; NaN where leaving out a unit leaves nothing, as with one unit.
      degrees: of freedom, at least 1.
      units: how many there are.
      ends: how many units a figure at an end of its scale rests on: all of a mean, those of the
        smaller class of an AUC; 0 = all.
      differing: of a difference of calls, in how many units the two call rows differently; 0 = the
        figures are no calls.
    """

    value: float
    error: float
    degrees: float
    units: int
    ends: int = 0
    differing: int = 0

    @property
    def is_constant(self) -> bool:
        """Whether all units say the same, so that nothing is known of how they vary."""
        # Rounding grows with the value.
        return self.error <= _NOTHING * max(1.0, abs(self.value))

    def interval(
        self, confidence: float = 0.95, bounds: tuple[float, float] | None = None
    ) -> Interval:
        """Returns the interval; without an error, or where all units say the same, there is none.

        With `bounds`, the ends of the scale of a mean or share, it is Wilson's interval with the
        effective number of rows that the standard error stands for, which stays inside of the scale
        and also exists where all units are at one end. It covers better near the ends than t alone.

        References: Wilson 1927, Probable inference; Dean & Pagano 2015, Evaluating confidence
        interval methods for binomial proportions in clustered surveys.

        Raises:
          ValueError: for a confidence outside of (0, 1).
        """
        from scipy import stats  # takes a second to import, as below

        if not 0 < confidence < 1:
            raise ValueError(f"A confidence is between 0 and 1, not {confidence}.")
        if math.isnan(self.value + self.error):
            return NO_INTERVAL
        # Student's t and not the normal distribution, because the error itself is an estimate.
        quantile = float(stats.t.isf((1 - confidence) / 2, self.degrees))
        if bounds is None:
            half = quantile * self.error
            return (
                NO_INTERVAL if self.is_constant else Interval(self.value - half, self.value + half)
            )
        # From here on a share from 0 to 1, on which one row has the variance p(1 - p) at most, as
        # if all values were at the ends.
        low, high = bounds
        share = (self.value - low) / (high - low)
        spread = share * (1 - share)
        # Between the ends, equal values say nothing of how others would vary. At an end they do:
        # the true share cannot lie far from it, or some of so many units would differ.
        if self.is_constant and spread > _NOTHING:
            return NO_INTERVAL
        error = self.error / (high - low)
        # p(1 - p) / n = error², solved for n: so many independent rows would have this error.
        rows = (self.ends or self.units) if self.is_constant else max(spread / error**2, 1.0)
        # Wilson, with t in place of z: (p + z²/2n ± z √(p(1 - p)/n + z²/4n²)) / (1 + z²/n).
        weight = quantile**2 / rows
        middle = (share + weight / 2) / (1 + weight)
        half = math.sqrt(max(0.0, spread) * weight + weight**2 / 4) / (1 + weight)
        ends = (max(0.0, middle - half), min(1.0, middle + half))
        return Interval(*(low + (high - low) * end for end in ends))

    def difference_interval(
        self, confidence: float = 0.95, bounds: tuple[float, float] | None = None
    ) -> Interval:
        """Returns the interval of a difference of two means, within what their scale allows.

        `bounds` are the ends of the scale: on one from 0 to 1 no difference is beyond -1 and 1.
        """
        low, high = self.interval(confidence)
        # A difference may lie on both sides of 0, where Wilson's interval has no counterpart; only
        # the impossible is cut off.
        width = math.inf if bounds is None else bounds[1] - bounds[0]
        return Interval(max(low, -width), min(high, width))

    def p_value(self) -> float:
        """Returns how likely a value so far from 0 is if the true one is 0, two-sided.

        Where all units differ by the same amount, t knows nothing of how they vary; the p-value is
        then that of exchanging units, 2 / 2**units, and 1 for no difference at all. Where calls
        differ in few units, exchanging these is all that there is to test.
        """
        from scipy import stats

        if math.isnan(self.value + self.error):
            return math.nan
        # Before the next case: equal systems have no error either, but do not differ.
        if abs(self.value) <= _NOTHING:
            return 1.0
        least = smallest_exchange(self.differing or self.units)
        if self.is_constant:
            return least
        p_value = float(2 * stats.t.sf(abs(self.value) / self.error, self.degrees))
        return max(p_value, least) if self.differing else p_value

    def units_to_settle(self, level: float) -> float:
        """Returns how many units a test at this level needs to find such a difference, or infinity.

        With a power of 0.8. The variance of a unit is taken from this estimate; NaN: it is unknown.

        Reference: Guenther 1981, Sample size formulas for normal theory t tests.
        """
        from scipy import stats

        if math.isnan(self.value + self.error) or self.is_constant:
            return math.nan
        if abs(self.value) <= _NOTHING:
            return math.inf
        # Guenther, for the variance v of a unit and the difference d: n = (z(level / 2) + z(1 -
        # power))² v / d² + z(level / 2)² / 2. The last term makes up for t in place of the normal
        # distribution.
        tail = float(stats.norm.isf(level / 2))
        # v / d², as error² = v / units.
        ratio = self.units * (self.error / self.value) ** 2
        return math.ceil((tail + float(stats.norm.isf(1 - _POWER))) ** 2 * ratio + tail**2 / 2)


def smallest_exchange(units: int) -> float:
    """Returns the smallest two-sided p-value of exchanging whole units of two systems."""
    # Of 2**units equally likely exchanges two are as extreme as what was seen: none and all.
    return min(1.0, 2.0 ** (1 - units))


def unit_sums(values: NDArray[np.float64], numbers: NDArray[np.intp], units: int) -> NDArray:
    """Returns the sums of values [rows, sums] over the rows of each unit: [units, sums]."""
    return np.stack([np.bincount(numbers, column, units) for column in values.T], axis=1)


def jackknife_sums(
    figure: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    sums: NDArray[np.float64],
    sizes: ArrayLike,
) -> Estimate:
    """Returns the estimate of a figure of sums over rows, such as a mean, without reading rows.

    `figure` is of totals, [n, sums] to [n]; `sums` are of each unit, [units, sums]; `sizes` has how
    much each unit weighs, such as its rows: [units].
    """
    total = sums.sum(axis=0)
    # The total less a unit's sums is the total without it: no figure is computed from rows again.
    values = figure(np.concatenate([total[None], total - sums]))
    return jackknife(float(values[0]), values[1:], sizes)


def jackknife(value: float, left_out: ArrayLike, sizes: ArrayLike) -> Estimate:
    """Returns an estimate from the figure of all units, and those without each of them, [units].

    `sizes` has how many rows each unit has: [units].
    """
    figures, counts = np.asarray(left_out, np.float64), np.asarray(sizes, np.float64)
    units = int(figures.size)
    # Some figure is undefined without a unit, such as a mean whose rows all belong to it.
    if units < 2 or not np.isfinite(figures).all():
        return Estimate(value, math.nan, math.nan, units)
    # Centred at the figure of all units, as in CV3: centred at the mean of `left_out`, the sum of
    # squares could only be smaller. What leaves out a unit varies little, hence the factor near 1
    # in place of one near 1 / units.
    variance = (units - 1) / units * float(np.sum((figures - value) ** 2))
    # G / (1 + CV²), CV being the coefficient of variation of the units' sizes: a few large units
    # decide the figure, however many small ones there are beside them.
    effective = float(counts.sum() ** 2 / np.sum(counts**2))  # all of them, if of one size
    return Estimate(float(value), math.sqrt(variance), max(1.0, effective - 1), units)


def mean_estimate(estimates: Sequence[Estimate]) -> Estimate:
    """Returns the mean of independent estimates, such as those of several corpora.

    Reference: Welch 1947 and Satterthwaite 1946 (the degrees of freedom).
    """
    # Independent variances add up.
    variances = np.array([estimate.error**2 for estimate in estimates])
    degrees = np.array([estimate.degrees for estimate in estimates])
    value = float(np.mean([estimate.value for estimate in estimates]))
    total = float(variances.sum())
    spread = float(np.sum(variances**2 / degrees))
    # (Σ v)² / Σ (v² / degrees). That the mean divides each v by k² cancels out.
    combined = total**2 / spread if spread > 0 else float(degrees.min())
    units = sum(estimate.units for estimate in estimates)
    ends = min(estimate.ends or estimate.units for estimate in estimates)
    differing = sum(estimate.differing for estimate in estimates)
    return Estimate(value, math.sqrt(total) / len(estimates), combined, units, ends, differing)


def p_value_text(p_value: float) -> str:
    """Returns a p-value as people read it, such as "p = 0.018"."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def corrected_text(p_value: float, corrected: float) -> str:
    """Returns a p-value, and that after a correction if it differs."""
    text = p_value_text(p_value)
    if corrected == p_value:
        return text
    return f"{text}, corrected {p_value_text(corrected).removeprefix('p ').removeprefix('= ')}"


def name_with_p_value(name: str, p_value: float, settling: str = "") -> str:
    """Returns what a verdict says of one comparison, such as "nli (p = 0.018)".

    `settling` says what would decide it, as `units.settling_text` does; NaN is "no test".
    """
    if math.isnan(p_value):
        return f"{name} (no test)"
    return f"{name} ({p_value_text(p_value)}{settling})"


def method_note(confidence: float) -> str:
    """Returns the sentence on intervals and p-values that stands below a table."""
    return (
        f"{100 * confidence:g}% intervals and p-values come from one procedure: the standard error "
        "from units left out one at a time, and Student's t. Equal values have no interval, unless "
        "they are an end of the scale."
    )
