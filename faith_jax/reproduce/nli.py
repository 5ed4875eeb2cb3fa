"""What "With a Little Push" is made of: NLI models on TRUE (Steen 2023, tables 1, 2 and 4).

`nli.smk` scores each corpus by the methods of each model that is given; the tables are made of
these scores. `nli_phrases` shares the models and the scoring.
"""

import dataclasses
import json
import logging
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, FaithJaxError, InputError, counted, did_you_mean
from faith_jax.core.files import checkpoint_state
from faith_jax.datasets.raw.true_benchmark import AVERAGED, CORPORA
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.reproduce import nli_tables
from faith_jax.reproduce.faithdial import check_names
from faith_jax.reproduce.workflow import Scores, leave_accelerators
from faith_jax.scoring.pair_classifier import forget_classifiers
from faith_jax.scoring.registry import load_scorer, scorer_card, scorer_options
from faith_jax.statistics.auc_table import AucTable, auc_table
from faith_jax.statistics.scored_corpora import (
    Corpus,
    Range,
    check_usable,
    read_corpora,
    row_notes,
    with_ensembles,
)

logger = logging.getLogger("faith_jax")

BASE, T5, E_ORIG = "base", "t5_anli", "e_orig"
# The models by the names that --scorer-option has, with the option that gives each.
MODELS = {
    BASE: "--model",
    "augmented": "--augmented-model",
    T5: "--t5-model",
    "summac_zs": "--summac-model",
    "q2": "--q2-model",
}
_DROPOUT_OPTIONS = {"dropout_passes": "--dropout-passes", "seed": "--seed"}
_MODEL_OPTIONS = ("model", "answer_model", "nli_model")


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
# The modifications one by one (table 2), what the paper tests (table 1), and the rows of table 4.
MODIFICATIONS = ("base_e_minus_c", "base_mc", "augmented")
_OURS = (BASE, *MODIFICATIONS, "no_mc", "all")
ENSEMBLES = {E_ORIG: (T5, "summac_zs", "q2"), "e_our": ("all", "summac_zs", "q2")}
TESTED = {T5: _OURS, BASE: _OURS, E_ORIG: (*_OURS, "e_our")}
MARKS = {T5: "*", BASE: "\u2020", E_ORIG: "x"}
COSTED = ("summac_zs", T5, "q2", BASE, "base_mc", "no_mc", "all")


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """The options of both tables.

    Attributes:
      models: options of each model's scorers, of `MODELS`; each has at least `model`, its folder.
      dropout_passes: k of Monte-Carlo dropout.
      corpora: of TRUE.
      sample: the samples in the package, in place of the corpora.
      seed: of all that is drawn.
    """

    models: Mapping[str, Mapping[str, Any]]
    dropout_passes: int = 15
    corpora: Sequence[str] = AVERAGED
    sample: bool = False
    seed: int = 0

    def check(self) -> None:
        """Checks names and numbers.

        Raises:
          ConfigError: naming the option.
        """
        if not self.models.get(BASE):
            raise ConfigError("--model: give a classifier of three classes: --model=FOLDER.")
        check_names("corpora", self.corpora, CORPORA)
        for model, given in self.models.items():
            scorer = next(m.scorer for m in METHODS.values() if m.model == model)
            known = [name for name in scorer_options(scorer) if name not in _DROPOUT_OPTIONS]
            for option in given:
                told = f"--scorer-option: {model}"
                if option in _DROPOUT_OPTIONS:
                    raise ConfigError(
                        f"{told}.{option} is of the methods with Monte-Carlo dropout; give "
                        f"{_DROPOUT_OPTIONS[option]}."
                    )
                if option not in known:
                    raise ConfigError(
                        f"{told} has no option {option!r}.{did_you_mean(option, known)} Its "
                        f"options: {', '.join(known)}."
                    )
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

    def check_scorers(self, methods: Mapping[str, Method]) -> None:
        """Loads the scorers, so that their mistakes come first.

        Raises:
          ConfigError: naming the model's option.
        """
        leave_accelerators()
        for method in dict.fromkeys(methods.values()):
            try:
                load_scorer(method.scorer, **self.scorer_options(method))
            except FaithJaxError as error:
                given = f"give --scorer-option={method.model}.dropout_rate="
                told = str(error).replace("give dropout_rate=", given)
                raise ConfigError(f"{MODELS[method.model]}: {told}") from None
        forget_classifiers()

    def data(self, corpus: str) -> str:
        """Returns the name of a corpus's data set."""
        return f"true_benchmark/{corpus}{'_sample' if self.sample else ''}"

    def scores(
        self,
        methods: Mapping[str, Method],
        corpora: Sequence[str],
        trained: str = "",
        costs: str = "",
    ) -> Scores:
        """Returns the command that scores corpora by methods of one model.

        Args:
          methods: by the names of their scores.
          corpora: of TRUE.
          trained: the training whose best checkpoint takes the model's place; "" = none.
          costs: a file for what they cost; "" = none.
        """
        models: dict[str, None] = {}
        options = []
        for name, method in methods.items():
            told = self.scorer_options(method)
            if trained:
                told["model"] = f"models/{trained}/checkpoints/best"
            options += [f"--scorer-option={name}.{option}={v!r}" for option, v in told.items()]
            models |= {told[it]: None for it in _MODEL_OPTIONS if told.get(it) and not trained}
        scorers = ",".join(f"{name}={method.scorer}" for name, method in methods.items())
        arguments = [
            *(f"--tfds={self.data(corpus)}" for corpus in corpora),
            "--split=test",
            f"--scorers={scorers}",
            *options,
            *([f"--costs={costs}"] if costs else ()),
        ]
        return Scores(arguments, trained, [checkpoint_state(model) for model in models])


