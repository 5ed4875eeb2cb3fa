"""What annotators marked: rows of filled sheets as typed marks, checked.

The full errors are a hallucination (the response tells an argument that was not given) and a
coverage error (it leaves a given one out). Ambiguous are partial ones of both, repetition of an
argument, and confusion of perspectives (Chang 2024, section 3).
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faith_jax.data.annotation_sheets import (
    AMBIGUOUS_ERRORS,
    ERRORS,
    MARKS,
    AnnotationItem,
    SheetRow,
    difference,
    read_sheet,
)
from faith_jax.data.annotation_spans import (
    FULL,
    PARTIAL,
    NamedArgument,
    NamedSpan,
    is_empty,
    moved_span,
    one_line_end,
    parsed_arguments,
    parsed_spans,
)
from faith_jax.data.fields import field_error
from faith_jax.errors import InputError, counted, did_you_mean

YES, NO = ("yes", "y", "1", "true"), ("no", "n", "0", "false")
_ANSWERS = dict.fromkeys(YES, True) | dict.fromkeys(NO, False)


@dataclasses.dataclass(frozen=True)
class Marks:
    """What one annotator says of one response.

    Attributes:
      id: the response's.
      annotator: who marked it.
      place: where the row stands, as `path:line`.
      answers: for each of `ERRORS` whether the response has it.
      unsupported_spans: offsets of the response's characters that no argument supports, first and
        behind the last.
      partial_spans: those that change an argument's meaning.
      missing_arguments: labels of the arguments that the response leaves out.
      partly_missing_arguments: labels of those that it tells in part.
      note: whatever the annotator wrote.
    """

    id: str
    annotator: str
    place: str
    answers: Mapping[str, bool]
    unsupported_spans: tuple[tuple[int, int], ...] = ()
    partial_spans: tuple[tuple[int, int], ...] = ()
    missing_arguments: tuple[str, ...] = ()
    partly_missing_arguments: tuple[str, ...] = ()
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Annotations:
    """What is in some sheets.

    Attributes:
      items: the responses by their ids, in order of appearance.
      marks: of each row that is filled in, in order of appearance.
      empty: places of rows that nobody has annotated yet.
    """

    items: Mapping[str, AnnotationItem]
    marks: tuple[Marks, ...]
    empty: tuple[str, ...] = ()

    def by_id(self) -> dict[str, list[Marks]]:
        """Returns the marks of each response that has any."""
        found: dict[str, list[Marks]] = {}
        for marks in self.marks:
            found.setdefault(marks.id, []).append(marks)
        return found

    def annotators(self) -> tuple[str, ...]:
        """Returns who marked anything, in order of appearance."""
        return tuple(dict.fromkeys(marks.annotator for marks in self.marks))


def read_annotations(
    sheets: Sequence[pathlib.Path],
    originals: Mapping[str, AnnotationItem] | None = None,
    blank_is_no: bool = False,
    complete: bool = False,
) -> Annotations:
    """Reads filled sheets.

    Args:
      sheets: the files.
      originals: the responses by id that the sheets must be of; None = the first sheet's.
      blank_is_no: an empty mark of an ambiguous error is a no, where the row is begun.
      complete: a row that is not annotated is an error.

    Raises:
      FaithJaxError: for a sheet that cannot be read; for texts that were changed, missing and
        contradictory marks, and rows of the same response and annotator; naming the row.
    """
    items: dict[str, AnnotationItem] = {}
    origin: dict[str, str] = {}
    found: dict[tuple[str, str], Marks] = {}
    empty: dict[tuple[str, str], str] = {}
    written: dict[str, Marks] = {}
    for row in (row for path in sheets for row in read_sheet(path)):
        item = _checked_item(row, items, origin, originals)
        key = (item.id, row.annotator)
        marks = parsed_marks(row, item.response, blank_is_no)
        if marks is None:
            empty.setdefault(key, row.place)
            continue
        if key in found:
            raise field_error(
                row.place, "annotator", f"one row for each id ({item.id!r}) and annotator",
                row.annotator, f"{found[key].place} is of both too; keep one of the two",
            )  # fmt: skip
        _check_name(marks, written)
        found[key] = marks
    done = {identifier for identifier, _ in found}
    waiting = tuple(
        place
        for (identifier, annotator), place in empty.items()
        # A row may be filled in elsewhere, such as in each annotator's own copy of the sheet.
        if (identifier, annotator) not in found and (annotator or identifier not in done)
    )
    if complete and waiting:
        raise InputError(
            f"{waiting[0]}: not annotated yet, the first of {counted(len(waiting), 'such row')}; "
            "fill them in, or leave out --complete."
        )
    return Annotations(items, tuple(found.values()), waiting)


def _check_name(marks: Marks, written: dict[str, Marks]) -> None:
    first = written.setdefault(marks.annotator.casefold(), marks)
    if first.annotator != marks.annotator:
        raise field_error(
            marks.place, "annotator", f"one way to write a name ({first.annotator!r} in "
            f"{first.place})", marks.annotator, "write the same person's name the same way",
        )  # fmt: skip


def _checked_item(
    row: SheetRow,
    items: dict[str, AnnotationItem],
    origin: dict[str, str],
    originals: Mapping[str, AnnotationItem] | None,
) -> AnnotationItem:
    """Returns the response that a row is of, whose texts must be those known of it."""
    item = row.item
    if originals is not None and item.id not in originals:
        hint = did_you_mean(item.id, originals)
        raise InputError(
            f"{row.place}: field 'id': {item.id!r} is not in --input.{hint} (Spreadsheet programs "
            "make numbers and dates of ids that look like them: import such columns as text.)"
        )
    if item.id not in items:
        origin[item.id] = row.place if originals is None else "--input"
        items[item.id] = item if originals is None else originals[item.id]
    known, where = items[item.id], origin[item.id]
    remedy = "what is to be judged must stay as it was written"
    if item.labels != known.labels:
        expected = f"the arguments {', '.join(known.labels)}, as in {where}"
        raise field_error(row.place, "arguments", expected, ", ".join(item.labels), remedy)
    pairs = [("query", item.query, known.query), ("response", item.response, known.response)]
    for (label, text), (_, other) in zip(item.arguments, known.arguments, strict=True):
        pairs.append((f"arguments: {label}", text, other))
    for name, text, other in pairs:
        one, two = one_line_end(text), one_line_end(other)
        if one.strip() != two.strip():
            raise InputError(
                f"{row.place}: field '{name}': expected the text of {where}, got another, "
                f"{difference(one, two)}; {remedy}."
            )
    return known


def parsed_marks(row: SheetRow, response: str, blank_is_no: bool = False) -> Marks | None:
    """Returns the marks of a row; None where nothing is filled in.

    Args:
      row: of a sheet.
      response: what the spans are of; it may differ from the sheet's in line ends.
      blank_is_no: see `read_annotations`.

    Raises:
      InputError: for missing, unknown and contradictory marks.
    """
    if all(is_empty(row.marks[name]) for name in MARKS):
        return None
    place = row.place
    if not row.annotator:
        raise field_error(
            place, "annotator", "who marked the row", row.annotator, "write a name into each row"
        )
    answers = {name: _answer(row, name, blank_is_no) for name in ERRORS}
    spans = parsed_spans(row.marks["unsupported_spans"], row.item.response, place)
    named = parsed_arguments(row.marks["missing_arguments"], row.item.labels, place)
    full, partial = _by_kind(spans, answers, "hallucination", "unsupported_spans", place)
    missing, partly = _by_kind(named, answers, "coverage", "missing_arguments", place)
    note = row.marks["note"]
    if not is_empty(note) and not isinstance(note, str):
        raise field_error(place, "note", "a text", note)

    def moved(found: Iterable[Any]) -> tuple[tuple[int, int], ...]:
        pairs = (moved_span(s.start, s.end, row.item.response, response) for s in found)
        return tuple(dict.fromkeys(pairs))

    return Marks(
        row.item.id,
        row.annotator,
        place,
        answers,
        moved(full),
        moved(partial),
        tuple(dict.fromkeys(argument.label for argument in missing)),
        tuple(dict.fromkeys(argument.label for argument in partly)),
        note or "",
    )


def _answer(row: SheetRow, name: str, blank_is_no: bool) -> bool:
    cell = row.marks[name]
    if is_empty(cell):
        if blank_is_no and name in AMBIGUOUS_ERRORS:
            return False
        hint = ", or give --blank-is-no" if name in AMBIGUOUS_ERRORS else ""
        raise field_error(
            row.place, name, "yes or no, as the row is begun", cell,
            f"finish the row, or clear its marks{hint}",
        )  # fmt: skip
    word = str(cell).strip().casefold()
    if word not in _ANSWERS or isinstance(cell, float | list):
        # No hint at the nearest: a label must not be guessed.
        raise field_error(row.place, name, "yes or no", cell, "write one")
    return _ANSWERS[word]


def _by_kind(
    named: Sequence[NamedSpan] | Sequence[NamedArgument],
    answers: Mapping[str, bool],
    error: str,
    field: str,
    place: str,
) -> tuple[list[Any], list[Any]]:
    """Returns what is named as a full and as a partial error, where this fits the answers."""
    is_full, is_partial = answers[error], answers[f"partial_{error}"]
    usual = FULL if is_full or not is_partial else PARTIAL
    kinds: dict[str, list[Any]] = {FULL: [], PARTIAL: []}
    for one in named:
        kinds[one.kind or usual].append(one)
    for kind, name, answer in (
        (FULL, error, is_full),
        (PARTIAL, f"partial_{error}", is_partial),
    ):
        if kinds[kind] and not answer:
            raise InputError(
                f"{place}: fields '{name}' and '{field}' contradict each other: {name} = no, but "
                f"{field} names {_told(kinds[kind])}; write {name} = yes, or clear {field}"
                f"{_other_kind(kind, is_partial, error)}."
            )
    if is_full and not kinds[FULL]:
        what = "the words of the hallucination" if error == "hallucination" else "an argument"
        got = f"only {PARTIAL} ones" if kinds[PARTIAL] else "nothing"
        raise InputError(
            f"{place}: field '{field}': expected {what}, since {error} = yes, got {got}; "
            f"{_wanted(error)}, or write {error} = no."
        )
    return kinds[FULL], kinds[PARTIAL]


def _told(found: Sequence[Any]) -> str:
    first = found[0]
    shown = first.label if isinstance(first, NamedArgument) else f"[{first.start}-{first.end}]"
    return shown + (f" and {len(found) - 1} more" if len(found) > 1 else "")


def _other_kind(kind: str, is_partial: bool, error: str) -> str:
    if kind == FULL and not is_partial:
        return f" (where the error is a partial one, write partial_{error} = yes)"
    return ""


def _wanted(error: str) -> str:
    if error == "hallucination":
        return "copy them from the response"
    return "name what is left out, such as 'pro 1'"
