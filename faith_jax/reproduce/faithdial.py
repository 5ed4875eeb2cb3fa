"""What FaithDial's tables 5 and 8 are made of (Dziri 2022); `faithdial.smk` runs it.

- Methods: cross-entropy, control tokens (CTRL), loss truncation and InfoNCE, each by the recipe of
  `gin_configs` that has it. The model named `doha` is trained by DoHA's recipe alone.
- Training data: Wizard of Wikipedia, FaithDial, or the former and then the latter, from the
  checkpoint with the lowest validation loss. Responses of Wizard of Wikipedia have no negatives,
  so InfoNCE begins there with cross-entropy.
- Table 8 compares zero-shot responses to Topical-Chat and CMU-DoG with those of a model trained
  there by cross-entropy, which responds to nothing else.
"""

import dataclasses
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.datasets.control_tokens import FAITHFUL_TOKENS
from faith_jax.reproduce.scorers import Scored, as_published, by_grounding, layout
from faith_jax.reproduce.workflow import Training

logger = logging.getLogger("faith_jax")

CROSS_ENTROPY, CTRL, INFONCE = "cross_entropy", "ctrl", "infonce"
LOSS_TRUNCATION = "loss_truncation"
DOHA = "doha"  # the name of the model that a BART is made a DoHA for
METHODS = {
    CROSS_ENTROPY: "faithdial_generate_finetune.gin",
    CTRL: "faithdial_generate_ctrl.gin",
    LOSS_TRUNCATION: "faithdial_generate_loss_truncation.gin",
    INFONCE: "faithdial_generate_infonce.gin",
}
# Each is responded to by its own models, by cross-entropy, as by those of other data.
IN_DOMAIN = ("topical_chat", "cmu_dog")
# The paper's, in its order; FaithDial's dialogues with Wizard of Wikipedia's responses by option.
TRAINED_ON = ("wow", "faithdial", "wow_then_faithdial", *IN_DOMAIN)
FAITHDIAL_WOW = "faithdial_wow"
TESTED_ON = {
    "faithdial": ("faithdial_generate", "test"),
    "wow": ("wizard_of_wikipedia_generate", "test_unseen"),
    "topical_chat": ("topical_chat_generate", "test_rare"),
    "cmu_dog": ("cmu_dog_generate", "test"),
}
_TASKS = {
    **{name: task for name, (task, _) in TESTED_ON.items()},
    FAITHDIAL_WOW: "faithdial_generate_wow",
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

# What the table judges responses by; files of scores are of the same responses.
SCORERS = (
    Scored("faith_critic", "a model (--critic-model)"),
    Scored("q2_f1", "models (--q2-model, --q2-nli-model)"),
    Scored("q2_nli", "models (--q2-model, --q2-nli-model)"),
    Scored("bertscore", "a model (--bertscore-model)"),
    Scored("q2_baseline_token_f1"),
    Scored("token_f1"),
    Scored("rougeL_f1_stemmed", against="target"),
)
_PER_CENT = {"high": 0.01, "digits": 1}
COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "Critic": {"scorer": "faith_critic", "below": 0.5, **_PER_CENT},
    "Q\u00b2 F1": {"scorer": "q2_f1", **_PER_CENT},
    "Q\u00b2 NLI": {"scorer": "q2_nli", **_PER_CENT},
    "BERTScore": {"scorer": "bertscore", "digits": 2},
    "F1": {"scorer": "q2_baseline_token_f1", **_PER_CENT},
    "TRUE F1": {"scorer": "token_f1", **_PER_CENT},
    "BLEU": {"reference": "target", "digits": 1, "only": ["faithdial"]},
    "ROUGE": {"scorer": "rougeL_f1_stemmed", "only": ["faithdial"], **_PER_CENT},
}


class System(NamedTuple):
    """One trained model.

    Attributes:
      model: the name of what it starts from.
      method: of `METHODS`.
      trained_on: of `TRAINED_ON`, or `FAITHDIAL_WOW`.
    """

    model: str
    method: str
    trained_on: str

    @property
    def name(self) -> str:
        """As the table has it, with the training data first."""
        method = "" if self.method == CROSS_ENTROPY else f"_{self.method}"
        return f"{self.trained_on}/{self.model}{method}"

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

    def stages(self) -> Iterator[tuple[str, str]]:
        """Yields method and data of each training.

        >>> list(System("t5", "infonce", "wow_then_faithdial").stages())
        [('cross_entropy', 'wow'), ('infonce', 'faithdial')]
        """
        method = DOHA if self.model == DOHA else self.method
        if self.trained_on == "wow_then_faithdial":
            yield (CROSS_ENTROPY if method == INFONCE else method), "wow"
            yield method, "faithdial"
        else:
            yield method, self.trained_on


