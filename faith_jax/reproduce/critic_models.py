"""The critics of FaithDial's transfer table: given by the user, or trained from one model."""

import dataclasses
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core import templates
from faith_jax.core.errors import ConfigError, FaithJaxError, InputError, did_you_mean
from faith_jax.core.labels import CriticLabel, DecodeLabel, NliLabel
from faith_jax.inference.label_probabilities import CRITIC_FORM, NLI_FORM, LabelForm
from faith_jax.inference.opening import open_tokenizer
from faith_jax.reproduce.trained_cells import train_recipe
from faith_jax.scoring.nli import faithful_class, nli_label_numbers

logger = logging.getLogger("faith_jax")

CRITIC_TABLE = "faith_critic"
RECIPE = "faith_critic_finetune.gin"
# Which sets the table is of: those of the authors' code, or ours beyond them.
PUBLISHED_SETS, OWN_SETS = "published", "own"
# Of an encoder-decoder, which writes the class.
WRITING_RECIPE = "faithdial_generate_finetune.gin"
# Appendix D: epochs, and the share of steps that the learning rate warms up for.
EPOCHS, WARMUP = 10, 0.06
BATCH_SIZE, MAX_LENGTH = 32, 256
_NO_CRITIC = (
    "expected an encoder (RoBERTa, DeBERTa) or an encoder-decoder that writes the class (T5), got "
    "a decoder-only model"
)
# The task that stands for one of the published sets.
_OWN = {"faith_critic": "faith_critic_all_edits", "begin_2021_classify": "begin_classify"}
_EVALUATIONS = 20  # of a training, as the recipe has them
_NLI = tuple(label.value for label in NliLabel)
_DECODE = tuple(label.value for label in DecodeLabel)
_NOT_CONTRADICTION = ("not_contradiction", "non_contradiction")


class TrainedOn(NamedTuple):
    """What a row's critic is trained on.

    Attributes:
      task: its task.
      classes: of its head.
      form: of an encoder-decoder that writes the class.
    """

    task: str
    classes: tuple[str, ...]
    form: LabelForm = NLI_FORM


ROWS = {
    "DECODE": TrainedOn("nli_decode", _DECODE, LabelForm(_DECODE, templates.nli_inputs)),
    "DNLI": TrainedOn("nli_dnli", _NLI),
    "MNLI": TrainedOn("nli_mnli", _NLI),
    "FaithCritic": TrainedOn(
        "faith_critic", (CriticLabel.UNFAITHFUL.value, CriticLabel.FAITHFUL.value), CRITIC_FORM
    ),
}


@dataclasses.dataclass(frozen=True)
class CriticTableOptions:
    """What the table is made of.

    Attributes:
      model: that critics are trained from; "" = rows without a critic are left out.
      critics: folders of classifiers by the row, of `ROWS`.
      vocabulary: of `model`, if it is not in its folder.
      sample: train and test on the samples in the package.
      sets: "published" = as the authors' code has them: BEGIN's first release without generic
        responses, FaithCritic with Wizard of Wikipedia's responses alone in its test split; "own" =
        BEGIN's second release, FaithCritic with edited responses in each split.
      train_steps: of each critic; 0 = ten epochs of its data.
      batch_size: rows of a step.
      max_length: tokens of a pair at most; premises are cut.
      resamples: of the intervals.
      seed: of them, and of trainings.
    """

    model: str = ""
    critics: Mapping[str, str] = dataclasses.field(default_factory=dict)
    vocabulary: str = ""
    sample: bool = False
    sets: str = PUBLISHED_SETS
    train_steps: int = 0
    batch_size: int = BATCH_SIZE
    max_length: int = MAX_LENGTH
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self):
        if not (self.model or self.critics):
            raise ConfigError(
                f"{CRITIC_TABLE} needs critics: give --critics=NAME=FOLDER, or --model=CHECKPOINT "
                "to train them from."
            )
        if self.sets not in (PUBLISHED_SETS, OWN_SETS):
            raise ConfigError(
                f"--sets: expected {PUBLISHED_SETS} or {OWN_SETS}, got {self.sets!r}."
                f"{did_you_mean(self.sets, (PUBLISHED_SETS, OWN_SETS))}"
            )
        for name, folder in self.critics.items():
            if name not in ROWS:
                raise ConfigError(
                    f"--critics: there is no row {name!r}.{did_you_mean(name, ROWS)} There are: "
                    f"{', '.join(ROWS)}."
                )
            if not checkpoint_path(folder).is_dir():
                raise ConfigError(f"--critics: {name}={folder}: no such folder.")
        for option, least in (("train_steps", 0), ("batch_size", 1), ("max_length", 8)):
            if getattr(self, option) < least:
                name = option.replace("_", "-")
                raise ConfigError(
                    f"--{name}: expected at least {least or 1}, got {getattr(self, option)}."
                )

    def task(self, name: str) -> str:
        """Returns the name of a task of these sets, or of its sample."""
        if self.sets == OWN_SETS:
            name = _OWN.get(name, name)
        return f"{name}_sample" if self.sample else name


