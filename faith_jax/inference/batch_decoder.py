"""Decodes a stream of rows on the mesh, in batches of few shapes."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import PyTree
from faith_jax.decoding import causal, encoder_decoder
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.steps import DecodingResult
from faith_jax.inference.batching import bucket_length, padded
from faith_jax.models.partitioning import Compiled, Partitioner
from faith_jax.models.transformer import Transformer


class DecodedRow(NamedTuple):
    """One response: token ids without padding, their log-probability and score.

    Attributes:
      tokens: int [length].
      log_prob: natural, their sum under the model at temperature 1.
      score: what the search ranks by, such as a beam's sum of scores by its length penalty.
      finished: whether it ends with an end token that the model wrote, and not at `max_length`.
    """

    tokens: np.ndarray
    log_prob: float
    score: float
    finished: bool


class BatchDecoder:
    """Decodes rows of input tokens in batches of few shapes, on the mesh.

    Args:
      module: the model.
      partitioner: the mesh.
      decoding: how tokens are picked, and how many responses a row gets.
      batch_size: rows of a batch.
      seed: of the sampling; row number i has the same randomness in any batch.

    Raises:
      ConfigError: on tokens outside the model's vocabulary, and on PMI-Decode with DoHA.
    """

    def __init__(
        self,
        module: Transformer,
        partitioner: Partitioner,
        decoding: DecodingConfig,
        batch_size: int,
        seed: int = 0,
    ):
        decoding = encoder_decoder.for_model(decoding, module)
        is_doha = module.config.knowledge_attention
        if is_doha and decoding.pmi is not None:
            raise ConfigError(
                "decoding: pmi is set; expected None for DoHA, which reads two inputs already."
            )
        self._decoding = decoding
        self._has_second = is_doha or decoding.pmi is not None
        self._partitioner, self._batch_size = partitioner, batch_size
        self._config, self._uses_pmi = module.config, decoding.pmi is not None
        self._decode = _compiled(module, partitioner, decoding, seed)
        self._compiled_before = self._decode.num_compilations

    @property
    def num_compilations(self) -> int:
        """How many shapes were compiled so far, but for what a decoder before had compiled."""
        return self._decode.num_compilations - self._compiled_before

    def __call__(
        self,
        params: PyTree,
        inputs: Sequence[Any],
        first_row: int = 0,
        second_inputs: Sequence[Any] | None = None,
    ) -> list[list[DecodedRow]]:
        """Decodes rows.

        Args:
          params: of the model.
          inputs: token ids of each row, special ones included.
          first_row: the number of the first.
          second_inputs: the same of PMI-Decode's branch without the document, or of DoHA's
            knowledge; others do not look at them.

        Returns:
          The responses to each row, `num_return` or, where so many do not exist, fewer, but at
          least one: the best beam first, samples in the order of their random keys.

        Raises:
          ConfigError: on PMI-Decode or DoHA without the latter.
        """
        branches = [inputs]
        if self._has_second:
            if second_inputs is None:
                what = "inputs without the document" if self._uses_pmi else "knowledge"
                raise ConfigError(f"The rows have no {what}, which this decoding needs.")
            branches.append(second_inputs)
        decoded: list[list[DecodedRow]] = []
        for start in range(0, len(inputs), self._batch_size):
            pieces = [rows[start : start + self._batch_size] for rows in branches]
            arrays = {}
            for number, piece in enumerate(pieces):
                arrays[f"tokens_{number}"], arrays[f"lengths_{number}"] = self._padded(piece)
            arrays["rows"] = first_row + start + np.arange(self._batch_size)
            batch = self._partitioner.put_batch(arrays)
            result = self._decode(params, *(batch[name] for name in arrays))
            decoded.extend(decoded_rows(result, self._decoding)[: len(pieces[0])])
        return decoded

    def laid_out(self, params: PyTree, input_length: int) -> PyTree:
        """Returns parameters as they lie best for the loop of decoding; on TPUs, others are copied.

        Args:
          params: of the model; they are used up.
          input_length: see `compile`; of the longest.
        """
        if self._partitioner.mesh.devices.flat[0].platform == "cpu":  # has one way
            return params
        (formats, *_), _ = self.compile(params, input_length).input_formats
        return with_formats(params, formats)

    def compile(self, params: PyTree, input_length: int, laid_out: bool = True) -> Any:
        """Compiles the program of inputs of so many tokens and returns JAX's.

        Args:
          params: of the model, or their shapes with shardings.
          input_length: tokens; those of all inputs of a row.
          laid_out: the program wants parameters that are `laid_out`.
        """

        def shape(*sizes: int) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(sizes, jnp.int32, sharding=self._partitioner.rows)

        rows, length = self._batch_size, bucket_length(input_length)
        branches = [shape(rows, length), shape(rows)] * (1 + self._has_second)
        compiled = self._decode.compile_with_layouts if laid_out else self._decode.compile
        return compiled(params, *branches, shape(rows))

    def _padded(self, rows: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Returns int32 [batch, bucket] and lengths [batch]; rows that only fill up have one."""
        length = bucket_length(max(len(row) for row in rows))
        pad_id = self._config.pad_id
        if self._config.is_decoder_only:
            pad_id = max(0, pad_id)
        tokens = padded(rows, length, pad_id, self._batch_size)
        lengths = np.ones(self._batch_size, np.int32)
        lengths[: len(rows)] = [len(row) for row in rows]
        return tokens, lengths


def with_formats(arrays: PyTree, formats: PyTree) -> PyTree:
    """Returns arrays as they are to lie, one after the other; the given ones are used up."""
    return jax.tree.map(lambda x, place: jax.device_put(x, place, donate=True), arrays, formats)


@functools.lru_cache(maxsize=8)
def _compiled(
    module: Transformer, partitioner: Partitioner, decoding: DecodingConfig, seed: int
) -> Compiled:
    """Returns the decoding loop; one for all checkpoints of a model that a process decodes with."""
    config = module.config
    family: Any = causal if config.is_decoder_only else encoder_decoder
    generate = family.generate if decoding.pmi is None else family.generate_pmi

    def decode(params, *arrays):
        *inputs, rows = arrays
        # A decoder-only model's inputs come with their lengths.
        inputs = inputs if config.is_decoder_only else inputs[::2]
        inputs = [tuple(inputs)] if config.knowledge_attention else inputs
        keys = encoder_decoder.row_keys(seed, rows)
        return generate(module, params, *inputs, keys, decoding)

    return partitioner.jit(decode, out_shardings=partitioner.replicated)


def decoded_rows(result: DecodingResult, decoding: DecodingConfig) -> list[list[DecodedRow]]:
    """Returns the responses to each row of a batch, given a decoding with the model's tokens."""

    def response(i: int, j: int) -> DecodedRow:
        ids = tokens[i, j, : lengths[i, j]]
        is_forced = bool(decoding.forced_last_ids) and len(ids) == decoding.max_length
        finished = len(ids) > 0 and int(ids[-1]) in decoding.end_ids and not is_forced
        return DecodedRow(ids, float(log_probs[i, j]), float(scores[i, j]), finished)

    tokens, lengths, log_probs, scores = (
        np.asarray(array) for array in (result.tokens, result.length, result.log_prob, result.score)
    )
    if lengths.ndim == 1:
        tokens, lengths, log_probs, scores = (
            array[:, None] for array in (tokens, lengths, log_probs, scores)
        )
    rows = [[response(i, j) for j in range(lengths.shape[1])] for i in range(lengths.shape[0])]
    # What a search has not found has a score of -inf.
    return [row[:1] + [found for found in row[1:] if found.score > -np.inf] for row in rows]
