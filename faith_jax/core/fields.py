"""Checks of a row's fields, with errors that name the file, the line, the field and the remedy.

>>> text_field({"title": " Tea "}, "title", "topics.jsonl:3")
'Tea'
>>> text_field({"titel": "Tea"}, "title", "topics.jsonl:3")
Traceback (most recent call last):
  ...
faith_jax.core.errors.InputError: topics.jsonl:3: field 'title' is missing. Did you mean 'titel'?
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from faith_jax.core.errors import InputError, did_you_mean

_SHOWN_CHARACTERS = 60


def shown(value: Any) -> str:
    """Returns a value as JSON for an error message, on one line and not too long.

    What JSON has not, such as bytes and dates, is shown as Python writes it.
    """
    text = json.dumps(value, default=repr)
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


def optional_text(row: Mapping[str, Any], field: str, place: str) -> str:
    """Returns a text field, stripped; one that is missing, null or blank is "".

    Raises:
      InputError: for another type.

    >>> optional_text({"persona": " "}, "persona", "train.json: [0]")
    ''
    """
    blank = row.get(field) is None or is_blank(row[field])
    return "" if blank else text_field(row, field, place)


def is_blank(value: Any) -> bool:
    """Returns whether a value is a text of nothing but white space."""
    return isinstance(value, str) and not value.strip()


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


def integer_field(
    row: Mapping[str, Any], field: str, place: str, default: int | None = None
) -> int:
    """Returns a field that holds a whole number; true and false count as 1 and 0.

    Args:
      row: the row.
      field: the field's name.
      place: where the row stands, as `path:line`.
      default: what a missing or null field means; None = the field is required.

    Raises:
      InputError: for a missing field and for another type.

    >>> integer_field({"status": True}, "status", "a.json: [0]")
    1
    """
    if default is not None and row.get(field) is None:
        return default
    value = required(row, field, place)
    if not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise field_error(place, field, "a whole number of 64 bits", value)
    return int(value)


def object_field(
    row: Mapping[str, Any], field: str, place: str, optional: bool = False
) -> Mapping[str, Any]:
    """Returns a field that holds an object; with `optional`, a missing or null one is empty.

    Raises:
      InputError: for a missing field and for another type.
    """
    if optional and row.get(field) is None:
        return {}
    value = required(row, field, place)
    if not isinstance(value, dict):
        raise field_error(place, field, "an object", value)
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


def choice_field(
    row: Mapping[str, Any], field: str, place: str, choices: Iterable[str], remedy: str = ""
) -> str:
    """Returns a field that holds one of the texts in `choices`, white space around it dropped.

    Raises:
      InputError: for a missing field and for any other value, naming the nearest choices.
    """
    value, choices = required(row, field, place), [str(choice) for choice in choices]
    if not isinstance(value, str) or value.strip() not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        error = field_error(place, field, f"one of {', '.join(choices)}", value, remedy)
        raise InputError(f"{error}{hint}")
    return value.strip()


def texts_field(
    row: Mapping[str, Any], field: str, place: str, minimum: int = 0, remedy: str = ""
) -> list[str]:
    """Returns a field that holds a list of texts, none of them empty.

    Arguments and errors are those of `list_field`.
    """
    items = list_field(row, field, place, of="text", remedy=remedy, minimum=minimum)
    return [checked_text(item, f"{field}[{i}]", place) for i, item in enumerate(items)]
