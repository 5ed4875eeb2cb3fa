"""The run `eval`: measures loss and decoded metrics of a checkpoint on a split."""

import functools
import json
import logging
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from faith_jax.checkpoints.identity import step_of
from faith_jax.core.errors import ConfigError, MetricError, pluralize
from faith_jax.core.files import write_json
from faith_jax.core.progress import Progress
from faith_jax.core.types import Array, PyTree
from faith_jax.decoding.config import DecodingConfig
from faith_jax.inference.batch_decoder import BatchDecoder, DecodedRow
from faith_jax.inference.checkpoint_decoding import log_ignored
from faith_jax.input.task_batches import DatasetConfig, SplitRows, check_layout
from faith_jax.input.task_examples import TaskExamples
from faith_jax.input.task_metrics import (
    ModelOutputs,
    needed_outputs,
    task_metrics,
    text_of,
    try_metrics,
)
from faith_jax.models.partitioning import Partitioner, make_partitioner
from faith_jax.models.transformer import Transformer, output_layer
from faith_jax.runs import setup
from faith_jax.runs.model_dir import make_folder
from faith_jax.tokenizers.carried import RunVocabulary
from faith_jax.tokenizers.vocabularies import tokenizer_of, with_own_vocabulary
from faith_jax.training.metrics import FAILED, json_value
from faith_jax.training.objectives import (
    Batch,
    CrossEntropy,
    Objective,
    decoder_states,
    encoder_states,
)
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
) -> dict[str, Any]:
    """Measures a checkpoint on a split.

    Args:
      checkpoint_path: a checkpoint of any form.
      eval_dataset: the data to measure on.
      output_dir: where evaluation.json is written; None = nowhere.
      model: a module to use instead of the checkpoint's, with the same dimensions.
      decoding: how responses are decoded for the task's metrics; None = loss only, as for
        encoders with a classification head.
      objective: default: cross-entropy, of targets or of classes.
      partitioner_for: makes the mesh for the model's config.
      params_dtype: of the parameters in memory: "bfloat16" takes half the memory; "int8" takes a
        quarter and multiplies in 8 bits, see `faith_jax.models.quantization`.
      vocabulary: of our tasks; default: the one that the checkpoint carries, or "english_4096".

    Returns:
      The metrics of `dataset_loss` and, with decoding, of the task (`task_metrics`).

    Raises:
      MetricError: one of the task's metrics failed; the others are written.
    """
    run_vocabulary = RunVocabulary.choose(vocabulary, checkpoint_path)
    module, params, partitioner = setup.load_for_inference(
        checkpoint_path, partitioner_for, model, params_dtype
    )
    step = step_of(checkpoint_path)  # in a MODEL_DIR, the step that was opened
    targets = eval_dataset.task().output_features["targets"]
    run_vocabulary.check(module.config, tokenizer_of(targets.vocabulary))
    setup.log_data(run_vocabulary, eval_dataset)
    folder = None if output_dir is None else make_folder(output_dir, "EVAL_OUTPUT_DIR")
    objective = setup.objective_of(module.config, objective)
    trainer = Trainer(module, objective, optax.identity(), partitioner)
    rows = SplitRows(eval_dataset, module.config)
    measured = {
        "checkpoint": str(checkpoint_path),
        "step": step,
        "task": eval_dataset.mixture_or_task_name,
        "split": eval_dataset.split,
    }
    log_and_write = functools.partial(_log_and_write_metrics, measured, folder)
    if decoding is None or not module.config.writes_text:
        losses = dataset_loss(trainer, params, {}, rows)
        log_and_write(losses)
        return losses
    log_ignored(checkpoint_path, decoding, module.config)
    # Made first, because it checks lengths and metrics before anything is computed.
    evaluation = DecodedEvaluation(module, partitioner, rows, decoding)
    metrics: dict[str, Any] = dict(dataset_loss(trainer, params, {}, rows))
    try:
        metrics |= evaluation.evaluate(params)
    except MetricError as error:
        log_and_write(metrics | error.metrics | {FAILED: str(error)})
        raise
    log_and_write(metrics)
    return metrics


def _log_and_write_metrics(
    measured: Mapping[str, Any], folder: pathlib.Path | None, metrics: Mapping[str, Any]
) -> None:
    """Logs metrics and writes them to evaluation.json; `measured` names checkpoint and data."""
    for name, value in sorted(metrics.items()):
        value_text = text_of(value)
        if name == "weight":
            value_text = f"{value:,.0f} (target tokens; rows of a head's classes)"
        logger.info("%s %s: %s", measured["split"], name, value_text)
    if folder is not None and jax.process_index() == 0:
        text = json.dumps({name: json_value(value) for name, value in metrics.items()})
        # A user's metric may be NaN, which JSON cannot hold: it becomes null.
        plain_metrics = json.loads(text, parse_constant=lambda _: None)
        write_json(folder / "evaluation.json", {**measured, "metrics": plain_metrics})


