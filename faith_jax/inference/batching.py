"""Rows of any length as batches of few shapes, in a stable order.

Each new shape costs a compilation. Lengths are therefore rounded up to a ladder, rows of one shape
share batches of one size, and the rows that are left over fill up batches of a longer shape.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from faith_jax.core.errors import pluralize
from faith_jax.core.progress import Progress
from faith_jax.core.types import PyTree
from faith_jax.models.config import TransformerConfig

LENGTHS = (32, 64, 128, 256, 384, 512)
# Tokens of a batch where the device does not tell its memory, and at most; and those of a line, for
# whose attention there is room.
_USUAL_TOKENS, _MOST_TOKENS, _LINE = 32768, 65536, 1024

# Padded lengths of what the model reads, such as of an encoder and a decoder. A third number tells
# shapes apart that read as much.
Shape = tuple[int, ...]


class Batch(NamedTuple):
    """Which rows are computed together.

    Attributes:
      shape: padded lengths.
      size: lines of the batch; those behind its rows only fill it up.
      rows: the numbers of its rows, which stand in its first lines.
    """

    shape: Shape
    size: int
    rows: list[int]


def describe_compilations(count: int, padding: float) -> str:
    """Returns for how many shapes a model is compiled, and the share of padding, in plain words."""
    compiled = f"the model is compiled for {pluralize(count, 'size')} of batches"
    return f"{compiled}; {padding:.1%} of what it computes is padding"


def padded_length(length: int, ladder: Sequence[int] = LENGTHS) -> int:
    """Returns the first length of a ladder that holds `length`.

    Above the ladder the lengths are its last one times 1.5, 2, 3, 4, 6, 8 …
    """
    for step in ladder:
        if length <= step:
            return step
    # Powers of two and 1.5 times these, of the ladder's last: few shapes, and at most a third of a
    # row is padding.
    step = ladder[-1]
    while step < length:
        if length <= step * 3 // 2:
            return step * 3 // 2
        step *= 2
    return step


def bucket_length(length: int) -> int:
    """Returns the padded length: the smallest power of two, or 1.5 times one, from 16 on."""
    return padded_length(length, (16,))


def pad_rows(
    rows: Sequence[Sequence[int] | np.ndarray], length: int, pad_id: int, size: int | None = None
) -> np.ndarray:
    """Returns rows filled up on the right, int32 [size, length]; further lines are padding."""
    tokens = np.full((len(rows) if size is None else size, length), pad_id, np.int32)
    for line, row in zip(tokens, rows, strict=False):
        line[: len(row)] = row
    return tokens


class FilledLines:
    """The lines of a batch, which are filled up from the left; int32 [lines, length] each.

    Attributes:
      tokens: padding where nothing is written.
      segments: the number that each token's row has in the line; 0 = padding.
      positions: in the row.
      ends: how many tokens of each line are written.
    """

    def __init__(self, lines: int, length: int, pad_id: int):
        self.tokens = np.full((lines, length), pad_id, np.int32)
        self.segments, self.positions = np.zeros((2, lines, length), np.int32)
        self.ends = [0] * lines

    def append(self, line: int, ids: Sequence[int], segment: int, position: int = 0) -> slice:
        """Writes tokens, whose positions begin at `position`, and returns their places."""
        start = self.ends[line]
        self.ends[line] = end = start + len(ids)
        self.tokens[line, start:end], self.segments[line, start:end] = ids, segment
        self.positions[line, start:end] = np.arange(position, position + len(ids))
        return slice(start, end)


def token_types(second: Sequence[int] | np.ndarray, length: int) -> np.ndarray:
    """Returns the token types of rows, int32 [rows, length]: 1 from where a second text starts."""
    # [rows, length]: places against each row's own start.
    return (np.arange(length) >= np.asarray(second)[:, None]).astype(np.int32)


def batch_tokens(
    tokens_per_batch: int | None, on_cpu: int = 1024, elsewhere: int = 32768, devices: int = 1
) -> int:
    """Returns the tokens of a batch, padding included: those given, or the device's default."""
    default = on_cpu if jax.default_backend() == "cpu" else elsewhere
    # A device has as much to do, whatever their number.
    return default * devices if tokens_per_batch is None else tokens_per_batch


