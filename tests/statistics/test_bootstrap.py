import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.statistics import auc, bootstrap
from faith_jax.statistics.auc import roc_auc


def test_counts_are_those_of_drawing_rows_with_replacement():
    counts = bootstrap.resampled_counts(50, 4000, seed=3)
    assert counts.shape == (50, 4000)
    assert (counts.sum(axis=0) == 50).all()
    # Each is binomial with 50 draws of probability 1/50: mean 1, variance 0.98.
    assert counts.mean() == 1
    np.testing.assert_allclose(counts.var(axis=1), 0.98, atol=0.12)
    np.testing.assert_array_equal(counts, bootstrap.resampled_counts(50, 4000, seed=3))
    assert (counts != bootstrap.resampled_counts(50, 4000, seed=4)).any()


def drawn(*arguments):
    """All draws in one part: [rows, resamples]."""
    (counts,) = bootstrap.drawn_counts(*arguments)
    return counts.T


def test_clusters_are_drawn_whole():
    clusters = ["a", "b", "a", "c", "c", "c"]
    counts = drawn(6, 500, 0, clusters)
    assert (counts[0] == counts[2]).all()
    assert (counts[3] == counts[4]).all()
    assert (counts[[0, 1, 3]].sum(axis=0) == 3).all()
    assert set(counts.sum(axis=0)) > {6}  # the number of rows varies


@pytest.mark.parametrize("clusters", [None, ["a", "b", "a", "c", "c", "c"]])
def test_counts_in_parts_are_the_same(clusters):
    parts = list(bootstrap.drawn_counts(6, 11, 3, clusters, cells=13))
    assert [part.shape for part in parts] == [(2, 6)] * 5 + [(1, 6)]
    np.testing.assert_array_equal(np.concatenate(parts).T, drawn(6, 11, 3, clusters))


def test_many_rows_take_little_memory():
    generator = np.random.default_rng(0)
    labels, scores = np.arange(20_000) % 2, generator.normal(size=(2, 20_000))
    tracemalloc.start()
    try:
        bootstrap.bootstrap(auc.auc_of_weights(scores, labels), 20_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6  # all counts together take 40 MB


@given(st.integers(0, 1000), st.booleans())
def test_areas_are_those_of_the_rows_drawn(seed, clustered):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, 12)
    scores = np.round(generator.normal(size=(2, 12)), 1)
    clusters = generator.integers(0, 5, 12).tolist() if clustered else None
    counts = drawn(12, 7, seed, clusters)
    areas = auc.auc_of_weights(scores, labels)(counts.T)
    for number, column in enumerate(counts.T):
        rows = np.repeat(np.arange(12), column)
        expected = [roc_auc(row[rows], labels[rows]) for row in scores]
        np.testing.assert_allclose(areas[:, number], expected)


def test_intervals_are_percentiles():
    assert bootstrap.percentile_interval(range(101)) == pytest.approx((2.5, 97.5))
    assert bootstrap.percentile_interval(range(101), 0.5) == pytest.approx((25, 75))
    assert bootstrap.percentile_interval([1.0, math.nan, 2.0], 0.5) == (1.25, 1.75)
    assert all(map(math.isnan, bootstrap.percentile_interval([math.nan])))


@pytest.mark.parametrize("values", [[1.0] * 9, [75.0, math.nan, 75.0], [0.1 + 0.2, 0.3], [0.0, 0]])
def test_equal_resamples_have_no_interval(values):
    """A perfect score of the rows at hand does not prove a perfect scorer."""
    assert all(map(math.isnan, bootstrap.percentile_interval(values)))
    assert not any(map(math.isnan, bootstrap.percentile_interval([*values, 2.0] * 9)))


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """Scores of the classes are normal with means 1 apart: the AUC is the normal cdf of 1/√2."""
    truth, generator, covered = 0.760250, np.random.default_rng(0), 0
    labels = np.repeat([0, 1], 60)
    for trial in range(200):
        scores = generator.normal(size=120) + labels
        areas_of, draws = auc.auc_of_weights(scores[None], labels), bootstrap.Draws(200, seed=trial)
        ((_, (low, high)),) = bootstrap.bootstrap(areas_of, 120, draws)
        covered += low <= truth <= high
    assert 0.9 <= covered / 200 <= 0.99


def test_bad_input():
    with pytest.raises(ValueError, match="no rows to draw from"):
        bootstrap.resampled_counts(0)
    with pytest.raises(ValueError, match="There are 4 rows, but clusters of 3; give one for each"):
        drawn(4, 2, 0, ["a", "a", "b"])
    with pytest.raises(ValueError, match=r"between 0 and 1, not 1\.0"):
        bootstrap.percentile_interval([1.0], 1.0)
