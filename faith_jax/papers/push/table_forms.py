"""The tables of "With a Little Push" (Steen 2023, tables 1, 2, 4, 5, figure 1)."""

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.errors import pluralize
from faith_jax.core.table import Table, difference_text, figure_text
from faith_jax.statistics.auc_table import AucCell, AucTable
from faith_jax.statistics.scored_corpora import Corpus

AVERAGE = "average"
_TIDY = ("table", "method", "corpus", "figure", "rows", "value", "low", "high", "published")
# The paper's figures by our names (tables_1_2_4.json); AUCs in per cent, averages of nine corpora.
Published = Mapping[str, Any]


class _Cell(NamedTuple):
    """The text of a cell, and of the paper's cell below it; "" = none."""

    text: str
    published: str = ""


def _build_table(
    number: str,
    title: str,
    columns: Sequence[str],
    rows: Mapping[str, Sequence[_Cell]],
    tidy: Iterable[tuple[Any, ...]],
    published: Published,
    notes: Sequence[str] = (),
) -> Table:
    """Returns a table with the paper's rows below ours; adds the table's number to tidy rows."""
    table_rows = []
    for name, cells in rows.items():
        table_rows.append((name, *(cell.text for cell in cells)))
        if any(cell.published for cell in cells):
            table_rows.append((f"{name} (published)", *(cell.published for cell in cells)))
    more = (published["notes"][number],) if published else ()
    plain = Table("", _TIDY, tuple((number, *row) for row in tidy))
    full_title = f"{title} (Steen 2023, table {number})"
    return Table(full_title, tuple(columns), tuple(table_rows), (*notes, *more), plain)


def published_average(figures: Mapping[str, float], corpora: Sequence[str]) -> float | None:
    """Returns a paper's average over some of its corpora; as printed if these are all.

    >>> published_average({"frank": 80.0, "q2": 90.0, "paws": 70.0, "average": 80.0}, ["q2"])
    90.0
    """
    columns = [name for name in figures if name != AVERAGE]
    if not corpora or not set(corpora) <= set(columns):
        return None
    if set(corpora) == set(columns):
        return figures[AVERAGE]
    return round(statistics.fmean(figures[name] for name in corpora), 1)


def auc_table_of_methods(
    table: AucTable, marks: Mapping[str, str], published: Published, notes: Sequence[str] = ()
) -> Table:
    """Returns table 1: a row for each method, AUCs in per cent.

    `marks` maps a baseline to the mark of AUCs that are significantly better.
    """
    columns = _list_columns(table)
    rows: dict[str, list[_Cell]] = {}
    tidy: list[tuple[Any, ...]] = []
    for method in table.cells:
        cells, paper = (
            _collect_method_cells(table, method),
            _select_published(published, "methods", method, table),
        )
        rows[method] = [
            _Cell(_format_auc(cells[c], marks), _format_figure(paper.get(c), ".1f"))
            for c in columns
        ]
        for column in columns:
            cell = cells[column]
            values = (cell.auc, *cell.interval, _percent_to_fraction(paper.get(column)))
            tidy.append((method, column, "auc", table.rows.get(column), *values))
            for baseline, compared in cell.compared.items():
                for figure, value in (("p", compared.p_value), ("p_holm", compared.corrected)):
                    name = f"{figure}_{baseline}"
                    tidy.append((method, column, name, None, value, None, None, None))
    rows["rows"] = [_Cell(_format_figure(table.rows.get(column), ",")) for column in columns]
    title = "ROC AUC in per cent, with 95% intervals"
    return _build_table("1", title, ("method", *columns), rows, tidy, published, notes)


