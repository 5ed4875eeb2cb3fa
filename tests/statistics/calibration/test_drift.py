"""The alarms by simulation: their level, and their power for the changes they should notice."""

import math

import numpy as np
import pytest
from scipy import stats

from faith_jax.statistics.calibration import drift
from faith_jax.statistics.calibration.drift import compare_scores, compare_shares, detectable_share

DRAWS, LEVEL = 400, 0.05


def normal(rng, rows):
    return rng.normal(size=rows)


def thirds(rng, rows):
    """Scores with many ties."""
    return rng.integers(4, size=rows) / 3


@pytest.mark.parametrize(("draw", "new_rows"), [(normal, 100), (thirds, 10)])
def test_alarms_without_a_change_are_no_more_than_the_level(draw, new_rows):
    rng = np.random.default_rng(1)
    alarms = sum(
        compare_scores(draw(rng, 200), draw(rng, new_rows)).p_value <= LEVEL for _ in range(DRAWS)
    )
    assert alarms <= stats.binom.isf(0.001, DRAWS, LEVEL)


@pytest.mark.slow
def test_what_would_be_noticed_is_noticed_so_often():
    rng = np.random.default_rng(2)
    population = thirds(rng, 100_000)
    lowest = np.sort(population)[: population.size // 10]
    share = detectable_share(population[:200], 100, LEVEL)
    num_noticed = 0
    for _ in range(DRAWS):
        new = rng.choice(population, 100)
        is_low = rng.random(100) < share
        new[is_low] = rng.choice(lowest, is_low.sum())
        num_noticed += compare_scores(rng.choice(population, 200), new).p_value <= LEVEL
    # One percent of the share is one step of it; the reference is a sample too.
    assert 0.7 < num_noticed / DRAWS < 0.92


def test_more_rows_notice_less():
    reference = np.random.default_rng(3).normal(size=300)
    shares = [detectable_share(reference, rows, LEVEL) for rows in (20, 100, 1000)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] < 1
    assert math.isnan(detectable_share(reference, 1, LEVEL))
    assert math.isnan(detectable_share(np.ones(300), 100, LEVEL))  # all scores are of any tenth


@pytest.mark.slow
def test_many_values_are_no_harder_than_few(monkeypatch):
    reference = np.random.default_rng(3).normal(size=5000)
    share = detectable_share(reference, 1000, LEVEL)
    monkeypatch.setattr(drift, "_MOST_VALUES", 5000)
    assert share == pytest.approx(detectable_share(reference, 1000, LEVEL), abs=0.011)


def test_the_distance_by_hand():
    comparison = compare_scores(np.array([1.0, 2, 3, 4]), np.array([3.0, 4, 5, 6]))
    assert comparison.distance == 0.5  # of the first, half are below 3, of the second none


def test_another_mix_is_noticed():
    assert compare_shares(np.array([100, 100]), np.array([50, 50])) == 1.0
    assert compare_shares(np.array([100, 100]), np.array([80, 20])) < 0.001
    assert compare_shares(np.array([100, 0]), np.array([50, 0])) == 1.0
    rng = np.random.default_rng(4)
    alarms = sum(
        compare_shares(rng.multinomial(100, [0.3, 0.7]), rng.multinomial(60, [0.3, 0.7])) <= LEVEL
        for _ in range(DRAWS)
    )
    assert alarms <= stats.binom.isf(0.001, DRAWS, LEVEL) + 10  # of counts, it is about the level
