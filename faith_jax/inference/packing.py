"""Several rows in one line of a batch, so that little of it is padding.

Segment ids keep the rows of a line apart, and positions begin anew in each. Rows with the same
input are a *group*, whose input a line has once. Lines have few lengths, since each shape costs a
compilation. Which are chosen depends on the rows of the call alone, but for `sharing_programs`.

These are rows to score; the rows of a training are packed by `input.packing`.

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

# Tokens of a line; longer rows have longer ones, as `padded_length` says.
LENGTHS = (128, 256, 384, 512, 768, 1024, 1536, 2048)
TARGET_LENGTHS = (64, 128, 256, 512)
# Rows that are packed together, and among which the same input is found.
_WINDOW_ON_CPU, _WINDOW = 512, 4096
# A compilation takes as long as so many tokens, or longer.
_TOKENS_ON_CPU, _TOKENS = 4096, 1 << 20
# A block has so many times the tokens that it needs; the first that holds all is taken.
_SPARE = (1.0, 1.02, 1.04, 1.06, 1.1, 1.15, 1.25, 1.4)
# Of a job: so many lengths of lines at most, each a multiple of so many tokens.
MOST_SHAPES, _STEP = 3, 64


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
        return self.shared + self.unshared

    @property
    def unshared(self) -> int:
        """All tokens but those of the input."""
        return sum(size for size, _ in self.rows)


class _Placed(NamedTuple):
    """Rows of a group in one line: of each its part and its number."""

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


class CompiledShapes(dict[_Shape, None]):
    """Shapes of earlier calls, whose programs serve later calls that are padded to them.

    The padding is taken as long as all of it, since a program was compiled last, costs less than
    one more program: so neither costs more than twice what the other alone would (ski rental).

    Only within `sharing_programs`: elsewhere the shape that fits best is taken.

    Args:
      compilation: cost of a program, in tokens.
    """

    def __init__(self, compilation: float):
        super().__init__()
        self._compilation, self._padding = compilation, 0.0

    def choose(self, costs: Mapping[_Shape, float]) -> _Shape:
        """Returns the shape to compute in.

        Args:
          costs: in tokens: first that of the shape which fits best, then of compiled ones.
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
      attention: what the attention to one more key costs a token, beside all else that it costs.
      tokens_per_batch: tokens of a batch, padding included, but at least one line.
      devices: that share a batch's lines.
    """

    def __init__(self, attention: float, tokens_per_batch: int, devices: int = 1):
        self._attention, self._tokens, self._devices = attention, tokens_per_batch, devices
        on_cpu = jax.default_backend() == "cpu"
        self.compilation = _TOKENS_ON_CPU if on_cpu else _TOKENS
        self.window = _WINDOW_ON_CPU if on_cpu else _WINDOW
        # By the length of lines how many are a batch; empty before `choose`.
        self.sizes: dict[int, int] = {}
        self._line, self._longest_length = 0, 0
        # Of other calls than a job's, by length and size.
        self._compiled = CompiledShapes[tuple[int, int]](self.compilation)

    def choose(self, groups: Sequence[Group], limit: int, window: int, total: int) -> None:
        """Chooses the shapes of a job's lines, at most `MOST_SHAPES`, by a sample of its groups.

        The job has `total` rows, of which `window` are packed together. Rows that are longer than
        those of the sample have lines of `limit` tokens.
        """
        rows, longest = sum(len(group.rows) for group in groups), _longest_length(groups)
        # Each length that lines may be packed to, with each number of lengths to pad them to.
        best, least = dict[int, int](), math.inf
        for length in _line_lengths(longest, sorted({_in_steps(longest), *LENGTHS})):
            used = [tokens for tokens, _ in fill_lines(groups, length)]
            for count in range(1, MOST_SHAPES + 1):
                lengths = _best_lengths(used, count, self._line_cost)
                # The longest rows have a shape of their own where these are too short.
                if len(lengths) + (lengths[-1] < limit) > MOST_SHAPES:
                    continue
                sizes, cost = dict[int, int](), 0.0
                for line_size, number in _lines_by_length(used, lengths).items():
                    # Lines of a window, and of the job.
                    lines = math.ceil(number * min(window, total) / rows)
                    sizes[line_size] = self._choose_batch_size(line_size, lines)
                    # Lines of all windows, with those that fill up each window's last batch.
                    slots = (
                        -(-lines // sizes[line_size]) * sizes[line_size] * max(1, total / window)
                    )
                    cost += self.compilation + slots * self._line_cost(line_size)
                if cost < least:
                    best, least = sizes, cost
        self._line = max(best)
        self._longest_length = max(_in_steps(limit), self._line)
        # `best` comes last: where it has the longest length too, its size holds.
        self.sizes = {
            self._longest_length: self._compute_max_batch_size(self._longest_length)
        } | best

    def lines(self, groups: Sequence[Group]) -> list[Packed]:
        """Packs groups into lines that hold inputs and own tokens; each row is in one of them."""
        longest = _longest_length(groups)
        if not self.sizes or longest > self._longest_length:
            # Longer lines leave less padding, but tokens see more keys: the cheapest are taken.
            ladder = _line_lengths(longest)
            tried = [self._cut_down(fill_lines(groups, length)) for length in ladder]
            return min(tried, key=self._estimate_cost)
        # Only rows that do not fit the sample's lines go into lines of the limit.
        short, long = list[Group](), list[Group]()
        for group in groups:
            (short if _longest_length([group]) <= self._line else long).append(group)
        lines = fill_lines(short, self._line) + fill_lines(long, self._longest_length)
        # Each line has the first length that holds it.
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for number, (used, _) in enumerate(lines):
            length = next(length for length in sorted(self.sizes) if used <= length)
            by_shape.setdefault((length,), []).append(number)
        # Lines that fill no batch go where a longer shape's last batch has room.
        filled = fill_batches(by_shape, lambda shape: self.sizes[shape[0]])
        return [
            Packed(length, self.sizes[length], [lines[number][1] for number in numbers])
            for (length,), numbers in filled.items()
        ]

    @property
    def longest_line(self) -> int:
        """Tokens of the longest line that calls so far have had."""
        return max([*self.sizes, *(length for length, _ in self._compiled)], default=0)

    def reuse(self, packed: Packed) -> Packed:
        """Returns lines in the shape of an earlier call, where that costs less than a program."""
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
        """Halves the tokens of all batches to come; those of one line stay."""
        self._tokens //= 2
        self._compiled.clear()
        self.sizes = {
            length: max(1, size // self._devices // 2) * self._devices
            for length, size in self.sizes.items()
        }

    def _cut_down(self, lines: Sequence[tuple[int, Line]]) -> list[Packed]:
        """Returns lines, given with their tokens, by the lengths that are worth a compilation."""
        by_length: dict[int, list[Line]] = {}
        for used, line in lines:
            by_length.setdefault(padded_length(used, LENGTHS), []).append(line)
        lengths = sorted(by_length)
        for shorter, longer in itertools.pairwise(lengths):
            # The padding that the longer shape adds is cheaper than a program for the shorter one.
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
        # Each token costs 1, and `attention` for each key of its line.
        return length * (1 + self._attention * length)

    def _estimate_cost(self, packed: Sequence[Packed]) -> float:
        """Returns the cost of batches and compilations, in tokens."""
        return sum(self.compilation + self._batches_cost(batches) for batches in packed)

    def _batches_cost(self, packed: Packed) -> float:
        return packed.slots / packed.length * self._line_cost(packed.length)


def _best_lengths(used: Sequence[int], max_lengths: int, cost: Callable[[int], float]) -> list[int]:
    """Returns the lengths that pad lines at the least cost, in multiples of `_STEP`.

    By dynamic programming over the lengths that any line could have: lines up to one of them have
    the cost of the cheapest lengths for shorter lines, and that of the lines between.

    Args:
      used: tokens of each line.
      max_lengths: how many lengths; fewer where fewer do it.
      cost: of a line of a length.
    """
    counts = collections.Counter(_in_steps(tokens) for tokens in used)
    lengths = sorted(counts)
    # below[n] lines are shorter than length number n, and below[n + 1] have at most that.
    below = [0, *itertools.accumulate(counts[length] for length in lengths)]
    # The least cost of the lines up to length number n, and the chosen lengths, by n.
    best: list[tuple[float, list[int]]] = [
        (below[n + 1] * cost(length), [length]) for n, length in enumerate(lengths)
    ]
    # best'[n] = min(best[n], min over k < n of best[k] + (below[n + 1] - below[k + 1]) cost(n)):
    # each round allows one length more.
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
    """Returns how many lines each length has, the first that holds a line's tokens."""
    return dict(collections.Counter(lengths[bisect.bisect_left(lengths, u)] for u in used))


