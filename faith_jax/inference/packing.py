"""Packing of several rows into one line of a batch, so that little of it is padding.

Segment ids keep the rows of a line apart, and positions restart in each row. Rows with the same
input form a *group*, and a line holds the group's input once. Lines have few distinct lengths,
since each shape costs a compilation. The lengths depend only on the rows of the call, except
within `sharing_programs`. Here rows are scored; `input.order` packs the rows of a training.

Reference: Krell 2021 (best fit, the longest first).
"""

import bisect
import collections
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax

from faith_jax.core.progress import Progress
from faith_jax.core.settings import sharing_programs
from faith_jax.inference.base import BaseModel
from faith_jax.inference.batching import (
    batch_tokens,
    describe_compilations,
    fill_batches,
    padded_length,
    tokens_in_memory,
)
from faith_jax.inference.pipeline import CompiledAhead, Memory, compiles_ahead
from faith_jax.models.config import TransformerConfig

logger = logging.getLogger("faith_jax")

Place = TypeVar("Place")

# Tokens of a line; for longer rows, `padded_length` gives longer lines.
LINE_LENGTHS = (128, 256, 384, 512, 768, 1024, 1536, 2048)
TARGET_LENGTHS = (64, 128, 256, 512)
# Number of rows that are packed together and searched for shared inputs.
_WINDOW_ON_CPU, _WINDOW = 512, 4096
# A compilation takes at least as long as computing this many tokens.
_TOKENS_ON_CPU, _TOKENS = 4096, 1 << 20
# Ratios of a block's tokens to the tokens it needs, tried in turn until all lines fit.
_SPARE = (1.0, 1.02, 1.04, 1.06, 1.1, 1.15, 1.25, 1.4)
# A job has at most MOST_SHAPES line lengths, each a multiple of _STEP tokens.
MOST_SHAPES, _STEP = 3, 64


class Group(NamedTuple):
    """Rows with the same input.

    Attributes:
      shared: number of tokens of the input.
      rows: for each row, the number of its other tokens, and the row's number.
    """

    shared: int
    rows: Sequence[tuple[int, int]]

    @property
    def total(self) -> int:
        """The number of all tokens."""
        return self.shared + self.unshared

    @property
    def unshared(self) -> int:
        """The number of all tokens except the input's."""
        return sum(size for size, _ in self.rows)


class _Placed(NamedTuple):
    """Rows of a group in one line: for each row, its decoder line (see `Block`) and its number."""

    shared: int
    rows: list[tuple[int, int]]


Line = list[_Placed]
_Shape = TypeVar("_Shape")


