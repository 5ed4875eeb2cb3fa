"""The tables of "With a Little Push" (Steen 2023, tables 1, 2, 4 and 5) with its figures beside."""

import json
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import counted
from faith_jax.core.files import write_text
from faith_jax.core.table import Table, figure_text
from faith_jax.report.tables import rendered
from faith_jax.statistics.auc_table import AucCell, AucTable

AVERAGE = "average"
_TIDY = ("table", "method", "corpus", "figure", "rows", "value", "low", "high", "published")
_PUBLISHED = "(published)"
Published = Mapping[str, Any]


def published() -> Published:
    """Returns the paper's figures by our names: AUCs in per cent, averages over nine corpora."""
    found: Published = json.loads(pathlib.Path(__file__).with_name("nli.json").read_text("utf-8"))
    return found


def write_tables(
    folder: pathlib.Path,
    name: str,
    sample: bool,
    title: str,
    notes: Sequence[str],
    tables: Sequence[Table],
    figures: Mapping[str, Any],
) -> None:
    """Writes NAME.md, .tex, .csv and .json, of samples NAME_sample.

    Args:
      folder: where.
      name: of the files.
      sample: whether the tables are of samples, which their title says.
      title: of all tables.
      notes: of all; each table has its own besides.
      tables: with tidy forms of the same columns, which the CSV joins.
      figures: of the JSON file, besides title, notes and the tidy rows.

    Raises:
      ConfigError: for a file that cannot be written.
    """
    if sample:
        name, title = f"{name}_sample", f"SAMPLES, not the paper's data: {title}"
    tidy = Table("", _TIDY, tuple(row for table in tables if table.tidy for row in table.tidy.rows))
    listed = "".join(f"\n{note}\n" for note in notes)
    markdown = "\n".join(rendered(table, "markdown") for table in tables)
    captioned = [table._replace(title=f"{title}: {table.title}") for table in tables]
    told = {"title": title, "notes": list(notes), **figures, "rows": tidy.records()}
    for ending, text in {
        "md": f"# {title}\n{listed}\n{markdown}",
        "tex": "\n".join(rendered(table, "latex") for table in captioned),
        "csv": rendered(tidy, "csv"),
        "json": json.dumps(told, indent=1, ensure_ascii=False) + "\n",
    }.items():
        write_text(folder / f"{name}.{ending}", text)


def published_average(figures: Mapping[str, float], corpora: Sequence[str]) -> float | None:
    """Returns a paper's average over some of its corpora: as printed where these are all.

    Args:
      figures: of the paper by corpus, `AVERAGE` among them.
      corpora: that ours is over.

    >>> published_average({"frank": 80.0, "q2": 90.0, "paws": 70.0, "average": 80.0}, ["q2"])
    90.0
    """
    known = [name for name in figures if name != AVERAGE]
    if not corpora or not set(corpora) <= set(known):
        return None
    if set(corpora) == set(known):
        return figures[AVERAGE]
    return round(statistics.fmean(figures[name] for name in corpora), 1)


def auc_table_of_methods(
    table: AucTable, marks: Mapping[str, str], published: Published, notes: Sequence[str] = ()
) -> Table:
    """Returns table 1: a row for each method, AUCs in per cent.

    Args:
      table: the cells.
      marks: of an AUC that is significantly better than a baseline's, by baseline.
      published: the paper's figures; empty = none.
      notes: what is said below.
    """
    columns = _columns(table)
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for method in table.cells:
        cells = _cells(table, method)
        theirs = _published_of(published, "methods", method, table)
        rows.append((method, *(_auc(cells[column], marks) for column in columns)))
        if any(theirs.get(column) is not None for column in columns):
            rows.append((f"{method} {_PUBLISHED}", *(_plain(theirs.get(c)) for c in columns)))
        for column in columns:
            cell = cells[column]
            values = (cell.auc, *cell.interval, _share(theirs.get(column)))
            tidy.append(("1", method, column, "auc", table.rows.get(column), *values))
            for baseline, compared in cell.compared.items():
                for figure, value in (("p", compared.p_value), ("p_holm", compared.corrected)):
                    name = f"{figure}_{baseline}"
                    tidy.append(("1", method, column, name, None, value, None, None, None))
    sizes = [table.rows.get(column) for column in columns]
    rows.append(("rows", *("" if size is None else f"{size:,}" for size in sizes)))
    title = "ROC AUC in per cent, with 95% bootstrap intervals (Steen 2023, table 1)"
    more = _note(published, "1")
    plain = Table("", _TIDY, tuple(tidy))
    return Table(title, ("method", *columns), tuple(rows), (*notes, *more), plain)


