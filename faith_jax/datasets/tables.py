"""Reads tables of any form as rows: JSON, CSV, TSV, Parquet and Arrow, in files and folders.

Details that a form leaves open are detected and noted: the separator and the encoding of a text
file, whether JSON comes in lines, as one array or by column, which column is pandas' index, and
which files of a folder are its parts.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, TypeVar, cast

import msgspec

from faith_jax.core.errors import InputError, format_value, pluralize, reason
from faith_jax.core.files import stamp
from faith_jax.core.files.stores import check_readable, is_remote, open_binary, storage_errors
from faith_jax.core.files.unpacking import PACKED_ENDINGS
from faith_jax.core.rows import UTF_16_MARKS, BadRows, Row, check_columns, open_text
from faith_jax.core.schema import read_json_as
from faith_jax.datasets.delimited import (
    DELIMITERS,
    decimal_comma_columns,
    find_separator,
    has_quoted_cells,
    has_quoted_labels,
    read_csv,
)
from faith_jax.datasets.index_labels import WHOLE_FLOAT, IndexIds, find_index_ids
from faith_jax.datasets.json_tables import read_json_table
from faith_jax.datasets.usual_names import has_usual_name

FORMATS = {
    **{".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv"},
    **{".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"},
}
_WORKBOOKS = (".xlsx", ".xls", ".ods")  # of Excel and LibreOffice
# The first bytes of zip, xz, 7z, rar and lz4, and those of ORC, Feather V1 and Avro.
_ARCHIVE = re.compile(rb"PK\x03\x04|\xfd7zXZ|7z\xbc\xaf|Rar!|\x04\x22\x4d\x18")
_OTHER_TABLE = re.compile(rb"ORC.{0,4}[\x00-\x08]|FEA1\x00|Obj\x01", re.DOTALL)
_SEPARATORS = {"csv": ",", "tsv": "\t"}
# The names that pandas gives to an index without one, if it reads CSV and writes Arrow's files.
_PANDAS_FIRST_COLUMN, _PANDAS_INDEX = "Unnamed: 0", "__index_level_0__"
_PANDAS_NA = ("NAType", "NaTType")
_PIECE_BYTES = 1 << 16
_UTF_32_MARKS = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
# Encodings without a byte order mark, by which of the first four bytes of ASCII text are not zero.
_UNMARKED: Mapping[tuple[bool, ...], str] = {
    **{(True, False, True, False): "utf-16-le", (False, True, False, True): "utf-16-be"},
    **{(True, False, False, False): "utf-32-le", (False, False, False, True): "utf-32-be"},
}
# Bytes that rule out cp1252: a character in UTF-8, and control characters of binary files.
_UTF_8_CHARACTER = re.compile(rb"[\xc2-\xf4][\x80-\xbf]")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_ROWS = 1024  # rows of an Arrow batch that are converted at once
# Names that the Hugging Face Hub gives to the parts of splits.
_PART_OF_SPLIT = re.compile(r"(.+)-\d{5}-of-\d{5}\.")
# Arrow raises these if Python has no such value: a far date, an unknown time zone, no pandas.
_UNREADABLE = (ValueError, OverflowError, ImportError, LookupError, NotImplementedError)
_BEYOND = "<value out of range"  # Arrow's text for a time out of range
# Files that `infer` writes.
PREDICTIONS, SUMMARY = "predictions.jsonl", "summary.json"
# Files that `datasets.save_to_disk` writes.
_STATE, _SPLITS = "state.json", "dataset_dict.json"

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableForm:
    """How a table is written, as the user states it; "" = detected.

    Attributes:
      form: a value of `FORMATS`.
      separator: the text between the cells of CSV and TSV.
      encoding: Python's name for the encoding of a text file.
    """

    form: str = ""
    separator: str = ""
    encoding: str = ""


class _SavedFile(msgspec.Struct):
    filename: str


class _SavedFolder(msgspec.Struct):
    """The fields read from state.json, dataset_dict.json and TFDS's dataset_info.json."""

    splits: list[str | dict[str, Any]] = []
    data_files: list[_SavedFile] = msgspec.field(name="_data_files", default_factory=list)


def until_changed(function: Function) -> Function:
    """Caches the result of a function of a file or folder until the files change.

    This pays because each shard of a file is read separately, and calls the function again.
    """

    @functools.lru_cache(maxsize=4096)
    def remember(_: str, *args: Any) -> Any:
        return function(*args)

    @functools.wraps(function)
    def recall(path: pathlib.Path, *args: Any) -> Any:
        state = ""
        with contextlib.suppress(InputError, *storage_errors()):  # reported by the reader
            state = repr(stamp(table_files(path)))
        return remember(state, path, *args)

    return cast(Function, recall)


