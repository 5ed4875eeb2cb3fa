"""Rows of raw files, the handling of bad rows, JSON lines and small JSON files.

>>> bad_rows = BadRows(skip=True)
>>> rows = [Row("a.tsv:2", {"n": "1"}), Row("a.tsv:3", {"n": "one"})]
>>> def parse(fields, place):
...     if not fields["n"].isdigit():
...         raise InputError(f"{place}: field 'n': expected a number.")
...     return int(fields["n"])
>>> list(parse_rows(rows, parse, bad_rows))
[1]
>>> bad_rows.count, bad_rows.messages
(1, ["a.tsv:3: field 'n': expected a number."])
"""

import contextlib
import errno
import functools
import hashlib
import json
import pathlib
import re
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from faith_jax.core.errors import (
    ConfigError,
    FaithJaxError,
    InputError,
    first_duplicate,
    format_value,
    pluralize,
)

_Parsed = TypeVar("_Parsed")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LISTED = 20
_MOST_SEEN = 100_000  # values in memory
_STEP = 1000  # rows between remembered offsets
_ARRAY_REMEDY = "; of one JSON array, `jq -c '.[]' FILE` makes lines"
# Like `json`, except that it refuses values beyond the standard (NaN, half surrogate pairs, ...).
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_BLANKS = " \t\r\n"
_KEY = re.compile(rb'"\s*:')
_ROW_NUMBER = re.compile(r"(?<=[: ])\d+(?=: )")
_MOST_LEVELS = 100  # of nested lists and objects; all of our code can handle this many


class Row(NamedTuple):
    """A row of a raw file: its place for errors (`path:line`, `path: item`), and its values."""

    place: str
    fields: Mapping[str, Any]


class BadRows:
    """Stops at the first bad row, or skips and counts bad rows if the user chose so.

    Attributes:
      skip: whether bad rows are skipped.
      count: number of skipped rows; a row that is read again for another split counts once.
      messages: the errors of the first skipped rows.
    """

    def __init__(self, skip: bool = False):
        self.skip = skip
        self.count = 0
        self.messages: list[str] = []
        self._seen: Seen | None = None

    def add(self, error: InputError) -> None:
        """Counts a bad row; raises the error unless bad rows are skipped."""
        if not self.skip:
            raise error
        # The message names the row; the advice to skip it is dropped, as it was followed.
        message = str(error).partition("; --skip-bad-rows")[0]
        self._seen = self._seen or Seen()
        if self._seen.add(message):
            self.take(1, [message])

    def nothing_left(self, missing: str) -> InputError:
        """Returns an error with the text `missing`, and the reason if rows were skipped."""
        skipped = pluralize(self.count, "bad row")
        why = f": {skipped} skipped. The first one: {self.messages[0]}" if self.count else "."
        return InputError(f"{missing}{why}")

    def describe_skipped(self) -> Iterator[str]:
        """Yields lines about skipped rows, if there are any, with each problem once."""
        if self.count:
            yield f"{pluralize(self.count, 'bad row')} skipped:"
        alike: dict[str, list[str]] = {}
        for message in self.messages:
            alike.setdefault(_ROW_NUMBER.sub("", message, count=1), []).append(message)
        for first, *others in alike.values():
            rows = [number for other in others for number in _ROW_NUMBER.findall(other)[:1]]
            yield f"  {first}" + (f" (the same: {', '.join(rows)})" if rows else "")

    def take(self, count: int, messages: Iterable[str]) -> None:
        """Counts rows that were skipped elsewhere, such as during data preparation."""
        self.count += count
        self.messages = [*self.messages, *messages][:_LISTED]


