"""Log-probabilities of given responses, for many rows of any length, in few compiled shapes.

No array of [batch, length, vocab] is ever made: only the hidden states in front of the tokens that
are asked for go through the output layer, a bounded number at a time, and a batch with fewer such
tokens takes fewer turns. Rows are sorted by length into a few shapes; the number of compilations of
a run is the number of shapes it meets (at most 6 for rows of up to 512 tokens).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.progress import Progress
from faith_jax.core.types import Array, PyTree
from faith_jax.inference.causal import CausalModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel, shift_right
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.transformer import Transformer, output_layer

# Up to this many bytes of float32 logits are held at once.
MAX_LOGITS_BYTES = 128 * 2**20
_LENGTHS = (32, 64, 128, 256, 384, 512)
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


class Shape(NamedTuple):
    """Padded lengths of a batch: of the encoder (0 = there is none) and of the decoder."""

    encoder: int
    decoder: int


def rung(length: int, ladder: Sequence[int]) -> int:
    """Returns the first length of a ladder that holds `length`; above it, doubles of its last."""
    for step in ladder:
        if length <= step:
            return step
    step = ladder[-1]
    while step < length:
        if length <= step * 3 // 2:
            return step * 3 // 2
        step *= 2
    return step


def causal_shape(row: LikelihoodRow) -> Shape:
    """Returns the shape of a decoder-only model's row; the last target is fed to nothing."""
    return Shape(0, rung(len(row.inputs) + len(row.targets) - 1, _LENGTHS))


def encoder_decoder_shape(row: LikelihoodRow) -> Shape:
    """Returns the shape of an encoder-decoder's row; long responses share the longest inputs'."""
    decoder = rung(len(row.targets), _TARGET_LENGTHS)
    short = decoder == _TARGET_LENGTHS[0]
    ladder = _INPUT_LENGTHS if short else _INPUT_LENGTHS[-1:]
    return Shape(rung(len(row.inputs), ladder), decoder)


def fill_batches(
    rows: dict[Shape, list[int]], batch_size: Callable[[Shape], int]
) -> dict[Shape, list[int]]:
    """Moves rows of a batch that is not full to where a longer shape's last batch has room.

    Args:
      rows: numbers of rows by shape.
      batch_size: how many rows a batch of a shape has.

    Returns:
      The same numbers, in as many batches or fewer.
    """
    filled = {shape: list(rows[shape]) for shape in sorted(rows)}
    for shape, numbers in filled.items():
        left = len(numbers) % batch_size(shape)
        for longer, others in filled.items():
            fits = longer > shape and longer.encoder >= shape.encoder
            room = -len(others) % batch_size(longer)
            if left and fits and longer.decoder >= shape.decoder and left <= room:
                others += numbers[-left:]
                del numbers[-left:]
                break
    return {shape: numbers for shape, numbers in filled.items() if numbers}


def token_log_probs(
    hidden: Array,
    layer: OutputLayer,
    sources: Array,
    targets: Array,
    count: Array,
    max_logits_bytes: int = MAX_LOGITS_BYTES,
) -> Array:
    """Returns the log-probability of each target from the hidden state in front of it.

    Args:
      hidden: [states, embed].
      layer: the output layer.
      sources: int32 [tokens], which hidden state predicts each target.
      targets: int32 [tokens].
      count: int32 scalar, how many of the targets count, from the first on; what follows them
        costs nothing.
      max_logits_bytes: memory bound of the logits held at once (at least one token's).

    Returns:
      float32 [tokens], natural logarithms; 0 behind `count`, rounded up to a piece.
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


def decoder_hidden(
    module: Transformer, params: PyTree, encoder_input: Array | None, decoder_input: Array
) -> Array:
    """Returns the decoder's hidden states [batch, length, embed], without dropout."""
    variables = {"params": params}
    encoded = None
    if encoder_input is not None:
        encoded = module.apply(variables, encoder_input, None, False, method="encode")
    hidden: Any = module.apply(
        variables,
        encoded,
        encoder_input,
        decoder_input,
        enable_dropout=False,
        method="decode_hidden",
    )
    return hidden


