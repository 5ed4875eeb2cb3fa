import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.statistics import prompt_health
from faith_jax.statistics.prompt_health import (
    by_initializer,
    matching,
    movement,
    nearest_by_cosine,
    nearest_by_distance,
    pairs,
    prompt_warnings,
    run_warnings,
    spread,
    spread_warnings,
    vocabulary_norms,
)
from tests.statistics.prompt_examples import (
    EMBEDDING,
    START,
    STEPS,
    VECTORS,
    curve,
    healthy_prompt,
    healthy_run,
    no_curve,
)


def test_movement_by_hand():
    moved = movement(
        np.array([[3.0, 4.0], [0.0, 1.0], [2.0, 0.0]]),
        np.array([[3.0, 3.0], [1.0, 0.0], [0.0, 0.0]]),
    )
    np.testing.assert_allclose(moved.distance, [1, 2**0.5, 2])
    np.testing.assert_allclose(moved.relative, [1 / 18**0.5, 2**0.5, np.nan])
    np.testing.assert_allclose(moved.cosine, [21 / (5 * 18**0.5), 0, np.nan], atol=1e-15)


def test_a_prompt_that_did_not_move_has_cosine_1():
    start = np.random.default_rng(0).normal(size=(4, 7))
    moved = movement(start, start)
    assert not moved.distance.any()
    np.testing.assert_allclose(moved.cosine, 1)


def test_norms_are_ranked_among_the_vocabularys():
    table = np.diag([1.0, 2.0, 3.0, 4.0])
    norms = vocabulary_norms(np.array([[2.0, 0, 0, 0], [0, 9, 0, 0], [0.5, 0, 0, 0]]), table)
    assert norms.ranks.tolist() == [0.5, 1, 0]
    assert norms.quantiles[0.0] == 1
    assert norms.quantiles[0.5] == 2.5
    assert norms.quantiles[1.0] == 4


def test_nearest_by_hand():
    vectors = np.array([[0.9, 0.1, 0, 0], [0, 0, 1.9, 0]])
    ids, values = nearest_by_cosine(vectors, EMBEDDING, 3)
    # Rows 0 and 4 point one way: the first id comes first.
    assert ids.tolist() == [[0, 4, 1], [2, 6, 0]]
    np.testing.assert_allclose(values[0, 0], 0.9 / 0.82**0.5)
    ids, values = nearest_by_distance(vectors, EMBEDDING, 2)
    assert ids.tolist() == [[0, 4], [6, 2]]
    np.testing.assert_allclose(values, [[0.02**0.5, (1.1**2 + 0.01) ** 0.5], [0.1, 0.9]])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_nearest_is_that_of_a_plain_loop_whatever_the_parts(seed, part):
    rng = np.random.default_rng(seed)
    table, vectors = rng.normal(size=(20, 3)).astype(np.float32), rng.normal(size=(4, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompt_health, "_ROWS", part)
        ids, distances = nearest_by_distance(vectors, table, 5)
        cosine_ids, cosines = nearest_by_cosine(vectors, table, 5)
    wide = table.astype(np.float64)
    for i, vector in enumerate(vectors):
        way = np.array([np.linalg.norm(row - vector) for row in wide])
        assert ids[i].tolist() == np.argsort(way)[:5].tolist()
        np.testing.assert_allclose(distances[i], np.sort(way)[:5])
        same = np.array(
            [row @ vector / np.linalg.norm(row) / np.linalg.norm(vector) for row in wide]
        )
        assert cosine_ids[i].tolist() == np.argsort(-same)[:5].tolist()
        np.testing.assert_allclose(cosines[i], -np.sort(-same)[:5])


def test_losses_of_a_run():
    run = healthy_run(losses=(3.0, 1.5, np.nan, 1.6))
    assert run.final_loss == 1.6
    assert run.lowest_loss == (20, 1.5)
    without = healthy_run(validation_loss=no_curve())
    assert np.isnan(without.final_loss)
    assert without.lowest_loss[0] == -1


def test_spread_leaves_out_what_is_undefined():
    summary = spread([2.0, np.nan, 4.0, 6.0])
    assert summary == (3, 4.0, 2.0, 6.0, 2.0)
    assert np.isnan(spread([1.0]).deviation)
    nothing = spread([np.nan])
    assert nothing.runs == 0
    assert np.isnan(nothing.mean)


def test_runs_are_grouped_by_their_start():
    runs = [
        healthy_run("a", losses=(1.0,)),
        healthy_run("b", losses=(3.0,)),
        healthy_run("c", losses=(9.0,), initializer="uniform"),
    ]
    groups = by_initializer(runs)
    assert list(groups) == ["sampled_vocabulary", "uniform"]
    assert groups["sampled_vocabulary"][:4] == (2, 2.0, 1.0, 3.0)
    assert groups["uniform"].runs == 1


def test_matching_undoes_another_order():
    order = [2, 0, 1]
    matches, values = matching(VECTORS, 3 * VECTORS[order])
    assert [order[i] for i in matches] == [0, 1, 2]
    np.testing.assert_allclose(values, 1)


def test_matching_is_the_best_of_all_and_takes_other_lengths():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (first, second)]
    table = unit[0] @ unit[1].T
    best = max(
        sum(table[i, j] for i, j in enumerate(assignment))
        for assignment in itertools.permutations(range(5), 3)
    )
    np.testing.assert_allclose(sum(matching(first, second)[1]), best)
    np.testing.assert_allclose(sum(matching(second, first)[1]), best)


