import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.input.order import Order, Packing


def order(sizes, weights=None, shuffled=None, seed=0):
    count = len(sizes)
    return Order(tuple(sizes), tuple(weights or [1.0] * count), shuffled or (True,) * count, seed)


def first(order, count):
    return order.rows(np.arange(count))


def test_every_row_is_read_once_in_each_epoch_in_another_order():
    rows = first(order([1000]), 3000)[1].reshape(3, 1000)
    for epoch in rows:
        assert sorted(epoch) == list(range(1000))
    assert not (rows[0] == rows[1]).all()
    assert not (rows[1] == rows[2]).all()


def test_rows_come_from_everywhere():
    # Of a buffer of 1,000, the first 100 rows would be of the first 1,100.
    early = first(order([300_000]), 6400)[1]
    halves = np.bincount(early // 150_000)
    # Within four standard deviations of a fair coin.
    assert abs(halves[0] - 3200) < 4 * 40
    assert np.bincount(early // 30_000, minlength=10).min() > 540


def test_the_seed_decides():
    assert (first(order([50], seed=1), 50)[1] == first(order([50], seed=1), 50)[1]).all()
    assert (first(order([50], seed=1), 50)[1] != first(order([50], seed=2), 50)[1]).any()


def test_members_are_not_shuffled_alike():
    members, rows = first(order([40, 40]), 80)
    assert (rows[members == 0] != rows[members == 1]).any()


def test_what_is_not_shuffled_keeps_its_order():
    assert first(order([3], shuffled=(False,)), 7)[1].tolist() == [0, 1, 2, 0, 1, 2, 0]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4),
    st.integers(0, 10_000),
)
def test_any_place_is_the_same_as_in_the_whole_order(sizes, weights, place):
    mixed = order(sizes, weights[: len(sizes)])
    members, rows = mixed.rows(np.arange(place, place + 5))
    for offset in range(5):
        alone = mixed.rows(np.array([place + offset]))
        assert (alone[0][0], alone[1][0]) == (members[offset], rows[offset])


@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=5), st.integers(1, 3000))
def test_members_have_their_share_at_any_time(weights, count):
    mixed = order([7] * len(weights), weights)
    counts = np.bincount(first(mixed, count)[0], minlength=len(weights))
    expected = count * np.array(weights) / sum(weights)
    assert np.abs(counts - expected).max() <= len(weights)


def test_turns_of_a_member_follow_its_own_order():
    alone = first(order([6], seed=3), 12)[1]
    members, rows = first(order([6, 6], [0.75, 0.25], seed=3), 16)
    assert (members == 0).sum() == 12
    assert rows[members == 0].tolist() == alone.tolist()


def test_a_member_of_weight_zero_is_never_read():
    assert set(first(order([4, 4, 4], [1.0, 0.0, 1.0]), 40)[0]) == {0, 2}


@pytest.mark.parametrize("number", [0, 3, 40])
def test_packing_is_that_of_reading_one_row_after_the_other(number):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, size=(50, 2))
    read = order([50])
    places = first(read, 5000)[1]
    expected, filled, start = [], np.zeros(2, int), 0
    for place, row in enumerate(places):
        if (filled + lengths[row] > [10, 12]).any():
            expected.append(range(start, place))
            filled, start = np.zeros(2, int), place
        filled = filled + lengths[row]
    assert Packing(read, [lengths], [10, 12]).places(number) == expected[number]
