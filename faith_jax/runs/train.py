"""The run `train`: from a gin config to checkpoints, metrics and a trained model in MODEL_DIR.

A run that is killed at any point and started again resumes from its newest checkpoint, and ends in
the same place, bit for bit on one platform: batches, dropout and prompts are functions of the
config, its seed and the step.
"""

import contextlib
import dataclasses
import logging
import pathlib
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
import optax

from faith_jax.checkpoints.embedded import newest_step
from faith_jax.checkpoints.identity import step_of
from faith_jax.core.errors import ConfigError, MetricError, pluralize, reason
from faith_jax.core.files.stores import path_of
from faith_jax.core.files.whole import remove_tree
from faith_jax.core.processes import on_first_process
from faith_jax.core.progress import Progress
from faith_jax.core.settings import NotNegative, NotNegativeNumber, Path, Positive, PositiveNumber
from faith_jax.core.types import PyTree
from faith_jax.decoding.config import DecodingConfig
from faith_jax.input.task_batches import DatasetConfig, SplitRows, check_layout
from faith_jax.input.task_metrics import text_of
from faith_jax.models.attention.masks import kernel_platform
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import Partitioner, make_partitioner
from faith_jax.models.soft_prompt import initializer_name
from faith_jax.models.transformer import Transformer
from faith_jax.runs import preflight, setup
from faith_jax.runs.evaluate import DecodedEvaluation, dataset_loss
from faith_jax.runs.model_dir import (
    Starts,
    describe_run,
    own_folder,
    read_or_write_prompt_starts,
)
from faith_jax.runs.resuming import check_former_run, find_saved_state, log_changes, pin_start
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.carried import RunVocabulary
from faith_jax.tokenizers.vocabularies import has_texts, tokenizer_of, with_own_vocabulary
from faith_jax.training.checkpoints import TrainCheckpoints, check_folder
from faith_jax.training.metrics import (
    DECODED,
    FAILED,
    MOVED,
    MetricsWriter,
    no_longer_falls,
    prompt_movement,
    trained_prompts,
)
from faith_jax.training.objectives import Batch, Metrics, Objective
from faith_jax.training.optimizers import Schedule
from faith_jax.training.trainer import Periods, Trainer, fit, merge_params, split_params

logger = logging.getLogger("faith_jax")