@dataclasses.dataclass(frozen=True)
class Options:
    """The table's options; None = as the recipes and the paper have it, or small for samples.

    Attributes:
      models: checkpoints by the names that the table gives them; a BART named `doha` becomes one.
      methods: of `METHODS`; each model is trained by each, `doha` by cross-entropy alone.
      trained_on: of `TRAINED_ON` and `FAITHDIAL_WOW`; data of `IN_DOMAIN` counts where `tested_on`
        has it.
      tested_on: of `TESTED_ON`.
      seeds: of training and sampling; figures are means over them.
      trained: checkpoints that are trained already, by "DATA/SYSTEM"; of all seeds.
      sample: of the samples in the package.
      train_steps: of each training; None = 10 epochs of the paper's data, of DoHA 25.
      train_batch_size: rows.
      learning_rate: its peak.
      max_input_length: tokens of an input.
      target_length: tokens of a response that is trained on.
      max_length: tokens of a response that is decoded.
      vocabulary: the models' tokenizer, where it is not with them.
      scorers: options of those scorers that need a model.
      batch_size: rows decoded at once.
      limit: only the first rows of each data set; 0 = all.
      resamples: of the bootstrap, and rounds of the test.
      seed: of both.
    """

    models: Mapping[str, str]
    methods: Sequence[str] = tuple(METHODS)
    trained_on: Sequence[str] = TRAINED_ON
    tested_on: Sequence[str] = tuple(TESTED_ON)
    seeds: Sequence[int] = (0,)
    trained: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sample: bool = False
    train_steps: int | None = None
    train_batch_size: int | None = None
    learning_rate: float | None = None
    max_input_length: int = 512
    target_length: int = 256
    max_length: int = 128
    vocabulary: str = ""
    scorers: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    batch_size: int = 16
    limit: int = 0
    resamples: int = 1000
    seed: int = 0

    def check(self) -> None:
        """Checks the names.

        Raises:
          ConfigError: naming the option and what there is.
        """
        if not self.models:
            raise ConfigError("faithdial needs models to train: give --models=NAME=CHECKPOINT.")
        for name in self.models:
            if not name.replace("-", "").replace("_", "").isalnum():
                raise ConfigError(
                    f"--models: expected a name of letters, digits, - and _, got {name!r}."
                )
        known_data = (*TRAINED_ON, FAITHDIAL_WOW)
        everything = [
            System(model, method, data).name
            for model in self.models
            for method in METHODS
            for data in known_data
            if System(model, method, data).is_possible
        ]
        for option, names, known in (
            ("methods", self.methods, METHODS),
            ("trained-on", self.trained_on, known_data),
            ("tested-on", self.tested_on, TESTED_ON),
            ("trained", self.trained, everything),
        ):
            check_names(option, names, known)
        for option, names in (("methods", self.methods), ("trained-on", self.trained_on)):
            if not names:
                raise ConfigError(f"--{option}: expected at least one name.")
        if DOHA in self.models and CROSS_ENTROPY not in self.methods:
            raise ConfigError(
                f"--methods: {DOHA} is trained by {CROSS_ENTROPY} alone; add it, or leave out "
                f"--models={DOHA}."
            )
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds or min(self.seeds) < 0:
            raise ConfigError(
                f"--seeds: expected different whole numbers of at least 0, got {self.seeds}."
            )


