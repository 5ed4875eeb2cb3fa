"""Log-probabilities of given responses, for many rows of any length, in few compiled shapes.

Rows are packed (`inference.packing`): what several of them have as input is read once. No array of
[batch, length, vocab] is ever made: only the hidden states in front of the tokens that are asked
for go through the output layer, a bounded number at a time, and a batch with fewer such tokens
takes fewer turns.

A decoder-only model reads an input and the responses to it in one line: each response sees the
input and itself, at the positions behind the input. An encoder-decoder encodes the window's inputs
first, in lines of their own. Its decoder reads responses in blocks of lines, and each layer
projects an input's states to keys and values once in a block; the queries are sorted to their
inputs for the cross-attention alone.
"""

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer

from faith_jax.core.progress import Progress
from faith_jax.core.types import Array, PyTree
from faith_jax.inference.batching import batch_tokens, describe_compilations, padded_length
from faith_jax.inference.causal import CausalModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel
from faith_jax.inference.packing import (
    LENGTHS,
    TARGET_LENGTHS,
    WINDOW,
    Block,
    Group,
    Packer,
    attention_share,
    pack_blocks,
)
from faith_jax.models.attention.masks import Regrouped
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.partitioning import Partitioner
from faith_jax.models.transformer import Transformer, output_layer

logger = logging.getLogger("faith_jax")

# Up to this many bytes of float32 logits are held at once; on a CPU, fewer are faster.
MAX_LOGITS_BYTES = 128 * 2**20
_MAX_LOGITS_BYTES_ON_CPU = 48 * 2**20
# Up to about this many bytes of encoded inputs are held at once.
_MAX_ENCODED_BYTES = 256 * 2**20
# The decoder's tokens of a block on a CPU: more than the answers to one text often have.
_BLOCK_TOKENS = 4096


class LikelihoodRow(NamedTuple):
    """One row to score.

    Attributes:
      inputs: token ids of the encoder's input, or of what stands in front in a decoder-only model;
        at least one.
      targets: token ids of the response.
    """

    inputs: Sequence[int]
    targets: Sequence[int]

    @property
    def fed(self) -> list[int]:
        """The ids that a decoder-only model reads: the last target predicts nothing further."""
        return [*self.inputs, *self.targets[:-1]]


class Lines(NamedTuple):
    """A batch as a decoder-only model reads it, int32 [lines, length] each.

    Attributes:
      tokens: the inputs, each with the responses behind it; a soft prompt has room in front.
      segments: their numbers in the line, from 1 on.
      shared: the segment of the input that each token sees besides its own.
      positions: in the whole that begins with the input.
    """

    tokens: Any
    segments: Any
    shared: Any
    positions: Any


class Blocks(NamedTuple):
    """A batch as the decoder behind an encoder reads it: one block for each device.

    Attributes:
      encoded: [key lines, keys, embed], states of the encoder.
      keys: int32 [key lines, keys], the tokens that they are of.
      key_segments: their inputs' numbers in the line, from 1 on.
      tokens: int32 [lines, targets], what the decoder reads, with room for a soft prompt in front
        of each response.
      segments: int32, the responses' numbers in the line, from 1 on.
      positions: int32, in the response.
      queries: for each line of keys who sees it.
    """

    encoded: Any
    keys: Any
    key_segments: Any
    tokens: Any
    segments: Any
    positions: Any
    queries: Regrouped


