"""Several tables of one run as files: Markdown, LaTeX, CSV and JSON."""

import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.files import write_text
from faith_jax.report.tables import rendered
from faith_jax.statistics.dataset_statistics import Table


def write_tables(
    path: pathlib.Path,
    title: str,
    notes: Sequence[str],
    tables: Sequence[Table],
    figures: Mapping[str, Any],
) -> str:
    """Writes PATH.md, .tex, .csv and .json, and returns the tables as text.

    Args:
      path: without an ending.
      title: of all.
      notes: of all; each table has its own besides.
      tables: with tidy forms of the same columns, which the CSV joins.
      figures: of the JSON file, besides title, notes and the tidy rows.

    Raises:
      ConfigError: for a file that cannot be written.
    """
    parts = [table.tidy for table in tables if table.tidy is not None]
    tidy = Table("", parts[0].columns, tuple(row for part in parts for row in part.rows))
    listed = "".join(f"\n{note}\n" for note in notes)
    markdown = "\n".join(rendered(table, "markdown") for table in tables)
    told = {"title": title, "notes": list(notes), **figures, "rows": by_column(tidy)}
    texts = {
        "md": f"# {title}\n{listed}\n{markdown}",
        "tex": "\n".join(rendered(table, "latex") for table in _captioned(title, tables)),
        "csv": rendered(tidy, "csv"),
        "json": json.dumps(told, indent=1, ensure_ascii=False) + "\n",
    }
    for ending, text in texts.items():
        write_text(path.with_name(f"{path.name}.{ending}"), text)
    shown = "\n".join(rendered(table) for table in tables)
    return f"{title}\n" + "".join(f"{note}\n" for note in notes) + f"\n{shown}"


def _captioned(title: str, tables: Sequence[Table]) -> list[Table]:
    """Returns the tables with what they are all of in each caption."""
    return [table._replace(title=f"{title}: {table.title}") for table in tables]


def by_column(table: Table) -> list[dict[str, Any]]:
    """Returns a table's rows by column, with None for what is undefined."""
    rows = (zip(table.columns, row, strict=True) for row in table.rows)
    return [
        {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in row}
        for row in rows
    ]