def difference_table(
    table: AucTable, methods: Sequence[str], baseline: str, published: Published
) -> Table:
    """Returns table 2: what each method adds to the baseline's AUC, a row for each corpus.

    Args:
      table: the cells; those of the methods are compared with the baseline.
      methods: the columns.
      baseline: a method.
      published: the paper's figures; empty = none.
    """
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for corpus in _columns(table):
        theirs = {m: _published_of(published, "differences", m, table).get(corpus) for m in methods}
        found = {m: _cells(table, m)[corpus].compared.get(baseline) for m in methods}
        cells = []
        for method, one in found.items():
            if one is None:
                cells.append("one class")
                continue
            low, high = (100 * end for end in one.interval)
            cells.append(f"{100 * one.difference:+.1f} ({low:+.1f} to {high:+.1f})")
            values = (one.difference, *one.interval, _share(theirs[method]))
            rows_of = table.rows.get(corpus)
            tidy.append(("2", method, corpus, "auc_difference", rows_of, *values))
        rows.append((corpus, *cells))
        if any(value is not None for value in theirs.values()):
            shown = ("" if v is None else f"{v:+.1f}" for v in theirs.values())
            rows.append((f"{corpus} {_PUBLISHED}", *shown))
    title = (
        f"AUC differences from {baseline} in points, with 95% intervals of the paired bootstrap "
        "(Steen 2023, table 2)"
    )
    notes, plain = _note(published, "2"), Table("", _TIDY, tuple(tidy))
    return Table(title, ("corpus", *methods), tuple(rows), notes, plain)


def cost_table(
    costs: Mapping[str, tuple[float, Mapping[str, Any]]],
    dropout_passes: int,
    published: Published,
    notes: Sequence[str] = (),
) -> Table:
    """Returns table 4: AUC and cost of each method.

    Args:
      costs: by method its average AUC in [0, 1], and what `faith-jax score --costs` says of it.
      dropout_passes: k of Monte-Carlo dropout.
      published: the paper's figures; empty = none.
      notes: what is said below.
    """
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for method, (auc, cost) in costs.items():
        millions, speed = cost["millions"], cost["examples_per_second"]
        shown = "undefined" if math.isnan(auc) else f"{100 * auc:.1f}"
        calls = model_calls(method, dropout_passes)
        rows.append((method, shown, _millions(millions), calls, _speed(speed)))
        theirs = published.get("costs", {}).get(method)
        if theirs:
            cells = (f"{theirs['auc']:.1f}", _millions(theirs["millions"]), model_calls(method), "")
            rows.append((f"{method} {_PUBLISHED}", *cells))
        for figure, value, other in (
            ("auc", auc, theirs and _share(theirs["auc"])),
            ("parameters_in_millions", sum(millions), theirs and sum(theirs["millions"])),
            ("examples_per_second", speed, None),
        ):
            tidy.append(("4", method, AVERAGE, figure, None, value, None, None, other))
    columns = ("method", "average AUC", "parameters, millions", "model calls", "examples/s, ours")
    title, plain = "Performance and cost (Steen 2023, table 4)", Table("", _TIDY, tuple(tidy))
    return Table(title, columns, tuple(rows), (*notes, *_note(published, "4")), plain)


