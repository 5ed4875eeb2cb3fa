"""Steen 2023, tables 1, 2 and 4, in one run: NLI models on TRUE by the paper's methods.

The output folder has what `reproduce.nli_scores` and `reproduce.nli_costs` keep.
A further run with the same settings keeps all of it, and may add models, methods and corpora.
"""

import logging
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from faith_jax.core.errors import counted
from faith_jax.datasets.raw.true_benchmark import AVERAGED
from faith_jax.reproduce import nli_tables
from faith_jax.reproduce.nli_costs import COSTED, MethodCost, method_cost
from faith_jax.reproduce.nli_methods import (
    BASE,
    ENSEMBLES,
    MARKS,
    METHODS,
    MODELS,
    MODIFICATIONS,
    NLI,
    TESTED,
    NliOptions,
)
from faith_jax.reproduce.nli_scores import Cells
from faith_jax.reproduce.table_files import write_tables
from faith_jax.scoring.pair_classifier import forget_classifiers
from faith_jax.statistics.auc_table import AucTable, auc_table
from faith_jax.statistics.dataset_statistics import Table
from faith_jax.statistics.scored_corpora import Corpus, check_usable, row_notes, with_ensembles

logger = logging.getLogger("faith_jax")

TITLE = "Faithfulness by NLI models on TRUE (Steen 2023)"
SAMPLES = "SAMPLES, not the paper's data: "


def nli_table(options: NliOptions, output: str) -> str:
    """Scores, writes the tables as nli.md, .tex, .csv and .json, and returns them as text.

    Args:
      options: see there.
      output: the folder; with samples, the tables' files are named nli_sample.

    Raises:
      FaithJaxError: for a wrong option or checkpoint, for a folder with scores of other settings
        or rows, and where no corpus is at hand.
    """
    folder = pathlib.Path(output)
    methods = {name: METHODS[name] for name in options.scored}
    cells = Cells(folder, methods, options.models, options.sample)
    corpora = cells.begin(options.corpora)
    costs = _scored(cells, corpora)
    rows = {corpus: cells.corpus(corpus) for corpus in corpora}
    check_usable(rows)
    joined = with_ensembles(rows, options.ensembles, options.ranges().__getitem__)
    found = auc_table(joined, TESTED, options.resamples, seed=options.seed, averaged=AVERAGED)
    tables = list(_tables(found, costs, options))
    notes = tuple(_notes(found, rows, options))
    title = f"{SAMPLES if options.sample else ''}{TITLE}"
    figures = {
        "sample": options.sample,
        "models": {name: dict(given) for name, given in options.models.models.items()},
        "dropout_passes": options.models.dropout_passes,
        "resamples": options.resamples,
        "seed": options.seed,
        "ensembles": {name: list(members) for name, members in options.ensembles.items()},
        "costs": {name: cost.__dict__ for name, cost in costs.items()},
    }
    path = folder / (f"{NLI}_sample" if options.sample else NLI)
    return write_tables(path, title, notes, tables, figures)


def _scored(cells: Cells, corpora: Sequence[str]) -> dict[str, MethodCost]:
    """Scores what is not scored yet, a model after the other, and returns what they cost."""
    costs = {}
    for model in MODELS:
        for names in cells.passes(model):
            for corpus in corpora:
                cells.score(corpus, names)
            for name in names:
                if name in COSTED:
                    costs[name] = method_cost(cells, name, corpora[0])
        forget_classifiers()
    return {name: costs[name] for name in COSTED if name in costs}


def _tables(
    found: AucTable, costs: Mapping[str, MethodCost], options: NliOptions
) -> Iterator[Table]:
    published = not options.sample
    yield nli_tables.auc_table_of_methods(found, MARKS, published, tuple(_mark_notes(options)))
    modified = [name for name in MODIFICATIONS if name in options.scored]
    if BASE in options.scored and modified:
        yield nli_tables.difference_table(found, modified, BASE, published)
    if costs:
        passes = options.models.dropout_passes
        shown = {
            name: (
                _overall(found, name),
                cost.millions,
                nli_tables.model_calls(name, passes),
                cost.examples_per_second,
            )
            for name, cost in costs.items()
        }
        yield nli_tables.cost_table(shown, published, tuple(_cost_notes(costs)))


def _overall(found: AucTable, method: str) -> float:
    """Returns a method's average AUC, or that of the only corpus."""
    if found.average:
        return found.average[method].auc
    return found.cells[method][found.averaged[0]].auc if found.averaged else math.nan


def _mark_notes(options: NliOptions) -> Iterator[str]:
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
        yield f"No marks over {' and '.join(missing)}, which {_are(missing)} not here."


def _cost_notes(costs: Mapping[str, MethodCost]) -> Iterator[str]:
    yield (
        "Parameters are counted in the checkpoints, each once. Model calls for a response, as the "
        "paper writes them: #snt sentences of grounding and response, #Q questions of Ql tokens."
    )
    first = next(iter(costs.values()))
    places = {(cost.rows, cost.corpus, cost.device) for cost in costs.values()}
    if len(places) == 1:
        yield (
            f"Examples a second: {counted(first.rows, 'row')} of {first.corpus}, a second pass "
            f"after everything is compiled, on one {first.device}."
        )
        return
    each = (f"{n}: {counted(c.rows, 'row')} of {c.corpus}, {c.device}" for n, c in costs.items())
    yield f"Examples a second, a second pass after everything is compiled: {'; '.join(each)}."


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _notes(found: AucTable, corpora: Mapping[str, Corpus], options: NliOptions) -> Iterator[str]:
    """Yields what the figures are of, and what is left out."""
    models = options.models.models
    for name, given in models.items():
        others = (f"{option} = {value}" for option, value in given.items() if option != "model")
        yield "; ".join((f"{name}: {given.get('model')}", *others)) + "."
    left_out = [name for name, method in METHODS.items() if method.model not in models]
    if left_out and not options.methods:
        needed = dict.fromkeys(MODELS[METHODS[name].model] for name in left_out)
        names = [*left_out, *(name for name in ENSEMBLES if name not in options.ensembles)]
        yield f"Left out, without a model: {', '.join(names)}; give {', '.join(needed)}."
    if any(METHODS[name].dropout for name in options.scored):
        yield (
            f"base_mc and all: the mean over k = {options.models.dropout_passes} Monte-Carlo "
            f"dropout masks, seed {options.models.seed}; no_mc is the paper's -MC."
        )
    if options.ensembles:
        which = (f"{n} = {', '.join(members)}" for n, members in options.ensembles.items())
        signed = [
            f"{name} ({low:g} to {high:g})"
            for name, (low, high) in options.ranges().items()
            if low < 0 and any(name in members for members in options.ensembles.values())
        ]
        scaling = f", after mapping the range of {', '.join(signed)} to 0 to 1" if signed else ""
        yield f"Ensembles are the mean of their members' scores{scaling}: {'; '.join(which)}."
    if len(found.averaged) > 1:
        whole = set(found.averaged) == set(AVERAGED) or options.sample
        theirs = "" if whole else "; so are the published ones of tables 1 and 2, not of table 4"
        yield f"Averages are over {', '.join(found.averaged)}{theirs}."
    yield f"Intervals: percentile bootstrap of {counted(options.resamples, 'resample')}."
    yield from row_notes(corpora)
