"""Marks of annotators: the cells of filled sheets, checked as they are read.

The full errors are a hallucination (the response states an argument that was not given) and a
coverage error (it leaves out a given argument). The ambiguous errors are partial errors of both
kinds, repetition of an argument, and confusion of perspectives (Chang 2024, section 3).

Spans are words copied from the response, or their offsets; arguments are named by their labels.
JSON lines hold them as lists. In a CSV cell, a line break or a bar separates spans, and a line
break or a comma separates arguments. An item that starts with `partial:` is of the partial error.
"""

import dataclasses
import operator
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from faith_jax.annotation.sheets import (
    AMBIGUOUS_ERRORS,
    ERRORS,
    MARKS,
    SheetRow,
    arguments_by_label,
    one_line_end,
    query_of,
    read_sheet,
)
from faith_jax.core.errors import InputError, did_you_mean, field_error, format_value, pluralize
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text, convert_row
from faith_jax.core.types import GroundedExample

# Fields that hold the items of an error, in rows of marks and labels: spans or arguments.
SPANS = {"hallucination": "unsupported_spans", "partial_hallucination": "partial_spans"}
ARGUMENTS = {"coverage": "missing_arguments", "partial_coverage": "partly_missing_arguments"}

_ANSWERS = dict.fromkeys(("yes", "y", "1", "true"), True)
_ANSWERS |= dict.fromkeys(("no", "n", "0", "false"), False)
_PARTIAL = re.compile(r"partial\s*:\s*", re.IGNORECASE)
_OFFSETS = re.compile(r"\[\s*(\d{1,9})\s*-\s*(\d{1,9})\s*\]")

Span = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Marks:
    """One annotator's marks of the response `id`, from the row at `place` (`path:line`).

    Attributes:
      answers: for each of `ERRORS`, whether the response has it, or answers to other questions.
      named: for each of `SPANS`, the start and end offsets of the marked spans; for each of
        `ARGUMENTS`, the labels of the marked arguments.
    """

    id: str
    annotator: str
    place: str
    answers: Mapping[str, Any]
    named: Mapping[str, tuple[Any, ...]]
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Annotations:
    """The content of sheets: responses by id, and the marks of filled rows.

    `empty` holds the places of rows that nobody has annotated yet.
    """

    examples: Mapping[str, GroundedExample]
    marks: tuple[Marks, ...]
    empty: tuple[str, ...] = ()

    def __post_init__(self):
        rows: dict[tuple[str, str], Marks] = {}
        names: dict[str, Marks] = {}
        for mark in self.marks:
            first = names.setdefault(mark.annotator.casefold(), mark)
            expected, remedy = f"{first.annotator!r}, as in {first.place}", "write a name one way"
            same_name = first.annotator == mark.annotator
            if same_name:
                first = rows.setdefault((mark.id, mark.annotator), mark)
                expected = f"one row for each id ({mark.id!r}) and annotator"
                remedy = f"{first.place} is of both too; keep one of the two"
            if not same_name or first is not mark:
                raise field_error(mark.place, "annotator", expected, mark.annotator, remedy)

    def by_id(self) -> dict[str, list[Marks]]:
        """Returns the marks of each marked response."""
        by_id: dict[str, list[Marks]] = {}
        for mark in self.marks:
            by_id.setdefault(mark.id, []).append(mark)
        return by_id

    def annotators(self) -> tuple[str, ...]:
        """Returns the names of the annotators, in order of appearance."""
        return tuple(dict.fromkeys(mark.annotator for mark in self.marks))


def read_annotations(
    sheets: Sequence[pathlib.Path],
    originals: Mapping[str, GroundedExample] | None = None,
    blank_is_no: bool = False,
    complete: bool = False,
    columns: Sequence[str] = MARKS,
    parse: Callable[[SheetRow, GroundedExample], Marks] | None = None,
) -> Annotations:
    """Reads filled sheets.

    Args:
      sheets: the files.
      originals: the responses by id that rows must match; None = their first occurrence in a sheet.
      blank_is_no: in a row with some marks, read an empty mark of an ambiguous error as no.
      complete: treat a row that is not annotated as an error.
      columns: the columns that annotators fill in.
      parse: reads the marks of a row; None = reads the columns `MARKS`.

    Raises:
      FaithJaxError: a sheet cannot be read, a text was changed, marks are missing or contradictory,
        or two rows have the same response and annotator.
    """
    responses: dict[str, tuple[GroundedExample, str]] = {}
    marks: list[Marks] = []
    empty: dict[tuple[str, str], str] = {}
    for row in (row for path in sheets for row in read_sheet(path, columns)):
        example = _match_example(row, responses, originals)
        if all(is_blank_cell(row.marks[name]) for name in columns):
            empty.setdefault((example.id, row.annotator), row.place)
        elif parse:
            marks.append(parse(row, example))
        else:
            marks.append(_parse_marks(row.marks, example, row.annotator, row.place, blank_is_no))
    # A row may be filled in elsewhere, such as in each annotator's own copy of the sheet.
    filled = {(mark.id, name) for mark in marks for name in (mark.annotator, "")}
    waiting = tuple(place for key, place in empty.items() if key not in filled)
    if complete and waiting:
        raise InputError(
            f"{waiting[0]}: not annotated yet, the first of {pluralize(len(waiting), 'such row')}; "
            "fill them in, or leave out --complete."
        )
    examples = {name: example for name, (example, _) in responses.items()}
    return Annotations(examples, tuple(marks), waiting)


