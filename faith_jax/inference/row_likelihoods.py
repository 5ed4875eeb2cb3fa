"""Log-probabilities of given responses, for many rows of any length, in few compiled shapes.

No array of [batch, length, vocab] is ever made: only the hidden states in front of the tokens that
are asked for go through the output layer, a bounded number at a time, and a batch with fewer such
tokens takes fewer turns. Rows of up to 512 tokens have at most 6 shapes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer

from faith_jax.core.types import Array, PyTree
from faith_jax.inference.base import decoder_states
from faith_jax.inference.batching import Batch, Batcher, Shape, padded, padded_length
from faith_jax.inference.causal import CausalModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel, shift_right
from faith_jax.models.config import TransformerConfig
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.partitioning import Partitioner
from faith_jax.models.transformer import Transformer, output_layer

# Up to this many bytes of float32 logits are held at once.
MAX_LOGITS_BYTES = 128 * 2**20
_INPUT_LENGTHS = (64, 128, 256, 512)
_TARGET_LENGTHS = (64, 128, 512)


class LikelihoodRow(NamedTuple):
    """One row to score.

    Attributes:
      inputs: token ids of the encoder's input, or of what stands in front in a decoder-only model
        (at least one there).
      targets: token ids of the response.
    """

    inputs: Sequence[int]
    targets: Sequence[int]

    @property
    def fed(self) -> list[int]:
        """What a decoder-only model reads: the last target is fed to nothing."""
        return [*self.inputs, *self.targets[:-1]]


def causal_shape(row: LikelihoodRow) -> Shape:
    """Returns the padded lengths of a decoder-only model's row: of the encoder (none), decoder."""
    return 0, padded_length(len(row.fed))


def encoder_decoder_shape(row: LikelihoodRow) -> Shape:
    """Returns the shape of an encoder-decoder's row; long responses share the longest inputs'."""
    decoder = padded_length(len(row.targets), _TARGET_LENGTHS)
    short = decoder == _TARGET_LENGTHS[0]
    ladder = _INPUT_LENGTHS if short else _INPUT_LENGTHS[-1:]
    return padded_length(len(row.inputs), ladder), decoder


