"""Reads CSV and TSV files whose first line names the columns.

The caller states the format, since research data sets disagree on whether TSV files use quoting.
Accepted are a byte order mark, Windows line ends, blank lines, lines of only separators (written by
spreadsheets), and a first line `sep=;`, which tells Excel the separator.
"""

import contextlib
import csv
import functools
import itertools
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from faith_jax.core.errors import InputError, did_you_mean
from faith_jax.core.rows import BadRows, Row, check_columns, read_lines
from faith_jax.datasets.json_tables import free_name
from faith_jax.datasets.table_notes import stands_for_none

# The csv module's default limit for a cell is 128 KiB; documents may be longer.
csv.field_size_limit(min(sys.maxsize, 2**31 - 1))

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_ENDINGS = {",": ".csv", "\t": ".tsv"}
_SAMPLE_LINES = 1000
_MOST_RECORDS = 0.9
_QUOTED = frozenset('"\t\n\r')  # characters that only a quoted cell can hold
_NUMBER = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")
_SEPARATOR_LINE = re.compile(r'"?sep=([^\w\s"]|\t)"?\1*[ \r\n]*', re.IGNORECASE)

# The number of a record's first line, and its cells or an error message.
_Record = tuple[int, list[str] | str]


def read_csv(
    path: str | pathlib.Path,
    columns: Sequence[str],
    bad_rows: BadRows | None = None,
    delimiter: str = ",",
    first: int = 0,
    encoding: str = "utf-8",
    nameless: list[str] | None = None,
    has_quotes: bool = True,
) -> Iterator[Row]:
    """Yields the rows of a comma-separated file with cells quoted as in RFC 4180.

    Args:
      path: the file.
      columns: the columns that the file must have.
      bad_rows: how rows with too few or too many cells, wrong quotes, or bytes that are not UTF-8
        are handled; by default reading stops at the first.
      delimiter: ",", or ";" or a tab, as spreadsheet programs write in many languages.
      first: the row to begin with, from 0; earlier rows, bad ones included, are not checked.
      encoding: the encoding of the file.
      nameless: filled with the names given to columns without one: "index" for the first column, as
        pandas writes its index there, and "Unnamed: 2" or the like for others; None = give none.
      has_quotes: False = a quote mark is text, and each line is a row.

    Raises:
      InputError: the file is missing or empty, lacks one of the columns, has a quote that is never
        closed, or has a bad row.
    """
    records: Iterable[_Record]
    if has_quotes:
        name = DELIMITERS.get(delimiter, delimiter)
        remedy = f"quote cells that hold a {name} or a line break, a quote mark in them twice"
        records = _quoted_records(path, delimiter, remedy, encoding)
    else:
        remedy = "a cell holds no tab and no line break"
        lines = enumerate(_decoded_lines(path, encoding), start=1)
        stripped = ((line_number, line.rstrip("\r\n")) for line_number, line in lines)
        records = ((n, line.split(delimiter)) for n, line in stripped if line)
    header: list[str] = []
    for number, (line_number, record) in enumerate(itertools.filterfalse(_is_blank, records)):
        if header and number <= first:
            continue
        place = f"{path}:{line_number}"
        try:
            cells = _check_record(record, place)
            if header and len(cells) != len(header):
                raise InputError(
                    f"{place}: expected {len(header)} columns ({_join_names(header)}), got "
                    f"{len(cells)}; {remedy}."
                )
        except InputError as error:
            if not (header and bad_rows):
                raise
            bad_rows.add(error)
            continue
        if header:
            yield Row(place, dict(zip(header, cells, strict=True)))
        else:
            header = cells
            if nameless is not None:
                named = frozenset(cells)
                header = [
                    name or free_name(named, f"Unnamed: {number}" if number else "index")
                    for number, name in enumerate(cells)
                ]
                nameless.extend(name for name in header if name not in named)
            _check_header(header, place, delimiter, columns)
    if not header:
        raise InputError(f"{path}: empty; its first line should name the columns.")


# Reads a tab-separated file in which a quote mark is text.
read_tsv = functools.partial(read_csv, delimiter="\t", has_quotes=False)


def find_separator(
    path: str | pathlib.Path, usual: str, encoding: str = "utf-8"
) -> tuple[str, bool]:
    """Returns the character between the cells of a file, and whether the first line states it.

    If it is not stated, it is `usual` unless another separator fits better. A separator fits if it
    divides the first record into several cells and nine of ten records at the beginning of the file
    into equally many. The separator with the most cells fits best.
    """
    first = next(iter(read_lines(path, encoding)), b"").decode("utf-8", "surrogateescape")
    if statement := _SEPARATOR_LINE.fullmatch(first):
        return statement[1], True
    lines = _sample_lines(path, encoding)
    widths: dict[str, int] = {}
    for separator in (usual, *DELIMITERS):
        counts = [len(cells) for cells in _split_records(lines, separator)]
        if counts and counts[0] > 1 and counts.count(counts[0]) >= _MOST_RECORDS * len(counts):
            widths[separator] = counts[0]
    # Takes the first separator with the most cells; the usual one comes first.
    return max(widths, key=widths.__getitem__, default=usual), False


