"""Several rows in one line of a batch, so that little of it is padding.

Segment ids keep the rows of a line apart, and positions begin anew in each. Rows with the same
input are a *group*, whose input a line has once. Lines have few lengths, since each shape costs a
compilation. Which are chosen depends on the rows of the call alone.

Reference: Krell 2021 (best fit, the longest first).
"""

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax

from faith_jax.inference.batching import padded_length
from faith_jax.models.config import TransformerConfig

# Tokens of a line; longer rows have longer ones, as `padded_length` says.
LENGTHS = (128, 256, 384, 512, 768, 1024, 1536, 2048)
TARGET_LENGTHS = (64, 128, 256, 512)
# Rows that are packed together, and among which the same input is found.
WINDOW = 512
# A compilation takes as long as so many tokens, or longer.
_TOKENS_ON_CPU, _TOKENS = 4096, 1 << 20
# A block has so many times the tokens and keys that it needs; the first that holds all is taken.
_SPARE = (1.0, 1.02, 1.04, 1.06, 1.1, 1.15, 1.25, 1.4)
# The projection of a state to keys and values, beside all that the decoder computes of a token.
_KEY_SHARE = 0.15
# Where less than this share of the decoder's tokens is no padding, more and smaller blocks are
# tried too.
_ENOUGH, _MORE = 0.93, (1.0, 1.1, 1.25, 1.5, 1.75)


class Group(NamedTuple):
    """Rows with the same input.

    Attributes:
      shared: tokens of the input.
      rows: of each row the number of its other tokens, and its own number.
    """

    shared: int
    rows: Sequence[tuple[int, int]]

    @property
    def total(self) -> int:
        """All tokens."""
        return self.shared + sum(size for size, _ in self.rows)


class Placed(NamedTuple):
    """Rows of a group in one line: of each its part and its number."""

    shared: int
    rows: list[tuple[int, int]]


Line = list[Placed]


