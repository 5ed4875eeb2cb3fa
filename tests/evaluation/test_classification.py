import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from faith_jax.evaluation.classification import (
    CRITERIA,
    best_threshold,
    class_report,
    thresholded,
)

CLASSES = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CLASSES), st.sampled_from(CLASSES)), min_size=1))
def test_figures_agree_with_scikit_learn(pairs):
    labels, predictions = [p[0] for p in pairs], [p[1] for p in pairs]
    report = class_report(labels, predictions, CLASSES)
    np.testing.assert_array_equal(
        report.confusion, metrics.confusion_matrix(labels, predictions, labels=CLASSES)
    )
    figures = metrics.precision_recall_fscore_support(
        labels, predictions, labels=CLASSES, zero_division=np.nan
    )
    for place, name in enumerate(CLASSES):
        ours = report.precision(name), report.recall(name), report.f1(name)
        np.testing.assert_allclose(ours, [figure[place] for figure in figures[:3]])
    assert report.accuracy == pytest.approx(metrics.accuracy_score(labels, predictions))
    there = sorted({*labels, *predictions})
    macro = metrics.f1_score(labels, predictions, labels=there, average="macro", zero_division=0)
    assert report.macro_f1 == pytest.approx(macro)


def test_a_report_by_hand():
    report = class_report(list("aaabbc"), list("aabbba"), "abc")
    assert report.confusion.tolist() == [[2, 1, 0], [0, 2, 0], [1, 0, 0]]
    assert report.accuracy == pytest.approx(4 / 6)
    assert report.precision("a") == report.recall("a") == report.f1("a") == pytest.approx(2 / 3)
    assert math.isnan(report.precision("c"))
    assert report.recall("c") == report.f1("c") == 0
    assert report.balanced_accuracy == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert math.isnan(class_report([], [], "ab").accuracy)
    assert math.isnan(class_report([], [], "ab").macro_f1)


def brute_force(scores, labels, criterion):
    """The best figure of all thresholds, and the highest threshold that has it."""
    figures = {}
    for threshold in set(scores):
        report = thresholded(scores, labels, threshold)
        figures[threshold] = {
            "f1": report.f1(1),
            "balanced_accuracy": report.balanced_accuracy,
            "g_mean": math.sqrt(report.recall(1) * report.recall(0)),
        }[criterion]
    best = max(figures.values())
    return max(t for t, figure in figures.items() if figure >= best - 1e-12)


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.7, 0.9]), st.integers(0, 1)), min_size=2),
    st.sampled_from(list(CRITERIA)),
)
def test_thresholds_against_brute_force(rows, criterion):
    scores, labels = [row[0] for row in rows], [row[1] for row in rows]
    found = best_threshold(scores, labels, criterion)
    if len(set(labels)) < 2:
        assert math.isnan(found)
    else:
        assert found == brute_force(scores, labels, criterion)


def test_a_threshold_is_applied_to_other_rows():
    threshold = best_threshold([0.9, 0.6, 0.5, 0.1], [1, 1, 0, 0])
    assert threshold == 0.6
    report = thresholded([0.6, 0.59, 0.7], [1, 1, 0], threshold)
    assert (report.recall(1), report.recall(0)) == (0.5, 0)


def test_bad_input():
    with pytest.raises(ValueError, match="1 labels and 2 predictions"):
        class_report([1], [1, 0], (1, 0))
    with pytest.raises(ValueError, match="'maybe' is not among the classes yes, no"):
        class_report(["yes"], ["maybe"], ("yes", "no"))
    with pytest.raises(ValueError, match="no criterion 'f2': choose of f1, g_mean"):
        best_threshold([0.1, 0.2], [0, 1], "f2")
    with pytest.raises(ValueError, match="The score of row 1 is nan"):
        best_threshold([0.1, math.nan], [0, 1])
