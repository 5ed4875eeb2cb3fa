"""SeqIO's Evaluator with real decoding, and the decoding of a stream of rows on the mesh."""

import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.progress import Progress
from faith_jax.core.types import PyTree
from faith_jax.decoding import causal, encoder_decoder
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.steps import DecodingResult
from faith_jax.inference.batching import bucket_length
from faith_jax.input.numpy_examples import numpy_examples
from faith_jax.input.row_cache import RowCache
from faith_jax.input.task_batches import SplitRows, check_layout
from faith_jax.models.partitioning import Compiled, Partitioner
from faith_jax.models.transformer import Transformer

logger = logging.getLogger("faith_jax")


class DecodedRow(NamedTuple):
    """One response: token ids without padding, their log-probability and score.

    Attributes:
      tokens: int [length].
      log_prob: natural, their sum under the model at temperature 1.
      score: what the search ranks by, such as a beam's sum of scores by its length penalty.
    """

    tokens: np.ndarray
    log_prob: float
    score: float


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
            decoded.extend(_responses(result)[: len(pieces[0])])
        return decoded

    def _padded(self, rows: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Returns int32 [batch, bucket] and lengths [batch]; rows that only fill up have one."""
        length = bucket_length(max(len(row) for row in rows))
        tokens = np.full((self._batch_size, length), self._config.pad_id, np.int32)
        lengths = np.ones(self._batch_size, np.int32)
        for i, row in enumerate(rows):
            tokens[i, : len(row)] = row
            lengths[i] = len(row)
        if self._config.is_decoder_only:
            tokens = np.maximum(tokens, 0)
        return tokens, lengths


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


def _responses(result: DecodingResult) -> list[list[DecodedRow]]:
    """Returns the responses to each row of a batch."""
    tokens, lengths, log_probs, scores = (
        np.asarray(array) for array in (result.tokens, result.length, result.log_prob, result.score)
    )
    if lengths.ndim == 1:
        tokens, lengths, log_probs, scores = (
            array[:, None] for array in (tokens, lengths, log_probs, scores)
        )
    rows = [
        [
            DecodedRow(tokens[i, j, : lengths[i, j]], float(log_probs[i, j]), float(scores[i, j]))
            for j in range(lengths.shape[1])
        ]
        for i in range(lengths.shape[0])
    ]
    # What a search has not found has a score of -inf.
    return [row[:1] + [found for found in row[1:] if found.score > -np.inf] for row in rows]


class DecodedEvaluation:
    """A task's metric functions on decoded responses, through SeqIO's Evaluator.

    Args:
      module: the model.
      partitioner: the mesh.
      rows: of the split to decode, as the model reads them.
      decoding: how responses are decoded, one for each row.

    Raises:
      ConfigError: on a decoding of several responses, or of more tokens than the model has
        positions.
    """

    def __init__(
        self,
        module: Transformer,
        partitioner: Partitioner,
        rows: SplitRows,
        decoding: DecodingConfig,
    ):
        import seqio

        if decoding.num_return > 1:
            raise ConfigError(
                f"NUM_RETURN = {decoding.num_return}: expected 1, because metrics are of one "
                "response to each row; infer writes several."
            )
        config = rows.config
        settings = ("TASK_FEATURE_LENGTHS['inputs']", "DECODE_LENGTH")
        layout = check_layout(config, module.config)
        layout.check_positions(config.task_feature_lengths["inputs"], decoding.max_length, settings)
        self._is_doha = module.config.knowledge_attention
        self._batch_size, self._members = config.batch_size, rows.members
        self._decoder = BatchDecoder(module, partitioner, decoding, config.batch_size)
        # SeqIO makes the targets; what the model reads are our rows.
        lengths = {name: config.task_feature_lengths[name] for name in ("inputs", "targets")}
        self._evaluators = [
            seqio.Evaluator(
                mixture_or_task_name=member.name,
                feature_converter=_inputs_and_targets(),
                eval_split=config.split,
                use_cached=config.use_cached,
                seed=config.seed,
                sequence_length=lengths,
                logger_cls=(),
            )
            for member in self._members
        ]

    def evaluate(self, params: PyTree) -> dict[str, float]:
        """Returns the metrics; for a mixture each name starts with its task's."""
        found: dict[str, Any] = {}
        for member, evaluator in zip(self._members, self._evaluators, strict=True):

            def predict(dataset: Any, member: RowCache = member) -> list[tuple[int, list[int]]]:
                return self._predict(params, member, [int(i) for i, _ in _numpy(dataset)])

            metrics, _ = evaluator.evaluate(
                compute_metrics=True, step=None, predict_fn=predict, score_fn=None
            )
            found |= metrics.result() if hasattr(metrics, "result") else metrics
        single = len(found) == 1
        return {
            name if single else f"{task}/{name}": float(getattr(value, "value", value))
            for task, values in found.items()
            for name, value in values.items()
        }

    def _predict(
        self, params: PyTree, member: RowCache, numbers: Sequence[int]
    ) -> list[tuple[int, list[int]]]:
        logger.info("Decoding %s, for the task's metrics", counted(len(numbers), "response"))
        progress = Progress("decoding", len(numbers))
        decoded: list[DecodedRow] = []
        for start in range(0, len(numbers), self._batch_size):
            rows = [member[number] for number in numbers[start : start + self._batch_size]]
            second = [row["knowledge"] for row in rows] if self._is_doha else None
            found = self._decoder(params, [row["inputs"] for row in rows], start, second)
            decoded.extend(best for best, *_ in found)
            progress.update(len(decoded))
        # SeqIO makes one array of all predictions, so they are padded to one length.
        longest = max(len(row.tokens) for row in decoded)
        return [
            (number, np.pad(row.tokens, (0, longest - len(row.tokens))).tolist())
            for number, row in zip(numbers, decoded, strict=True)
        ]


def _numpy(dataset: Iterable) -> Iterator:
    return numpy_examples(dataset) if hasattr(dataset, "as_numpy_iterator") else iter(dataset)


def _inputs_and_targets() -> Any:
    """Returns SeqIO's feature converter, which leaves other features out, such as negatives."""
    import seqio

    class InputsAndTargets(seqio.EncDecFeatureConverter):
        def __call__(self, ds: Any, task_feature_lengths: Any) -> Any:
            lengths = {name: task_feature_lengths[name] for name in ("inputs", "targets")}
            return super().__call__(ds, lengths)

    return InputsAndTargets(pack=False)
