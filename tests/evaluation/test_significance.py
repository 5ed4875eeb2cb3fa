import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from faith_jax.evaluation import significance
from faith_jax.evaluation.roc import roc_auc


def two_scorers(seed, rows=80, gain=1.0):
    generator = np.random.default_rng(seed)
    labels = np.append([0, 0, 1, 1], generator.integers(0, 2, rows - 4))
    shared = generator.normal(size=rows)
    scores = [np.round(shared + g * labels + generator.normal(size=rows), 1) for g in (1, gain)]
    return *scores, labels


def test_randomization_of_few_rows_against_all_exchanges():
    a, b, labels = two_scorers(0, 10, 0.2)
    ranks = stats.rankdata(a), stats.rankdata(b)
    observed = abs(roc_auc(a, labels) - roc_auc(b, labels))
    extreme = []
    for swap in itertools.product([False, True], repeat=10):
        first, second = np.where(swap, ranks[1], ranks[0]), np.where(swap, ranks[0], ranks[1])
        extreme.append(abs(roc_auc(first, labels) - roc_auc(second, labels)) >= observed - 1e-12)
    exact = np.mean(extreme)
    found = significance.approximate_randomization(a, b, labels, rounds=2000, seed=1)
    assert found.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2000))
    assert found.difference == pytest.approx(roc_auc(a, labels) - roc_auc(b, labels))


def test_randomization_is_seeded_and_knows_no_scales():
    a, b, labels = two_scorers(1)
    found = significance.approximate_randomization(a, b, labels, 200, seed=5)
    assert found == significance.approximate_randomization(a, b, labels, 200, seed=5)
    assert found == significance.approximate_randomization(1000 * a, np.exp(b), labels, 200, seed=5)


@pytest.mark.parametrize(
    "test",
    [
        significance.approximate_randomization,
        significance.delong_test,
        significance.hanley_mcneil_test,
    ],
)
def test_what_every_test_says(test):
    better, worse, labels = two_scorers(2, 300, -0.5)
    found = test(better, worse, labels)
    assert found.p_value < 0.01 < found.difference
    mirrored = test(worse, better, labels)
    assert mirrored.difference == pytest.approx(-found.difference)
    assert mirrored.p_value == pytest.approx(found.p_value, abs=1e-9)
    assert test(better, better, labels).p_value == 1
    assert all(map(math.isnan, test(better, worse, np.ones_like(labels))))


def delong_by_pairs(scores, labels):
    """The covariance by its definition, over all pairs of a positive and a negative."""
    placements = []
    for row in np.asarray(scores):
        wins = np.sign(row[labels == 1][:, None] - row[labels == 0][None, :]) / 2 + 0.5
        placements.append((wins.mean(axis=1), wins.mean(axis=0)))
    by_positive = np.cov([p for p, _ in placements]) / (labels == 1).sum()
    by_negative = np.cov([n for _, n in placements]) / (labels == 0).sum()
    return by_positive + by_negative


@given(st.integers(0, 1000))
def test_delongs_covariance_against_its_definition(seed):
    a, b, labels = two_scorers(seed, 30)
    areas, covariance = significance.delong_covariance([a, b], labels)
    np.testing.assert_allclose(areas, [roc_auc(a, labels), roc_auc(b, labels)])
    np.testing.assert_allclose(covariance, delong_by_pairs([a, b], labels), atol=1e-12)


def test_delongs_variance_is_that_of_repeated_samples():
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1], 100)
    samples = generator.normal(size=(2000, 200)) + labels
    areas = [roc_auc(sample, labels) for sample in samples]
    estimates = [significance.delong_covariance([s], labels)[1][0, 0] for s in samples]
    assert np.mean(estimates) == pytest.approx(np.var(areas, ddof=1), rel=0.1)


def test_hanley_and_mcneils_error_by_hand():
    # Hanley 1982: 51 abnormal and 58 normal images, area 0.893, error 0.032 or 0.033.
    assert significance.hanley_mcneil_error(0.893, 51, 58) == pytest.approx(0.0325, abs=5e-4)
    assert significance.hanley_mcneil_error(1.0, 5, 5) == 0
    assert math.isnan(significance.hanley_mcneil_error(0.7, 0, 5))


def test_correlated_scorers_are_told_apart_with_fewer_rows():
    a, b, labels = two_scorers(3, 200, 0.4)
    independent = significance.hanley_mcneil_test(a, b, labels, correlation=0)
    estimated = significance.hanley_mcneil_test(a, b, labels)
    assert estimated.p_value < independent.p_value
    assert estimated.p_value == pytest.approx(
        significance.delong_test(a, b, labels).p_value, rel=0.5
    )


P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(P_VALUES)
def test_corrections_agree_with_statsmodels(p_values):
    for name, function in (("bonferroni", significance.bonferroni), ("holm", significance.holm)):
        expected = multipletests(p_values, method=name)[1]
        np.testing.assert_allclose(function(p_values), expected, atol=1e-12)


def test_undefined_p_values_do_not_count():
    np.testing.assert_array_equal(significance.holm([0.01, math.nan, 0.2]), [0.02, math.nan, 0.2])
    np.testing.assert_array_equal(
        significance.bonferroni([0.01, math.nan, 0.2]), [0.02, math.nan, 0.4]
    )


def test_bad_input():
    with pytest.raises(ValueError, match="At least one round is needed, not 0"):
        significance.approximate_randomization([0.1, 0.2], [0.2, 0.1], [0, 1], rounds=0)
    with pytest.raises(ValueError, match="The score of row 0 is nan"):
        significance.delong_test([math.nan, 1], [1, 0], [0, 1])
