"""Estimates with a standard error: intervals and p-values by Student's t.

A unit is a row, or all rows that depend on each other, such as all rows about one document. The
interval and the p-value of a difference use the same standard error and degrees of freedom, so the
two agree: the p-value is below 0.05 exactly if the 95% interval excludes 0.

Standard errors of means, shares and BLEU come from leaving out one unit at a time
(`jackknife_sums`), those of AUCs from `faith_jax.statistics.auc.area_components`. For a mean over
independent rows, this is the one-sample t test; for a difference of two means on the same rows, the
paired t test.

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
_NOTHING = 1e-12  # smaller standard errors are rounding
_POWER = 0.8  # the probability of finding a real difference


class Estimate(NamedTuple):
    """A figure, or a difference of two figures, with its sampling error.

    Attributes:
      value: the figure or difference; NaN if it is undefined.
      error: the standard error; NaN if leaving out a unit leaves nothing, as with one unit.
      degrees: degrees of freedom, at least 1.
      units: number of units.
      ends: number of units that support a value at an end of its scale: all for a mean, those in
        the smaller class for an AUC; 0 = all.
      differing: for a difference of calls, the number of units in which the two call rows
        differently; 0 = the figures are not of calls.
    """

    value: float
    error: float
    degrees: float
    units: int
    ends: int = 0
    differing: int = 0

    @property
    def is_constant(self) -> bool:
        """Whether all units have the same value, so that their variance is unknown."""
        # Rounding errors grow with the value.
        return self.error <= _NOTHING * max(1.0, abs(self.value))

    def interval(
        self, confidence: float = 0.95, bounds: tuple[float, float] | None = None
    ) -> Interval:
        """Returns the interval; NaN without an error, or if all units have the same value.

        With `bounds`, the ends of the scale of a mean or share, this is Wilson's interval with the
        effective number of rows that the standard error corresponds to. It stays inside the scale,
        exists even if all units are at one end, and covers better near the ends than t alone.

        References: Wilson 1927, Probable inference; Dean & Pagano 2015, Evaluating confidence
        interval methods for binomial proportions in clustered surveys.

        Raises:
          ValueError: on a confidence outside (0, 1).
        """
        from scipy import stats  # imported in functions, as it takes a second

        if not 0 < confidence < 1:
            raise ValueError(f"A confidence is between 0 and 1, not {confidence}.")
        if math.isnan(self.value + self.error):
            return NO_INTERVAL
        # Student's t, not the normal distribution, because the error itself is an estimate.
        quantile = float(stats.t.isf((1 - confidence) / 2, self.degrees))
        if bounds is None:
            half = quantile * self.error
            return (
                NO_INTERVAL if self.is_constant else Interval(self.value - half, self.value + half)
            )
        # Rescale to a share from 0 to 1, for which one row has at most the variance p(1 - p), that
        # of values at the ends.
        low, high = bounds
        share = (self.value - low) / (high - low)
        spread = share * (1 - share)
        # Between the ends, equal values do not show how others would vary. At an end they do: if
        # the true share were far from it, some of the units would differ.
        if self.is_constant and spread > _NOTHING:
            return NO_INTERVAL
        error = self.error / (high - low)
        # p(1 - p) / n = error², solved for n: n independent rows would have this error.
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
        """Returns the interval of a difference of two means, clipped to the possible differences.

        `bounds` are the ends of the scale: from 0 to 1, differences are between -1 and 1.
        """
        low, high = self.interval(confidence)
        # Wilson's interval has no counterpart for differences, which may have either sign; so only
        # impossible values are cut off.
        width = math.inf if bounds is None else bounds[1] - bounds[0]
        return Interval(max(low, -width), min(high, width))

    def p_value(self) -> float:
        """Returns the two-sided p-value of the hypothesis that the true value is 0.

        If all units differ by the same amount, t has no estimate of their variance; the p-value is
        then that of exchanging units, 2 / 2**units, or 1 for no difference. For differences of
        calls, it is at least that of exchanging the units in which the calls differ.
        """
        from scipy import stats

        if math.isnan(self.value + self.error):
            return math.nan
        # Check this before the next case: equal systems have no error either, but do not differ.
        if abs(self.value) <= _NOTHING:
            return 1.0
        least = smallest_exchange(self.differing or self.units)
        if self.is_constant:
            return least
        p_value = float(2 * stats.t.sf(abs(self.value) / self.error, self.degrees))
        return max(p_value, least) if self.differing else p_value

    def units_to_settle(self, level: float) -> float:
        """Returns how many units a test at a level needs to find this difference; infinity for 0.

        The power is 0.8. A unit's variance is taken from this estimate; NaN if it is unknown.

        Reference: Guenther 1981, Sample size formulas for normal theory t tests.
        """
        from scipy import stats

        if math.isnan(self.value + self.error) or self.is_constant:
            return math.nan
        if abs(self.value) <= _NOTHING:
            return math.inf
        # Guenther, for the variance v of a unit and the difference d: n = (z(level / 2) + z(1 -
        # power))² v / d² + z(level / 2)² / 2. The last term corrects for using t instead of the
        # normal distribution.
        tail = float(stats.norm.isf(level / 2))
        # v / d², as error² = v / units.
        ratio = self.units * (self.error / self.value) ** 2
        return math.ceil((tail + float(stats.norm.isf(1 - _POWER))) ** 2 * ratio + tail**2 / 2)


def smallest_exchange(units: int) -> float:
    """Returns the smallest two-sided p-value of exchanging whole units of two systems."""
    # Of 2**units equally likely exchanges, two are as extreme as the observation: none and all.
    return min(1.0, 2.0 ** (1 - units))


def unit_sums(values: NDArray[np.float64], numbers: NDArray[np.intp], units: int) -> NDArray:
    """Returns the sums of values [rows, sums] over the rows of each unit: [units, sums]."""
    return np.stack([np.bincount(numbers, column, units) for column in values.T], axis=1)


def jackknife_sums(
    figure: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    sums: NDArray[np.float64],
    sizes: ArrayLike,
) -> Estimate:
    """Returns the estimate of a figure that is a function of sums over rows, such as a mean.

    `figure` maps totals [n, sums] to figures [n]; `sums` are the sums of each unit, [units, sums];
    `sizes` are the units' weights, such as their numbers of rows, [units].
    """
    total = sums.sum(axis=0)
    # The total less a unit's sums is the total without it, so the rows are not needed again.
    values = figure(np.concatenate([total[None], total - sums]))
    return jackknife(float(values[0]), values[1:], sizes)


def jackknife(value: float, left_out: ArrayLike, sizes: ArrayLike) -> Estimate:
    """Returns an estimate from the figure of all units, and the figures without each unit, [units].

    `sizes` is the number of rows of each unit, [units].
    """
    figures, counts = np.asarray(left_out, np.float64), np.asarray(sizes, np.float64)
    units = int(figures.size)
    # A figure may be undefined without a unit, such as a mean whose rows all belong to that unit.
    if units < 2 or not np.isfinite(figures).all():
        return Estimate(value, math.nan, math.nan, units)
    # Centred at the figure of all units, as in CV3: centred at the mean of `left_out`, the sum of
    # squares could only be smaller. Figures without a unit vary little, hence a factor near 1 and
    # not near 1 / units.
    variance = (units - 1) / units * float(np.sum((figures - value) ** 2))
    # G / (1 + CV²), where CV is the coefficient of variation of the units' sizes: a few large units
    # determine the figure, however many small ones there are.
    effective = float(counts.sum() ** 2 / np.sum(counts**2))  # all units, if of equal size
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
    # (Σ v)² / Σ (v² / degrees). The mean divides each v by k², which cancels out.
    combined = total**2 / spread if spread > 0 else float(degrees.min())
    units = sum(estimate.units for estimate in estimates)
    ends = min(estimate.ends or estimate.units for estimate in estimates)
    differing = sum(estimate.differing for estimate in estimates)
    return Estimate(value, math.sqrt(total) / len(estimates), combined, units, ends, differing)


def p_value_text(p_value: float) -> str:
    """Returns a p-value as text, such as "p = 0.018"."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def corrected_text(p_value: float, corrected: float) -> str:
    """Returns a p-value as text, with the corrected one if it differs."""
    text = p_value_text(p_value)
    if corrected == p_value:
        return text
    return f"{text}, corrected {p_value_text(corrected).removeprefix('p ').removeprefix('= ')}"


def name_with_p_value(name: str, p_value: float, settling: str = "") -> str:
    """Returns a verdict's text on one comparison, such as "nli (p = 0.018)"; NaN = "(no test)".

    `settling` says how many units would settle it; see `units.settling_text`.
    """
    if math.isnan(p_value):
        return f"{name} (no test)"
    return f"{name} ({p_value_text(p_value)}{settling})"


def method_note(confidence: float) -> str:
    """Returns a table's note on its intervals and p-values."""
    return (
        f"{100 * confidence:g}% intervals and p-values come from one procedure: the standard error "
        "from units left out one at a time, and Student's t. Equal values have no interval, unless "
        "they are an end of the scale."
    )