_ROWS = "rows"  # the folder in MODEL_DIR that keeps the data's rows until training ends


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimization:
    """How parameters are updated, and how often.

    Attributes:
      optimizer: an Optax transformation.
      total_steps: steps at which training ends.
      objective: default: cross-entropy, of targets or of classes.
      num_microbatches: pieces of a batch whose gradients are added up before an update.
      loss_normalizing_factor: what the gradient is divided by, see `Trainer`.
      seed: of parameters, prompts and dropout.
      use_hardware_rng: a cheaper generator for dropout, see `Trainer`.
      counts_from_0: log that steps count from 0 if the initial checkpoint has been trained.
      learning_rate: the optimizer's schedule or constant, only to be logged; None = not logged.
    """

    optimizer: optax.GradientTransformation
    total_steps: Positive
    objective: Objective | None = None
    num_microbatches: Positive = 1
    loss_normalizing_factor: PositiveNumber | None = None
    seed: NotNegative = 0
    use_hardware_rng: bool = False
    counts_from_0: bool = True
    learning_rate: Schedule | NotNegativeNumber | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Measurements while a model is trained.

    Attributes:
      dataset: the data for the loss and the decoded metrics; None, or data without a split =
        nothing is measured.
      period: steps between losses.
      before_training: measure the loss before the first step, too.
      decoding: how responses are decoded for SeqIO's metrics; None = they are not.
      decoded_period: steps between decoded metrics; default: at the end only.
      patience: training ends once this many losses in a row are no lower than the best one before;
        None = it goes on to `total_steps`.
    """

    dataset: DatasetConfig | None = None
    period: Positive = 100
    before_training: bool = False
    decoding: DecodingConfig | None = None
    decoded_period: Positive | None = None
    patience: Positive | None = None

    def decodes_after(self, step: int, last_step: int) -> bool:
        """Whether decoded metrics are due after a step; they always are after the last one."""
        return step == last_step or bool(self.decoded_period and step % self.decoded_period == 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """Where a training writes, and how often.

    Attributes:
      model_dir: where everything is written; a run found there resumes.
      log_period: steps between training metrics.
      checkpoint_period: steps between checkpoints; a step whose loss is among the best is also
        saved.
      keep_last: number of newest checkpoints to keep.
      keep_best: number of checkpoints with the lowest validation loss to keep as well.
    """

    model_dir: Path
    log_period: Positive = 10
    checkpoint_period: Positive = 100
    keep_last: Positive = 2
    keep_best: NotNegative = 1


@with_own_vocabulary
def train(
    model: Transformer,
    dataset: DatasetConfig,
    start: setup.StartingPoint,
    optimization: Optimization,
    evaluation: Evaluation,
    output: Output,
    partitioner_for: Callable[..., Partitioner] = make_partitioner,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Trains a model, or only its soft prompt.

    A report on the data (`faith_jax.runs.preflight`) is logged before the first step and written to
    MODEL_DIR/preflight.json; a dry run only makes the report, in MODEL_DIR.preflight.json.

    Returns:
      The last evaluation's metrics; empty after a dry run, or if nothing was left to train.

    Raises:
      Stopped: after a SIGTERM, when the state is saved.
      MetricError: a metric of the task failed; training was still completed.
      DivergenceError: the loss, the gradient or parameters are not finite; this step is not saved.
    """
    folder = path_of(output.model_dir)
    evaluation = _drop_empty_split(evaluation)
    vocabulary = RunVocabulary.choose(
        start.vocabulary, start.initial_checkpoint_path, "INITIAL_CHECKPOINT_PATH"
    ).resume(folder)
    start = _pin_step(start, folder, optimization)
    objective = setup.objective_of(model.config, optimization.objective)
    num_microbatches = optimization.num_microbatches
    tokenizer = _check_datasets(
        model.config, dataset, evaluation.dataset, vocabulary, num_microbatches
    )
    if evaluation.decoding is not None:
        setup.check_generates(model.config)
    objective.check(model, dataset.further_features)
    check_folder(folder, output.keep_last, output.keep_best)
    partitioner = partitioner_for(model.config)

    # The model, its trainable parameters, and the step.
    params, base = setup.initial_params(model, partitioner, start, optimization.seed)
    setup.log_data(vocabulary, dataset)
    trained, frozen = split_params(params, start.trainable)
    has_frozen = bool(jax.tree.leaves(frozen))
    if has_frozen and base is None:
        raise ConfigError(
            "TRAINABLE leaves parameters frozen at random values: set INITIAL_CHECKPOINT_PATH."
        )
    trainer = Trainer(
        model,
        objective,
        optimization.optimizer,
        partitioner,
        seed=optimization.seed,
        num_microbatches=num_microbatches,
        use_hardware_rng=optimization.use_hardware_rng,
        loss_normalizing_factor=optimization.loss_normalizing_factor,
    )

    _check_optimizer(optimization.optimizer, trained)

    # Nothing is written until all settings are checked, or if nothing is left to train.
    changed = check_former_run(folder, model.config, base, has_frozen, tokenizer)
    saved = find_saved_state(
        folder,
        optimization.total_steps,
        None if evaluation.dataset is None else str(evaluation.dataset.split),
        evaluation.patience,
        None if evaluation.decoding is None else evaluation.decodes_after,
    )
    if saved.is_last and not (dry_run or saved.is_unmeasured):
        ending = f"TRAIN_STEPS is {optimization.total_steps:,}"
        if saved.has_converged:
            ending = f"its loss did not fall in {evaluation.patience} measurements (PATIENCE)"
        finished = "%s is already at step %s; %s, nothing to train"
        logger.info(finished, folder, f"{saved.step:,}", ending)
        return {}
    log_changes(folder, changed)

    # The data, and the report on it.
    with contextlib.nullcontext() if dry_run else own_folder(output.model_dir):
        if newest_step(folder) != saved.step:
            raise ConfigError(f"MODEL_DIR: another run has just written to {folder}; start again.")
        rows_folder = None if dry_run else folder / _ROWS
        rows = SplitRows(dataset, model.config, rows_folder)
        evaluated = decoded = None
        if evaluation.dataset is not None:
            evaluated = SplitRows(evaluation.dataset, model.config, rows_folder)
            if evaluation.decoding is not None:
                decoded = DecodedEvaluation(model, partitioner, evaluated, evaluation.decoding)
        state = trainer.init_state(trained)
        report = on_first_process(
            lambda: preflight.training_report(rows, optimization.total_steps, evaluated, tokenizer),
            "the report of what is read",
        )
        batch = next(_read_global_batches(rows, partitioner, 0))
        sizes = {"trained": setup.count_params(trained), "frozen": setup.count_params(frozen)}
        logger.info("Compiling the training step; large models take minutes")
        cost = trainer.step_cost(state, frozen, batch)
        if report is not None:
            platform = kernel_platform(partitioner.mesh.devices.flat[0])
            kernel = model.config.kernel_on(platform, deterministic=False)
            report["model"] = sizes | cost | {"attention_kernel": kernel}
            path = preflight.beside(folder) if dry_run else folder / "preflight.json"
            preflight.tell(report, path, dry_run)
        if dry_run:
            return {}

        # Training, from the newest checkpoint or from the start.
        prompts = trained_prompts(trained)
        checkpoints = TrainCheckpoints(folder / "checkpoints", output.keep_last, output.keep_best)
        if saved.step is not None:
            state = checkpoints.restore(state)
            logger.info("Resuming from step %d of %s", int(state.step), folder)
        if jax.process_index() == 0:
            labels = dataset.error_labels
            describe_run(folder, model.config, base, has_frozen, tokenizer, labels)
        origin = {
            "initializer": initializer_name(start.prompt_initializer),
            "seed": str(optimization.seed),
        }
        is_resumed = saved.step is not None
        prompt_starts = read_or_write_prompt_starts(folder, prompts, origin, is_resumed)
        logger.info(
            "Training %s of %s parameters on %s, %s a batch",
            f"{sizes['trained']:,}",
            f"{sum(sizes.values()):,}",
            pluralize(jax.device_count(), "device"),
            pluralize(dataset.batch_size, "row"),
        )
        first_step = int(state.step)
        # A run that was killed before its first checkpoint repeats all measurements.
        kept_until = first_step or -1
        writer = MetricsWriter(folder if jax.process_index() == 0 else None, kept_until)
        progress = Progress("step", saved.end, first_step)
        watcher = _Watcher(
            writer=writer,
            progress=progress,
            split=rows.config.split or "",
            prompt_starts=prompt_starts,
            trainer=trainer,
            frozen=frozen,
            evaluation=evaluation,
            evaluated=evaluated,
            decoded=decoded,
            last_step=saved.end,
            learning_rate=optimization.learning_rate,
            losses=saved.losses,
        )
        periods = Periods(saved.end, output.log_period, output.checkpoint_period)
        try:
            if saved.is_unmeasured:
                watcher.write_decoded_metrics(first_step, state.params, saved.is_last)
            if evaluation.before_training and first_step == 0:
                watcher.write_losses(0, state.params, False)
            batches = _read_global_batches(rows, partitioner, first_step)
            fit(trainer, state, frozen, batches, periods, watcher, checkpoints)
            if jax.process_index() == 0:
                remove_tree(folder / _ROWS)
            logger.info("%s compiled", pluralize(trainer.num_compilations, "program"))
            best = checkpoints.best_step()
            if best is not None:
                logger.info("Lowest validation loss: %s", folder / "checkpoints" / str(best))
        finally:
            writer.close()
            checkpoints.close()
        if watcher.failure is not None:
            raise watcher.failure
        return watcher.last


