import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.evaluation import prompt_health
from faith_jax.evaluation.prompt_health import (
    cosines,
    movement,
    nearest_by_cosine,
    nearest_by_distance,
    rows_that_are,
    vocabulary_norms,
)
from tests.evaluation.prompt_examples import EMBEDDING, healthy_run, no_curve


def test_movement_by_hand():
    found = movement(
        np.array([[3.0, 4.0], [0.0, 1.0], [2.0, 0.0]]),
        np.array([[3.0, 3.0], [1.0, 0.0], [0.0, 0.0]]),
    )
    np.testing.assert_allclose(found.distance, [1, 2**0.5, 2])
    np.testing.assert_allclose(found.relative, [1 / 18**0.5, 2**0.5, np.nan])
    np.testing.assert_allclose(found.cosine, [21 / (5 * 18**0.5), 0, np.nan], atol=1e-15)


def test_a_prompt_that_did_not_move_has_cosine_1():
    start = np.random.default_rng(0).normal(size=(4, 7))
    found = movement(start, start)
    assert not found.distance.any()
    np.testing.assert_allclose(found.cosine, 1)


def test_norms_are_ranked_among_the_vocabularys():
    table = np.diag([1.0, 2.0, 3.0, 4.0])
    found = vocabulary_norms(np.array([[2.0, 0, 0, 0], [0, 9, 0, 0], [0.5, 0, 0, 0]]), table)
    assert found.ranks.tolist() == [0.5, 1, 0]
    assert found.quantiles[0.0] == 1
    assert found.quantiles[0.5] == 2.5
    assert found.quantiles[1.0] == 4


def test_nearest_by_hand():
    vectors = np.array([[0.9, 0.1, 0, 0], [0, 0, 1.9, 0]])
    ids, values = nearest_by_cosine(vectors, EMBEDDING, 3)
    # Rows 0 and 4 point one way: the first id comes first.
    assert ids.tolist() == [[0, 4, 1], [2, 6, 0]]
    np.testing.assert_allclose(values[0, 0], 0.9 / 0.82**0.5)
    ids, values = nearest_by_distance(vectors, EMBEDDING, 2)
    assert ids.tolist() == [[0, 4], [6, 2]]
    np.testing.assert_allclose(values, [[0.02**0.5, (1.1**2 + 0.01) ** 0.5], [0.1, 0.9]])


def test_rows_of_zeros_point_no_way_and_come_last():
    table = np.array([[0.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    ids, values = nearest_by_cosine(np.array([[1.0, 0.0]]), table, 3)
    assert ids.tolist() == [[2, 1, 0]]
    np.testing.assert_array_equal(values, [[0, -1, np.nan]])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_nearest_is_that_of_a_plain_loop_whatever_the_parts(seed, part):
    rng = np.random.default_rng(seed)
    table, vectors = rng.normal(size=(20, 3)).astype(np.float32), rng.normal(size=(4, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompt_health, "_ROWS", part)
        ids, distances = nearest_by_distance(vectors, table, 5)
        cosine_ids, found = nearest_by_cosine(vectors, table, 5)
    wide = table.astype(np.float64)
    for i, vector in enumerate(vectors):
        way = np.array([np.linalg.norm(row - vector) for row in wide])
        assert ids[i].tolist() == np.argsort(way)[:5].tolist()
        np.testing.assert_allclose(distances[i], np.sort(way)[:5])
        same = np.array(
            [row @ vector / np.linalg.norm(row) / np.linalg.norm(vector) for row in wide]
        )
        assert cosine_ids[i].tolist() == np.argsort(-same)[:5].tolist()
        np.testing.assert_allclose(found[i], -np.sort(-same)[:5])


def test_a_start_is_known_by_the_row_that_it_is():
    vectors = np.stack([EMBEDDING[6], EMBEDDING[2] * np.float32(1.0001), EMBEDDING[0]])
    assert rows_that_are(vectors, EMBEDDING) == [6, None, 0]


def test_cosines_of_zeros_are_undefined():
    found = cosines(np.array([[1.0, 0], [0, 0]]), np.array([[1.0, 1.0]]))
    np.testing.assert_allclose(found, [[0.5**0.5], [np.nan]])


def test_losses_of_a_run():
    run = healthy_run(losses=(3.0, 1.5, np.nan, 1.6))
    assert run.final_loss == 1.6
    assert run.lowest_loss == (20, 1.5)
    without = healthy_run(validation_loss=no_curve())
    assert np.isnan(without.final_loss)
    assert without.lowest_loss[0] == -1
