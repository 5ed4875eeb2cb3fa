"""Reading JSON lines: UTF-8, one JSON object a line.

A byte order mark at the start, blank lines and Windows line ends are accepted.
"""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.fields import shown
from faith_jax.core.rows import BadRows, Row, decoded, read_lines


def read_jsonl(path: str | pathlib.Path, bad_rows: BadRows | None = None) -> Iterator[Row]:
    """Yields the rows of a JSON lines file; blank lines are passed over.

    Args:
      path: the file.
      bad_rows: what to do with a line that is not UTF-8, not JSON, or not a JSON object; by
        default reading stops.

    Raises:
      InputError: for a file that is missing or cannot be read, and for a bad line.
    """
    bad_rows = bad_rows or BadRows()
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            fields = _parse(decoded(line, place), place)
        except InputError as error:
            bad_rows.add(error)
            continue
        yield Row(place, fields)


def _parse(text: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(text.rstrip("\r\n"))  # else an error at the end is told of line 2
    except json.JSONDecodeError as error:
        problem = error.msg.removesuffix(" at")
        raise InputError(
            f"{place}: not valid JSON: {problem} at column {error.colno}; each line must be one "
            "whole JSON object."
        ) from None
    except (RecursionError, ValueError) as error:  # too deep, or a number of too many digits
        raise InputError(f"{place}: not valid JSON: {error}.") from None
    if not isinstance(row, dict):
        raise InputError(f"{place}: expected a JSON object, got {shown(row)}.")
    if "\\ud" in text.lower():  # the escape of half a surrogate pair, which is no character
        try:
            json.dumps(row, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(f"{place}: holds half of a surrogate pair, no character.") from None
    return row
