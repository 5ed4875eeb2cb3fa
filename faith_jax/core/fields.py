"""Checks of single fields of a row, where an option or a sheet names the columns.

Rows whose form is fixed have a schema instead (`faith_jax.core.schema`).

>>> text_field({"title": " Tea "}, "title", "topics.jsonl:3")
'Tea'
>>> text_field({"titel": "Tea"}, "title", "topics.jsonl:3")
Traceback (most recent call last):
  ...
faith_jax.core.errors.InputError: topics.jsonl:3: field 'title' is missing. Did you mean 'titel'?
"""

from collections.abc import Mapping
from typing import Any

from faith_jax.core.errors import InputError, did_you_mean, field_error


def required(row: Mapping[str, Any], field: str, place: str) -> Any:
    """Returns the field's value; a missing field is an InputError naming the nearest one."""
    if field not in row:
        raise InputError(f"{place}: field '{field}' is missing.{did_you_mean(field, row)}")
    return row[field]


def text_field(row: Mapping[str, Any], field: str, place: str) -> str:
    """Returns a field that holds a text, stripped of surrounding white space.

    Raises:
      InputError: for a missing field, another type, or an empty text.
    """
    return checked_text(required(row, field, place), field, place)


def checked_text(value: Any, field: str, place: str) -> str:
    """Returns `value` stripped where it is a text that is not empty; else an InputError."""
    if not isinstance(value, str) or not value.strip():
        raise field_error(place, field, "a text that is not empty", value)
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
    """
    value = row.get(field)
    return "" if value is None or is_blank(value) else checked_text(value, field, place)


def is_blank(value: Any) -> bool:
    """Returns whether a value is a text of nothing but white space."""
    return isinstance(value, str) and not value.strip()
