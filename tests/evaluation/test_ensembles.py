import math

import numpy as np
import pytest

from faith_jax.errors import ConfigError, InputError
from faith_jax.evaluation.ensembles import Range, ensemble_scores, unit_scaled, with_ensembles
from faith_jax.evaluation.roc import roc_auc
from faith_jax.evaluation.scored_corpora import Corpus

RANGES = {"probability": Range(0.0, 1.0), "e_minus_c": Range(-1.0, 1.0)}
SCORES = {"probability": [0.9, 0.2, 0.4, math.nan], "e_minus_c": [0.5, -1.0, 1.0, 0.0]}


def corpus(**scores):
    arrays = {name: np.array(values) for name, values in (scores or SCORES).items()}
    ids = ("a", "b", "c", "d")
    return Corpus("q2", ids, np.array([1.0, 0.0, 1.0, 0.0]), arrays)


def test_the_mean_after_mapping_each_range_to_0_to_1():
    found = ensemble_scores(SCORES, RANGES)
    expected = [(0.9 + 0.75) / 2, (0.2 + 0.0) / 2, (0.4 + 1.0) / 2, math.nan]
    np.testing.assert_allclose(found, expected)


def test_one_member_keeps_its_order():
    values = np.random.default_rng(0).uniform(-1, 1, 50)
    labels = np.arange(50) % 2
    one = ensemble_scores({"e_minus_c": values}, RANGES)
    assert roc_auc(one, labels) == roc_auc(values, labels)
    twice = ensemble_scores({"e_minus_c": values, "same": values}, RANGES | {"same": Range(-1, 1)})
    np.testing.assert_allclose(twice, one)


def test_a_sum_of_float32_may_end_a_little_outside():
    assert unit_scaled([1.0000001, -1e-8], Range(0, 1)).tolist() == [1.0, 0.0]


def test_corpora_get_a_further_scorer():
    given = {"q2": corpus()}
    found = with_ensembles(given, {"both": ("probability", "e_minus_c")}, RANGES)["q2"]
    assert list(found.scores) == ["probability", "e_minus_c", "both"]
    np.testing.assert_allclose(found.scores["both"], ensemble_scores(SCORES, RANGES))
    assert found.usable().tolist() == [True, True, True, False]
    assert with_ensembles(given, {}, {}) == given


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: unit_scaled([0], Range(-math.inf, 0)), ConfigError, "finite range .*-inf to 0"),
        (lambda: unit_scaled([0], Range(1, 1)), ConfigError, "in order, got 1 to 1"),
        (lambda: unit_scaled([0, 1.5], Range(0, 1)), InputError, "score 1.5 is outside .* 0 to 1"),
        (lambda: ensemble_scores({}, {}), ConfigError, "at least one"),
        (lambda: ensemble_scores(SCORES, {}), ConfigError, "^probability: its range is not known"),
        (
            lambda: with_ensembles({"q2": corpus()}, {"x": ("e_minus",)}, RANGES),
            InputError,
            "q2: ensemble x: there are no scores of 'e_minus', only .* Did you mean 'e_minus_c'",
        ),
        (
            lambda: with_ensembles({"q2": corpus()}, {"probability": ("e_minus_c",)}, RANGES),
            InputError,
            "is a scorer's name; give the ensemble another",
        ),
        (
            lambda: with_ensembles(
                {"q2": corpus(e_minus_c=[3.0] * 4)}, {"x": ("e_minus_c",)}, RANGES
            ),
            InputError,
            "q2: ensemble x: e_minus_c: the score 3 is outside of its range, -1 to 1",
        ),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()