@functools.partial(jax.jit, static_argnums=(0, 7))
def _score(
    module: Transformer,
    params: PyTree,
    encoder_input: Array | None,
    decoder_input: Array,
    sources: Array,
    targets: Array,
    count: Array,
    max_logits_bytes: int,
) -> Array:
    hidden = decoder_hidden(module, params, encoder_input, decoder_input)
    hidden = hidden.reshape(-1, hidden.shape[-1])
    layer = output_layer(module, params)
    return token_log_probs(hidden, layer, sources, targets, count, max_logits_bytes)


@functools.partial(jax.jit, static_argnums=0)
def _label_logits(
    module: Transformer,
    params: PyTree,
    encoder_input: Array | None,
    decoder_input: Array,
    positions: Array,
    labels: Array,
) -> Array:
    hidden = decoder_hidden(module, params, encoder_input, decoder_input)
    last = jnp.take_along_axis(hidden, positions[:, None, None], axis=1)[:, 0]
    return output_layer(module, params).logits_of(last, labels)


class LikelihoodEngine:
    """Scores rows with one model.

    Args:
      model: an encoder-decoder or a decoder-only model.
      tokens_per_batch: tokens of a batch, padding included; default: 1,024 on a CPU, else 32,768.
      max_logits_bytes: see `token_log_probs`.
    """

    def __init__(
        self,
        model: EncoderDecoderModel | CausalModel,
        tokens_per_batch: int | None = None,
        max_logits_bytes: int = MAX_LOGITS_BYTES,
    ):
        self.model = model
        if tokens_per_batch is None:
            tokens_per_batch = 1024 if jax.default_backend() == "cpu" else 32768
        self._tokens_per_batch, self._max_logits_bytes = tokens_per_batch, max_logits_bytes
        self._is_causal = model.config.is_decoder_only
        self._compiled: set[tuple[Any, ...]] = set()

    @property
    def num_compilations(self) -> int:
        """How many shapes were compiled for this engine."""
        return len(self._compiled)

    def log_probs(self, rows: Sequence[LikelihoodRow]) -> list[np.ndarray]:
        """Returns the log-probability of each target token given the inputs and those before it.

        Args:
          rows: in any order; a row without targets has none.

        Returns:
          For each row float32 [targets], natural logarithms in (-inf, 0].
        """
        found = [np.zeros(0, np.float32)] * len(rows)
        progress = Progress("likelihood of row", sum(len(row.targets) > 0 for row in rows))
        for shape, numbers in self._batches(rows, self._shape).items():
            size = self._batch_size(shape)
            for start in range(0, len(numbers), size):
                batch = numbers[start : start + size]
                for number, scores in zip(
                    batch, self._score_batch([rows[n] for n in batch], shape, size), strict=True
                ):
                    found[number] = scores
                progress.add(len(batch))
        return found

    def label_probabilities(
        self,
        inputs: Sequence[Sequence[int]],
        labels: Sequence[Sequence[int]],
        prefix: Sequence[int] = (),
    ) -> np.ndarray:
        """Returns the softmax over the labels' log-likelihoods.

        Labels of one token each are compared by their logits alone: only their columns of the
        output layer are used, as what normalises them is the same for all. Of longer labels the
        mean log-probability of the tokens is compared (their log perplexity, Chang 2024, section
        3.3).

        Args:
          inputs: token ids of each row, as `LikelihoodRow.inputs`.
          labels: token ids of each label, at least one each.
          prefix: token ids of the target in front of every label, which are given.

        Returns:
          float32 [rows, labels], each row sums to 1.
        """
        if all(len(label) == 1 for label in labels):
            logits = self._label_logits(inputs, [label[0] for label in labels], prefix)
        else:
            rows = [LikelihoodRow(row, [*prefix, *label]) for row in inputs for label in labels]
            means = [scores[len(prefix) :].mean() for scores in self.log_probs(rows)]
            logits = np.asarray(means, np.float32).reshape(len(inputs), len(labels))
        return np.asarray(jax.nn.softmax(logits, axis=-1))

    def _label_logits(
        self, inputs: Sequence[Sequence[int]], labels: Sequence[int], prefix: Sequence[int]
    ) -> np.ndarray:
        found = np.zeros((len(inputs), len(labels)), np.float32)
        # The last target is fed to nothing: what the decoder reads stands in front of the label.
        rows = [LikelihoodRow(row, (*prefix, 0)) for row in inputs]
        progress = Progress("labels of row", len(rows))
        for shape, numbers in self._batches(rows, self._label_shape).items():
            size = self._batch_size(shape)
            for start in range(0, len(numbers), size):
                batch = numbers[start : start + size]
                arrays = self._arrays([rows[n] for n in batch], shape, size)
                positions = np.zeros(size, np.int32)
                positions[: len(batch)] = len(prefix)
                if self._is_causal:
                    positions[: len(batch)] += [len(inputs[n]) - 1 for n in batch]
                self._compiled.add(("labels", shape, size, len(labels)))
                logits = _label_logits(
                    self.model.module,
                    self.model.params,
                    *arrays,
                    positions,
                    np.asarray(labels, np.int32),
                )
                found[batch] = np.asarray(logits)[: len(batch)]
                progress.add(len(batch))
        return found

    def _label_shape(self, row: LikelihoodRow) -> Shape:
        if self._is_causal:
            return causal_shape(row)
        return Shape(rung(len(row.inputs), _LENGTHS), len(row.targets))

    def _shape(self, row: LikelihoodRow) -> Shape:
        return causal_shape(row) if self._is_causal else encoder_decoder_shape(row)

    def _batches(
        self, rows: Sequence[LikelihoodRow], shape_of: Callable[[LikelihoodRow], Shape]
    ) -> dict[Shape, list[int]]:
        """Returns the rows' numbers by shape; rows without targets have no place in it."""
        found: dict[Shape, list[int]] = {}
        for number, row in enumerate(rows):
            if len(row.targets):
                found.setdefault(shape_of(row), []).append(number)
        return fill_batches(found, self._batch_size)

    def _batch_size(self, shape: Shape) -> int:
        return max(1, self._tokens_per_batch // (shape.encoder + shape.decoder))

    def _arrays(
        self, rows: Sequence[LikelihoodRow], shape: Shape, size: int
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Returns the padded inputs of encoder and decoder, int32 [size, length] each."""
        config = self.model.config
        decoder = np.full((size, shape.decoder), max(0, config.pad_id), np.int32)
        if self._is_causal:
            for line, row in zip(decoder, rows, strict=False):
                fed = [*row.inputs, *row.targets[:-1]]
                line[: len(fed)] = fed
            return None, decoder
        encoder = np.full((size, shape.encoder), config.pad_id, np.int32)
        for i, row in enumerate(rows):
            encoder[i, : len(row.inputs)] = row.inputs
            decoder[i, : len(row.targets)] = row.targets
        return encoder, np.asarray(shift_right(decoder, config.decoder_start_id))

    def _score_batch(
        self, rows: Sequence[LikelihoodRow], shape: Shape, size: int
    ) -> list[np.ndarray]:
        encoder, decoder = self._arrays(rows, shape, size)
        lengths = [len(row.targets) for row in rows]
        sources = np.zeros(size * shape.decoder, np.int32)
        targets = np.zeros(size * shape.decoder, np.int32)
        place = 0
        for i, row in enumerate(rows):
            first = i * shape.decoder + (len(row.inputs) - 1 if self._is_causal else 0)
            sources[place : place + len(row.targets)] = first + np.arange(len(row.targets))
            targets[place : place + len(row.targets)] = row.targets
            place += len(row.targets)
        self._compiled.add(("targets", shape, size))
        scores = _score(
            self.model.module,
            self.model.params,
            encoder,
            decoder,
            sources,
            targets,
            np.int32(place),
            self._max_logits_bytes,
        )
        return np.split(np.asarray(scores)[:place], np.cumsum(lengths)[:-1])