def read_rows(
    path: pathlib.Path,
    form: TableForm | str = "",
    bad_rows: BadRows | None = None,
    first: int = 0,
    note: Callable[[str], None] = lambda _: None,
    id_column_of: Callable[[tuple[str, ...]], str | None] = lambda _: "",
) -> Iterator[Row]:
    """Yields the rows of a file, or of all files of a folder in the order of their names.

    Args:
      path: the file or folder.
      form: how it is written, or a value of `FORMATS`.
      bad_rows: how bad rows are handled; by default reading stops at the first.
      first: the row to begin with, from 0.
      note: called with a sentence on each detail that was detected.
      id_column_of: returns the one of some columns that has the ids ("" = none; None = the rows'
        numbers are the ids). If all ids of a CSV or TSV file look like 1.0, they are read as 1:
        pandas writes floats if one is missing. A row without an id then gets its line, since its
        number may be the id of another row.

    Raises:
      InputError: a missing file, an unknown ending, a folder without files of one form, or an error
        of the format's reader.
    """
    reader = _Reader(bad_rows, note, id_column_of)
    files = table_files(path)
    forms = {file: file_form(file, form) for file in files}
    if files == [path]:
        return reader.read(path, forms[path], first)
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
    return reader.read_parts(path, forms, first)


def table_files(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of a table: the path itself, or the parts in a folder.

    Hidden files, and files that begin with "_" as Spark writes them, are skipped. The parts of a
    folder written by `datasets.save_to_disk` are the files listed in its state.json; the output of
    `infer` is read from its predictions.jsonl.

    Raises:
      InputError: the folder has no parts, has parts of several splits, or holds a TFDS data set.
    """
    if not path.is_dir():
        return [path]
    if (path / PREDICTIONS).is_file() and any(path.rglob(SUMMARY)):
        return [path / PREDICTIONS]
    if (path / _SPLITS).is_file():
        splits = read_json_as(path / _SPLITS, _SavedFolder, InputError).splits
        folders = [path / str(split) for split in splits]
        if len(folders) != 1:
            names = ", ".join(map(str, folders))
            raise InputError(f"{path}: holds {pluralize(len(splits), 'split')}; give one: {names}.")
        (path,) = folders
    is_saved = (path / _STATE).is_file()
    if is_saved and (files := read_json_as(path / _STATE, _SavedFolder, InputError).data_files):
        return [path / file.filename for file in files]
    for folder in (path, path / "tfds"):
        if all((folder / name).is_file() for name in ("features.json", "dataset_info.json")):
            info = read_json_as(folder / "dataset_info.json", _SavedFolder, InputError)
            tfds_splits = (split for split in info.splits if isinstance(split, dict))
            options = " or ".join(f"--split={split['name']}" for split in tfds_splits)
            raise InputError(
                f"{path}: a TFDS data set; score and evidence read it with --tfds={folder} "
                f"{options} in place of --input."
            )
    inner = ((file, file.relative_to(path).parts) for file in path.rglob("*"))
    parts = (file for file, names in inner if not any(name[0] in "._" for name in names))
    # Spark also writes empty parts.
    nonempty = sorted((file for file in parts if file.is_file() and file.stat().st_size), key=str)
    if not nonempty:
        raise InputError(f"{path}: the folder has no files to read.")
    of_splits = {part[1]: file for file in nonempty if (part := _PART_OF_SPLIT.match(file.name))}
    if len(of_splits) > 1:
        raise InputError(
            f"{path}: holds parts of {', '.join(of_splits)}, which are not one table; give the "
            f"files of one, such as {of_splits[min(of_splits)]}."
        )
    return nonempty


def named_form(path: pathlib.Path) -> str:
    """Returns the value of `FORMATS` for the name of a file, compressed or not; "" = unknown."""
    packed = path.suffix in PACKED_ENDINGS
    return FORMATS.get((path.with_suffix("") if packed else path).suffix.lower(), "")


def file_form(path: pathlib.Path, stated: TableForm | str) -> TableForm:
    """Returns the form of a file, as the user states it or by the file's ending.

    Raises:
      InputError: the file is missing or a pipe, its form is unknown or not read, or it is a Parquet
        file that its ending or the user declares to be of another form.
    """
    check_readable(path)
    stated = TableForm(form=stated) if isinstance(stated, str) else stated
    form = stated.form or named_form(path)
    begin = b""  # if it cannot be read, the format's reader reports it
    with contextlib.suppress(*storage_errors()), open_binary(path) as file:
        begin = file.read(8)
    if begin.startswith(b"PAR1") and form != "parquet":
        raise InputError(f"{path}: a Parquet file by what it holds; let its name end in .parquet.")
    is_archive = _ARCHIVE.match(begin) is not None
    if path.suffix.lower() in _WORKBOOKS and (is_archive or not form):
        raise InputError(f"{path}: workbooks of spreadsheets are not read; save it as CSV.")
    if is_archive or (not form and {".tar", ".tgz"}.intersection(path.suffixes)):
        raise InputError(f"{path}: an archive, which is not read; unpack it first.")
    if _OTHER_TABLE.match(begin):
        raise InputError(
            f"{path}: ORC, Avro and Feather V1 are not read; write it as Parquet, CSV or JSONL."
        )
    if not form:
        endings = ", ".join(FORMATS)
        raise InputError(
            f"{path}: the ending says no format ({endings}); say it with --input-format."
        )
    return dataclasses.replace(stated, form=form)


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reads the files of a table; most attributes are arguments of `read_rows`."""

    bad_rows: BadRows | None
    note: Callable[[str], None] = lambda _: None
    id_column_of: Callable[[tuple[str, ...]], str | None] = lambda _: ""
    part: str = ""  # prefix of line numbers used as ids, which would recur in other parts
    is_part: bool = False

    def read_parts(
        self, folder: pathlib.Path, forms: Mapping[pathlib.Path, TableForm], first: int
    ) -> Iterator[Row]:
        for number, (file, form) in enumerate(forms.items()):
            if first:
                count = _count_rows(file, form)
                if count <= first:
                    first -= count
                    continue
            # Folders of Spark's partitions are named COLUMN=VALUE.
            folders = file.relative_to(folder).parts[:-1]
            columns = dict(name.split("=", 1) for name in folders if "=" in name)
            part = f"{file.relative_to(folder)} " if number else ""
            for place, fields in dataclasses.replace(self, part=part, is_part=len(forms) > 1).read(
                file, form, first
            ):
                yield Row(place, {**columns, **fields} if columns else fields)
            first = 0

    def read(self, path: pathlib.Path, form: TableForm, first: int) -> Iterator[Row]:
        if form.form in ("parquet", "arrow"):
            return self._read_arrow(path, form.form, first)
        text_form = _find_text_form(path, form)
        for sentence in text_form.notes:
            self.note(sentence)
        if form.form in _SEPARATORS:
            return self._read_cells(path, text_form, first)
        may_be_one_value, encoding = form.form == "json", text_form.encoding
        return read_json_table(
            path, may_be_one_value, self.note, self.bad_rows, first, encoding, self._choose_ids
        )

    def _choose_ids(self, ids: IndexIds | None, fields: Iterable[str]) -> IndexIds | None:
        """Returns the ids by the index of a file with certain columns, or None.

        There are none if a column has the ids, the rows' numbers are the same, or other parts may
        have the same numbers.
        """
        fields = tuple(fields)
        if not ids or ids.are_row_numbers or (self.is_part and ids.added is not None):
            return None
        id_column = self.id_column_of(fields)
        has_ids = id_column is None or id_column in fields or has_usual_name("id", fields)
        return None if has_ids else ids

    def _read_arrow(self, path: pathlib.Path, form: str, first: int) -> Iterator[Row]:
        rows = (_read_parquet if form == "parquet" else _read_arrow)(path, first)
        names, index, index_ids = _find_arrow_index(path, form)
        if not (ids := self._choose_ids(index_ids, names)):
            yield from rows
            return
        self.note(f"{path}: {ids.describe()}")
        for number, (place, fields) in enumerate(rows, first):
            label = fields[index] if isinstance(index, str) else index[number]
            yield Row(place, {**fields, "id": ids.id_of(label)})

    def _read_cells(self, path: pathlib.Path, form: "_TextForm", first: int) -> Iterator[Row]:
        """Yields the rows of CSV or TSV."""
        nameless: list[str] = []
        rows = form.read_cells(path, self.bad_rows, first, nameless)
        head = next(rows, None)
        if head is None:
            return
        id_column = self.id_column_of(tuple(head.fields))
        ids = [id_column] if id_column and id_column in head.fields else []
        empty, floats = _examine_columns(path, form, (*nameless, *ids))
        left_out = empty.intersection(nameless)  # for example if each line ends with a comma
        are_floats = id_column in floats
        if are_floats:
            empty_ids = f"an empty one as its line ('{self.part}line 3')"
            self.note(f"{path}: {id_column}: ids such as 1.0 are read as 1, {empty_ids}")
        index = next(iter(head.fields))
        index_ids = None
        if index in (*nameless, _PANDAS_FIRST_COLUMN):
            index_ids = self._choose_ids(_find_cell_ids(path, form, index), head.fields)
        if index_ids:
            self.note(f"{path}: {index_ids.describe()}")
        for name in nameless[1:] if index_ids and index in nameless else nameless:
            reading = "has no cells and is left out" if name in left_out else f"is read as {name!r}"
            self.note(f"{path}: the column without a name {reading}")
        for place, cells in itertools.chain([head], rows):
            fields = {name: cell for name, cell in cells.items() if name not in left_out}
            if index_ids:
                fields["id"] = index_ids.id_of(fields[index])
            if id_column and are_floats:
                line = f"{self.part}line {place.rpartition(':')[2]}"
                fields[id_column] = fields[id_column].strip()[:-2] or line
            yield Row(place, fields)


class _TextForm(NamedTuple):
    """How a text file is written; `notes` are sentences on the details that were detected."""

    encoding: str
    separator: str = ""
    has_quotes: bool = True
    notes: tuple[str, ...] = ()

    def read_cells(
        self, path: pathlib.Path, bad_rows: BadRows | None, first: int, nameless: list[str]
    ) -> Iterator[Row]:
        """Yields the rows of CSV or TSV; see `read_csv`."""
        return read_csv(
            path, (), bad_rows, self.separator, first, self.encoding, nameless, self.has_quotes
        )


@until_changed
def _find_text_form(path: pathlib.Path, form: TableForm) -> _TextForm:
    """Returns how a text file is written, detecting from its content what `form` leaves open."""
    notes = []
    encoding, separator = form.encoding or _find_encoding(path), form.separator
    if encoding != "utf-8" and not form.encoding:
        notes.append(f"{path}: read as {encoding}; --encoding names another")
    if form.form not in _SEPARATORS:
        return _TextForm(encoding, notes=tuple(notes))
    if not separator:
        usual = _SEPARATORS[form.form]
        separator, is_stated = find_separator(path, usual, encoding)
        if is_stated or separator != usual:
            name = f"a {DELIMITERS[separator]}" if separator in DELIMITERS else repr(separator)
            why = ", as its first line says" if is_stated else ""
            between = f"{path}: read with {name} between its cells{why}"
            notes.append(f"{between}; --separator names another")
    may_lack_quotes = form.form == "tsv" and separator == "\t"
    has_quotes = not may_lack_quotes or has_quoted_cells(path, encoding)
    return _TextForm(encoding, separator, has_quotes, tuple(notes))


@until_changed
def _count_rows(path: pathlib.Path, form: TableForm) -> int:
    """Returns the number of rows of a part, bad ones included."""
    bad_rows = BadRows(skip=True)
    return sum(1 for _ in _Reader(bad_rows).read(path, form, 0)) + bad_rows.count


@until_changed
def _examine_columns(
    path: pathlib.Path, form: _TextForm, names: Sequence[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the columns of CSV or TSV that are empty, and those with only cells like 1.0."""
    filled, mixed = set[str](), set[str]()
    rows = form.read_cells(path, BadRows(skip=True), 0, [])
    for _, fields in rows if names else ():
        for name in names:
            if cell := fields[name].strip():
                filled.add(name)
                if not WHOLE_FLOAT.fullmatch(cell):
                    mixed.add(name)
        if len(mixed) == len(names):
            break
    return frozenset(names) - filled, frozenset(filled - mixed)


@until_changed
def _find_cell_ids(path: pathlib.Path, form: _TextForm, index: str) -> IndexIds | None:
    """Returns how the labels of an index, a column of CSV or TSV, become ids; None if not."""
    rows = form.read_cells(path, BadRows(skip=True), 0, [])
    may_be_from_one = form.has_quotes and has_quoted_labels(path, form.encoding)
    return find_index_ids((fields[index] for _, fields in rows), may_be_from_one)


def decimal_commas(path: pathlib.Path, form: TableForm | str) -> frozenset[str]:
    """Returns the columns of a CSV or TSV file whose numbers have decimal commas."""
    file = table_files(path)[0]
    form = file_form(file, form)
    if form.form not in _SEPARATORS:
        return frozenset()
    text_form = _find_text_form(file, form)
    if text_form.separator == ",":
        return frozenset()
    return decimal_comma_columns(file, text_form.separator, text_form.encoding)


def _find_encoding(path: pathlib.Path) -> str:
    """Returns the encoding of a text file: UTF-16 or UTF-32 by its begin, else UTF-8 or cp1252.

    A file with a UTF-8 or a control character is read as UTF-8, in which other bytes are errors.
    """
    with open_text(path, "") as file:
        begin = file.read(4)
        if begin in _UTF_32_MARKS:
            return "utf-32"
        if begin.startswith(UTF_16_MARKS):
            return "utf-16"
        if unmarked := _UNMARKED.get(tuple(map(bool, begin))):
            return unmarked
        file.seek(0)
        pieces = iter(functools.partial(file.read, _PIECE_BYTES), b"")
        if is_remote(path):  # reading all of it here would fetch it twice
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


def _read_parquet(path: pathlib.Path, first: int) -> Iterator[Row]:
    """Yields the rows of a Parquet file, starting at row `first`."""
    from pyarrow import parquet

    with _reported_errors(path, "Parquet"):
        source = open_binary(path) if is_remote(path) else path
        with parquet.ParquetFile(source, metadata=_parquet_metadata(path)) as file:
            number, groups = 0, list(range(file.metadata.num_row_groups))
            while groups and number + file.metadata.row_group(groups[0]).num_rows <= first:
                number += file.metadata.row_group(groups.pop(0)).num_rows
            batches = file.iter_batches(batch_size=_ROWS, row_groups=groups)
            yield from _arrow_rows(path, batches, number, first)


def _parquet_metadata(path: pathlib.Path) -> Any:
    """Returns the metadata of a Parquet file, without Arrow's types if lists have a fixed size.

    Arrow refuses such lists if one is null; without Arrow's types they are lists of any size.
    """
    from pyarrow import BufferReader, parquet

    with open_binary(path) as file:
        metadata = parquet.read_metadata(file)
        if "fixed_size_list" not in str(metadata.schema.to_arrow_schema()):
            return metadata
        file.seek(-8 - metadata.serialized_size, os.SEEK_END)
        footer = file.read().replace(b"ARROW:schema", b"other:schema")
    return parquet.read_metadata(BufferReader(b"PAR1" + footer))


def _read_arrow(path: pathlib.Path, first: int) -> Iterator[Row]:
    """Yields the rows of an Arrow file, or of an Arrow stream, as `datasets` writes it."""
    with _reported_errors(path, "Arrow"), open_binary(path) as file:
        _, batches = _open_arrow(file)
        yield from _arrow_rows(path, batches, 0, first)


def _open_arrow(file: IO[bytes], column: int | None = None) -> tuple[Any, Iterator[Any]]:
    """Returns the schema and the batches of an Arrow file or stream, or those of one column."""
    import pyarrow

    options = pyarrow.ipc.IpcReadOptions(included_fields=None if column is None else [column])
    file.seek(0)
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    if not is_file:
        stream = pyarrow.ipc.open_stream(file, options=options)
        return stream.schema, iter(stream)
    whole = pyarrow.ipc.open_file(file, options=options)
    return whole.schema, map(whole.get_batch, range(whole.num_record_batches))


@until_changed
def _find_arrow_index(
    path: pathlib.Path, form: str
) -> tuple[Sequence[str], str | range, IndexIds | None]:
    """Returns the columns of Parquet or Arrow, pandas' index without a name, and its ids.

    The index is a column or, if pandas only counted it, a range; without one there are no ids.
    """
    from pyarrow import parquet

    index: str | range
    with _reported_errors(path, form.capitalize()), open_binary(path) as file:
        if form == "parquet":
            table = parquet.ParquetFile(file, metadata=_parquet_metadata(path))
            names, batches = table.schema_arrow.names, table.iter_batches(columns=[_PANDAS_INDEX])
            # Programs that take rows out of an Arrow file leave an old range in it.
            index = _pandas_range(table.metadata.metadata or {}, table.metadata.num_rows)
        else:
            names, index = _open_arrow(file)[0].names, range(0)
            if _PANDAS_INDEX in names:
                _, batches = _open_arrow(file, names.index(_PANDAS_INDEX))
        labels: Iterable[Any] = index
        if _PANDAS_INDEX in names:
            index = _PANDAS_INDEX
            labels = (label for batch in batches for label in batch.column(0).to_pylist())
        with contextlib.suppress(*_UNREADABLE):  # labels of other types
            return names, index, find_index_ids(labels)
    return names, index, None


def _pandas_range(metadata: Mapping[bytes, bytes], count: int) -> range:
    """Returns the labels of `count` rows if pandas only noted where they start and end."""
    columns = json.loads(metadata.get(b"pandas", b"{}")).get("index_columns", ())
    if len(columns) == 1 and isinstance(columns[0], dict) and columns[0].get("name") is None:
        labels = range(*(columns[0][key] for key in ("start", "stop", "step")))
        if len(labels) == count:
            return labels
    return range(count)


@contextlib.contextmanager
def _reported_errors(path: pathlib.Path, form: str) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except (OSError, pyarrow.ArrowException) as error:
        problem = str(error).split("\n")[0]
        raise InputError(f"{path}: not a whole {form} file ({problem}).") from None


def _arrow_rows(
    path: pathlib.Path, batches: Iterator[Any], number: int, first: int
) -> Iterator[Row]:
    """Yields the rows of Arrow batches, starting at row `first`; `number` rows precede them."""
    for batch in batches:
        check_columns(batch.schema.names, path)
        skipped = min(batch.num_rows, max(0, first - number))
        number += skipped
        for start in range(skipped, batch.num_rows, _ROWS):
            for fields in _python_rows(path, _decode_texts(batch.slice(start, _ROWS))):
                number += 1
                yield Row(f"{path}:{number}", fields)


def _decode_texts(batch: Any) -> Any:
    """Returns an Arrow batch in which columns of bytes, or lists of bytes, are text if they can be.

    Some programs write texts without saying that they are.
    """
    import pyarrow
    from pyarrow import types

    columns = list(batch.columns)
    for number, column in enumerate(columns):
        is_list, text = types.is_list(column.type), pyarrow.string()
        if types.is_binary(column.type.value_type if is_list else column.type):
            with contextlib.suppress(pyarrow.ArrowInvalid):  # bytes that are not UTF-8
                columns[number] = column.cast(pyarrow.list_(text) if is_list else text)
    return pyarrow.RecordBatch.from_arrays(columns, batch.schema.names) if columns else batch


def _python_rows(path: pathlib.Path, batch: Any) -> list[dict[str, Any]]:
    """Returns the rows of an Arrow batch; times that Python's types cannot hold become texts.

    Raises:
      InputError: a column holds texts that are not UTF-8, or values without a Python or text form.
    """
    import pyarrow

    try:
        return batch.to_pylist()
    except _UNREADABLE:  # does not name the column
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
            with contextlib.suppress(pyarrow.ArrowException):  # texts hold nanoseconds
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
    """Returns the rows of a table in memory, with lists in place of arrays.

    `frame` is a pandas or Polars DataFrame, a `datasets` data set, an Arrow table, a list of
    mappings, or a mapping of columns; error messages call it `name`.

    Raises:
      InputError: two columns have the same name.
      TypeError: `frame` is of another kind.
      ValueError: columns have different lengths.
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
    elif isinstance(frame, str | os.PathLike):
        raise TypeError(
            f"{name}: expected a table, got {format_value(str(frame))}; read a file first, as by "
            "pandas.read_csv."
        )
    elif not isinstance(frame, Iterable) or isinstance(frame, bytes):
        raise TypeError(f"{name}: expected a table, got {format_value(frame)}.")
    else:
        records = list(frame)
    if columns is not None:
        for column, values in columns.items():
            if isinstance(values, str) or not hasattr(values, "__len__"):
                raise TypeError(
                    f"{name}: column {column!r}: expected a list, as a mapping is of columns, got "
                    f"{format_value(values)}; give a single row as a list, [{{…}}]."
                )
        lengths = {column: len(values) for column, values in columns.items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{count} of {column!r}" for column, count in lengths.items())
            raise ValueError(f"{name}: columns have different lengths: {counts}.")
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
    """Returns whether a value is None, NaN or pandas' NA or NaT, which mark missing values."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in _PANDAS_NA


def _plain_value(value: Any) -> Any:
    """Returns a value in Python's own types, also inside lists and mappings; NA becomes None.

    NumPy arrays become lists, and documents of LangChain and LlamaIndex become mappings.
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