def decimal_comma_columns(
    path: str | pathlib.Path, separator: str, encoding: str = "utf-8"
) -> frozenset[str]:
    """Returns the columns whose cells are numbers, some of them with a decimal comma.

    Cells may also be empty or mark a missing value, such as NA. Only the beginning of the file is
    checked; its separator must not be a comma.
    """
    header, *records = _split_records(_sample_lines(path, encoding), separator) or [[]]
    columns = zip(header, itertools.zip_longest(*records, fillvalue=""), strict=False)
    return frozenset(
        name
        for name, cells in columns
        if any("," in cell for cell in cells)
        and all(_NUMBER.fullmatch(cell) or not cell or stands_for_none(cell) for cell in cells)
    )


def _sample_lines(path: str | pathlib.Path, encoding: str) -> list[str]:
    return list(itertools.islice(_decoded_lines(path, encoding), _SAMPLE_LINES))


def _split_records(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Returns the records of a sample of lines, up to one that is not valid CSV."""
    records: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        records.extend(filter(None, csv.reader(lines, delimiter=separator)))
    if len(lines) == _SAMPLE_LINES and len(records) > 1:
        records.pop()  # the sample may end within this record
    return records


def has_quoted_cells(path: str | pathlib.Path, encoding: str = "utf-8") -> bool:
    """Returns whether a tab-separated file quotes cells, as pandas and spreadsheets do.

    It does if it can be read with quotes, with equally many cells in each record, and needs them: a
    cell holds a quote mark, a tab or a line break, or all column names are quoted.
    """
    records = csv.reader(_decoded_lines(path, encoding), strict=True, delimiter="\t")
    header: list[str] = []
    must_be = False
    try:
        for cells in filter(None, records):
            header = header or cells
            if len(cells) != len(header):
                return False
            must_be |= any(not _QUOTED.isdisjoint(cell) for cell in cells)
    except csv.Error:
        return False
    if must_be:  # true also for quote marks inside cells, which are text with or without quoting
        lines = _decoded_lines(path, encoding)
        starts = (cell[:1] for line in lines for cell in line.split("\t"))
        return '"' in starts
    first = next(filter(str.strip, _decoded_lines(path, encoding)), "")
    return len(header) > 1 and all(cell[:1] == '"' for cell in first.split("\t"))


def has_quoted_labels(path: str | pathlib.Path, encoding: str = "utf-8") -> bool:
    """Returns whether the first two lines begin with a quote mark.

    If the first column has numbers and no name, R wrote the file, which counts rows from 1.
    """
    lines = itertools.islice(filter(str.strip, _decoded_lines(path, encoding)), 2)
    return all(line.startswith('"') for line in lines)


def _decoded_lines(path: str | pathlib.Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yields lines; bytes that are not UTF-8 become surrogates, which `_check_record` detects.

    A first line that states the separator is yielded as blank, to keep the line numbers.
    """
    lines = (line.decode("utf-8", "surrogateescape") for line in read_lines(path, encoding))
    if (first := next(lines, None)) is not None:
        yield "\n" if _SEPARATOR_LINE.fullmatch(first) else first
        yield from lines


def _quoted_records(
    path: str | pathlib.Path, delimiter: str, remedy: str, encoding: str
) -> Iterator[_Record]:
    reader = csv.reader(_decoded_lines(path, encoding), strict=True, delimiter=delimiter)
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            problem, end = str(error), reader.line_num
            if "unexpected end of data" in problem:
                raise InputError(
                    f"{path}:{start}: a quote that is opened here is never closed."
                ) from None
            if "new-line character" in problem:  # csv's own message is for programmers
                problem = "a carriage return outside quotes"
            where = "" if start == end else f" in the lines up to {end}, read as one record"
            yield start, f"not valid CSV{where}: {problem}; {remedy}."
            continue
        if cells is None:
            return
        if cells:
            yield start, cells


def _is_blank(numbered: _Record) -> bool:
    """Returns whether a record has only separators; a single empty cell may be an answer."""
    _, record = numbered
    return isinstance(record, list) and len(record) > 1 and not any(record)


def _check_record(record: list[str] | str, place: str) -> list[str]:
    """Returns the cells of a record; raises InputError if it is faulty or not UTF-8."""
    if isinstance(record, str):
        raise InputError(f"{place}: {record}")
    for number, cell in enumerate(record, start=1):
        try:
            cell.encode("utf-8")
        except UnicodeEncodeError as error:
            byte = ord(cell[error.start]) & 0xFF
            raise InputError(
                f"{place}: column {number}: expected UTF-8, got byte 0x{byte:02x}; save the file "
                "as UTF-8."
            ) from None
    return record


def _check_header(header: list[str], place: str, delimiter: str, columns: Sequence[str]) -> None:
    likely = max((mark for mark in (*DELIMITERS, "|") if mark != delimiter), key=header[0].count)
    if len(header) == 1 and likely in header[0]:
        name = DELIMITERS.get(delimiter, delimiter)
        by = "a tab" if likely == "\t" else f'"{likely}"'
        ending = f", or name it by --separator='{likely}' (score) or a first line sep={likely}"
        if likely in _ENDINGS:
            ending = f", or let its name end in {_ENDINGS[likely]}"
        raise InputError(
            f"{place}: the file seems to be separated by {by} ({_join_names(header)}); save it "
            f"with a {name} between its cells{ending}."
        )
    for column in columns:
        if column not in header:
            raise InputError(
                f"{place}: column '{column}' is missing.{did_you_mean(column, header)} "
                f"The columns are: {_join_names(header)}."
            )
    check_columns(header, place)


def _join_names(names: Iterable[str]) -> str:
    """Returns names in one line; names with line breaks and the like are quoted."""
    return ", ".join(name if name.isprintable() else repr(name) for name in names)
