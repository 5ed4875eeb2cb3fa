"""The guarantees by simulation: 1,000 calibrations each, whose true risks are known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from faith_jax.statistics.calibration import guarantees
from faith_jax.statistics.calibration.guarantees import (
    controlling_threshold,
    one_row_of_each,
    rows_to_control,
    rows_to_test,
    safe_thresholds,
    unit_weights,
    units_to_test,
    widest_pair,
)
from faith_jax.statistics.thresholds import accepting_threshold

DRAWS = 400
TARGET, LEVEL = 0.1, 0.05
# Of 400 draws with a failure in 5%, more fail in one simulation of 1,000.
MOST_FAILURES = int(stats.binom.isf(0.001, DRAWS, LEVEL))
# The share of faithful rows, and how much higher their scores are, in standard deviations.
FAITHFUL, EFFECT = 0.7, 2.0


def draw(rng, rows, effect=EFFECT, step=0.0):
    """Returns scores and which rows are wrong; scores are rounded up to multiples of the step."""
    is_wrong = rng.random(rows) >= FAITHFUL
    scores = rng.normal(effect * ~is_wrong)
    return (np.ceil(scores / step) * step if step else scores), is_wrong


def risk_from(threshold, effect=EFFECT, step=0.0, faithful=FAITHFUL):
    """Returns the share of wrong rows among those with this score or a higher one."""
    threshold -= step  # rounded up, a score has the threshold if it is above the step below it
    wrong = (1 - faithful) * stats.norm.sf(threshold)
    return wrong / (wrong + faithful * stats.norm.sf(threshold, effect))


def failures(thresholds, **world):
    """Returns how many of the thresholds (NaN = none) have too large a risk."""
    limits = np.array(thresholds)
    return int(np.sum(risk_from(limits[~np.isnan(limits)], **world) > TARGET))


def most_lenient(scores, is_wrong, seed, target=TARGET):
    thresholds = safe_thresholds(scores, is_wrong, target, LEVEL, seed)
    return thresholds[-1] if thresholds.size else math.nan


@pytest.mark.parametrize("step", [0.0, 0.5], ids=["continuous", "ties"])
def test_learn_then_test_keeps_its_promise(step):
    rng = np.random.default_rng(1)
    thresholds = [most_lenient(*draw(rng, 400, step=step), seed) for seed in range(DRAWS)]
    assert failures(thresholds, step=step) <= MOST_FAILURES
    # Calibration is also useful: most calibrations accept many of the rows that may be accepted.
    assert np.mean(np.isnan(thresholds)) < 0.15
    assert np.nanmedian(risk_from(np.array(thresholds), step=step)) > TARGET / 3


def test_the_level_is_used_up_where_the_next_threshold_is_just_too_lenient():
    """With two scores, the high one is safe, but accepting both is wrong a little too often."""
    rng, failing = np.random.default_rng(2), 0
    for seed in range(DRAWS):
        is_high = rng.random(400) < 0.5
        is_wrong = rng.random(400) < np.where(is_high, 0.02, 0.1801)  # 0.10005 of all
        failing += most_lenient(is_high.astype(float), is_wrong, seed) == 0.0
    assert LEVEL * DRAWS / 3 < failing <= MOST_FAILURES


def test_thresholds_that_the_tested_rows_choose_break_the_promise():
    """Thresholds come from a part of the rows: else a blind scorer would have one at each score."""
    rng, lucky, fixed, observed = np.random.default_rng(3), 0, 0, 0
    for seed in range(DRAWS):
        scores, is_wrong = rng.random(400), rng.random(400) < TARGET + 0.005
        order = np.argsort(-scores)
        wrong, rows = np.cumsum(is_wrong[order]), np.arange(1, 401)
        lucky += (stats.binom.cdf(wrong, rows, TARGET) <= LEVEL).any()
        fixed += safe_thresholds(scores, is_wrong, TARGET, LEVEL, seed).size > 0
        observed += not math.isnan(accepting_threshold(scores, ~is_wrong, TARGET))
    assert fixed <= MOST_FAILURES
    assert min(lucky, observed) > 3 * LEVEL * DRAWS


def clustered(rng, clusters, size=10, step=0.0):
    """Returns rows in clusters with a common label and scores around the cluster's score."""
    scores, is_wrong = draw(rng, clusters)
    spread = rng.normal(scale=0.01, size=(clusters, size))
    # Sorted down, so that a draw of one row has to be a random one.
    rows = np.repeat(scores, size) + spread.ravel()
    rows = np.ceil(rows / step) * step if step else rows
    return rows, np.repeat(is_wrong, size), np.repeat(np.arange(clusters), size)