class Packed(NamedTuple):
    """Lines of one length, `size` of which make a batch."""

    length: int
    size: int
    lines: list[Line]

    def batches(self) -> Iterator[list[Line]]:
        """Yields the lines of each batch; those that the last one lacks are padding."""
        for start in range(0, len(self.lines), self.size):
            yield self.lines[start : start + self.size]

    @property
    def slots(self) -> int:
        """Tokens of all batches, padding included."""
        # The last batch is filled up by lines of padding.
        return -(-len(self.lines) // self.size) * self.size * self.length


def attention_share(config: TransformerConfig) -> float:
    """Returns the cost of one more key for a token, as a share of its matrix products in a layer.

    On a CPU, the softmax of a head takes as long as about 140 multiplications for each key.
    """
    width = config.num_heads * config.head_dim
    # Of queries and outputs, and of keys and values.
    projections = 2 * width + 2 * (config.num_kv_heads or config.num_heads) * config.head_dim
    # Multiplications for a token in a layer: attention, the feed-forward's kernels, and its output.
    products = config.emb_dim * (projections + (len(config.mlp_kernels) + 1) * config.mlp_dim)
    # Each key is multiplied once for its score and once for its value; disentangled attention
    # (DeBERTa) adds two scores of positions.
    times = 6 if config.positions == "disentangled" else 2
    return (times * width + 140 * config.num_heads) / products


class Packer:
    """Packs rows for one model.

    Args:
      attention: what the attention to one more key costs a token, beside all else that it costs.
      tokens_per_batch: tokens of a batch, padding included, but at least one line.
      devices: that share a batch's lines.
    """

    def __init__(self, attention: float, tokens_per_batch: int, devices: int = 1):
        self._attention, self._tokens, self._devices = attention, tokens_per_batch, devices
        on_cpu = jax.default_backend() == "cpu"
        self._compilation = _TOKENS_ON_CPU if on_cpu else _TOKENS

    def lines(self, groups: Sequence[Group]) -> list[Packed]:
        """Packs groups into lines that hold inputs and own tokens; each row is in one of them."""
        longest = max(group.shared + max(size for size, _ in group.rows) for group in groups)
        # Longer lines leave less padding, and each token sees more keys: the cheapest are taken.
        tried = [self._cut_down(fill_lines(groups, length)) for length in _line_lengths(longest)]
        return min(tried, key=self._cost)

    def _cut_down(self, lines: Sequence[tuple[int, Line]]) -> list[Packed]:
        """Returns lines, given with their tokens, by the lengths that are worth a compilation."""
        by_length: dict[int, list[Line]] = {}
        for used, line in lines:
            by_length.setdefault(padded_length(used, LENGTHS), []).append(line)
        lengths = sorted(by_length)
        for shorter, longer in itertools.pairwise(lengths):
            # The padding that the longer shape adds is cheaper than a program for the shorter one.
            if len(by_length[shorter]) * (longer - shorter) < self._compilation:
                by_length[longer] = by_length.pop(shorter) + by_length[longer]
        return [
            Packed(length, self._size(length, len(same_length)), same_length)
            for length, same_length in sorted(by_length.items())
        ]

    def _size(self, length: int, lines: int) -> int:
        most = max(1, self._tokens // length // self._devices)
        # The same number of lines for each device.
        return even_size(-(-lines // self._devices), most) * self._devices

    def _cost(self, packed: Sequence[Packed]) -> float:
        """Returns the cost of batches and compilations, in tokens."""
        return sum(
            # Each token costs 1, and `attention` for each key of its line.
            self._compilation + same_length.slots * (1 + self._attention * same_length.length)
            for same_length in packed
        )


def _line_lengths(longest: int, ladder: Sequence[int] = LENGTHS) -> list[int]:
    """Returns the first lengths that hold the longest row."""
    first = padded_length(longest, ladder)
    return [first, *(length for length in ladder if first < length <= 4 * first)]


def fill_lines(groups: Sequence[Group], length: int) -> list[tuple[int, Line]]:
    """Packs groups into lines of a length by best fit, the largest first.

    A group that is longer than a line is split; the input is then in each of its lines.

    Returns:
      Lines with their numbers of tokens.
    """
    pieces = [piece for group in groups for piece in _pieces(group, length)]
    lines: list[tuple[int, Line]] = []
    free: list[tuple[int, int]] = []  # tokens and line, the fullest first
    for piece in sorted(pieces, key=lambda piece: -piece.total):
        # Best fit: the line with the least free tokens that are enough.
        place = bisect.bisect_left(free, (piece.total, 0))
        # Where no line has room, a new one begins.
        room, number = free.pop(place) if place < len(free) else (length, len(lines))
        if number == len(lines):
            lines.append((0, []))
        used, line = lines[number]
        line.append(Placed(piece.shared, [(0, row) for _, row in piece.rows]))
        lines[number] = (used + piece.total, line)
        bisect.insort(free, (room - piece.total, number))
    return lines


def _pieces(group: Group, length: int) -> Iterator[Group]:
    """Yields parts of a group that fit a line."""
    rows, room = list[tuple[int, int]](), length - group.shared
    # The largest first, so that the small ones fill what is left.
    for size, row in sorted(group.rows, reverse=True):
        if rows and size > room:
            yield Group(group.shared, rows)
            rows, room = [], length - group.shared
        rows.append((size, row))
        room -= size
    yield Group(group.shared, rows)


class BlockShape(NamedTuple):
    """The shape of a block.

    Attributes:
      keys: tokens of a line of keys.
      key_lines: their number.
      queries: tokens that see a line of keys, at most.
      targets: tokens of a line that the decoder reads.
      lines: their number.
    """

    keys: int
    key_lines: int
    queries: int
    targets: int
    lines: int


class Block:
    """The lines that a device's decoder computes at once, and the keys that they see.

    Attributes:
      shape: of the block.
      keys: the groups of each line of keys; a row's part is the line that the decoder reads.
    """

    def __init__(self, shape: BlockShape):
        self.shape = shape
        self.keys: list[Line] = [[] for _ in range(shape.key_lines)]
        self._free_keys = [shape.keys] * shape.key_lines
        self._free_queries = [shape.queries] * shape.key_lines
        self._free = [shape.targets] * shape.lines

    @property
    def room(self) -> int:
        """Free tokens of all lines that the decoder reads."""
        return sum(self._free)

    def has_room(self, group: Group) -> bool:
        """Whether it takes all rows of a group, as far as sums tell."""
        unshared = group.total - group.shared
        return self.room >= unshared and self._best_keys(group.shared, unshared) is not None

    def take(self, group: Group) -> Group:
        """Takes the rows of a group for which there is room; returns the others."""
        unshared = group.total - group.shared
        place = self._best_keys(group.shared, unshared)
        if place is None:  # the emptiest for a part of it
            place = self._best_keys(group.shared, max(size for size, _ in group.rows))
        placed, left = list[tuple[int, int]](), list[tuple[int, int]]()
        for size, row in group.rows:
            fitting = [(free, line) for line, free in enumerate(self._free) if free >= size]
            if place is None or not fitting or size > self._free_queries[place]:
                left.append((size, row))
                continue
            # Best fit: the line with the least room that is enough.
            line = min(fitting)[1]
            self._free[line] -= size
            self._free_queries[place] -= size
            placed.append((line, row))
        if placed and place is not None:
            self._free_keys[place] -= group.shared
            self.keys[place].append(Placed(group.shared, placed))
        return group._replace(rows=left)

    def _best_keys(self, shared: int, unshared: int) -> int | None:
        """Returns the fullest line of keys that has room for an input and its own tokens."""
        fitting = [
            (free, place)
            for place, free in enumerate(self._free_keys)
            if free >= shared and self._free_queries[place] >= unshared
        ]
        # The fullest line is that with the least room.
        return min(fitting)[1] if fitting else None


def pack_blocks(groups: Sequence[Group], tokens: int, devices: int = 1) -> list[Block]:
    """Packs groups into blocks of one shape, whose number is a multiple of the devices.

    Args:
      groups: the rows.
      tokens: of the decoder in a block, at most, but it has at least one line. Larger groups are
        split.
      devices: that compute a block each.
    """
    longest = max(size for group in groups for size, _ in group.rows)
    length = padded_length(longest, TARGET_LENGTHS)
    if 2 * longest > length:  # two of the longest, so that lines are filled up
        length = padded_length(length + 1, TARGET_LENGTHS)
    most = max(1, tokens // length)
    # No piece has more targets than a block.
    pieces = [piece for group in groups for piece in _pieces(group, most * length + group.shared)]
    unshared = sum(piece.total - piece.shared for piece in pieces)
    fewest = -(-unshared // (most * length * devices))  # ceil, of rounds with a block per device
    best = list[Block]()
    # More blocks are smaller, and may leave less padding.
    for factor in _MORE:
        blocks = _fill_smallest_blocks(pieces, math.ceil(factor * fewest) * devices, most, length)
        # Each device computes a block in each round, if only an empty one.
        blocks += [Block(blocks[0].shape) for _ in range(-len(blocks) % devices)]
        if not best or _cost(blocks) < _cost(best):
            best = blocks
        shape = best[0].shape
        # There is little padding to be saved by further tries.
        if unshared > _ENOUGH * len(best) * shape.lines * shape.targets:
            break
    return best


def _cost(blocks: Sequence[Block]) -> float:
    shape = blocks[0].shape
    return len(blocks) * (shape.lines * shape.targets + _KEY_SHARE * shape.key_lines * shape.keys)


def _fill_smallest_blocks(
    pieces: Sequence[Group], count: int, most: int, length: int
) -> list[Block]:
    """Packs groups into blocks of the smallest shape of which `count` hold all.

    Lines have a length; `most` of them are a block.
    """
    unshared = [piece.total - piece.shared for piece in pieces]
    inputs = sum(piece.shared for piece in pieces)
    keys = padded_length(max(piece.shared for piece in pieces), LENGTHS)
    blocks, shape = list[Block](), None
    for spare in _SPARE:
        # Sizes are rounded up to few steps, so that windows of rows share compiled programs.
        lines = _round_up(spare * sum(unshared) / count / length, most)
        # Inputs are placed whole, so that their lines have twice the spare room.
        key_lines = padded_length(math.ceil((2 * spare - 1) * inputs / count / keys), (1,))
        # A quarter more than on average, since lines of keys do not have the same number of rows.
        queries = max(max(unshared), math.ceil(1.25 * lines * length / key_lines))
        queries = min(padded_length(queries, (64,)), lines * length)
        # Sizes are rounded, so that the next factor often has the same shape.
        before, shape = shape, BlockShape(keys, key_lines, queries, length, lines)
        if shape != before:
            blocks = fill_blocks(pieces, shape, count)
        # All groups have found room; else `fill_blocks` has added blocks.
        if len(blocks) == count:
            break
    return blocks


def even_size(count: int, most: int) -> int:
    """Returns how many of `count` lines make a batch, at most `most`.

    Of few batches it is the size from half of `most` on with the least padding, in steps of an
    eighth; of many it is `most`, so that the lines of all windows have one shape.

    >>> even_size(100, 10), even_size(1001, 10), even_size(11, 10), even_size(3, 10)
    (10, 10, 6, 3)
    """
    if -(-count // most) > 16:
        return most
    step = max(1, most // 8)
    sizes = range(most, max(0, most // 2 - 1), -step) if count > most else [_round_up(count, most)]
    return min(most, min(sizes, key=lambda size: -(-count // size) * size))


def _round_up(number: float, most: int) -> int:
    """Returns the next of about eight even steps up to `most` and beyond."""
    step = max(1, most // 8)
    return max(1, math.ceil(number / step)) * step


def fill_blocks(groups: Sequence[Group], shape: BlockShape, count: int) -> list[Block]:
    """Packs groups into so many blocks, the largest group first into the emptiest block.

    A group that no block has room for is split, and its input is then in several; what is left
    goes into more blocks.
    """
    blocks = [Block(shape) for _ in range(count)]
    for group in sorted(groups, key=lambda group: group.shared - group.total):
        left = group._replace(rows=sorted(group.rows, reverse=True))
        emptiest = sorted(blocks, key=lambda block: -block.room)
        # The emptiest block that takes all of it; else each takes what it can.
        whole = next((block for block in emptiest if block.has_room(left)), None)
        for block in emptiest if whole is None else [whole, *emptiest]:
            left = block.take(left) if left.rows else left
        while left.rows:
            blocks.append(Block(shape))
            left = blocks[-1].take(left)
    return blocks
