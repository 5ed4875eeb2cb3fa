"""Chosen arguments, and combinations of arguments."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.core.errors import InputError
from faith_jax.datasets.npov.topics import Argument, Combination, Topic, choose_arguments
from faith_jax.papers.npov.combinations import draw_combinations, response_rows, temperatures_note


def topic(pro, con, name="tea"):
    sides = [
        tuple(Argument(f"{side} {i}.") for i in range(n))
        for side, n in zip("pc", (pro, con), strict=True)
    ]
    return Topic(name, "Tea", "Is tea good?", "test", *sides)


@given(pro=st.integers(1, 9), con=st.integers(1, 9), seed=st.integers(0, 99), data=st.data())
def test_chosen_arguments_are_distinct_and_of_the_topic(pro, con, seed, data):
    tea = topic(pro, con)
    count = data.draw(st.integers(1, min(pro, con)))
    chosen_arguments = choose_arguments(tea, count, seed)
    assert [len(set(side)) for side in chosen_arguments] == [count, count]
    assert set(chosen_arguments[0]) <= set(tea.pro)
    assert set(chosen_arguments[1]) <= set(tea.con)
    assert chosen_arguments == choose_arguments(tea, count, seed)


def test_the_choice_is_the_same_on_every_machine_and_moves_with_the_seed():
    tea = topic(5, 5, "t")
    pro, con = choose_arguments(tea, 3, seed=0)
    assert [a.text for a in pro + con] == ["p 3.", "p 2.", "p 0.", "c 1.", "c 3.", "c 2."]
    draws = {choose_arguments(tea, 3, seed) for seed in range(20)}
    assert len(draws) > 10


def test_too_large_a_count_is_an_error():
    with pytest.raises(
        InputError, match="topic 'tea' has 2 con arguments: expected a count from 1"
    ):
        choose_arguments(topic(5, 2), 3)
    with pytest.raises(InputError, match=r"has 1 pro argument: .* got 0"):
        choose_arguments(topic(1, 2), 0)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 7), st.integers(2, 7), st.integers(1, 20), st.integers(0, 3))
def test_combinations_are_distinct_and_balanced(pro, con, most, seed):
    drawn = draw_combinations(topic(pro, con), most, seed)
    assert len({(frozenset(c.pro), frozenset(c.con)) for c in drawn}) == len(drawn) <= most
    for c in drawn:
        assert len(set(c.pro)) == len(c.pro) == len(c.con) == len(set(c.con)) <= 3
        assert max(c.pro) < pro
        assert max(c.con) < con
    assert drawn == draw_combinations(topic(pro, con), 20, seed)[:most]


def test_a_small_topic_has_all_that_there_are():
    combinations = draw_combinations(topic(2, 2), 18)
    # 2 x 2 of one a side, 1 of two a side.
    assert sorted(tuple(map(len, c)) for c in combinations) == [(1, 1)] * 4 + [(2, 2)]


def test_draws_are_the_same_everywhere():
    assert draw_combinations(topic(5, 5), 1) == (Combination((1,), (4,)),)
    assert draw_combinations(topic(5, 5), 3, seed=1) != draw_combinations(topic(5, 5), 3)
    assert draw_combinations(topic(5, 5, "ale"), 3) != draw_combinations(topic(5, 5), 3)


def test_the_first_three_get_two_responses():
    rows = list(response_rows(topic(5, 5)))
    assert len(rows) == 18 + 3
    assert [row["temperature"] for row in rows] == [0.0, 0.7] * 3 + [0.7] * 15
    assert [row["id"] for row in rows[5:7]] == ["tea-03-t0.7", "tea-04-t0.7"]
    assert len({row["id"] for row in rows}) == 21
    row = rows[0]
    assert row["pro_arguments"] == [f"p {i}." for i in row["pro"]]
    assert row["con_arguments"] == [f"c {i}." for i in row["con"]]
    assert (row["topic"], row["query"], row["split"]) == ("tea", "Is tea good?", "test")


@pytest.mark.parametrize("sizes", [(1, 5), (5, 1)])
def test_too_few_arguments(sizes):
    with pytest.raises(InputError, match=r"topic 'tea' has . pro and . con: expected at least 2"):
        draw_combinations(topic(*sizes))


def test_temperatures_are_told_as_they_are():
    both = "at temperatures 0.0 and 0.7 to "
    assert temperatures_note(1) == f"{both}up to 1 combination of a topic's arguments"
    assert temperatures_note(3) == f"{both}up to 3 combinations of a topic's arguments"
    assert temperatures_note(18) == (
        f"{both}the first 3 combinations of a topic's arguments, at 0.7 to up to 15 more"
    )
