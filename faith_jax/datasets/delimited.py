"""Reading CSV and TSV files whose first line names the columns.

The format is stated by the caller, never guessed: research data sets disagree on whether a quote
mark in a TSV file quotes. A byte order mark, blank lines and Windows line ends are accepted;
columns that nobody asked for are passed over.
"""

import csv
import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence

from faith_jax.core.errors import InputError, did_you_mean
from faith_jax.core.rows import BadRows, Row, decoded, read_lines

# A cell of csv's is at most 128 KiB by default; documents are longer.
csv.field_size_limit(min(sys.maxsize, 2**31 - 1))

_CSV_REMEDY = "quote cells that hold a {} or a line break, a quote mark in them twice"
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_TSV_REMEDY = "a cell holds no tab and no line break"

# (line of the record's start, its cells or what is wrong with it)
_Record = tuple[int, list[str] | InputError]


def read_csv(
    path: str | pathlib.Path,
    columns: Sequence[str],
    bad_rows: BadRows | None = None,
    delimiter: str = ",",
) -> Iterator[Row]:
    """Yields the rows of a comma-separated file, cells quoted as RFC 4180 has it.

    Args:
      path: the file.
      columns: those that must be there.
      bad_rows: what to do with a row of too few or too many cells, with wrong quotes, or that
        is not UTF-8; by default reading stops.
      delimiter: "," or, as spreadsheet programs of many languages write it, ";" or a tab.

    Raises:
      InputError: for a file that is missing, empty or without one of the columns, for a quote
        that is never closed, and for a bad row.
    """
    records = _quoted_records(path, delimiter)
    return _named(path, records, columns, bad_rows or BadRows(), _csv_remedy(delimiter))


def read_tsv(
    path: str | pathlib.Path, columns: Sequence[str], bad_rows: BadRows | None = None
) -> Iterator[Row]:
    """Yields the rows of a tab-separated file without quoting: a quote mark is text.

    Arguments and errors are those of `read_csv`, without the delimiter.
    """
    records = _unquoted_records(path)
    return _named(path, records, columns, bad_rows or BadRows(), _TSV_REMEDY)


def _named(
    path: str | pathlib.Path,
    records: Iterator[_Record],
    columns: Sequence[str],
    bad_rows: BadRows,
    remedy: str,
) -> Iterator[Row]:
    header = _header(path, records, columns)
    for line, cells in records:
        place = f"{path}:{line}"
        if isinstance(cells, list) and len(cells) != len(header):
            cells = InputError(
                f"{place}: expected {len(header)} columns ({_listed(header)}), got "
                f"{len(cells)}; {remedy}."
            )
        if isinstance(cells, InputError):
            bad_rows.add(cells)
            continue
        yield Row(place, dict(zip(header, cells, strict=True)))


def _header(
    path: str | pathlib.Path, records: Iterator[_Record], columns: Sequence[str]
) -> list[str]:
    line, header = next(records, (0, []))
    if isinstance(header, InputError):
        raise header
    if not header:
        raise InputError(f"{path}: empty; its first line should name the columns.")
    for column in columns:
        if column not in header:
            raise InputError(
                f"{path}:{line}: column '{column}' is missing.{did_you_mean(column, header)} "
                f"The columns are: {_listed(header)}."
            )
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}:{line}: column {twice!r} is there twice; rename or drop one.")
    return header


def _listed(names: Iterable[str]) -> str:
    """Returns names in one line, those with line breaks and the like in quotes."""
    return ", ".join(name if name.isprintable() else repr(name) for name in names)


def _unquoted_records(path: str | pathlib.Path) -> Iterator[_Record]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip(b"\r\n"):
            try:
                text = decoded(line, f"{path}:{number}")
            except InputError as error:
                yield number, error
                continue
            yield number, text.rstrip("\r\n").split("\t")


def _quoted_records(path: str | pathlib.Path, delimiter: str) -> Iterator[_Record]:
    # Bytes that are not UTF-8 must not break a record whose lines belong together, so they pass
    # csv as surrogates and are found in the cells.
    lines = (line.decode("utf-8", "surrogateescape") for line in read_lines(path))
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                raise InputError(
                    f"{path}:{start}: a quote that is opened here is never closed."
                ) from None
            yield start, _csv_error(error, f"{path}:{start}", reader.line_num, delimiter)
            continue
        if cells is None:
            return
        if cells:
            yield start, _checked(cells, f"{path}:{start}")


def _csv_remedy(delimiter: str) -> str:
    return _CSV_REMEDY.format(_DELIMITERS.get(delimiter, delimiter))


def _csv_error(error: csv.Error, place: str, end: int, delimiter: str) -> InputError:
    """Returns the error of a record that begins at `place` and ends in the line `end`."""
    problem = str(error)
    if "new-line character" in problem:  # csv's own remedy is one for programmers
        problem = "a carriage return outside quotes"
    where = "" if place.endswith(f":{end}") else f" in the lines up to {end}, read as one record"
    return InputError(f"{place}: not valid CSV{where}: {problem}; {_csv_remedy(delimiter)}.")


def _checked(cells: list[str], place: str) -> list[str] | InputError:
    try:
        _check_utf8(cells, place)
    except InputError as error:
        return error
    return cells


def _check_utf8(cells: Iterable[str], place: str) -> None:
    for number, cell in enumerate(cells, start=1):
        try:
            cell.encode("utf-8")
        except UnicodeEncodeError as error:
            byte = ord(cell[error.start]) & 0xFF
            raise InputError(
                f"{place}: column {number}: expected UTF-8, got byte 0x{byte:02x}; save the file "
                "as UTF-8."
            ) from None
