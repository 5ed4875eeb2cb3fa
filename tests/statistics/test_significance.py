import itertools
import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from faith_jax.statistics import significance
from tests.statistics import significance_reference as reference
from tests.statistics.significance_reference import area


def two_scorers(seed, rows=80, gain=1.0):
    generator = np.random.default_rng(seed)
    labels = np.append([0, 0, 1, 1], generator.integers(0, 2, rows - 4))
    shared = generator.normal(size=rows)
    scores = [np.round(shared + g * labels + generator.normal(size=rows), 1) for g in (1, gain)]
    return *scores, labels


def randomization(*arguments, **options):
    return significance.approximate_randomization([significance.exchanges(*arguments, **options)])


def test_randomization_of_few_rows_against_all_exchanges():
    a, b, labels = two_scorers(0, 10, 0.2)
    ranks = stats.rankdata(a), stats.rankdata(b)
    observed = abs(area(a, labels) - area(b, labels))
    extreme = []
    for swap in itertools.product([False, True], repeat=10):
        first, second = np.where(swap, ranks[1], ranks[0]), np.where(swap, ranks[0], ranks[1])
        extreme.append(abs(area(first, labels) - area(second, labels)) >= observed - 1e-12)
    exact = np.mean(extreme)
    result = randomization(a, b, labels, rounds=2000, seed=1)
    assert result.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2000))
    assert result.difference == pytest.approx(area(a, labels) - area(b, labels))


def test_randomization_is_seeded_and_knows_no_scales():
    a, b, labels = two_scorers(1)
    result = randomization(a, b, labels, 200, seed=5)
    assert result == randomization(a, b, labels, 200, seed=5)
    assert result == randomization(1000 * a, np.exp(b), labels, 200, seed=5)


@pytest.mark.parametrize(
    "test", [randomization, significance.delong_test, significance.hanley_mcneil_test]
)
def test_what_every_test_says(test):
    better, worse, labels = two_scorers(2, 300, -0.5)
    result = test(better, worse, labels)
    assert result.p_value < 0.01 < result.difference
    mirrored = test(worse, better, labels)
    assert mirrored.difference == pytest.approx(-result.difference)
    assert mirrored.p_value == pytest.approx(result.p_value, abs=1e-9)
    assert test(better, better, labels).p_value == 1
    assert all(map(math.isnan, test(better, worse, np.ones_like(labels))))


def covariance_of(components):
    """The covariance of two AUCs, by the variance of their difference."""
    first, second, both = (components.estimate(w).error ** 2 for w in ([1, 0], [0, 1], [1, -1]))
    shared = (first + second - both) / 2
    return np.array([[first, shared], [shared, second]])


@given(st.integers(0, 1000))
def test_delongs_covariance_against_its_definition(seed):
    a, b, labels = two_scorers(seed, 30)
    components = significance.area_components([a, b], labels)
    np.testing.assert_allclose(components.areas, [area(a, labels), area(b, labels)])
    np.testing.assert_allclose(
        covariance_of(components), reference.delong_covariance([a, b], labels), atol=1e-12
    )


@pytest.mark.parametrize("seed", range(3))
def test_p_values_against_their_definitions(seed):
    a, b, labels = two_scorers(seed, 60, 0.4)
    expected = reference.delong_p(a, b, labels)
    assert significance.delong_test(a, b, labels).p_value == pytest.approx(expected)
    expected = reference.hanley_mcneil_p(a, b, labels)
    assert significance.hanley_mcneil_test(a, b, labels).p_value == pytest.approx(expected)
    expected = reference.randomization_p([reference.exchanged_differences(a, b, labels, 99, seed)])
    result = randomization(a, b, labels, 99, seed)
    assert result.p_value == expected


def test_delongs_variance_is_that_of_repeated_samples():
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1], 100)
    samples = generator.normal(size=(600, 200)) + labels
    areas = [area(sample, labels) for sample in samples]
    errors = [significance.area_components([s], labels).estimate([1]).error for s in samples]
    assert np.mean(np.square(errors)) == pytest.approx(np.var(areas, ddof=1), rel=0.15)


