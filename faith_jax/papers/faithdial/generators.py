"""FaithDial's tables 5 and 8 (Dziri 2022).

- Methods: cross-entropy, control tokens (CTRL), loss truncation and InfoNCE, each with its recipe
  of `gin_configs`. The model named `doha` is trained only with DoHA's recipe.
- Training data: Wizard of Wikipedia, FaithDial, or first the former and then the latter, starting
  from the checkpoint with the lowest validation loss. Wizard of Wikipedia's responses have no
  negatives, so InfoNCE starts with cross-entropy there.
- Table 8 compares zero-shot responses to Topical-Chat and CMU-DoG with those of models trained on
  them by cross-entropy, which respond to no other data.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.control_tokens import FAITHFUL_TOKENS
from faith_jax.papers.faithdial.options import Faithdial
from faith_jax.papers.judges import JudgedTable, Scored, check_scorers
from faith_jax.papers.options import check_names
from faith_jax.papers.workflow import CountRows, GinRun, training_done_file

CROSS_ENTROPY, CTRL, INFONCE = "cross_entropy", "ctrl", "infonce"
LOSS_TRUNCATION = "loss_truncation"
DOHA = "doha"  # the model of this name, a BART, is made a DoHA
METHODS = {
    CROSS_ENTROPY: "faithdial_generate_finetune.gin",
    CTRL: "faithdial_generate_ctrl.gin",
    LOSS_TRUNCATION: "faithdial_generate_loss_truncation.gin",
    INFONCE: "faithdial_generate_infonce.gin",
}
# Data with in-domain models, trained by cross-entropy, besides the models of other data.
IN_DOMAIN = ("topical_chat", "cmu_dog")
# The paper's data in its order; FaithDial's dialogues with original responses only by option.
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
# Validation splits other than `validation`: topics that are not in training.
_VALIDATION = {"wow": "validation_unseen", "topical_chat": "validation_rare"}
# The recipes' steps, and the number of examples before loss truncation starts to drop some.
_RECIPE_STEPS, _TRUNCATION_EXAMPLES = 5736, 10_000
_BATCH_SIZE, _LEAST_PERIOD = 32, 10
_PUBLISHED_ROWS = 18_357  # of FaithDial's training split


class _Schedule(NamedTuple):
    """A recipe's epochs, the share of steps for warm-up, and the number of microbatches."""

    epochs: int = 10
    warmup: float = 0.04
    pieces: int = 1


_SCHEDULES = {DOHA: _Schedule(25, 0.1, 8), INFONCE: _Schedule(pieces=4)}
# Defaults of options: the recipes' and the paper's values, or for samples, values that take minutes
# on 2 cores and, with the tokenizer of `mini`, cut no text of the samples and drop no negatives.
_WHOLE = {"max_input_length": 512, "target_length": 256, "max_length": 100}
_SAMPLE = {
    "train_steps": 20, "train_batch_size": 8, "max_input_length": 160, "target_length": 64,
    "max_length": 32,
}  # fmt: skip
_PER_CENT = {"high": 0.01, "digits": 1}


class System(NamedTuple):
    """One trained model: what it starts from, by which of `METHODS`, and on which data."""

    model: str
    method: str
    trained_on: str

    @property
    def trained_name(self) -> str:
        """The system's name in --trained."""
        method = "" if self.method == CROSS_ENTROPY else f"_{self.method}"
        return f"{self.model}{method}/{self.trained_on}"

    @property
    def name(self) -> str:
        """The system's name in the table, with the training data first."""
        return "/".join(reversed(self.trained_name.split("/")))

    @property
    def is_possible(self) -> bool:
        """Whether the system has data, and the paper has this or a similar system."""
        if self.model == DOHA or self.trained_on in IN_DOMAIN:
            return self.method == CROSS_ENTROPY
        if self.method == INFONCE:
            return self.trained_on in ("faithdial", "wow_then_faithdial")
        return not (self.method == CTRL and self.trained_on == FAITHDIAL_WOW)

    def is_tested_on(self, corpus: str) -> bool:
        """Whether the system responds to a data set."""
        return self.trained_on not in IN_DOMAIN or self.trained_on == corpus

    def stages(self) -> Iterator[tuple[str, str]]:
        """Yields the method and data of each training.

        >>> list(System("t5", "infonce", "wow_then_faithdial").stages())
        [('cross_entropy', 'wow'), ('infonce', 'faithdial')]
        """
        method = DOHA if self.model == DOHA else self.method
        if self.trained_on == "wow_then_faithdial":
            yield (CROSS_ENTROPY if method == INFONCE else method), "wow"
            yield method, "faithdial"
        else:
            yield method, self.trained_on