def model_inputs(
    config: TransformerConfig, rows: Sequence[LikelihoodRow], batch: Batch
) -> tuple[np.ndarray | None, np.ndarray]:
    """Returns what encoder (None = there is none) and decoder read, int32 [size, length] each."""
    size, (input_length, length, *_) = batch.size, batch.shape
    pad_id = max(0, config.pad_id)
    if config.is_decoder_only:
        return None, padded([row.fed for row in rows], length, pad_id, size)
    encoder = padded([row.inputs for row in rows], input_length, config.pad_id, size)
    decoder = padded([row.targets for row in rows], length, pad_id, size)
    return encoder, np.asarray(shift_right(decoder, config.decoder_start_id))


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
    piece = max(1, min(tokens, max_logits_bytes // (4 * layer.vocab_size)))
    padding = -tokens % piece
    sources, targets = (jnp.pad(x, (0, padding)) for x in (sources, targets))

    def score_piece(number: Array, log_probs: Array) -> Array:
        start = number * piece
        states = hidden[jax.lax.dynamic_slice(sources, (start,), (piece,))]
        logits = layer.logits(states)
        wanted = jax.lax.dynamic_slice(targets, (start,), (piece,))
        chosen = jnp.take_along_axis(logits, wanted[:, None], axis=1)[:, 0]
        found = chosen - jax.nn.logsumexp(logits, axis=1)
        return jax.lax.dynamic_update_slice(log_probs, found, (start,))

    pieces = (count + piece - 1) // piece
    start = jnp.zeros(tokens + padding, jnp.float32)
    return jax.lax.fori_loop(0, pieces, score_piece, start)[:tokens]


@functools.partial(jax.jit, static_argnums=(0, 7))
def _score(
    module: Transformer,
    params: PyTree,
    encoder_input: Array | None,
    decoder_input: Array,
    sources: Array,
    targets: Array,
    counts: Array,
    max_logits_bytes: int,
) -> Array:
    """Returns log-probabilities [groups, tokens]: of each group of rows, which a device holds.

    Args:
      module: the model.
      params: its parameters.
      encoder_input: int32 [rows, length]; None = there is none.
      decoder_input: int32 [rows, length].
      sources: int32 [groups, tokens], places among the hidden states of a group's rows.
      targets: int32 [groups, tokens].
      counts: int32 [groups], how many tokens count.
      max_logits_bytes: see `token_log_probs`.
    """
    hidden = decoder_states(module, params, encoder_input, decoder_input)
    hidden = hidden.reshape(*sources.shape, hidden.shape[-1])
    layer = output_layer(module, params)

    def score(hidden: Array, sources: Array, targets: Array, count: Array) -> Array:
        return token_log_probs(hidden, layer, sources, targets, count, max_logits_bytes)

    if len(counts) == 1:  # under vmap each turn would copy what it has found so far
        return score(hidden[0], sources[0], targets[0], counts[0])[None]
    return jax.vmap(score)(hidden, sources, targets, counts)


def scoring_program(
    module: Transformer,
    partitioner: Partitioner,
    params: PyTree,
    row: LikelihoodRow,
    rows: int,
    max_logits_bytes: int = MAX_LOGITS_BYTES,
) -> tuple[Callable[[], Any], int]:
    """Returns what compiles the program that scores a batch, as `LikelihoodEngine` calls it.

    Args:
      module: the model.
      partitioner: its mesh.
      params: its parameters, or their shapes with shardings.
      row: the longest of the batch.
      rows: how many there are, a multiple of the data parallelism.
      max_logits_bytes: see `token_log_probs`.

    Returns:
      What compiles it and returns JAX's program; and the turns of its loop, where all targets of
      all rows count.
    """
    is_causal = module.config.is_decoder_only
    shape = causal_shape(row) if is_causal else encoder_decoder_shape(row)
    batch, groups = Batch(shape, rows, []), partitioner.data_parallelism
    tokens = rows * shape[1] // groups
    arrays = (
        *model_inputs(module.config, [row], batch),
        *np.zeros((2, groups, tokens), np.int32),
        np.zeros(groups, np.int32),
    )
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, jnp.int32, sharding=partitioner.rows), arrays
    )
    piece = max(1, min(tokens, max_logits_bytes // (4 * module.config.vocab_size)))

    def compiled() -> Any:
        with partitioner.active():
            return _score.lower(module, params, *shapes, max_logits_bytes).compile()

    return compiled, -(-(rows // groups * len(row.targets)) // piece)


class LikelihoodEngine:
    """Scores rows with one model.

    Args:
      model: an encoder-decoder or a decoder-only model.
      tokens_per_batch: tokens of a batch, padding included; default: 1,024 on a CPU, else 32,768,
        for each device that shares the rows.
      max_logits_bytes: see `token_log_probs`.
    """

    def __init__(
        self,
        model: EncoderDecoderModel | CausalModel,
        tokens_per_batch: int | None = None,
        max_logits_bytes: int = MAX_LOGITS_BYTES,
    ):
        self.model, self._max_logits_bytes = model, max_logits_bytes
        self._is_causal = model.config.is_decoder_only
        self._groups = model.partitioner.data_parallelism
        self._batcher = Batcher("likelihood", tokens_per_batch, multiple_of=self._groups)

    @property
    def num_compilations(self) -> int:
        """How many shapes were compiled for this engine."""
        return self._batcher.num_shapes

    def log_probs(self, rows: Sequence[LikelihoodRow]) -> list[np.ndarray]:
        """Returns the log-probability of each target token given the inputs and those before it.

        Args:
          rows: in any order; a row without targets has none.

        Returns:
          For each row float32 [targets], natural logarithms in (-inf, 0].
        """
        found = [np.zeros(0, np.float32)] * len(rows)
        numbers = [number for number, row in enumerate(rows) if len(row.targets)]
        shape_of = causal_shape if self._is_causal else encoder_decoder_shape
        for batch in self._batcher.batches([shape_of(rows[n]) for n in numbers]):
            batch = batch._replace(rows=[numbers[place] for place in batch.rows])
            scores = self._score_batch([rows[n] for n in batch.rows], batch)
            for number, log_probs in zip(batch.rows, scores, strict=True):
                found[number] = log_probs
        return found

    def _score_batch(self, rows: Sequence[LikelihoodRow], batch: Batch) -> list[np.ndarray]:
        size, length = batch.size, batch.shape[1]
        encoder, decoder = model_inputs(self.model.config, rows, batch)
        groups = self._groups
        sources, targets = np.zeros((2, groups, size * length // groups), np.int32)
        counts = np.zeros(groups, np.int32)
        places = []
        for i, row in enumerate(rows):
            group, line = divmod(i, size // groups)
            first = line * length + (len(row.inputs) - 1 if self._is_causal else 0)
            own = slice(counts[group], counts[group] + len(row.targets))
            sources[group, own] = first + np.arange(len(row.targets))
            targets[group, own] = row.targets
            counts[group] = own.stop
            places.append((group, own))
        bound = functools.partial(
            _score, self.model.module, self.model.params, max_logits_bytes=self._max_logits_bytes
        )
        scores = self.model.partitioner.compute(bound, encoder, decoder, sources, targets, counts)
        return [scores[place] for place in places]