def difference_table(
    table: AucTable, methods: Sequence[str], baseline: str, published: Published
) -> Table:
    """Returns table 2: each method's AUC less the baseline's, with a row for each corpus."""
    rows: dict[str, list[_Cell]] = {}
    tidy: list[tuple[Any, ...]] = []
    for corpus in _list_columns(table):
        rows[corpus] = []
        for method in methods:
            paper = _select_published(published, "differences", method, table).get(corpus)
            cell, other = (
                _collect_method_cells(table, name)[corpus] for name in (method, baseline)
            )
            comparison = cell.compared.get(baseline)
            text = other.undefined if math.isnan(other.auc) else cell.undefined
            if comparison is not None:
                low, high = (100 * end for end in comparison.interval)
                text = difference_text(100 * comparison.difference, (low, high), 1)
                values = (comparison.difference, *comparison.interval, _percent_to_fraction(paper))
                tidy.append((method, corpus, "auc_difference", table.rows.get(corpus), *values))
            rows[corpus].append(_Cell(text, _format_figure(paper, "+.1f")))
    title = f"AUC differences from {baseline} in points, with 95% intervals"
    return _build_table("2", title, ("corpus", *methods), rows, tidy, published)


def histogram_table(pooled: Corpus, published: Published) -> Table:
    """Returns figure 1 as a table: the numbers of faithful and other responses by score.

    Scores are from -1 to 1, in twenty bins of a tenth; a bin's upper end belongs to the next bin.
    """
    number, classes = "figure 1", ("faithful", "not faithful")
    edges = np.linspace(-1, 1, 21).round(1)  # without rounding, scores at an edge may be misplaced
    counts: dict[tuple[str, str], list[int]] = {}
    for method, scores in pooled.scores.items():
        for label, name in zip((1, 0), classes, strict=True):
            in_bins, _ = np.histogram(scores[pooled.labels == label], edges)
            counts[method, name] = in_bins.tolist()
    bins = [f"{low:.1f} to {high:.1f}" for low, high in itertools.pairwise(edges)]
    columns = ("score", *(f"{method}: {name}" for method, name in counts))
    tidy = [
        (number, method, AVERAGE, f"{name}, {bin_}", sum(in_bins), count, None, None, None)
        for (method, name), in_bins in counts.items()
        for bin_, count in zip(bins, in_bins, strict=True)
    ]
    return Table(
        "Responses by score, all corpora of the average together (Steen 2023, figure 1)",
        columns,
        tuple(zip(bins, *counts.values(), strict=True)),
        (published["notes"][number],) if published else (),
        Table("", _TIDY, tuple(tidy)),
    )


def cost_table(
    costs: Mapping[str, tuple[float, Mapping[str, Any]]],
    dropout_passes: int,
    published: Published,
    notes: Sequence[str] = (),
) -> Table:
    """Returns table 4: AUC and cost of each method.

    `costs` has each method's average AUC in [0, 1] and its costs from `faith-jax score --costs`.
    """
    rows: dict[str, list[_Cell]] = {}
    tidy: list[tuple[Any, ...]] = []
    for method, (auc, cost) in costs.items():
        millions, speed = cost["millions"], cost["examples_per_second"]
        texts = (
            "undefined" if math.isnan(auc) else f"{100 * auc:.1f}",
            _format_millions(millions),
            model_calls(method, dropout_passes),
            f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}",
        )
        paper = published.get("costs", {}).get(method)
        below = ("", "", "", "")
        if paper:
            below = (
                f"{paper['auc']:.1f}",
                _format_millions(paper["millions"]),
                model_calls(method),
                "",
            )
        rows[method] = [_Cell(*pair) for pair in zip(texts, below, strict=True)]
        for figure, value, published_value in (
            ("auc", auc, paper and _percent_to_fraction(paper["auc"])),
            ("parameters_in_millions", sum(millions), paper and sum(paper["millions"])),
            ("examples_per_second", speed, None),
        ):
            tidy.append((method, AVERAGE, figure, None, value, None, None, published_value))
    columns = ("method", "average AUC", "parameters, millions", "model calls", "examples/s, ours")
    return _build_table("4", "Performance and cost", columns, rows, tidy, published, notes)


def model_calls(method: str, dropout_passes: int = 15) -> str:
    """Returns the number of model calls for a response's score, as in table 4.

    >>> model_calls("all"), model_calls("no_mc")
    ('15', '1')
    """
    formulas = {"summac_zs": "#snt \u00d7 #snt", "q2": "#Q \u00d7 (Ql + 2)"}
    passes = dropout_passes if method in ("base_mc", "all") else 1
    return formulas.get(method, str(passes))


