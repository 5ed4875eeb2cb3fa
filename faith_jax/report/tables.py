"""Tables as text, Markdown, LaTeX and CSV."""

import csv
import io
import math
from collections.abc import Mapping
from typing import Any

import tabulate

from faith_jax.core.errors import counted
from faith_jax.statistics.auc_table import AucCell, AucTable
from faith_jax.statistics.dataset_statistics import Table
from faith_jax.statistics.significance import MARK, SIGNIFICANT

FORMATS = ("text", "markdown", "latex", "csv")
_STYLES = {"text": "simple", "markdown": "github", "latex": "latex_booktabs"}


def rendered(table: Table, form: str = "text") -> str:
    """Returns a table in one of `FORMATS`.

    Numbers are right-aligned; fractions have two digits, and what is undefined a dash. CSV is for
    machines: the tidy form without title and notes, all digits, and nothing for what is undefined.
    LaTeX is a float whose caption has the title and the notes (it needs booktabs).
    """
    if form == "csv":
        plain = table.tidy or table
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([plain.columns, *([_raw(v) for v in row] for row in plain.rows)])
        return buffer.getvalue()
    rows = [[cell_text(value) for value in row] for row in table.rows]
    first = table.rows[0] if table.rows else ()
    align = ["left" if isinstance(value, str) else "right" for value in first]
    text = tabulate.tabulate(
        rows, table.columns, _STYLES[form], disable_numparse=True, colalign=align or None
    )
    if form == "latex":
        caption = _latex_text(". ".join([table.title, " ".join(table.notes)]).strip())
        lines = (r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", _latex_dashes(text))
        return "\n".join([*lines, r"\end{table}", ""])
    if form == "markdown":
        # A line that begins with the mark would be an item of a list.
        notes = "".join("\n" + note.replace(MARK, f"\\{MARK}") + "\n" for note in table.notes)
        return f"**{table.title}**\n\n{text}\n{notes}"
    return f"{table.title}\n{text}\n" + "".join(f"{note}\n" for note in table.notes)


def _latex_text(text: str) -> str:
    """Returns a text as LaTeX sets it."""
    special = {**{c: rf"\{c}" for c in "%&_#$"}, "\u2264": r"$\leq$", "\u2265": r"$\geq$"}
    return _latex_dashes("".join(special.get(character, character) for character in text))


def _latex_dashes(text: str) -> str:
    return text.replace("\u2013", "--")


def cell_text(value: Any) -> str:
    """Returns a value as a table shows it: fractions with two digits, a dash for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "\u2013"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _raw(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


def auc_rows(table: AucTable) -> Table:
    """Returns the table of AUCs in per cent, a row for each scorer; its tidy form has fractions.

    Args:
      table: with one baseline at most.
    """
    corpora = list(table.rows)
    baseline = _baseline(table)
    last = ("average",) if table.average else ()
    rows: list[tuple[Any, ...]] = []
    for scorer, found in table.cells.items():
        cells = [
            _auc(found[corpus], baseline) if table.rows[corpus] else "no labels"
            for corpus in corpora
        ]
        cells += [_auc(table.average[scorer], baseline)] if last else []
        rows.append((scorer, *cells))
    empty = ("",) * len(last)
    rows.append(("rows", *(f"{table.rows[c]:,}" for c in corpora), *empty))
    if any(table.left_out.values()):
        rows.append(("rows left out", *(f"{table.left_out[c]:,}" for c in corpora), *empty))
    title = f"ROC AUC in per cent, with {100 * table.confidence:g}% bootstrap intervals"
    columns = ("scorer", *corpora, *last)
    return Table(title, columns, tuple(rows), _auc_notes(table), _tidy_auc(table))


def _auc_notes(table: AucTable) -> tuple[str, ...]:
    """Returns what the figures and marks mean."""
    notes = [f"Intervals: percentile bootstrap of {counted(table.resamples, 'resample')}."]
    if table.cluster_field:
        notes.append(f"Rows with the same {table.cluster_field} are taken as dependent in all.")
    if any(table.left_out.values()):
        notes.append("Left out: rows without a label, or without a defined score of every scorer.")
    baseline = _baseline(table)
    count = len(table.tested.get(baseline, ()))
    if not count:
        return tuple(notes)
    rounds = f"approximate randomisation of {counted(table.resamples, 'round')}"
    test = {"delong": "DeLong's test", "hanley_mcneil": "Hanley and McNeil's test"}.get(table.test)
    columns = "corpus, and of the average," if table.average else "corpus"
    notes.append(
        f"{MARK} significantly better than {baseline} on the same rows: two-sided p \u2264 "
        f"{SIGNIFICANT:g} by {test or rounds}, with Holm's correction for the "
        f"{counted(count, 'comparison')} of each {columns} on its own."
    )
    if table.average and test:
        notes.append(f"Averages are compared by {rounds}.")
    least = round(count / SIGNIFICANT) - 1  # else no corrected p-value is so small
    if table.resamples < least and (table.average or not test):
        notes.append(
            f"So few rounds allow no mark, whatever the scores; at least {least:,} are needed."
        )
    return tuple(notes)


def _baseline(table: AucTable) -> str:
    return next(iter(table.tested), "")


def _tidy_auc(table: AucTable) -> Table:
    """Returns a row for each scorer and corpus; the average's corpus is "average"."""
    columns = ("scorer", "corpus", "rows", "left_out", *_CELL_COLUMNS)
    rows: list[tuple[Any, ...]] = []
    for scorer, cells in table.cells.items():
        if table.average:
            cells = {**cells, "average": table.average[scorer]}
        for corpus, cell in cells.items():
            sizes = table.rows.get(corpus), table.left_out.get(corpus)
            *figures, better = _cell_figures(cell, _baseline(table)).values()
            rows.append(
                (scorer, corpus, *sizes, *figures, None if figures[-1] is None else int(better))
            )
    return Table("", columns, tuple(rows))


_CELL_COLUMNS = ("auc", "low", "high", "p_value", "significantly_better")


def npov_rows(
    cells: Mapping[tuple[str, str], Mapping[str, AucCell]],
    confidence: float = 0.95,
    words: bool = False,
) -> Table:
    """Returns Chang 2024's table 1, or table 3, in per cent: a row for each error and scorer.

    Args:
      cells: from `faith_jax.statistics.npov_detection.npov_cells`.
      confidence: of the intervals, for the title.
      words: the cells are of words.
    """
    slices = list(dict.fromkeys(name for row in cells.values() for name in row))
    rows = tuple(
        (error, scorer, *(_auc(row[name]) if name in row else None for name in slices))
        for (error, scorer), row in cells.items()
    )
    what, number = ("erroneous words", 3) if words else ("errors", 1)
    title = (
        f"Detection of {what}, ROC AUC in per cent with {100 * confidence:g}% bootstrap intervals "
        f"(Chang 2024, table {number})"
    )
    tidy = tuple(
        (error, scorer, name, cell.auc, *cell.interval)
        for (error, scorer), row in cells.items()
        for name, cell in row.items()
    )
    plain = Table("", ("error", "scorer", "slice", *_CELL_COLUMNS[:3]), tidy)
    return Table(title, ("error", "scorer", *slices), rows, tidy=plain)


def _auc(cell: AucCell, baseline: str = "") -> str:
    if math.isnan(cell.auc):
        return "one class"
    low, high = (100 * end for end in cell.interval)
    mark = MARK if baseline in cell.compared and cell.compared[baseline].better else ""
    return f"{100 * cell.auc:.1f}{mark} ({low:.1f}\u2013{high:.1f})"


def auc_figures(table: AucTable) -> dict[str, Any]:
    """Returns all figures of the table as JSON has them; what is undefined is None.

    Args:
      table: with one baseline at most.
    """
    baseline = _baseline(table)
    return {
        "baseline": baseline,
        "test": table.test,
        "resamples": table.resamples,
        "confidence": table.confidence,
        "seed": table.seed,
        "cluster_field": table.cluster_field,
        "rows": dict(table.rows),
        "left_out": dict(table.left_out),
        "corpora": {
            scorer: {corpus: _cell_figures(cell, baseline) for corpus, cell in cells.items()}
            for scorer, cells in table.cells.items()
        },
        "average": {s: _cell_figures(cell, baseline) for s, cell in table.average.items()},
    }


def npov_figures(cells: Mapping[tuple[str, str], Mapping[str, AucCell]]) -> dict[str, Any]:
    """Returns the figures of `npov_rows` as JSON has them, by error, scorer and slice."""
    found: dict[str, Any] = {}
    for (error, scorer), row in cells.items():
        found.setdefault(error, {})[scorer] = {n: _cell_figures(cell) for n, cell in row.items()}
    return found


def _cell_figures(cell: AucCell, baseline: str = "") -> dict[str, Any]:
    compared = cell.compared.get(baseline)
    return {
        "auc": _defined(cell.auc),
        "low": _defined(cell.interval.low),
        "high": _defined(cell.interval.high),
        "p_value": _defined(compared.corrected) if compared else None,
        "better": compared is not None and compared.better,
    }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
