"""Arrays that are read on access, and only in part if only a part is needed.

A `LazyArray` knows its shape and dtype; `array[box]` reads a part, and `np.asarray(array)` the
whole array. Operations (transposing, splitting, stacking layers) return another lazy array, which
reads from the first one only the parts that it needs. So each process reads from a file only the
parts of a parameter that its devices hold.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

Box = tuple[slice, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class LazyArray:
    """An array that is not in memory.

    Attributes:
      shape: shape of the array.
      dtype: dtype of the parts that are read.
      read: returns a part, given a slice with a start and a stop for each axis.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[Box], np.ndarray]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes that the whole array would take in memory."""
        return self.size * self.dtype.itemsize

    def __getitem__(self, index: Box) -> np.ndarray:
        """Reads a part, given a slice of step 1 for each axis."""
        box = tuple(slice(*s.indices(n)[:2]) for s, n in zip(index, self.shape, strict=True))
        return self.read(box)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Reads the whole array, for `np.asarray`."""
        # A part of an array without axes may be a scalar.
        array = np.asarray(self.read(tuple(slice(0, size) for size in self.shape)))
        return array if dtype is None else cast(array, np.dtype(dtype))

    def astype(self, dtype: Any) -> "LazyArray":
        """Returns a lazy array that casts each part to another dtype when it is read."""
        target_dtype = np.dtype(dtype)
        if target_dtype == self.dtype:
            return self
        return LazyArray(self.shape, target_dtype, lambda box: cast(self.read(box), target_dtype))


def lazy(array: Any) -> LazyArray:
    """Converts an array to a lazy array, unless it is one."""
    if isinstance(array, LazyArray):
        return array
    held = np.asarray(array)
    return LazyArray(held.shape, held.dtype, lambda box: held[box])


def box_shape(box: Box) -> tuple[int, ...]:
    """Returns the shape of a part."""
    return tuple(part.stop - part.start for part in box)


def within(outer: Box, inner: Box) -> Box:
    """Returns a box relative to an outer box that contains it."""
    return tuple(
        slice(i.start - o.start, i.stop - o.start) for o, i in zip(outer, inner, strict=True)
    )


def cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns an array in a dtype, without copying if it has this dtype."""
    if array.dtype == ml_dtypes.bfloat16 and dtype == np.float32:
        # A float32's high bits are the bfloat16's: ten times as fast as ml_dtypes's cast.
        bits = array.view(np.uint16).astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32)
    return array.astype(dtype, copy=False)


def transpose(array: LazyArray) -> LazyArray:
    """Returns an array with its axes in reverse order."""
    return LazyArray(array.shape[::-1], array.dtype, lambda box: array.read(box[::-1]).T)


def entry(array: LazyArray, index: int, axis: int = 0) -> LazyArray:
    """Returns the entry `index` of an array on an axis."""
    row = slice(index, index + 1)

    def read(box: Box) -> np.ndarray:
        return array.read((*box[:axis], row, *box[axis:])).squeeze(axis)

    shape = (*array.shape[:axis], *array.shape[axis + 1 :])
    return LazyArray(shape, array.dtype, read)


def stack_arrays(arrays: Sequence[LazyArray]) -> LazyArray:
    """Stacks arrays of the same shape and dtype along a new first axis."""
    first = arrays[0]

    def read(box: Box) -> np.ndarray:
        stack = np.empty(box_shape(box), first.dtype)
        for place, array in zip(stack, arrays[box[0]], strict=True):
            place[...] = array.read(box[1:])
        return stack

    return LazyArray((len(arrays), *first.shape), first.dtype, read)


def parts(array: LazyArray, count: int, groups: int) -> list[LazyArray]:
    """Splits an array on its last axis, which has `groups` groups of `count` alternating parts.

    With one group, the parts are simply side by side.
    """
    *rest, size = array.shape
    width = size // (groups * count)

    def part(number: int) -> LazyArray:
        def read(box: Box) -> np.ndarray:
            *before, last = box
            first, end = last.start // width, -(-last.stop // width)
            if groups == 1:
                start = number * width
                return array.read((*before, slice(start + last.start, start + last.stop)))
            span = slice(first * count * width, end * count * width)
            block = array.read((*before, span))
            block = block.reshape(*block.shape[:-1], end - first, count, width)[..., number, :]
            block = block.reshape(*block.shape[:-2], (end - first) * width)
            return block[..., last.start - first * width : last.stop - first * width]

        return LazyArray((*rest, groups * width), array.dtype, read)

    return [part(number) for number in range(count)]
