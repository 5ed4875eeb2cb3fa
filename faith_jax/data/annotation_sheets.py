"""Sheets on which people mark errors in responses (Chang 2024, section 4.1).

A sheet is a CSV file for spreadsheet programs, or JSON lines. Each row is one response for one
annotator: what is judged, and empty cells for the marks (`faith_jax.data.annotation_marks` says
what may stand there). Whatever the texts hold, a sheet that is read back has exactly these texts.

CSV is UTF-8 with a byte order mark, by which spreadsheet programs know it, all cells quoted. A
cell that a spreadsheet program would run as a formula has an apostrophe in front, which is taken
off again.

>>> guarded("=1+1"), guarded("'=1+1"), guarded("1+1")
("'=1+1", "''=1+1", '1+1')
>>> unguarded("'=1+1"), unguarded("''=1+1"), unguarded("'tis")
('=1+1', "'=1+1", "'tis")
"""

import csv
import dataclasses
import io
import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.data.delimited import read_csv
from faith_jax.data.fields import field_error, shown
from faith_jax.data.jsonl import read_jsonl
from faith_jax.data.rows import decoded, read_lines
from faith_jax.errors import ConfigError, InputError, did_you_mean
from faith_jax.types import Grounding

FULL_ERRORS = ("hallucination", "coverage")
AMBIGUOUS_ERRORS = (
    "partial_hallucination", "partial_coverage", "repetition", "perspective_confusion",
)  # fmt: skip
ERRORS = (*FULL_ERRORS, *AMBIGUOUS_ERRORS)
# What annotators fill in; all but the note is checked.
MARKS = (*ERRORS, "unsupported_spans", "missing_arguments", "note")
COLUMNS = ("id", "annotator", "query", "arguments", "response", *MARKS)

FORMATS = {".csv": "csv", ".jsonl": "jsonl"}
DELIMITERS = (",", ";", "\t")
# What stands before the number of a text of a grounding without perspectives.
PLAIN_SIDE = "text"

# A side is one word, so that it can stand before a number and a colon.
SIDE = re.compile(r"[^\W\d_][\w-]*")
_ARGUMENT = re.compile(r"([^\W\d_][\w-]* [1-9]\d*): (.*)", re.DOTALL)
_INDENT = " " * 4
# Full-width signs are formulas to spreadsheet programs of East Asian languages.
_FORMULA = r"(?:\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])"
_UNGUARDED_FORMULA = re.compile(f"'*{_FORMULA}")
_GUARDED_FORMULA = re.compile(f"'+{_FORMULA}")
_ENCODING_REMEDY = (
    "save the file as UTF-8 (Excel: Save As, CSV UTF-8; LibreOffice: Save As, Edit filter settings,"
    " Unicode (UTF-8))."
)


@dataclasses.dataclass(frozen=True)
class AnnotationItem:
    """One response with what it should retell: what an annotator reads.

    Attributes:
      id: unique within a data set.
      query: the question that was asked; may be empty.
      arguments: each with its label: the side and the number on it, such as "pro 1".
      response: the text to judge.
    """

    id: str
    query: str
    arguments: tuple[tuple[str, str], ...]
    response: str

    @property
    def labels(self) -> tuple[str, ...]:
        """The arguments' labels, in order."""
        return tuple(label for label, _ in self.arguments)

    def sides(self) -> dict[str, list[str]]:
        """Returns the arguments' texts by side, in order."""
        found: dict[str, list[str]] = {}
        for label, text in self.arguments:
            found.setdefault(label.rpartition(" ")[0], []).append(text)
        return found


class SheetRow(NamedTuple):
    """One row of a sheet as it stands there.

    Attributes:
      place: as `path:line`, for errors.
      item: what is judged.
      annotator: who judges it; "" = not said.
      marks: the cells of `MARKS`: texts, and in JSON lines also null, numbers, truth values, lists.
    """

    place: str
    item: AnnotationItem
    annotator: str
    marks: Mapping[str, Any]