@pytest.mark.slow
def test_one_row_of_each_cluster_keeps_the_promise_and_all_rows_break_it():
    rng, step = np.random.default_rng(4), 0.2
    by_cluster, by_row = [], []
    for seed in range(DRAWS):
        scores, is_wrong, units = clustered(rng, 150, step=step)
        rows = one_row_of_each(units, seed)
        by_cluster.append(most_lenient(scores[rows], is_wrong[rows], seed))
        by_row.append(most_lenient(scores, is_wrong, seed))
    # Scores spread by 0.01, which hardly changes what is accepted.
    assert failures(by_cluster, step=step) <= MOST_FAILURES
    assert failures(by_row, step=step) > 1.5 * MOST_FAILURES


def test_accepting_and_rejecting_both_keep_their_promise():
    """Also where the pair of thresholds is chosen by the rows that tested them."""
    rng, accepting, rejecting = np.random.default_rng(8), [], []
    for seed in range(DRAWS):
        scores, is_wrong = draw(rng, 500, effect=3.0)
        accepts = safe_thresholds(scores, is_wrong, TARGET, LEVEL, seed)
        rejects = -safe_thresholds(-scores, ~is_wrong, TARGET, LEVEL, seed)
        accept, reject = widest_pair(accepts, rejects, scores, np.ones(500))
        assert not reject >= accept
        accepting.append(accept)
        rejecting.append(reject)
    assert failures(accepting, effect=3.0) <= MOST_FAILURES
    # Rejected are scores up to the threshold: mirrored, with faithful rows as the wrong ones.
    rejected = np.array(rejecting)[~np.isnan(rejecting)]
    faithful = FAITHFUL * stats.norm.cdf(rejected, 3.0)
    risks = faithful / (faithful + (1 - FAITHFUL) * stats.norm.cdf(rejected))
    assert np.sum(risks > TARGET) <= MOST_FAILURES
    assert rejected.size > 0.7 * DRAWS


def test_the_pair_that_decides_most():
    scores, weights = np.array([1.0, 2, 3, 4, 5]), np.array([1.0, 1, 1, 1, 2])
    pairs = {
        # All is accepted: nothing is left to reject.
        (1.0, 3.0, 5.0): ((2.0,), (1.0, math.nan)),
        # 3 to 5 and 1 to 2 are all rows; of 4 to 5 and 1 to 3, fewer are accepted.
        (3.0, 4.0): ((2.0, 3.0), (3.0, 2.0)),
        # What would be both is only accepted.
        (2.0,): ((3.0,), (2.0, math.nan)),
        (): ((3.0,), (math.nan, 3.0)),
    }
    for accepts, (rejects, expected) in pairs.items():
        pair = widest_pair(np.array(accepts), np.array(rejects), scores, weights)
        assert pair == pytest.approx(expected, nan_ok=True)


def test_another_mix_breaks_the_promise():
    """The groups are not exchangeable: calibration has 70% faithful rows, use has 40%."""
    rng = np.random.default_rng(5)
    thresholds = [most_lenient(*draw(rng, 400), seed) for seed in range(DRAWS)]
    assert failures(thresholds, faithful=0.4) > 0.9 * np.sum(~np.isnan(thresholds))


def losses_at(thresholds, step=0.0):
    """Returns the share of all rows that each threshold accepts and that are wrong; NaN = none."""
    losses = (1 - FAITHFUL) * stats.norm.sf(np.array(thresholds) - step)
    return np.where(np.isnan(losses), 0.0, losses)