def _pin_step(
    start: setup.StartingPoint, folder: pathlib.Path, optimization: Optimization
) -> setup.StartingPoint:
    """Returns a starting point whose checkpoint names its step; a stopped run's step is kept."""
    if start.initial_checkpoint_path is None:
        return start
    checkpoint = pin_start(folder, start.initial_checkpoint_path)
    step = step_of(checkpoint)
    if optimization.counts_from_0 and step:
        counted = "TRAIN_STEPS = %s counts from 0: the %s steps of %s are not among them"
        logger.info(counted, f"{optimization.total_steps:,}", f"{step:,}", checkpoint)
    return dataclasses.replace(start, initial_checkpoint_path=checkpoint)


def _check_optimizer(optimizer: Any, params: PyTree) -> None:
    """Raises ConfigError if this is not an Optax transformation, or fails in a first step.

    An error raised inside faith_jax's own optimizers is a bug and is raised unchanged.
    """
    if not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")):
        raise ConfigError(
            "train.Optimization.optimizer: expected an Optax transformation, with `init` and "
            f"`update`, got a {type(optimizer).__name__}; write parentheses: @optax.adamw()."
        )
    try:
        jax.eval_shape(lambda p: optimizer.update(p, optimizer.init(p), p), params)
    except Exception as error:
        _, *frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        if any(f.f_globals.get("__name__", "").startswith("faith_jax.training") for f in frames):
            raise
        raise ConfigError(
            f"train.Optimization.optimizer: it fails in a first step ({reason(error)}); check the "
            "values that gin files give it."
        ) from error