def of_documents(seed, documents=30, rows=8):
    """Two equally good scorers, each with its own deviation in every document."""
    generator = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(documents), rows)
    labels = np.where(generator.random(documents) < 0.5, 0.3, 0.7)[clusters] > generator.random(
        documents * rows
    )
    scores = [
        labels + 2 * generator.normal(size=documents)[clusters] + generator.normal(size=labels.size)
        for _ in range(2)
    ]
    return *scores, labels.astype(int), clusters.tolist()


def obuchowski_by_loops(scores, labels, clusters):
    """The covariance as section 2 of Obuchowski 1997 writes it, pair by pair."""
    names, parts = sorted(set(clusters)), []
    positives, negatives = ([i for i, y in enumerate(labels) if y == k] for k in (1, 0))
    m, n = len(positives), len(negatives)
    for row in scores:
        wins = {(i, j): (np.sign(row[i] - row[j]) + 1) / 2 for i in positives for j in negatives}
        area = sum(wins.values()) / (m * n)
        first, second = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        for i in positives:
            first[clusters[i]] += sum(wins[i, j] for j in negatives) / n - area
        for j in negatives:
            second[clusters[j]] += sum(wins[i, j] for i in positives) / m - area
        parts.append((first, second))
    units10, units01 = len({clusters[i] for i in positives}), len({clusters[j] for j in negatives})
    covariance = np.zeros((2, 2))
    for a, b in itertools.product(range(2), repeat=2):
        (a10, a01), (b10, b01) = parts[a], parts[b]
        s10 = units10 / ((units10 - 1) * m) * sum(a10[c] * b10[c] for c in names)
        s01 = units01 / ((units01 - 1) * n) * sum(a01[c] * b01[c] for c in names)
        factor = len(names) / (len(names) - 1)
        s11 = factor * sum(a10[c] * b01[c] for c in names)
        s11_mirrored = factor * sum(b10[c] * a01[c] for c in names)
        covariance[a, b] = s10 / m + s01 / n + (s11 + s11_mirrored) / (m * n)
    return covariance


