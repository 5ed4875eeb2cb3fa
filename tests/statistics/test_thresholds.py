import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.statistics.thresholds import (
    Wish,
    accepting_threshold,
    catching_threshold,
    held_out_figures,
)

ROWS = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8]), st.booleans()), min_size=1)
SHARES = st.sampled_from([0.05, 0.25, 1 / 3, 0.5, 0.9, 1.0])


@given(ROWS, SHARES)
def test_the_catching_threshold_is_the_smallest_that_catches_the_share(rows, share):
    scores, labels = (np.array(column, float) for column in zip(*rows, strict=True))
    threshold = catching_threshold(scores, labels, share)
    errors = scores[labels == 0]
    if not errors.size:
        assert math.isnan(threshold)
        return
    caught = {score: float(np.mean(errors <= score)) for score in sorted(set(errors.tolist()))}
    assert threshold == min(score for score, part in caught.items() if part >= share - 1e-9)


@given(ROWS, st.sampled_from([0.0, 0.05, 0.25, 1 / 3, 0.5]))
def test_the_accepting_threshold_is_the_smallest_with_few_errors_above(rows, risk):
    scores, labels = (np.array(column, float) for column in zip(*rows, strict=True))
    wrong = {
        score: float(np.mean(labels[scores >= score] == 0))
        for score in sorted(set(scores.tolist()))
    }
    fulfilling = [score for score, part in wrong.items() if part <= risk + 1e-9]
    threshold = accepting_threshold(scores, labels, risk)
    assert threshold == min(fulfilling) if fulfilling else math.isnan(threshold)


def draw(rng, rows, effect):
    labels = (rng.random(rows) < 0.7).astype(float)
    return rng.normal(effect * labels), labels


@pytest.mark.parametrize(("wish", "share"), [(Wish.CATCH, 0.9), (Wish.ACCEPT, 0.1)])
def test_held_out_figures_are_those_of_new_rows_and_their_intervals_cover(wish, share):
    """On its own rows a threshold meets its target exactly; on new rows it does not."""
    rng = np.random.default_rng(1)
    new_scores, new_labels = draw(rng, 100_000, 2.0)
    differences, covered = [], 0
    for seed in range(200):
        scores, labels = draw(rng, 120, 2.0)
        figures = held_out_figures(wish, scores, labels, share, np.arange(120), seed)
        is_low, errors = new_scores <= figures.threshold, new_labels == 0
        truth = is_low[errors].mean() if wish is Wish.CATCH else errors[~is_low].mean()
        low, high = figures.share.interval(0.95, (0.0, 1.0))
        differences.append(figures.share.value - truth)
        covered += low <= truth <= high
    assert abs(np.mean(differences)) < 0.01
    assert covered >= 0.9 * 200  # 95% is asked for; the threshold itself varies, too


def test_rows_of_a_unit_are_never_apart():
    """Ten copies of each of twelve rows: a row's own copies must not choose its threshold."""
    scores = np.repeat(np.arange(12.0), 10)
    labels = np.repeat([1.0, 0.0] * 6, 10)
    together = held_out_figures(Wish.CATCH, scores, labels, 1.0, np.repeat(np.arange(12), 10))
    assert together.threshold == 11.0
    # The highest error is not caught by what the others choose, which is 9.
    assert together.share.value == pytest.approx(5 / 6)
    by_row = held_out_figures(Wish.CATCH, scores, labels, 1.0, np.arange(120))
    assert by_row.share.value == 1.0


def test_nothing_is_promised_where_nothing_is_known():
    no_error = held_out_figures(Wish.CATCH, np.arange(5.0), np.ones(5), 0.9, np.arange(5))
    assert math.isnan(no_error.threshold)
    assert math.isnan(no_error.share.value)
    assert math.isnan(no_error.rows)
    all_wrong = held_out_figures(Wish.ACCEPT, np.arange(5.0), np.zeros(5), 0.1, np.arange(5))
    assert math.isnan(all_wrong.threshold)
    assert math.isnan(all_wrong.share.value)
    assert math.isnan(all_wrong.rows)


@pytest.mark.parametrize("documents", [1, 2, 3])
def test_a_fold_without_a_threshold_has_no_figure(documents):
    """All errors are in document 0, so the other documents give no threshold to judge it by."""
    rng = np.random.default_rng(documents)
    units = np.repeat(np.arange(documents), 12)
    labels = (units > 0).astype(float)
    labels[:3] = documents == 1
    scores = rng.normal(2 * labels)
    catch = held_out_figures(Wish.CATCH, scores, labels, 0.9, units)
    assert not math.isnan(catch.threshold)
    assert math.isnan(catch.share.value)
    assert math.isnan(catch.rows)
    # An error in another document, and each can be judged by the others.
    labels[-1] = 0
    catch = held_out_figures(Wish.CATCH, scores, labels, 0.9, units)
    assert math.isnan(catch.rows) == (documents == 1)
    accept = held_out_figures(Wish.ACCEPT, scores, labels, 0.5, units)
    assert math.isnan(accept.rows) == (documents < 3)
