"""A part of a lazy array equals the same part of NumPy's result for the whole."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.checkpoints.lazy_arrays import (
    LazyArray,
    cast,
    entry,
    lazy,
    parts,
    stack_arrays,
    transpose,
)

NUMBERS = np.arange(4 * 24, dtype=np.float32).reshape(4, 24)


def recorded(array):
    """Returns an array as a lazy one, and a list of the numbers of elements read from it."""
    sizes = []

    def read(box):
        sizes.append(array[box].size)
        return array[box]

    return LazyArray(array.shape, array.dtype, read), sizes


def split(array, count, groups):
    """Returns the parts of outputs [groups, count, width]."""
    grouped = array.reshape(*array.shape[:-1], groups, count, -1)
    return [grouped[..., i, :].reshape(*array.shape[:-1], -1) for i in range(count)]


CASES = {
    "transposed": (lambda a: transpose(a), lambda a: a.T),
    "entry": (lambda a: entry(a, 2), lambda a: a[2]),
    "stacked": (
        lambda a: stack_arrays([a, transpose(transpose(a)), a]),
        lambda a: np.stack([a, a, a]),
    ),
    "side by side": (lambda a: parts(a, 3, 1)[1], lambda a: split(a, 3, 1)[1]),
    "in groups": (lambda a: parts(a, 3, 4)[2], lambda a: split(a, 3, 4)[2]),
    "cast": (lambda a: a.astype(np.float16), lambda a: a.astype(np.float16)),
    "turned parts": (
        lambda a: parts(transpose(transpose(a)), 2, 2)[0],
        lambda a: split(a, 2, 2)[0],
    ),
    "layers apart": (lambda a: entry(stack_arrays([a, a]), 1), lambda a: a),
}


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_any_part_of_any_change(name, data):
    change, expected = CASES[name]
    part, whole = change(lazy(NUMBERS)), expected(NUMBERS)
    assert (part.shape, part.dtype, part.size) == (whole.shape, whole.dtype, whole.size)
    np.testing.assert_array_equal(np.asarray(part), whole)
    box = []
    for size in whole.shape:
        start = data.draw(st.integers(0, size))
        box.append(slice(start, data.draw(st.integers(start, size))))
    np.testing.assert_array_equal(part[tuple(box)], whole[tuple(box)])


def test_no_more_is_read_than_a_part_needs():
    array, sizes = recorded(NUMBERS)
    query = transpose(parts(array, 3, 1)[0])
    assert query.shape == (8, 4)
    assert query[slice(0, 2), slice(None)].shape == (2, 4)
    assert stack_arrays([array, array])[slice(1, 2), slice(0, 1), slice(0, 5)].shape == (1, 1, 5)
    # Of four groups of three parts of two columns each, the second group.
    assert parts(array, 3, 4)[1][slice(0, 1), slice(2, 4)].tolist() == [[8, 9]]
    assert sizes == [8, 5, 6]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_bfloat16_becomes_the_float32_that_it_is(dtype):
    bits = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16).reshape(256, 256)
    for array in (bits, bits.T):
        with np.errstate(over="ignore"):
            actual, expected = cast(array, np.dtype(dtype)), array.astype(dtype)
        assert actual.dtype == expected.dtype
        is_nan = expected != expected
        assert ((actual != actual) == is_nan).all()
        assert actual[~is_nan].tobytes() == expected[~is_nan].tobytes()
    same = np.float32([1, 2])
    assert cast(same, np.dtype(np.float32)) is same
