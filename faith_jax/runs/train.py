"""The run `train`: from a gin config to checkpoints, metrics and a trained model in MODEL_DIR.

A run that is killed at any point and started again ends in the same place, bit for bit on one
platform: batches, dropout and prompts are functions of the config, its seed and the step.
"""

import contextlib
import logging
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import optax

from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.progress import Progress
from faith_jax.core.types import PyTree
from faith_jax.decoding.config import DecodingConfig
from faith_jax.input.task_batches import DatasetConfig, SplitRows, check_layout
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import Partitioner, make_partitioner
from faith_jax.models.soft_prompt import PromptInitializer, initializer_name
from faith_jax.models.transformer import Transformer
from faith_jax.runs import model_dir as folders
from faith_jax.runs import preflight, setup
from faith_jax.runs.evaluate import DecodedEvaluation, dataset_loss
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.carried import RunVocabulary
from faith_jax.tokenizers.vocabularies import tokenizer_of, with_own_vocabulary
from faith_jax.training.checkpoints import TrainCheckpoints, check_folder, newest_step
from faith_jax.training.metrics import MOVED, MetricsWriter, prompt_movement, trained_prompts
from faith_jax.training.objectives import Batch, Metrics, Objective
from faith_jax.training.trainer import (
    Periods,
    Stopped,
    Trainer,
    TrainState,
    fit,
    merge_params,
    split_params,
)

__all__ = ["Stopped", "train"]

logger = logging.getLogger("faith_jax")

ROWS = "rows"  # the folder in MODEL_DIR that keeps the data's rows until training ends


