"""Accuracies of critics (Dziri 2022, table 4)."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.core.errors import InputError
from faith_jax.core.files.stores import path_of
from faith_jax.core.table import Table, figure_text
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    check_undefined,
    cluster_fields,
    counting_undefined,
    half_notes,
    read_layout,
    with_undefined_shares,
)
from faith_jax.statistics.bootstrap import (
    NO_INTERVAL,
    RESAMPLES,
    Draws,
    Interval,
    bootstrap,
    interval_note,
)
from faith_jax.statistics.scored_corpora import Corpus, only_fields, read_corpora
from faith_jax.statistics.units import AUTO, units_of


class Accuracy(NamedTuple):
    """The share of correct calls, its bootstrap interval over units, and the number of rows."""

    value: float
    interval: Interval
    rows: int


class AccuracyLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The layout of a table of accuracies, and a paper's figures for it.

    Attributes:
      title: title of the table.
      headings: the headings for systems and corpora.
      corpora: names of corpora in the table; corpora that are not listed keep their names.
      marks: marks after figures, by system and corpus.
      published: figures in per cent, by system and corpus as named in the table.
      notes: notes on the figures.
    """

    title: str = "Accuracy with bootstrap intervals"
    headings: tuple[str, str] = ("system", "corpus")
    corpora: Mapping[str, str] = {}
    marks: Mapping[str, Mapping[str, str]] = {}
    published: Mapping[str, Mapping[str, int | float]] = {}
    notes: tuple[str, ...] = ()


