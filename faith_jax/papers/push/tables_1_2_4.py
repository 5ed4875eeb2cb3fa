"""The tables of "With a Little Push": NLI models on TRUE (Steen 2023, tables 1, 2, 4, figure 1).

Each corpus is scored by the methods of each given model, and the tables are made from these scores.
`nli_phrases` shares the models and the scoring.
"""

import json
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, FaithJaxError, did_you_mean, pluralize
from faith_jax.datasets.raw.true_benchmark import AVERAGED, CORPORA
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.inference.opening import clear_models
from faith_jax.papers import workflow
from faith_jax.papers.options import absolute_values, check_names
from faith_jax.papers.push import table_forms
from faith_jax.papers.push.options import Nli, NliModels
from faith_jax.papers.tables import read_published_figures
from faith_jax.papers.workflow import (
    CountRows,
    Scores,
    leave_accelerators,
    list_opened_checkpoints,
    model_notes,
    scorer_flags,
    training_done_file,
)
from faith_jax.report import figures
from faith_jax.runs import options as run_options
from faith_jax.scoring.registry import load_scorer, scorer_card, scorer_options
from faith_jax.statistics.auc_table import AucTable, auc_table
from faith_jax.statistics.scored_corpora import (
    Corpus,
    Range,
    check_usable,
    pool_corpora,
    read_corpora,
    row_notes,
    with_ensembles,
)
from faith_jax.statistics.units import ROWS

BASE, T5, E_ORIG = "base", "t5_anli", "e_orig"
# The models by their names in --scorer-option, each with the option for its path.
MODELS = {
    BASE: "--model",
    "augmented": "--augmented-model",
    T5: "--t5-model",
    "summac_zs": "--summac-model",
    "q2": "--q2-model",
}
_DROPOUT_OPTIONS = {"dropout_passes": "--dropout-passes", "seed": "--seed"}


class Method(NamedTuple):
    """A method: a model of `MODELS`, its scorer, and whether it uses Monte-Carlo dropout."""

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
# The single modifications (table 2), the paper's tests (table 1), and the rows of table 4.
MODIFICATIONS = ("base_e_minus_c", "base_mc", "augmented")
_DRAWN = (BASE, "base_e_minus_c")  # figure 1
_OURS = (BASE, *MODIFICATIONS, "no_mc", "all")
ENSEMBLES = {E_ORIG: (T5, "summac_zs", "q2"), "e_our": ("all", "summac_zs", "q2")}
TESTED = {T5: _OURS, BASE: _OURS, E_ORIG: (*_OURS, "e_our")}
MARKS = {T5: "*", BASE: "\u2020", E_ORIG: "x"}
COSTED = ("summac_zs", T5, "q2", BASE, "base_mc", "no_mc", "all")
# The options of each model's scorers; each has at least `model`, the folder.
Models = Mapping[str, Mapping[str, Any]]


def models_of(options: NliModels) -> Models:
    """Returns the given models; a ConfigError names the option."""
    models = run_options.scorer_options(MODELS, options.scorer_option, "the models")
    for name, option in MODELS.items():
        folder = getattr(options, option.removeprefix("--").replace("-", "_"), "")
        if models[name] and not folder:
            raise ConfigError(f"--scorer-option: {name} has no model; give {option}.")
        if folder:
            models[name] = {"model": folder} | models[name]
    for name in ("answer_model", "nli_model"):
        if folder := getattr(options, f"q2_{name}", ""):
            if not models["q2"]:
                raise ConfigError(f"--q2-{name.replace('_', '-')}: goes with --q2-model.")
            models["q2"][name] = folder
    if models["q2"] and "nli_model" not in models["q2"]:
        base = models[BASE]
        labels = {"labels": base["labels"]} if "labels" in base else {}
        models["q2"] = labels | {"nli_model": base.get("model", "")} | models["q2"]
    return {model: absolute_values(values) for model, values in models.items() if values}


