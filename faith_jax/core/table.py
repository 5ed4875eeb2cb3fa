"""A table of results, which `faith_jax.report.table_pages` renders in every format.

>>> figure_text(0.876, mark="*")
'0.88*'
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

# Of a figure that differs significantly, in all tables.
MARK = "*"


class Table(NamedTuple):
    """A table to be printed.

    Attributes:
      title: what it shows, and which table of a paper it is.
      columns: their names.
      rows: as many cells each: a number, a text (see `figure_text`), or None.
      notes: further sentences for readers.
      tidy: the same figures for machines, one in each cell; None = this table is tidy itself.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()
    tidy: "Table | None" = None

    def records(self) -> list[dict[str, Any]]:
        """Returns the rows by column as JSON has them."""
        return [plain(dict(zip(self.columns, row, strict=True))) for row in self.rows]


def figure_text(
    value: float,
    interval: tuple[float, float] | None = None,
    digits: int = 2,
    mark: str = "",
    spread: float = math.nan,
) -> str:
    """Returns a number as a table shows it, with its interval or standard deviation if given."""
    text = f"{value:.{digits}f}{mark}"
    if interval is not None:
        low, high = interval
        text += f" ({low:.{digits}f}\u2013{high:.{digits}f})"
    return text if math.isnan(spread) else f"{text} \u00b1{spread:.{digits}f}"


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: lists for arrays, None for what is not finite."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
