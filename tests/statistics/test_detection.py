import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from faith_jax.statistics import detection, intervals

LABELS = np.array([1, 1, 1, 0, 0, 1, 0, 0, 1, 0])
CALLS = np.array([1, 0, 1, 0, 1, 1, 0, 0, 1, 1], bool)
UNITS = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])


def jackknife_error(figure, units):
    """The cluster jackknife (CV3), unit by unit."""
    whole = figure(np.ones(len(units), bool))
    left_out = [figure(units != unit) for unit in np.unique(units)]
    size = len(left_out)
    return math.sqrt((size - 1) / size * sum((value - whole) ** 2 for value in left_out))


def test_balanced_accuracy_is_sklearns_and_its_error_leaves_out_units():
    estimate = detection.balanced_accuracy(LABELS, CALLS, UNITS)
    assert estimate.value == metrics.balanced_accuracy_score(LABELS, CALLS)
    expected = jackknife_error(
        lambda rows: metrics.balanced_accuracy_score(LABELS[rows], CALLS[rows]), UNITS
    )
    assert estimate.error == pytest.approx(expected, rel=1e-12)
    # Satterthwaite: each class has 5 rows in four units, of which one has two rows.
    variances = [
        4 / 3 * sum(np.sum((CALLS - CALLS[c == LABELS].mean())[(c == LABELS) & (u == UNITS)]) ** 2
                    for u in range(5)) for c in (0, 1)
    ]  # fmt: skip
    degrees = sum(variances) ** 2 / sum(v**2 / (25 / 7 - 1) for v in variances)
    assert estimate.degrees == pytest.approx(min(degrees, 4))


def test_a_class_that_is_missing_or_in_one_unit():
    assert math.isnan(detection.balanced_accuracy([1, 1], [1, 0], np.arange(2)).value)
    # Without unit 0 there is no unfaithful row: a value, but no error.
    estimate = detection.balanced_accuracy([0, 1, 1], [0, 1, 0], np.array([0, 1, 2]))
    assert (estimate.value, math.isnan(estimate.error)) == (0.75, True)
    assert math.isnan(estimate.interval()[0])


def test_a_difference_is_paired_by_unit():
    other_calls = np.array([1, 1, 0, 0, 1, 0, 1, 0, 1, 1], bool)
    estimate = detection.balanced_accuracy_difference(LABELS, CALLS, other_calls, UNITS)
    both = [metrics.balanced_accuracy_score(LABELS, calls) for calls in (CALLS, other_calls)]
    assert estimate.value == pytest.approx(both[0] - both[1])
    expected = jackknife_error(
        lambda rows: (
            metrics.balanced_accuracy_score(LABELS[rows], CALLS[rows])
            - metrics.balanced_accuracy_score(LABELS[rows], other_calls[rows])
        ),
        UNITS,
    )
    assert estimate.error == pytest.approx(expected, rel=1e-12)
    same = detection.balanced_accuracy_difference(LABELS, CALLS, CALLS, UNITS)
    assert (same.value, same.p_value()) == (0.0, 1.0)


def test_a_class_of_three_rows_is_not_known_for_certain():
    """One of 40 faithful rows is missed, and all three unfaithful rows are found."""
    labels = np.array([1] * 40 + [0] * 3)
    calls = (labels == 1) & (np.arange(43) > 0)
    estimate = detection.balanced_accuracy(labels, calls, np.arange(43))
    low, _ = estimate.interval(0.95, (0.0, 1.0))
    assert low < 0.75  # of 3 rows that are found, fewer than half might be
    always = np.ones(43, bool)
    difference = detection.balanced_accuracy_difference(labels, calls, always, np.arange(43))
    assert difference.value == pytest.approx(1 / 2 - 1 / 80)
    # The two differ in four rows: 2 / 2**4 at least.
    assert difference.p_value() >= 1 / 8
    assert difference.differing == 4
    # If calls are constant in both classes, only exchanges of the three rows matter.
    difference = detection.balanced_accuracy_difference(labels, labels == 1, always, np.arange(43))
    assert (difference.p_value(), difference.interval()) == (1 / 4, intervals.NO_INTERVAL)


@pytest.mark.parametrize(("faithful", "unfaithful"), [(200, 3), (60, 60)])
def test_equal_judges_seldom_differ_and_intervals_cover(faithful, unfaithful):
    labels = np.array([1] * faithful + [0] * unfaithful)
    generator, units = np.random.default_rng(0), np.arange(labels.size)
    rejected = covered = 0
    for _ in range(400):
        first, second = (labels == 1) == (generator.random((2, labels.size)) < 0.8)
        difference = detection.balanced_accuracy_difference(labels, first, second, units)
        rejected += difference.p_value() < 0.05
        low, high = detection.balanced_accuracy(labels, first, units).interval(0.95, (0.0, 1.0))
        covered += low <= 0.8 <= high
    assert rejected <= 0.08 * 400
    assert covered >= 0.92 * 400


def test_precision_recall_and_f1_are_sklearns():
    true, called = LABELS == 0, ~CALLS
    figures = detection.error_figures(true & called, called, true, UNITS)
    expected = metrics.precision_recall_fscore_support(true, called, average="binary")[:3]
    assert [figure.value for figure in figures] == pytest.approx(expected)
    error = jackknife_error(lambda rows: metrics.f1_score(true[rows], called[rows]), UNITS)
    assert figures[2].error == pytest.approx(error, rel=1e-12)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0, math.nan]), st.integers(0, 1)),
        min_size=1,
        max_size=12,
    )
)
def test_the_best_threshold_is_that_of_a_search(rows):
    scores, labels = map(np.array, zip(*rows, strict=True))
    threshold = detection.best_balanced_threshold(scores, labels)
    defined = ~np.isnan(scores)
    if len(set(labels[defined])) < 2:
        assert math.isnan(threshold)
        return
    by_threshold = {
        cut: metrics.balanced_accuracy_score(labels[defined], scores[defined] >= cut)
        for cut in sorted(set(scores[defined]))
    }
    best = max(by_threshold.values())
    assert threshold == max(cut for cut, value in by_threshold.items() if value > best - 1e-9)


SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=5)


@given(SPANS, SPANS)
def test_spans_are_sets_of_characters(first, second):
    def characters(spans):
        return {place for start, end in spans for place in range(start, end)}

    joined = detection.merge_spans(first), detection.merge_spans(second)
    for spans, given_spans in zip(joined, (first, second), strict=True):
        assert characters(spans) == characters(given_spans)
        assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))
    shared = characters(first) & characters(second)
    assert detection.shared_characters(*joined) == len(shared)