def _match_example(
    row: SheetRow,
    responses: dict[str, tuple[GroundedExample, str]],
    originals: Mapping[str, GroundedExample] | None,
) -> GroundedExample:
    """Returns the response of a row, after checking that the row's texts are unchanged."""
    example = row.example
    if originals is not None and example.id not in originals:
        raise InputError(
            f"{row.place}: field 'id': {example.id!r} is not in --input."
            f"{did_you_mean(example.id, originals)} (Spreadsheet programs make numbers and dates of"
            " ids that look like them: import such columns as text.)"
        )
    first = (example, row.place) if originals is None else (originals[example.id], "--input")
    original, where = responses.setdefault(example.id, first)
    texts, original_texts = _collect_compared_texts(example), _collect_compared_texts(original)
    for field in {**original_texts, **texts}:
        got, original_text = texts.get(field, "").strip(), original_texts.get(field, "").strip()
        if got != original_text:
            num_same = sum(takewhile(bool, map(operator.eq, got, original_text)))
            expected = f"{format_value(original_text[num_same:])} from character "
            expected += f"{num_same + 1} on, as in {where}"
            remedy = "restore what the sheet had when it was written"
            raise field_error(row.place, field, expected, got[num_same:], remedy)
    return original


def _collect_compared_texts(example: GroundedExample) -> dict[str, str]:
    arguments = arguments_by_label(example.grounding)
    named = {f"arguments: {label}": text for label, text in arguments.items()}
    return {"query": query_of(example), **named, "response": example.response}


def read_marks(path: pathlib.Path, examples: Mapping[str, GroundedExample]) -> Annotations:
    """Reads marks of the given responses from a file of `faith-jax annotate read --output`.

    Raises:
      InputError: the file has no rows, a row is of another response, or marks are bad.
    """
    marks = []
    for place, row in read_jsonl(path):
        if "annotator" not in row:
            raise InputError(
                f"{place}: field 'annotator' is missing; name the file of `annotate read --output` "
                "(that of --labels says what all annotators say together)."
            )
        author = convert_row(row, place, _Author)
        if author.id not in examples:
            hint = did_you_mean(author.id, examples)
            raise InputError(
                f"{place}: field 'id': {author.id!r} is no response of this run.{hint}"
            )
        marks.append(_parse_marks(row, examples[author.id], author.annotator, place))
    if not marks:
        raise InputError(f"{path}: holds no marks; expected what `faith-jax annotate read` writes.")
    return Annotations(examples, tuple(marks))


class _Author(msgspec.Struct):
    id: Text
    annotator: Text


class _Note(msgspec.Struct):
    note: str = ""


def marks_row(marks: Marks) -> dict[str, Any]:
    """Returns one annotator's marks as a row that `read_marks` reads."""
    named = {field: marks.named[error] for error, field in {**SPANS, **ARGUMENTS}.items()}
    row = {"id": marks.id, "annotator": marks.annotator, **marks.answers, **named}
    return row | {"note": marks.note, "place": marks.place}


def _parse_marks(
    fields: Mapping[str, Any],
    example: GroundedExample,
    annotator: str,
    place: str,
    blank_is_no: bool = False,
) -> Marks:
    """Returns the checked marks of a row of a sheet or of `marks_row`."""
    if not annotator:
        remedy = "write a name into each row"
        raise field_error(place, "annotator", "who marked the row", annotator, remedy)
    answers: dict[str, bool] = {}
    for name in ERRORS:
        cell, may_be_blank = fields.get(name), name in AMBIGUOUS_ERRORS
        word = str(cell).strip().casefold()
        if word not in _ANSWERS and not (is_blank_cell(cell) and blank_is_no and may_be_blank):
            expected, remedy = "yes or no", "write one"  # a label must not be guessed
            if is_blank_cell(cell):
                expected += ", as the row is begun"
                remedy = "finish the row, or clear its marks"
                remedy += ", or give --blank-is-no" if may_be_blank else ""
            raise field_error(place, name, expected, cell, remedy)
        answers[name] = _ANSWERS.get(word, False)
    named = _parse_named(SPANS, fields, answers, example, place)
    named |= _parse_named(ARGUMENTS, fields, answers, example, place)
    note = convert_row({"note": fields.get("note")}, place, _Note).note
    return Marks(example.id, annotator, place, answers, named, note)


