import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from faith_jax.statistics.texts import salience_scores as scores

WORDS = np.array([[0.5, 0.0, 0.25], [0.25, 0.0, 0.25]])
MAPS = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.floats(-100, 100)
)


def test_columns_are_squared_shares():
    shares = scores.normalize_columns(np.array([[3.0, 0.0], [-4.0, 0.0]]))
    np.testing.assert_allclose(shares, [[9 / 25, 0], [16 / 25, 0]])


@given(MAPS)
@example(np.array([[9e-163]]))
@example(np.array([[1e-200], [3e-200]]))
def test_columns_sum_to_one_whatever_their_scale(token_map):
    shares = scores.normalize_columns(token_map)
    sums, empty = shares.sum(axis=0), ~token_map.any(axis=0)
    np.testing.assert_allclose(sums, np.where(empty, 0, 1), atol=1e-9)
    np.testing.assert_allclose(scores.normalize_columns(-3 * token_map), shares, atol=1e-6)


def test_words_are_the_largest_pairs_of_tokens():
    tokens = np.arange(20.0).reshape(4, 5) % 7
    rows, columns = [(0, 2), (3,)], [(0,), (1, 4), (2, 3)]
    largest = scores.word_map(tokens, rows, columns)
    expected = [[max(tokens[r, c] for r in row for c in col) for col in columns] for row in rows]
    np.testing.assert_array_equal(largest, expected)
    assert scores.word_map(tokens, [], columns).shape == (0, 3)
    assert scores.word_map(tokens, rows, []).shape == (2, 0)


def salience(values, sides=()):
    values = np.array(values)
    rows = sides or [""] * len(values)
    words = [scores.PlacedWord("w", 0, 1, 0, side) for side in rows]
    columns = [scores.PlacedWord("w", 0, 1)] * values.shape[1]
    return scores.WordSalience(tuple(words), tuple(columns), values)


def test_contributions_and_attributions():
    word_salience = salience(WORDS)
    # Shares 2/3 and 1/3, then 1/2 and 1/2; a column of zeros.
    third = math.exp(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    for aggregation, rows, columns in (
        ("max", [0.5, 0.25], [0.5, 0, 0.25]),
        ("sum", [0.75, 0.5], [0.75, 0, 0.5]),
        ("negative_entropy", [third, 0.5], [third, 0, 0.5]),
    ):
        np.testing.assert_allclose(word_salience.contributions(aggregation), rows)
        np.testing.assert_allclose(word_salience.attributions(aggregation), columns)


@given(MAPS)
def test_negative_entropy_ranks_as_the_entropy_itself(token_map):
    words = scores.normalize_columns(token_map)
    entropies = scores.aggregate(words, "negative_entropy")
    for row, value in zip(words, entropies, strict=True):
        shares = row[row > 0] / row.sum() if row.any() else None
        expected = 0 if shares is None else np.exp(np.sum(shares * np.log(shares)))
        assert value == pytest.approx(expected)
        assert value == 0 or 1 / len(row) - 1e-9 <= value <= 1 + 1e-9


def test_example_scores():
    words = salience([[0.5, 0.125]])
    assert words.attribution_score() == pytest.approx(0.25)
    assert words.attribution_score(mean="arithmetic") == pytest.approx(0.3125)
    assert salience([[0.5, 0.0]]).attribution_score() == 0
    sides = salience([[0.5], [0.125], [0.4], [0.1]], ["pro", "pro", "con", "con"])
    assert sides.contribution_score() == pytest.approx(0.2)
    assert sides.contribution_score(mean="arithmetic") == pytest.approx(0.25)


def test_no_words_on_one_side_of_the_map():
    word_salience = salience(np.zeros((2, 0)))
    assert word_salience.contributions().tolist() == [0, 0]
    assert word_salience.attributions().shape == (0,)
    assert math.isnan(word_salience.attribution_score())
    assert math.isnan(word_salience.contribution_score())
