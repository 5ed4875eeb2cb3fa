"""`reproduce nli` and `reproduce nli_phrases` (Steen 2023, tables 1, 2, 4 and 5)."""

import dataclasses
from typing import Any, ClassVar

from faith_jax.cli.reproduce_tables import Steps
from faith_jax.core.errors import ConfigError
from faith_jax.reproduce.workflow import absolute
from faith_jax.runs.options import Natural, Resamples, listed_names


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Classifiers(Steps):
    """The models of both tables.

    Attributes:
      model (CHECKPOINT): the NLI classifier
      augmented_model (FOLDER): the same classifier, trained on augmented ANLI
      corpora (NAMES): of TRUE, separated by commas (without: its nine)
      dropout_passes (K): of Monte-Carlo dropout
      scorer_option (MODEL.NAME=VALUE): of base, augmented, t5_anli, summac_zs or q2 (repeatable)
      seed: of all that is drawn
    """

    model: str = ""
    augmented_model: str = ""
    corpora: str = ""
    dropout_passes: int = 15
    scorer_option: tuple[str, ...] = ()
    seed: Natural = 0

    def table(self) -> str:
        """Makes the table; returns it as text."""
        from faith_jax.reproduce import nli, nli_phrases
        from faith_jax.reproduce.workflow import table_of_workflow

        page = nli if self.name == "nli" else nli_phrases
        settings = vars(self) | {"models": self._models()}
        for name in ("corpora", "methods"):
            settings[name] = listed_names(settings.get(name, ""))
            if not settings[name]:
                del settings[name]
        known = {field.name for field in dataclasses.fields(page.Options)}
        options = page.Options(**{name: settings[name] for name in known & settings.keys()})
        options.check()
        return table_of_workflow(self.name, options, page.Table, self.output, vars(self))

    def _models(self) -> dict[str, dict[str, Any]]:
        """Returns the models with their scorers' options."""
        from faith_jax.cli.score_commands import scorer_options
        from faith_jax.reproduce.nli import MODELS

        models = scorer_options(list(MODELS), self.scorer_option, "the models")
        for name, option in MODELS.items():
            folder = getattr(self, option.removeprefix("--").replace("-", "_"), "")
            if models[name] and not folder:
                raise ConfigError(f"--scorer-option: {name} has no model; give {option}.")
            if folder:
                models[name] = {"model": absolute(folder)} | models[name]
        for name in ("answer_model", "nli_model"):
            if folder := getattr(self, f"q2_{name}", ""):
                if not models["q2"]:
                    raise ConfigError(f"--q2-{name.replace('_', '-')}: goes with --q2-model.")
                models["q2"][name] = absolute(folder)
        if models["q2"] and "nli_model" not in models["q2"]:
            base = models["base"]
            labels = {"labels": base["labels"]} if "labels" in base else {}
            models["q2"] = labels | {"nli_model": base.get("model", "")} | models["q2"]
        return {name: options for name, options in models.items() if options}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nli(_Classifiers):
    """Steen 2023, tables 1, 2 and 4: an NLI classifier with a little push.

    Faithfulness on TRUE by an NLI classifier, as it is, with e-c, Monte-Carlo dropout and training
    on ANLI with dialogue phrases; beside others, with their costs (docs/nli.md).

    Attributes:
      t5_model (FOLDER): a T5 that was trained on ANLI
      summac_model (FOLDER): an NLI classifier for SummaC-ZS
      q2_model (FOLDER): asks questions about a response, for Q²
      q2_answer_model (FOLDER): answers them (without: the same)
      q2_nli_model (FOLDER): compares answers, and judges responses without questions (without:
        --model)
      methods (NAMES): separated by commas (without: all that there are models for)
      resamples (N): of intervals and tests
    """

    name: ClassVar = "nli"
    t5_model: str = ""
    summac_model: str = ""
    q2_model: str = ""
    q2_answer_model: str = ""
    q2_nli_model: str = ""
    methods: str = ""
    resamples: Resamples = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class NliPhrases(_Classifiers):
    """Steen 2023, table 5: that training again, with five of the ten phrases each time.

    Draws phrases, trains the classifier on ANLI with them, and scores TRUE (docs/nli.md).

    Attributes:
      batch_size (N): rows of a training step
      max_input_length (N): tokens of a row of training
      draws (N): of phrases
      phrases (N): in a draw
      train_task (NAME): without: nli_anli_augmented, with --sample nli_anli_augmented_sample
      train_steps (N): of each draw
      learning_rate (RATE): its peak
    """

    name: ClassVar = "nli_phrases"
    batch_size: int = 64
    max_input_length: int = 512
    draws: int = 10
    phrases: int = 5
    train_task: str = ""
    train_steps: int = 2000
    learning_rate: float = 5e-6