class Seen:
    """A set of earlier values, of any size; a large set is kept on disk."""

    def __init__(self) -> None:
        self._few: set[bytes] = set()
        self._many: sqlite3.Cursor | None = None

    def add(self, value: Any) -> bool:
        """Adds a value, identified by its `repr`; returns whether it is new."""
        digest = hashlib.sha256(repr(value).encode("utf-8", "surrogatepass")).digest()[:16]
        if self._many is None:
            if digest in self._few:
                return False
            self._few.add(digest)
            if len(self._few) == _MOST_SEEN:
                self._many = sqlite3.connect("", check_same_thread=False).cursor()  # on disk
                self._many.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY) WITHOUT ROWID")
                rows = ((stored,) for stored in sorted(self._few))
                self._many.executemany("INSERT INTO seen VALUES (?)", rows)
                self._few.clear()
            return True
        self._many.execute("INSERT OR IGNORE INTO seen VALUES (?)", (digest,))
        return self._many.rowcount == 1


def parse_rows(
    rows: Iterable[Row], parse: Callable[[Mapping[str, Any], str], _Parsed], bad_rows: BadRows
) -> Iterator[_Parsed]:
    """Yields `parse(fields, place)` of each row; an InputError makes it a bad row."""
    for row in rows:
        try:
            result = parse(row.fields, row.place)
        except InputError as error:
            bad_rows.add(error)
        else:
            yield result


@contextlib.contextmanager
def open_text(path: str | pathlib.Path, encoding: str = "utf-8") -> Iterator[IO[bytes]]:
    """Opens a text file as UTF-8 bytes, after a byte order mark if there is one.

    Files packed with gzip, bzip2 or Zstandard are unpacked. `encoding` "" = do not convert.

    Raises:
      InputError: if the file is missing, a pipe, cannot be read, ends too early, or has another
        encoding.
    """
    # Imported late, because `--help` needs no files.
    from faith_jax.core.files.growing_rows import current
    from faith_jax.core.files.stores import check_readable, open_binary, reason, storage_errors
    from faith_jax.core.files.unpacking import recode_to_utf8, unpack

    try:
        check_readable(current(path))
        with open_binary(current(path)) as raw:
            file = unpack(raw)
            if encoding == "utf-8":
                begin = file.read(len(_BYTE_ORDER_MARK))
                if begin.startswith(UTF_16_MARKS):
                    raise InputError(f"{path}: expected UTF-8, got UTF-16; save the file as UTF-8.")
                file.seek(len(begin) if begin == _BYTE_ORDER_MARK else 0)
            elif encoding:
                file = recode_to_utf8(file, encoding)
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except UnicodeDecodeError as error:
        if error.encoding == "utf-8":
            raise
        raise InputError(
            f"{path}: expected the encoding {encoding}, got other bytes ({error.reason}); say "
            "which it is with --encoding."
        ) from None
    except (EOFError, zlib.error) as error:
        problem = "ends in the middle" if isinstance(error, EOFError) else f"is damaged ({error})"
        raise InputError(f"{path}: {problem}; get the file again.") from None
    except storage_errors() as error:
        if getattr(error, "errno", 0) == errno.EISDIR:
            raise InputError(f"{path}: expected a file, got a folder.") from None
        raise InputError(f"{path}: cannot be read ({reason(error)}).") from None


def read_lines(path: str | pathlib.Path, encoding: str = "utf-8") -> Iterator[bytes]:
    """Yields the lines of `open_text` with their line ends; only a line feed ends a line."""
    with open_text(path, encoding) as file:
        yield from file


