"""Reads tables of any form as rows: JSON, CSV, TSV, Parquet and Arrow, in files and folders.

What a form leaves open is found out, used, and noted: the separator and the encoding of a text
file, whether JSON comes in lines, as one array or by column, what stands for pandas' index, and
which files of a folder are its parts.
"""

import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from faith_jax.core.errors import InputError, format_value, pluralize, reason
from faith_jax.core.files import stamp
from faith_jax.core.files.stores import check_readable, is_remote, open_binary, storage_errors
from faith_jax.core.files.unpacking import PACKED_ENDINGS
from faith_jax.core.rows import (
    JSON_ERRORS,
    UTF_16_MARKS,
    BadRows,
    Row,
    check_columns,
    json_value,
    open_text,
    read_jsonl,
    read_lines,
    read_value,
)
from faith_jax.core.schema import read_json_as
from faith_jax.core.table import printable
from faith_jax.datasets.delimited import (
    decimal_comma_columns,
    find_separator,
    has_quoted_cells,
    read_csv,
    read_tsv,
    stated_separator,
)
from faith_jax.datasets.json_items import read_array
from faith_jax.datasets.list_cells import NO_TEXTS
from faith_jax.datasets.pandas_json import WHOLE_FLOAT, free_name, rows_by_column
from faith_jax.datasets.usual_names import TEXTS_OR_OBJECTS, json_object, usual_name

FORMATS = {
    **{".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv"},
    **{".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"},
}
_TEXT_FORMS = ("jsonl", "json", "csv", "tsv")
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_NAMES = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
_PANDAS_NA = ("NAType", "NaTType")
_ROWS = 1024  # of an Arrow batch
# What Arrow raises where Python has no value: a far date, an unknown time zone, no pandas.
_UNREADABLE = (ValueError, OverflowError, ImportError, LookupError, NotImplementedError)
_BEYOND = "<value out of range"  # as Arrow writes a time that is no date
_PIECE_BYTES = 1 << 16
_UTF_32_MARKS = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
# What bytes of cp1252 are not: a character of UTF-8, and control characters of binary files.
_UTF_8_CHARACTER = re.compile(rb"[\xc2-\xf4][\x80-\xbf]")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
# Files of the output of `infer`.
PREDICTIONS, SUMMARY = "predictions.jsonl", "summary.json"
# Files of `datasets.save_to_disk`.
_STATE, _SPLITS = "state.json", "dataset_dict.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableForm:
    """How a table is written, as a user says; "" = found out.

    Attributes:
      form: a value of `FORMATS`.
      separator: between the cells of CSV and TSV.
      encoding: of a text file, as Python names it.
    """

    form: str = ""
    separator: str = ""
    encoding: str = ""


class _SavedSplits(msgspec.Struct):
    splits: list[str]


class _Split(msgspec.Struct):
    name: str


class _DataSetInfo(msgspec.Struct):
    splits: list[_Split]


class _SavedFile(msgspec.Struct):
    filename: str


class _SavedState(msgspec.Struct):
    data_files: list[_SavedFile] = msgspec.field(name="_data_files")


def read_rows(
    path: pathlib.Path,
    form: TableForm | str = "",
    bad_rows: BadRows | None = None,
    first: int = 0,
    note: Callable[[str], None] = lambda _: None,
    id_column_of: Callable[[tuple[str, ...]], str] = lambda _: "",
) -> Iterator[Row]:
    """Yields the rows of a file, or of all files of a folder in the order of their names.

    Args:
      path: the file or folder.
      form: how it is written, or a value of `FORMATS`.
      bad_rows: what to do with bad rows; by default reading stops.
      first: the row to begin with, from 0.
      note: is called with a sentence on what was found out.
      id_column_of: returns which of some columns has the ids ("" = none). Where all ids of a CSV or
        TSV file are such as 1.0, they are read as 1: pandas writes floats where one is missing.

    Raises:
      InputError: an unknown ending, a folder without files of one form, and what the format's
        reader raises.
    """
    form = TableForm(form=form) if isinstance(form, str) else form
    files = table_files(path)
    if files == [path]:
        return _read_file(path, file_form(path, form), bad_rows, first, note, id_column_of)
    forms = {file: file_form(file, form) for file in files}
    firsts = {part.form: file.name for file, part in reversed(forms.items())}
    if len(firsts) > 1:
        raise InputError(
            f"{path}: expected parts of one form, got {' and '.join(sorted(firsts.values())[:2])}; "
            "give one of them, or a folder for each form."
        )
    if len(files) == 1:
        note(f"{path}: read from {files[0].name}")
    else:
        note(f"{path}: {pluralize(len(files), 'part')} from {files[0].name} to {files[-1].name}")
    return _read_parts(path, forms, bad_rows, first, note, id_column_of)