def numbered_arguments(grounding: Grounding) -> tuple[tuple[str, str], ...]:
    """Returns the texts of a grounding with their labels, numbered from 1 on each side.

    Args:
      grounding: whose perspectives match `SIDE`.

    >>> numbered_arguments(Grounding(("a", "b", "c"), ("pro", "pro", "con")))
    (('pro 1', 'a'), ('pro 2', 'b'), ('con 1', 'c'))
    """
    sides = grounding.perspectives or (PLAIN_SIDE,) * len(grounding.texts)
    counts = {side: itertools.count(1) for side in sides}
    return tuple(
        (f"{side} {next(counts[side])}", text)
        for side, text in zip(sides, grounding.texts, strict=True)
    )


def guarded(text: str) -> str:
    """Returns a cell that no spreadsheet program runs as a formula; see `unguarded`."""
    return f"'{text}" if _UNGUARDED_FORMULA.match(text) else text


def unguarded(cell: str) -> str:
    """Returns the text that `guarded` made a cell of; other texts as they are."""
    return cell[1:] if _GUARDED_FORMULA.match(cell) else cell


def arguments_cell(arguments: Iterable[tuple[str, str]]) -> str:
    r"""Returns arguments in one cell, each on its line; further lines of one are indented.

    >>> arguments_cell([("pro 1", "Tea is mild."), ("con 1", "It\nstains.")])
    'pro 1: Tea is mild.\ncon 1: It\n    stains.'
    """
    indented = ((label, text.replace("\n", f"\n{_INDENT}")) for label, text in arguments)
    return "\n".join(f"{label}: {text}" for label, text in indented)


def parsed_arguments(cell: str, place: str) -> tuple[tuple[str, str], ...]:
    """Returns the arguments of a cell that `arguments_cell` made.

    Raises:
      InputError: for a cell of another form.
    """
    found = [_ARGUMENT.fullmatch(line) for line in re.split(rf"\n(?!{_INDENT})", cell)]
    arguments = [(m[1], m[2].replace(f"\n{_INDENT}", "\n")) for m in found if m]
    if len(arguments) < len(found) or len(dict(arguments)) < len(arguments):
        raise _changed_arguments(place, cell)
    return tuple(arguments)


def _changed_arguments(place: str, value: Any) -> InputError:
    return field_error(
        place, "arguments", "a line such as 'pro 1: ...' for each argument", value,
        "what is to be judged must stay as it was written",
    )  # fmt: skip


def sheet_text(
    items: Iterable[AnnotationItem], annotators: Sequence[str] = (), form: str = "csv"
) -> str:
    """Returns an empty sheet.

    Args:
      items: what is to be judged.
      annotators: who judges; each gets all items, one annotator's rows after the other's. Without
        any, each item has one row, in which annotators write their names.
      form: "csv" (with a byte order mark) or "jsonl".
    """
    rows = [(item, name) for name in annotators or ("",) for item in items]
    if form == "jsonl":
        return "".join(json.dumps(_json_row(*row), ensure_ascii=False) + "\n" for row in rows)
    buffer = io.StringIO(newline="")
    buffer.write("\ufeff")
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for item, name in rows:
        told = (item.id, name, item.query, arguments_cell(item.arguments), item.response)
        writer.writerow([*map(guarded, told), *[""] * len(MARKS)])
    return buffer.getvalue()


def _json_row(item: AnnotationItem, annotator: str) -> dict[str, Any]:
    told: dict[str, Any] = {"id": item.id, "annotator": annotator, "query": item.query}
    told |= {"arguments": dict(item.arguments), "response": item.response}
    told |= dict.fromkeys(ERRORS)
    return told | {"unsupported_spans": [], "missing_arguments": [], "note": ""}


def sheet_format(path: pathlib.Path) -> str:
    """Returns "csv" or "jsonl", as a file's ending says.

    Raises:
      ConfigError: for another ending.
    """
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"{path}: a sheet is a .csv or .jsonl file; in a spreadsheet program, save it as CSV "
            "UTF-8."
        )
    return FORMATS[path.suffix.lower()]


