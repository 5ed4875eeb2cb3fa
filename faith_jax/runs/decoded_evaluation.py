"""SeqIO's Evaluator with real decoding, and the decoding of a stream of rows on the mesh."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.encoder_decoder import generate, row_keys
from faith_jax.errors import ConfigError
from faith_jax.language_model.base import bucket_length
from faith_jax.models.transformer import Transformer
from faith_jax.runs.datasets import DatasetConfig
from faith_jax.training.metrics import Progress
from faith_jax.training.partitioning import Partitioner
from faith_jax.types import PyTree

logger = logging.getLogger("faith_jax")


class DecodedRow(NamedTuple):
    """One decoded row: token ids without padding, and their log-probability (natural, sum)."""

    tokens: np.ndarray
    log_prob: float


class BatchDecoder:
    """Decodes rows of input tokens in batches of few shapes, on the mesh.

    Args:
      module: the model.
      partitioner: the mesh.
      decoding: how tokens are picked: one response a row, and without PMI-Decode, whose inputs
        without the document rows do not have.
      batch_size: rows of a batch.
      seed: of the sampling; row number i has the same randomness in any batch.

    Raises:
      ConfigError: on a decoding of several responses or by PMI-Decode.
    """

    def __init__(
        self,
        module: Transformer,
        partitioner: Partitioner,
        decoding: DecodingConfig,
        batch_size: int,
        seed: int = 0,
    ):
        if decoding.num_return > 1:
            raise ConfigError(
                f"decoding: num_return = {decoding.num_return}; expected 1: a run writes one "
                "response for each row."
            )
        if decoding.pmi is not None:
            raise ConfigError(
                f"decoding: pmi = {decoding.pmi!r}; expected None: rows have no inputs without "
                "the document."
            )
        self._partitioner, self._batch_size = partitioner, batch_size
        self._seed = seed

        def decode(params, tokens, rows):
            return generate(module, params, tokens, row_keys(seed, rows), decoding)

        self._decode = partitioner.jit(decode, out_shardings=partitioner.replicated)

    @property
    def num_compilations(self) -> int:
        """How many shapes were compiled so far."""
        return self._decode.num_compilations

    def __call__(
        self, params: PyTree, inputs: Sequence[Any], first_row: int = 0
    ) -> list[DecodedRow]:
        """Decodes rows numbered from `first_row`; each input ends with its end token."""
        decoded: list[DecodedRow] = []
        for start in range(0, len(inputs), self._batch_size):
            piece = inputs[start : start + self._batch_size]
            length = bucket_length(max(len(row) for row in piece))
            tokens = np.zeros((self._batch_size, length), np.int32)
            for i, row in enumerate(piece):
                tokens[i, : len(row)] = row
            rows = first_row + start + np.arange(self._batch_size)
            batch = self._partitioner.put_batch({"tokens": tokens, "rows": rows})
            result = self._decode(params, batch["tokens"], batch["rows"])
            found, lengths = np.asarray(result.tokens), np.asarray(result.length)
            log_probs = np.asarray(result.log_prob)
            decoded.extend(
                DecodedRow(found[i, : lengths[i]], float(log_probs[i])) for i in range(len(piece))
            )
        return decoded


class DecodedEvaluation:
    """A task's metric functions on decoded responses, through SeqIO's Evaluator.

    Args:
      module: the model.
      partitioner: the mesh.
      dataset: the split to decode; targets are not cut.
      decoding: how responses are decoded.
    """

    def __init__(
        self,
        module: Transformer,
        partitioner: Partitioner,
        dataset: DatasetConfig,
        decoding: DecodingConfig,
    ):
        import seqio

        dataset.task()  # its errors are better than SeqIO's
        self._decoder = BatchDecoder(module, partitioner, decoding, dataset.batch_size)
        self._evaluator = seqio.Evaluator(
            mixture_or_task_name=dataset.mixture_or_task_name,
            feature_converter=seqio.EncDecFeatureConverter(pack=False),
            eval_split=dataset.split,
            use_cached=dataset.use_cached,
            seed=dataset.seed,
            sequence_length={
                "inputs": dataset.task_feature_lengths["inputs"],
                "targets": dataset.task_feature_lengths["targets"],
            },
            logger_cls=(),
        )

    def evaluate(self, params: PyTree) -> dict[str, float]:
        """Returns the metrics; for a mixture each name starts with its task's."""

        def predict(dataset: Any) -> list[tuple[int, list[int]]]:
            rows = [(int(i), strip(f["encoder_input_tokens"])) for i, f in _numpy(dataset)]
            progress = Progress("decoding", len(rows))
            decoded = self._decoder(params, [tokens for _, tokens in rows])
            progress.update(len(rows))
            # SeqIO makes one array of all predictions, so they are padded to one length.
            longest = max(len(row.tokens) for row in decoded)
            return [
                (i, np.pad(row.tokens, (0, longest - len(row.tokens))).tolist())
                for (i, _), row in zip(rows, decoded, strict=True)
            ]

        metrics, _ = self._evaluator.evaluate(
            compute_metrics=True, step=None, predict_fn=predict, score_fn=None
        )
        found = metrics.result() if hasattr(metrics, "result") else metrics
        single = len(found) == 1
        return {
            name if single else f"{task}/{name}": float(getattr(value, "value", value))
            for task, values in found.items()
            for name, value in values.items()
        }


def strip(tokens: np.ndarray) -> np.ndarray:
    """Returns tokens without the padding behind them."""
    filled = np.flatnonzero(tokens)
    return np.asarray(tokens[: filled[-1] + 1 if filled.size else 0], np.int32)


def _numpy(dataset: Iterable) -> Iterator:
    return dataset.as_numpy_iterator() if hasattr(dataset, "as_numpy_iterator") else iter(dataset)
