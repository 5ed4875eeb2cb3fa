"""Steen 2023's table 5: does it matter which phrases a classifier is trained on?

The base is trained once for each draw of phrases. TRUE is scored by each trained model and by the
base itself, all with e-c and Monte-Carlo dropout.
"""

import math
import pathlib
from collections.abc import Iterator, Sequence

from faith_jax.core.errors import ConfigError, pluralize
from faith_jax.datasets.augmentation.dialogue_phrases import phrase_draw
from faith_jax.datasets.raw.true_benchmark import AVERAGED
from faith_jax.papers.push import table_forms
from faith_jax.papers.push.options import NliPhrases
from faith_jax.papers.push.table_forms import AVERAGE
from faith_jax.papers.push.tables_1_2_4 import (
    BASE,
    CorporaTable,
    Method,
    check_models,
    check_scorers,
    models_of,
)
from faith_jax.papers.workflow import CountRows, GinRun
from faith_jax.statistics.auc import roc_auc

_TASK = "nli_anli_augmented"
_WARM_UP = 0.06  # share of the steps (Steen 2023, table 7)
_EVALUATIONS = 10  # evaluations of a training, each with a checkpoint
_METHOD = "e_minus_c_mc"
_PLAIN, _AUGMENTED = "no_augmentation", "augmented"


def check(options: NliPhrases) -> None:
    """Checks names, and opens the models; a ConfigError names the option."""
    from faith_jax.tasks import lookup

    check_models(options)
    task = task_of(options)
    train_task = lookup.get_task(task, "--train-task")
    parts = {part.name for part in getattr(train_task, "tasks", [train_task])}
    if not parts & {_TASK, f"{_TASK}_sample"}:
        raise ConfigError(
            f"--train-task: {task} has no dialogue phrases; give {_TASK}, or a mixture with it."
        )
    check_scorers(options, _plain_methods(options))


def task_of(options: NliPhrases) -> str:
    """Returns the training task."""
    return options.train_task or f"{_TASK}{'_sample' if options.sample else ''}"


def _plain_methods(options: NliPhrases) -> dict[str, Method]:
    """Returns the methods of models that are scored without training."""
    model_names, models = {_PLAIN: BASE, _AUGMENTED: _AUGMENTED}, models_of(options)
    return {
        name: Method(model, "nli_e_minus_c", dropout=True)
        for name, model in model_names.items()
        if model in models
    }


class Table(CorporaTable):
    """Table 5."""

    def __init__(self, options: NliPhrases, rows: CountRows):
        super().__init__(options, rows)
        self.draws = [f"draw_{number}" for number in range(options.draws)]
        base = self.models[BASE]
        period = max(1, options.train_steps // _EVALUATIONS)
        for number, name in enumerate(self.draws):
            bindings = {
                "INITIAL_CHECKPOINT_PATH": base["model"],
                "MIXTURE_OR_TASK_NAME": task_of(options),
                "PHRASES": self._draw_phrases(number),
                "TRAIN_STEPS": options.train_steps,
                "WARMUP_STEPS": round(_WARM_UP * options.train_steps),
                "BATCH_SIZE": options.batch_size,
                "LEARNING_RATE": options.learning_rate,
                "TASK_FEATURE_LENGTHS": {"inputs": options.max_input_length, "targets": 8},
                "EVAL_PERIOD": period,
                "CHECKPOINT_PERIOD": period,
                "KEEP_LAST": 1,  # besides the step with the lowest validation loss, which is used
                "RANDOM_SEED": options.seed,
            }
            if base.get("vocabulary"):
                bindings["VOCABULARY"] = base["vocabulary"]
            if labels := base.get("labels"):
                classes = labels.split(",") if isinstance(labels, str) else labels
                bindings["LABEL_NAMES"] = tuple(label.strip().lower() for label in classes)
            self.trainings[name] = GinRun(["nli_anli_augmented_finetune.gin"], bindings)
        if not self.corpora:
            return
        methods = _plain_methods(options)
        for name, method in methods.items():
            self.scores[name] = self.scoring_command({_METHOD: method})
        for name in self.draws:
            self.scores[name] = self.scoring_command({_METHOD: methods[_PLAIN]}, training=name)

    def _draw_phrases(self, number: int) -> tuple[str, ...]:
        return phrase_draw(number, self.options.phrases, self.options.seed)

    def write(self, folder: pathlib.Path) -> None:
        """Writes nli_phrases.md, .tex, .csv and .json; for samples, nli_phrases_sample."""
        options = self.options
        areas = {name: self._compute_aucs(folder, name) for name in self.scores}
        compared = [areas[name] for name in (_PLAIN, *self.draws)]
        averaged = [
            c
            for c in self.corpora
            if c in AVERAGED and not any(math.isnan(area[c]) for area in compared)
        ]
        if len(averaged) > 1:
            for by_corpus in areas.values():
                by_corpus[AVERAGE] = sum(by_corpus[c] for c in averaged) / len(averaged)
        columns = list(areas[_PLAIN])
        table = table_forms.phrase_table(
            {c: [areas[name][c] for name in self.draws] for c in columns},
            areas[_PLAIN],
            areas.get(_AUGMENTED, {}),
            averaged,
            self.published,
        )
        # The options that the figures depend on.
        settings = (
            "models", "dropout_passes", "corpora", "sample", "seed", "draws", "phrases",
            "train_task", "train_steps", "batch_size", "learning_rate", "max_input_length",
        )  # fmt: skip
        values = vars(options) | {"models": self.models, "corpora": options.corpora or AVERAGED}
        figures = {
            "settings": {name: values[name] for name in settings},
            "phrases": [list(self._draw_phrases(number)) for number in range(options.draws)],
        }
        title = "Robustness to the choice of dialogue phrases (Steen 2023)"
        self.write_tables(
            folder, title, tuple(self._collect_table_notes(averaged)), [table], figures
        )

    def _compute_aucs(self, folder: pathlib.Path, name: str) -> dict[str, float]:
        """Returns the AUC by corpus; NaN if a class is missing."""
        read = self.read(folder, [name])
        parts = {name: corpus.part(corpus.usable()) for name, corpus in read.items()}
        return {c: roc_auc(part.scores[_METHOD], part.labels) for c, part in parts.items()}

    def _collect_table_notes(self, averaged: Sequence[str]) -> Iterator[str]:
        """Yields notes on training, scores and averages."""
        options = self.options
        steps = (
            f"{pluralize(options.train_steps, 'step')} of {pluralize(options.batch_size, 'row')}"
        )
        yield (
            f"base: {self.models[BASE]['model']}, trained {pluralize(options.draws, 'time')} on "
            f"{task_of(options)} with {options.phrases} of the paper's ten phrases, {steps}, peak "
            f"learning rate {options.learning_rate:g}; the checkpoint with the lowest validation "
            "loss counts."
        )
        yield (
            f"Scores: e-c, the mean over k = {options.dropout_passes} Monte-Carlo dropout masks. "
            "std: of these values (n); no augmentation: base without this training."
        )
        if _AUGMENTED in self.models:
            model = self.models[_AUGMENTED]["model"]
            yield f"from all: the average less the AUC of {model}, scored likewise."
        if len(averaged) > 1:
            yield f"Averages are over {', '.join(averaged)}."