@pytest.mark.parametrize("step", [0.0, 0.5], ids=["continuous", "ties"])
@pytest.mark.parametrize("clusters", [20, 150])
def test_conformal_risk_control_keeps_its_promise_on_average(clusters, step):
    rng = np.random.default_rng(6)
    thresholds = [
        controlling_threshold(*clustered(rng, clusters, step=step), TARGET) for _ in range(DRAWS)
    ]
    losses = losses_at(thresholds, step)
    error = losses.std() / math.sqrt(DRAWS)
    assert losses.mean() <= TARGET + 3 * error
    # Theorem 2: it is hardly more careful than it must be, without ties.
    if not step:
        assert losses.mean() >= TARGET - 2 / (clusters + 1) - 3 * error


def test_conformal_risk_control_is_none_of_the_accepted():
    """Half of the accepted rows may be wrong if few are accepted, so there are two guarantees."""
    rng = np.random.default_rng(7)
    scores, is_wrong = rng.normal(size=1000), rng.random(1000) < 0.5
    threshold = controlling_threshold(scores, is_wrong, np.arange(1000), TARGET)
    accepted = scores >= threshold
    assert np.mean(accepted & is_wrong) <= TARGET
    assert np.mean(is_wrong[accepted]) > 0.4


ROWS = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.8]), st.booleans(), st.integers(0, 3)), min_size=1
)


@given(ROWS, st.sampled_from([0.1, 0.25, 0.5]))
def test_the_controlling_threshold_is_the_smallest_that_fulfils_the_bound(rows, target):
    scores, is_wrong, names = (np.array(column) for column in zip(*rows, strict=True))
    units = np.unique(names, return_inverse=True)[1]
    total = units.max() + 1

    def bound(threshold):
        lost = [
            np.mean((scores >= threshold)[units == u] & is_wrong[units == u]) for u in set(units)
        ]
        return (sum(lost) + 1) / (total + 1)

    fulfilling = [score for score in set(scores.tolist()) if bound(score) <= target + 1e-9]
    threshold = controlling_threshold(scores, is_wrong, units, target)
    assert threshold == min(fulfilling) if fulfilling else math.isnan(threshold)


@pytest.mark.parametrize(("target", "level"), [(0.05, 0.05), (0.1, 0.05), (0.01, 0.1), (0.3, 0.5)])
def test_no_fewer_rows_are_enough(target, level):
    rows = rows_to_test(target, level)
    assert (1 - target) ** rows <= level < (1 - target) ** (rows - 1)
    units = units_to_test(target, level)
    enough = safe_thresholds(np.ones(units), np.zeros(units, bool), target, level)
    few = safe_thresholds(np.ones(units - 1), np.zeros(units - 1, bool), target, level)
    assert (enough.tolist(), few.tolist()) == ([1.0], [])
    least = rows_to_control(target)
    for count in (least, least - 1):
        flags = np.zeros(count, bool)
        threshold = controlling_threshold(np.ones(count), flags, np.arange(count), target)
        assert math.isnan(threshold) == (count < least)


def test_one_row_of_each_unit_is_any_of_its_rows():
    units = np.array([0, 1, 1, 1, 2, 0])
    drawn = np.array([one_row_of_each(units, seed) for seed in range(3000)])
    assert (units[drawn] == [0, 1, 2]).all()
    assert np.bincount(drawn[:, 1])[1:4] == pytest.approx([1000] * 3, abs=100)
    assert np.bincount(drawn[:, 0], minlength=6)[[0, 5]] == pytest.approx([1500] * 2, abs=110)
    assert unit_weights(units).tolist() == [1 / 2, 1 / 3, 1 / 3, 1 / 3, 1, 1 / 2]


@given(st.integers(0, 10_000), st.integers(5, 300), st.floats(0.01, 0.98), st.floats(0.01, 0.98))
def test_a_larger_target_never_accepts_less(seed, rows, first, second):
    scores, is_wrong = draw(np.random.default_rng(seed), rows, step=0.25)
    low, high = sorted([first, second])
    few, many = (safe_thresholds(scores, is_wrong, target, LEVEL) for target in (low, high))
    assert few.tolist() == many[: few.size].tolist()


def test_nothing_is_shown_without_rows():
    nothing = np.zeros(0)
    assert safe_thresholds(nothing, nothing.astype(bool), 0.1, 0.05).size == 0
    assert math.isnan(controlling_threshold(nothing, nothing == 1, np.zeros(0, np.intp), 0.1))
    assert guarantees.unit_weights(np.zeros(0, np.intp)).size == 0