def phrase_table(
    draws: Mapping[str, Sequence[float]],
    no_augmentation: Mapping[str, float],
    augmented: Mapping[str, float],
    averaged: Sequence[str],
    published: Published,
) -> Table:
    """Returns table 5: AUCs over draws of phrases, a row for each corpus.

    By corpus, perhaps including `AVERAGE`, `draws` has the AUC of each draw in [0, 1],
    `no_augmentation` the AUC of the base without training, and `augmented` that of a model trained
    on all phrases (empty = none).
    """
    rows: dict[str, list[_Cell]] = {}
    tidy: list[tuple[Any, ...]] = []
    published_draws = published.get("draws", {})
    # The paper's average is comparable only if it is over the same corpora.
    is_same_average = set(averaged) == set(published_draws) - {AVERAGE}
    for corpus, values in draws.items():
        paper = {
            name: round(value / 100, 6)
            for name, value in published_draws.get(corpus, {}).items()
            if corpus != AVERAGE or is_same_average
        }
        mean = statistics.fmean(values)
        figures = {
            "average": mean,
            "difference": mean - augmented[corpus] if augmented else math.nan,
            # The population deviation, like numpy.std in the authors' code.
            "std": statistics.pstdev(values) if len(values) > 1 else math.nan,
            "min": min(values),
            "max": max(values),
            "no augmentation": no_augmentation[corpus],
        }
        if not augmented:
            del figures["difference"]
        rows[corpus] = [
            _Cell(
                _format_percent(name, value),
                _format_percent(name, paper[name]) if name in paper else "",
            )
            for name, value in figures.items()
        ]
        for name, value in figures.items():
            figure = name.replace(" ", "_")
            tidy.append(("draws", corpus, figure, None, value, None, None, paper.get(name)))
        for number, value in enumerate(values):
            tidy.append((f"draw_{number}", corpus, "auc", None, value, None, None, None))
    first = next(iter(draws.values()))
    columns = ("corpus", "average", *(["from all"] if augmented else []), "std", "min", "max")
    title = (
        f"ROC AUC in per cent over {pluralize(len(first), 'draw')} of phrases, with e-c "
        "and Monte-Carlo dropout"
    )
    return _build_table("5", title, (*columns, "no augmentation"), rows, tidy, published)


def _list_columns(table: AucTable) -> list[str]:
    return [*table.rows, *([AVERAGE] if table.average else [])]


def _collect_method_cells(table: AucTable, method: str) -> dict[str, AucCell]:
    """Returns a method's cells by column, with the average last."""
    cells = dict(table.cells[method])
    return cells | {AVERAGE: table.average[method]} if table.average else cells


def _select_published(
    published: Published, kind: str, method: str, table: AucTable
) -> dict[str, float | None]:
    figures = published.get(kind, {}).get(method)
    if figures is None:
        return {}
    return {**figures, AVERAGE: published_average(figures, table.averaged)}


def _format_auc(cell: AucCell, marks: Mapping[str, str]) -> str:
    if math.isnan(cell.auc):
        return cell.undefined
    better = "".join(
        mark
        for baseline, mark in marks.items()
        if baseline in cell.compared and cell.compared[baseline].better_uncorrected
    )
    low, high = cell.interval
    return figure_text(100 * cell.auc, (100 * low, 100 * high), 1, better)


def _format_figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _percent_to_fraction(value: float | None) -> float | None:
    return None if value is None else round(value / 100, 6)


def _format_percent(name: str, value: float) -> str:
    if math.isnan(value):
        return "\u2013"
    return f"{100 * value:+.1f}" if name == "difference" else f"{100 * value:.1f}"


def _format_millions(counts: Sequence[float]) -> str:
    return " + ".join(f"{count:,.0f}" if count >= 1 else f"{count:.2g}" for count in counts)