def _drop_empty_split(evaluation: Evaluation) -> Evaluation:
    if evaluation.dataset is not None and evaluation.dataset.split is None:
        evaluation = dataclasses.replace(evaluation, dataset=None)
        logger.info("EVAL_SPLIT = None: nothing is measured; the newest checkpoints are kept")
    if evaluation.patience and evaluation.dataset is None:
        raise ConfigError(
            "PATIENCE looks at the loss on EVAL_SPLIT, which is None: set one of them."
        )
    return evaluation


def _check_datasets(
    config: TransformerConfig,
    train_dataset: DatasetConfig,
    eval_dataset: DatasetConfig | None,
    vocabulary: RunVocabulary,
    num_microbatches: int,
) -> Tokenizer:
    """Checks that model, data and vocabulary fit each other; returns the run's tokenizer."""
    if train_dataset.batch_size % num_microbatches:
        raise ConfigError(
            f"BATCH_SIZE = {train_dataset.batch_size} does not divide into NUM_MICROBATCHES = "
            f"{num_microbatches}."
        )

    def check(setting: str, dataset: DatasetConfig) -> Tokenizer:
        tokenizer = tokenizer_of(dataset.task(setting).output_features["targets"].vocabulary)
        vocabulary.check(config, tokenizer)
        if config.writes_text:
            check_layout(dataset, config)
        return tokenizer

    if eval_dataset is not None:
        check("EVAL_SPLIT", eval_dataset)
    tokenizer = check("TRAIN_SPLIT", train_dataset)
    if not has_texts(tokenizer) and vocabulary.carried is not None:
        tokenizer = vocabulary.carried  # the rows have ids of the checkpoint's vocabulary
    if train_dataset.pack and (config.encoder_prompt_length or config.decoder_prompt_length):
        raise ConfigError("Soft prompts cannot be trained on packed examples: set PACK = False.")
    return tokenizer