def test_pairs_are_of_runs_of_one_base():
    runs = [
        healthy_run("a"),
        healthy_run("b", prompt=healthy_prompt(VECTORS[::-1])),
        healthy_run("c", base="def"),
        healthy_run("d", base=""),
        healthy_run("e", prompt=healthy_prompt(START, start=None)),
    ]
    run_pairs = pairs(runs)
    assert [(p.first, p.second) for p in run_pairs] == [("a", "b"), ("a", "e"), ("b", "e")]
    np.testing.assert_allclose(run_pairs[0].mean, 1)
    assert run_pairs[0].matches == (2, 1, 0)
    np.testing.assert_allclose(run_pairs[0].start_cosine, 1)
    assert np.isnan(run_pairs[1].start_cosine)
    np.testing.assert_allclose(run_pairs[1].mean, 1 / 1.25**0.5)


ONES = np.ones((len(STEPS), 3))


def test_nothing_is_said_of_what_is_healthy():
    assert run_warnings(healthy_run()) == []
    unknown = healthy_prompt(start=None, embedding=None, gradient_norms=np.zeros((0, 3)))
    assert prompt_warnings(unknown) == []
    assert run_warnings(healthy_run(training_loss=no_curve(), validation_loss=no_curve())) == []
    noisy = curve([1, 2, 1, 2, 2, 1, 2, 2])  # the loss of single batches
    assert run_warnings(healthy_run(training_loss=noisy)) == []
    two = [healthy_run("a"), healthy_run("b", losses=(3.0, 1.95))]
    assert spread_warnings(two, pairs(two)) == []


def changed(place, value):
    vectors = ONES.copy()
    vectors[place] = value
    return vectors


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (healthy_prompt(START), "no vector moved from its start"),
        (
            healthy_prompt(START + [[0.009, 0, 0, 0], [0, 0, 0, 0.5], [0.002, 0, 0, 0]]),
            "vectors 0, 2 hardly moved, by less than 1%",
        ),
        (healthy_prompt(gradient_norms=changed((slice(-2, None), 1), 1e-5)), "of vector 1 van"),
        (healthy_prompt(gradient_norms=changed((4, 0), 1e4)), "explodes: 1e+04 at step 50"),
        (healthy_prompt(VECTORS * [[1], [1], [10]]), "vector 2 much longer"),
        (
            healthy_prompt(np.stack([VECTORS[0], VECTORS[1], VECTORS[0] * 1.1])),
            "vectors point the same way (0 and 2)",
        ),
    ],
)
def test_what_is_off_in_a_prompt_is_said(prompt, words):
    (line,) = prompt_warnings(prompt)
    assert words in line
    assert line.startswith("encoder_prompt: ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training_loss": curve([1, 1, 1, 1, 2, 2, 2, 2])}, "higher in the second half"),
        ({"losses": (3.0, 2.0, 2.2)}, "rose from 2.0000 at step 20 to 2.2000"),
        ({"losses": (3.0, np.nan, 2.0)}, "validation loss is not finite at step 20"),
    ],
)
def test_what_is_off_in_the_losses_is_said(changes, words):
    (line,) = run_warnings(healthy_run(**changes))
    assert words in line


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"losses": (3.0, 2.5)}, "disagree: a validation loss of 1.9000 (a) and of 2.5000 (b)"),
        ({"base": "def", "losses": (9.0,)}, "different base models"),
        ({"settings": {"task": "other"}, "losses": (9.0,)}, "different tasks"),
        ({"prompt": healthy_prompt(-VECTORS)}, "began at one start but disagree"),
    ],
)
def test_runs_that_disagree(second, words):
    runs = [healthy_run("a"), healthy_run("b", **second)]
    (line,) = spread_warnings(runs, pairs(runs))
    assert words in line
