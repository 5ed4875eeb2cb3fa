"""Reading JSON lines, with errors that name the file, the line, the field and the remedy.

Every raw format of the library is JSON lines: UTF-8, one JSON object a line. A byte order mark
at the start, blank lines and Windows line ends are accepted.

>>> text_field({"title": " Tea "}, "title", "topics.jsonl:3")
'Tea'
>>> text_field({"titel": "Tea"}, "title", "topics.jsonl:3")
Traceback (most recent call last):
  ...
faith_jax.errors.InputError: topics.jsonl:3: field 'title' is missing. Did you mean 'titel'?
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.errors import InputError, did_you_mean

_SHOWN_CHARACTERS = 60
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_jsonl(path: str | pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the rows of a JSON lines file.

    Args:
      path: the file.

    Yields:
      (line number from 1, the row as a dictionary); blank lines are passed over.

    Raises:
      InputError: for a file that is missing or cannot be read, and for a line that is not
        UTF-8, not JSON, or not a JSON object.
    """
    for number, line in enumerate(_lines(path), start=1):
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line.strip():
            yield number, _parse(line, f"{path}:{number}")


def _lines(path: str | pathlib.Path) -> Iterator[bytes]:
    """Yields the file's lines; only a line feed ends one (JSON texts may hold U+2028)."""
    try:
        with open(path, "rb") as file:
            yield from file
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise InputError(f"{path}: expected a JSON lines file, got a folder.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None


def _parse(line: bytes, place: str) -> dict[str, Any]:
    if line.startswith(_UTF_16_MARKS):
        raise InputError(f"{place}: expected UTF-8, got UTF-16; save the file as UTF-8.")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place}: expected UTF-8, got byte 0x{line[error.start]:02x} at byte "
            f"{error.start + 1} of the line; save the file as UTF-8."
        ) from None
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{place}: not valid JSON: {error.msg} at column {error.colno}; each line must be "
            "one whole JSON object."
        ) from None
    except (RecursionError, ValueError) as error:  # too deep, or a number of too many digits
        raise InputError(f"{place}: not valid JSON: {error}.") from None
    if not isinstance(row, dict):
        raise InputError(f"{place}: expected a JSON object, got {shown(row)}.")
    return row


def shown(value: Any) -> str:
    """Returns a value as JSON for an error message, on one line and not too long."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def field_error(place: str, field: str, expected: str, got: Any, remedy: str = "") -> InputError:
    """Returns the error for a field with a wrong value.

    Args:
      place: where the row stands, as `path:line`.
      field: the field's name; may go deeper, as in `pro[2].text`.
      expected: what should stand there.
      got: the value that stands there.
      remedy: what to do about it, as a phrase without a full stop.
    """
    end = f"; {remedy}." if remedy else "."
    return InputError(f"{place}: field '{field}': expected {expected}, got {shown(got)}{end}")


def required(row: Mapping[str, Any], field: str, place: str) -> Any:
    """Returns the field's value; a missing field is an InputError naming the nearest one."""
    if field not in row:
        raise InputError(f"{place}: field '{field}' is missing.{did_you_mean(field, row)}")
    return row[field]


def text_field(
    row: Mapping[str, Any], field: str, place: str, default: str | None = None, remedy: str = ""
) -> str:
    """Returns a field that holds a text, stripped of surrounding white space.

    Args:
      row: the row.
      field: the field's name.
      place: where the row stands, as `path:line`.
      default: what a missing or null field means; None = the field is required.
      remedy: what to do about an empty text.

    Raises:
      InputError: for a missing field, another type, or an empty text.
    """
    if default is not None and row.get(field) is None:
        return default
    return checked_text(required(row, field, place), field, place, remedy)


def checked_text(value: Any, field: str, place: str, remedy: str = "") -> str:
    """Returns `value` stripped where it is a text that is not empty; else an InputError."""
    if not isinstance(value, str) or not value.strip():
        raise field_error(place, field, "a text that is not empty", value, remedy)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        remedy = "half of a surrogate pair is no character"
        raise field_error(place, field, "a text of whole characters", value, remedy) from None
    return value.strip()


def list_field(
    row: Mapping[str, Any],
    field: str,
    place: str,
    of: str = "item",
    remedy: str = "",
    minimum: int = 1,
) -> list[Any]:
    """Returns a field that holds a list of at least `minimum` items.

    Args:
      row: the row.
      field: the field's name; with `minimum` 0 it may be missing or null.
      place: where the row stands, as `path:line`.
      of: what the items are, in the singular, for the message.
      remedy: what to do about too short a list.
      minimum: how many items there must be, 0 or 1.
    """
    if minimum == 0 and row.get(field) is None:
        return []
    value = required(row, field, place)
    article = "an" if of[0] in "aeiou" else "a"
    if not isinstance(value, list):
        raise field_error(place, field, f"a list with {article} {of} each", value)
    if len(value) < minimum:
        raise field_error(place, field, f"a list of at least one {of}", value, remedy)
    return value


def index_list_field(row: Mapping[str, Any], field: str, place: str, size: int) -> tuple[int, ...]:
    """Returns a field that holds a list of distinct 0-based indices below `size`."""
    values = list_field(row, field, place, of="index", remedy="name at least one")
    for position, value in enumerate(values):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < size:
            expected = f"an index from 0 to {size - 1}"
            raise field_error(place, f"{field}[{position}]", expected, value)
    if len(set(values)) < len(values):
        raise field_error(place, field, "distinct indices", values, "name each argument once")
    return tuple(values)