def _in_steps(tokens: int) -> int:
    return -(-tokens // _STEP) * _STEP


def _longest_length(groups: Sequence[Group]) -> int:
    return max(group.shared + max(size for size, _ in group.rows) for group in groups)


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
    pieces = [piece for group in groups for piece in _split_group(group, length)]
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
        line.append(_Placed(piece.shared, [(0, row) for _, row in piece.rows]))
        lines[number] = (used + piece.total, line)
        bisect.insort(free, (room - piece.total, number))
    return lines


def _split_group(group: Group, length: int) -> Iterator[Group]:
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
    """The lines of inputs that a device encodes at once, and what its decoder reads of their rows.

    Attributes:
      shape: of the block.
      keys: the groups of each line of inputs; a row's part is the line that the decoder reads.
    """

    def __init__(self, shape: BlockShape):
        self.shape = shape
        self.keys: list[Line] = []
        # Free tokens of each line that the decoder reads, the fullest first.
        self._free = [(shape.targets, line) for line in range(shape.lines)]
        self.room = shape.lines * shape.targets

    def take(self, line: Sequence[Group]) -> bool:
        """Takes a line of inputs with all of its rows, or nothing where there is no room."""
        unshared = sum(group.unshared for group in line)
        if len(self.keys) == self.shape.key_lines or unshared > min(self.room, self.shape.queries):
            return False
        # On a copy, so that nothing is taken where a later row finds no room.
        free, parts = list(self._free), dict[int, int]()
        for size, row in sorted((row for group in line for row in group.rows), reverse=True):
            # Best fit: the line with the least room that is enough.
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
    """Packs lines of inputs into blocks of one shape, whose number is a multiple of the devices.

    `lines` have the groups of each, which `split_groups` has made. They are of `keys` tokens; a
    block has at most `key_lines` of them, and for its decoder about `tokens` at most.
    """
    longest = max(size for line in lines for group in line for size, _ in group.rows)
    targets = padded_length(longest, TARGET_LENGTHS)
    if 2 * longest > targets:  # two of the longest, so that lines are filled up
        targets = padded_length(targets + 1, TARGET_LENGTHS)
    unshared = [sum(group.unshared for group in line) for line in lines]
    # As many lines of inputs as have rows for the decoder; as many blocks for each device.
    key_lines = min(key_lines, max(1, tokens * len(lines) // sum(unshared)))
    count = -(-len(lines) // (key_lines * devices)) * devices
    key_lines = -(-len(lines) // count)
    queries = padded_length(max(unshared), (16,))
    # Each line of inputs finds room in a block of its own, with each row as a group of its own.
    fewest = max(
        len(fill_lines([Group(s, [(0, n)]) for group in line for s, n in group.rows], targets))
        for line in lines
    )
    average = sum(unshared) / count / targets
    for spare in _SPARE:
        # Sizes are rounded up to few steps, so that windows of rows share compiled programs.
        needed = max(fewest, _round_up(spare * average, 1 << math.ceil(average).bit_length()))
        blocks = fill_blocks(lines, BlockShape(keys, key_lines, queries, targets, needed), count)
        # All lines have found room; else `fill_blocks` has added blocks.
        if len(blocks) == count:
            break
    return _multiple_of(blocks, devices)


def split_groups(groups: Sequence[Group], tokens: int) -> list[Group]:
    """Splits groups with more than so many tokens of their own; each part has the input."""
    return [piece for group in groups for piece in _split_group(group, tokens + group.shared)]


def fill_blocks(
    lines: Sequence[Sequence[Group]], shape: BlockShape, count: int, devices: int = 1
) -> list[Block]:
    """Packs lines of inputs into so many blocks, the largest first into the emptiest block.

    What finds no room goes into more blocks; a line that does not fit a block alone is split.
    """
    blocks = [Block(shape) for _ in range(count)]

    def count_unshared(line: Sequence[Group]) -> int:
        return sum(group.unshared for group in line)

    # The largest comes last, and is the first to be popped.
    left = sorted(lines, key=count_unshared)
    while left:
        line = left.pop()
        if any(block.take(line) for block in sorted(blocks, key=lambda block: -block.room)):
            continue
        blocks.append(Block(shape))
        if not blocks[-1].take(line):
            # Of several inputs, or of several rows of one.
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
    # Each device computes a block in each round, if only an empty one.
    return blocks + [Block(blocks[0].shape) for _ in range(-len(blocks) % devices)]


def _even_size(count: int, cap: int) -> int:
    """Returns how many of `count` lines make a batch, at most `cap`.

    Of few batches it is the size from half of `cap` on with the least padding, in steps of an
    eighth; of many it is `cap`, so that the lines of all windows have one shape.

    >>> _even_size(100, 10), _even_size(1001, 10), _even_size(11, 10), _even_size(3, 10)
    (10, 10, 6, 3)
    """
    if -(-count // cap) > 16:
        return cap
    step = max(1, cap // 8)
    sizes = range(cap, max(0, cap // 2 - 1), -step) if count > cap else [_round_up(count, cap)]
    return min(cap, min(sizes, key=lambda size: -(-count // size) * size))


def _round_up(number: float, cap: int) -> int:
    """Returns the next of about eight even steps up to `cap` and beyond."""
    step = max(1, cap // 8)
    return max(1, math.ceil(number / step)) * step


class PackedEngine:
    """The base of what computes something of packed rows with one model.

    Args:
      tokens_per_batch: tokens of a batch, padding included; None = `on_cpu` on a CPU, else what the
        device's memory has room for, for each device that shares the rows.
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
        """How many shapes were compiled for this engine."""
        return len(self._shapes)

    @property
    def padding(self) -> float:
        """The share of padding among the tokens that were computed, in [0, 1)."""
        return 1 - self._tokens / max(1, self._slots)

    def _compile_ahead(self, calls: Mapping[Any, Callable[[], Any]]) -> None:
        """Begins to compile a job's programs, by what their batches have in common."""
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
        """Yields the places of rows in their batches, and what is computed of each batch.

        `queue_window` queues the batches of some of the rows, and yields for each the places of its
        rows and what waits for its results; `quantity` is the log's name for these.
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
