"""Tables as text, Markdown, LaTeX, CSV and HTML pages; for JSON, see `Table.records`."""

import csv
import io
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import tabulate

from faith_jax.core.files import write_json, write_text
from faith_jax.core.table import DASH, MARK, Table, guard_formula, printable

_STYLES = {"text": "simple", "markdown": "github", "latex": "latex_booktabs"}
# A method's name, such as +Synth: without brackets or bars it is a harmless formula.
_SIGNED_NAME = re.compile(r"[+-] ?[\w .\u2212-]+")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")  # the start of an HTML tag
_LATEX = str.maketrans(
    {
        **{character: rf"\{character}" for character in "%&_#${}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"\u2264": r"$\leq$", "\u2265": r"$\geq$"},
    }
)


def render_table(table: Table, form: str = "text") -> str:
    """Returns a table as "text", "markdown", "latex" or "csv".

    Numbers are right-aligned, fractions have two digits, and undefined values are a dash. CSV is
    for machines: it has the tidy form with all digits, without title and notes, and undefined
    values are empty. LaTeX is a float with title and notes as caption; it needs booktabs.
    """
    if form == "csv":
        tidy = table.tidy or table
        buffer = io.StringIO()
        rows = ([_csv_cell(value) for value in row] for row in (tidy.columns, *tidy.rows))
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        return buffer.getvalue()

    def escape_cell(value: Any) -> Any:
        """Returns a text without control characters, for Markdown also without bars and tags."""
        if not isinstance(value, str):
            return value
        text = printable(value)
        return _TAG.sub("&lt;", text).replace("|", r"\|") if form == "markdown" else text

    table = Table(
        printable(table.title),
        tuple(map(escape_cell, table.columns)),
        tuple(tuple(map(escape_cell, row)) for row in table.rows),
        tuple(printable(note, "\n") for note in table.notes),
    )
    cells = [[cell_text(value) for value in row] for row in table.rows]
    align = ["left" if isinstance(v, str) else "right" for row in table.rows[:1] for v in row]
    text = tabulate.tabulate(
        cells, table.columns, _STYLES[form], disable_numparse=True, colalign=align or None
    )
    if form == "latex":
        heading = ". ".join([table.title, " ".join(table.notes)]).strip()
        caption = heading.translate(_LATEX).replace(DASH, "--")
        tabular = text.replace(DASH, "--")
        lines = (r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", tabular)
        return "\n".join([*lines, r"\end{table}", ""])
    if form == "markdown":
        # A line that starts with the mark would be a list item.
        notes = "".join("\n" + note.replace(MARK, f"\\{MARK}") + "\n" for note in table.notes)
        return f"**{table.title}**\n\n{text}\n{notes}"
    return f"{table.title}\n{text}\n" + "".join(f"{note}\n" for note in table.notes)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, str):
        text = printable(value)
        return text if _SIGNED_NAME.fullmatch(text) else guard_formula(text)
    return None if _is_undefined(value) else value


def cell_text(value: Any) -> str:
    """Returns a value as a table shows it: fractions with two digits, a dash if undefined."""
    if _is_undefined(value):
        return DASH
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _is_undefined(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def join_tidy_tables(tables: Sequence[Table]) -> Table:
    """Returns the tidy forms of several tables, which share columns, as one table."""
    tidy = [table.tidy for table in tables if table.tidy]
    return Table("", tidy[0].columns, tuple(row for table in tidy for row in table.rows))


def write_tables(
    path: pathlib.Path,
    report: Mapping[str, Any],
    tables: Sequence[Table],
    captioned: Sequence[Table] = (),
) -> None:
    """Writes several tables as one .md, .tex, .csv (of their tidy forms) and .json.

    `path` has no ending. `report` becomes the JSON file; its title and notes stand above the
    tables. `captioned` are the same tables for LaTeX, where each stands alone.
    """
    listed = "".join(f"\n{note}\n" for note in report["notes"])
    markdown = "\n".join(render_table(table, "markdown") for table in tables)
    for ending, text in {
        "md": f"# {report['title']}\n{listed}\n{markdown}",
        "tex": "\n".join(render_table(table, "latex") for table in captioned or tables),
        "csv": render_table(join_tidy_tables(tables), "csv"),
    }.items():
        write_text(f"{path}.{ending}", text)
    write_json(f"{path}.json", report)


def table_page(title: str, notes: Sequence[str], tables: Sequence[Table]) -> str:
    """Returns one self-contained HTML page; rows of published figures look different from ours."""
    return page_template("tables.html").render(title=title, notes=notes, tables=tables)


def page_template(name: str) -> Any:
    """Returns a page template that escapes all text and can call `cell_text`."""
    import jinja2
    import markupsafe

    def break_name(text: str) -> markupsafe.Markup:
        return markupsafe.Markup("<wbr>").join(re.split("(?<=[_/])(?=.)", text))

    def is_published(row: Sequence[Any]) -> bool:
        return any(str(value).endswith("(published)") for value in row)

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("faith_jax.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"cell_text": cell_text, "named": break_name}
    environment.tests["published"] = is_published
    return environment.get_template(name)