def _read_global_batches(rows: SplitRows, partitioner: Partitioner, start: int) -> Iterator[Batch]:
    """Yields global batches on the mesh, starting with the batch of step `start`."""
    size = rows.config.batch_size
    for batch in rows.training_batches(start, partitioner.local_rows(size)):
        yield partitioner.put_batch(batch, size)


@dataclasses.dataclass
class _Watcher:
    """Writes the metrics of a run, and measures loss and decoded metrics at their periods."""

    writer: MetricsWriter
    progress: Progress
    split: str
    prompt_starts: Starts
    trainer: Trainer
    frozen: PyTree
    evaluation: Evaluation
    evaluated: SplitRows | None
    decoded: DecodedEvaluation | None
    last_step: int
    learning_rate: Schedule | float | None
    losses: list[float]  # on the validation data
    last: dict[str, Any] = dataclasses.field(default_factory=dict)
    failure: MetricError | None = None

    def write_training_metrics(
        self, step: int, metrics: Metrics, params: PyTree, final: bool
    ) -> None:
        """Writes the metrics of a training step."""
        logged: dict[str, Any] = {name: np.asarray(v).tolist() for name, v in metrics.items()}
        logged |= prompt_movement(params, self.prompt_starts)
        if self.learning_rate is not None:  # the rate of the update from step - 1 to `step`
            rate = self.learning_rate
            logged["learning_rate"] = float(rate(step - 1) if callable(rate) else rate)
        for name in self.prompt_starts:
            # A warm-up starts with the rate 0, so the first step moves nothing.
            if logged[name + MOVED] == 0.0 and (step > 1 or final):
                logger.warning(
                    "step %d: %s has not moved from its start: is the learning rate 0?", step, name
                )
        self.writer.write(step, self.split, logged)
        self.progress.update(step, f"loss {logged['loss']:.4f}", force=final)

    def write_losses(self, step: int, params: PyTree, final: bool) -> Mapping[str, float] | None:
        """Writes and returns the losses if they are due: means over target tokens, in nats."""
        if self.evaluated is None or not (final or step % self.evaluation.period == 0):
            return None
        split = self.evaluated.config.split
        losses = dataset_loss(self.trainer, params, self.frozen, self.evaluated)
        logger.info("step %d  %s loss %.4f", step, split, losses["loss"])
        self._write_metrics(step, str(split), losses)
        self.losses.append(losses["loss"])
        if not final and self.has_converged():
            logger.info(
                "step %d  training ends: the %s loss has not fallen in %d measurements (PATIENCE)",
                *(step, split, self.evaluation.patience),
            )
        return losses

    def has_converged(self) -> bool:
        """Whether the loss on the validation data no longer falls."""
        return no_longer_falls(self.losses, self.evaluation.patience)

    def write_decoded_metrics(self, step: int, params: PyTree, final: bool) -> None:
        """Writes the task's metrics of decoded responses, if they are due.

        A metric's error is kept as `failure`, and training goes on so that its state is not lost.
        """
        is_due = final or self.evaluation.decodes_after(step, self.last_step)
        if self.evaluated is None or self.decoded is None or not is_due:
            return
        split = self.evaluated.config.split
        try:
            metrics = self.decoded.evaluate(merge_params(params, self.frozen))
        except MetricError as error:
            logger.error("step %d  %s", step, error)
            metrics = error.metrics | {FAILED: str(error)}
            self.failure = MetricError(f"Step {step}, whose state is saved: {error}.", metrics)
        metric_list = "  ".join(f"{name} {text_of(value)}" for name, value in metrics.items())
        logger.info("step %d  %s decoded  %s", step, split, metric_list)
        self._write_metrics(step, f"{split}{DECODED}", metrics)

    def _write_metrics(self, step: int, part: str, metrics: Mapping[str, Any]) -> None:
        self.writer.write(step, part, metrics)
        self.last |= metrics