def is_blank_cell(cell: Any) -> bool:
    """Returns whether a cell is empty."""
    return cell in (None, []) or (isinstance(cell, str) and not cell.strip())


def _parse_named(
    errors: Mapping[str, str],
    fields: Mapping[str, Any],
    answers: Mapping[str, bool],
    example: GroundedExample,
    place: str,
) -> dict[str, tuple[Any, ...]]:
    """Reads the items of a full error and of its partial error, and checks them against answers.

    Items in the full error's field without `partial:` are of the full error, or of the partial
    error if the row has only that.
    """
    (error, field), (partial_error, partial_field) = errors.items()
    usual = partial_error if answers[partial_error] and not answers[error] else error
    locate = _locate_span if errors is SPANS else _match_argument_label
    by_error: dict[str, set[Any]] = {error: set(), partial_error: set()}
    for name in (field, partial_field):
        cell = fields.get(name)
        if not isinstance(cell, str | list | None):
            raise field_error(place, name, "a text or a list", cell)
        pieces: list[Any] = cell if isinstance(cell, list) else []
        if isinstance(cell, str):
            text = one_line_end(cell).strip()
            # A span of the response may itself contain a separator.
            is_one_span = errors is SPANS and text in example.response
            separators = r"[\n|]" if errors is SPANS else r"[\n|,]"
            pieces = [text] if is_one_span else re.split(separators, text)
        for piece in pieces:
            kind = usual if name == field else partial_error
            if isinstance(piece, str):
                piece = one_line_end(piece).strip()
                if prefix := _PARTIAL.match(piece):
                    kind, piece = partial_error, piece[prefix.end() :]
            if not is_blank_cell(piece):
                by_error[kind].add(locate(piece, example, place, name))
    for name, items in by_error.items():
        if items and not answers[name]:
            expected = f"nothing that is of a {name.replace('_', ' ')}, since {name} = no"
            remedy = f"write {name} = yes, or clear {field}"
            raise field_error(place, field, expected, fields.get(field), remedy)
    if answers[error] and not by_error[error]:
        expected = f"what the error is about, since {error} = yes"
        remedy = f"name it, or write {error} = no"
        raise field_error(place, field, expected, fields.get(field), remedy)
    order = None if errors is SPANS else example.grounding.labels().index
    return {name: tuple(sorted(items, key=order)) for name, items in by_error.items()}


def _locate_span(piece: Any, example: GroundedExample, place: str, field: str) -> Span:
    """Returns the offsets of a span that is given as words of the response or by its offsets."""
    response = example.response
    if isinstance(piece, str) and (offsets := _OFFSETS.fullmatch(piece)):
        piece = [int(offsets[1]), int(offsets[2])]
    if isinstance(piece, str):
        starts = [m.start() for m in re.finditer(f"(?={re.escape(piece)})", response)]
        if len(starts) != 1:
            expected = "words that the response has once, or offsets such as [12-20]"
            places = " or ".join(f"[{start}-{start + len(piece)}]" for start in starts[:3])
            remedy = f"copy more words, or write {places}" if starts else "copy them from there"
            raise field_error(place, field, expected, piece, remedy)
        return starts[0], starts[0] + len(piece)
    is_pair = isinstance(piece, list) and [type(end) for end in piece] == [int, int]
    if not is_pair or not 0 <= piece[0] < piece[1] <= len(response):
        expected = f"start and end within the response's {len(response)} characters"
        raise field_error(place, field, expected, piece, "copy the words in their place")
    return piece[0], piece[1]


def _match_argument_label(piece: Any, example: GroundedExample, place: str, field: str) -> str:
    """Returns the label of an argument, which may be written in any case."""
    labels = {label.casefold(): label for label in example.grounding.labels()}
    if str(piece).casefold() not in labels:
        expected = f"arguments of this row ({', '.join(labels.values())})"
        remedy = "name them by side and number, separated by commas"
        raise field_error(place, field, expected, piece, remedy)
    return labels[str(piece).casefold()]
