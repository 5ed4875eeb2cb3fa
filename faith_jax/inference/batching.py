"""Batches of few shapes for rows of any length, in a stable order.

Each new shape costs a compilation. Lengths are therefore rounded up to a ladder, rows of one shape
share batches of one size, and left-over rows fill up batches of a longer shape.
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
# Tokens of a batch if the device does not report its memory, and at most; and tokens of a line
# whose attention must fit in memory.
_USUAL_TOKENS, _MOST_TOKENS, _LINE = 32768, 65536, 1024

# Padded lengths of the model's inputs, such as an encoder's and a decoder's. A third number
# distinguishes shapes with the same lengths.
Shape = tuple[int, ...]


class Batch(NamedTuple):
    """Rows that are computed together.

    Attributes:
      shape: padded lengths.
      size: number of lines of the batch; lines after the rows are padding.
      rows: the numbers of the rows in the batch's first lines.
    """

    shape: Shape
    size: int
    rows: list[int]


def describe_compilations(count: int, padding: float) -> str:
    """Returns a sentence with the number of compiled shapes and the share of padding."""
    compiled = f"the model is compiled for {pluralize(count, 'size')} of batches"
    return f"{compiled}; {padding:.1%} of what it computes is padding"


def padded_length(length: int, ladder: Sequence[int] = LENGTHS) -> int:
    """Returns the first length of a ladder that holds `length`.

    Beyond the ladder, lengths are its last one times 1.5, 2, 3, 4, 6, 8 …
    """
    for step in ladder:
        if length <= step:
            return step
    # The ladder's last length times powers of two, and times 1.5 of these: few shapes, and at most
    # a third of a row is padding.
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
    """Returns rows padded on the right, int32 [size, length]; further lines are padding."""
    tokens = np.full((len(rows) if size is None else size, length), pad_id, np.int32)
    for line, row in zip(tokens, rows, strict=False):
        line[: len(row)] = row
    return tokens


class FilledLines:
    """The lines of a batch, which are filled from the left; int32 [lines, length] each.

    Attributes:
      tokens: token ids; padding where nothing was written.
      segments: number of each token's row in the line, from 1 on; 0 = padding.
      positions: position of each token in its row.
      ends: number of tokens written to each line.
    """

    def __init__(self, lines: int, length: int, pad_id: int):
        self.tokens = np.full((lines, length), pad_id, np.int32)
        self.segments, self.positions = np.zeros((2, lines, length), np.int32)
        self.ends = [0] * lines

    def append(self, line: int, ids: Sequence[int], segment: int, position: int = 0) -> slice:
        """Writes tokens to a line, with positions from `position` on; returns their span in it."""
        start = self.ends[line]
        self.ends[line] = end = start + len(ids)
        self.tokens[line, start:end], self.segments[line, start:end] = ids, segment
        self.positions[line, start:end] = np.arange(position, position + len(ids))
        return slice(start, end)


def token_types(second: Sequence[int] | np.ndarray, length: int) -> np.ndarray:
    """Returns the token types of rows, int32 [rows, length]: 1 from the second text's start on."""
    # Compares all indices with each row's start: [rows, length].
    return (np.arange(length) >= np.asarray(second)[:, None]).astype(np.int32)


def batch_tokens(
    tokens_per_batch: int | None, on_cpu: int = 1024, elsewhere: int = 32768, devices: int = 1
) -> int:
    """Returns the number of tokens of a batch, padding included; default: by device."""
    default = on_cpu if jax.default_backend() == "cpu" else elsewhere
    # The work for each device does not depend on the number of devices.
    return default * devices if tokens_per_batch is None else tokens_per_batch


def tokens_in_memory(config: TransformerConfig, params: PyTree) -> int:
    """Returns how many tokens of a batch fit a device's memory: a power of two, at most 65,536.

    Half of the memory that the parameters leave is for activations. A token needs its attention
    scores for a line of 1,024, twice in float32, four states, and three of the feed-forward layer.
    A device gains no speed from more tokens. Returns 32,768 if it does not report its memory.
    """
    statistics = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" not in statistics:
        return _USUAL_TOKENS
    # Bytes of the parameters on one device, which may hold only a shard of each.
    held = sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(params)
    )
    states = 4 * config.emb_dim + 3 * config.mlp_dim
    # Bytes of a token, counting everything as float32.
    token = 4 * (2 * config.num_heads * _LINE + states)
    room = max(1, (statistics["bytes_limit"] - held) // 2 // token)
    return min(_MOST_TOKENS, 1 << (room.bit_length() - 1))


class Batcher:
    """Groups rows into batches, reports progress and counts the shapes.

    Args:
      quantity: name of the quantity computed for each row, for the progress, such as "likelihood".
      tokens_per_batch: tokens of a batch, padding included, but at least one row's; None = the
        device's default, times `multiple_of`.
      on_cpu: the default on a CPU.
      elsewhere: the default on other devices.
      multiple_of: number of devices that share a batch, which divides its number of lines.
      fill: rows may move to a longer shape's batch; otherwise a row's shape depends only on itself.
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
        """The number of batch shapes so far, and so of compilations."""
        return len(self._seen)

    def batches(
        self, shapes: Sequence[Shape], limit: Callable[[Shape], int] | None = None
    ) -> Iterator[Batch]:
        """Yields batches that hold each row once, the shorter shapes first.

        Args:
          shapes: the shape of each row, all with the same number of lengths.
          limit: maps a shape to the maximum number of rows per device; None = no further limit.
        """

        def size_of(shape: Shape) -> int:
            # Rows for each device. Only the first two numbers of a shape are lengths.
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
    """Moves the rows of a partial batch to a longer shape's last batch if that has room.

    `rows` are row numbers by shape; the result has the same rows, in as many batches or fewer.
    """
    filled = {shape: list(rows[shape]) for shape in sorted(rows)}
    for shape, numbers in filled.items():
        # The number of rows in the last batch if it is not full, else 0.
        left = len(numbers) % batch_size(shape)
        # The shortest of the longer shapes comes first, as it needs the least padding.
        for longer, longer_numbers in filled.items():
            # -n % size is the room in the last of the batches that hold n rows.
            fits = longer > shape and all(a <= b for a, b in zip(shape, longer, strict=True))
            # All or none: if some stayed, their batch would be computed anyway.
            if left and fits and left <= -len(longer_numbers) % batch_size(longer):
                longer_numbers += numbers[-left:]
                del numbers[-left:]
                break
    return {shape: numbers for shape, numbers in filled.items() if numbers}