def tokens_in_memory(config: TransformerConfig, params: PyTree) -> int:
    """Returns for how many tokens of a batch a device has room: a power of two, at most 65,536.

    Half of the memory beside the parameters is for activations. A token has the scores of its
    attention to a line of 1,024, twice in float32, four states, and the feed-forward layer's three.
    More tokens make no device faster. 32,768 where the device does not tell its memory.
    """
    statistics = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" not in statistics:
        return _USUAL_TOKENS
    # Bytes of the parameters on one device, which may hold only a part of each.
    held = sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(params)
    )
    states = 4 * config.emb_dim + 3 * config.mlp_dim
    # Bytes of a token; all is counted as float32.
    token = 4 * (2 * config.num_heads * _LINE + states)
    room = max(1, (statistics["bytes_limit"] - held) // 2 // token)
    return min(_MOST_TOKENS, 1 << (room.bit_length() - 1))


class Batcher:
    """Cuts rows into batches, tells the progress and counts the shapes.

    Args:
      quantity: computed of each row, for the progress, such as "likelihood".
      tokens_per_batch: tokens of a batch, padding included, but at least one row's; None = the
        default of the device, for each that shares a batch.
      on_cpu: this default on a CPU.
      elsewhere: this default on other devices.
      multiple_of: the number of lines is a multiple of it: the devices that share a batch.
      fill: rows may move to a longer shape's batch. Without, a row's shape depends on it alone.
    """

    def __init__(
        self,
        quantity: str,
        tokens_per_batch: int | None = None,
        on_cpu: int = 1024,
        elsewhere: int = 32768,
        multiple_of: int = 1,
        fill: bool = True,
    ):
        self.tokens_per_batch = batch_tokens(tokens_per_batch, on_cpu, elsewhere, multiple_of)
        self._quantity, self._multiple_of, self._fill = quantity, multiple_of, fill
        self._seen: set[tuple[Shape, int]] = set()

    @property
    def num_shapes(self) -> int:
        """How many shapes of batches there were so far: as many compilations."""
        return len(self._seen)

    def batches(
        self, shapes: Sequence[Shape], limit: Callable[[Shape], int] | None = None
    ) -> Iterator[Batch]:
        """Yields batches that hold each row once, the shorter shapes first.

        Args:
          shapes: of each row; all of as many lengths.
          limit: bounds the rows of a batch of a shape further, on one device; None = no bound.
        """

        def size_of(shape: Shape) -> int:
            # Rows for each device, of the lengths that a model reads; a third number is no length.
            rows = self.tokens_per_batch // sum(shape[:2]) // self._multiple_of
            return max(1, rows if limit is None else min(rows, limit(shape))) * self._multiple_of

        # Rows keep their order in each shape, so that the same call has the same batches.
        by_shape: dict[Shape, list[int]] = {}
        for number, shape in enumerate(shapes):
            by_shape.setdefault(shape, []).append(number)
        if self._fill:
            by_shape = fill_batches(by_shape, size_of)
        # Progress is measured in tokens, since longer rows take longer.
        work = sum(sum(shape[:2]) * len(numbers) for shape, numbers in by_shape.items())
        progress = Progress(f"{self._quantity} of row", len(shapes), work=work)
        for shape, numbers in sorted(by_shape.items()):
            size = size_of(shape)
            self._seen.add((shape, size))
            for start in range(0, len(numbers), size):
                batch = numbers[start : start + size]
                yield Batch(shape, size, batch)
                progress.add(len(batch), sum(shape[:2]) * len(batch))


def fill_batches(
    rows: dict[Shape, list[int]], batch_size: Callable[[Shape], int]
) -> dict[Shape, list[int]]:
    """Moves rows of a batch that is not full to where a longer shape's last batch has room.

    `rows` are numbers by shape; the result has the same numbers, in as many batches or fewer.
    """
    filled = {shape: list(rows[shape]) for shape in sorted(rows)}
    for shape, numbers in filled.items():
        # The rows of the last batch, where it is not full.
        left = len(numbers) % batch_size(shape)
        # The shortest of the longer shapes comes first, and pads least.
        for longer, longer_numbers in filled.items():
            # -n % size is the room in the last of the batches that hold n rows.
            fits = longer > shape and all(a <= b for a, b in zip(shape, longer, strict=True))
            # All or none: if some stayed, their batch would be computed anyway.
            if left and fits and left <= -len(longer_numbers) % batch_size(longer):
                longer_numbers += numbers[-left:]
                del numbers[-left:]
                break
    return {shape: numbers for shape, numbers in filled.items() if numbers}