class Packed(NamedTuple):
    """Lines of one length, `size` of which make a batch."""

    length: int
    size: int
    lines: list[Line]

    def batches(self) -> Iterator[list[Line]]:
        """Yields the lines of each batch; the last batch may have fewer than `size`."""
        for start in range(0, len(self.lines), self.size):
            yield self.lines[start : start + self.size]

    @property
    def slots(self) -> int:
        """Tokens of all batches, padding included."""
        # The last batch is filled up by lines of padding.
        return -(-len(self.lines) // self.size) * self.size * self.length


def attention_share(config: TransformerConfig) -> float:
    """Returns the cost of attending to one more key, relative to a token's matrix products.

    Both are per layer. On a CPU, a head's softmax costs about 140 multiplications for each key.
    """
    width = config.num_heads * config.head_dim
    # Widths of the projections to queries and outputs, and to keys and values.
    projections = 2 * width + 2 * (config.num_kv_heads or config.num_heads) * config.head_dim
    # Multiplications per token and layer: attention, and the feed-forward's kernels and output.
    products = config.emb_dim * (projections + (len(config.mlp_kernels) + 1) * config.mlp_dim)
    # Each key is multiplied once for its score and once for its value; disentangled attention
    # (DeBERTa) adds two positional scores.
    times = 6 if config.positions == "disentangled" else 2
    return (times * width + 140 * config.num_heads) / products


class CompiledShapes(dict[_Shape, None]):
    """Shapes of earlier calls, whose programs are reused for later calls padded to them.

    Padding is accepted as long as its total since the last compilation costs less than compiling
    one more program, so the cost is at most twice that of the better choice (ski rental).

    This holds only within `sharing_programs`: elsewhere the best-fitting shape is taken.

    Args:
      compilation: cost of compiling a program, in tokens.
    """

    def __init__(self, compilation: float):
        super().__init__()
        self._compilation, self._padding = compilation, 0.0

    def choose(self, costs: Mapping[_Shape, float]) -> _Shape:
        """Returns the shape to compute in.

        Args:
          costs: in tokens, first for the shape that fits best, then for compiled shapes.
        """
        best, *_ = costs
        if best not in self and sharing_programs.is_set:
            compiled = [shape for shape in costs if shape in self]
            cheapest = min(compiled, key=lambda shape: costs[shape], default=best)
            padding = self._padding + costs[cheapest] - costs[best]
            if cheapest in self and padding < self._compilation:
                self._padding = padding
                return cheapest
            self._padding, self[best] = 0.0, None
        return best


class Packer:
    """Packs rows for one model.

    Args:
      attention: cost of one more key for a token, relative to the token's other costs; see
        `attention_share`.
      tokens_per_batch: tokens of a batch, padding included; a batch has at least one line.
      devices: number of devices that share a batch's lines.
    """

    def __init__(self, attention: float, tokens_per_batch: int, devices: int = 1):
        self._attention, self._tokens, self._devices = attention, tokens_per_batch, devices
        on_cpu = jax.default_backend() == "cpu"
        self.compilation = _TOKENS_ON_CPU if on_cpu else _TOKENS
        self.window = _WINDOW_ON_CPU if on_cpu else _WINDOW
        # Lines per batch by their length; empty before `choose`.
        self.sizes: dict[int, int] = {}
        self._line, self._longest_length = 0, 0
        # Shapes of calls outside a job, by length and size.
        self._compiled = CompiledShapes[tuple[int, int]](self.compilation)

    def choose(self, groups: Sequence[Group], limit: int, window: int, total: int) -> None:
        """Chooses the shapes of a job's lines, at most `MOST_SHAPES`, from a sample of its groups.

        The job has `total` rows, of which `window` are packed together. Rows longer than the
        sample's go into lines of `limit` tokens.
        """
        rows, longest = sum(len(group.rows) for group in groups), _longest_length(groups)
        # Try each length to pack lines to, with each number of lengths to pad them to.
        best, least = dict[int, int](), math.inf
        for length in _line_lengths(longest, sorted({_in_steps(longest), *LINE_LENGTHS})):
            used = [tokens for tokens, _ in fill_lines(groups, length)]
            for count in range(1, MOST_SHAPES + 1):
                lengths = _best_lengths(used, count, self._line_cost)
                # If these lengths are below the limit, the longest rows need one more shape.
                if len(lengths) + (lengths[-1] < limit) > MOST_SHAPES:
                    continue
                sizes, cost = dict[int, int](), 0.0
                for line_size, number in _lines_by_length(used, lengths).items():
                    # Lines of one window.
                    lines = math.ceil(number * min(window, total) / rows)
                    sizes[line_size] = self._choose_batch_size(line_size, lines)
                    # Lines of all windows, including those that fill up each window's last batch.
                    slots = (
                        -(-lines // sizes[line_size]) * sizes[line_size] * max(1, total / window)
                    )
                    cost += self.compilation + slots * self._line_cost(line_size)
                if cost < least:
                    best, least = sizes, cost
        self._line = max(best)
        self._longest_length = max(_in_steps(limit), self._line)
        # `best` comes last: if it has the longest length too, its size takes precedence.
        self.sizes = {
            self._longest_length: self._compute_max_batch_size(self._longest_length)
        } | best

    def lines(self, groups: Sequence[Group]) -> list[Packed]:
        """Packs groups into lines of inputs and their rows' tokens; each row is in one line."""
        longest = _longest_length(groups)
        if not self.sizes or longest > self._longest_length:
            # Longer lines leave less padding, but tokens attend to more keys: take the cheapest.
            ladder = _line_lengths(longest)
            tried = [self._cut_down(fill_lines(groups, length)) for length in ladder]
            return min(tried, key=self._estimate_cost)
        # Only rows that do not fit the sample's lines go into lines of the limit.
        short, long = list[Group](), list[Group]()
        for group in groups:
            (short if _longest_length([group]) <= self._line else long).append(group)
        lines = fill_lines(short, self._line) + fill_lines(long, self._longest_length)
        # Each line gets the shortest length that holds it.
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for number, (used, _) in enumerate(lines):
            length = next(length for length in sorted(self.sizes) if used <= length)
            by_shape.setdefault((length,), []).append(number)
        # Lines left over after full batches go where a longer shape's last batch has room.
        filled = fill_batches(by_shape, lambda shape: self.sizes[shape[0]])
        return [
            Packed(length, self.sizes[length], [lines[number][1] for number in numbers])
            for (length,), numbers in filled.items()
        ]

    @property
    def longest_line(self) -> int:
        """The length of the longest line so far, in tokens."""
        return max([*self.sizes, *(length for length, _ in self._compiled)], default=0)

    def reuse(self, packed: Packed) -> Packed:
        """Returns the lines in an earlier call's shape if that is cheaper than compiling."""
        if self.sizes.get(packed.length) == packed.size:
            return packed
        options = {(packed.length, packed.size): packed} | {
            (length, size): packed._replace(length=length, size=size)
            for length, size in self._compiled
            if length >= packed.length
        }
        costs = {shape: self._batches_cost(option) for shape, option in options.items()}
        return options[self._compiled.choose(costs)]

    def halve(self) -> None:
        """Halves the tokens of all later batches, down to one line for each device."""
        self._tokens //= 2
        self._compiled.clear()
        self.sizes = {
            length: max(1, size // self._devices // 2) * self._devices
            for length, size in self.sizes.items()
        }

    def _cut_down(self, lines: Sequence[tuple[int, Line]]) -> list[Packed]:
        """Returns the lines by length, merging lengths that are not worth a compilation."""
        by_length: dict[int, list[Line]] = {}
        for used, line in lines:
            by_length.setdefault(padded_length(used, LINE_LENGTHS), []).append(line)
        lengths = sorted(by_length)
        for shorter, longer in itertools.pairwise(lengths):
            # Padding to the longer shape is cheaper than compiling the shorter one.
            if len(by_length[shorter]) * (longer - shorter) < self.compilation:
                by_length[longer] = by_length.pop(shorter) + by_length[longer]
        return [
            Packed(length, self._choose_batch_size(length, len(same_length)), same_length)
            for length, same_length in sorted(by_length.items())
        ]

    def _choose_batch_size(self, length: int, lines: int) -> int:
        # The same number of lines for each device.
        devices = self._devices
        return (
            _even_size(-(-lines // devices), self._compute_max_batch_size(length) // devices)
            * devices
        )

    def _compute_max_batch_size(self, length: int) -> int:
        return max(1, self._tokens // length // self._devices) * self._devices

    def _line_cost(self, length: int) -> float:
        # Each token costs 1, plus `attention` for each key of its line.
        return length * (1 + self._attention * length)

    def _estimate_cost(self, packed: Sequence[Packed]) -> float:
        """Returns the cost of batches and compilations, in tokens."""
        return sum(self.compilation + self._batches_cost(batches) for batches in packed)

    def _batches_cost(self, packed: Packed) -> float:
        return packed.slots / packed.length * self._line_cost(packed.length)


def _best_lengths(used: Sequence[int], max_lengths: int, cost: Callable[[int], float]) -> list[int]:
    """Returns the cheapest lengths to pad lines to, in multiples of `_STEP`.

    Uses dynamic programming over all candidate lengths: the cost of lines up to a length is the
    least cost of the lines up to a shorter length, plus that of padding the rest to this length.

    Args:
      used: number of tokens of each line.
      max_lengths: maximum number of lengths; fewer are returned if that is no more expensive.
      cost: maps a length to the cost of a line of that length.
    """
    counts = collections.Counter(_in_steps(tokens) for tokens in used)
    lengths = sorted(counts)
    # below[n] lines are shorter than length number n; below[n + 1] lines have at most that length.
    below = [0, *itertools.accumulate(counts[length] for length in lengths)]
    # The least cost of the lines up to length number n, and the chosen lengths, by n.
    best: list[tuple[float, list[int]]] = [
        (below[n + 1] * cost(length), [length]) for n, length in enumerate(lengths)
    ]
    # best'[n] = min(best[n], min over k < n of best[k] + (below[n + 1] - below[k + 1]) cost(n)):
    # each round allows one more length.
    for _ in range(min(max_lengths, len(lengths)) - 1):
        best = [
            min(
                (
                    best[n],
                    *(
                        (before + (below[n + 1] - below[k + 1]) * cost(length), [*shorter, length])
                        for k, (before, shorter) in enumerate(best[:n])
                    ),
                ),
                key=lambda option: option[0],
            )
            for n, length in enumerate(lengths)
        ]
    return best[-1][1]


def _lines_by_length(used: Sequence[int], lengths: Sequence[int]) -> dict[int, int]:
    """Returns the number of lines by length; a line gets the shortest length that holds it."""
    return dict(collections.Counter(lengths[bisect.bisect_left(lengths, u)] for u in used))


def _in_steps(tokens: int) -> int:
    return -(-tokens // _STEP) * _STEP


def _longest_length(groups: Sequence[Group]) -> int:
    return max(group.shared + max(size for size, _ in group.rows) for group in groups)


def _line_lengths(longest: int, ladder: Sequence[int] = LINE_LENGTHS) -> list[int]:
    """Returns the lengths of a ladder from the longest row's up to four times as much."""
    first = padded_length(longest, ladder)
    return [first, *(length for length in ladder if first < length <= 4 * first)]


def fill_lines(groups: Sequence[Group], length: int) -> list[tuple[int, Line]]:
    """Packs groups into lines of a length by best fit, the largest first.

    A group that is longer than a line is split, and its input is repeated in each line.

    Returns:
      For each line, its number of tokens and the line.
    """
    pieces = [piece for group in groups for piece in _split_group(group, length)]
    lines: list[tuple[int, Line]] = []
    free: list[tuple[int, int]] = []  # free tokens and line number, the fullest line first
    for piece in sorted(pieces, key=lambda piece: -piece.total):
        # Best fit: the line with the fewest free tokens that are enough.
        place = bisect.bisect_left(free, (piece.total, 0))
        # If no line has room, start a new one.
        room, number = free.pop(place) if place < len(free) else (length, len(lines))
        if number == len(lines):
            lines.append((0, []))
        used, line = lines[number]
        line.append(_Placed(piece.shared, [(0, row) for _, row in piece.rows]))
        lines[number] = (used + piece.total, line)
        bisect.insort(free, (room - piece.total, number))
    return lines


def _split_group(group: Group, length: int) -> Iterator[Group]:
    """Yields parts of a group that each fit a line."""
    rows, room = list[tuple[int, int]](), length - group.shared
    # Largest first, so that small rows fill the remaining room.
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
      keys: tokens of a line of inputs, the keys of the cross-attention.
      key_lines: number of lines of inputs.
      queries: maximum number of decoder tokens that attend to one line of inputs.
      targets: tokens of a line that the decoder reads.
      lines: number of lines that the decoder reads.
    """

    keys: int
    key_lines: int
    queries: int
    targets: int
    lines: int


class Block:
    """The lines of inputs that a device encodes at once, and the decoder's lines for their rows.

    Attributes:
      shape: shape of the block.
      keys: the groups of each line of inputs, where each row has the number of its decoder line.
    """

    def __init__(self, shape: BlockShape):
        self.shape = shape
        self.keys: list[Line] = []
        # Free tokens of each decoder line, the fullest first.
        self._free = [(shape.targets, line) for line in range(shape.lines)]
        self.room = shape.lines * shape.targets

    def take(self, line: Sequence[Group]) -> bool:
        """Adds a line of inputs with all its rows if there is room; returns whether it did."""
        unshared = sum(group.unshared for group in line)
        if len(self.keys) == self.shape.key_lines or unshared > min(self.room, self.shape.queries):
            return False
        # Work on a copy, so that nothing changes if a later row does not fit.
        free, parts = list(self._free), dict[int, int]()
        for size, row in sorted((row for group in line for row in group.rows), reverse=True):
            # Best fit: the line with the least room that is still enough.
            place = bisect.bisect_left(free, (size, 0))
            if place == len(free):
                return False
            room, parts[row] = free.pop(place)
            bisect.insort(free, (room - size, parts[row]))
        self._free, self.room = free, self.room - unshared
        self.keys.append(
            [_Placed(group.shared, [(parts[row], row) for _, row in group.rows]) for group in line]
        )
        return True


def pack_blocks(
    lines: Sequence[Sequence[Group]], keys: int, key_lines: int, tokens: int, devices: int = 1
) -> list[Block]:
    """Packs lines of inputs into blocks of one shape; their number is a multiple of `devices`.

    `lines` holds the groups of each line, after `split_groups`. A line has `keys` tokens; a block
    has at most `key_lines` lines, and at most about `tokens` tokens for its decoder.
    """
    longest = max(size for line in lines for group in line for size, _ in group.rows)
    targets = padded_length(longest, TARGET_LENGTHS)
    if 2 * longest > targets:  # two of the longest, so that lines are filled up
        targets = padded_length(targets + 1, TARGET_LENGTHS)
    unshared = [sum(group.unshared for group in line) for line in lines]
    # Limit the lines of inputs to the decoder's tokens; give each device as many blocks.
    key_lines = min(key_lines, max(1, tokens * len(lines) // sum(unshared)))
    count = -(-len(lines) // (key_lines * devices)) * devices
    key_lines = -(-len(lines) // count)
    queries = padded_length(max(unshared), (16,))
    # A block must hold the rows of any single line of inputs; here each row is its own group.
    fewest = max(
        len(fill_lines([Group(s, [(0, n)]) for group in line for s, n in group.rows], targets))
        for line in lines
    )
    average = sum(unshared) / count / targets
    for spare in _SPARE:
        # Sizes are rounded up to few steps, so that windows of rows share compiled programs.
        needed = max(fewest, _round_up(spare * average, 1 << math.ceil(average).bit_length()))
        blocks = fill_blocks(lines, BlockShape(keys, key_lines, queries, targets, needed), count)
        # If some lines did not fit, `fill_blocks` has added blocks.
        if len(blocks) == count:
            break
    return _multiple_of(blocks, devices)


def split_groups(groups: Sequence[Group], tokens: int) -> list[Group]:
    """Splits groups with more than `tokens` unshared tokens; each part keeps the input."""
    return [piece for group in groups for piece in _split_group(group, tokens + group.shared)]


def fill_blocks(
    lines: Sequence[Sequence[Group]], shape: BlockShape, count: int, devices: int = 1
) -> list[Block]:
    """Packs lines of inputs into `count` blocks, the largest line first into the emptiest block.

    Lines that find no room go into extra blocks; a line too large for an empty block is split.
    """
    blocks = [Block(shape) for _ in range(count)]

    def count_unshared(line: Sequence[Group]) -> int:
        return sum(group.unshared for group in line)

    # The largest comes last, so it is popped first.
    left = sorted(lines, key=count_unshared)
    while left:
        line = left.pop()
        if any(block.take(line) for block in sorted(blocks, key=lambda block: -block.room)):
            continue
        blocks.append(Block(shape))
        if not blocks[-1].take(line):
            # Split between inputs, or, if there is only one, between its rows.
            half = len(line) // 2
            (group, *_) = line
            rows = len(group.rows) // 2
            left += (
                [line[:half], line[half:]]
                if half
                else [
                    [group._replace(rows=part)] for part in (group.rows[:rows], group.rows[rows:])
                ]
            )
    return _multiple_of(blocks, devices)


def _multiple_of(blocks: list[Block], devices: int) -> list[Block]:
    # Each device computes a block in each round, so add empty blocks where needed.
    return blocks + [Block(blocks[0].shape) for _ in range(-len(blocks) % devices)]


def _even_size(count: int, cap: int) -> int:
    """Returns how many of `count` lines make a batch, at most `cap`.

    For few batches, it is the size between half of `cap` and `cap`, in steps of an eighth, with the
    least padding; for many, it is `cap`, so that the lines of all windows have one shape.

    >>> _even_size(100, 10), _even_size(1001, 10), _even_size(11, 10), _even_size(3, 10)
    (10, 10, 6, 3)
    """
    if -(-count // cap) > 16:
        return cap
    step = max(1, cap // 8)
    sizes = range(cap, max(0, cap // 2 - 1), -step) if count > cap else [_round_up(count, cap)]
    return min(cap, min(sizes, key=lambda size: -(-count // size) * size))


def _round_up(number: float, cap: int) -> int:
    """Rounds up to a multiple of an eighth of `cap`."""
    step = max(1, cap // 8)
    return max(1, math.ceil(number / step)) * step


class PackedEngine:
    """Base class of engines that compute a quantity of packed rows with one model.

    Args:
      tokens_per_batch: tokens of a batch, padding included; None = for each device that shares the
        rows, `on_cpu` on a CPU, else as many as fit the device's memory.
    """

    def __init__(self, model: BaseModel, tokens_per_batch: int | None, on_cpu: int):
        self.model, self._devices = model, model.partitioner.data_parallelism
        room = tokens_in_memory(model.config, model.params)
        tokens = batch_tokens(tokens_per_batch, on_cpu, room, self._devices)
        self._packer = Packer(attention_share(model.config), tokens, self._devices)
        self._memory, self._compiled = Memory(self._halve_batches), CompiledAhead()
        self._shapes: set[tuple[int, ...]] = set()
        self._tokens, self._slots = 0, 0  # computed so far, without padding and with it

    @property
    def num_compilations(self) -> int:
        """The number of shapes that were compiled for this engine."""
        return len(self._shapes)

    @property
    def padding(self) -> float:
        """The share of padding among the computed tokens, in [0, 1)."""
        return 1 - self._tokens / max(1, self._slots)

    def _compile_ahead(self, calls: Mapping[Any, Callable[[], Any]]) -> None:
        """Starts to compile a job's programs, given as calls keyed by their batches' shape."""
        if compiles_ahead():
            self._compiled.begin(calls)

    def _halve_batches(self) -> None:
        self._packer.halve()

    def _compute_batches(
        self,
        numbers: Iterable[int],
        quantity: str,
        queue_window: Callable[[list[int]], Iterable[tuple[Mapping[int, Place], Callable]]],
    ) -> Iterator[tuple[Mapping[int, Place], Any]]:
        """Yields, for each batch, the places of its rows, and the batch's results.

        `queue_window` queues the batches of a window of rows. For each batch it yields the places
        of its rows, and a function that waits for its results. `quantity` names these in the log.
        """
        left = dict.fromkeys(numbers)
        progress, compiled = Progress(f"{quantity} of row", len(left)), len(self._shapes)

        def queue_batches(numbers: list[int]) -> Iterator[tuple[Mapping[int, Place], Callable]]:
            # The device computes the batches of a window while the next one is packed.
            for start in range(0, len(numbers), self._packer.window):
                yield from queue_window(numbers[start : start + self._packer.window])

        for places, results in self._memory.fetch_results(queue_batches, left):
            yield places, results
            for number in places:
                del left[number]
            progress.add(len(places))
        if len(self._shapes) > compiled:
            logger.info("%s: %s", quantity, describe_compilations(len(self._shapes), self.padding))
