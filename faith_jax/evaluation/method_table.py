"""AUCs of methods on several corpora, compared with several baselines (Steen 2023, tables 1 and 2).

Other than in `faith_jax.evaluation.auc_table`, there may be more than one baseline, and differences
from one have intervals of their own. All methods of a corpus are compared on the rows that every
one of them has a score for, and in the same resamples.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from faith_jax.evaluation.auc_table import SIGNIFICANT
from faith_jax.evaluation.bootstrap import Interval, bootstrap_auc, percentile_interval
from faith_jax.evaluation.roc import roc_auc
from faith_jax.evaluation.scored_corpora import Corpus
from faith_jax.evaluation.significance import (
    Comparison,
    Exchanges,
    average_randomization,
    exchanges,
    holm,
)

AVERAGE = "average"


@dataclasses.dataclass(frozen=True)
class Compared:
    """A method compared with a baseline.

    Attributes:
      difference: of the AUCs; above 0 = the method is better.
      interval: of the difference, by the paired bootstrap.
      p_value: two-sided, by approximate randomisation; NaN where it was not asked for, or a class
        is missing.
      corrected: the same by Holm's method, over the methods compared with this baseline.
    """

    difference: float
    interval: Interval
    p_value: float = math.nan
    corrected: float = math.nan

    @property
    def better(self) -> bool:
        """Whether the method is significantly better, without correction."""
        return self.difference > 0 and self.p_value <= SIGNIFICANT


@dataclasses.dataclass(frozen=True)
class MethodCell:
    """A method on a corpus, or on average.

    Attributes:
      auc: in [0, 1]; NaN where a class is missing.
      interval: of the AUC.
      compared: by baseline.
    """

    auc: float
    interval: Interval
    compared: Mapping[str, Compared] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class MethodTable:
    """The cells of all methods.

    Attributes:
      rows: for each corpus how many rows were used.
      left_out: for each corpus how many had no label or an undefined score.
      averaged: the corpora that the average is over.
      cells: by method, then corpus; `AVERAGE` where at least two corpora are averaged.
    """

    rows: Mapping[str, int]
    left_out: Mapping[str, int]
    averaged: tuple[str, ...]
    cells: Mapping[str, Mapping[str, MethodCell]]


def method_table(
    corpora: Mapping[str, Corpus],
    tested: Mapping[str, Sequence[str]],
    averaged: Collection[str],
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> MethodTable:
    """Returns the table.

    Args:
      corpora: with scores of the same methods.
      tested: for each baseline the methods that are compared with it; methods and baselines that
        there are no scores of are left out.
      averaged: corpora that count in the average, where both classes are there.
      resamples: of the bootstrap, and rounds of the randomisation.
      confidence: of the intervals.
      seed: of both.

    Raises:
      ValueError: without corpora, or where their methods differ.
    """
    if not corpora:
        raise ValueError("There are no corpora.")
    methods = list(next(iter(corpora.values())).scores)
    for corpus in corpora.values():
        if list(corpus.scores) != methods:
            raise ValueError(f"{corpus.name} has scores of other methods than the first corpus.")
    pairs = [
        (method, baseline)
        for baseline, compared in tested.items()
        for method in compared
        if {method, baseline} <= set(methods) and method != baseline
    ]
    rows, left_out = {}, {}
    cells: dict[str, dict[str, MethodCell]] = {method: {} for method in methods}
    columns: dict[str, _Column] = {}
    for number, (name, corpus) in enumerate(corpora.items()):
        part = corpus.part(corpus.usable())
        rows[name], left_out[name] = len(part.ids), len(corpus.ids) - len(part.ids)
        columns[name] = _column(part, methods, pairs, resamples, (seed, number))
        _add_cells(cells, name, columns[name], confidence)
    both = tuple(n for n in corpora if n in averaged and not np.isnan(columns[n].areas).any())
    if len(both) > 1:
        parts = [columns[name] for name in both]
        _add_cells(cells, AVERAGE, _mean(parts), confidence)
    return MethodTable(rows, left_out, both, cells)


@dataclasses.dataclass(frozen=True)
class _Column:
    """AUCs [methods], resampled AUCs [methods, resamples], and exchanges by (method, baseline)."""

    methods: list[str]
    areas: np.ndarray
    drawn: np.ndarray
    exchanged: Mapping[tuple[str, str], tuple[Exchanges, ...]]


def _column(
    part: Corpus,
    methods: list[str],
    pairs: Sequence[tuple[str, str]],
    resamples: int,
    seed: Sequence[int],
) -> _Column:
    if len(set(part.labels.tolist())) < 2:
        nothing = np.full(len(methods), math.nan)
        return _Column(methods, nothing, np.full((len(methods), 1), math.nan), {})
    scores = np.stack([part.scores[method] for method in methods])
    areas = np.array([roc_auc(values, part.labels) for values in scores])
    drawn = bootstrap_auc(scores, part.labels, resamples, seed)
    found = {
        (method, baseline): (
            exchanges(part.scores[method], part.scores[baseline], part.labels, resamples, seed),
        )
        for method, baseline in pairs
    }
    return _Column(methods, areas, drawn, found)


def _mean(parts: Sequence[_Column]) -> _Column:
    areas = np.mean([part.areas for part in parts], axis=0)
    drawn = np.mean([part.drawn for part in parts], axis=0)
    pairs = parts[0].exchanged
    joined = {pair: tuple(part.exchanged[pair][0] for part in parts) for pair in pairs}
    return _Column(parts[0].methods, areas, drawn, joined)


def _add_cells(
    cells: dict[str, dict[str, MethodCell]], name: str, column: _Column, confidence: float
) -> None:
    tests: dict[str, dict[str, Comparison]] = {}
    for (method, baseline), parts in column.exchanged.items():
        tests.setdefault(baseline, {})[method] = average_randomization(parts)
    places = {method: place for place, method in enumerate(column.methods)}
    compared: dict[str, dict[str, Compared]] = {method: {} for method in column.methods}
    for baseline, found in tests.items():
        corrected = holm([test.p_value for test in found.values()]).tolist()
        for (method, test), p_value in zip(found.items(), corrected, strict=True):
            drawn = column.drawn[places[method]] - column.drawn[places[baseline]]
            interval = percentile_interval(drawn, confidence)
            compared[method][baseline] = Compared(test.difference, interval, test.p_value, p_value)
    for method, place in places.items():
        interval = percentile_interval(column.drawn[place], confidence)
        cells[method][name] = MethodCell(float(column.areas[place]), interval, compared[method])
