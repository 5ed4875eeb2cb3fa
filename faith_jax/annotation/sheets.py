"""Sheets on which people mark errors in responses (Chang 2024, section 4.1).

A sheet is a CSV file for spreadsheet programs, or JSON lines. Each row is one response for one
annotator: the texts to judge, and empty cells for the marks (`faith_jax.annotation.marks` says what
they may hold). Texts are read back exactly as they were written.

CSV is UTF-8 with a byte order mark, by which spreadsheet programs recognize it, with all cells
quoted. A cell that a spreadsheet program would run as a formula gets a leading apostrophe, which
is removed when it is read.

>>> guard_formula("=1+1"), guard_formula("'=1+1"), guard_formula("1+1")
("'=1+1", "''=1+1", '1+1')
>>> unguard_formula("'=1+1"), unguard_formula("''=1+1"), unguard_formula("'tis")
('=1+1', "'=1+1", "'tis")
"""

import csv
import io
import json
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from faith_jax.core.errors import ConfigError, InputError, field_error
from faith_jax.core.rows import Row, decode_line, read_jsonl, read_lines
from faith_jax.core.schema import Text, convert_row
from faith_jax.core.table import guard_formula, unguard_formula
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.delimited import read_csv

FULL_ERRORS = ("hallucination", "coverage")
AMBIGUOUS_ERRORS = (
    "partial_hallucination", "partial_coverage", "repetition", "perspective_confusion",
)  # fmt: skip
ERRORS = (*FULL_ERRORS, *AMBIGUOUS_ERRORS)
# Columns that annotators fill in.
_LISTS = ("unsupported_spans", "missing_arguments")
MARKS = (*ERRORS, *_LISTS, "note")
# Columns with the texts to judge.
_LEAD = ("id", "annotator", "query", "arguments", "response")

# Stands for the side in the labels of a grounding without perspectives.
_PLAIN_SIDE = "text"
_INDENT = " " * 4


class _Told(msgspec.Struct):
    """The cells of a row that hold texts."""

    id: Text
    query: str
    response: str
    annotator: str = ""


class SheetRow(NamedTuple):
    """One row of a sheet, at `place` (`path:line`); line ends in its texts are line feeds.

    `marks` are the cells that annotators fill in: texts, and in JSON lines also null, numbers,
    booleans and lists. `annotator` is "" if the row does not name one.
    """

    place: str
    example: GroundedExample
    annotator: str
    marks: Mapping[str, Any]


def query_of(example: GroundedExample) -> str:
    """Returns the conversation up to and including the query, as one text."""
    return "\n".join(example.history)


def one_line_end(text: str) -> str:
    r"""Returns a text whose line ends are all "\n", as spreadsheet programs make them."""
    return re.sub(r"\r\n?", "\n", text)


def arguments_by_label(grounding: Grounding) -> dict[str, str]:
    """Returns the texts of a grounding by their labels."""
    return dict(zip(grounding.labels(), grounding.texts, strict=True))


def arguments_cell(arguments: Mapping[str, str]) -> str:
    r"""Returns arguments in one cell, each on its own line; its further lines are indented.

    >>> arguments_cell({"pro 1": "Tea is mild.", "con 1": "It\nstains."})
    'pro 1: Tea is mild.\ncon 1: It\n    stains.'
    """
    indented = ((name, text.replace("\n", f"\n{_INDENT}")) for name, text in arguments.items())
    return "\n".join(f"{name}: {text}" for name, text in indented)


def parse_arguments(cell: Any, place: str) -> Grounding:
    """Returns the arguments of a cell by `arguments_cell`, or of an object {label: text}."""
    if isinstance(cell, str):
        lines = re.split(rf"\n(?!{_INDENT})", one_line_end(cell))
        pairs = [line.partition(": ")[::2] for line in lines]
        pairs = [(label, text.replace(f"\n{_INDENT}", "\n")) for label, text in pairs]
    else:
        pairs = list(cell.items()) if isinstance(cell, dict) else []
    labels = tuple(label for label, _ in pairs)
    sides = tuple(label.rpartition(" ")[0] for label in labels)
    if pairs and all(sides) and all(isinstance(text, str) for _, text in pairs):
        texts = tuple(one_line_end(text) for _, text in pairs)
        grounding = Grounding(texts, () if set(sides) == {_PLAIN_SIDE} else sides)
        if grounding.labels() == labels:
            return grounding
    raise field_error(
        place, "arguments", "a line such as 'pro 1: ...' for each argument, numbered on its side",
        cell, "restore what the sheet had when it was written",
    )  # fmt: skip


