import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from faith_jax.statistics import auc

ROWS = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, -3.0]), st.integers(0, 1)))


def brute_force(scores, labels):
    pairs = [
        1.0 if p > n else 0.5 if p == n else 0.0
        for (p, is_p), (n, is_n) in itertools.product(zip(scores, labels, strict=True), repeat=2)
        if is_p and not is_n
    ]
    return sum(pairs) / len(pairs) if pairs else math.nan


@given(ROWS)
def test_the_area_is_the_share_of_pairs_in_order(rows):
    scores, labels = [row[0] for row in rows], [row[1] for row in rows]
    np.testing.assert_allclose(auc.roc_auc(scores, labels), brute_force(scores, labels))


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_areas_agree_with_scikit_learn(seed, digits):
    generator = np.random.default_rng(seed)
    labels = np.append([0, 1], generator.integers(0, 2, 60))
    scores = np.round(generator.normal(size=62) + labels, digits)
    assert auc.roc_auc(scores, labels) == pytest.approx(
        metrics.roc_auc_score(labels, scores), abs=1e-12
    )


def test_large_counts_do_not_overflow():
    scores, positive = np.array([0.0, 1.0, 1.0]), np.array([False, True, False])
    order, weights = auc._sort_classes(scores, positive), np.full((2, 3), 65_535, np.uint16)
    np.testing.assert_allclose(auc._weighted_areas(order, weights), 0.75)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=20), st.data())
def test_only_the_order_of_scores_counts(scores, data):
    labels = data.draw(st.lists(st.integers(0, 1), min_size=len(scores), max_size=len(scores)))
    area = auc.roc_auc(scores, labels)
    np.testing.assert_allclose(auc.roc_auc(np.exp(np.array(scores) / 50), labels), area)
    np.testing.assert_allclose(auc.roc_auc(-np.array(scores), labels), 1 - area)
    order = data.draw(st.permutations(range(len(scores))))
    permuted = auc.roc_auc([scores[i] for i in order], [labels[i] for i in order])
    np.testing.assert_allclose(permuted, area)


@pytest.mark.parametrize("labels", [[1, 1], [0, 0], []])
def test_a_missing_class_has_no_area(labels):
    scores = [0.5] * len(labels)
    assert math.isnan(auc.roc_auc(scores, labels))


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([0.1, math.nan], [0, 1], "The score of row 1 is nan"),
        ([math.inf, 0.0], [0, 1], "The score of row 0 is inf"),
        ([0.1], [0, 1], r"Scores of the shape \(1,\) and labels of \(2,\)"),
        ([0.1, 0.2], [0, 2], "Labels are 0 and 1"),
    ],
)
def test_bad_input(scores, labels, message):
    with pytest.raises(ValueError, match=message):
        auc.roc_auc(scores, labels)
