"""Classifiers trained on ANLI with fewer dialogue phrases, one for each draw, kept in folders.

DRAW/run is the training's MODEL_DIR; DRAW/trained.json says that it is done, and which step counts.
"""

import dataclasses
import json
import logging
import pathlib
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import (
    SETTINGS,
    as_json,
    check_same,
    checkpoint_state,
    read_settings_file,
    write_settings,
    write_text,
)
from faith_jax.datasets.augmentation.dialogue_phrases import PHRASES, phrase_draw
from faith_jax.datasets.raw.true_benchmark import AVERAGED, CORPORA
from faith_jax.reproduce.nli_methods import BASE, NLI_PHRASES, ModelOptions, check_base, check_names

logger = logging.getLogger("faith_jax")

RECIPE = "nli_anli_augmented_finetune.gin"
AUGMENTED_TASK = "nli_anli_augmented"
_TRAINED = "trained.json"
_RUN = "run"
_WARM_UP = 0.06  # of the steps (Steen 2023, table 7)
_EVALUATIONS = 10  # of a training, each with a checkpoint
# What gin calls its settings, and what the command does.
_OPTIONS = {
    "INITIAL_CHECKPOINT_PATH": "--model",
    "TRAIN_STEPS": "--train-steps",
    "BATCH_SIZE": "--batch-size",
    "LEARNING_RATE": "--learning-rate",
    "VOCABULARY": "--scorer-option=base.vocabulary",
    "LABEL_NAMES": "--scorer-option=base.labels",
}


@dataclasses.dataclass(frozen=True)
class PhraseOptions:
    """What table 5 is made of; the training's numbers are the recipe's.

    Attributes:
      models: see `ModelOptions`: Base, and perhaps the model trained on all phrases.
      draws: how many sets of phrases are drawn.
      phrases: in each.
      corpora: of TRUE.
      sample: the samples in the package, in place of the corpora and of ANLI.
      train_task: "" = ANLI, or its sample; `nli_anli_augmented` or a mixture with it.
      train_steps: of each draw.
      batch_size: rows of a step.
      learning_rate: its peak.
      max_input_length: tokens of a row in training.
      seed: of draws, of their training and of the dropout.
    """

    models: ModelOptions
    draws: int = 10
    phrases: int = 5
    corpora: tuple[str, ...] = AVERAGED
    sample: bool = False
    train_task: str = ""
    train_steps: int = 2000
    batch_size: int = 64
    learning_rate: float = 5e-6
    max_input_length: int = 512
    seed: int = 0

    def __post_init__(self):
        check_base(NLI_PHRASES, self.models)
        check_names("corpora", self.corpora, tuple(CORPORA))
        for name in ("draws", "train_steps", "batch_size"):
            if getattr(self, name) < 1:
                option = name.replace("_", "-")
                raise ConfigError(
                    f"--{option}: expected a positive number, got {getattr(self, name)}."
                )
        if not 1 <= self.phrases <= len(PHRASES):
            raise ConfigError(
                f"--phrases: expected 1 to {len(PHRASES)}, the paper's, got {self.phrases}."
            )
        if self.max_input_length < 8:
            raise ConfigError(
                f"--max-input-length: expected at least 8 tokens, got {self.max_input_length}."
            )
        if not self.learning_rate > 0:
            raise ConfigError(f"--learning-rate: expected more than 0, got {self.learning_rate}.")

    @property
    def task(self) -> str:
        """The task that is trained on."""
        return self.train_task or f"{AUGMENTED_TASK}{'_sample' if self.sample else ''}"

    def phrases_of(self, number: int) -> tuple[str, ...]:
        """Returns the phrases of a draw."""
        return phrase_draw(number, self.phrases, self.seed)

    def settings(self) -> dict[str, Any]:
        """Returns what decides the trained models and their scores."""
        base = self.models.models[BASE]
        told = {
            "model": str(pathlib.Path(base["model"]).expanduser().absolute()),
            "state of the model's files": checkpoint_state(base["model"]),
            "scorer-option": {n: value for n, value in base.items() if n != "model"},
            "dropout-passes": self.models.dropout_passes,
            "train-task": self.task,
        }
        for name in ("phrases", "train_steps", "batch_size", "learning_rate", "max_input_length"):
            told[name.replace("_", "-")] = getattr(self, name)
        return as_json(told | {"seed": self.seed, "sample": self.sample})


