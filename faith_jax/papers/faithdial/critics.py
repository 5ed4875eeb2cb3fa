"""FaithDial's table 4 (Dziri 2022).

Critics are trained on one data set, or given, and tested on others. Sets are as in the authors'
code (FaithDial's critic_data.py): generic responses of BEGIN's first release are left out, except
for DECODE's critic, where they count as not contradicting.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import ConfigError, FaithJaxError, pluralize
from faith_jax.core.labels import Begin2021Label, CriticLabel, DecodeLabel, NliLabel
from faith_jax.inference.opening import open_tokenizer
from faith_jax.papers import workflow
from faith_jax.papers.faithdial.options import FaithCritic
from faith_jax.papers.options import check_names
from faith_jax.papers.tables import read_published_figures
from faith_jax.papers.workflow import CountRows, GinRun, Scores, scorer_flags, training_done_file
from faith_jax.scoring.nli import faithful_class

# Appendix D: epochs, and the share of steps that the learning rate warms up for.
EPOCHS, WARMUP = 10, 0.06
PUBLISHED_SETS, OWN_SETS = "published", "own"
_EVALUATIONS = 20  # evaluations of a training, as in the recipe
# Our own task for each published set.
_OWN = {"faith_critic": "faith_critic_all_edits", "begin_2021_classify": "begin_classify"}
_NLI = tuple(label.value for label in NliLabel)
_SCORER = "faith_critic_call"


class Critic(NamedTuple):
    """The critic of a row: its training task, its form in the scorer, and its classes."""

    task: str
    form: str
    classes: tuple[str, ...] = _NLI


CRITICS = {
    "DECODE": Critic("nli_decode", "decode", tuple(label.value for label in DecodeLabel)),
    "DNLI": Critic("nli_dnli", "nli"),
    "MNLI": Critic("nli_mnli", "nli"),
    "FaithCritic": Critic(
        "faith_critic", "critic", (CriticLabel.UNFAITHFUL.value, CriticLabel.FAITHFUL.value)
    ),
}
# Each column's task and split; `validation` of MultiNLI is its matched part.
TESTED_ON = {
    "MNLI": ("nli_mnli", "validation"),
    "BEGIN": ("begin_2021_classify", "test"),
    "FaithCritic": ("faith_critic", "test"),
}


def check(options: FaithCritic) -> None:
    """Checks names, and opens the models; a ConfigError names the option."""
    if not (options.model or options.critics):
        raise ConfigError(
            "faith_critic needs critics: give --critics=NAME=FOLDER, or --model=CHECKPOINT to "
            "train them from."
        )
    check_names("sets", (options.sets,), (PUBLISHED_SETS, OWN_SETS))
    check_names("critics", options.critics, CRITICS)
    if options.model:
        _check_classifier(f"--model: {options.model}", options.model)
    for row, folder in options.critics.items():
        _check_classifier(f"--critics: {row}", folder, CRITICS[row])


def _check_classifier(option: str, folder: str, critic: Critic | None = None) -> None:
    """Checks that a model classifies pairs, and has the classes of a critic."""
    try:
        config = open_checkpoint(folder).config
        if config.is_decoder_only:
            raise ConfigError(
                f"{folder}: expected an encoder (RoBERTa, DeBERTa) or an encoder-decoder that "
                "writes the class (T5), got a decoder-only model."
            )
        if critic:
            open_tokenizer(folder, None, config)
            if not config.writes_text:
                faithful_class(config.label_names, form=critic.form)
    except FaithJaxError as error:
        raise ConfigError(f"{option}: {error}") from None


class Table(workflow.TableWorkflow):
    """The workflow: each critic scores the same data sets."""

    nothing = "faith_critic: no data to train a critic and to test it on"

    def __init__(self, options: FaithCritic, rows: CountRows):
        super().__init__(options, rows)
        self.corpora: dict[str, str] = {}
        for column, (name, split) in TESTED_ON.items():
            task = task_of(name, options)
            if self.keep_available({f"tested on {column}": (task, split)}):
                self.corpora[column] = f"{task}@{split}"
        for row, critic in CRITICS.items() if self.corpora else ():
            if path := options.critics.get(row):
                self.scores[row] = Scores(self._build_score_arguments(row, path), models=[path])
            elif options.model and (count := rows(task_of(critic.task, options), "train")):
                self.trainings[row] = self._build_training(critic, count)
                self.scores[row] = Scores(
                    self._build_score_arguments(row, f"models/{row}"), [training_done_file(row)]
                )
            else:
                why = "no data" if options.model else "no critic is given (--critics, or --model)"
                self.left_out.append(f"{row} ({why})")

    def _build_training(self, critic: Critic, count: int) -> GinRun:
        """Returns a critic's training on `count` pairs."""
        options = self.options
        writes = open_checkpoint(options.model).config.writes_text
        steps = options.train_steps or -(-EPOCHS * count // options.batch_size)
        period = max(1, steps // _EVALUATIONS)
        of_kind: dict[str, Any] = {"DECODING": None} if writes else {"LABEL_NAMES": critic.classes}
        bindings = of_kind | {
            "INITIAL_CHECKPOINT_PATH": options.model,
            "VOCABULARY": options.vocabulary or None,
            "MIXTURE_OR_TASK_NAME": task_of(critic.task, options),
            "TASK_FEATURE_LENGTHS": {"inputs": options.max_length, "targets": 8},
            "TRAIN_STEPS": steps,
            "WARMUP_STEPS": round(WARMUP * steps),
            "BATCH_SIZE": options.batch_size,
            "EVAL_PERIOD": period,
            "CHECKPOINT_PERIOD": period,
            "RANDOM_SEED": options.seed,
        }
        recipe = "faithdial_generate" if writes else "faith_critic"
        return GinRun([f"{recipe}_finetune.gin"], bindings)

    def _build_score_arguments(self, row: str, model: str) -> list[str]:
        """Returns the arguments of `faith-jax score` for a critic."""
        options = {
            "model": model, "form": CRITICS[row].form, "max_length": self.options.max_length,
        }  # fmt: skip
        labels: dict[str, Any] = {label: int(label == NliLabel.ENTAILMENT) for label in _NLI}
        of_begin = "begin_label," if self.options.sets == PUBLISHED_SETS else ""
        if of_begin:
            labels |= {label.value: int(label.faithfulness) for label in Begin2021Label}
            labels[Begin2021Label.GENERIC.value] = 1 if row == "DECODE" else ""
        return [
            *(f"--task={task}" for task in self.corpora.values()),
            *scorer_flags({_SCORER: options}),
            f"--system={row}",
            f"--label-column={of_begin}label",
            f"--label-values={','.join(f'{label}={value}' for label, value in labels.items())}",
            "--id-column=",
        ]

    def evaluation(self) -> list[str]:
        """See `workflow.TableWorkflow`."""
        return ["--protocol=accuracy"]

    def layout(self) -> dict[str, Any]:
        """See `workflow.TableWorkflow`."""
        options, title = self.options, "accuracy with 95% bootstrap intervals (Dziri 2022, table 4)"
        layout: dict[str, Any] = {
            "title": f"Transfer of critics: {title}",
            "headings": ["trained on", "tested on"],
            "corpora": {task.partition("@")[0]: name for name, task in self.corpora.items()},
            "marks": {row: {c: "\u2020" for c in self.corpora if c != row} for row in self.scores},
            "notes": list(self._collect_table_notes()),
        }
        if options.sample:
            return layout | {"title": f"SAMPLES, not the paper's data: {layout['title']}"}
        if options.sets == PUBLISHED_SETS:
            published = read_published_figures(__name__)
            layout["published"] = published["published"]
            layout["notes"] += published["notes"]
        return layout

    def _collect_table_notes(self) -> Iterator[str]:
        """Yields notes on the figures, and on everything that is left out."""
        options = self.options
        published = options.sets == PUBLISHED_SETS
        yield "\u2020 zero-shot: tested on other data than it was trained on."
        yield (
            "A pair is called faithful where the critic's most probable class is entailment, "
            "faithful or not_contradiction; it is faithful where its label is entailment (MNLI), "
            f"{'entailment' if published else 'Fully attributable'} (BEGIN) or faithful "
            "(FaithCritic)."
        )
        yield "Tested on MNLI's matched validation pairs, on the test split of BEGIN's " + (
            "first release without generic responses (but DECODE's critic, to which these are "
            "not_contradiction), and on FaithCritic's test pairs, all of Wizard of Wikipedia's "
            "responses."
            if published
            else "second release, and on FaithCritic's test pairs, edited responses among them; "
            "published figures, which are of other sets, are not shown."
        )
        if published:
            yield (
                "The authors' test code does not convert the class numbers of DECODE's critic, so "
                "its published figure on FaithCritic (38.5) may be of swapped classes."
            )
        if self.trainings:
            length = f"{EPOCHS} epochs of their data"
            if options.train_steps:
                length = pluralize(options.train_steps, "step")
            yield (
                f"Trained from {options.model}, {length} in batches of {options.batch_size}: "
                f"{', '.join(self.trainings)}."
            )
        if given_critics := [
            f"{row} ({options.critics[row]})" for row in CRITICS if row in options.critics
        ]:
            yield f"Given critics: {', '.join(given_critics)}."
        yield from self.left_out_notes()


def task_of(name: str, options: FaithCritic) -> str:
    """Returns the name of a task, or of its sample, for the chosen sets."""
    if options.sets == OWN_SETS:
        name = _OWN.get(name, name)
    return f"{name}_sample" if options.sample else name