@pytest.mark.parametrize("seed", range(2))
def test_clustered_covariance_against_its_definition(seed):
    a, b, labels, _ = of_documents(seed, 8, 4)
    a, b = np.round(a, 1), np.round(b)  # ties
    clusters = [f"document {number}" for number in np.random.default_rng(seed).integers(7, size=32)]
    matrix = covariance_of(significance.area_components([a, b], labels, clusters))
    np.testing.assert_allclose(matrix, obuchowski_by_loops([a, b], labels, clusters), atol=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_differences_of_areas_are_estimates(seed):
    a, b, labels = two_scorers(seed, 40, 0.4)
    diff = significance.area_components([a, b], labels).estimate([1, -1])
    value, error, degrees = reference.area_difference(a, b, labels)
    assert (diff.value, diff.error, diff.degrees) == pytest.approx((value, error, degrees))
    assert (diff.units, diff.ends) == (40, min(np.bincount(labels)))
    assert diff.p_value() == pytest.approx(2 * stats.t.sf(abs(value) / error, degrees))
    clusters = [number // 4 for number in range(40)]
    together = significance.area_components([a, b], labels, clusters)
    by_loops = obuchowski_by_loops([a, b], labels, clusters)
    expected = math.sqrt(by_loops[0, 0] + by_loops[1, 1] - 2 * by_loops[0, 1])
    assert together.estimate([1, -1]).error == pytest.approx(expected)
    assert together.estimate([1, -1]).degrees <= 9


def test_areas_of_one_unit_of_a_class_have_no_error():
    a, b, labels = two_scorers(1, 20)
    for clusters in ([0] * 20, np.where(labels, 0, np.arange(20)).tolist()):
        estimate = significance.area_components([a, b], labels, clusters).estimate([1, 0])
        assert estimate.value == pytest.approx(area(a, labels))
        assert math.isnan(estimate.error)
        assert math.isnan(estimate.interval().low)
        assert math.isnan(estimate.p_value())


def test_repeated_rows_are_no_new_evidence():
    a, b, labels = two_scorers(5, 60, 0.7)
    again = [np.tile(values, 20) for values in (a, b, labels)]
    documents = np.tile(np.arange(60), 20)
    once = randomization(a, b, labels, 500, 1)
    assert randomization(*again, 500, 1, documents) == pytest.approx(once, nan_ok=True)
    assert randomization(*again, 500, 1).p_value < once.p_value / 5
    clustered = significance.delong_test(*again, clusters=documents).p_value
    assert clustered == pytest.approx(significance.delong_test(a, b, labels).p_value, rel=0.2)
    assert significance.delong_test(*again).p_value < clustered / 1000


@pytest.mark.slow
def test_clustered_tests_reject_five_per_cent_of_true_null_hypotheses():
    names = ("delong", "randomization", "delong by row", "randomization by row")
    rejected = dict.fromkeys(names, 0)
    for seed in range(300):
        a, b, labels, clusters = of_documents(seed)
        for name, units in (("", clusters), (" by row", None)):
            by_normal = significance.delong_test(a, b, labels, units)
            by_chance = randomization(a, b, labels, 99, seed, units)
            rejected["delong" + name] += by_normal.p_value <= 0.05
            rejected["randomization" + name] += by_chance.p_value <= 0.05
    rates = {name: count / 300 for name, count in rejected.items()}
    assert 0.02 < rates["delong"] < 0.09  # 0.05 within three standard errors of 300 trials
    assert 0.02 < rates["randomization"] < 0.09
    assert min(rates["delong by row"], rates["randomization by row"]) > 0.12


def test_too_few_clusters_decide_nothing():
    a, b, labels, _ = of_documents(0, 4, 5)
    assert math.isnan(significance.delong_test(a, b, labels, ["one"] * 20).p_value)
    assert randomization(a, b, labels, clusters=["one"] * 20).p_value == 1


def test_the_average_of_corpora_against_all_exchanges():
    corpora = [two_scorers(seed, 6, 0.2) for seed in (1, 2)]
    differences = []
    for a, b, labels in corpora:
        ranks = stats.rankdata(a), stats.rankdata(b)
        exchanged = [
            area(np.where(s, ranks[1], ranks[0]), labels)
            - area(np.where(s, ranks[0], ranks[1]), labels)
            for s in itertools.product([False, True], repeat=6)
        ]
        differences.append(exchanged)  # the first exchanges nothing
    observed = abs(differences[0][0] + differences[1][0]) / 2
    sums = np.add.outer(*differences) / 2
    exact = np.mean(np.abs(sums) >= observed - 1e-12)
    parts = [significance.exchanges(*arrays, 2000, seed) for seed, arrays in enumerate(corpora)]
    result = significance.approximate_randomization(parts)
    assert abs(result.difference) == pytest.approx(observed)
    assert result.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2000))


def test_hanley_and_mcneils_error_by_hand():
    # Hanley 1982: 51 abnormal and 58 normal images, area 0.893, error 0.032 or 0.033.
    assert significance.hanley_mcneil_error(0.893, 51, 58) == pytest.approx(0.0325, abs=5e-4)
    assert significance.hanley_mcneil_error(1.0, 5, 5) == 0
    assert math.isnan(significance.hanley_mcneil_error(0.7, 0, 5))


P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(P_VALUES)
def test_corrections_agree_with_statsmodels(p_values):
    for name, function in (("bonferroni", significance.bonferroni), ("holm", significance.holm)):
        with mock.patch("gc.collect"):  # which it does each time, of all that the tests hold
            expected = multipletests(p_values, method=name)[1]
        np.testing.assert_allclose(function(p_values), expected, atol=1e-12)


def test_undefined_p_values_do_not_count():
    np.testing.assert_array_equal(significance.holm([0.01, math.nan, 0.2]), [0.02, math.nan, 0.2])
    np.testing.assert_array_equal(
        significance.bonferroni([0.01, math.nan, 0.2]), [0.02, math.nan, 0.4]
    )


def test_bad_input():
    with pytest.raises(ValueError, match="The score of row 0 is nan"):
        significance.delong_test([math.nan, 1], [1, 0], [0, 1])