def table_files(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of a table: the path itself, or the parts in a folder.

    Hidden files and those that begin with "_", as Spark writes them, are no parts. Of a folder that
    `datasets.save_to_disk` has written, they are the files that it names, and of the output of
    `infer` its predictions.jsonl.

    Raises:
      InputError: the file is missing, the folder has no parts or several splits, or its responses
        are in TFDS's form alone.
    """
    if not path.is_dir():
        check_readable(path)
        return [path]
    if (path / PREDICTIONS).is_file() and any(path.rglob(SUMMARY)):
        return [path / PREDICTIONS]
    if (path / _SPLITS).is_file():
        splits = read_json_as(path / _SPLITS, _SavedSplits, InputError).splits
        if len(splits) != 1:
            named = ", ".join(str(path / split) for split in splits)
            raise InputError(f"{path}: holds {pluralize(len(splits), 'split')}; give one: {named}.")
        path = path / splits[0]
    if (path / _STATE).is_file():
        state = read_json_as(path / _STATE, _SavedState, InputError)
        return [path / file.filename for file in state.data_files]
    for folder in (path, path / "tfds"):
        if all((folder / name).is_file() for name in ("features.json", "dataset_info.json")):
            info = read_json_as(folder / "dataset_info.json", _DataSetInfo, InputError)
            options = " or ".join(f"--split={split.name}" for split in info.splits)
            raise InputError(
                f"{path}: a TFDS data set; score and evidence read it with --tfds={folder} "
                f"{options} in place of --input."
            )
    inner = ((file, file.relative_to(path).parts) for file in path.rglob("*"))
    parts = (file for file, names in inner if not any(name[0] in "._" for name in names))
    # Spark writes parts without any byte, too.
    files = sorted((file for file in parts if file.is_file() and file.stat().st_size), key=str)
    if not files:
        raise InputError(f"{path}: the folder has no files to read.")
    return files


def named_form(path: pathlib.Path) -> str:
    """Returns the value of `FORMATS` that the name of a file says, packed or not; "" = none."""
    packed = path.suffix in PACKED_ENDINGS
    return FORMATS.get((path.with_suffix("") if packed else path).suffix.lower(), "")


def file_form(path: pathlib.Path, stated: TableForm) -> TableForm:
    """Returns the form of a file by what the user says or its ending.

    Raises:
      InputError: neither says one, or a Parquet file is said to be another.
    """
    form = stated.form or named_form(path)
    if form != "parquet":
        try:
            with open_binary(path) as file:
                begin = file.read(4)
        except storage_errors():
            begin = b""  # the format's reader says why
        if begin == b"PAR1":
            raise InputError(
                f"{path}: a Parquet file by what it holds; let its name end in .parquet."
            )
    if not form:
        endings = ", ".join(FORMATS)
        raise InputError(
            f"{path}: the ending says no format ({endings}); say it with --input-format."
        )
    return dataclasses.replace(stated, form=form)


def _read_parts(
    path: pathlib.Path,
    forms: Mapping[pathlib.Path, TableForm],
    bad_rows: BadRows | None,
    first: int,
    note: Callable[[str], None],
    id_column_of: Callable[[tuple[str, ...]], str],
) -> Iterator[Row]:
    for file, form in forms.items():
        if first:
            count = _count_rows(file, form, *_read_stamp(file))
            if count <= first:
                first -= count
                continue
        # Folders of Spark's partitions are named COLUMN=VALUE.
        folders = file.relative_to(path).parts[:-1]
        columns = dict(name.split("=", 1) for name in folders if "=" in name)
        for place, fields in _read_file(file, form, bad_rows, first, note, id_column_of):
            yield Row(place, {**columns, **fields} if columns else fields)
        first = 0


@functools.lru_cache(maxsize=4096)
def _count_rows(path: pathlib.Path, form: TableForm, *_: str) -> int:
    """Returns the rows of a part, bad ones too."""
    bad_rows = BadRows(skip=True)
    good = sum(1 for _ in _read_file(path, form, bad_rows, 0, lambda _: None, lambda _: ""))
    return good + bad_rows.count


def _read_file(
    path: pathlib.Path,
    table: TableForm,
    bad_rows: BadRows | None,
    first: int,
    note: Callable[[str], None],
    id_column_of: Callable[[tuple[str, ...]], str],
) -> Iterator[Row]:
    if table.form == "parquet":
        return _read_parquet(path, first)
    if table.form == "arrow":
        return _read_arrow(path, first)
    encoding = table.encoding or _find_encoding(path)
    if encoding != "utf-8" and not table.encoding:
        note(f"{path}: read as {encoding}; --encoding names another")
    if table.form in ("json", "jsonl"):
        return _read_json(path, table.form, bad_rows, first, encoding, note)
    usual, state = _SEPARATORS[table.form], _read_stamp(path)
    separator, is_stated = table.separator, False
    if not separator:
        separator, is_stated = _find_separator(path, usual, encoding, *state)
        if is_stated or separator != usual:
            name = _NAMES.get(separator, repr(separator))
            why = ", as its first line says" if is_stated else ""
            note(f"{path}: read with {name} between its cells{why}; --separator names another")
    read = _cell_reader(path, table.form, separator, encoding, *state)
    return _name_columns(path, read, bad_rows, first, note, id_column_of)


@functools.lru_cache(maxsize=4096)
def _cell_reader(
    path: pathlib.Path, form: str, separator: str, encoding: str, *_: str
) -> Callable[..., Iterator[Row]]:
    """Returns what yields the rows of a CSV or TSV file; it takes `bad_rows` and `first`."""
    if separator == "\t" and form == "tsv" and not has_quoted_cells(path, encoding):
        return functools.partial(read_tsv, path, (), encoding=encoding)
    return functools.partial(read_csv, path, (), delimiter=separator, encoding=encoding)


def _name_columns(
    path: pathlib.Path,
    read: Callable[..., Iterator[Row]],
    bad_rows: BadRows | None,
    first: int,
    note: Callable[[str], None],
    id_column_of: Callable[[tuple[str, ...]], str],
) -> Iterator[Row]:
    """Yields the rows of CSV or TSV with a name for each column, and whole numbers as ids.

    pandas gives its index no name.
    """
    columns = names = tuple[str, ...]()
    for place, fields in read(bad_rows=bad_rows, first=first):
        if not names:
            columns = tuple(fields)
            names = tuple(
                name or free_name(columns, f"Unnamed: {number}" if number else "index")
                for number, name in enumerate(columns)
            )
            id_column = id_column_of(names)
            are_floats = id_column in names and _are_whole_floats(
                read, columns[names.index(id_column)], *_read_stamp(path)
            )
            for name in names:
                if name not in fields:
                    note(f"{path}: the column without a name is read as {name!r}")
            if are_floats:
                note(f"{path}: {id_column}: ids such as 1.0 are read as 1")
        if names != columns:
            fields = dict(zip(names, fields.values(), strict=True))
        if are_floats:
            fields = {**fields, id_column: fields[id_column][:-2]}
        yield Row(place, fields)


@functools.lru_cache(maxsize=4096)
def _are_whole_floats(read: Callable[..., Iterator[Row]], column: str, *_: str) -> bool:
    """Returns whether all cells of a column are such as 1.0 (or 1,0), but for empty ones."""
    cells = (row.fields[column] for row in read(bad_rows=BadRows(skip=True)))
    filled = filter(str.strip, cells)
    first = next(filled, "")
    return all(map(WHOLE_FLOAT.fullmatch, itertools.chain([first], filled)))


def _read_stamp(path: pathlib.Path) -> tuple[str, ...]:
    """Returns the stamp of a file, which changes with it; empty for one that is not there."""
    with contextlib.suppress(InputError, *storage_errors()):
        return tuple(map(str, stamp([path])[0]))
    return ()  # the format's reader says what is wrong


def decimal_commas(path: pathlib.Path, form: TableForm | str) -> frozenset[str]:
    """Returns the columns of a CSV or TSV file whose numbers have decimal commas."""
    form = TableForm(form=form) if isinstance(form, str) else form
    file = table_files(path)[0]
    form = file_form(file, form)
    state = _read_stamp(file)
    if form.form not in _SEPARATORS or not state:
        return frozenset()
    encoding = form.encoding or _find_encoding(file)
    usual = _SEPARATORS[form.form]
    separator = form.separator or _find_separator(file, usual, encoding, *state)[0]
    return frozenset() if separator == "," else _decimal_commas(file, separator, encoding, *state)


@functools.lru_cache(maxsize=64)
def _decimal_commas(path: pathlib.Path, separator: str, encoding: str, *_: str) -> frozenset[str]:
    return decimal_comma_columns(path, separator, encoding)


@functools.lru_cache(maxsize=64)
def _find_separator(path: pathlib.Path, usual: str, encoding: str, *_: str) -> tuple[str, bool]:
    """Returns the separator, and whether the file states it."""
    stated = stated_separator(path, encoding)
    return stated or find_separator(path, usual, encoding), bool(stated)


def _find_encoding(path: pathlib.Path) -> str:
    """Returns the encoding of a text file: UTF-8, UTF-16 or UTF-32 by its mark, or else cp1252.

    A file with characters of UTF-8 or of binary files is UTF-8, and its other bytes are errors.
    """
    state = _read_stamp(path)
    return _encoding_of(path, *state) if state else "utf-8"


@functools.lru_cache(maxsize=4096)
def _encoding_of(path: pathlib.Path, *_: str) -> str:
    with open_text(path, "") as file:
        begin = file.read(4)
        if begin in _UTF_32_MARKS:
            return "utf-32"
        if begin.startswith(UTF_16_MARKS):
            return "utf-16"
        file.seek(0)
        pieces = iter(functools.partial(file.read, _PIECE_BYTES), b"")
        if is_remote(path):  # else all of it would be fetched twice
            pieces = itertools.islice(pieces, 1)
        last, encoding = b"", "utf-8"
        for piece in pieces:
            if not piece.isascii():
                if _CONTROL.search(piece) or _UTF_8_CHARACTER.search(last + piece):
                    return "utf-8"
                try:
                    piece.decode("cp1252")
                except UnicodeDecodeError:
                    return "utf-8"
                encoding = "cp1252"
            last = piece[-1:]
    return encoding


def _read_json(
    path: pathlib.Path,
    form: str,
    bad_rows: BadRows | None,
    first: int,
    encoding: str,
    note: Callable[[str], None],
) -> Iterator[Row]:
    """Yields the rows of JSON in lines, in an array, or in an object by column or by row."""
    if form == "json":
        with open_text(path, encoding) as file:  # not a line, which may be large
            pieces = iter(functools.partial(file.read, _PIECE_BYTES), b"")
            begin = next(filter(None, map(bytes.lstrip, pieces)), b"")[:1]
        if begin == b"[":
            return read_array(path, "", bad_rows, first, encoding)
    lines = itertools.islice(filter(bytes.strip, read_lines(path, encoding)), 2)
    line, *further_lines = [*lines, b""]
    mark, is_one_value = line.lstrip()[:1], not any(further_lines)
    if mark == b"[" and (is_one_value or _parse_json_line(line) is None):
        note(f"{path}: one JSON array, no lines")
        return read_array(path, "", bad_rows, first, encoding)
    value = _parse_json_line(line)
    if (
        value is None
        and form == "json"
        and mark == b"{"
        and _parse_json_line(further_lines[0]) is None
    ):
        value = read_value(path, encoding)  # on several lines
        is_one_value = True
    if form == "json" and is_one_value and isinstance(value, dict):
        if key := _array_in(value):
            note(f"{path}: the array {key!r} of an object")
            return read_array(path, key, bad_rows, first, encoding)
        if (rows := rows_by_column(value, path, note)) is not None:
            note(f"{path}: one JSON object by column or row, not lines")
            return itertools.islice(rows, first, None)
    return read_jsonl(path, bad_rows, first, encoding=encoding)


def _parse_json_line(line: bytes) -> Any:
    try:
        return json_value(line.decode("utf-8"))
    except JSON_ERRORS:
        return None


def _array_in(value: Mapping[str, Any]) -> str:
    """Returns the key of the only array of objects in an object that is no row itself."""
    with contextlib.suppress(InputError):
        if not usual_name("response", value):
            keys = [
                key
                for key, cells in value.items()
                if isinstance(cells, list) and cells and all(isinstance(c, dict) for c in cells)
            ]
            is_plain = len(keys) == 1 and "." not in keys[0]
            return keys[0] if is_plain and "schema" not in value else ""
    return ""


def _read_parquet(path: pathlib.Path, first: int) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        source = open_binary(path) if is_remote(path) else path
        with parquet.ParquetFile(source) as file:
            number, groups = 0, list(range(file.metadata.num_row_groups))
            while groups and number + file.metadata.row_group(groups[0]).num_rows <= first:
                number += file.metadata.row_group(groups.pop(0)).num_rows
            batches = file.iter_batches(batch_size=_ROWS, row_groups=groups)
            yield from _rows_of(path, batches, number, first)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except (OSError, pyarrow.ArrowException) as error:
        problem = str(error).split("\n")[0]
        raise InputError(f"{path}: not a whole Parquet file ({problem}).") from None


def _read_arrow(path: pathlib.Path, first: int) -> Iterator[Row]:
    """Yields the rows of an Arrow file, or of an Arrow stream, as `datasets` writes it."""
    import pyarrow

    try:
        with open_binary(path) as file:
            if file.read(6) == b"ARROW1":
                batch_reader = pyarrow.ipc.open_file(file)
                numbers = range(batch_reader.num_record_batches)
                batches: Iterator[Any] = map(batch_reader.get_batch, numbers)
            else:
                file.seek(0)
                batches = iter(pyarrow.ipc.open_stream(file))
            yield from _rows_of(path, batches, 0, first)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except (OSError, pyarrow.ArrowException) as error:
        problem = str(error).split("\n")[0]
        raise InputError(f"{path}: not a whole Arrow file ({problem}).") from None


def _rows_of(path: pathlib.Path, batches: Iterator[Any], number: int, first: int) -> Iterator[Row]:
    """Yields the rows of Arrow batches from row `first` on; `number` are before the batches."""
    for batch in batches:
        check_columns(batch.schema.names, path)
        wanted = batch.slice(min(batch.num_rows, max(0, first - number)))
        number += batch.num_rows - wanted.num_rows
        for start in range(0, wanted.num_rows, _ROWS):
            for fields in _python_rows(path, wanted.slice(start, _ROWS)):
                number += 1
                yield Row(f"{path}:{number}", fields)


def _python_rows(path: pathlib.Path, batch: Any) -> list[dict[str, Any]]:
    """Returns the rows of an Arrow batch; times that Python's types cannot hold are texts.

    Raises:
      InputError: a column holds texts that are not UTF-8, or what neither Python nor a text holds.
    """
    import pyarrow

    try:
        return batch.to_pylist()
    except _UNREADABLE:  # tell no column
        pass
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns.append(column.to_pylist())
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}: column {name!r}: holds text that is not UTF-8 ({reason(error)})."
            ) from None
        except _UNREADABLE as error:
            texts: list[Any] = [_BEYOND]
            with contextlib.suppress(pyarrow.ArrowException):  # of nanoseconds
                texts = column.cast(pyarrow.string()).to_pylist()
            if any(text is not None and text.startswith(_BEYOND) for text in texts):
                raise InputError(
                    f"{path}: column {name!r}: a {column.type} cannot be read ({reason(error)}); "
                    "convert or drop it."
                ) from None
            columns.append(texts)
    rows = zip(*columns, strict=True)
    return [dict(zip(batch.schema.names, row, strict=True)) for row in rows]


def frame_rows(frame: Any, name: str = "frame") -> list[Row]:
    """Returns the rows of a table in memory, with lists in the place of arrays.

    Args:
      frame: a pandas or Polars DataFrame, a `datasets` data set, an Arrow table, a list of
        mappings, or a mapping of columns.
      name: of the frame, for errors.

    Raises:
      InputError: two columns of one name.
      TypeError: for another kind.
      ValueError: columns of different lengths.
    """
    columns: Mapping[str, Sequence[Any]] | None = None
    if hasattr(frame, "to_pylist"):  # Arrow
        check_columns(getattr(frame, "column_names", ()), name)
        records = frame.to_pylist()
    elif hasattr(frame, "to_dicts"):  # Polars
        records = frame.to_dicts()
    elif hasattr(frame, "columns") and hasattr(frame, "iloc"):  # pandas
        check_columns(list(map(str, frame.columns)), name)
        columns = {str(column): frame[column].tolist() for column in frame.columns}
    elif isinstance(frame, Mapping):
        columns = frame
    elif isinstance(frame, str | bytes):
        raise TypeError(f"{name}: expected a table, got {format_value(frame)}.")
    else:
        records = list(frame)
    if columns is not None:
        cells = zip(*columns.values(), strict=True)
        records = [dict(zip(columns, row, strict=True)) for row in cells]
    rows = []
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise TypeError(
                f"{name}[{number}]: expected a row with columns, got {format_value(record)}."
            )
        rows.append(Row(f"{name}[{number}]", {n: _plain_value(v) for n, v in record.items()}))
    return rows


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or pandas' NA, which stand in tables where there is none."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in _PANDAS_NA


def _plain_value(value: Any) -> Any:
    """Returns a value with Python's own types, also in lists and mappings, and None for NA.

    NumPy's arrays become lists, and documents of LangChain and LlamaIndex mappings.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain_value(item) for name, item in value.items()}
    if isinstance(text := getattr(value, "page_content", None), str):
        return {"page_content": text}
    if isinstance(text := getattr(getattr(value, "node", None), "text", None), str):
        return {"node": {"text": text}}
    return None if type(value).__name__ in _PANDAS_NA else value


class TableNotes:
    """Collects what is found out about a table as its rows are read.

    Attributes:
      sentences: on the files' forms and columns, in the order of their reading.
      columns: of the first row by the part of an example that they hold; "" = none.
    """

    def __init__(self) -> None:
        self.sentences: dict[str, None] = {}
        self._warnings: dict[str, None] = {}
        self.columns: dict[str, str] = {}
        self._lists: dict[str, list[int]] = {}
        self._nulls: collections.Counter[str] = collections.Counter()
        self._no_answers: collections.Counter[str] = collections.Counter()
        self._objects = 0
        self._no_groundings: dict[str, collections.Counter[str]] = {}
        self._rows = 0
        self._column = ""

    def add(self, sentence: str) -> None:
        """Adds a sentence, once."""
        self.sentences.setdefault(sentence)

    def warn(self, sentence: str) -> None:
        """Adds a warning, once."""
        self._warnings.setdefault(sentence)

    def count_list(self, column: str, texts: int) -> None:
        """Counts a list that a cell of a column holds as a text."""
        cells, least, most = self._lists.get(column, (0, texts, texts))
        self._lists[column] = [cells + 1, min(least, texts), max(most, texts)]

    def count_nulls(self, column: str, count: int) -> None:
        """Counts the nulls in a list of texts, which are left out."""
        self._nulls[column] += count

    def count_answer(self, column: str, value: Any, text: str) -> None:
        """Counts an answer, and whether it is missing, empty, or says that there is none."""
        self._column = column
        self._rows += 1
        if value is None:
            self._no_answers["missing"] += 1
        elif not text:
            self._no_answers["empty"] += 1
        elif text.lower() in NO_TEXTS:
            self._no_answers[repr(text)] += 1
        elif json_object(text) is not None:
            self._objects += 1

    def count_grounding(self, column: str, texts: Sequence[str]) -> None:
        """Counts a grounding whose only text says that there is none."""
        if len(texts) == 1 and texts[0].lower() in NO_TEXTS:
            self._no_groundings.setdefault(column, collections.Counter())[repr(texts[0])] += 1

    def report(self) -> dict[str, Any]:
        """Returns the notes on a table as JSON: `lines`, `warnings`, and the `columns` by part."""
        lines = list(self.sentences)
        if columns := [f"{part} from {name}" for part, name in self.columns.items() if name]:
            lines.append(f"columns: {', '.join(columns)}")
        for column, (cells, least, most) in self._lists.items():
            texts = str(most) if least == most else f"{least} to {most}"
            noun = "text" if texts == "1" else "texts"
            lines.append(f"{column}: {pluralize(cells, 'list')} of {texts} {noun}")
        if self._no_answers:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self._no_answers.items())
            lines.append(f"{self._column}: {pluralize(self._rows, 'answer')}, of which {kinds}")
        warnings = list(self._warnings)
        warnings += [
            f"{column}: {pluralize(count, 'null')} in lists of texts left out."
            for column, count in self._nulls.items()
        ]
        for column, kinds_count in self._no_groundings.items():
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in kinds_count.items())
            warnings.append(
                f"{column}: {kinds} scored as the text of a grounding; leave the cell empty where "
                "there is none."
            )
        if answers := [kind for kind in self._no_answers if kind not in ("missing", "empty")]:
            warnings.append(
                f"{self._column}: {', '.join(answers)} is scored as the text of an answer; leave "
                "the cell empty where there is none."
            )
        if self._objects:
            is_flattened = self._column in TEXTS_OR_OBJECTS
            remedy = (
                f"--response-column={self._column}.KEY takes what a key has"
                if is_flattened
                else "write the answer alone"
            )
            warnings.append(
                f"{self._column}: {pluralize(self._objects, 'JSON object')} scored as the text of "
                f"an answer, with braces and keys; {remedy}."
            )
        return {
            "lines": [*map(printable, lines)],
            "warnings": [*map(printable, warnings)],
            "columns": self.columns,
        }
