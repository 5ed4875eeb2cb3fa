"""The tables of `reproduce` that are workflows, with their options."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from faith_jax.cli.shared import resumable
from faith_jax.core.errors import ConfigError
from faith_jax.core.quiet_tensorflow import quiet_tensorflow
from faith_jax.reproduce.workflow import absolute, leave_accelerators
from faith_jax.runs.options import (
    Natural,
    NpovCombinations,
    NpovErrors,
    NpovTopics,
    Positive,
    Resamples,
    listed_names,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """Where a table goes.

    Attributes:
      output (FOLDER): all that is made
      sample: use the samples in the package
    """

    name: ClassVar[str]
    output: str
    sample: bool = False

    def run(self) -> int:
        quiet_tensorflow()

        def made() -> int:
            print(self.table(), end="")
            print(self.output)
            return 0

        kept = f"what is made is kept in {self.output}; the same command resumes."
        return resumable(made, lambda: kept)

    def table(self) -> str:
        """Makes the table; returns it as text."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Steps(Output):
    """How a workflow runs.

    Attributes:
      cores (N): that steps share; 0 = all
      dry_run: only show the commands
      snakemake (ARGUMENT): for Snakemake, such as --snakemake=--profile=slurm (repeatable)
    """

    cores: int = 0
    dry_run: bool = False
    snakemake: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workflow(Steps):
    """What most workflows have.

    Attributes:
      vocabulary (PATH): the tokenizer of models that carry none
      batch_size (N): rows decoded at once
      resamples (N): of intervals and tests
      seed: of all that is drawn
    """

    vocabulary: str = ""
    batch_size: Positive = 16
    resamples: Resamples = 1000
    seed: Natural = 0

    def settings(self, options: type, **changed: Any) -> dict[str, Any]:
        """Returns what the options of a table are made of.

        Args:
          options: a dataclass; its fields with names of ours have our values, where one is given.
          **changed: other values for some of them.
        """
        names = {field.name for field in dataclasses.fields(options)}
        given = {n: it for n, it in vars(self).items() if n in names and it not in (None, "", ())}
        return {**given, "vocabulary": absolute(self.vocabulary), **changed}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Judges:
    """Models that judge responses.

    Attributes:
      bertscore_model (FOLDER): an encoder; usually roberta-large
      q2_model (FOLDER): asks questions about a response, for Q²
      q2_answer_model (FOLDER): answers them (without: the same)
      q2_nli_model (FOLDER): compares answers, and judges responses without questions
      scorer_option (SCORER.NAME=VALUE): of a scorer with a model, such as bertscore.baseline=FILE,
        which rescales as the papers do (repeatable)
      limit (N): only the first rows of each data set; 0 = all
    """

    bertscore_model: str = ""
    q2_model: str = ""
    q2_answer_model: str = ""
    q2_nli_model: str = ""
    scorer_option: tuple[str, ...] = ()
    limit: int = 0

    def scorers(self, models: Mapping[str, str], q2: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Returns the options of the scorers that have a model, which is loaded as a check.

        Args:
          models: by scorer the model that was given; "" = none.
          q2: names of those that are Q².

        Raises:
          FaithJaxError: for a model that cannot be opened, and for options of a scorer without one.
        """
        from faith_jax.cli.score_commands import scorer_options
        from faith_jax.scoring.registry import load_scorer

        leave_accelerators()

        of_q2 = {
            "model": self.q2_model,
            "answer_model": self.q2_answer_model,
            "nli_model": self.q2_nli_model,
        }
        found = {}
        for name, told in scorer_options([*models, *q2], self.scorer_option).items():
            given = of_q2 if name in q2 else {"model": models[name]}
            options = {key: path for key, path in given.items() if path} | told
            if not options:
                continue
            if name in q2 and not (options.get("model") and options.get("nli_model")):
                lacking = "--q2-nli-model" if options.get("model") else "--q2-model"
                raise ConfigError(
                    f"{name} needs a model that asks questions (--q2-model) and one of natural "
                    f"language inference (--q2-nli-model); {lacking} is not given."
                )
            if "model" not in options:
                raise ConfigError(
                    f"--scorer-option: {name} is not scored without a model of its own."
                )
            found[name] = {
                key: absolute(value) if isinstance(value, str) else value
                for key, value in options.items()
            }
            load_scorer(name, **found[name])
        return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class PmiDecode(_Judges, Workflow):
    """Nandwani 2023, table 3: a model's responses with and without PMI-Decode.

    Responses of a model (the paper: a BART-large) by plain beam search (likelihood) and by
    PMI-Decode (pmi; pmi_no_mask, p = 1; pmi_equal, alpha = 0.5), and their scores.

    Attributes:
      model (CHECKPOINT): that responds: any language model
      scorer_model (CHECKPOINT): for PMI-Faith; the paper: BLOOM-560m
      corpus (NAME): multidoc2dial, topical_chat or faithdial (repeatable; without: all)
      decodings (NAMES): some of them (without: all four)
      beams (N): width of the searches; 1 = greedy
      alpha: in [0, 1]
      p: in (0, 1]
      max_length (N): tokens of a response at most
      max_input_length (N): tokens of an input at most
    """

    name: ClassVar = "pmi_decode"
    model: str = ""
    scorer_model: str = ""
    corpus: tuple[str, ...] = ()
    decodings: str = ""
    beams: int = 4
    alpha: float = 0.25
    p: float = 0.6
    max_length: int = 128
    max_input_length: int = 512

    def table(self) -> str:
        """Makes the table; returns it as text."""
        from faith_jax.reproduce.pmi_decode import Options, Table
        from faith_jax.reproduce.workflow import table_of_workflow
        from faith_jax.runs.setup import check_language_model

        models = {"pmi_faith_mean": self.scorer_model, "bertscore": self.bertscore_model}
        chosen = {"corpora": list(self.corpus), "decodings": listed_names(self.decodings)}
        given = self.settings(Options, **{name: it for name, it in chosen.items() if it})
        scorers = self.scorers(models, ["q2_nli"])
        changed = {"model": absolute(self.model), "num_beams": self.beams, "scorers": scorers}
        options = Options(**{**given, **changed})
        options.check()
        check_language_model("--model", options.model)
        return table_of_workflow(self.name, options, Table, self.output, vars(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovDetection(NpovErrors, NpovCombinations, NpovTopics, Workflow):
    """Chang 2024, tables 1, 2, 3, 5 and 6: errors in a model's responses, and who finds them.

    Responses of a generator, with errors, and how well ROUGE, salience and classifiers detect these
    (docs/detection.md).

    Attributes:
      model (CHECKPOINT): that responds: any language model
      hallucination_model (FOLDER): table 1's classifier (without: dev's)
      coverage_model (FOLDER): likewise
      classifiers (NAME=HALL_FOLDER,COV_FOLDER): by what they are trained on: synth, para, dev, org
        or annotation_free; one of the folders may be left out (repeatable)
      salience_model (CHECKPOINT): whose gradients are taken (without: the generator's)
      max_length (N): tokens of a response at most
      max_input_length (N): tokens of an input at most
    """

    name: ClassVar = "npov_detection"
    model: str = ""
    hallucination_model: str = ""
    coverage_model: str = ""
    classifiers: tuple[str, ...] = ()
    salience_model: str = ""
    max_length: int = 256
    max_input_length: int = 512

    def table(self) -> str:
        """Makes the tables; returns them as text."""
        from faith_jax.reproduce.npov_detection import Options, npov_detection

        if self.sample and self.knowledge != NpovTopics.knowledge:
            raise ConfigError(
                f"--sample: is of the topics in the package, --knowledge of {self.knowledge}; give "
                "one of them."
            )
        classifiers = {}
        for name, folders in named("classifiers", self.classifiers, "HALL_FOLDER,COV_FOLDER"):
            parts = [absolute(part.strip()) for part in folders.split(",")]
            if len(parts) != 2 or not any(parts):
                raise ConfigError(
                    f"--classifiers: expected NAME=HALL_FOLDER,COV_FOLDER, got {name}={folders!r}."
                )
            classifiers[name] = parts
        paths = ("model", "hallucination_model", "coverage_model", "salience_model", "marks")
        changed: dict[str, Any] = {name: absolute(getattr(self, name)) for name in paths}
        if self.knowledge != NpovTopics.knowledge:
            changed["knowledge"] = absolute(self.knowledge)
        given = self.settings(Options, **changed, classifiers=classifiers)
        return npov_detection(Options(**given), self.output, vars(self))


# What the sample is trained with, where nobody says: minutes on 2 cores. None of its texts is cut
# with the tokenizer of `mini`, and no row has more negatives.
_SAMPLE = {
    "train_steps": 20, "train_batch_size": 8, "max_input_length": 160, "target_length": 64,
    "max_length": 32,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Faithdial(_Judges, Workflow):
    """Dziri 2022, tables 5 and 8: generators by training data and method.

    Models are trained by each method on each data, respond to FaithDial's test turns and,
    zero-shot, to other dialogues', and are judged (docs/faithdial.md). Columns that need a model
    are left out without one.

    Attributes:
      models (NAME=CHECKPOINT): to train, such as t5=checkpoints/t5_base; doha=… makes a BART a DoHA
        (repeatable)
      methods (NAMES): of cross_entropy, ctrl, loss_truncation, infonce (without: all)
      trained_on (NAMES): of wow, faithdial, wow_then_faithdial, topical_chat and cmu_dog, of which
        the last two are tested on themselves alone (without: these), and faithdial_wow: FaithDial's
        dialogues with Wizard of Wikipedia's responses
      tested_on (NAMES): of faithdial, wow, topical_chat, cmu_dog (without: all that are at hand)
      seeds (NUMBERS): of trainings; figures are means over them
      trained (SYSTEM/DATA=FOLDER): a model that is trained already, such as
        t5_infonce/faithdial=runs/infonce (repeatable)
      train_steps (N): of each training (without: 10 epochs, of doha 25; of samples 20)
      train_batch_size (N): rows (without: 32; of samples 8)
      learning_rate (RATE): its peak (without: 6.25e-5; doha 2e-5)
      max_input_length (N): tokens of an input at most (without: 512; of samples 160)
      target_length (N): tokens that are trained on (without: 256; of samples 64)
      max_length (N): tokens of a response at most (without: 128; of samples 32)
      critic_model (FOLDER): FaithDial's critic
    """

    name: ClassVar = "faithdial"
    models: tuple[str, ...] = ()
    methods: str = ""
    trained_on: str = ""
    tested_on: str = ""
    seeds: str = "0"
    trained: tuple[str, ...] = ()
    train_steps: int | None = None
    train_batch_size: int | None = None
    learning_rate: float | None = None
    max_input_length: int | None = None
    target_length: int | None = None
    max_length: int | None = None
    critic_model: str = ""

    def table(self) -> str:
        """Makes the table; returns it as text."""
        from faith_jax.reproduce.faithdial import Options, Table
        from faith_jax.reproduce.workflow import table_of_workflow

        lists = {n: listed_names(getattr(self, n)) for n in ("methods", "trained_on", "tested_on")}
        models = {"faith_critic": self.critic_model, "bertscore": self.bertscore_model}
        given = self.settings(
            Options,
            **{name: listed for name, listed in lists.items() if getattr(self, name)},
            seeds=_numbers(self.seeds),
            models={n: absolute(path) for n, path in named("models", self.models)},
            # SYSTEM/DATA; the table names the data first.
            trained={
                "/".join(reversed(name.split("/"))): absolute(path)
                for name, path in named("trained", self.trained)
            },
            scorers=self.scorers(models, ["q2_f1", "q2_nli"]),
        )
        options = Options(**({**_SAMPLE, **given} if self.sample else given))
        options.check()
        _check_models(options)
        return table_of_workflow(self.name, options, Table, self.output, vars(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FaithCritic(Workflow):
    """Dziri 2022, table 4: the transfer of critics.

    Critics trained on DECODE, DNLI, MNLI and FaithCritic, tested on MNLI, BEGIN and FaithCritic.
    Missing ones are trained from --model (the paper: a RoBERTa-large) by faith_critic_finetune.gin.

    Attributes:
      model (CHECKPOINT): from which critics are trained
      critics (NAME=FOLDER): a classifier that is trained already: DECODE, DNLI, MNLI or FaithCritic
        (repeatable)
      sets (NAME): published: those of the authors' code; own: BEGIN's second release, and
        FaithCritic with edited responses in test too
      train_steps (N): of each critic; 0 = ten epochs of its data
      batch_size (N): rows of a step
      max_length (N): tokens of a pair at most
    """

    name: ClassVar = "faith_critic"
    model: str = ""
    critics: tuple[str, ...] = ()
    sets: str = "published"
    train_steps: int = 0
    batch_size: int = 32
    max_length: int = 256

    def table(self) -> str:
        """Makes the table; returns it as text."""
        from faith_jax.reproduce.faith_critic import Options, Table
        from faith_jax.reproduce.workflow import table_of_workflow

        critics = {name: absolute(folder) for name, folder in named("critics", self.critics)}
        given = self.settings(Options, model=absolute(self.model), critics=critics)
        options = Options(**given)
        options.check()
        return table_of_workflow(self.name, options, Table, self.output, vars(self))


def named(option: str, texts: Sequence[str], value: str = "FOLDER") -> Iterable[tuple[str, str]]:
    """Returns names with what stands behind them, from NAME=VALUE.

    Raises:
      ConfigError: for another form, and a name that is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, path = (part.strip() for part in text.partition("="))
        if not (name and equals and path):
            raise ConfigError(f"--{option}: expected NAME={value}, got {text!r}.")
        if name in found:
            raise ConfigError(f"--{option}: {name!r} is given twice.")
        found[name] = path
    return found.items()


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--seeds: expected whole numbers with commas, such as 0,1,2; got {text!r}."
        ) from None


def _check_models(options: Any) -> None:
    """Checks the models to train and those that are trained; a DoHA is made of a BART.

    Raises:
      ConfigError: naming the option.
    """
    from faith_jax.checkpoints.open import open_checkpoint
    from faith_jax.reproduce.faithdial import DOHA
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
        is_doha = key.endswith(f"/{DOHA}")
        if is_doha and not open_checkpoint(path).config.knowledge_attention:
            raise ConfigError(
                f"--trained: {key}: {path}: has no attention over the knowledge, so it is no DoHA; "
                "train one with faithdial_generate_doha.gin."
            )
