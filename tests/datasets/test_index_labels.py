"""Labels of an index become ids, unless they do not identify rows."""

import math

import pytest

from faith_jax.datasets.index_labels import find_index_ids


@pytest.mark.parametrize(
    ("labels", "ids"),
    [
        ([1, 2, 3], ["2", "3", "4"]),
        (["7", " 0", "12"], ["8", "1", "13"]),
        ([7.0, "3.0", "1,0"], ["8", "4", "2"]),
        (["a", 7, " b"], ["a", "7", "b"]),
        (["007", "7"], ["007", "7"]),
        ([-1, 0], ["-1", "0"]),
        ([0.5, 1.0], ["0.5", "1.0"]),
    ],
)
def test_distinct_labels_become_ids(labels, ids):
    index_ids = find_index_ids(labels)
    assert [index_ids.id_of(label) for label in labels] == ids
    assert not index_ids.are_row_numbers


@pytest.mark.parametrize(
    "labels", [[0, 0], ["a", "a"], [1, "1.0"], ["a", ""], [None, 1], [math.nan]]
)
def test_other_labels_become_none(labels):
    assert find_index_ids(labels) is None
    assert find_index_ids([*labels, True]) is None


@pytest.mark.parametrize(
    ("labels", "may_be_from_one", "expected"),
    [
        ([0, 1, 2], False, (1, True)),
        ([0, 1, 2], True, (1, True)),
        ([1, 2, 3], True, (0, True)),
        ([1, 2, 4], True, (0, False)),
        ([2, 0], True, (1, False)),
    ],
)
def test_where_numbers_count_from(labels, may_be_from_one, expected):
    assert find_index_ids(labels, may_be_from_one) == expected
