"""The run `train`: from a gin config to checkpoints, metrics and a trained model in MODEL_DIR.

A run killed at any point and started again ends in the same place, bit for bit on one platform:
batches, dropout and prompts are functions of the config, its seed and the step.
"""

import contextlib
import logging
import pathlib
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import optax

from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.native import MODEL_JSON, write_model_json
from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.progress import Progress
from faith_jax.core.types import PyTree
from faith_jax.decoding.config import DecodingConfig
from faith_jax.input.task_batches import DatasetConfig, SplitRows, check_layout
from faith_jax.models.partitioning import Partitioner, make_partitioner
from faith_jax.models.soft_prompt import PromptInitializer, initializer_name
from faith_jax.models.transformer import Transformer
from faith_jax.runs import preflight, setup
from faith_jax.runs.decoded_evaluation import DecodedEvaluation
from faith_jax.runs.evaluate import dataset_loss
from faith_jax.runs.former_run import check_former_run, initial_checkpoint, write_config
from faith_jax.runs.prompt_start import Starts, prompt_starts
from faith_jax.tokenizers.carried import RunVocabulary, check_kept_vocabulary, keep_vocabulary
from faith_jax.tokenizers.vocabularies import tokenizer_of, with_own_vocabulary
from faith_jax.training.checkpoints import TrainCheckpoints, newest_step
from faith_jax.training.metrics import MetricsWriter
from faith_jax.training.objectives import Objective
from faith_jax.training.prompt_metrics import MOVED, prompt_movement, trained_prompts
from faith_jax.training.trainer import Trainer, TrainState, merge_params, split_params

logger = logging.getLogger("faith_jax")

ROWS = "rows"  # the folder in MODEL_DIR that keeps the data's rows until training ends


