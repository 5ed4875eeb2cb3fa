"""Log-probabilities of given responses, for many rows of any length, in few compiled shapes.

Rows are packed (`inference.packing`), and an input that several rows share is read once. An array
of shape [batch, length, vocab] is never built: only the hidden states that predict a target token
go through the output layer, a bounded number at a time, so a batch with fewer targets takes fewer
steps.

A decoder-only model reads an input and its responses in one line: each response attends to the
input and itself, at the positions right after the input. An encoder-decoder reads blocks: lines of
inputs, and lines of the responses to them for its decoder. Each layer projects an input's states
to keys and values once; queries are regrouped by input only for the cross-attention.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer

from faith_jax.core.types import Array, PyTree
from faith_jax.inference.batching import FilledLines, batch_tokens, padded_length, tokens_in_memory
from faith_jax.inference.causal import CausalModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel
from faith_jax.inference.packing import (
    LINE_LENGTHS,
    TARGET_LENGTHS,
    Block,
    BlockShape,
    CompiledShapes,
    Group,
    Line,
    Packed,
    PackedEngine,
    fill_blocks,
    pack_blocks,
    split_groups,
)
from faith_jax.inference.pipeline import queue
from faith_jax.models.attention.masks import Regrouped
from faith_jax.models.chunked_logits import piece_length
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.partitioning import Partitioner
from faith_jax.models.transformer import Transformer, output_layer

# At most this many bytes of float32 logits are held at once; a smaller limit is faster on a CPU.
MAX_LOGITS_BYTES = 128 * 2**20
_MAX_LOGITS_BYTES_ON_CPU = 48 * 2**20
# Decoder tokens per block on a CPU: the answers to one text rarely have more.
_BLOCK_TOKENS = 4096


class LikelihoodRow(NamedTuple):
    """One row to score.

    Attributes:
      inputs: token ids of the encoder's input, or of the text before the response in a
        decoder-only model; at least one.
      targets: token ids of the response.
      start: token ids that an encoder-decoder's decoder reads before the response, after its start
        token; they are not scored.
    """

    inputs: Sequence[int]
    targets: Sequence[int]
    start: Sequence[int] = ()

    @property
    def fed(self) -> list[int]:
        """The ids that a decoder-only model reads: the last target predicts nothing further."""
        return [*self.inputs, *self.targets[:-1]]


class Lines(NamedTuple):
    """A batch as a decoder-only model reads it, int32 [lines, length] each.

    Attributes:
      tokens: the inputs, each followed by its responses and preceded by room for a soft prompt.
      segments: segment number of each token in its line, from 1 on.
      shared: the segment of the input that each token attends to besides its own segment.
      positions: position of each token in its input and response taken together.
    """

    tokens: Any
    segments: Any
    shared: Any
    positions: Any


class Blocks(NamedTuple):
    """A batch as an encoder-decoder reads it: one block for each device.

    Attributes:
      keys: int32 [key lines, keys], the input tokens, which are encoded first.
      key_segments: number of each token's input in its line, from 1 on.
      tokens: int32 [lines, targets], the decoder's inputs, with room for a soft prompt before
        each response.
      segments: int32, number of each token's response in its line, from 1 on.
      positions: int32, position in the response.
      queries: for each line of keys, the decoder tokens that attend to it.
    """

    keys: Any
    key_segments: Any
    tokens: Any
    segments: Any
    positions: Any
    queries: Regrouped


class _TargetTokens(NamedTuple):
    """The tokens whose log-probabilities are computed, for each device's group of lines.

    Attributes:
      sources: int32 [groups, tokens], indices into the hidden states of a group's lines.
      targets: int32 [groups, tokens], token ids.
      counts: int32 [groups], number of valid tokens; the others are padding.
    """

    sources: Any
    targets: Any
    counts: Any


def token_log_probs(
    hidden: Float[Array, "states embed"],
    layer: OutputLayer,
    sources: Integer[Array, "tokens"],
    targets: Integer[Array, "tokens"],
    count: Integer[Array, ""],
    max_logits_bytes: int = MAX_LOGITS_BYTES,
) -> Float[Array, "tokens"]:
    """Returns the log-probability of each target from the hidden state before it.

    Args:
      hidden: states before the output layer.
      layer: the output layer.
      sources: index of the hidden state that predicts each target.
      targets: token ids.
      count: only the first `count` targets are scored; the others cost nothing.
      max_logits_bytes: limit on the logits held at once (always at least one token's).

    Returns:
      Natural logarithms; 0 after `count` rounded up to a whole piece.
    """
    tokens = sources.shape[0]
    piece = piece_length(tokens, layer.vocab_size, max_logits_bytes)
    padding = -tokens % piece  # up to a multiple of the piece
    sources, targets = (jnp.pad(x, (0, padding)) for x in (sources, targets))

    def score_piece(number: Array, log_probs: Array) -> Array:
        start = number * piece
        # Only the states that predict a target are gathered: [piece, embed].
        states = hidden[jax.lax.dynamic_slice(sources, (start,), (piece,))]
        logits = layer.logits(states)
        piece_targets = jax.lax.dynamic_slice(targets, (start,), (piece,))
        target_logits = jnp.take_along_axis(logits, piece_targets[:, None], axis=1)[:, 0]
        # log softmax(logits)[target] = logits[target] - logsumexp(logits)
        piece_log_probs = target_logits - jax.nn.logsumexp(logits, axis=1)
        return jax.lax.dynamic_update_slice(log_probs, piece_log_probs, (start,))

    # The number of steps depends on `count`, which is traced, so this compiles to a while loop.
    pieces = (count + piece - 1) // piece
    start = jnp.zeros(tokens + padding, jnp.float32)
    return jax.lax.fori_loop(0, pieces, score_piece, start)[:tokens]


def _compute_hidden_states(module: Transformer, params: PyTree, read: Lines | Blocks) -> Any:
    """Returns the states before the output layer, [lines, length, embed]."""
    apply = functools.partial(module.apply, {"params": params}, enable_dropout=False)
    options: Any = {"decoder_segment_ids": read.segments, "decoder_positions": read.positions}
    options["method"] = "decode_hidden"
    if isinstance(read, Lines):
        return apply(None, None, read.tokens, shared_segment_ids=read.shared, **options)
    segments = {"encoder_segment_ids": read.key_segments}
    # The rows already have room for the soft prompt, so none is prepended.
    encoded = apply(read.keys, **segments, has_room=True, method="encode")
    # Only cross-attention sorts the queries by the line of their keys.
    return apply(encoded, read.keys, read.tokens, regrouped=read.queries, **segments, **options)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _score_targets(
    module: Transformer,
    params: PyTree,
    read: Lines | Blocks,
    targets: _TargetTokens,
    max_logits_bytes: int,
) -> Array:
    """Returns log-probabilities, [groups, tokens]; each device holds one group of lines."""
    hidden = _compute_hidden_states(module, params, read)
    groups = targets.sources.shape[0]
    # The lines of a group are on one device, so gathering from them needs no communication.
    hidden = hidden.reshape(groups, -1, hidden.shape[-1])
    layer = output_layer(module, params)

    def score(hidden: Array, sources: Array, targets: Array, count: Array) -> Array:
        return token_log_probs(hidden, layer, sources, targets, count, max_logits_bytes)

    if groups == 1:  # under vmap, each step would copy the results so far
        return score(hidden[0], *(x[0] for x in targets))[None]
    return jax.vmap(score)(hidden, *targets)


@functools.partial(jax.jit, static_argnums=0)
def _label_logits(
    module: Transformer, params: PyTree, read: Lines | Blocks, labels: Array
) -> Array:
    """Returns the logits of a few tokens after each token read, [lines, length, labels]."""
    return output_layer(module, params).logits_of(
        _compute_hidden_states(module, params, read), labels
    )


# Where the targets of each row in a batch are predicted: its group of lines, and the indices in
# that group of the states before its targets.
_Sources = dict[int, tuple[int, np.ndarray]]


class LikelihoodEngine(PackedEngine):
    """Computes the likelihoods of rows with one model.

    The rows of a call are processed in windows of 512 on a CPU, else of 4,096. Within a window, an
    input that several rows share is computed once.

    Args:
      model: an encoder-decoder or a decoder-only model.
      tokens_per_batch: tokens of a batch, padding included; default: 2,048 on a CPU (4,096 for the
        decoder of an encoder-decoder), else as many as fit the device's memory; times the number
        of devices that share the rows.
    """

    def __init__(
        self,
        model: EncoderDecoderModel | CausalModel,
        tokens_per_batch: int | None = None,
    ):
        super().__init__(model, tokens_per_batch, on_cpu=2048)
        on_cpu = jax.default_backend() == "cpu"
        self._max_logits_bytes = _MAX_LOGITS_BYTES_ON_CPU if on_cpu else MAX_LOGITS_BYTES
        config = model.config
        # The placeholder token for a soft prompt's vectors, and the token that is masked.
        self._room, self._pad = int(config.pad_id == 0), max(0, config.pad_id)
        # Tokens for one device, unlike the packer's: each device computes a block of its own.
        room = tokens_in_memory(config, model.params)
        tokens = batch_tokens(tokens_per_batch, _BLOCK_TOKENS, room, self._devices)
        self._block_tokens = max(1, tokens // self._devices)
        # Keyed by the length of the lines of inputs; filled by `choose_shapes`.
        self._block_shapes: dict[int, BlockShape] = {}
        # Shapes of calls outside a job.
        self._compiled_blocks = CompiledShapes[BlockShape](self._packer.compilation)

    def choose_shapes(
        self, rows: Sequence[LikelihoodRow], limit: int, window: int, total: int
    ) -> None:
        """Chooses the shapes of a job of `total` rows, `window` per call, from a sample `rows`.

        `limit` is the largest number of tokens that an input may have; see `Packer.choose`.
        """
        config, numbers = self.model.config, [n for n, row in enumerate(rows) if row.targets]
        if not numbers:
            return
        window, packer = min(window, self._packer.window), self._packer
        if config.is_decoder_only:
            # The longest possible input, followed by the longest response of the sample.
            limit += config.decoder_prompt_length + max(len(row.targets) for row in rows)
            packer.choose(self._causal_groups(rows, numbers), limit, window, total)
            return
        # First choose the lengths of the lines of inputs, then for each length a block with room
        # for the targets of the sample's lines.
        groups = split_groups(self._group_by_input(rows, numbers), self._block_tokens)
        packer.choose(_number_inputs(groups), config.encoder_prompt_length + limit, window, total)
        of_sample = dict[int, tuple[BlockShape, float]]()  # by length; mean unshared targets a line
        for packed in packer.lines(_number_inputs(groups)):
            lines = _lines_of(packed, groups, self._block_tokens)
            shape = pack_blocks(lines, packed.length, packed.size, self._block_tokens)[0].shape
            unshared = sum(group.unshared for line in lines for group in line) / len(lines)
            of_sample[packed.length] = shape, unshared
        longest = max(of_sample)
        for length, size in packer.sizes.items():
            if length not in of_sample:  # such as the limit; scale from the longest line
                share, (shape, unshared) = length / longest, of_sample[longest]
                shape = shape._replace(keys=length, queries=math.ceil(share * shape.queries))
                of_sample[length] = shape, share * unshared
            self._block_shapes[length] = self._with_spare(*of_sample[length], size)
        self._compile_ahead(
            {
                shape: functools.partial(self._compile_shape, shape)
                for shape in self._block_shapes.values()
            }
        )

    def _with_spare(self, shape: BlockShape, unshared: float, size: int) -> BlockShape:
        """Returns the shape with room for a quarter more targets than the sample's rows have.

        A batch has `size` lines of inputs, each with `unshared` targets on average.
        """
        key_lines, spare = size // self._devices, 1.25
        return shape._replace(
            key_lines=key_lines,
            queries=padded_length(math.ceil(spare * shape.queries), (16,)),
            lines=math.ceil(spare * unshared * key_lines / shape.targets),
        )

    def _compile_shape(self, shape: BlockShape) -> None:
        """Computes a batch without rows, so that its program is compiled."""
        read, sources = self._build_blocks([Block(shape)] * self._devices, [])
        targets = _collect_targets([], read, sources, self._devices)
        self.model.partitioner.compute(self._score_program(), read, targets)

    def _score_program(self) -> Callable[..., Any]:
        return functools.partial(
            _score_targets,
            self.model.module,
            self.model.params,
            max_logits_bytes=self._max_logits_bytes,
        )

    def log_probs(self, rows: Sequence[LikelihoodRow]) -> list[np.ndarray]:
        """Returns the log-probability of each target given the inputs and the targets before it.

        Args:
          rows: in any order; a row without targets gets an empty array.

        Returns:
          For each row float32 [targets], natural logarithms in (-inf, 0].
        """
        all_log_probs = [np.zeros(0, np.float32)] * len(rows)

        def arrays_of(read: Lines | Blocks, sources: _Sources) -> tuple[Any, ...]:
            return read, _collect_targets(rows, read, sources, self._devices)

        for sources, scores in self._compute_rows(
            rows, "likelihood", self._score_program(), arrays_of
        ):
            # [groups, tokens]: a group's rows follow one another in the order of `sources`.
            counts = [0] * self._devices
            for number, (group, places) in sources.items():
                all_log_probs[number] = scores[group, counts[group] : counts[group] + len(places)]
                counts[group] += len(places)
        return all_log_probs

    def label_logits(self, rows: Sequence[LikelihoodRow], labels: Sequence[int]) -> np.ndarray:
        """Returns the logits of some tokens at the place of each row's last target.

        Args:
          rows: each with at least one target; the value of the last one is ignored.
          labels: token ids.

        Returns:
          float32 [rows, labels].
        """
        all_logits = np.zeros((len(rows), len(labels)), np.float32)
        bound = functools.partial(
            _label_logits,
            self.model.module,
            self.model.params,
            labels=np.asarray(labels, np.int32),
        )
        for sources, logits in self._compute_rows(
            rows, "classes", bound, lambda read, sources: (read,)
        ):
            # Places are numbered within a device's group of lines.
            grouped = logits.reshape(self._devices, -1, len(labels))
            for number, (group, places) in sources.items():
                all_logits[number] = grouped[group, places[-1]]
        return all_logits

    def _compute_rows(
        self,
        rows: Sequence[LikelihoodRow],
        quantity: str,
        bound: Callable[..., Any],
        arrays_of: Callable[[Lines | Blocks, _Sources], tuple[Any, ...]],
    ) -> Iterator[tuple[Mapping[int, tuple[int, np.ndarray]], np.ndarray]]:
        """Yields, by batch, the sources of all rows with targets, and the program's results."""
        is_decoder_only = self.model.config.is_decoder_only
        build = self._build_line_batches if is_decoder_only else self._build_block_batches

        def queue_window(window: list[int]) -> Iterator[tuple[_Sources, Callable[[], Any]]]:
            for read, sources in build(rows, window):
                yield sources, queue(self.model.partitioner, bound, *arrays_of(read, sources))

        numbers = [number for number, row in enumerate(rows) if len(row.targets)]
        return self._compute_batches(numbers, quantity, queue_window)

    def _halve_batches(self) -> None:
        super()._halve_batches()
        self._block_tokens = max(1, self._block_tokens // 2)
        self._compiled_blocks.clear()
        self._block_shapes = {
            length: shape._replace(key_lines=-(-shape.key_lines // 2), lines=-(-shape.lines // 2))
            for length, shape in self._block_shapes.items()
        }

    def _build_line_batches(
        self, rows: Sequence[LikelihoodRow], window: Sequence[int]
    ) -> Iterator[tuple[Lines, _Sources]]:
        """Yields the batches of a decoder-only model."""
        groups = self._causal_groups(rows, window)
        for packed in map(self._packer.reuse, self._packer.lines(groups)):
            self._shapes.add((packed.length, packed.size))
            for lines in packed.batches():
                yield self._build_lines(lines, packed.size, packed.length, rows)

    def _build_lines(
        self, lines: Sequence[Line], size: int, length: int, rows: Sequence[LikelihoodRow]
    ) -> tuple[Lines, _Sources]:
        filled, sources = FilledLines(size, length, self._pad), _Sources()
        shared = np.zeros_like(filled.tokens)
        room = [self._room] * self.model.config.decoder_prompt_length
        for number, line in enumerate(lines):
            # A device holds consecutive lines of a batch.
            group, place = divmod(number, size // self._devices)
            # Where the line begins among the states of its group.
            first_place = place * length
            segment = 0
            for placed in line:
                segment += 1
                # The responses to this input attend to its segment besides their own.
                of_input = segment
                ids = [*room, *rows[placed.rows[0][1]].inputs]
                span = filled.append(number, ids, of_input)
                shared[number, span] = of_input
                # The state of the input's last token predicts each row's first target.
                last = first_place + span.stop - 1
                for _, row in placed.rows:
                    # A single row is one segment with its input; several have their own segments.
                    segment += len(placed.rows) > 1
                    # Each row's positions continue those of the input, whatever lies between.
                    span = filled.append(number, rows[row].targets[:-1], segment, placed.shared)
                    shared[number, span] = of_input
                    places = range(first_place + span.start, first_place + span.stop)
                    sources[row] = group, np.array([last, *places])
        self._tokens += sum(filled.ends)
        self._slots += filled.tokens.size
        return Lines(filled.tokens, filled.segments, shared, filled.positions), sources

    def _causal_groups(self, rows: Sequence[LikelihoodRow], window: Sequence[int]) -> list[Group]:
        """Returns the rows grouped by input, with the number of tokens that follow it."""
        longest = max(len(rows[number].fed) for number in window)
        # New lines are at most four times as long as the longest row; see `packing`.
        length = max(4 * padded_length(longest, LINE_LENGTHS), self._packer.longest_line)
        shares = self.model.config.can_share_inputs(length)
        by_input: dict[Any, list[int]] = {}
        for number in window:
            # Without sharing, each row is a group of its own.
            key = tuple(rows[number].inputs) if shares else number
            by_input.setdefault(key, []).append(number)
        return [
            Group(
                self.model.config.decoder_prompt_length + len(rows[numbers[0]].inputs),
                # A row alone in its group feeds one token fewer than it has targets.
                [(len(rows[n].targets) - (len(numbers) == 1), n) for n in numbers],
            )
            for numbers in by_input.values()
        ]

    def _build_block_batches(
        self, rows: Sequence[LikelihoodRow], window: Sequence[int]
    ) -> Iterator[tuple[Blocks, _Sources]]:
        """Yields the batches of an encoder-decoder."""
        devices = self._devices
        for blocks in self._packed_blocks(self._group_by_input(rows, window)):
            shape = blocks[0].shape
            self._shapes.add(tuple(shape))
            self._compiled.wait(shape)
            # A batch has a block for each device; their number is a multiple of the devices.
            for start in range(0, len(blocks), devices):
                self._slots += devices * shape.key_lines * shape.keys
                self._slots += devices * shape.lines * shape.targets
                yield self._build_blocks(blocks[start : start + devices], rows)

    def _build_blocks(
        self, blocks: Sequence[Block], rows: Sequence[LikelihoodRow]
    ) -> tuple[Blocks, _Sources]:
        """Returns the blocks, one for each device, as one batch."""
        arrays, sources = list[Blocks](), _Sources()
        for group, block in enumerate(blocks):
            read, places = self._build_block(block, rows)
            arrays.append(read)
            sources |= {row: (group, of_row) for row, of_row in places.items()}
        joined: Blocks = jax.tree.map(lambda *parts: np.concatenate(parts), *arrays)
        return joined, sources

    def _group_by_input(self, rows: Sequence[LikelihoodRow], window: Sequence[int]) -> list[Group]:
        """Returns the rows grouped by input, with the number of decoder tokens of each."""
        config = self.model.config
        by_input: dict[tuple[int, ...], list[int]] = {}
        for number in window:
            by_input.setdefault(tuple(rows[number].inputs), []).append(number)
        front, prompt = config.encoder_prompt_length, config.decoder_prompt_length
        return [
            Group(
                front + len(ids),
                [(prompt + len(rows[n].start) + len(rows[n].targets), n) for n in numbers],
            )
            for ids, numbers in by_input.items()
        ]

    def _packed_blocks(self, groups: Sequence[Group]) -> Iterator[list[Block]]:
        """Yields the blocks for each length of the lines of inputs."""
        groups = split_groups(groups, self._block_tokens)
        largest = max(size for group in groups for size, _ in group.rows)
        for packed in self._packer.lines(_number_inputs(groups)):
            lines = _lines_of(packed, groups, self._block_tokens)
            shape = self._block_shapes.get(packed.length)
            # A row with more targets than the job's shape allows would not fit a block however its
            # line is split, so the window gets a shape of its own.
            if shape is not None and largest <= min(shape.queries, shape.targets):
                yield self._fill_shape(lines, shape)
                continue
            yield self._cheapest_blocks(lines, packed, largest)

    def _fill_shape(self, lines: Sequence[Sequence[Group]], shape: BlockShape) -> list[Block]:
        count = -(-len(lines) // (shape.key_lines * self._devices)) * self._devices
        return fill_blocks(lines, shape, count, self._devices)

    def _cheapest_blocks(
        self, lines: Sequence[Sequence[Group]], packed: Packed, largest: int
    ) -> list[Block]:
        """Returns blocks of the shape that fits best, or of an earlier call's if that is cheaper.

        Args:
          lines: the groups of each line of inputs.
          packed: the lines' length and number per batch.
          largest: number of decoder tokens of the longest row.
        """
        size = packed.size // self._devices
        blocks = pack_blocks(lines, packed.length, size, self._block_tokens, self._devices)
        if blocks[0].shape in self._compiled_blocks:
            return blocks
        options = {blocks[0].shape: blocks} | {
            shape: self._fill_shape(lines, shape)
            for shape in self._compiled_blocks
            if shape.keys >= packed.length and largest <= min(shape.queries, shape.targets)
        }
        costs = {
            shape: len(blocks) * (shape.key_lines * shape.keys + shape.lines * shape.targets)
            for shape, blocks in options.items()
        }
        return options[self._compiled_blocks.choose(costs)]

    def _build_block(
        self, block: Block, rows: Sequence[LikelihoodRow]
    ) -> tuple[Blocks, dict[int, np.ndarray]]:
        """Returns the arrays of a block, and the indices of the states that predict its targets."""
        config, shape, sources = self.model.config, block.shape, {}
        # [key lines, keys] for the encoder, [lines, targets] for the decoder, and
        # [key lines, queries] for the attention between them.
        keys = FilledLines(shape.key_lines, shape.keys, config.pad_id)
        filled = FilledLines(shape.lines, shape.targets, self._pad)
        queries = np.zeros((shape.key_lines, shape.queries), np.int32)
        # Padding queries and tokens keep index 0: their states are not used.
        places, back = np.zeros(queries.size, np.int32), np.zeros(filled.tokens.size, np.int32)
        # The tokens before each input, and before each response.
        room = [self._room] * config.encoder_prompt_length
        first_start = [self._room] * config.decoder_prompt_length + [config.decoder_start_id]
        for number, line in enumerate(block.keys):
            query_end = number * shape.queries
            for segment, placed in enumerate(line, 1):
                keys.append(number, [*room, *rows[placed.rows[0][1]].inputs], segment)
                for part, row in placed.rows:
                    start = [*first_start, *rows[row].start]
                    fed = [*start, *rows[row].targets[:-1]]
                    # The decoder's line may have rows of several inputs: take its next number.
                    in_line = filled.append(part, fed, 1 + filled.segments[part].max())
                    # Index among the tokens of all lines.
                    first = part * shape.targets + in_line.start
                    span = slice(first, first + len(fed))
                    seen = slice(query_end, query_end := query_end + len(fed))
                    # `places` sorts the decoder's tokens by the line of their input; `back` is the
                    # inverse.
                    queries.flat[seen], places[seen] = segment, np.arange(span.start, span.stop)
                    back[span] = np.arange(seen.start, seen.stop)
                    # The state of the last token before the targets predicts the first one.
                    sources[row] = np.arange(span.start + len(start) - 1, span.stop)
        self._tokens += sum(keys.ends) + sum(filled.ends)
        regrouped = Regrouped(places[None], back[None], queries)
        read = (keys.tokens, keys.segments, filled.tokens, filled.segments, filled.positions)
        return Blocks(*read, regrouped), sources


def _number_inputs(groups: Sequence[Group]) -> list[Group]:
    """Returns groups that hold only the shared inputs, with each group's number as its row."""
    return [Group(group.shared, [(0, number)]) for number, group in enumerate(groups)]


def _lines_of(packed: Packed, groups: Sequence[Group], tokens: int) -> list[list[Group]]:
    """Returns each line's groups; lines with over `tokens` unshared tokens are split."""
    lines = list[list[Group]]()
    for line in packed.lines:
        room = 0
        for group in (groups[placed.rows[0][1]] for placed in line):
            if group.unshared > room:
                lines.append([])
                room = tokens
            lines[-1].append(group)
            room -= group.unshared
    return lines


def _collect_targets(
    rows: Sequence[LikelihoodRow], read: Lines | Blocks, sources: _Sources, groups: int
) -> _TargetTokens:
    """Returns the targets of a batch's rows."""
    # Room for all tokens of a group, so that the shape does not depend on the number of targets.
    tokens = read.tokens.size // groups
    all_places, targets = np.zeros((2, groups, tokens), np.int32)
    counts = np.zeros(groups, np.int32)
    for number, (group, places) in sources.items():
        span = slice(counts[group], counts[group] + len(places))
        all_places[group, span], targets[group, span] = places, rows[number].targets
        counts[group] = span.stop
    return _TargetTokens(all_places, targets, counts)


def scoring_program(
    module: Transformer,
    partitioner: Partitioner,
    params: PyTree,
    row: LikelihoodRow,
    rows: int,
) -> tuple[Callable[[], Any], int]:
    """Returns a function that compiles the program `LikelihoodEngine` scores a batch with.

    Each of the `rows` rows, a multiple of the data parallelism, takes a line and is as long as
    `row`, the longest. `params` may be shapes with shardings.

    Returns:
      The function, which returns JAX's compiled program; and the number of steps of its loop when
      all targets of all rows are scored.
    """
    config, groups = module.config, partitioner.data_parallelism

    def ints(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.int32, sharding=partitioner.rows)

    if config.is_decoder_only:
        length = padded_length(config.decoder_prompt_length + len(row.fed), LINE_LENGTHS)
        read: Lines | Blocks = Lines(*[ints(rows, length)] * 4)
    else:
        keys = padded_length(config.encoder_prompt_length + len(row.inputs), LINE_LENGTHS)
        length = padded_length(config.decoder_prompt_length + len(row.targets), TARGET_LENGTHS)
        inputs, target_ints = ints(rows, keys), ints(rows, length)
        # Indices of all tokens of a group; see `Regrouped`.
        flat = ints(groups, rows * length // groups)
        read = Blocks(
            inputs,
            inputs,
            target_ints,
            target_ints,
            target_ints,
            Regrouped(flat, flat, target_ints),
        )
    tokens = rows * length // groups
    targets = _TargetTokens(ints(groups, tokens), ints(groups, tokens), ints(groups))
    piece = piece_length(tokens, config.vocab_size, MAX_LOGITS_BYTES)  # as in `token_log_probs`

    def compile_program() -> Any:
        with partitioner.active():
            program: Any = _score_targets
            return program.lower(module, params, read, targets, MAX_LOGITS_BYTES).compile()

    return compile_program, -(-(rows // groups * len(row.targets)) // piece)