def model_calls(method: str, dropout_passes: int = 15) -> str:
    """Returns how often a response's score calls a model, as table 4 writes it.

    Args:
      method: by our names.
      dropout_passes: k of Monte-Carlo dropout; the paper's by default.

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

    Args:
      draws: by corpus, `AVERAGE` perhaps among them, the AUC of each draw in [0, 1].
      no_augmentation: the same of the base without training.
      augmented: the same of a model that was trained on all phrases; empty = there is none.
      averaged: the corpora of the average.
      published: the paper's figures; empty = none.
    """
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for corpus, values in draws.items():
        theirs = _published_draws(published, corpus, averaged)
        mean = statistics.fmean(values)
        found = {
            "average": mean,
            "difference": mean - augmented[corpus] if augmented else math.nan,
            "std": statistics.stdev(values) if len(values) > 1 else math.nan,
            "min": min(values),
            "max": max(values),
            "no augmentation": no_augmentation[corpus],
        }
        if not augmented:
            del found["difference"]
        rows.append((corpus, *(_percent(name, value) for name, value in found.items())))
        if theirs:
            shown = (_percent(name, theirs[name]) if name in theirs else "" for name in found)
            rows.append((f"{corpus} {_PUBLISHED}", *shown))
        for name, value in found.items():
            figure = name.replace(" ", "_")
            tidy.append(("5", "draws", corpus, figure, None, value, None, None, theirs.get(name)))
        for number, value in enumerate(values):
            tidy.append(("5", f"draw_{number}", corpus, "auc", None, value, None, None, None))
    first = next(iter(draws.values()))
    columns = ("corpus", "average", *(["from all"] if augmented else []), "std", "min", "max")
    title = (
        f"ROC AUC in per cent over {counted(len(first), 'draw')} of phrases, with e-c "
        "and Monte-Carlo dropout (Steen 2023, table 5)"
    )
    names, plain = (*columns, "no augmentation"), Table("", _TIDY, tuple(tidy))
    return Table(title, names, tuple(rows), _note(published, "5"), plain)


def _note(published: Published, table: str) -> tuple[str, ...]:
    return (published["notes"][table],) if published else ()


def _published_draws(
    published: Published, corpus: str, averaged: Sequence[str]
) -> dict[str, float]:
    """Returns a row of the paper's table 5, as shares; an average only over the same corpora."""
    rows = published.get("draws", {})
    if corpus not in rows or (corpus == AVERAGE and set(averaged) != set(rows) - {AVERAGE}):
        return {}
    return {name: round(value / 100, 6) for name, value in rows[corpus].items()}


def _columns(table: AucTable) -> list[str]:
    return [*table.rows, *([AVERAGE] if table.average else [])]


def _cells(table: AucTable, method: str) -> dict[str, AucCell]:
    """Returns a method's row, the average in its last column."""
    cells = dict(table.cells[method])
    return cells | {AVERAGE: table.average[method]} if table.average else cells


def _published_of(
    published: Published, kind: str, method: str, table: AucTable
) -> dict[str, float | None]:
    figures = published.get(kind, {}).get(method)
    if figures is None:
        return {}
    return {**figures, AVERAGE: published_average(figures, table.averaged)}


def _auc(cell: AucCell, marks: Mapping[str, str]) -> str:
    if math.isnan(cell.auc):
        return "one class"
    better = "".join(
        mark
        for baseline, mark in marks.items()
        if baseline in cell.compared and cell.compared[baseline].better_uncorrected
    )
    low, high = cell.interval
    return figure_text(100 * cell.auc, (100 * low, 100 * high), 1, better)


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _share(value: float | None) -> float | None:
    return None if value is None else round(value / 100, 6)


def _percent(name: str, value: float) -> str:
    if math.isnan(value):
        return "\u2013"
    return f"{100 * value:+.1f}" if name == "difference" else f"{100 * value:.1f}"


def _speed(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _millions(counts: Sequence[float]) -> str:
    return " + ".join(f"{count:,.0f}" if count >= 1 else f"{count:.2g}" for count in counts)