def check_names(option: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Checks names that an option was given.

    Raises:
      ConfigError: for an unknown one.
    """
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--{option}: there is no {name!r}.{did_you_mean(name, known)} There are: "
                f"{', '.join(known)}."
            )


class Table:
    """What the workflow does, in names of its files.

    Args:
      options: of the table.
      rows: how many training rows the tasks have that are at hand.
    """

    def __init__(self, options: Options, rows: Mapping[str, int]):
        self.options, self._rows = options, rows
        self.scorers = as_published(options.scorers)
        possible = [
            System(model, method, data)
            for data in dict.fromkeys(options.trained_on)
            for model in options.models
            for method in dict.fromkeys(options.methods)
        ]
        wanted = [
            system
            for system in possible
            if system.is_possible and any(map(system.is_tested_on, options.tested_on))
        ]
        self.systems = [s for s in wanted if s.name in options.trained or not self._lacks(s)]
        self.left_out = [
            f"{system.name} (no data of {self._lacks(system)[0]})"
            for system in wanted
            if system not in self.systems
        ]
        self.corpora = [name for name in dict.fromkeys(options.tested_on) if self._has(name)]
        self.left_out += [f"{n} (no data)" for n in options.tested_on if n not in self.corpora]
        self.trainings: dict[str, Training] = {}
        self.checkpoints: dict[System, list[str]] = {}
        for system in self.systems:
            if system.name in options.trained:
                found = [options.trained[system.name]] * len(options.seeds)
            else:
                found = [self._add_trainings(system, seed) for seed in options.seeds]
            self.checkpoints[system] = found

    @staticmethod
    def tasks(options: Options) -> Iterator[tuple[str, str]]:
        """Yields the tasks and splits that the table may read."""
        for name in (*_TASKS,):
            for method in (CROSS_ENTROPY, CTRL, INFONCE):
                yield task_of(method, name, options.sample), "train"
        for name in TESTED_ON:
            yield task_of(CROSS_ENTROPY, name, options.sample), TESTED_ON[name][1]

    def check_data(self) -> None:
        """Checks that there is something to train and to respond to; warns of what is left out.

        Raises:
          InputError: where no data is at hand.
        """
        for told in self.left_out:
            logger.warning("left out: %s", told)
        if not self.responses():
            raise InputError(
                "--methods, --trained-on, --tested-on: there is no data to train on and respond "
                f"to: {'; '.join(self.left_out) or 'no such system'}. See `faith-jax prepare`."
            )

    def _lacks(self, system: System) -> list[str]:
        tasks = [task_of(method, data, self.options.sample) for method, data in system.stages()]
        return [task for task in tasks if f"{task}:train" not in self._rows]

    def _has(self, corpus: str) -> bool:
        task = task_of(CROSS_ENTROPY, corpus, self.options.sample)
        return f"{task}:{TESTED_ON[corpus][1]}" in self._rows

    def _add_trainings(self, system: System, seed: int) -> str:
        """Adds the trainings of a system; returns its checkpoint."""
        initial, after, done = self.options.models[system.model], "", ""
        for method, data in system.stages():
            name = f"{system.model}/seed_{seed}/{method}_{done}{data}"
            recipe = METHODS.get(method, "faithdial_generate_doha.gin")
            bindings = self._bindings(method, data, initial, seed)
            self.trainings[name] = Training(recipe, bindings, after)
            initial, after, done = f"models/{name}/checkpoints/best", name, f"{data}_then_"
        return initial

    def _bindings(self, method: str, data: str, initial: str, seed: int) -> dict[str, Any]:
        options = self.options
        task = task_of(method, data, options.sample)
        lengths: dict[str, Any] = {
            "inputs": options.max_input_length,
            "targets": options.target_length,
        }
        if method == INFONCE:
            lengths["negatives"] = (8, min(64, options.target_length))
        found: dict[str, Any] = {
            "INITIAL_CHECKPOINT_PATH": initial,
            "MIXTURE_OR_TASK_NAME": task,
            "TASK_FEATURE_LENGTHS": lengths,
            "RANDOM_SEED": seed,
            "DECODING": None,
        }
        if data in _VALIDATION:
            found["eval_split/task_batches.DatasetConfig.split"] = _VALIDATION[data]
        if options.vocabulary:
            found["VOCABULARY"] = options.vocabulary
        if options.learning_rate is not None:
            found["LEARNING_RATE"] = options.learning_rate
        schedule = _SCHEDULES.get(method, _Schedule())
        if options.train_batch_size is not None:
            found["BATCH_SIZE"] = options.train_batch_size
            if schedule.pieces > 1:
                found["NUM_MICROBATCHES"] = math.gcd(schedule.pieces, options.train_batch_size)
        steps = options.train_steps
        if steps is None and data in ("wow", *IN_DOMAIN):
            rows = schedule.epochs * self._rows[f"{task}:train"]
            steps = math.ceil(rows / (options.train_batch_size or _BATCH_SIZE))
        if steps is not None:
            period = max(steps // (2 * schedule.epochs), min(steps, _LEAST_PERIOD))
            found |= {
                "TRAIN_STEPS": steps,
                "WARMUP_STEPS": round(schedule.warmup * steps),
                "EVAL_PERIOD": period,
                "CHECKPOINT_PERIOD": period,
            }
            if method == LOSS_TRUNCATION:
                warmup = round(_TRUNCATION_WARMUP / _RECIPE_STEPS * steps)
                found["TRUNCATION_WARMUP_STEPS"] = max(1, warmup)
        return found

    def responders(self, corpus: str, is_ctrl: bool) -> dict[str, list[str]]:
        """Returns the checkpoints that respond to a data set, by system.

        Args:
          corpus: of `TESTED_ON`.
          is_ctrl: those whose inputs begin with control tokens, or the others.
        """
        return {
            system.name: self.checkpoints[system]
            for system in self.systems
            if system.is_tested_on(corpus) and (system.method == CTRL) == is_ctrl
        }

    def responses(self) -> list[tuple[str, str]]:
        """Returns data sets and kinds of inputs that some system responds to."""
        return [
            (corpus, kind)
            for corpus in self.corpora
            for kind in ("plain", CTRL)
            if self.responders(corpus, kind == CTRL)
        ]

    def decoding_bindings(self, corpus: str, kind: str) -> dict[str, Any]:
        """Returns the gin macros with which systems respond to a data set."""
        options = self.options
        lengths = {"inputs": options.max_input_length, "targets": options.target_length}
        found: dict[str, Any] = {
            "CHECKPOINT_PATH": self.responders(corpus, kind == CTRL),
            "MIXTURE_OR_TASK_NAME": task_of(CROSS_ENTROPY, corpus, options.sample),
            "SPLIT": TESTED_ON[corpus][1],
            "TASK_FEATURE_LENGTHS": lengths,
            "TOP_P": 0.6,
            "DECODE_LENGTH": options.max_length,
            "BATCH_SIZE": options.batch_size,
            "LIMIT": options.limit,
            "FORMATS": ("jsonl",),
        }
        if kind == CTRL:
            found["INPUT_CONTROL_TOKENS"] = tuple(map(str, FAITHFUL_TOKENS))
        if options.vocabulary:
            found["VOCABULARY"] = options.vocabulary
        return found

    def trainings_of(self, corpus: str, kind: str) -> list[str]:
        """Returns the trainings whose checkpoints respond to a data set."""
        used = {p for paths in self.responders(corpus, kind == CTRL).values() for p in paths}
        return [name for name in self.trainings if f"models/{name}/checkpoints/best" in used]

    def responses_to(self, corpus: str) -> list[str]:
        """Returns the folders of responses to a data set."""
        return [f"{of}/{kind}" for of, kind in self.responses() if of == corpus]

    def scorers_of(self, corpus: str) -> dict[str, list[str]]:
        """Returns the scorers by what they compare responses with.

        Responses to other data than FaithDial are not compared with gold ones (Dziri 2022, section
        5.2.4).
        """
        return by_grounding(SCORERS, self.scorers, gold=corpus == "faithdial")

    def comparisons(self) -> list[tuple[str, str]]:
        """Returns each system with the same model trained by cross-entropy on the same data."""
        names = {system.name for system in self.systems}
        pairs = [(s.name, s._replace(method=CROSS_ENTROPY).name) for s in self.systems]
        return [(name, base) for name, base in pairs if name != base and base in names]

    def layout(self) -> dict[str, Any]:
        """Returns columns, notes and published figures, as `faith-jax evaluate` reads them."""
        options = self.options
        models = ", ".join(f"{name} = {path}" for name, path in options.models.items())
        notes = [
            f"Models: {models}; responses by nucleus sampling with p = 0.6.",
            "Critic: per cent of responses that it calls unfaithful (lower is better), Q\u00b2, F1 "
            "(the paper's: spaCy's tokens without stop words and punctuation) and TRUE F1 (TRUE's "
            "token F1) in per cent and BERTScore, against the knowledge; BLEU-4 of the corpus in "
            "lower case (0 to 100) and ROUGE-L (F1 of Porter stems, per cent) against the gold "
            "response.",
            *([f"Left out: {'; '.join(self.left_out)}."] if self.left_out else ()),
        ]
        title = "Systems by training data (Dziri 2022, tables 5 and 8)"
        given = (self.scorers, notes, options.sample, options.limit)
        return layout("faithdial", title, COLUMNS, SCORERS, *given)


def task_of(method: str, data: str, sample: bool) -> str:
    """Returns the task that a method is trained on.

    >>> task_of("ctrl", "wow", True)
    'wizard_of_wikipedia_generate_ctrl_sample'
    """
    variant = f"_{method}" if method in (CTRL, INFONCE) else ""
    return f"{_TASKS[data]}{variant}{'_sample' if sample else ''}"
