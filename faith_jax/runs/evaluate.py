"""The run `eval`: loss and decoded metrics of a checkpoint on a split."""

import json
import logging
import math
from collections.abc import Callable

import jax
import optax

from faith_jax.core.files import written_whole
from faith_jax.core.types import PyTree
from faith_jax.decoding.config import DecodingConfig
from faith_jax.input.task_batches import DatasetConfig, SplitRows
from faith_jax.models.partitioning import Partitioner, make_partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.runs import setup
from faith_jax.runs.checkpoint_decoding import log_ignored
from faith_jax.runs.decoded_evaluation import DecodedEvaluation
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
    vocabulary: str | None = None,
) -> dict[str, float]:
    """Measures a checkpoint on a split.

    Args:
      checkpoint_path: any known form; a prompt-tuned MODEL_DIR brings its base with it.
      eval_dataset: what to measure on.
      output_dir: where evaluation.json is written; None = nowhere.
      model: if given, the checkpoint must have its dimensions.
      decoding: how responses are decoded for the task's metrics; None = loss only, as for
        encoders with a classification head.
      objective: default: cross-entropy, of targets or of classes.
      partitioner_for: makes the mesh for the model's config.
      vocabulary: of our tasks; None = what the checkpoint carries, or else "english_4096". Given,
        it must be what the checkpoint carries, if it carries one.

    Returns:
      What `dataset_loss` returns and, where decoded, the task's metrics.
    """
    chosen = RunVocabulary.choose(vocabulary, checkpoint_path)
    module, params, partitioner = setup.load_for_inference(checkpoint_path, partitioner_for, model)
    targets = eval_dataset.task().output_features["targets"]
    chosen.check(module.config, tokenizer_of(targets.vocabulary))
    folder = None if output_dir is None else setup.make_folder(output_dir)
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
        path = folder / "evaluation.json"
        described = {
            "checkpoint": str(checkpoint_path),
            "task": eval_dataset.mixture_or_task_name,
            "split": eval_dataset.split,
            "metrics": metrics,
        }
        with written_whole(path) as beside:
            beside.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    return metrics


def dataset_loss(
    trainer: Trainer, params: PyTree, frozen: PyTree, rows: SplitRows
) -> dict[str, float]:
    """Returns metrics of a whole split, means over its target tokens.

    `loss`, by which checkpoints are kept, is the model's negative log-likelihood alone, in nats a
    token, whatever it is trained by; `objective` is what training minimises: with its z-loss,
    InfoNCE or smoothing, which stand beside it. `weight` is the number of target tokens. They do
    not depend on the batch size or the mesh.
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