def sheet_format(path: pathlib.Path) -> str:
    """Returns "csv" or "jsonl" by a file's ending; another ending is a ConfigError."""
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise ConfigError(
            f"{path}: a sheet is a .csv or .jsonl file; in a spreadsheet program, save it as CSV "
            "UTF-8."
        )
    return path.suffix.lower()[1:]


def sheet_text(
    examples: Iterable[GroundedExample],
    annotators: Sequence[str] = (),
    form: str = "csv",
    marks: Sequence[str] = MARKS,
) -> str:
    """Returns an empty sheet, as "csv" (with a byte order mark) or "jsonl".

    `marks` are the columns that annotators fill in. Each annotator gets all examples, one
    annotator's rows after another's. Without annotators, each example has one row, in which an
    annotator writes a name.
    """
    rows: list[dict[str, Any]] = [
        {
            "id": example.id,
            "annotator": annotator,
            "query": query_of(example),
            "arguments": arguments_by_label(example.grounding),
            "response": example.response,
        }
        for annotator in annotators or ("",)
        for example in examples
    ]
    if form == "jsonl":
        blank: dict[str, Any] = dict.fromkeys(marks) | {"note": ""}
        blank |= {name: [] for name in _LISTS if name in marks}
        return "".join(json.dumps(row | blank, ensure_ascii=False) + "\n" for row in rows)
    buffer = io.StringIO(newline="")
    buffer.write("\ufeff")
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow((*_LEAD, *marks))
    for row in rows:
        cells = row | {"arguments": arguments_cell(row["arguments"])}
        writer.writerow([*map(guard_formula, cells.values()), *[""] * len(marks)])
    return buffer.getvalue()


def read_sheet(path: pathlib.Path, marks: Sequence[str] = MARKS) -> Iterator[SheetRow]:
    """Yields the rows of a sheet; rows of empty cells are skipped.

    `marks` are the columns that annotators fill in. CSV may have commas, semicolons or tabs
    between its cells.

    Raises:
      ConfigError: the file does not end in .csv or .jsonl.
      InputError: the file is not a sheet, or has no rows.
    """
    rows: Iterator[Row]
    if sheet_format(path) == "jsonl":
        rows = read_jsonl(path)
    else:
        header = decode_line(next(read_lines(path), b""), f"{path}:1").rstrip("\r\n")
        delimiter = max(",;\t", key=header.count)
        if header.strip():  # the reader of CSV reports an empty file
            _check_columns(next(csv.reader([header], delimiter=delimiter)), f"{path}:1", marks)
        rows = (
            Row(place, {name: unguard_formula(cell) for name, cell in cells.items()})
            for place, cells in read_csv(path, (), delimiter=delimiter)
            if any(cell.strip() for cell in cells.values())
        )
    empty = True
    for place, fields in rows:
        empty = False
        _check_columns(fields, place, marks)
        texts = convert_row(fields, place, _Told, strip=False)
        query, response = one_line_end(texts.query), one_line_end(texts.response)
        grounding = parse_arguments(fields["arguments"], place)
        example = GroundedExample(texts.id, grounding, (query,) if query else (), response)
        cells = {name: fields[name] for name in marks}
        yield SheetRow(place, example, texts.annotator.strip(), cells)
    if empty:
        raise InputError(f"{path}: has no rows; write a sheet with: faith-jax annotate write")


def _check_columns(names: Collection[str], place: str, marks: Sequence[str]) -> None:
    columns = (*_LEAD, *marks)
    missing = [name for name in columns if name not in names]
    unknown = [name for name in names if name not in columns]
    if missing or unknown:
        parts = {"missing": missing, "unknown": unknown}
        problem = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in parts.items() if names)
        raise InputError(
            f"{place}: expected the columns {', '.join(columns)}; {problem}; rename, add or remove "
            "columns (remarks belong into 'note'), or write a sheet with: faith-jax annotate write"
        )
