"""The methods of "With a Little Push" (Steen 2023, section 3), and the models that they are of."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.datasets.raw.true_benchmark import AVERAGED, CORPORA
from faith_jax.scoring.registry import scorer_card, scorer_options
from faith_jax.statistics.scored_corpora import Range

NLI = "nli"
NLI_PHRASES = "nli_phrases"
BASE, T5, E_ORIG = "base", "t5_anli", "e_orig"
DROPOUT_PASSES = 15
# The models by the names that --scorer-option has, with the option that gives each.
MODELS = {
    BASE: "--model",
    "augmented": "--augmented-model",
    T5: "--t5-model",
    "summac_zs": "--summac-model",
    "q2": "--q2-model",
}
# Those of one model that are folders of others; Q2 asks, answers and infers.
MORE_MODELS = {"q2": ("answer_model", "nli_model")}
_DROPOUT_OPTIONS = {"dropout_passes": "--dropout-passes", "seed": "--seed"}


class Method(NamedTuple):
    """A method of one model.

    Attributes:
      model: of `MODELS`.
      scorer: its name among the scorers.
      dropout: whether the model runs with Monte-Carlo dropout.
    """

    model: str
    scorer: str
    dropout: bool = False


METHODS = {
    T5: Method(T5, "nli_entailment"),
    "summac_zs": Method("summac_zs", "summac_zs"),
    "q2": Method("q2", "q2_nli"),
    BASE: Method(BASE, "nli_entailment"),
    "base_e_minus_c": Method(BASE, "nli_e_minus_c"),
    "base_mc": Method(BASE, "nli_entailment", dropout=True),
    "augmented": Method("augmented", "nli_entailment"),
    "no_mc": Method("augmented", "nli_e_minus_c"),
    "all": Method("augmented", "nli_e_minus_c", dropout=True),
}
# The modifications one by one (table 2), and what the paper tests (table 1).
MODIFICATIONS = ("base_e_minus_c", "base_mc", "augmented")
OURS = (BASE, *MODIFICATIONS, "no_mc", "all")
ENSEMBLES = {E_ORIG: (T5, "summac_zs", "q2"), "e_our": ("all", "summac_zs", "q2")}
TESTED = {T5: OURS, BASE: OURS, E_ORIG: (*OURS, "e_our")}
MARKS = {T5: "*", BASE: "\u2020", E_ORIG: "x"}
# A model of table 5: Base with e-c and Monte-Carlo dropout, of one training each.
ALL_OF_BASE = Method(BASE, "nli_e_minus_c", dropout=True)


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """What methods are of, and how they run.

    Attributes:
      models: options of each model's scorers, of `MODELS`; each has at least `model`, its folder.
      dropout_passes: k of Monte-Carlo dropout.
      seed: of it.
    """

    models: Mapping[str, Mapping[str, Any]]
    dropout_passes: int = DROPOUT_PASSES
    seed: int = 0

    def __post_init__(self):
        for name, options in self.models.items():
            for option in options:
                if option in _DROPOUT_OPTIONS:
                    raise ConfigError(
                        f"--scorer-option: {name}.{option} is of the methods with Monte-Carlo "
                        f"dropout; give {_DROPOUT_OPTIONS[option]}."
                    )
            _check_options(name, options)
        if self.dropout_passes < 1:
            raise ConfigError(
                f"--dropout-passes: expected a positive number, got {self.dropout_passes}."
            )

    def scorer_options(self, method: Method) -> dict[str, Any]:
        """Returns the options that a method's scorer is loaded with."""
        options = dict(self.models[method.model])
        if method.dropout:
            return options | {"dropout_passes": self.dropout_passes, "seed": self.seed}
        options.pop("dropout_rate", None)  # of Monte-Carlo dropout alone
        return options

    def folders(self, model: str) -> list[str]:
        """Returns the checkpoints that a model's methods run, each once."""
        options = self.models[model]
        names = ("model", *MORE_MODELS.get(model, ()))
        return list(dict.fromkeys(options[name] for name in names if options.get(name)))


def _check_options(model: str, options: Iterable[str]) -> None:
    """Refuses options that a model's scorers do not have."""
    scorer = next(m.scorer for m in METHODS.values() if m.model == model)
    known = [option for option in scorer_options(scorer) if option not in _DROPOUT_OPTIONS]
    for option in options:
        if option not in known:
            raise ConfigError(
                f"--scorer-option: {model} has no option {option!r}."
                f"{did_you_mean(option, known)} Its options: {', '.join(known)}."
            )


@dataclasses.dataclass(frozen=True)
class NliOptions:
    """What the tables are made of.

    Attributes:
      models: see `ModelOptions`; Base at least.
      methods: of `METHODS` and `ENSEMBLES`; () = all whose models are there.
      corpora: of TRUE.
      sample: the samples in the package, in place of the corpora.
      resamples: of the bootstrap, and rounds of the tests.
      seed: of both.
    """

    models: ModelOptions
    methods: tuple[str, ...] = ()
    corpora: tuple[str, ...] = AVERAGED
    sample: bool = False
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self):
        check_base(NLI, self.models)
        check_names("methods", self.methods, (*METHODS, *ENSEMBLES))
        check_names("corpora", self.corpora, tuple(CORPORA))
        for name in self.methods:
            for member in ENSEMBLES.get(name, (name,)):
                model = METHODS[member].model
                if model not in self.models.models:
                    raise ConfigError(f"--methods: {name} needs a model: give {MODELS[model]}.")

    @property
    def scored(self) -> tuple[str, ...]:
        """The methods that are chosen, ensembles' members among them, and have a model."""
        there = [name for name, m in METHODS.items() if m.model in self.models.models]
        chosen = {m for name in self.methods for m in ENSEMBLES.get(name, (name,))}
        return tuple(name for name in there if not chosen or name in chosen)

    @property
    def ensembles(self) -> dict[str, tuple[str, ...]]:
        """The ensembles that are chosen, or whose members are all scored."""
        return {
            name: members
            for name, members in ENSEMBLES.items()
            if (not self.methods or name in self.methods) and set(members) <= set(self.scored)
        }

    def ranges(self) -> dict[str, Range]:
        """Returns the range of each scored method, as its scorer's card declares it."""
        found = {}
        for name in self.scored:
            method = METHODS[name]
            card = scorer_card(method.scorer)
            signed = self.models.models[method.model].get("use_contradiction", False)
            found[name] = Range(-1.0 if signed else card.low, card.high)
        return found


def check_base(table: str, models: ModelOptions) -> None:
    """Refuses options without the model that everything is compared with."""
    if not models.models.get(BASE, {}).get("model"):
        raise ConfigError(f"{table} needs a classifier of three classes: give --model=FOLDER.")


def check_names(option: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuses names that there are not, naming the option."""
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--{option}: there is no {name!r}.{did_you_mean(name, known)} There are: "
                f"{', '.join(known)}."
            )
