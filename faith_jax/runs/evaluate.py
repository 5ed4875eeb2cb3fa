"""The run `eval`: loss and decoded metrics of a checkpoint on a split."""

import functools
import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
import optax

from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.files import write_json
from faith_jax.core.progress import Progress
from faith_jax.core.types import PyTree
from faith_jax.decoding.config import DecodingConfig
from faith_jax.inference.batch_decoder import BatchDecoder, DecodedRow
from faith_jax.inference.checkpoint_decoding import log_ignored
from faith_jax.input.numpy_examples import numpy_examples
from faith_jax.input.row_cache import RowCache
from faith_jax.input.task_batches import DatasetConfig, SplitRows, check_layout
from faith_jax.models.partitioning import Partitioner, make_partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.runs import setup
from faith_jax.runs.model_dir import make_folder
from faith_jax.tokenizers.carried import RunVocabulary
from faith_jax.tokenizers.vocabularies import tokenizer_of, with_own_vocabulary
from faith_jax.training.objectives import Objective
from faith_jax.training.trainer import Trainer

logger = logging.getLogger("faith_jax")


@with_own_vocabulary
def evaluate(
    checkpoint_path: str,
    eval_dataset: DatasetConfig,
    output_dir: str | None = None,
    model: Transformer | None = None,
    decoding: DecodingConfig | None = None,
    objective: Objective | None = None,
    partitioner_for: Callable[..., Partitioner] = make_partitioner,
    params_dtype: setup.InferenceDtype = "float32",
    vocabulary: str | None = None,
) -> dict[str, float]:
    """Measures a checkpoint on a split.

    Args:
      checkpoint_path: a checkpoint of any form.
      eval_dataset: what to measure on.
      output_dir: where evaluation.json is written; None = nowhere.
      model: a module in place of the checkpoint's, with the same dimensions.
      decoding: how responses are decoded for the task's metrics; None = loss only, as for
        encoders with a classification head.
      objective: default: cross-entropy, of targets or of classes.
      partitioner_for: makes the mesh for the model's config.
      params_dtype: of the parameters in memory: "bfloat16" takes half of it, and "int8" a quarter,
        see `faith_jax.models.quantization`.
      vocabulary: of our tasks; default: what the checkpoint carries, or else "english_4096".

    Returns:
      What `dataset_loss` returns and, where decoded, the task's metrics.
    """
    chosen = RunVocabulary.choose(vocabulary, checkpoint_path)
    module, params, partitioner = setup.load_for_inference(
        checkpoint_path, partitioner_for, model, params_dtype
    )
    targets = eval_dataset.task().output_features["targets"]
    chosen.check(module.config, tokenizer_of(targets.vocabulary))
    folder = None if output_dir is None else make_folder(output_dir)
    objective = setup.objective_of(module.config, objective)
    trainer = Trainer(module, objective, optax.identity(), partitioner)
    if module.config.is_encoder_only:
        decoding = None
    if decoding is not None:
        log_ignored(checkpoint_path, decoding, module.config)
    rows = SplitRows(eval_dataset, module.config)
    metrics = dataset_loss(trainer, params, {}, rows)
    if decoding is not None:
        evaluation = DecodedEvaluation(module, partitioner, rows, decoding)
        metrics |= evaluation.evaluate(params)
    for name, value in sorted(metrics.items()):
        logger.info("%s %s: %.4f", eval_dataset.split, name, value)
    if folder is not None and jax.process_index() == 0:
        described = {
            "checkpoint": str(checkpoint_path),
            "task": eval_dataset.mixture_or_task_name,
            "split": eval_dataset.split,
            "metrics": metrics,
        }
        write_json(folder / "evaluation.json", described)
    return metrics


def dataset_loss(
    trainer: Trainer, params: PyTree, frozen: PyTree, rows: SplitRows
) -> dict[str, float]:
    """Returns metrics of a whole split, means over its target tokens.

    `loss`, by which checkpoints are kept, is the model's negative log-likelihood in nats a token,
    `objective` what training minimises, and `weight` the number of target tokens. The batch size
    and the mesh make no difference.
    """
    totals: dict[str, float] = {}
    partitioner, size = trainer.partitioner, rows.config.batch_size
    for batch in rows.evaluation_batches(partitioner.local_rows(size)):
        sums = trainer.eval_step(params, frozen, partitioner.put_batch(batch, size))
        for name, value in sums.items():
            totals[name] = totals.get(name, 0.0) + float(value)
    weight = totals.get("weight") or math.nan  # of nothing, there is no mean
    means = {n: v if n == "weight" else v / weight for n, v in totals.items()}
    if not means:
        return {}
    return means | {"loss": means["negative_log_likelihood"], "objective": means["loss"]}


class DecodedEvaluation:
    """A task's metric functions on decoded responses, through SeqIO's Evaluator."""

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
        self._members = rows.members
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
            predict = functools.partial(self._predict, params, member)
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
        self, params: PyTree, member: RowCache, dataset: Iterable
    ) -> list[tuple[int, list[int]]]:
        """Returns the predicted ids of SeqIO's numbered rows, padded to one length for its sake."""
        listed = numpy_examples(dataset) if hasattr(dataset, "as_numpy_iterator") else dataset
        numbers = [int(number) for number, _ in listed]
        logger.info("Decoding %s, for the task's metrics", counted(len(numbers), "response"))
        progress = Progress("decoding", len(numbers))
        rows = [member[number] for number in numbers]
        second = [row["knowledge"] for row in rows] if self._is_doha else None
        found = self._decoder(
            params, [row["inputs"] for row in rows], range(len(rows)), second, progress.add
        )
        decoded: list[DecodedRow] = [best for best, *_ in found]
        longest = max(len(row.tokens) for row in decoded)
        return [
            (number, np.pad(row.tokens, (0, longest - len(row.tokens))).tolist())
            for number, row in zip(numbers, decoded, strict=True)
        ]


def _inputs_and_targets() -> Any:
    """Returns SeqIO's feature converter, which leaves other features out, such as negatives."""
    import seqio
    import tensorflow as tf

    class InputsAndTargets(seqio.EncDecFeatureConverter):
        def __call__(self, ds: Any, task_feature_lengths: Any) -> Any:
            lengths = {name: task_feature_lengths[name] for name in ("inputs", "targets")}
            # TensorFlow need not rewrite SeqIO's functions, which takes a second.
            return tf.autograph.experimental.do_not_convert(super().__call__)(ds, lengths)

    return InputsAndTargets(pack=False)
