"""Marks as `faith-jax annotate read` writes them: a row for each response and annotator."""

import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.data.annotation_marks import Marks
from faith_jax.data.annotation_sheets import ERRORS, AnnotationItem
from faith_jax.data.fields import field_error, text_field
from faith_jax.data.jsonl import read_jsonl
from faith_jax.errors import InputError, did_you_mean


def read_marks(path: pathlib.Path, items: Mapping[str, AnnotationItem]) -> dict[str, list[Marks]]:
    """Reads the marks of responses by their ids.

    Args:
      path: from `faith-jax annotate read --output`.
      items: the responses by id, which the marks must be of.

    Raises:
      InputError: for a file without rows, for a row of another response (with the nearest ids), for
        marks that are missing, and for spans and arguments that the response does not have.
    """
    found: dict[str, list[Marks]] = {}
    seen: dict[tuple[str, str], str] = {}
    for place, row in read_jsonl(str(path)):
        if "annotator" not in row and "annotators" in row:
            raise InputError(
                f"{place}: expected the marks of one annotator, got the labels of all; name the "
                "file of `annotate read --output`, not that of --labels."
            )
        marks = _marks(row, place, items)
        before = seen.setdefault((marks.id, marks.annotator), place)
        if before != place:
            raise field_error(
                place, "annotator", "one row for each id and annotator", marks.annotator,
                f"{before} is of both too; keep one of the two",
            )  # fmt: skip
        found.setdefault(marks.id, []).append(marks)
    if not found:
        raise InputError(f"{path}: holds no marks; expected what `faith-jax annotate read` writes.")
    return found


def _marks(row: Mapping[str, Any], place: str, items: Mapping[str, AnnotationItem]) -> Marks:
    identifier = text_field(row, "id", place)
    if identifier not in items:
        raise InputError(
            f"{place}: field 'id': {identifier!r} is no response of this run."
            f"{did_you_mean(identifier, items)}"
        )
    item = items[identifier]
    answers = {}
    for error in ERRORS:
        if not isinstance(row.get(error), bool):
            raise field_error(place, error, "true or false", row.get(error))
        answers[error] = row[error]
    spans = functools.partial(_checked_spans, row=row, item=item, place=place)
    named = functools.partial(_checked_arguments, row=row, item=item, place=place)
    return Marks(
        identifier,
        text_field(row, "annotator", place),
        place,
        answers,
        spans("unsupported_spans"),
        spans("partial_spans"),
        named("missing_arguments"),
        named("partly_missing_arguments"),
        str(row.get("note") or ""),
    )


def _checked_spans(
    name: str, row: Mapping[str, Any], item: AnnotationItem, place: str
) -> tuple[tuple[int, int], ...]:
    """Returns the spans, which must lie within the response: of another one they may not."""
    found = row.get(name, [])
    length = len(item.response)
    if not isinstance(found, list) or not all(_is_span(span, length) for span in found):
        raise field_error(
            place, name, f"a list of [start, end] within the response's {length} characters",
            found, "annotate the responses of this run",
        )  # fmt: skip
    return tuple((start, end) for start, end in found)


def _is_span(span: Any, length: int) -> bool:
    pair = isinstance(span, Sequence) and len(span) == 2 and all(type(i) is int for i in span)
    return pair and 0 <= span[0] < span[1] <= length


def _checked_arguments(
    name: str, row: Mapping[str, Any], item: AnnotationItem, place: str
) -> tuple[str, ...]:
    found = row.get(name, [])
    if not isinstance(found, list) or not all(label in item.labels for label in found):
        raise field_error(place, name, f"a list of {', '.join(item.labels)}", found)
    return tuple(found)