def check_models(options: NliModels) -> None:
    """Checks the models' options and the corpora; a ConfigError names the option."""
    models = models_of(options)
    if BASE not in models:
        raise ConfigError("--model: give a classifier of three classes: --model=FOLDER.")
    check_names("corpora", options.corpora, CORPORA)
    for model, model_options in models.items():
        scorer = next(m.scorer for m in METHODS.values() if m.model == model)
        allowed = [name for name in scorer_options(scorer) if name not in _DROPOUT_OPTIONS]
        for option in model_options:
            where = f"--scorer-option: {model}"
            if option in _DROPOUT_OPTIONS:
                raise ConfigError(
                    f"{where}.{option} is of the methods with Monte-Carlo dropout; give "
                    f"{_DROPOUT_OPTIONS[option]}."
                )
            if option not in allowed:
                raise ConfigError(
                    f"{where} has no option {option!r}.{did_you_mean(option, allowed)} Its "
                    f"options: {', '.join(allowed)}."
                )


def check_scorers(options: NliModels, methods: Mapping[str, Method]) -> None:
    """Loads the scorers of methods; a ConfigError names the model's option."""
    leave_accelerators()
    for method in dict.fromkeys(methods.values()):
        try:
            load_scorer(method.scorer, **_scorer_load_options(options, method))
        except FaithJaxError as error:
            advice = f"give --scorer-option={method.model}.dropout_rate="
            message = str(error).replace("give dropout_rate=", advice)
            raise ConfigError(f"{MODELS[method.model]}: {message}") from None
    clear_models()


def _scorer_load_options(options: NliModels, method: Method) -> dict[str, Any]:
    """Returns the options to load a method's scorer with."""
    model_options = dict(models_of(options)[method.model])
    if method.dropout:
        return model_options | {"dropout_passes": options.dropout_passes, "seed": options.seed}
    model_options.pop("dropout_rate", None)  # only for Monte-Carlo dropout
    return model_options


def data_of(corpus: str, options: NliModels) -> str:
    """Returns the name of a corpus's data set."""
    return f"true_benchmark/{corpus}{'_sample' if options.sample else ''}"


class CorporaTable(workflow.TableWorkflow):
    """The shared part of both workflows, which score TRUE's corpora."""

    nothing = "--corpora: there is no data"

    def __init__(self, options: Any, rows: CountRows):
        super().__init__(options, rows)
        self.models = models_of(options)
        self.corpora = self.keep_available(
            {c: (data_of(c, options), "test") for c in options.corpora or AVERAGED}
        )

    def scoring_command(
        self, methods: Mapping[str, Method], training: str = "", costs: str = ""
    ) -> Scores:
        """Returns the command that scores the corpora by methods of one model.

        `methods` are by the names of their scores. `training` names a training whose best
        checkpoint replaces the model, `costs` a file for the methods' costs; "" = none.
        """
        options = {
            name: _scorer_load_options(self.options, method) for name, method in methods.items()
        }
        if training:
            for options_of_scorer in options.values():
                options_of_scorer["model"] = f"models/{training}/checkpoints/best"
        arguments = [
            *(f"--tfds={data_of(corpus, self.options)}" for corpus in self.corpora),
            "--split=test",
            *scorer_flags(
                {
                    f"{name}={methods[name].scorer}": options_of_scorer
                    for name, options_of_scorer in options.items()
                }
            ),
            *([f"--costs={costs}"] if costs else ()),
        ]
        return Scores(
            arguments,
            [training_done_file(training)] if training else [],
            list_opened_checkpoints(options),
        )

    def read(self, folder: pathlib.Path, names: Sequence[str]) -> dict[str, Corpus]:
        """Returns the corpora with the scores of some commands."""
        paths = [folder / "scores" / f"{name}.jsonl" for name in names]
        corpora = read_corpora({str(path): read_scored_rows(path) for path in paths})
        check_usable(corpora)
        return {corpus: corpora[corpus] for corpus in self.corpora}

    @property
    def published(self) -> Mapping[str, Any]:
        """The paper's figures; empty for samples."""
        return {} if self.options.sample else read_published_figures(__name__)


