"""One self-contained HTML page of tables. Nothing is fetched or run in it; all text is escaped."""

from collections.abc import Sequence
from typing import Any

from faith_jax.report.html import page_template
from faith_jax.report.tables import cell_text
from faith_jax.statistics.dataset_statistics import Table

_PUBLISHED = "(published)"


def table_page(title: str, notes: Sequence[str], tables: Sequence[Table]) -> str:
    """Returns the page; rows that are said to be published look different from ours.

    Args:
      title: of the page.
      notes: what stands above the tables.
      tables: in order.
    """
    return page_template("tables.html").render(
        title=title, notes=notes, tables=[_shown(table) for table in tables]
    )


def _shown(table: Table) -> dict[str, Any]:
    rows = [
        {
            "cells": [
                {"text": cell_text(value), "number": not isinstance(value, str)} for value in row
            ],
            "published": any(isinstance(v, str) and v.endswith(_PUBLISHED) for v in row),
        }
        for row in table.rows
    ]
    return {"title": table.title, "columns": table.columns, "rows": rows, "notes": table.notes}
