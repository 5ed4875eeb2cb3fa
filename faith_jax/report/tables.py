"""Tables as text, Markdown, LaTeX, CSV and HTML pages; `Table.records` is JSON's form."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import tabulate

from faith_jax.core.table import MARK, Table

FORMATS = ("text", "markdown", "latex", "csv")
_STYLES = {"text": "simple", "markdown": "github", "latex": "latex_booktabs"}
_DASH = "\u2013"
_PUBLISHED = "(published)"


def rendered(table: Table, form: str = "text") -> str:
    """Returns a table in one of `FORMATS`.

    Numbers are right-aligned; fractions have two digits, undefined values a dash. CSV is for
    machines: the tidy form without title and notes, all digits, undefined values empty. LaTeX is a
    float whose caption has the title and the notes; it needs booktabs.
    """
    if form == "csv":
        tidy = table.tidy or table
        buffer = io.StringIO()
        rows = ([None if _is_undefined(v) else v for v in row] for row in tidy.rows)
        csv.writer(buffer, lineterminator="\n").writerows([tidy.columns, *rows])
        return buffer.getvalue()
    cells = [[cell_text(value) for value in row] for row in table.rows]
    align = ["left" if isinstance(v, str) else "right" for row in table.rows[:1] for v in row]
    text = tabulate.tabulate(
        cells, table.columns, _STYLES[form], disable_numparse=True, colalign=align or None
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
    special = {**{c: rf"\{c}" for c in "%&_#$"}, "\u2264": r"$\leq$", "\u2265": r"$\geq$"}
    return _latex_dashes("".join(special.get(character, character) for character in text))


def _latex_dashes(text: str) -> str:
    return text.replace(_DASH, "--")


def cell_text(value: Any) -> str:
    """Returns a value as a table shows it: fractions with two digits, a dash for none."""
    if _is_undefined(value):
        return _DASH
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _is_undefined(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def table_page(title: str, notes: Sequence[str], tables: Sequence[Table]) -> str:
    """Returns one self-contained HTML page; rows of published figures look different from ours.

    Args:
      title: of the page.
      notes: shown above the tables.
      tables: in order.
    """
    shown = [
        {
            "title": table.title,
            "columns": table.columns,
            "notes": table.notes,
            "rows": [
                {
                    "cells": [
                        {"text": cell_text(value), "number": not isinstance(value, str)}
                        for value in row
                    ],
                    "published": any(str(value).endswith(_PUBLISHED) for value in row),
                }
                for row in table.rows
            ],
        }
        for table in tables
    ]
    return page_template("tables.html").render(title=title, notes=notes, tables=shown)


def page_template(name: str) -> Any:
    """Returns one of the page templates; they escape all text."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("faith_jax.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)