def read_sheet(path: pathlib.Path) -> Iterator[SheetRow]:
    """Yields the rows of a sheet; those without any text are passed over.

    CSV may have commas, semicolons or tabs between its cells.

    Raises:
      ConfigError: for another ending than .csv and .jsonl.
      InputError: for a file that cannot be read, is not UTF-8 or no CSV, for missing and unknown
        columns, and for arguments that are not those of a sheet; and where there are no rows.
    """
    rows = _jsonl_rows(path) if sheet_format(path) == "jsonl" else _csv_rows(path)
    empty = True
    try:
        for row in rows:
            empty = False
            yield row
    except InputError as error:
        said = str(error)
        if "expected UTF-8" not in said:
            raise
        raise InputError(said.replace("save the file as UTF-8.", _ENCODING_REMEDY)) from None
    if empty:
        raise InputError(f"{path}: has no rows; write a sheet with: faith-jax annotate write")


def _csv_rows(path: pathlib.Path) -> Iterator[SheetRow]:
    delimiter = _delimiter(path)
    for place, fields in read_csv(path, COLUMNS, delimiter=delimiter):
        cells = {name: unguarded(cell) for name, cell in fields.items()}
        if any(cell.strip() for cell in cells.values()):
            arguments = parsed_arguments(cells["arguments"], place)
            yield _row(place, cells, arguments)


def _delimiter(path: pathlib.Path) -> str:
    """Returns what stands between the names of the columns, which are checked."""
    line = next(read_lines(path), b"")
    if line.startswith(b"PK"):
        raise InputError(
            f"{path}: a file of a spreadsheet program by what it holds; save it as CSV UTF-8."
        )
    text = decoded(line, f"{path}:1").rstrip("\r\n")
    headers = {delimiter: _cells(text, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: len(set(headers[delimiter]) & set(COLUMNS)))
    if text.strip():  # of an empty file the reader of CSV says so
        _check_columns(headers[best], f"{path}:1", "column")
    return best


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _check_columns(names: Sequence[str], place: str, what: str) -> None:
    if not set(names) & set(MARKS):
        raise InputError(
            f"{place}: expected an annotation sheet with the {what}s {', '.join(COLUMNS)}, got "
            f"{', '.join(names) or 'none'}; write one with: faith-jax annotate write"
        )
    for name in names:
        if name not in COLUMNS:
            missing = [column for column in COLUMNS if column not in names]
            hint = did_you_mean(name, missing) or f" Put remarks into the {what} 'note'."
            raise InputError(
                f"{place}: unknown {what} {name!r}; expected {', '.join(COLUMNS)}; remove or "
                f"rename it.{hint}"
            )
    for column in COLUMNS:
        if column not in names:
            raise InputError(
                f"{place}: the {what} '{column}' is missing; expected {', '.join(COLUMNS)}, got "
                f"{', '.join(names) or 'none'}; add it, with nothing in it where nothing is marked."
            )


def _jsonl_rows(path: pathlib.Path) -> Iterator[SheetRow]:
    for place, fields in read_jsonl(path):
        _check_columns(list(fields), place, "field")
        for name in ("id", "annotator", "query", "response"):
            value = fields[name]
            if not isinstance(value, str) and not (name == "annotator" and value is None):
                raise field_error(place, name, "a text", value)
        arguments = fields["arguments"]
        if not isinstance(arguments, dict) or not arguments:
            expected = "an object of texts by 'pro 1' and so on"
            raise field_error(place, "arguments", expected, arguments)
        for label, text in arguments.items():
            if not isinstance(text, str) or not _ARGUMENT.fullmatch(f"{label}: "):
                raise _changed_arguments(place, {label: text})
        yield _row(place, fields, tuple(arguments.items()))


def _row(place: str, fields: Mapping[str, Any], arguments: tuple[tuple[str, str], ...]) -> SheetRow:
    if not fields["id"].strip():
        raise field_error(place, "id", "the response's id", fields["id"])
    item = AnnotationItem(fields["id"], fields["query"], arguments, fields["response"])
    annotator = (fields["annotator"] or "").strip()
    return SheetRow(place, item, annotator, {name: fields[name] for name in MARKS})


def difference(one: str, other: str) -> str:
    """Returns where two texts differ first, for an error message.

    >>> difference("Tea is mild.", "Tea is wild.")
    'from character 8 on "mild." instead of "wild."'
    """
    pairs = zip(one, other, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return f"from character {same + 1} on {shown(one[same:])} instead of {shown(other[same:])}"