def _complete_options(options: Faithdial) -> Faithdial:
    """Returns the options with defaults filled in."""
    values: dict[str, Any] = {
        "methods": options.methods or tuple(METHODS),
        "trained_on": options.trained_on or TRAINED_ON,
        "tested_on": options.tested_on or tuple(TESTED_ON),
    }
    numbers = _SAMPLE if options.sample else _WHOLE
    values |= {name: number for name, number in numbers.items() if getattr(options, name) is None}
    return dataclasses.replace(options, **values)


def check(options: Faithdial) -> None:
    """Checks names, and opens the models; a ConfigError names the option."""
    if not options.models:
        raise ConfigError("faithdial needs models to train: give --models=NAME=CHECKPOINT.")
    for name in options.models:
        if not name.replace("-", "").replace("_", "").isalnum():
            raise ConfigError(
                f"--models: expected a name of letters, digits, - and _, got {name!r}."
            )
    known_data = (*TRAINED_ON, FAITHDIAL_WOW)
    systems = (System(m, by, of) for m in options.models for by in METHODS for of in known_data)
    check_names("methods", options.methods, METHODS)
    check_names("trained-on", options.trained_on, known_data)
    check_names("tested-on", options.tested_on, TESTED_ON)
    check_names("trained", options.trained, [s.trained_name for s in systems if s.is_possible])
    if DOHA in options.models and CROSS_ENTROPY not in (options.methods or METHODS):
        raise ConfigError(
            f"--methods: {DOHA} is trained by {CROSS_ENTROPY} alone; add it, or leave out "
            f"--models={DOHA}."
        )
    if len(set(options.seeds)) != len(options.seeds) or min(options.seeds) < 0:
        raise ConfigError(
            f"--seeds: expected different whole numbers of at least 0, got {options.seeds}."
        )
    check_scorers(options)

    from faith_jax.checkpoints.open import open_checkpoint
    from faith_jax.runs.setup import check_language_model

    for name, path in options.models.items():
        check_language_model("--models", path)
        checkpoint = open_checkpoint(path) if name == DOHA else None
        if checkpoint and not checkpoint.config.knowledge_attention and checkpoint.family != "bart":
            raise ConfigError(
                f"--models: doha: {path}: DoHA is made of a BART, but this is "
                f"{checkpoint.family or 'another model'}; give a BART or a trained DoHA."
            )
    for key, path in options.trained.items():
        check_language_model(f"--trained: {key}", path)
        is_doha = key.startswith(f"{DOHA}/")
        if is_doha and not open_checkpoint(path).config.knowledge_attention:
            raise ConfigError(
                f"--trained: {key}: {path}: has no attention over the knowledge, so it is no DoHA; "
                "train one with faithdial_generate_doha.gin."
            )