def decode_line(line: bytes, place: str) -> str:
    """Decodes a line; raises an InputError that names the first byte that is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place}: expected UTF-8, got byte 0x{line[error.start]:02x} at byte "
            f"{error.start + 1} of the line; save the file as UTF-8."
        ) from None


def read_jsonl(
    path: str | pathlib.Path,
    bad_rows: BadRows | None = None,
    first: int = 0,
    usual: msgspec.json.Decoder[Any] = _OBJECT,
    encoding: str = "utf-8",
) -> Iterator[Row]:
    """Yields the rows of a file of JSON lines: UTF-8, one JSON object per line.

    A byte order mark at the start, blank lines and Windows line ends are accepted.

    Args:
      path: the file.
      bad_rows: by default, reading stops at a bad line.
      first: the row to begin with, from 0; earlier lines, including bad ones, are not checked.
      usual: decodes most lines, in a third of `json`'s time; `json` reads lines that it refuses.
      encoding: the file's encoding.

    Raises:
      InputError: if the file cannot be read, or a line is not UTF-8 or not a JSON object.
    """
    bad_rows = bad_rows or BadRows()
    for number, line in _lines_from(path, first, encoding):
        place = f"{path}:{number}"
        try:
            fields = _decode_or_none(line, usual)
            if fields is None or _may_repeat_a_key(line, fields):
                fields = _json_object(decode_line(line, place), place)
        except InputError as error:
            is_cut = not line.endswith(b"\n")  # an unfinished last line
            bad_rows.add(InputError(f"{error} The file ends here.") if is_cut else error)
        else:
            yield Row(place, fields)


class _Begin(NamedTuple):
    """The start of a row: the number of lines before it, and its offset (0 = the first row)."""

    lines: int = 0
    offset: int = 0


@functools.lru_cache(maxsize=16)
def _recall_row_begins(*_: Any) -> list[_Begin]:
    """Returns the starts of every `_STEP`th row of a file, as far as the file was read."""
    return [_Begin()]


def _lines_from(path: str | pathlib.Path, first: int, encoding: str) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that are not blank, from the row `first` on, with their numbers from 1.

    Does not read earlier lines again, so reading all shards takes time linear in the file's length.
    """
    from faith_jax.core.files.stores import is_remote, path_of, stamp

    with open_text(path, encoding) as file:
        begins = (
            [_Begin()]
            if is_remote(path_of(path))
            else _recall_row_begins(*stamp([path])[0], encoding)
        )
        last_begin = min(first // _STEP, len(begins) - 1)
        row, (before, offset) = last_begin * _STEP, begins[last_begin]
        offset = file.seek(offset) if offset else file.tell()
        for number, line in enumerate(file, before + 1):
            if line.strip():
                if row == len(begins) * _STEP:
                    begins.append(_Begin(number - 1, offset))
                if row >= first:
                    yield number, line
                row += 1
            offset += len(line)


def _decode_or_none(line: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Returns the decoded line; None if the decoder refuses it or it may be nested too deeply."""
    if line.count(b"[") + line.count(b"{") > _MOST_LEVELS:
        return None
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _may_repeat_a_key(line: bytes, row: Any) -> bool:
    """Returns whether a line has more keys than its row, as the decoder keeps only the last of two.

    May be True without a repeated key, if a text contains something that looks like a key.
    """
    count = len(_KEY.findall(line))
    if isinstance(row, msgspec.Struct):
        values = [value for value in msgspec.structs.astuple(row) if value is not UNSET]
        if count == len(values) + _count_keys(values):
            return False
        row = _decode_or_none(line, _OBJECT)  # includes fields that the Struct does not name
    return row is None or count != _count_keys(row)


def _count_keys(value: Any) -> int:
    """Returns the number of keys of all objects in a JSON object or list."""
    count, values = 0, value
    if type(value) is dict:
        count, values = len(value), value.values()
    for inner in values:
        kind = type(inner)  # faster than isinstance, for each value of each row
        if kind is dict or kind is list:
            count += _count_keys(inner)
    return count


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the JSON object of key-value pairs; raises a KeyError if a key occurs twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise KeyError(first_duplicate([name for name, _ in pairs]))
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)
JSON_ERRORS = (KeyError, ValueError, RecursionError)


def json_value_at(text: str, start: int) -> tuple[Any, int]:
    """Returns the JSON value that starts at an index of a text, and the index after the value.

    NaN and infinity are read as numbers, because Python writes them.

    Raises:
      JSONDecodeError: if the text is not JSON, or cut off.
      KeyError: if a key occurs twice.
      UnicodeEncodeError: if a string has half of a surrogate pair, which is not a character.
      RecursionError: if the value is nested too deeply.
      ValueError: if a number has too many digits.
    """
    value, end = _DECODER.raw_decode(text, start)
    part = text[start:end]
    if "\\ud" in part.lower():  # the escape of a surrogate
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    if part.count("[") + part.count("{") > _MOST_LEVELS:
        _check_depth(value)
    return value, end


def check_columns(columns: Sequence[str], place: pathlib.Path | str) -> None:
    """Raises an InputError if two columns have the same name; `place` is their file or line."""
    if (twice := first_duplicate(columns)) is not None:
        raise InputError(f"{place}: column {twice!r} is there twice; rename or drop one.")


def json_value(text: str) -> Any:
    """Returns a text parsed as a JSON value; raises the errors of `json_value_at`."""
    text = text.rstrip(_BLANKS)
    value, end = json_value_at(text, len(text) - len(text.lstrip(_BLANKS)))
    if more := text[end:].lstrip(_BLANKS):
        raise json.JSONDecodeError("Extra data", text, len(text) - len(more))
    return value


def json_problem(error: Exception) -> str:
    """Describes an error of `json_value_at`."""
    if isinstance(error, KeyError):
        return f"the key {format_value(error.args[0])} is there twice; rename or drop one"
    if isinstance(error, UnicodeEncodeError):
        return "holds half of a surrogate pair, no character"
    if isinstance(error, RecursionError):
        return "not valid JSON: nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        line = f"line {error.lineno} " if error.lineno > 1 else ""
        return f"not valid JSON: {error.msg.removesuffix(' at')} at {line}column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"expected UTF-8, got byte 0x{error.object[error.start]:02x}"
    return f"not valid JSON: a number of more than {sys.get_int_max_str_digits():,} digits"


def _json_object(text: str, place: str) -> dict[str, Any]:
    try:
        row = json_value(text)
    except JSON_ERRORS as error:
        problem = json_problem(error)
        if isinstance(error, json.JSONDecodeError):
            problem += "; each line must be one whole JSON object"
            problem += _ARRAY_REMEDY if text.lstrip()[:1] == "[" else ""
    else:
        if isinstance(row, dict):
            return row
        problem = f"expected a JSON object, got {format_value(row)}"
        if isinstance(row, list) and row and isinstance(row[0], dict):
            problem += _ARRAY_REMEDY
    raise InputError(f"{place}: {problem}.")


def read_value(path: str | pathlib.Path, encoding: str = "utf-8") -> Any:
    """Returns the value in a small JSON file; raises an InputError if it is not JSON."""
    text = decode_line(b"".join(read_lines(path, encoding)), str(path))
    try:
        return json_value(text)
    except KeyError as error:
        raise InputError(f"{path}: {json_problem(error)}.") from None
    except JSON_ERRORS as error:
        several = getattr(error, "msg", "") == "Extra data"
        remedy = (
            "write each value on its own line (jq -c . FILE)" if several else "get the file again"
        )
        raise InputError(f"{path}: {json_problem(error)}; {remedy}.") from None


def _check_depth(value: Any) -> None:
    """Raises a RecursionError if a value has more than `_MOST_LEVELS` levels.

    Recursive functions over the value would raise this error anyway.
    """
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_MOST_LEVELS + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise RecursionError


def read_json(path: str | pathlib.Path, error: type[FaithJaxError] = ConfigError) -> dict[str, Any]:
    """Returns the object in a small JSON file, or raises `error`."""
    try:
        value = read_value(path)
    except InputError as caught:
        raise error(str(caught)) from None
    if not isinstance(value, dict):
        raise error(f"{path}: expected a JSON object, got {format_value(value)}.")
    return value