def check_critics(options: CriticTableOptions) -> None:
    """Finds what is wrong with the critics that are given before any is trained.

    It opens files alone: the accelerator stays free for the trainings.

    Raises:
      FaithJaxError: for a folder that is no classifier with the row's classes and a tokenizer.
    """
    if options.model and open_checkpoint(options.model).config.is_decoder_only:
        raise ConfigError(f"--model: {options.model}: {_NO_CRITIC}.")
    for row, folder in options.critics.items():
        try:
            config = open_checkpoint(folder).config
            open_tokenizer(folder, None, config)
        except FaithJaxError as error:
            raise ConfigError(f"--critics: {row}: {error}") from None
        if config.is_encoder_only:
            faithful_number(row, config.label_names)
        elif config.is_decoder_only:
            raise ConfigError(f"--critics: {row}: {folder}: {_NO_CRITIC}.")


def trained_critics(
    folder: pathlib.Path, options: CriticTableOptions
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the critics' folders by row, and of the rows that are left out the reasons.

    Args:
      folder: where FOLDER/<row>/train are.
      options: what is given, and what the rest is trained from.

    Raises:
      FaithJaxError: where a training ends with a user's mistake.
      ProcessError: where it ends otherwise.
    """
    found, missing = {}, {}
    for row, trained_on in ROWS.items():
        if row in options.critics:
            found[row] = options.critics[row]
        elif not options.model:
            missing[row] = "no critic is given (--critics, or --model)"
        else:
            try:
                count = _training_rows(options.task(trained_on.task))
            except InputError as problem:
                missing[row] = str(problem).partition(". ")[0]
                logger.warning("%s is left out: %s", row, missing[row])
                continue
            writes = _writes(options.model)
            bindings = training_bindings(row, count, options, writes)
            logger.info("%s: training on %s pairs", row, f"{count:,}")
            recipe = WRITING_RECIPE if writes else RECIPE
            found[row] = str(train_recipe(recipe, bindings, folder / row / "train"))
    return found, missing


def training_bindings(
    row: str, count: int, options: CriticTableOptions, writes: bool = False
) -> dict[str, Any]:
    """Returns what the recipe is given for a row.

    Args:
      row: of `ROWS`.
      count: how many pairs it trains on.
      options: what is given.
      writes: whether the model writes the class.
    """
    steps = options.train_steps or -(-EPOCHS * count // options.batch_size)
    period = max(1, steps // _EVALUATIONS)
    of_kind: dict[str, Any] = {"DECODING": None} if writes else {"LABEL_NAMES": ROWS[row].classes}
    return of_kind | {
        "INITIAL_CHECKPOINT_PATH": options.model,
        "VOCABULARY": options.vocabulary or None,
        "MIXTURE_OR_TASK_NAME": options.task(ROWS[row].task),
        "TASK_FEATURE_LENGTHS": {"inputs": options.max_length, "targets": 8},
        "TRAIN_STEPS": steps,
        "WARMUP_STEPS": round(WARMUP * steps),
        "BATCH_SIZE": options.batch_size,
        "EVAL_PERIOD": period,
        "CHECKPOINT_PERIOD": period,
        "RANDOM_SEED": options.seed,
    }


def _writes(model: str) -> bool:
    """Returns whether a model writes the class, as it has no head."""
    return not open_checkpoint(model).config.is_encoder_only


def _training_rows(task: str) -> int:
    """Counts the pairs that a task makes; raises an InputError where its data is not at hand."""
    import numpy as np

    from faith_jax.tasks import lookup

    found = lookup.get_task(task)
    lookup.check_split(found, "train")
    pairs = found.get_dataset(None, "train", shuffle=False)
    return int(pairs.reduce(np.int64(0), lambda number, _: number + 1))


def faithful_number(row: str, names: Sequence[str]) -> int:
    """Returns the number of the class by which a row's critic calls a pair faithful.

    Args:
      row: of `ROWS`.
      names: the classes of its critic, in order.

    Raises:
      ConfigError: for another number of classes than the row's data has, and for names that do not
        tell which is which.
    """
    where, wanted = f"--critics: {row}", ROWS[row].classes
    if len(names) != len(wanted):
        raise ConfigError(
            f"{where}: the model has {len(names)} classes ({', '.join(names)}); expected "
            f"{len(wanted)}: {', '.join(wanted)}."
        )
    try:
        if wanted == _NLI:
            return nli_label_numbers(names)[NliLabel.ENTAILMENT]
        if row != "DECODE":
            return faithful_class(names)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    cleaned = [name.strip().lower().replace("-", "_").replace(" ", "_") for name in names]
    for number, name in enumerate(cleaned):
        if name in _NOT_CONTRADICTION or cleaned[1 - number] == DecodeLabel.CONTRADICTION.value:
            return number
    raise ConfigError(
        f"{where}: the model's classes are named {', '.join(names)}; expected {', '.join(wanted)}."
    )