@with_own_vocabulary
def train(
    model: Transformer,
    model_dir: str,
    train_dataset: DatasetConfig,
    optimizer: optax.GradientTransformation,
    total_steps: int,
    eval_dataset: DatasetConfig | None = None,
    decoding: DecodingConfig | None = None,
    objective: Objective | None = None,
    initial_checkpoint_path: str | None = None,
    trainable: Sequence[str] = (".*",),
    prompt_initializer: PromptInitializer | None = None,
    partitioner_for: Callable[..., Partitioner] = make_partitioner,
    num_microbatches: int = 1,
    seed: int = 0,
    log_period: int = 10,
    eval_period: int = 100,
    decoded_eval_period: int | None = None,
    checkpoint_period: int = 100,
    keep_last: int = 2,
    keep_best: int = 1,
    vocabulary: str | None = None,
    dry_run: bool = False,
) -> dict[str, float]:
    """Trains a model, or only its soft prompt.

    What the run will read is counted and reported before its first step
    (`faith_jax.runs.preflight`), and written to `model_dir`/preflight.json.

    Args:
      model: the module, soft prompts included.
      model_dir: where everything of this run is written; a run found there is resumed.
      train_dataset: what is trained on.
      optimizer: an Optax transformation.
      total_steps: steps at which training ends.
      eval_dataset: what the loss and the decoded metrics are measured on; None = neither.
      decoding: how responses are decoded for SeqIO's metrics; None = not at all.
      objective: default: cross-entropy, of targets or of classes.
      initial_checkpoint_path: the model to start from; None = random parameters.
      trainable: regular expressions of whole parameter names; the rest is frozen: no gradient,
        no optimizer state, no bytes in the checkpoints.
      prompt_initializer: start of the soft prompt.
      partitioner_for: makes the mesh for the model's config.
      num_microbatches: pieces of a batch whose gradients are added up before an update.
      seed: of parameters, prompts and dropout.
      log_period: steps between training metrics.
      eval_period: steps between losses on `eval_dataset`.
      decoded_eval_period: steps between decoded metrics; default: at the end only.
      checkpoint_period: steps between checkpoints.
      keep_last: newest checkpoints to keep.
      keep_best: checkpoints with the lowest validation loss to keep besides.
      vocabulary: of our tasks: "english_4096", or a published tokenizer's folder or file; None =
        what `initial_checkpoint_path` carries, or else "english_4096". Its files are written into
        `model_dir`.
      dry_run: only report what the run would read, to `model_dir`.preflight.json.

    Returns:
      The last evaluation's metrics.

    Raises:
      Stopped: after a SIGTERM, when the state is saved.
      FaithJaxError: on a wrong setting, input or checkpoint.
    """
    chosen = RunVocabulary.choose(vocabulary, initial_checkpoint_path, "INITIAL_CHECKPOINT_PATH")
    folder = pathlib.Path(model_dir).expanduser()
    objective = setup.objective_of(model.config, objective)
    partitioner = partitioner_for(model.config)
    tokenizer = _check_datasets(model.config, train_dataset, eval_dataset, chosen, num_microbatches)
    if decoding is not None:
        setup.check_generates(model.config)
    objective.check(model, train_dataset.further_features)
    check_folder(folder, keep_last, keep_best)

    # The model, its trainable parameters, and the step.
    params, base = setup.initial_params(
        model, partitioner, initial_checkpoint_path, seed, prompt_initializer
    )
    trained, frozen = split_params(params, trainable)
    is_frozen = bool(jax.tree.leaves(frozen))
    if is_frozen and base is None:
        raise ConfigError(
            "TRAINABLE leaves parameters frozen at random values: set INITIAL_CHECKPOINT_PATH."
        )
    trainer = Trainer(model, objective, optimizer, partitioner, seed, num_microbatches)

    # Nothing is written before all settings are checked, and nothing where nothing is trained.
    folders.check_former_run(folder, model.config, base, is_frozen, tokenizer)
    done = newest_step(folder)
    if done is not None and done >= total_steps and not dry_run:
        logger.warning(
            "Nothing to train: %s has a checkpoint of step %d, TRAIN_STEPS = %d",
            folder,
            done,
            total_steps,
        )
        return {}

    # The data, and what the run will see of it.
    with contextlib.nullcontext() if dry_run else folders.new_folder(model_dir):
        kept = None if dry_run else folder / ROWS
        rows, evaluation = SplitRows(train_dataset, model.config, kept), None
        if eval_dataset is not None:
            evaluated = SplitRows(eval_dataset, model.config, kept)
            evaluation = _Evaluation(
                trainer, frozen, evaluated, decoding, eval_period, decoded_eval_period
            )
        state = trainer.init_state(trained)
        report = preflight.training_report(
            rows, total_steps, evaluation.rows if evaluation else None, tokenizer
        )
        report["model"] = _cost(trainer, state, frozen, next(_batches(rows, partitioner, 0)))
        if jax.process_index() == 0:
            path = preflight.beside(folder) if dry_run else folder / "preflight.json"
            preflight.tell(report, path, dry_run)
    if dry_run:
        return {}

    # Training, from the newest checkpoint or from the start.
    prompts = trained_prompts(trained)
    checkpoints = TrainCheckpoints(folder / "checkpoints", keep_last, keep_best)
    if done is not None:
        state = checkpoints.restore(state)
        logger.info("Resuming from step %d of %s", int(state.step), folder)
    if jax.process_index() == 0:
        folders.describe_run(folder, model.config, base, is_frozen, tokenizer)
    origin = {"initializer": initializer_name(prompt_initializer), "seed": str(seed)}
    starts = folders.prompt_starts(folder, prompts, origin, done is not None)
    logger.info(
        "Training %s of %s parameters on %s, %s a batch",
        f"{setup.count_params(trained):,}",
        f"{setup.count_params(params):,}",
        counted(jax.device_count(), "device"),
        counted(train_dataset.batch_size, "row"),
    )
    start = int(state.step)
    writer = MetricsWriter(folder if jax.process_index() == 0 else None, start)
    progress = Progress("step", total_steps, start)
    watcher = _Watcher(writer, progress, train_dataset.split, starts, evaluation)
    periods = Periods(total_steps, log_period, checkpoint_period)
    try:
        batches = _batches(rows, partitioner, start)
        fit(trainer, state, frozen, batches, periods, watcher, checkpoints)
        if jax.process_index() == 0:
            shutil.rmtree(folder / ROWS, ignore_errors=True)
        logger.info("%s compiled", counted(trainer.num_compilations, "program"))
        best = checkpoints.best_step()
        if best is not None:
            logger.info("Lowest validation loss: %s", folder / "checkpoints" / str(best))
    finally:
        writer.close()
        checkpoints.close()
    return watcher.last


