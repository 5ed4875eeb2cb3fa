"""Steen 2023's table 5: does it matter which phrases a classifier is trained on?

`nli_phrases.smk` trains the base once for each draw of phrases, and scores TRUE by each and by the
base itself, all by e-c with Monte-Carlo dropout.
"""

import dataclasses
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from faith_jax.core.errors import ConfigError, counted
from faith_jax.datasets.augmentation.dialogue_phrases import PHRASES, phrase_draw
from faith_jax.datasets.raw.true_benchmark import AVERAGED
from faith_jax.reproduce import nli_tables
from faith_jax.reproduce.nli import BASE, CorporaTable, Method, ModelOptions
from faith_jax.reproduce.nli_tables import AVERAGE
from faith_jax.reproduce.workflow import Training
from faith_jax.statistics.roc import roc_auc

_TASK = "nli_anli_augmented"
_WARM_UP = 0.06  # of the steps (Steen 2023, table 7)
_EVALUATIONS = 10  # of a training, each with a checkpoint
_METHOD = "e_minus_c_mc"
_PLAIN, _AUGMENTED = "no_augmentation", "augmented"


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """The options; the training's numbers are the recipe's.

    Attributes:
      draws: how many sets of phrases are drawn.
      phrases: in each.
      train_task: "" = ANLI, or its sample; `nli_anli_augmented` or a mixture with it.
      train_steps: of each draw.
      batch_size: rows of a step.
      learning_rate: its peak.
      max_input_length: tokens of a row in training.
    """

    draws: int = 10
    phrases: int = 5
    train_task: str = ""
    train_steps: int = 2000
    batch_size: int = 64
    learning_rate: float = 5e-6
    max_input_length: int = 512

    def check(self) -> None:
        """See `ModelOptions`."""
        super().check()
        for name, low, high in (
            ("draws", 1, math.inf),
            ("phrases", 1, len(PHRASES)),
            ("train_steps", 1, math.inf),
            ("batch_size", 1, math.inf),
            ("max_input_length", 8, math.inf),
        ):
            if not low <= (value := getattr(self, name)) <= high:
                until = f" and at most {high}, the paper's" if high < math.inf else ""
                option = name.replace("_", "-")
                raise ConfigError(f"--{option}: expected at least {low}{until}, got {value}.")
        if not self.learning_rate > 0:
            raise ConfigError(f"--learning-rate: expected more than 0, got {self.learning_rate}.")
        self._check_task()
        self.check_scorers(self.methods)

    def _check_task(self) -> None:
        """Checks that the task has dialogue phrases."""
        from faith_jax.tasks import lookup

        try:
            found = lookup.get_task(self.task)
        except ConfigError as error:
            raise ConfigError(f"--train-task: {error}") from None
        parts = {part.name for part in getattr(found, "tasks", [found])}
        if not parts & {_TASK, f"{_TASK}_sample"}:
            raise ConfigError(
                f"--train-task: {self.task} has no dialogue phrases; give {_TASK}, or a mixture "
                "with it."
            )

    @property
    def task(self) -> str:
        """The task that is trained on."""
        return self.train_task or f"{_TASK}{'_sample' if self.sample else ''}"

    @property
    def methods(self) -> dict[str, Method]:
        """The models that are scored as they are."""
        given = {_PLAIN: BASE, _AUGMENTED: _AUGMENTED}
        return {
            name: Method(model, "nli_e_minus_c", dropout=True)
            for name, model in given.items()
            if model in self.models
        }


class Table(CorporaTable):
    """Table 5."""

    def __init__(self, options: Options, rows: Mapping[str, int]):
        super().__init__(options, rows)
        self.draws = [f"draw_{number}" for number in range(options.draws)]
        self.trainings = {name: self._training(n) for n, name in enumerate(self.draws)}
        methods = options.methods
        for name, method in methods.items():
            self.scores[name] = options.scores({_METHOD: method}, self.corpora)
        for name in self.draws:
            given = {_METHOD: methods[_PLAIN]}
            self.scores[name] = options.scores(given, self.corpora, trained=name)

    def _phrases(self, number: int) -> tuple[str, ...]:
        return phrase_draw(number, self.options.phrases, self.options.seed)

    def _training(self, number: int) -> Training:
        """Returns the training of a draw; the step with the lowest validation loss counts."""
        options, base = self.options, self.options.models[BASE]
        period = max(1, options.train_steps // _EVALUATIONS)
        bindings = {
            "INITIAL_CHECKPOINT_PATH": base["model"],
            "MIXTURE_OR_TASK_NAME": options.task,
            "PHRASES": self._phrases(number),
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
            bindings["VOCABULARY"] = base["vocabulary"]
        if labels := base.get("labels"):
            names = labels.split(",") if isinstance(labels, str) else labels
            bindings["LABEL_NAMES"] = tuple(name.strip().lower() for name in names)
        return Training("nli_anli_augmented_finetune.gin", bindings)

    def write(self, folder: pathlib.Path) -> None:
        """Writes nli_phrases.md, .tex, .csv and .json; of samples as nli_phrases_sample."""
        options = self.options
        areas = {name: self._areas(folder, name) for name in self.scores}
        compared = [areas[name] for name in (_PLAIN, *self.draws)]
        averaged = [
            c
            for c in self.corpora
            if c in AVERAGED and not any(math.isnan(it[c]) for it in compared)
        ]
        if len(averaged) > 1:
            for it in areas.values():
                it[AVERAGE] = sum(it[c] for c in averaged) / len(averaged)
        columns = list(areas[_PLAIN])
        table = nli_tables.phrase_table(
            {c: [areas[name][c] for name in self.draws] for c in columns},
            areas[_PLAIN],
            areas.get(_AUGMENTED, {}),
            averaged,
            {} if options.sample else nli_tables.published(),
        )
        figures = {
            "sample": options.sample,
            "settings": dataclasses.asdict(options),
            "phrases": [list(self._phrases(number)) for number in range(options.draws)],
        }
        title = "Robustness to the choice of dialogue phrases (Steen 2023)"
        told = (title, tuple(self._notes(averaged)), [table], figures)
        nli_tables.write_tables(folder, "nli_phrases", options.sample, *told)

    def _areas(self, folder: pathlib.Path, name: str) -> dict[str, float]:
        """Returns the AUC by corpus, NaN where a class is missing."""
        read = self.read(folder, [name])
        parts = {name: corpus.part(corpus.usable()) for name, corpus in read.items()}
        return {c: roc_auc(part.scores[_METHOD], part.labels) for c, part in parts.items()}

    def _notes(self, averaged: Sequence[str]) -> Iterator[str]:
        """Yields what the figures are of."""
        options = self.options
        steps = f"{counted(options.train_steps, 'step')} of {counted(options.batch_size, 'row')}"
        yield (
            f"base: {options.models[BASE]['model']}, trained {counted(options.draws, 'time')} on "
            f"{options.task} with {options.phrases} of the paper's ten phrases, {steps}, peak "
            f"learning rate {options.learning_rate:g}; the checkpoint with the lowest validation "
            "loss counts."
        )
        yield (
            f"Scores: e-c, the mean over k = {options.dropout_passes} Monte-Carlo dropout masks. "
            "std: of a sample (n - 1); no augmentation: base without this training."
        )
        if _AUGMENTED in options.models:
            model = options.models[_AUGMENTED]["model"]
            yield f"from all: the average less the AUC of {model}, scored likewise."
        if len(averaged) > 1:
            yield f"Averages are over {', '.join(averaged)}."