def check(options: Nli) -> None:
    """Checks names, and opens the models; a ConfigError names the option."""
    check_models(options)
    models = models_of(options)
    check_names("methods", options.methods, (*METHODS, *ENSEMBLES))
    for name in options.methods:
        for member in ENSEMBLES.get(name, (name,)):
            model = METHODS[member].model
            if model not in models:
                raise ConfigError(f"--methods: {name} needs a model: give {MODELS[model]}.")
    check_scorers(options, _chosen_methods(options))


def _chosen_methods(options: Nli) -> dict[str, Method]:
    """Returns the chosen methods that have a model, including members of ensembles."""
    models = models_of(options)
    method_names = {m for name in options.methods for m in ENSEMBLES.get(name, (name,))}
    return {
        name: method
        for name, method in METHODS.items()
        if method.model in models and (not method_names or name in method_names)
    }


class Table(CorporaTable):
    """Tables 1, 2 and 4, with the chosen ensembles whose members are all scored."""

    def __init__(self, options: Nli, rows: CountRows):
        super().__init__(options, rows)
        self.methods = _chosen_methods(options)
        self.ensembles = {
            name: members
            for name, members in ENSEMBLES.items()
            if (not options.methods or name in options.methods)
            and set(members) <= set(self.methods)
        }
        for model in MODELS if self.corpora else ():
            of_model = {name: m for name, m in self.methods.items() if m.model == model}
            if of_model:
                costs = f"scores/{model}.costs.json"
                self.scores[model] = self.scoring_command(of_model, costs=costs)

    def write(self, folder: pathlib.Path) -> None:
        """Writes the tables as nli.md, .tex, .csv and .json, and figure 1 as a picture.

        For samples, the files are called nli_sample.
        """
        options, published = self.options, self.published
        read = self.read(folder, list(self.scores))
        rows = {name: corpus.only(list(self.methods)) for name, corpus in read.items()}
        corpora = with_ensembles(rows, self.ensembles, self._find_score_range)
        resamples, seed = options.resamples, options.seed
        areas = auc_table(
            corpora,
            TESTED,
            resamples,
            seed=seed,
            test="approximate_randomization",  # the paper's test, with its unit
            cluster_field=ROWS,
            averaged=AVERAGED,
        )
        marked = tuple(self._mark_notes())
        tables = [table_forms.auc_table_of_methods(areas, MARKS, published, marked)]
        modified = [name for name in MODIFICATIONS if name in self.methods]
        if BASE in self.methods and modified:
            tables.append(table_forms.difference_table(areas, modified, BASE, published))
        if set(_DRAWN) <= set(self.methods):
            names = [name for name in rows if name in AVERAGED] or list(rows)
            pooled = pool_corpora(
                f"TRUE ({len(names)})", [rows[name].only(_DRAWN) for name in names]
            )
            tables.append(table_forms.histogram_table(pooled, published))
            drawn = folder / f"{self.file_name}_histograms.png"
            figures.save_histograms({pooled.name: pooled}, drawn)
        costs: dict[str, Any] = {}
        for model in self.scores:
            path = folder / "scores" / f"{model}.costs.json"
            costs |= json.loads(path.read_text(encoding="utf-8"))
        costs = {name: costs[name] for name in COSTED if name in costs}  # in table 4's order
        if costs:
            pairs = {name: (_find_overall_auc(areas, name), cost) for name, cost in costs.items()}
            cost_notes = tuple(_cost_notes(costs))
            tables.append(
                table_forms.cost_table(pairs, options.dropout_passes, published, cost_notes)
            )
        details = {
            "models": {name: dict(model_options) for name, model_options in self.models.items()},
            "dropout_passes": options.dropout_passes,
            "resamples": resamples,
            "seed": seed,
            "ensembles": {name: list(members) for name, members in self.ensembles.items()},
            "costs": costs,
        }
        title = "Faithfulness by NLI models on TRUE (Steen 2023)"
        self.write_tables(
            folder, title, tuple(self._collect_table_notes(areas, rows)), tables, details
        )

    def _find_score_range(self, name: str) -> Range:
        """Returns the range of a method, from its scorer's card."""
        method = METHODS[name]
        card = scorer_card(method.scorer)
        signed = self.models[method.model].get("use_contradiction", False)
        return Range(-1.0 if signed else card.low, card.high)

    def _mark_notes(self) -> Iterator[str]:
        names = (*self.methods, *self.ensembles)
        marks = [f"{mark} over {name}" for name, mark in MARKS.items() if name in names]
        if marks:
            rounds = pluralize(self.options.resamples, "round")
            yield (
                f"Significant improvement: {', '.join(marks)}; two-sided p \u2264 0.05 on the same "
                f"rows by approximate randomization of {rounds}, not corrected for the number of "
                "comparisons (.csv and .json have Holm's correction as p_holm). As in the paper, "
                "methods of Base and All are compared, and e_our with e_orig."
            )
        missing = [name for name in MARKS if name not in names]
        if missing:
            are = "is" if len(missing) == 1 else "are"
            yield f"No marks over {' and '.join(missing)}, which {are} not here."

    def _collect_table_notes(self, areas: AucTable, corpora: Mapping[str, Corpus]) -> Iterator[str]:
        """Yields notes on the figures, and on everything that is left out."""
        options = self.options
        yield from model_notes(self.models)
        left_out = [name for name, method in METHODS.items() if method.model not in self.models]
        if left_out and not options.methods:
            needed = dict.fromkeys(MODELS[METHODS[name].model] for name in left_out)
            names = [*left_out, *(name for name in ENSEMBLES if name not in self.ensembles)]
            yield f"Left out, without a model: {', '.join(names)}; give {', '.join(needed)}."
        if any(method.dropout for method in self.methods.values()):
            yield (
                f"base_mc and all: the mean over k = {options.dropout_passes} Monte-Carlo dropout "
                f"masks, seed {options.seed}; no_mc is the paper's -MC."
            )
        if self.ensembles:
            lists = (f"{n} = {', '.join(names)}" for n, names in self.ensembles.items())
            members = {name for names in self.ensembles.values() for name in names}
            ranges = {
                name: self._find_score_range(name) for name in self.methods if name in members
            }
            signed = [f"{n} ({low:g} to {high:g})" for n, (low, high) in ranges.items() if low < 0]
            scaling = (
                f", after mapping the range of {', '.join(signed)} to 0 to 1" if signed else ""
            )
            yield f"Ensembles are the mean of their members' scores{scaling}: {'; '.join(lists)}."
        if len(areas.averaged) > 1:
            is_all = set(areas.averaged) == set(AVERAGED) or options.sample
            exception = (
                "" if is_all else "; so are the published ones of tables 1 and 2, not of table 4"
            )
            yield f"Averages are over {', '.join(areas.averaged)}{exception}."
        yield (
            "Intervals: DeLong's standard error and Student's t. As in the paper, rows count as "
            "independent; where a mark and an interval disagree, the mark decides, which is by the "
            "paper's test."
        )
        yield from row_notes(corpora)


def _find_overall_auc(areas: AucTable, method: str) -> float:
    """Returns a method's average AUC, or its AUC on the only corpus."""
    if areas.average:
        return areas.average[method].auc
    return areas.cells[method][areas.averaged[0]].auc if areas.averaged else math.nan


def _cost_notes(costs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield (
        "Parameters are counted in the checkpoints, each once. Model calls for a response, as the "
        "paper writes them: #snt sentences of grounding and response, #Q questions of Ql tokens."
    )
    places = {
        f"{pluralize(cost['rows'], 'row')} of {cost['corpus']}, a second pass after everything is "
        f"compiled, on one {cost['device']}"
        for cost in costs.values()
    }
    yield f"Examples a second: {'; '.join(sorted(places))}."