@dataclasses.dataclass(frozen=True)
class Options(ModelOptions):
    """The options of tables 1, 2 and 4.

    Attributes:
      methods: of `METHODS` and `ENSEMBLES`; () = all whose models are there.
      resamples: of the bootstrap, and rounds of the tests.
    """

    methods: Sequence[str] = ()
    resamples: int = 1000

    def check(self) -> None:
        """See `ModelOptions`."""
        super().check()
        check_names("methods", self.methods, (*METHODS, *ENSEMBLES))
        for name in self.methods:
            for member in ENSEMBLES.get(name, (name,)):
                model = METHODS[member].model
                if model not in self.models:
                    raise ConfigError(f"--methods: {name} needs a model: give {MODELS[model]}.")
        self.check_scorers(self.scored)

    @property
    def scored(self) -> dict[str, Method]:
        """The methods that are chosen, ensembles' members among them, and have a model."""
        chosen = {m for name in self.methods for m in ENSEMBLES.get(name, (name,))}
        return {
            name: method
            for name, method in METHODS.items()
            if method.model in self.models and (not chosen or name in chosen)
        }

    @property
    def ensembles(self) -> dict[str, tuple[str, ...]]:
        """The ensembles that are chosen, or whose members are all scored."""
        return {
            name: members
            for name, members in ENSEMBLES.items()
            if (not self.methods or name in self.methods) and set(members) <= set(self.scored)
        }

    def range_of(self, name: str) -> Range:
        """Returns the range of a method, as its scorer's card declares it."""
        method = METHODS[name]
        card = scorer_card(method.scorer)
        signed = self.models[method.model].get("use_contradiction", False)
        return Range(-1.0 if signed else card.low, card.high)


class CorporaTable:
    """What both workflows do, in names of their files.

    Args:
      options: of the table.
      rows: how many rows the data sets have that are at hand.
    """

    def __init__(self, options: Any, rows: Mapping[str, int]):
        self.options = options
        asked = dict.fromkeys(options.corpora)
        self.corpora = [c for c in asked if f"{options.data(c)}:test" in rows]
        self.scores: dict[str, Scores] = {}

    @staticmethod
    def tasks(options: ModelOptions) -> Iterator[tuple[str, str]]:
        """Yields the data sets and splits that the table reads."""
        for corpus in options.corpora:
            yield options.data(corpus), "test"

    def check_data(self) -> None:
        """Checks that some corpus is at hand; warns of those that are not.

        Raises:
          InputError: where there is none.
        """
        left_out = [corpus for corpus in self.options.corpora if corpus not in self.corpora]
        for corpus in left_out:
            logger.warning("left out: %s (no data)", corpus)
        if not self.corpora:
            raise InputError(
                f"--corpora: there is no data of {', '.join(left_out)}. See `faith-jax prepare "
                "true_benchmark`."
            )

    def read(self, folder: pathlib.Path, names: Sequence[str]) -> dict[str, Corpus]:
        """Returns the corpora with the scores of some commands."""
        paths = [folder / "scores" / f"{name}.jsonl" for name in names]
        found = read_corpora({str(path): read_scored_rows(path) for path in paths})
        check_usable(found)
        return {corpus: found[corpus] for corpus in self.corpora}