def dataset_loss(
    trainer: Trainer, params: PyTree, frozen: PyTree, rows: SplitRows
) -> dict[str, float]:
    """Returns metrics of a whole split, means over its target tokens.

    `loss`, by which checkpoints are kept, is the model's negative log-likelihood in nats per token,
    `objective` is the value that training minimises, and `weight` the number of target tokens. The
    batch size and the mesh make no difference.
    """
    totals: dict[str, float] = {}
    partitioner, size = trainer.partitioner, rows.config.batch_size
    for batch in rows.evaluation_batches(partitioner.local_rows(size)):
        sums = trainer.eval_step(params, frozen, partitioner.put_batch(batch, size))
        for name, value in sums.items():
            totals[name] = totals.get(name, 0.0) + float(value)
    weight = totals.get("weight") or math.nan  # without target tokens, the means are undefined
    means = {n: v if n == "weight" else v / weight for n, v in totals.items()}
    if not means:
        return {}
    return means | {"loss": means["negative_log_likelihood"], "objective": means["loss"]}


class DecodedEvaluation:
    """Computes a task's metrics from decoded responses and log-likelihoods of its targets.

    Raises:
      ConfigError: lengths or decoding do not fit the model, or a metric fails in a trial with the
        targets as responses.
    """

    def __init__(
        self,
        module: Transformer,
        partitioner: Partitioner,
        rows: SplitRows,
        decoding: DecodingConfig,
    ):
        if decoding.num_return > 1:
            raise ConfigError(
                f"NUM_RETURN = {decoding.num_return}: expected 1, because metrics are of one "
                "response to each row; infer writes several."
            )
        config = rows.config
        settings = ("TASK_FEATURE_LENGTHS['inputs']", "DECODE_LENGTH")
        layout = check_layout(config, module.config)
        layout.check_positions(config.task_feature_lengths["inputs"], decoding.max_length, settings)
        for task in rows.tasks:
            try_metrics(config, task)
        self._is_doha = module.config.knowledge_attention
        self._rows, self._partitioner = rows, partitioner
        self._decoder = BatchDecoder(module, partitioner, decoding, config.batch_size)
        self._score = jax.jit(functools.partial(_target_log_likelihoods, module))
        self._examples: dict[str, list[dict[str, Any]]] = {}

    def evaluate(self, params: PyTree) -> dict[str, Any]:
        """Returns the metrics, see `task_metrics`; in a mixture, names start with the task's name.

        Raises:
          MetricError: some metrics failed; its `metrics` has the others.
        """
        values, failures = dict[str, dict[str, Any]](), list[str]()
        for task, member in zip(self._rows.tasks, self._rows.members, strict=True):
            needed = needed_outputs(task)
            if not needed:
                continue
            if task.name not in self._examples:
                self._examples[task.name] = list(TaskExamples(self._rows.config, task))
            count = len(member)
            responses: list[DecodedRow] = []
            if "predictions" in needed:
                logger.info("Decoding %s, for the task's metrics", pluralize(count, "response"))
                progress = Progress("decoding", count)
                rows = [member[number] for number in range(count)]
                inputs = [row["inputs"] for row in rows]
                second = [row["knowledge"] for row in rows] if self._is_doha else None
                decoded = self._decoder(params, inputs, range(count), second, progress.add)
                responses = [best for best, *_ in decoded]
            scores = None
            if "scores" in needed:
                logger.info("Scoring %s, for the task's metrics", pluralize(count, "target"))
                of_batches = [
                    self._partitioner.compute(functools.partial(self._score, params), batch)
                    for batch in self._rows.evaluation_batches(members=[member])
                ]
                scores = np.concatenate(of_batches)[:count].tolist()
            outputs = ModelOutputs(
                [row.tokens.tolist() for row in responses],
                scores,
                [row.score for row in responses],
            )
            try:
                values[task.name] = task_metrics(task, self._examples[task.name], outputs)
            except MetricError as error:
                values[task.name] = error.metrics
                failures.append(str(error))
        # As in SeqIO, names in a mixture have the task's name even if only one task has metrics.
        metrics = {
            f"{task}/{name}" if self._rows.is_mixture else name: value
            for task, of_task in values.items()
            for name, value in of_task.items()
        }
        if failures:
            raise MetricError("; ".join(failures), metrics)
        return metrics


def _target_log_likelihoods(module: Transformer, params: PyTree, batch: Batch) -> Array:
    """Returns natural log-likelihoods of targets, summed over their tokens: float32 [batch]."""
    encoded = encoder_states(module, params, batch, None)
    hidden = decoder_states(module, params, batch, encoded, None)
    scores = CrossEntropy().scores(hidden, output_layer(module, params), module, batch)
    return jnp.sum(scores.statistics.log_prob * scores.weights, axis=1)
