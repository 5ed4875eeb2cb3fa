"""The items of a large JSON file, one in memory at a time: of an array, or of an object by key.

A place names the item, as `train.json: [12]` or `train.json: item[3]`, since JSON files often have
a single line.
"""

import decimal
import pathlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

import ijson

from faith_jax.core.errors import InputError, shown
from faith_jax.core.rows import BadRows, Row, check_depth, opened

# Brackets that a piece of a file opens and does not close: ijson takes memory for the names of all
# levels, which is quadratic in their number.
_MOST_OPEN = 5_000
_KINDS = {"start_array": "an array", "start_map": "an object", "string": "a text"}


def read_array(
    path: str | pathlib.Path,
    key: str = "",
    bad_rows: BadRows | None = None,
    first: int = 0,
    encoding: str = "utf-8",
) -> Iterator[Row]:
    """Yields the objects of an array.

    Args:
      path: of the file.
      key: of the array in the file's object, with dots between nested keys; "" = the file is an
        array itself.
      bad_rows: what to do with an item that is no object; by default, reading stops.
      first: the item to begin with, from 0; those before it, bad ones too, are not looked at.
      encoding: of the file.

    Raises:
      InputError: the file cannot be read or is not JSON (the error names the last whole item), it
        has no such array or an empty one, or an item is bad.
    """
    return (row for _, row in _rows(path, key, "start_array", bad_rows, first, encoding))


def read_object(
    path: str | pathlib.Path, key: str = "", bad_rows: BadRows | None = None
) -> Iterator[tuple[str, Row]]:
    """Yields the keys and values of an object whose values are objects.

    Arguments and errors are those of `read_array`.
    """
    return _rows(path, key, "start_map", bad_rows)


def read_arrays(
    path: str | pathlib.Path, key: str, bad_rows: BadRows | None = None
) -> Iterator[tuple[str, Row]]:
    """Yields the objects of all arrays in an object, each with its array's name.

    Arguments and errors are those of `read_array`; the file is read once for each array.
    """
    names = list(_streamed(path, _keys, key, key, "start_map"))
    _check_any(len(names), path, key, "start_map")
    for name in names:
        for row in read_array(path, f"{key}.{name}", bad_rows):
            yield name, row


def _rows(
    path: str | pathlib.Path,
    key: str,
    event: str,
    bad_rows: BadRows | None,
    first: int = 0,
    encoding: str = "utf-8",
) -> Iterator[tuple[Any, Row]]:
    """Yields the objects in an array or object, each with its number or name."""
    bad_rows = bad_rows or BadRows()
    items: Iterable[tuple[Any, Any]]
    if event == "start_array":
        prefix = f"{key}.item" if key else "item"
        items = enumerate(_streamed(path, ijson.items, prefix, key, event, encoding))
    else:
        items = _streamed(path, ijson.kvitems, key, key, event)
    count = 0
    for name, item in items:
        count += 1
        if count <= first:
            continue
        place = f"{path}: {key}[{shown(name)}]"
        try:
            check_depth(item)
        except RecursionError:
            bad_rows.add(InputError(f"{place}: nested too deeply."))
            continue
        if isinstance(item, dict):
            yield name, Row(place, item)
        else:
            bad_rows.add(InputError(f"{place}: expected a JSON object, got {shown(item)}."))
    _check_any(count, path, key, event)


def _check_any(count: int, path: str | pathlib.Path, key: str, event: str) -> None:
    if not count:
        raise InputError(f"{path}: holds no items; expected {_what(key, event)}.")


def _keys(file: IO[bytes], key: str, use_float: bool) -> Iterator[str]:
    """Yields the names in the object `key`."""
    for prefix, event, value in ijson.parse(file, use_float=use_float):
        if event == "map_key" and prefix == key:
            yield value


def _streamed(
    path: str | pathlib.Path,
    read: Any,
    prefix: str,
    key: str,
    event: str,
    encoding: str = "utf-8",
) -> Iterator[Any]:
    done = 0
    try:
        with opened(path, encoding) as file:
            start = file.tell()
            shallow = _Shallow(file, path)
            _check_kind(shallow, path, key, event)
            file.seek(start)
            for item in read(shallow, prefix, use_float=True):
                yield item
                done += 1
    except (ijson.JSONError, UnicodeDecodeError, decimal.InvalidOperation, OverflowError) as error:
        raise InputError(
            f"{path}: not valid JSON behind {done} whole items of {key or 'the file'} "
            f"({_problem(error)}); get the file again."
        ) from None


class _Shallow:
    """Reads a file, and raises an InputError where it is nested too deeply."""

    def __init__(self, file: IO[bytes], path: str | pathlib.Path):
        self._file, self._path = file, path

    def read(self, size: int) -> bytes:
        """Returns the next bytes."""
        piece = self._file.read(size)
        opened, closed = (sum(map(piece.count, marks)) for marks in ((b"[", b"{"), (b"]", b"}")))
        if opened - closed > _MOST_OPEN:
            raise InputError(
                f"{self._path}: not valid JSON: nested too deeply; get the file again."
            )
        return piece


def _check_kind(file: _Shallow, path: str | pathlib.Path, key: str, event: str) -> None:
    """Checks that `key` is there and begins with `event`; ijson itself confuses key and item."""
    for prefix, got_event, _ in ijson.parse(file, use_float=True):
        if prefix == key:
            if got_event != event:
                got = _KINDS.get(got_event, f"a {got_event}")
                raise InputError(f"{path}: expected {_what(key, event)}, got {got}.")
            return
    raise InputError(f"{path}: has no '{key}'; expected {_what(key, event)}.")


def _what(key: str, event: str) -> str:
    return f"{_KINDS[event]} '{key}' of JSON objects" if key else f"{_KINDS[event]} of JSON objects"


def _problem(error: Exception) -> str:
    """Returns ijson's message on one line, without the mark below the place."""
    text = error.args[0] if error.args else ""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return " ".join(text.partition("(right here)")[0].split())


def item_number(place: str) -> int:
    """Returns the number of an array's item from its place.

    >>> item_number("train.json: [12]")
    12
    """
    return int(place.rpartition("[")[2].rstrip("]"))
