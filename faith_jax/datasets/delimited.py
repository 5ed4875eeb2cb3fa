"""Reads CSV and TSV files whose first line names the columns.

The caller states the format: research data sets disagree on whether a quote mark in a TSV file
quotes. A byte order mark, blank lines, also of separators alone as spreadsheets write them, and
Windows line ends are accepted, and so is a first line `sep=;`, which tells Excel the separator.
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

# A cell of csv's is at most 128 KiB by default; documents are longer.
csv.field_size_limit(min(sys.maxsize, 2**31 - 1))

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_ENDINGS = {",": ".csv", "\t": ".tsv"}
_SAMPLE_LINES = 1000
_MOST_RECORDS = 0.9
_QUOTED = frozenset('"\t\n\r')  # what a cell without quotes cannot hold
_NUMBER = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")
_SEPARATOR_LINE = re.compile(r'"?sep=([^\w\s"]|\t)"?\1*[ \r\n]*', re.IGNORECASE)

# The first line of a record, and its cells or what is wrong with it.
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
      columns: those that must be there.
      bad_rows: what to do with a row that has too few or too many cells, wrong quotes, or bytes
        that are not UTF-8; by default reading stops.
      delimiter: "," or, as spreadsheet programs of many languages write it, ";" or a tab.
      first: the row to begin with, from 0; those before it, bad ones too, are not looked at.
      encoding: of the file.
      nameless: is filled with the names that columns without one get: "index" the first column, as
        which pandas writes its index, and "Unnamed: 2" or the like any other; None = they get none.
      has_quotes: False = a quote mark is text, and each line a row.

    Raises:
      InputError: the file is missing, empty or without one of the columns, has a quote that is
        never closed, or a bad row.
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

    Else it is `usual`, unless another one fits better. One fits if the first record has several
    cells by it, and nine of ten records at the beginning of the file as many; it fits better if
    these are more.
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
    # The first one of the most cells, of which the usual one is the first of all.
    return max(widths, key=widths.__getitem__, default=usual), False


def decimal_comma_columns(
    path: str | pathlib.Path, separator: str, encoding: str = "utf-8"
) -> frozenset[str]:
    """Returns the columns whose cells are numbers, some of them with a decimal comma.

    The beginning of the file decides; its separator is no comma.
    """
    header, *records = _split_records(_sample_lines(path, encoding), separator) or [[]]
    columns = zip(header, itertools.zip_longest(*records, fillvalue=""), strict=False)
    return frozenset(
        name
        for name, cells in columns
        if any("," in cell for cell in cells) and all(map(_NUMBER.fullmatch, filter(None, cells)))
    )


def _sample_lines(path: str | pathlib.Path, encoding: str) -> list[str]:
    return list(itertools.islice(_decoded_lines(path, encoding), _SAMPLE_LINES))


def _split_records(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Returns the records of a sample of lines, up to one that is not valid CSV."""
    records: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        records.extend(filter(None, csv.reader(lines, delimiter=separator)))
    if len(lines) == _SAMPLE_LINES and len(records) > 1:
        records.pop()  # which the sample may cut
    return records


def has_quoted_cells(path: str | pathlib.Path, encoding: str = "utf-8") -> bool:
    """Returns whether a tab-separated file quotes cells, as pandas and spreadsheets do.

    That is so if all of it is read so, each record with as many cells, and one of the cells in
    quotes has to be: it holds a quote mark, a tab or a line break, or names a column.
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
    if must_be:  # or quote marks stand in the middle of cells, where they are text for both
        lines = _decoded_lines(path, encoding)
        starts = (cell[:1] for line in lines for cell in line.split("\t"))
        return '"' in starts
    first = next(filter(str.strip, _decoded_lines(path, encoding)), "")
    return len(header) > 1 and all(cell[:1] == '"' for cell in first.split("\t"))


def _decoded_lines(path: str | pathlib.Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yields lines; bytes that are not UTF-8 become surrogates, which are found in the cells.

    A first line that states the separator is blank, so that the others keep their numbers.
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
            if "new-line character" in problem:  # csv's own remedy is one for programmers
                problem = "a carriage return outside quotes"
            where = "" if start == end else f" in the lines up to {end}, read as one record"
            yield start, f"not valid CSV{where}: {problem}; {remedy}."
            continue
        if cells is None:
            return
        if cells:
            yield start, cells


def _is_blank(numbered: _Record) -> bool:
    """Whether a record has nothing but separators; a single empty cell may be an answer."""
    _, record = numbered
    return isinstance(record, list) and len(record) > 1 and not any(record)


def _check_record(record: list[str] | str, place: str) -> list[str]:
    """Returns the cells of a record, if it has no error and all of it is UTF-8."""
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
    likely = max((mark for mark in DELIMITERS if mark != delimiter), key=header[0].count)
    if len(header) == 1 and likely in header[0]:
        name = DELIMITERS.get(delimiter, delimiter)
        by = "a tab" if likely == "\t" else f'"{likely}"'
        ending = f", or let its name end in {_ENDINGS[likely]}" if likely in _ENDINGS else ""
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
    """Returns names in one line, those with line breaks and the like in quotes."""
    return ", ".join(name if name.isprintable() else repr(name) for name in names)
