import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from faith_jax.statistics.intervals import (
    Estimate,
    corrected_text,
    jackknife,
    mean_estimate,
    smallest_exchange,
    unit_sums,
)


def of_mean(values):
    total, count = np.sum(values), len(values)
    left_out = (total - np.asarray(values)) / (count - 1)
    return jackknife(total / count, left_out, np.ones(count))


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(0.4, 1, 12)
    mean = of_mean(values)
    expected = stats.ttest_1samp(values, 0)
    assert (mean.error, mean.degrees, mean.units) == (pytest.approx(stats.sem(values)), 11, 12)
    assert mean.p_value() == pytest.approx(expected.pvalue)
    assert mean.interval(0.9) == pytest.approx(tuple(expected.confidence_interval(0.9)))


def test_units_of_unequal_size_have_fewer_degrees():
    """Carter 2017: k / (1 + CV²) units count, with the variation of their sizes."""
    sizes = np.array([1, 2, 3, 10])
    effective = 4 / (1 + sizes.var() / sizes.mean() ** 2)
    assert jackknife(0.0, [0.1, -0.1, 0.2, 0.0], sizes).degrees == pytest.approx(effective - 1)
    assert jackknife(0.0, [0.1, -0.1], [99, 1]).degrees == 1


def test_the_interval_leaves_out_0_where_the_p_value_is_small():
    generator = np.random.default_rng(1)
    for _ in range(200):
        mean = of_mean(generator.normal(0.5, 1, 15))
        low, high = mean.interval()
        assert (mean.p_value() < 0.05) == (low > 0 or high < 0)


@pytest.mark.parametrize(("hits", "rows"), [(0, 20), (3, 20), (20, 20), (50, 60)])
def test_shares_have_wilsons_interval(hits, rows):
    interval = of_mean(np.repeat([1.0, 0.0], [hits, rows - hits])).interval(0.95, (0.0, 1.0))
    quantile = stats.t.ppf(0.975, rows - 1)
    # The error divides by one row less; at the ends there is none, and all rows count.
    counted = rows - 1 if 0 < hits < rows else rows
    level = 2 * stats.norm.sf(quantile)
    expected = proportion_confint(counted * hits / rows, counted, level, "wilson")
    assert interval == pytest.approx(expected, abs=1e-9)
    scaled = of_mean(np.repeat([3.0, 1.0], [hits, rows - hits])).interval(0.95, (1.0, 3.0))
    assert scaled == pytest.approx([1 + 2 * end for end in expected], abs=1e-9)


def test_what_does_not_vary_has_no_interval():
    same = of_mean([0.5] * 8)
    assert all(map(math.isnan, same.interval()))
    assert all(map(math.isnan, same.interval(bounds=(0.0, 1.0))))
    assert same.p_value() == smallest_exchange(8) == 2 / 2**8
    assert of_mean([0.0] * 8).p_value() == 1
    assert math.isnan(same.units_to_settle(0.05))


def test_one_unit_has_nothing():
    estimate = jackknife(0.7, [math.nan], [9])
    assert (estimate.value, estimate.units) == (0.7, 1)
    assert all(map(math.isnan, (*estimate.interval(), estimate.p_value(), estimate.error)))


def test_means_of_estimates_are_welchs():
    first, second = np.random.default_rng(2).normal(size=(2, 12))
    second = 3 * second[:7]
    estimate = mean_estimate([of_mean(first), of_mean(-second)])
    expected = stats.ttest_ind(first, second, equal_var=False)
    assert 2 * estimate.value == pytest.approx(first.mean() - second.mean())
    assert estimate.p_value() == pytest.approx(expected.pvalue)
    assert estimate.degrees == pytest.approx(expected.df)


def test_as_many_units_as_settle_a_difference_have_the_power():
    """By simulation: tests with this number of rows reject in 8 of 10 samples."""
    estimate = Estimate(0.5, 1 / math.sqrt(10), 9, 10)  # a row's deviation is 1
    needed = estimate.units_to_settle(0.05)
    assert needed == math.ceil((stats.norm.isf(0.025) + stats.norm.isf(0.2)) ** 2 / 0.25 + 1.9208)
    samples = np.random.default_rng(0).normal(0.5, 1, (4000, needed))
    rejected = stats.ttest_1samp(samples, 0, axis=1).pvalue <= 0.05
    assert rejected.mean() == pytest.approx(0.8, abs=0.02)
    assert Estimate(0.0, 1.0, 9, 10).units_to_settle(0.05) == math.inf


def test_sums_of_units():
    values = np.array([[1.0, 10], [2, 20], [3, 30]])
    assert unit_sums(values, np.array([0, 1, 0]), 2).tolist() == [[4, 40], [2, 20]]


def test_a_confidence_is_a_share():
    with pytest.raises(ValueError, match=r"between 0 and 1, not 1\.0"):
        of_mean([0.1, 0.2]).interval(1.0)


def test_corrected_p_values_are_shown_beside():
    assert corrected_text(0.0181, 0.0181) == "p = 0.018"
    assert corrected_text(0.0181, 0.1086) == "p = 0.018, corrected 0.109"
    assert corrected_text(0.0001, 0.0002) == "p < 0.001, corrected < 0.001"


def test_intervals_of_differences_end_with_the_scale():
    estimate = jackknife(0.5, [0.1, 0.9, 0.5], [1, 1, 1])
    low, high = estimate.interval()
    assert low < -1 < 1 < high
    assert estimate.difference_interval(bounds=(0.0, 1.0)) == (-1, 1)
    assert estimate.difference_interval(bounds=(2.0, 3.0)) == (-1, 1)
    assert estimate.difference_interval() == (low, high)
    assert estimate.difference_interval(0.01, (0.0, 1.0)) == estimate.interval(0.01)
    constant = jackknife(0.5, [0.5, 0.5, 0.5], [1, 1, 1])
    assert all(math.isnan(end) for end in constant.difference_interval(bounds=(0.0, 1.0)))
