"""The systems of FaithDial's tables 5 and 8: a model, how it is trained, and on what (Dziri 2022).

- Methods: cross-entropy, control tokens (CTRL), loss truncation and InfoNCE, each by the recipe of
  `gin_configs` that has it. The model named `doha` is trained by DoHA's, with cross-entropy alone.
- Training data: Wizard of Wikipedia, FaithDial, or the former and then the latter, from the
  checkpoint with the lowest validation loss. Responses of Wizard of Wikipedia have no unfaithful
  ones to contrast with, so that InfoNCE begins there with cross-entropy.
- Table 8 compares zero-shot responses to Topical-Chat and CMU-DoG with those of a model trained
  there by cross-entropy, which responds to nothing else.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.errors import ConfigError, did_you_mean
from faith_jax.runs.score_input import dataset_rows
from faith_jax.runs.trained_cells import check_training, train_recipe
from faith_jax.training.checkpoints import TrainCheckpoints, newest_step

CROSS_ENTROPY, CTRL, INFONCE = "cross_entropy", "ctrl", "infonce"
LOSS_TRUNCATION = "loss_truncation"
RECIPES = {
    CROSS_ENTROPY: "faithdial_generate_finetune.gin",
    CTRL: "faithdial_generate_ctrl.gin",
    LOSS_TRUNCATION: "faithdial_generate_loss_truncation.gin",
    INFONCE: "faithdial_generate_infonce.gin",
}
# The name of the model that a BART is made a DoHA for, and its recipe.
DOHA = "doha"
_RECIPES = {**RECIPES, DOHA: "faithdial_generate_doha.gin"}
# The paper's, in its order, and FaithDial's dialogues with Wizard of Wikipedia's responses.
TRAINED_ON = ("wow", "faithdial", "wow_then_faithdial")
FAITHDIAL_WOW = "faithdial_wow"
# Each is responded to by its own models, by cross-entropy, as by those of other data.
IN_DOMAIN = ("topical_chat", "cmu_dog")
_TASKS = {
    "wow": "wizard_of_wikipedia_generate",
    "faithdial": "faithdial_generate",
    FAITHDIAL_WOW: "faithdial_generate_wow",
    "topical_chat": "topical_chat_generate",
    "cmu_dog": "cmu_dog_generate",
}
# Where it is not `validation`: of topics that training has not.
_VALIDATION = {"wow": "validation_unseen", "topical_chat": "validation_rare"}
# How long the recipes train, and what of this goes by without dropping an example.
_RECIPE_STEPS, _TRUNCATION_WARMUP = 5736, 313
_BATCH_SIZE, _LEAST_PERIOD = 32, 10


class _Schedule(NamedTuple):
    """Epochs of a recipe, the share of its steps to warm up, and the pieces of its batches."""

    epochs: int = 10
    warmup: float = 0.04
    pieces: int = 1


_SCHEDULES = {DOHA: _Schedule(25, 0.1, 8), INFONCE: _Schedule(pieces=4)}


class System(NamedTuple):
    """One trained model.

    Attributes:
      model: the name of what it starts from.
      method: of `RECIPES`.
      trained_on: of `TRAINED_ON` and `IN_DOMAIN`, or `FAITHDIAL_WOW`.
      seed: of training and sampling.
    """

    model: str
    method: str
    trained_on: str
    seed: int

    @property
    def name(self) -> str:
        """The model and its method, as the table has it."""
        return self.model if self.method == CROSS_ENTROPY else f"{self.model}_{self.method}"

    @property
    def is_possible(self) -> bool:
        """Whether there is data for it, and the paper has it or something like it."""
        if self.model == DOHA or self.trained_on in IN_DOMAIN:
            return self.method == CROSS_ENTROPY
        if self.method == INFONCE:
            return self.trained_on in ("faithdial", "wow_then_faithdial")
        return not (self.method == CTRL and self.trained_on == FAITHDIAL_WOW)

    def is_tested_on(self, corpus: str) -> bool:
        """Whether it responds to a data set."""
        return self.trained_on not in IN_DOMAIN or self.trained_on == corpus


@dataclasses.dataclass(frozen=True)
class Training:
    """How systems are trained; None = as the recipe has it.

    Attributes:
      steps: of each training; None = 10 epochs of the paper's data, of DoHA 25.
      batch_size: rows.
      learning_rate: its peak.
      input_length: tokens of an input at most.
      target_length: tokens of a response at most.
      negatives: of a row at most.
      vocabulary: the models' tokenizer, if it is not with them.
      sample: of the samples in the package.
    """

    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    input_length: int = 512
    target_length: int = 256
    negatives: int = 8
    vocabulary: str = ""
    sample: bool = False

    def bindings(self, method: str, data: str, initial: str, seed: int) -> dict[str, Any]:
        """Returns the gin macros of one training.

        Args:
          method: of `RECIPES`, or `DOHA`.
          data: "wow", "faithdial", `FAITHDIAL_WOW` or one of `IN_DOMAIN`.
          initial: the checkpoint to start from.
          seed: of the training.
        """
        lengths: dict[str, Any] = {"inputs": self.input_length, "targets": self.target_length}
        if method == INFONCE:
            lengths["negatives"] = (self.negatives, min(64, self.target_length))
        found: dict[str, Any] = {
            "INITIAL_CHECKPOINT_PATH": initial,
            "MIXTURE_OR_TASK_NAME": task_of(method, data, self.sample),
            "TASK_FEATURE_LENGTHS": lengths,
            "RANDOM_SEED": seed,
            "DECODING": None,
        }
        if data in _VALIDATION:
            found["eval_split/datasets.DatasetConfig.split"] = _VALIDATION[data]
        if self.vocabulary:
            found["VOCABULARY"] = self.vocabulary
        if self.learning_rate is not None:
            found["LEARNING_RATE"] = self.learning_rate
        if self.batch_size is not None:
            found["BATCH_SIZE"] = self.batch_size
            if (pieces := _schedule(method).pieces) > 1:
                found["NUM_MICROBATCHES"] = math.gcd(pieces, self.batch_size)
        if self.steps is not None:
            found |= _of_steps(method, self.steps)
        elif data in ("wow", *IN_DOMAIN):
            rows = _schedule(method).epochs * _count(found["MIXTURE_OR_TASK_NAME"])
            found |= _of_steps(method, math.ceil(rows / (self.batch_size or _BATCH_SIZE)))
        return found


def _schedule(method: str) -> _Schedule:
    return _SCHEDULES.get(method, _Schedule())


def _of_steps(method: str, steps: int) -> dict[str, Any]:
    schedule = _schedule(method)
    period = max(steps // (2 * schedule.epochs), min(steps, _LEAST_PERIOD))
    found = {
        "TRAIN_STEPS": steps,
        "WARMUP_STEPS": round(schedule.warmup * steps),
        "EVAL_PERIOD": period,
        "CHECKPOINT_PERIOD": period,
    }
    if method == LOSS_TRUNCATION:
        warmup = round(_TRUNCATION_WARMUP / _RECIPE_STEPS * steps)
        found["TRUNCATION_WARMUP_STEPS"] = max(1, warmup)
    return found


@functools.cache
def _count(task: str) -> int:
    return sum(1 for _ in dataset_rows(task, "", "train"))


def task_of(method: str, data: str, sample: bool) -> str:
    """Returns the task that a method is trained on.

    >>> task_of("ctrl", "wow", True)
    'wizard_of_wikipedia_generate_ctrl_sample'
    """
    variant = f"_{method}" if method in (CTRL, INFONCE) else ""
    return f"{_TASKS[data]}{variant}{'_sample' if sample else ''}"


def stages(system: System) -> Iterator[tuple[str, str]]:
    """Yields method and data of each training of a system.

    >>> list(stages(System("t5", "infonce", "wow_then_faithdial", 0)))
    [('cross_entropy', 'wow'), ('infonce', 'faithdial')]
    >>> list(stages(System("doha", "cross_entropy", "faithdial", 0)))
    [('doha', 'faithdial')]
    """
    method = DOHA if system.model == DOHA else system.method
    if system.trained_on == "wow_then_faithdial":
        yield (CROSS_ENTROPY if method == INFONCE else method), "wow"
        yield method, "faithdial"
    else:
        yield method, system.trained_on


def trained_system(
    system: System, models: Mapping[str, str], folder: pathlib.Path, training: Training
) -> pathlib.Path:
    """Trains a system, or finds that it is trained; returns its best checkpoint.

    Systems that begin with the same training on Wizard of Wikipedia share it.

    Args:
      system: which.
      models: the checkpoints by the models' names.
      folder: of all trainings.
      training: how.

    Raises:
      FaithJaxError: see `train_recipe`.
    """
    place = folder
    for recipe, bindings, place in _trainings(system, models, folder, training):
        train_recipe(recipe, bindings, place)
    return best_checkpoint(place)


def check_trainings(
    system: System, models: Mapping[str, str], folder: pathlib.Path, training: Training
) -> None:
    """Checks the trainings of a system that have begun; arguments as for `trained_system`.

    Raises:
      ConfigError: for one of other settings.
    """
    for recipe, bindings, place in _trainings(system, models, folder, training):
        if check_training(recipe, bindings, place) is None:
            return


def _trainings(
    system: System, models: Mapping[str, str], folder: pathlib.Path, training: Training
) -> Iterator[tuple[str, dict[str, Any], pathlib.Path]]:
    """Yields recipe, bindings and folder of each training; one begins where the former ended."""
    initial = models[system.model]
    for number, (method, data) in enumerate(stages(system)):
        name = f"{method}_{'wow_then_' if number else ''}{data}"
        place = folder / system.model / f"seed_{system.seed}" / name
        yield _RECIPES[method], training.bindings(method, data, initial, system.seed), place
        initial = str(best_checkpoint(place))


def check_doha(option: str, path: str, is_trained: bool = False) -> None:
    """Checks that a checkpoint becomes a DoHA, or is one.

    Args:
      option: that it was given by, for messages.
      path: any known form, or MODEL_DIR.
      is_trained: whether it is to be one already.

    Raises:
      ConfigError: where it does not.
      CheckpointError: where it cannot be read.
    """
    checkpoint = open_checkpoint(path)
    if checkpoint.config.knowledge_attention:
        return
    if is_trained:
        raise ConfigError(
            f"{option}: {path}: has no attention over the knowledge, so that it is no DoHA; train "
            f"one with {_RECIPES[DOHA]}."
        )
    if checkpoint.family != "bart":
        raise ConfigError(
            f"{option}: {path}: DoHA is made of a BART, but this is "
            f"{checkpoint.family or 'another model'}; give a BART or a trained DoHA."
        )


def best_checkpoint(folder: pathlib.Path) -> pathlib.Path:
    """Returns a training's checkpoint with the lowest validation loss, or the newest.

    Args:
      folder: MODEL_DIR.

    Raises:
      ConfigError: where it has no checkpoint.
    """
    if newest_step(folder) is None:
        raise ConfigError(f"{folder}: has no checkpoint; remove it, and it is trained again.")
    checkpoints = TrainCheckpoints(folder / "checkpoints")
    try:
        step = checkpoints.best_step()
    finally:
        checkpoints.close()
    return folder / "checkpoints" / str(newest_step(folder) if step is None else step)


def check_names(option: str, names: Mapping[str, Any] | tuple[str, ...], known: Any) -> None:
    """Checks names of methods, data or models.

    Raises:
      ConfigError: for an unknown one, and where there is none at all.
    """
    if not names:
        raise ConfigError(f"--{option}: expected at least one of {', '.join(known)}.")
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--{option}: there is no {name!r}.{did_you_mean(name, known)} There are: "
                f"{', '.join(known)}."
            )
