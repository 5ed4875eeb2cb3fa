import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import calibration as sklearn_calibration
from sklearn import metrics

from faith_jax.evaluation.calibration import (
    brier_score,
    expected_calibration_error,
    reliability,
)


def test_bins_by_hand():
    found = reliability([0.0, 0.49, 0.5, 1.0], [0, 1, 1, 1], bins=2)
    assert found == [(0.0, 0.5, 2, 0.245, 0.5), (0.5, 1.0, 2, 0.75, 1.0)]
    error = expected_calibration_error([0.0, 0.49, 0.5, 1.0], [0, 1, 1, 1], bins=2)
    assert error == pytest.approx(0.5 * 0.255 + 0.5 * 0.25)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1), st.integers(1, 12))
def test_bins_hold_every_row_and_agree_with_scikit_learn(rows, bins):
    scores, labels = [row[0] for row in rows], [row[1] for row in rows]
    found = reliability(scores, labels, bins)
    assert sum(b.rows for b in found) == len(rows)
    assert all(b.low - 1e-9 <= b.confidence <= b.high + 1e-9 for b in found if b.rows)
    assert brier_score(scores, labels) == pytest.approx(
        np.mean((np.array(scores) - np.array(labels)) ** 2)
    )
    assert 0 <= expected_calibration_error(scores, labels, bins) <= 1


def test_curves_are_scikit_learns():
    generator = np.random.default_rng(0)
    scores = generator.random(500)
    labels = (generator.random(500) < scores**2).astype(int)
    frequency, confidence = sklearn_calibration.calibration_curve(labels, scores, n_bins=10)
    found = reliability(scores, labels, 10)
    np.testing.assert_allclose([b.frequency for b in found], frequency)
    np.testing.assert_allclose([b.confidence for b in found], confidence)
    assert brier_score(scores, labels) == pytest.approx(metrics.brier_score_loss(labels, scores))


def test_a_perfect_and_a_hopeless_score():
    assert expected_calibration_error([0, 1, 1], [0, 1, 1]) == brier_score([0, 1], [0, 1]) == 0
    assert expected_calibration_error([1, 0], [0, 1]) == brier_score([1, 0], [0, 1]) == 1
    assert math.isnan(expected_calibration_error([], []))
    assert math.isnan(brier_score([], []))


def test_bad_input():
    with pytest.raises(ValueError, match="Probabilities are from 0 to 1; this scorer is not"):
        brier_score([1.5], [1])
    with pytest.raises(ValueError, match="At least one bin is needed, not 0"):
        reliability([0.5], [1], 0)