class Stopped(Exception):
    """The run was asked to stop (SIGTERM); its state is saved."""


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

    What the run will read is counted and said before its first step (`faith_jax.runs.preflight`),
    and written to `model_dir`/preflight.json.

    Args:
      model: the module, soft prompts included.
      model_dir: where everything of this run is written; a run found there is gone on with.
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
      dry_run: only say what the run would read; its preflight.json then lies beside `model_dir`,
        under that folder's name with `.preflight.json` behind it.

    Returns:
      The last evaluation's metrics.

    Raises:
      Stopped: after a SIGTERM, when the state is saved.
      FaithJaxError: on a wrong setting, input or checkpoint.
    """
    chosen = RunVocabulary.choose(vocabulary, initial_checkpoint_path, "INITIAL_CHECKPOINT_PATH")
    if num_microbatches > 0 and train_dataset.batch_size % num_microbatches:
        raise ConfigError(
            f"BATCH_SIZE = {train_dataset.batch_size} does not divide into NUM_MICROBATCHES = "
            f"{num_microbatches}."
        )
    objective = setup.objective_of(model.config, objective)
    if decoding is not None:
        setup.check_generates(model.config)
    run = _Run(model, model_dir, partitioner_for, train_dataset, eval_dataset, chosen)
    params, base = setup.initial_params(
        model, run.partitioner, initial_checkpoint_path, seed, prompt_initializer
    )
    trained, frozen = split_params(params, trainable)
    is_frozen = bool(jax.tree.leaves(frozen))
    if is_frozen and base is None:
        raise ConfigError(
            "TRAINABLE leaves parameters frozen at random values: set INITIAL_CHECKPOINT_PATH."
        )
    trainer = Trainer(model, objective, optimizer, run.partitioner, seed, num_microbatches)
    # Nothing is written before all settings are checked, and nothing where nothing is trained.
    objective.check(model, train_dataset.further_features)
    TrainCheckpoints.check(run.folder, keep_last, keep_best)
    run.check_former(base, is_frozen)
    done = newest_step(run.folder)
    if done is not None and done >= total_steps and not dry_run:
        logger.warning(
            "Nothing to train: %s has a checkpoint of step %d, TRAIN_STEPS = %d",
            run.folder,
            done,
            total_steps,
        )
        return {}
    with contextlib.nullcontext() if dry_run else setup.new_folder(model_dir):
        rows, evaluation = run.rows(train_dataset, not dry_run), None
        if eval_dataset is not None:
            evaluated = run.rows(eval_dataset, not dry_run)
            evaluation = _Evaluation(
                trainer, frozen, evaluated, decoding, eval_period, decoded_eval_period
            )
        state = trainer.init_state(trained)
        run.preflight(trainer, state, frozen, rows, total_steps, evaluation, dry_run)
    if dry_run:
        return {}
    prompts = trained_prompts(trained)
    checkpoints = TrainCheckpoints(run.folder / "checkpoints", keep_last, keep_best)
    if done is not None:
        state = checkpoints.restore(state)
        logger.info("Going on from step %d of %s", int(state.step), run.folder)
    run.describe(base, is_frozen)
    origin = {"initializer": initializer_name(prompt_initializer), "seed": str(seed)}
    starts = prompt_starts(run.folder, prompts, origin, done is not None)
    start = int(state.step)
    logger.info(
        "Training %s of %s parameters on %s, %s a batch",
        f"{setup.count_params(trained):,}",
        f"{setup.count_params(params):,}",
        counted(jax.device_count(), "device"),
        counted(train_dataset.batch_size, "row"),
    )
    writer = MetricsWriter(run.folder if jax.process_index() == 0 else None, start)
    last: dict[str, float] = {}
    try:
        with _termination() as stop:
            size = train_dataset.batch_size
            batches = rows.training_batches(start, run.partitioner.local_rows(size))
            progress = Progress("step", total_steps, start)
            for step in range(start + 1, total_steps + 1):
                batch = run.partitioner.put_batch(next(batches), size)
                state, metrics = trainer.train_step(state, frozen, batch)
                final = step == total_steps
                if final or step % log_period == 0:
                    loss = float(metrics["loss"])
                    logged = {k: np.asarray(v).tolist() for k, v in metrics.items()}
                    logged |= _prompt_movement(state.params, starts, step)
                    writer.write(step, train_dataset.split, logged)
                    progress.update(step, f"loss {loss:.4f}", force=final)
                    _require_finite(loss, step)
                measured = evaluation.measure(step, final, state.params) if evaluation else {}
                for part, values in measured.items():
                    writer.write(step, part, values)
                    last |= values
                stopping = stop(step)
                if final or stopping or step % checkpoint_period == 0:
                    checkpoints.save(
                        state, measured.get(eval_dataset.split if eval_dataset else "")
                    )
                if stopping and not final:
                    checkpoints.wait()
                    raise Stopped(f"Stopped at step {step}; run the same command to go on.")
        checkpoints.wait()
        if jax.process_index() == 0:
            shutil.rmtree(run.folder / ROWS, ignore_errors=True)
        logger.info("%s compiled", counted(trainer.num_compilations, "program"))
        best = checkpoints.best_step()
        if best is not None:
            logger.info("Lowest validation loss: %s", run.folder / "checkpoints" / str(best))
    finally:
        writer.close()
        checkpoints.close()
    return last


class _Run:
    """The folder, the mesh and the data of a run, checked before anything long begins."""

    def __init__(
        self,
        model: Transformer,
        model_dir: str,
        partitioner_for: Callable[..., Partitioner],
        train_dataset: DatasetConfig,
        eval_dataset: DatasetConfig | None,
        vocabulary: RunVocabulary,
    ):
        self.partitioner = partitioner_for(model.config)
        for dataset in (train_dataset, eval_dataset):
            if dataset is not None:
                targets = dataset.task().output_features["targets"]
                vocabulary.check(model.config, tokenizer_of(targets.vocabulary))
                if not model.config.is_encoder_only:
                    check_layout(dataset, model.config)
        targets = train_dataset.task().output_features["targets"]
        self._vocabulary = tokenizer_of(targets.vocabulary)
        prompts = model.config.encoder_prompt_length or model.config.decoder_prompt_length
        if train_dataset.pack and prompts:
            raise ConfigError(
                "Soft prompts cannot be trained on packed examples: set PACK = False."
            )
        self._model = model
        self.folder = pathlib.Path(model_dir).expanduser()

    def rows(self, dataset: DatasetConfig, kept: bool) -> SplitRows:
        """Returns a split's rows; where they are kept, a run that goes on finds them again."""
        return SplitRows(dataset, self._model.config, self.folder / ROWS if kept else None)

    def preflight(
        self,
        trainer: Trainer,
        state: TrainState,
        frozen: PyTree,
        rows: SplitRows,
        steps: int,
        evaluation: "_Evaluation | None",
        dry_run: bool,
    ) -> None:
        """Says what the run will read and what a step costs; compiles the step."""
        report = preflight.training_report(
            rows, steps, evaluation.rows if evaluation else None, self._vocabulary
        )
        size = rows.config.batch_size
        batch = next(rows.training_batches(0, self.partitioner.local_rows(size)))
        report["model"] = {
            "trained": setup.count_params(state.params),
            "frozen": setup.count_params(frozen),
            **trainer.step_cost(state, frozen, self.partitioner.put_batch(batch, size)),
        }
        if jax.process_index() == 0:
            beside = self.folder.with_name(self.folder.name + ".preflight.json")
            path = beside if dry_run else self.folder / "preflight.json"
            preflight.tell(report, path, dry_run)

    def check_former(self, base: setup.BaseModel | None, frozen: bool) -> None:
        """Checks that MODEL_DIR holds no other run; arguments as for `check_former_run`."""
        check_former_run(self.folder, self._model.config, base, frozen)
        # The vocabulary is whole where model.json, which is written behind it, is there.
        if (self.folder / MODEL_JSON).exists():
            check_kept_vocabulary(self._vocabulary, self.folder)

    def describe(self, base: setup.BaseModel | None, frozen: bool) -> None:
        """Writes model.json, the vocabulary and the config in force into MODEL_DIR.

        Args:
          base: the checkpoint that the run began with, if there is one.
          frozen: whether it stays, in part, as it is.
        """
        if jax.process_index() != 0:
            return
        keep_vocabulary(self._vocabulary, self.folder)
        described = None
        if base and frozen:
            described = {"path": base.path, "content_hash": base.content_hash}
        family = "" if base is None else base.family
        metadata = initial_checkpoint(base)
        checkpoint = Checkpoint(self._model.config, {}, metadata, family, described)
        write_model_json(self.folder, checkpoint)
        write_config(self.folder)


class _Evaluation:
    """Loss and decoded metrics of the model as it is trained, at their periods."""

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


def _prompt_movement(params: PyTree, starts: Starts, step: int) -> dict[str, Any]:
    """`prompt_movement`, with a warning where there is none."""
    movement = prompt_movement(params, starts)
    for name in starts:
        if movement[name + MOVED] == 0.0:
            logger.warning(
                "step %d: %s has not moved from its start: is the learning rate 0?", step, name
            )
    return movement


def _require_finite(loss: float, step: int) -> None:
    if not np.isfinite(loss):
        raise FloatingPointError(
            f"The loss is {loss} at step {step}; lower LEARNING_RATE or clip the gradient."
        )


@contextlib.contextmanager
def _termination() -> Iterator[Callable[[int], bool]]:
    """Turns SIGTERM into a question asked after each step: are we to stop?

    With several processes JAX's own handler makes all of them stop at the same step.
    """
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        yield multihost_utils.reached_preemption_sync_point
        return
    asked = []
    try:
        before = signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    except ValueError:  # not in the main thread: nobody can send us signals
        yield lambda step: False
        return
    try:
        yield lambda step: bool(asked)
    finally:
        signal.signal(signal.SIGTERM, before)