class Table(JudgedTable):
    """The workflow: systems are trained, and respond to each data set."""

    title = "Systems by training data (Dziri 2022, tables 5 and 8)"
    nothing = "--methods, --trained-on, --tested-on: there is no data to train on and respond to"
    judged_by = (
        Scored("faith_critic", "a model (--critic-model)"),
        Scored("q2_f1", "models (--q2-model, --q2-nli-model)"),
        Scored("q2_nli", "models (--q2-model, --q2-nli-model)"),
        Scored("bertscore", "a model (--bertscore-model)"),
        Scored("q2_baseline_token_f1"),
        Scored("token_f1"),
        Scored("rougeL_f1_stemmed", against="target"),
    )
    columns: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "Critic": {"scorer": "faith_critic", "below": 0.5, **_PER_CENT},
        "Q\u00b2 F1": {"scorer": "q2_f1", **_PER_CENT},
        "Q\u00b2 NLI": {"scorer": "q2_nli", **_PER_CENT},
        "BERTScore": {"scorer": "bertscore", "digits": 2},
        "F1": {"scorer": "q2_baseline_token_f1", **_PER_CENT},
        "TRUE F1": {"scorer": "token_f1", **_PER_CENT},
        "BLEU": {"reference": "target", "digits": 1, "only": ["faithdial"]},
        "ROUGE": {"scorer": "rougeL_f1_stemmed", "only": ["faithdial"], **_PER_CENT},
    }

    def __init__(self, options: Faithdial, rows: CountRows):
        options = _complete_options(options)
        super().__init__(options, rows)
        possible = [
            System(model, method, data)
            for data in dict.fromkeys(options.trained_on)
            for model in options.models
            for method in dict.fromkeys(options.methods)
        ]
        self.checkpoints: dict[System, list[str]] = {}
        for system in possible:
            if not system.is_possible or not any(map(system.is_tested_on, options.tested_on)):
                continue
            if system.trained_name in options.trained:
                checkpoints = [options.trained[system.trained_name]] * len(options.seeds)
                self.checkpoints[system] = checkpoints
                continue
            tasks = [task_of(method, data, options.sample) for method, data in system.stages()]
            if lacking := [task for task in tasks if not rows(task, "train")]:
                self.left_out.append(f"{system.name} (no data of {lacking[0]})")
                continue
            self.checkpoints[system] = [self._add_trainings(system, s) for s in options.seeds]
        self.corpora += self.keep_available(
            {
                corpus: (task_of(CROSS_ENTROPY, corpus, options.sample), TESTED_ON[corpus][1])
                for corpus in options.tested_on
            }
        )
        for corpus in self.corpora:
            for kind in ("plain", CTRL):  # without control tokens, or with them
                responders = {
                    system.name: checkpoints
                    for system, checkpoints in self.checkpoints.items()
                    if system.is_tested_on(corpus) and (system.method == CTRL) == (kind == CTRL)
                }
                if responders:
                    run = self._build_inference_run(corpus, kind, responders)
                    self.responses[f"{corpus}/{kind}"] = run
        self.add_scores()

    def _add_trainings(self, system: System, seed: int) -> str:
        """Adds the trainings of a system; returns its checkpoint."""
        initial, done = self.options.models[system.model], ""
        inputs: list[str] = []
        for method, data in system.stages():
            name = f"{system.model}/seed_{seed}/{method}_{done}{data}"
            recipe = METHODS.get(method, "faithdial_generate_doha.gin")
            bindings = self._build_training_bindings(method, data, initial, seed)
            self.trainings[name] = GinRun([recipe], bindings, inputs)
            initial, inputs, done = (
                _best_checkpoint_path(name),
                [training_done_file(name)],
                f"{data}_then_",
            )
        return initial

    def _build_training_bindings(
        self, method: str, data: str, initial: str, seed: int
    ) -> dict[str, Any]:
        options = self.options
        task = task_of(method, data, options.sample)
        lengths: dict[str, Any] = {
            "inputs": options.max_input_length,
            "targets": options.target_length,
        }
        if method == INFONCE:
            lengths["negatives"] = (8, min(64, options.target_length))
        bindings: dict[str, Any] = {
            "INITIAL_CHECKPOINT_PATH": initial,
            "MIXTURE_OR_TASK_NAME": task,
            "TASK_FEATURE_LENGTHS": lengths,
            "RANDOM_SEED": seed,
            "DECODING": None,
        }
        if data in _VALIDATION:
            bindings["EVAL_SPLIT"] = _VALIDATION[data]
        if options.vocabulary:
            bindings["VOCABULARY"] = options.vocabulary
        if options.learning_rate is not None:
            bindings["LEARNING_RATE"] = options.learning_rate
        schedule = _SCHEDULES.get(method, _Schedule())
        if options.train_batch_size is not None:
            bindings["BATCH_SIZE"] = options.train_batch_size
            if schedule.pieces > 1:
                bindings["NUM_MICROBATCHES"] = math.gcd(schedule.pieces, options.train_batch_size)
        batch_size = options.train_batch_size or _BATCH_SIZE
        steps, num_rows = options.train_steps, self.rows(task, "train")
        # The recipes' steps are for FaithDial as published, with their own batch size.
        if steps is None and (batch_size, num_rows) != (_BATCH_SIZE, _PUBLISHED_ROWS):
            steps = math.ceil(schedule.epochs * num_rows / batch_size)
        if steps is not None:
            period = max(steps // (2 * schedule.epochs), min(steps, _LEAST_PERIOD))
            bindings |= {
                "TRAIN_STEPS": steps,
                "WARMUP_STEPS": round(schedule.warmup * steps),
                "EVAL_PERIOD": period,
                "CHECKPOINT_PERIOD": period,
            }
            if method == LOSS_TRUNCATION:
                warmup = _TRUNCATION_EXAMPLES / batch_size
                if options.train_steps is not None:  # scale it down for a shorter training
                    of_all = _TRUNCATION_EXAMPLES / (_RECIPE_STEPS * _BATCH_SIZE)
                    warmup = min(warmup, of_all * steps)
                bindings["TRUNCATION_WARMUP_STEPS"] = max(1, round(warmup))
        return bindings

    def _build_inference_run(
        self, corpus: str, kind: str, responders: Mapping[str, list[str]]
    ) -> GinRun:
        options = self.options
        lengths = {"inputs": options.max_input_length, "targets": options.target_length}
        bindings: dict[str, Any] = {
            "CHECKPOINT_PATH": responders,
            "MIXTURE_OR_TASK_NAME": task_of(CROSS_ENTROPY, corpus, options.sample),
            "SPLIT": TESTED_ON[corpus][1],
            "TASK_FEATURE_LENGTHS": lengths,
            "TOP_P": 0.6,
            "MIN_DECODE_LENGTH": min(2, options.max_length),
            "DECODE_LENGTH": options.max_length,
            "BATCH_SIZE": options.batch_size,
            "LIMIT": options.limit,
            "FORMATS": ("jsonl",),
        }
        if kind == CTRL:
            bindings["INPUT_CONTROL_TOKENS"] = tuple(map(str, FAITHFUL_TOKENS))
        if options.vocabulary:
            bindings["VOCABULARY"] = options.vocabulary
        used = {path for paths in responders.values() for path in paths}
        after = [
            training_done_file(name)
            for name in self.trainings
            if _best_checkpoint_path(name) in used
        ]
        return GinRun(("runs/infer.gin", "decoding/nucleus.gin"), bindings, after)

    def scorers_of(self, corpus: str) -> dict[str, list[str]]:
        """Returns the scorers by the column that they compare responses with.

        Responses to other data than FaithDial are not compared with gold responses (Dziri 2022,
        section 5.2.4).
        """
        scorers = super().scorers_of(corpus)
        return scorers if corpus == "faithdial" else {"knowledge": scorers["knowledge"]}

    def comparisons(self) -> list[tuple[str, str]]:
        """Pairs each system with the same model trained by cross-entropy on the same data."""
        names = {system.name for system in self.checkpoints}
        pairs = [(s.name, s._replace(method=CROSS_ENTROPY).name) for s in self.checkpoints]
        return [(name, base) for name, base in pairs if name != base and base in names]

    def notes(self) -> list[str]:
        """Returns notes on models, decoding and metrics."""
        models = ", ".join(f"{name} = {path}" for name, path in self.options.models.items())
        return [
            f"Models: {models}; responses by nucleus sampling with p = 0.6.",
            "Critic: per cent of responses that it calls unfaithful (lower is better), Q\u00b2, F1 "
            "(the paper's: spaCy's tokens without stop words and punctuation) and TRUE F1 (TRUE's "
            "token F1) in per cent and BERTScore, against the knowledge; BLEU-4 of the corpus in "
            "lower case (0 to 100) and ROUGE-L (F1 of Porter stems, per cent) against the gold "
            "response.",
            *self.left_out_notes(),
        ]


def _best_checkpoint_path(training: str) -> str:
    return f"models/{training}/checkpoints/best"


def task_of(method: str, data: str, sample: bool) -> str:
    """Returns the task to train a method on.

    >>> task_of("ctrl", "wow", True)
    'wizard_of_wikipedia_generate_ctrl_sample'
    """
    variant = f"_{method}" if method in (CTRL, INFONCE) else ""
    return f"{_TASKS[data]}{variant}{'_sample' if sample else ''}"