def _check_datasets(
    config: TransformerConfig,
    train_dataset: DatasetConfig,
    eval_dataset: DatasetConfig | None,
    vocabulary: RunVocabulary,
    num_microbatches: int,
) -> Tokenizer:
    """Checks that model, data and vocabulary fit each other; returns the run's tokenizer."""
    if num_microbatches > 0 and train_dataset.batch_size % num_microbatches:
        raise ConfigError(
            f"BATCH_SIZE = {train_dataset.batch_size} does not divide into NUM_MICROBATCHES = "
            f"{num_microbatches}."
        )
    for dataset in filter(None, (eval_dataset, train_dataset)):
        tokenizer = tokenizer_of(dataset.task().output_features["targets"].vocabulary)
        vocabulary.check(config, tokenizer)
        if not config.is_encoder_only:
            check_layout(dataset, config)
    if train_dataset.pack and (config.encoder_prompt_length or config.decoder_prompt_length):
        raise ConfigError("Soft prompts cannot be trained on packed examples: set PACK = False.")
    return tokenizer


def _batches(rows: SplitRows, partitioner: Partitioner, start: int) -> Iterator[Batch]:
    """Yields global batches on the mesh, from the one that step `start` takes."""
    size = rows.config.batch_size
    for batch in rows.training_batches(start, partitioner.local_rows(size)):
        yield partitioner.put_batch(batch, size)


def _cost(trainer: Trainer, state: TrainState, frozen: PyTree, batch: Batch) -> dict[str, Any]:
    """Compiles the step; returns what it costs, and how many parameters it trains."""
    counts = {"trained": setup.count_params(state.params), "frozen": setup.count_params(frozen)}
    return {**counts, **trainer.step_cost(state, frozen, batch)}


class _Evaluation:
    """Loss and decoded metrics of the model during training, at their periods."""

    def __init__(
        self,
        trainer: Trainer,
        frozen: PyTree,
        rows: SplitRows,
        decoding: DecodingConfig | None,
        period: int,
        decoded_period: int | None,
    ):
        self._trainer, self._frozen, self.rows = trainer, frozen, rows
        self._period, self._decoded_period = period, decoded_period
        self._decoded: DecodedEvaluation | None = None
        if decoding is not None:
            self._decoded = DecodedEvaluation(trainer.module, trainer.partitioner, rows, decoding)

    def measure(self, step: int, final: bool, params: PyTree) -> dict[str, dict[str, float]]:
        """Returns what is due at a step: {"validation": …, "validation_decoded": …}.

        The first are means over target tokens in nats, the second the task's own metrics.
        """
        measured = {}
        split = self.rows.config.split
        if final or step % self._period == 0:
            measured[split] = dataset_loss(self._trainer, params, self._frozen, self.rows)
            logger.info("step %d  %s loss %.4f", step, split, measured[split]["loss"])
        due = self._decoded_period and step % self._decoded_period == 0
        if self._decoded is not None and (final or due):
            whole = merge_params(params, self._frozen)
            measured[f"{split}_decoded"] = self._decoded.evaluate(whole)
        return measured


class _Watcher:
    """Writes the metrics of a run."""

    def __init__(
        self,
        writer: MetricsWriter,
        progress: Progress,
        split: str,
        starts: folders.Starts,
        evaluation: _Evaluation | None,
    ):
        self._writer, self._progress, self._split = writer, progress, split
        self._starts, self._evaluation = starts, evaluation
        self.last: dict[str, float] = {}

    def log(self, step: int, metrics: Metrics, params: PyTree, final: bool) -> None:
        """See `Watcher`.

        Raises:
          FloatingPointError: for a loss that is not finite.
        """
        logged: dict[str, Any] = {name: np.asarray(v).tolist() for name, v in metrics.items()}
        logged |= prompt_movement(params, self._starts)
        for name in self._starts:
            if logged[name + MOVED] == 0.0:
                logger.warning(
                    "step %d: %s has not moved from its start: is the learning rate 0?", step, name
                )
        self._writer.write(step, self._split, logged)
        loss = logged["loss"]
        self._progress.update(step, f"loss {loss:.4f}", force=final)
        if not np.isfinite(loss):
            raise FloatingPointError(
                f"The loss is {loss} at step {step}; lower LEARNING_RATE or clip the gradient."
            )

    def evaluate(self, step: int, params: PyTree, final: bool) -> Mapping[str, float] | None:
        """See `Watcher`."""
        if self._evaluation is None:
            return None
        measured = self._evaluation.measure(step, final, params)
        for part, values in measured.items():
            self._writer.write(step, part, values)
            self.last |= values
        return measured.get(self._evaluation.rows.config.split)