class Table(CorporaTable):
    """Tables 1, 2 and 4."""

    def __init__(self, options: Options, rows: Mapping[str, int]):
        super().__init__(options, rows)
        for model in MODELS:
            of_model = {name: m for name, m in options.scored.items() if m.model == model}
            if of_model:
                costs = f"scores/{model}.costs.json"
                self.scores[model] = options.scores(of_model, self.corpora, costs=costs)

    def write(self, folder: pathlib.Path) -> None:
        """Writes the tables as nli.md, .tex, .csv and .json; of samples as nli_sample."""
        options = self.options
        read = self.read(folder, list(self.scores))
        rows = {name: corpus.only(list(options.scored)) for name, corpus in read.items()}
        joined = with_ensembles(rows, options.ensembles, options.range_of)
        resamples, seed = options.resamples, options.seed
        found = auc_table(joined, TESTED, resamples, seed=seed, averaged=AVERAGED)
        costs = self._costs(folder)
        published = {} if options.sample else nli_tables.published()
        notes = tuple(_mark_notes(options))
        tables = [nli_tables.auc_table_of_methods(found, MARKS, published, notes)]
        modified = [name for name in MODIFICATIONS if name in options.scored]
        if BASE in options.scored and modified:
            tables.append(nli_tables.difference_table(found, modified, BASE, published))
        if costs:
            shown = {name: (_overall(found, name), cost) for name, cost in costs.items()}
            notes = tuple(_cost_notes(costs))
            passes = options.dropout_passes
            tables.append(nli_tables.cost_table(shown, passes, published, notes))
        figures = {
            "sample": options.sample,
            "models": {name: dict(given) for name, given in options.models.items()},
            "dropout_passes": options.dropout_passes,
            "resamples": resamples,
            "seed": seed,
            "ensembles": {name: list(members) for name, members in options.ensembles.items()},
            "costs": costs,
        }
        title = "Faithfulness by NLI models on TRUE (Steen 2023)"
        told = (title, tuple(_notes(found, rows, options)), tables, figures)
        nli_tables.write_tables(folder, "nli", options.sample, *told)

    def _costs(self, folder: pathlib.Path) -> dict[str, Any]:
        """Returns what methods cost, in the order of table 4."""
        found: dict[str, Any] = {}
        for model in self.scores:
            path = folder / "scores" / f"{model}.costs.json"
            found |= json.loads(path.read_text(encoding="utf-8"))
        return {name: found[name] for name in COSTED if name in found}


def _overall(found: AucTable, method: str) -> float:
    """Returns a method's average AUC, or that of the only corpus."""
    if found.average:
        return found.average[method].auc
    return found.cells[method][found.averaged[0]].auc if found.averaged else math.nan


def _mark_notes(options: Options) -> Iterator[str]:
    names = (*options.scored, *options.ensembles)
    marks = [f"{mark} over {name}" for name, mark in MARKS.items() if name in names]
    if marks:
        yield (
            f"Significant improvement: {', '.join(marks)}; two-sided p \u2264 0.05 on the same "
            f"rows by approximate randomisation of {counted(options.resamples, 'round')}, not "
            "corrected for the number of comparisons (.csv and .json have Holm's correction as "
            "p_holm). As in the paper, methods of Base and All are compared, and e_our with e_orig."
        )
    missing = [name for name in MARKS if name not in names]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        yield f"No marks over {' and '.join(missing)}, which {are} not here."


def _cost_notes(costs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield (
        "Parameters are counted in the checkpoints, each once. Model calls for a response, as the "
        "paper writes them: #snt sentences of grounding and response, #Q questions of Ql tokens."
    )
    places = {
        f"{counted(cost['rows'], 'row')} of {cost['corpus']}, a second pass after everything is "
        f"compiled, on one {cost['device']}"
        for cost in costs.values()
    }
    yield f"Examples a second: {'; '.join(sorted(places))}."


def _notes(found: AucTable, corpora: Mapping[str, Corpus], options: Options) -> Iterator[str]:
    """Yields what the figures are of, and what is left out."""
    for name, given in options.models.items():
        others = (f"{option} = {value}" for option, value in given.items() if option != "model")
        yield "; ".join((f"{name}: {given.get('model')}", *others)) + "."
    left_out = [name for name, method in METHODS.items() if method.model not in options.models]
    if left_out and not options.methods:
        needed = dict.fromkeys(MODELS[METHODS[name].model] for name in left_out)
        names = [*left_out, *(name for name in ENSEMBLES if name not in options.ensembles)]
        yield f"Left out, without a model: {', '.join(names)}; give {', '.join(needed)}."
    if any(method.dropout for method in options.scored.values()):
        yield (
            f"base_mc and all: the mean over k = {options.dropout_passes} Monte-Carlo dropout "
            f"masks, seed {options.seed}; no_mc is the paper's -MC."
        )
    if options.ensembles:
        which = (f"{n} = {', '.join(names)}" for n, names in options.ensembles.items())
        members = {name for names in options.ensembles.values() for name in names}
        ranges = {name: options.range_of(name) for name in options.scored if name in members}
        signed = [f"{n} ({low:g} to {high:g})" for n, (low, high) in ranges.items() if low < 0]
        scaling = f", after mapping the range of {', '.join(signed)} to 0 to 1" if signed else ""
        yield f"Ensembles are the mean of their members' scores{scaling}: {'; '.join(which)}."
    if len(found.averaged) > 1:
        whole = set(found.averaged) == set(AVERAGED) or options.sample
        theirs = "" if whole else "; so are the published ones of tables 1 and 2, not of table 4"
        yield f"Averages are over {', '.join(found.averaged)}{theirs}."
    yield f"Intervals: percentile bootstrap of {counted(options.resamples, 'resample')}."
    yield from row_notes(corpora)
