"""A table of results, which `faith_jax.report.table_pages` renders in every format.

>>> figure_text(0.876, mark="*")
'0.88*'
"""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

# In all tables, MARK follows a figure that differs significantly; DASH replaces an undefined one.
MARK = "*"
DASH = "\u2013"
MINUS = "\u2212"


# Spreadsheet programs of East Asian languages also interpret full-width signs as formulas.
_FORMULA = r"(?:\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])"
# Control characters, which terminals obey, and characters that change the direction of text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def guard_formula(text: str) -> str:
    """Returns a cell that spreadsheet programs do not run as a formula; see `unguard_formula`."""
    return f"'{text}" if re.match(f"'*{_FORMULA}", text) else text


def unguard_formula(cell: str) -> str:
    """Undoes `guard_formula`; returns other texts unchanged."""
    return cell[1:] if re.match(f"'+{_FORMULA}", cell) else cell


def printable(text: str, keep: str = "", form: str = "") -> str:
    r"""Replaces control characters, which a terminal would obey, by escapes.

    Characters in `keep`, such as line feeds, are not replaced. Escapes are those of Python, or of
    another `form`.

    >>> printable("a\x1b[31mb"), printable("a\x1b[31mb", form=r"\u{:04x}")
    ('a\\x1b[31mb', 'a\\u001b[31mb')
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in keep:
            return character
        return form.format(ord(character)) if form else ascii(character)[1:-1]

    return _CONTROL.sub(escape, text)


class Table(NamedTuple):
    """A table to be printed.

    Attributes:
      title: description of the table, with its number in a paper.
      columns: names of the columns.
      rows: one cell per column: a number, a text (see `figure_text`), or None.
      notes: further sentences for readers.
      tidy: the same figures for machines, one per cell; None = this table is already tidy.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()
    tidy: "Table | None" = None

    def records(self) -> list[dict[str, Any]]:
        """Returns the rows of the tidy form as JSON objects, with columns as keys."""
        tidy = self.tidy or self
        return [plain(dict(zip(tidy.columns, row, strict=True))) for row in tidy.rows]


def figure_text(
    value: float,
    interval: tuple[float, float] | None = None,
    digits: int = 2,
    mark: str = "",
    spread: float = math.nan,
) -> str:
    """Formats a number for a table, with its interval or standard deviation, if any.

    An interval with ends of NaN is omitted.
    """
    text = f"{value:.{digits}f}{mark}"
    if interval is not None and not math.isnan(interval[0]):
        low, high = interval
        text += f" ({low:.{digits}f}\u2013{high:.{digits}f})"
    return text if math.isnan(spread) else f"{text} \u00b1{spread:.{digits}f}"


def difference_text(
    value: float, interval: tuple[float, float], digits: int, mark: str = ""
) -> str:
    """Formats a difference with its sign, and with its interval unless that is NaN."""
    text = f"{value:+.{digits}f}{mark}"
    low, high = interval
    return text if math.isnan(low) else f"{text} ({low:+.{digits}f} to {high:+.{digits}f})"


def plain(value: Any) -> Any:
    """Converts a value for JSON: arrays to lists, and numbers that are not finite to None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