class Wanted(NamedTuple):
    """The tokens whose log-probabilities are asked for, in the groups of lines of each device.

    Attributes:
      sources: int32 [groups, tokens], places among the hidden states of a group's lines.
      targets: int32 [groups, tokens].
      counts: int32 [groups], how many tokens count.
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
    """Returns the log-probability of each target from the hidden state in front of it.

    Args:
      hidden: states before the output layer.
      layer: the output layer.
      sources: which hidden state predicts each target.
      targets: token ids.
      count: how many of the targets count, from the first on; those behind cost nothing.
      max_logits_bytes: memory bound of the logits held at once (at least one token's).

    Returns:
      Natural logarithms; 0 behind `count`, rounded up to a piece.
    """
    tokens = sources.shape[0]
    # Tokens whose float32 logits fit the bound, at least one.
    piece = max(1, min(tokens, max_logits_bytes // (4 * layer.vocab_size)))
    padding = -tokens % piece  # up to a multiple of the piece
    sources, targets = (jnp.pad(x, (0, padding)) for x in (sources, targets))

    def score_piece(number: Array, log_probs: Array) -> Array:
        start = number * piece
        # Only the states that predict a target are gathered: [piece, embed].
        states = hidden[jax.lax.dynamic_slice(sources, (start,), (piece,))]
        logits = layer.logits(states)
        wanted = jax.lax.dynamic_slice(targets, (start,), (piece,))
        chosen = jnp.take_along_axis(logits, wanted[:, None], axis=1)[:, 0]
        # log softmax(logits)[target] = logits[target] - logsumexp(logits)
        piece_log_probs = chosen - jax.nn.logsumexp(logits, axis=1)
        return jax.lax.dynamic_update_slice(log_probs, piece_log_probs, (start,))

    # The number of turns depends on `count`, which is traced: a while loop, not a scan.
    pieces = (count + piece - 1) // piece
    start = jnp.zeros(tokens + padding, jnp.float32)
    return jax.lax.fori_loop(0, pieces, score_piece, start)[:tokens]


@functools.partial(jax.jit, static_argnums=0)
def _encode(module: Transformer, params: PyTree, tokens: Array, segments: Array) -> Any:
    """Returns the encoder's states of packed inputs, [lines, length, embed]."""
    return module.apply({"params": params}, tokens, segments, False, None, True, method="encode")


def _hidden(module: Transformer, params: PyTree, read: Lines | Blocks) -> Any:
    """Returns the states before the output layer, [lines, length, embed]."""
    variables: PyTree = {"params": params}
    options: Any = {"enable_dropout": False, "method": "decode_hidden"}
    options["decoder_segment_ids"] = read.segments
    options["decoder_positions"] = read.positions
    if isinstance(read, Lines):
        options["shared_segment_ids"] = read.shared
        return module.apply(variables, None, None, read.tokens, **options)
    # Queries are sorted to the lines of their keys for cross-attention alone.
    options |= {"encoder_segment_ids": read.key_segments, "regrouped": read.queries}
    return module.apply(variables, read.encoded, read.keys, read.tokens, **options)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _score(
    module: Transformer,
    params: PyTree,
    read: Lines | Blocks,
    wanted: Wanted,
    max_logits_bytes: int,
) -> Array:
    """Returns log-probabilities [groups, tokens]: of each group of lines, which a device holds."""
    hidden = _hidden(module, params, read)
    groups = wanted.sources.shape[0]
    # The lines of a group are on one device, and so is all that is gathered from them.
    hidden = hidden.reshape(groups, -1, hidden.shape[-1])
    layer = output_layer(module, params)

    def score(hidden: Array, sources: Array, targets: Array, count: Array) -> Array:
        return token_log_probs(hidden, layer, sources, targets, count, max_logits_bytes)

    if groups == 1:  # under vmap each turn would copy what it has found so far
        return score(hidden[0], *(x[0] for x in wanted))[None]
    return jax.vmap(score)(hidden, *wanted)


@functools.partial(jax.jit, static_argnums=0)
def _label_logits(
    module: Transformer, params: PyTree, read: Lines | Blocks, labels: Array
) -> Array:
    """Returns the logits of a few tokens behind each token read, [lines, length, labels]."""
    return output_layer(module, params).logits_of(_hidden(module, params, read), labels)


class _Batch(NamedTuple):
    """A batch as the model reads it, and where the rows' targets are predicted.

    Attributes:
      read: by the model.
      sources: of each row's number its group of lines, and the places there of the states in front
        of its targets.
    """

    read: Lines | Blocks
    sources: dict[int, tuple[int, np.ndarray]]


class LikelihoodEngine:
    """Scores rows with one model.

    The rows of a call are taken in windows of 512, or as many as have inputs of about 256 MiB of
    encoder states. In a window an input that several rows have is computed once.

    Args:
      model: an encoder-decoder or a decoder-only model.
      tokens_per_batch: tokens of a batch, padding included; default: 2,048 on a CPU (4,096 of a
        decoder that has an encoder), else 32,768, for each device that shares the rows.
      max_logits_bytes: see `token_log_probs`; None = 48 MiB on a CPU, else 128 MiB.
    """

    def __init__(
        self,
        model: EncoderDecoderModel | CausalModel,
        tokens_per_batch: int | None = None,
        max_logits_bytes: int | None = None,
    ):
        on_cpu = jax.default_backend() == "cpu"
        most = _MAX_LOGITS_BYTES_ON_CPU if on_cpu else MAX_LOGITS_BYTES
        self.model, self._max_logits_bytes = model, max_logits_bytes or most
        config, self._devices = model.config, model.partitioner.data_parallelism
        # What stands where a soft prompt comes, and what is read and not seen.
        self._room, self._pad = int(config.pad_id == 0), max(0, config.pad_id)
        tokens = batch_tokens(tokens_per_batch, 2048, devices=self._devices)
        self._packer = Packer(attention_share(config), tokens, self._devices)
        self._block_tokens = batch_tokens(tokens_per_batch, _BLOCK_TOKENS)
        self._shapes: set[tuple[int, ...]] = set()
        self._tokens, self._slots = 0, 0

    @property
    def num_compilations(self) -> int:
        """How many shapes were compiled for this engine."""
        return len(self._shapes)

    @property
    def padding(self) -> float:
        """The share of padding among the tokens that were computed, in [0, 1)."""
        return 1 - self._tokens / max(1, self._slots)

    def log_probs(self, rows: Sequence[LikelihoodRow]) -> list[np.ndarray]:
        """Returns the log-probability of each target token given the inputs and those before it.

        Args:
          rows: in any order; a row without targets has none.

        Returns:
          For each row float32 [targets], natural logarithms in (-inf, 0].
        """
        all_log_probs = [np.zeros(0, np.float32)] * len(rows)
        bound = functools.partial(
            _score,
            self.model.module,
            self.model.params,
            max_logits_bytes=self._max_logits_bytes,
        )
        for batch in self._batches(rows, "likelihood"):
            wanted = _collect_targets(rows, batch, self._devices)
            # [groups, tokens]: of a group's rows one after the other, in the order of `sources`.
            scores = self.model.partitioner.compute(bound, batch.read, wanted)
            counts = [0] * self._devices
            for number, (group, sources) in batch.sources.items():
                all_log_probs[number] = scores[group, counts[group] : counts[group] + len(sources)]
                counts[group] += len(sources)
        return all_log_probs

    def label_logits(self, rows: Sequence[LikelihoodRow], labels: Sequence[int]) -> np.ndarray:
        """Returns the logits of some tokens in the place of each row's last target.

        Args:
          rows: each with a target at least, of which the last means nothing.
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
        for batch in self._batches(rows, "classes"):
            logits = self.model.partitioner.compute(bound, batch.read)
            # Places are numbered within a device's group of lines.
            logits = logits.reshape(self._devices, -1, len(labels))
            for number, (group, sources) in batch.sources.items():
                all_logits[number] = logits[group, sources[-1]]
        return all_logits

    def _batches(self, rows: Sequence[LikelihoodRow], quantity: str) -> Iterator[_Batch]:
        numbers = [number for number, row in enumerate(rows) if len(row.targets)]
        progress, compiled = Progress(f"{quantity} of row", len(numbers)), self.num_compilations
        batches = self._lines if self.model.config.is_decoder_only else self._blocks
        for window in self._windows(rows, numbers):
            for batch in batches(rows, window):
                yield batch
                progress.add(len(batch.sources))
        if self.num_compilations > compiled:
            logger.info(
                "%s: %s", quantity, describe_compilations(self.num_compilations, self.padding)
            )

    def _windows(
        self, rows: Sequence[LikelihoodRow], numbers: Sequence[int]
    ) -> Iterator[list[int]]:
        """Yields the numbers of rows that are packed together."""
        config = self.model.config
        # Tokens whose states take so many bytes.
        most = _MAX_ENCODED_BYTES // (config.emb_dim * jnp.dtype(config.dtype).itemsize)
        window, inputs = list[int](), dict[tuple[int, ...], int]()
        for number in numbers:
            key = tuple(rows[number].inputs)
            inputs[key] = len(key)
            # The same input counts once, and so do its states.
            full = not config.is_decoder_only and sum(inputs.values()) > most
            if window and (len(window) == WINDOW or full):
                yield window
                window, inputs = [], {key: len(key)}
            window.append(number)
        if window:
            yield window

    def _lines(self, rows: Sequence[LikelihoodRow], window: Sequence[int]) -> Iterator[_Batch]:
        """Yields the batches of a decoder-only model."""
        prompt, pad = self.model.config.decoder_prompt_length, self._pad
        shares = self._can_share(rows, window)
        by_input: dict[Any, list[int]] = {}
        for number in window:
            # Without sharing, each row is a group of its own.
            key = tuple(rows[number].inputs) if shares else number
            by_input.setdefault(key, []).append(number)
        groups = [
            Group(
                prompt + len(rows[numbers[0]].inputs),
                # As many tokens as targets, or as are fed.
                [(len(rows[n].targets) - (len(numbers) == 1), n) for n in numbers],
            )
            for numbers in by_input.values()
        ]
        for packed in self._packer.lines(groups):
            self._shapes.add((packed.length, packed.size))
            for lines in packed.batches():
                shape = (packed.size, packed.length)
                tokens, sources = np.full(shape, pad, np.int32), {}
                segments, shared, positions = np.zeros((3, *shape), np.int32)
                for number, line in enumerate(lines):
                    # A device holds consecutive lines of a batch.
                    group, place = divmod(number, packed.size // self._devices)
                    end, segment = 0, 0
                    # Where the line begins among the states of its group.
                    first_place = place * packed.length
                    for placed in line:
                        own_input = rows[placed.rows[0][1]].inputs
                        at, end = end, end + placed.shared
                        segment += 1
                        # Rows of this input see its segment beside their own.
                        whose = segment
                        tokens[number, at:end] = [self._room] * prompt + list(own_input)
                        positions[number, at:end] = np.arange(placed.shared)
                        segments[number, at:end] = shared[number, at:end] = whose
                        # The state of the input's last token predicts each row's first target.
                        last = first_place + end - 1
                        for _, row in placed.rows:
                            fed = rows[row].targets[:-1]
                            # A single row is one segment with its input; several are segments of
                            # their own.
                            segment += len(placed.rows) > 1
                            at, end = end, end + len(fed)
                            tokens[number, at:end] = fed
                            # Each row goes on right behind the input, whatever stands between.
                            positions[number, at:end] = placed.shared + np.arange(len(fed))
                            segments[number, at:end], shared[number, at:end] = segment, whose
                            sources[row] = (
                                group,
                                np.array([last, *range(first_place + at, first_place + end)]),
                            )
                    self._tokens += end
                self._slots += tokens.size
                yield _Batch(Lines(tokens, segments, shared, positions), sources)

    def _can_share(self, rows: Sequence[LikelihoodRow], window: Sequence[int]) -> bool:
        longest = max(len(rows[number].fed) for number in window)
        # Lines are at most four times as long as the longest row needs; see `packing`.
        return self.model.config.can_share_inputs(4 * padded_length(longest, LENGTHS))

    def _encode_inputs(
        self, inputs: Sequence[tuple[int, ...]]
    ) -> dict[tuple[int, ...], np.ndarray]:
        """Returns the encoder's states of each input, [prompt + length, embed], on the host."""
        config, states_by_input = self.model.config, dict[tuple[int, ...], np.ndarray]()
        prompt = config.encoder_prompt_length
        bound = functools.partial(_encode, self.model.module, self.model.params)
        groups = [Group(prompt + len(ids), [(0, n)]) for n, ids in enumerate(inputs)]
        for packed in self._packer.lines(groups):
            self._shapes.add((packed.length, packed.size))
            for lines in packed.batches():
                tokens = np.full((packed.size, packed.length), config.pad_id, np.int32)
                segments = np.zeros_like(tokens)
                places = list[tuple[tuple[int, ...], int, slice]]()
                for number, line in enumerate(lines):
                    end = 0
                    for segment, placed in enumerate(line, 1):
                        ids = inputs[placed.rows[0][1]]
                        span = slice(end, end := end + placed.shared)
                        tokens[number, span] = [self._room] * prompt + list(ids)
                        segments[number, span] = segment
                        places.append((ids, number, span))
                    self._tokens += end
                self._slots += tokens.size
                states = self.model.partitioner.compute(bound, tokens, segments)
                # Copies, since a view would keep the whole batch.
                states_by_input |= {
                    ids: states[number, span].copy() for ids, number, span in places
                }
        return states_by_input

    def _blocks(self, rows: Sequence[LikelihoodRow], window: Sequence[int]) -> Iterator[_Batch]:
        """Yields the batches of a decoder that has an encoder."""
        config, devices = self.model.config, self._devices
        by_input: dict[tuple[int, ...], list[int]] = {}
        for number in window:
            by_input.setdefault(tuple(rows[number].inputs), []).append(number)
        encoded, prompt = self._encode_inputs(list(by_input)), config.decoder_prompt_length
        groups = [
            Group(len(encoded[ids]), [(prompt + len(rows[n].targets), n) for n in numbers])
            for ids, numbers in by_input.items()
        ]
        tokens = self._block_tokens
        blocks = pack_blocks(groups, tokens, devices)
        self._shapes.add(tuple(blocks[0].shape))
        for start in range(0, len(blocks), devices):
            sources: dict[int, tuple[int, np.ndarray]] = {}
            arrays = []
            for group, block in enumerate(blocks[start : start + devices]):
                read, places = self._block(block, rows, encoded)
                arrays.append(read)
                sources |= {number: (group, row_sources) for number, row_sources in places.items()}
            self._slots += devices * block.shape.lines * block.shape.targets
            self._tokens += sum(prompt + len(places) for _, places in sources.values())
            yield _Batch(jax.tree.map(lambda *parts: np.concatenate(parts), *arrays), sources)

    def _block(
        self,
        block: Block,
        rows: Sequence[LikelihoodRow],
        encoded: dict[tuple[int, ...], np.ndarray],
    ) -> tuple[Blocks, dict[int, np.ndarray]]:
        """Returns a block as its decoder reads it, and the places of its rows' sources."""
        config, shape, sources = self.model.config, block.shape, {}
        state = next(iter(encoded.values()))  # for its width and dtype
        states = np.zeros((shape.key_lines, shape.keys, state.shape[1]), state.dtype)
        keys = np.full(states.shape[:2], config.pad_id, np.int32)
        key_segments = np.zeros_like(keys)
        tokens = np.full((shape.lines, shape.targets), self._pad, np.int32)
        segments, positions = np.zeros((2, *tokens.shape), np.int32)
        queries = np.zeros((shape.key_lines, shape.queries), np.int32)
        # Queries and tokens that only fill up have place 0: their states are not used.
        places, back = np.zeros(queries.size, np.int32), np.zeros(tokens.size, np.int32)
        ends = [0] * shape.lines
        room = [self._room] * config.encoder_prompt_length
        start = [self._room] * config.decoder_prompt_length + [config.decoder_start_id]
        for number, line in enumerate(block.keys):
            key_end, query_end = 0, number * shape.queries
            for segment, placed in enumerate(line, 1):
                ids = tuple(rows[placed.rows[0][1]].inputs)
                key_span = slice(key_end, key_end := key_end + placed.shared)
                states[number, key_span], keys[number, key_span] = encoded[ids], [*room, *ids]
                key_segments[number, key_span] = segment
                for part, row in placed.rows:
                    fed = [*start, *rows[row].targets[:-1]]
                    first = part * shape.targets + ends[part]
                    span = slice(first, first + len(fed))
                    seen = slice(query_end, query_end := query_end + len(fed))
                    tokens.flat[span], positions.flat[span] = fed, np.arange(len(fed))
                    # The next number in the decoder's line, which has rows of several inputs.
                    segments.flat[span] = 1 + segments[part].max()
                    # `places` sorts the decoder's tokens to their inputs' lines, and `back` undoes
                    # it.
                    queries.flat[seen], places[seen] = segment, np.arange(span.start, span.stop)
                    back[span] = np.arange(seen.start, seen.stop)
                    ends[part] += len(fed)
                    # The start token's state, behind the soft prompt, predicts the first target.
                    sources[row] = np.arange(span.start + len(start) - 1, span.stop)
        regrouped = Regrouped(places[None], back[None], queries)
        read = Blocks(states, keys, key_segments, tokens, segments, positions, regrouped)
        return read, sources


def _collect_targets(rows: Sequence[LikelihoodRow], batch: _Batch, groups: int) -> Wanted:
    """Returns the targets of a batch's rows."""
    tokens = batch.read.tokens.size // groups
    sources, targets = np.zeros((2, groups, tokens), np.int32)
    counts = np.zeros(groups, np.int32)
    for number, (group, places) in batch.sources.items():
        span = slice(counts[group], counts[group] + len(places))
        sources[group, span], targets[group, span] = places, rows[number].targets
        counts[group] = span.stop
    return Wanted(sources, targets, counts)


@functools.partial(jax.jit, static_argnums=(0, 6))
def _encode_and_score(
    module: Transformer,
    params: PyTree,
    tokens: Array,
    segments: Array,
    read: Blocks,
    wanted: Wanted,
    max_logits_bytes: int,
) -> Array:
    """Encodes the inputs, and scores as `_score` with these states, which `read` lacks."""
    read = read._replace(encoded=_encode(module, params, tokens, segments))
    return _score(module, params, read, wanted, max_logits_bytes)


def scoring_program(
    module: Transformer,
    partitioner: Partitioner,
    params: PyTree,
    row: LikelihoodRow,
    rows: int,
    max_logits_bytes: int = MAX_LOGITS_BYTES,
) -> tuple[Callable[[], Any], int]:
    """Returns a function that compiles the scoring of a batch, as `LikelihoodEngine` calls it.

    Of an encoder-decoder the engine's two programs are one here.

    Args:
      module: the model.
      partitioner: its mesh.
      params: its parameters, or their shapes with shardings.
      row: the longest of the batch, which takes a line.
      rows: how many there are, a multiple of the data parallelism.
      max_logits_bytes: see `token_log_probs`.

    Returns:
      The function, which returns JAX's program; and the turns of its loop, where all targets of
      all rows count.
    """
    config, groups = module.config, partitioner.data_parallelism

    def ints(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.int32, sharding=partitioner.rows)

    if config.is_decoder_only:
        length = padded_length(config.decoder_prompt_length + len(row.fed), LENGTHS)
        arrays: tuple[Any, ...] = (Lines(*[ints(rows, length)] * 4),)
        score: Any = _score
    else:
        keys = padded_length(config.encoder_prompt_length + len(row.inputs), LENGTHS)
        length = padded_length(config.decoder_prompt_length + len(row.targets), TARGET_LENGTHS)
        inputs, target_ints = ints(rows, keys), ints(rows, length)
        # The places of all tokens of a group, see `Regrouped`.
        flat = ints(groups, rows * length // groups)
        read = Blocks(
            None,
            inputs,
            inputs,
            target_ints,
            target_ints,
            target_ints,
            Regrouped(flat, flat, target_ints),
        )
        arrays, score = (inputs, inputs, read), _encode_and_score
    tokens = rows * length // groups
    wanted = Wanted(ints(groups, tokens), ints(groups, tokens), ints(groups))
    # As in `token_log_probs`.
    piece = max(1, min(tokens, max_logits_bytes // (4 * config.vocab_size)))

    def compile_program() -> Any:
        with partitioner.active():
            return score.lower(module, params, *arrays, wanted, max_logits_bytes).compile()

    return compile_program, -(-(rows // groups * len(row.targets)) // piece)