def accuracy(
    scores: ArrayLike,
    labels: ArrayLike,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
    units: NDArray[np.intp] | None = None,
) -> Accuracy:
    """Returns how often scores agree with labels (Dziri 2022, table 4).

    Scores are [rows]: at least 0.5 calls a 1, NaN is no call. Labels are [rows], NaN = unknown.
    `units` is the number of each row's unit, [rows]; None = each row is a unit. A single unit has
    no interval.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    defined = ~np.isnan(values + truth)
    hits = ((values[defined] >= 0.5) == (truth[defined] == 1)).astype(np.float64)
    if not hits.size:
        return Accuracy(math.nan, NO_INTERVAL, 0)
    draws = Draws(resamples, confidence, seed)
    clusters = None if units is None else units[defined].tolist()

    def share_of(weights: NDArray[np.uint16]) -> NDArray[np.float64]:
        # Clusters differ in size, so resamples may differ in their number of rows.
        return (weights @ hits / weights.sum(axis=1))[None]

    ((share, interval),) = bootstrap(share_of, hits.size, draws, clusters)
    return Accuracy(share, interval, hits.size)


def accuracy_table(
    systems: Mapping[str, Mapping[str, Corpus]],
    layout: AccuracyLayout,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
    cluster_field: str = AUTO,
) -> Table:
    """Returns the share of correct calls of each system on each corpus, in per cent.

    `systems` has the rows by system and corpus, each with one scorer; they are drawn by units, see
    `faith_jax.statistics.units.units_of`.
    """
    evaluated = dict.fromkeys(corpus for by_corpus in systems.values() for corpus in by_corpus)
    corpora = {name: layout.corpora.get(name, name) for name in [*layout.corpora, *evaluated]}
    columns = [title for name, title in corpora.items() if name in evaluated]
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    kinds, unit_notes = set[str](), dict[str, None]()  # systems with the same rows share a note
    for system, by_corpus in systems.items():
        cells = {}
        for name, corpus in by_corpus.items():
            part = corpus.part(corpus.usable())
            (scores,) = part.scores.values()
            units = units_of([part], cluster_field)
            drawn = resamples, confidence, seed, units.numbers
            cells[corpora[name]] = accuracy(scores, part.labels, *drawn)
            kinds.add(units.kind)
            unit_notes |= dict.fromkeys(units.notes(corpora[name], resampled=True))
        marks = {c: layout.marks.get(system, {}).get(c, "") for c in columns}
        row_cells = (_accuracy_text(cells[c], marks[c]) if c in cells else "" for c in columns)
        rows.append((system, *row_cells))
        if published := layout.published.get(system, {}):
            row_cells = (f"{published[c]:.1f}{marks[c]}" if c in published else "" for c in columns)
            rows.append((f"{system} (published)", *row_cells))
        for column in (c for c in columns if c in cells):
            value, interval, count = cells[column]
            share = round(published[column] / 100, 6) if column in published else None
            tidy.append((system, column, count, value, *interval, share))
    over = " or ".join(sorted(kinds))
    names = (*layout.headings, "rows", "accuracy", "low", "high", "published")
    return Table(
        layout.title,
        (layout.headings[0], *columns),
        tuple(rows),
        (*layout.notes, interval_note(confidence, resamples, over), *unit_notes),
        Table("", names, tuple(tidy)),
    )


def _accuracy_text(cell: Accuracy, mark: str) -> str:
    if math.isnan(cell.value):
        return "no labels"
    low, high = cell.interval
    return figure_text(100 * cell.value, (100 * low, 100 * high), 1, mark)


def _evaluate_accuracy(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    """Returns the table of accuracies; for rows without a system, the scorer is the system."""
    places: dict[str, tuple[str, str]] = {}
    cut: dict[tuple[str, str], int] = {}

    def rows(path: str) -> Iterator[dict[str, Any]]:
        for row in read_scored_rows(path_of(path)):
            scorers = options.scorers or tuple(row["scores"])
            if len(scorers) != 1 or scorers[0] not in row["scores"]:
                raise InputError(
                    f"{path}: has scores of {', '.join(row['scores'])}; choose one of them with "
                    "--scorers=NAME."
                )
            place = (row["fields"].get("system") or scorers[0], row["corpus"])
            name = ", ".join(place)
            places[name] = place
            cut[place] = cut.get(place, 0) + (row["cut_tokens"].get(scorers[0], 0) > 0)
            yield {**row, "corpus": name, "scores": {scorers[0]: row["scores"][scorers[0]]}}

    systems: dict[str, dict[str, Corpus]] = {}
    corpora = read_corpora(
        {path: rows(path) for path in files}, only_fields(*cluster_fields(options))
    )
    check_undefined(corpora, options)
    for name, corpus in corpora.items():
        system, of = places[name]
        systems.setdefault(system, {})[of] = corpus
    layout = read_layout(options.table, AccuracyLayout) if options.table else AccuracyLayout()
    drawn = options.resamples, options.confidence, options.seed, options.cluster_field
    counted = {system: counting_undefined(of, options) for system, of in systems.items()}
    table = accuracy_table(counted, layout, *drawn)
    cuts = [
        f"{count:,} of {len(systems[system][of].ids):,} by {system} on {layout.corpora.get(of, of)}"
        for (system, of), count in cut.items()
        if count
    ]
    notes = (f"Inputs that were cut: {'; '.join(cuts)}.",) if cuts else ()
    table = table._replace(notes=(*table.notes, *notes, *half_notes(corpora)))
    outcome = with_undefined_shares(
        Evaluation(table, {"rows": table.records()}, _side_by_side(systems)),
        "Accuracies are of the rows that a system has",
        options,
    )
    return dataclasses.replace(outcome, corpora=corpora)


def _side_by_side(systems: Mapping[str, Mapping[str, Corpus]]) -> dict[str, Corpus]:
    """Returns each corpus with its systems as scorers, without systems that have other rows."""
    joined: dict[str, Corpus] = {}
    for system, by_corpus in systems.items():
        for name, corpus in by_corpus.items():
            (scores,) = corpus.scores.values()
            first = joined.get(name, dataclasses.replace(corpus, name=name, scores={}))
            if set(corpus.ids) == set(first.ids):
                scores = scores[corpus.places(first.ids)]
                joined[name] = dataclasses.replace(first, scores={**first.scores, system: scores})
    return joined


ACCURACY = EvaluationProtocol(
    _evaluate_accuracy,
    frozenset(
        ("table", "cluster_field", "undefined", "resamples", "confidence", "seed", "scorers")
    ),
)