def draw_folder(folder: pathlib.Path, number: int) -> pathlib.Path:
    """Returns where a draw is kept."""
    return folder / f"draw_{number}"


def check_task(task: str) -> None:
    """Refuses a task that has no dialogue phrases.

    Raises:
      ConfigError: naming the option.
    """
    from faith_jax.tasks import lookup

    try:
        found = lookup.get_task(task)
    except ConfigError as error:
        raise ConfigError(f"--train-task: {error}") from None
    parts = {part.name for part in getattr(found, "tasks", [found])}
    if not parts & {AUGMENTED_TASK, f"{AUGMENTED_TASK}_sample"}:
        raise ConfigError(
            f"--train-task: {task} has no dialogue phrases; give {AUGMENTED_TASK}, or a mixture "
            "with it."
        )


def check_settings(folder: pathlib.Path, options: PhraseOptions) -> None:
    """Refuses a folder with draws of other settings, and notes these.

    Raises:
      ConfigError: naming what differs.
    """
    path, now = folder / SETTINGS, options.settings()
    if path.exists() and any(folder.glob("draw_*")):
        check_same(folder, read_settings_file(path), now, "draws")
    write_settings(folder, now)


def trained_draw(folder: pathlib.Path, number: int, options: PhraseOptions) -> str:
    """Returns the checkpoint of a draw; trains it, or goes on with it, where it is not done.

    Args:
      folder: of the draw.
      number: of the draw.
      options: see there.

    Raises:
      Stopped: after a SIGTERM, when the state is saved.
      FaithJaxError: on what training does not take.
    """
    path = folder / _TRAINED
    if not path.exists():
        phrases = options.phrases_of(number)
        logger.info("draw %d: training with %s", number, "; ".join(phrases))
        _train(folder / _RUN, phrases, options)
        told = {"phrases": phrases, "step": _best_step(folder / _RUN)}
        write_text(path, json.dumps(told, indent=1) + "\n")
    try:
        step = json.loads(path.read_text(encoding="utf-8"))["step"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{path}: not readable; remove {folder}, and it is made again.") from None
    return str(folder / _RUN / "checkpoints" / str(step))


def _train(model_dir: pathlib.Path, phrases: tuple[str, ...], options: PhraseOptions) -> None:
    """Runs the recipe; leaves gin without bindings."""
    import gin

    from faith_jax.runs import gin_config
    from faith_jax.runs.train import train

    base = options.models.models[BASE]
    period = max(1, options.train_steps // _EVALUATIONS)
    values = {
        "INITIAL_CHECKPOINT_PATH": base["model"],
        "MODEL_DIR": str(model_dir),
        "MIXTURE_OR_TASK_NAME": options.task,
        "PHRASES": phrases,
        "TRAIN_STEPS": options.train_steps,
        "WARMUP_STEPS": round(_WARM_UP * options.train_steps),
        "BATCH_SIZE": options.batch_size,
        "LEARNING_RATE": options.learning_rate,
        "TASK_FEATURE_LENGTHS": {"inputs": options.max_input_length, "targets": 8},
        "EVAL_PERIOD": period,
        "CHECKPOINT_PERIOD": period,
        "KEEP_LAST": 1,
        "RANDOM_SEED": options.seed,
    }
    if base.get("vocabulary"):
        values["VOCABULARY"] = base["vocabulary"]
    if base.get("labels"):
        values["LABEL_NAMES"] = _names(base["labels"])
    try:
        gin_config.parse([RECIPE], [f"{name}={value!r}" for name, value in values.items()])
        gin_config.run(train)
    except ConfigError as error:
        told = str(error)
        for macro, option in _OPTIONS.items():
            told = told.replace(macro, option)
        raise ConfigError(told) from None
    finally:
        gin.clear_config()


def _names(labels: Any) -> tuple[str, ...]:
    given = labels.split(",") if isinstance(labels, str) else labels
    return tuple(name.strip().lower() for name in given)


def _best_step(model_dir: pathlib.Path) -> int:
    """Returns the step with the lowest loss on the augmented validation data."""
    from faith_jax.training.checkpoints import TrainCheckpoints

    checkpoints = TrainCheckpoints(model_dir / "checkpoints")
    best = checkpoints.best_step()
    step = checkpoints.latest_step() if best is None else best
    checkpoints.close()
    if step is None:
        raise ConfigError(f"{model_dir}: has no checkpoint; remove it, and it is trained again.")
    return step
