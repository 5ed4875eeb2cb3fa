import itertools

import numpy as np

from faith_jax.evaluation.prompt_spread import by_initializer, matching, pairs, spread
from tests.evaluation.prompt_examples import START, VECTORS, healthy_prompt, healthy_run


def test_spread_leaves_out_what_is_undefined():
    found = spread([2.0, np.nan, 4.0, 6.0])
    assert found == (3, 4.0, 2.0, 6.0, 2.0)
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
    found = by_initializer(runs)
    assert list(found) == ["sampled_vocabulary", "uniform"]
    assert found["sampled_vocabulary"][:4] == (2, 2.0, 1.0, 3.0)
    assert found["uniform"].runs == 1


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
        sum(table[i, j] for i, j in enumerate(chosen))
        for chosen in itertools.permutations(range(5), 3)
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
    found = pairs(runs)
    assert [(p.first, p.second) for p in found] == [("a", "b"), ("a", "e"), ("b", "e")]
    np.testing.assert_allclose(found[0].mean, 1)
    assert found[0].matches == (2, 1, 0)
    np.testing.assert_allclose(found[0].start_cosine, 1)
    assert np.isnan(found[1].start_cosine)
    np.testing.assert_allclose(found[1].mean, 1 / 1.25**0.5)
