"""Reads tables in JSON: lines, an array, or an object as written by pandas' `to_json`.

Also gives names to columns without one, such as pandas' index.
"""

import functools
import itertools
import json
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import InputError, format_value, pluralize
from faith_jax.core.rows import (
    JSON_ERRORS,
    BadRows,
    Row,
    check_columns,
    json_value,
    open_text,
    read_jsonl,
    read_lines,
    read_value,
)
from faith_jax.datasets.index_labels import IndexIds, find_index_ids
from faith_jax.datasets.json_items import read_array
from faith_jax.datasets.usual_names import USUAL, has_usual_name

_PIECE_BYTES = 1 << 16
# Returns the ids by the index of a table with certain columns; None if the index has none.
_ChooseIds = Callable[[IndexIds | None, Iterable[str]], IndexIds | None]


def read_json_table(
    path: pathlib.Path,
    may_be_one_value: bool,
    note: Callable[[str], None],
    bad_rows: BadRows | None,
    first: int,
    encoding: str,
    choose_ids: _ChooseIds,
) -> Iterator[Row]:
    """Yields the rows of JSON lines, of an array, or of an object by column or by row.

    The file must have lines or an array, unless its name allows it to be one value.
    `note` is called with a sentence on each detected detail, and `choose_ids` returns the ids by
    an index; see `read_jsonl` for the others.
    """
    with open_text(path, encoding) as file:  # in pieces, as the first line may be large
        pieces = iter(functools.partial(file.read, _PIECE_BYTES), b"")
        mark = next(filter(None, map(bytes.lstrip, pieces)), b"")[:1]
    if may_be_one_value and mark == b"[":
        return read_array(path, "", bad_rows, first, encoding)
    is_object = may_be_one_value and mark == b"{"
    if mark == b"[" or is_object:
        lines = itertools.islice(filter(bytes.strip, read_lines(path, encoding)), 2)
        line, second, *_ = [*lines, b"", b""]
        if mark == b"[" and (not second or _parse_line(line) is None):
            note(f"{path}: one JSON array, no lines")
            return read_array(path, "", bad_rows, first, encoding)
    if is_object:
        value, is_whole = _parse_line(line), not second
        if value is None and _parse_line(second) is None:
            value, is_whole = read_value(path, encoding), True  # spans several lines
        if is_whole and isinstance(value, dict):
            if key := _array_in(value, path):
                note(f"{path}: the array {key!r} of an object")
                return read_array(path, key, bad_rows, first, encoding)
            if (rows := _rows_by_column(value, path, note, choose_ids)) is not None:
                note(f"{path}: one JSON object by column or row, not lines")
                return itertools.islice(rows, first, None)
    return read_jsonl(path, bad_rows, first, encoding=encoding)


def _parse_line(line: bytes) -> Any:
    try:
        return json_value(line.decode("utf-8"))
    except JSON_ERRORS:
        return None


def _array_in(value: Mapping[str, Any], path: pathlib.Path) -> str:
    """Returns the key of the only array of objects in an object; "" if the object is a row.

    Raises:
      InputError: the object has several arrays that hold rows, such as the splits of a data set.
    """
    keys = [
        key
        for key, cells in value.items()
        if isinstance(cells, list) and cells and all(isinstance(cell, dict) for cell in cells)
    ]
    if "schema" in value or has_usual_name("response", value):
        return ""
    if len(keys) > 1:
        are_unknown = not any(has_usual_name(part, value) for part in USUAL)
        are_all = len(keys) == len(value) and are_unknown
        if are_all or all(has_usual_name("response", value[key][0]) for key in keys):
            raise InputError(
                f"{path}: holds the arrays {', '.join(map(repr, keys))}, which are not one table; "
                f"make a file of one: jq '.[{json.dumps(keys[0])}]' FILE."
            )
        return ""
    return next((key for key in keys if "." not in key), "")


def _rows_by_column(
    value: Mapping[str, Any],
    path: pathlib.Path,
    note: Callable[[str], None],
    choose_ids: _ChooseIds,
) -> Iterator[Row] | None:
    """Returns the rows of an object written by pandas' `to_json`; None for other objects.

    Its orients "columns" (the default), "index", "split" and "table" are read, and columns of
    lists. Labels of the index become a field of the rows unless they are just the rows' numbers.
    """
    names, data, inner = value.get("columns"), value.get("data"), list(value.values())
    is_split = {"columns", "data"} <= value.keys() <= {"columns", "data", "index", "index_names"}
    if is_split and isinstance(names, list) and isinstance(data, list):
        names = [name if isinstance(name, str) else json.dumps(name) for name in names]
        check_columns(names, path)
        for number, cells in enumerate(data):
            _check_list(path, f"[{number}]", cells, len(names), "cell")
        records: Sequence[Mapping[str, Any]] = [dict(zip(names, c, strict=True)) for c in data]
        if (labels := value.get("index")) is not None:
            _check_list(path, "index", labels, len(data), "label")
            records = _add_labels(path, labels, names, records, note, choose_ids)
        return _add_places(path, enumerate(records))
    if {"schema", "data"} == value.keys() and isinstance(data, list):
        is_frame = isinstance(schema := value["schema"], dict) and all(map(_has_index, data))
        if is_frame and schema.get("primaryKey") == ["index"]:
            ids = find_index_ids(row["index"] for row in data)
            if data and (ids := choose_ids(ids, data[0])):
                note(f"{path}: {ids.describe()}")
                data = [{"id": ids.id_of(row["index"]), **row} for row in data]
        return _add_places(path, enumerate(data))
    if not value:
        return None
    if all(isinstance(cells, list) for cells in inner):
        if len({*map(len, inner)}) > 1:
            return None
        rows = zip(*inner, strict=True)
        return _add_places(path, enumerate(dict(zip(value, row, strict=True)) for row in rows))
    if not all(isinstance(cells, dict) and cells.keys() == inner[0].keys() for cells in inner):
        return None
    keys, names, records = list(value), list(inner[0]), inner
    if not _are_rows(keys, names):
        keys, names = names, keys
        records = [{name: value[name][key] for name in names} for key in keys]
    records = _add_labels(path, keys, names, records, note, choose_ids)
    return _add_places(path, zip(keys, records, strict=True))


def _check_list(path: pathlib.Path, place: str, value: Any, length: int, noun: str) -> None:
    if not isinstance(value, list) or len(value) != length:
        expected = f"a list of {pluralize(length, noun)}"
        raise InputError(f"{path}: {place}: expected {expected}, got {format_value(value)}.")


def _has_index(row: Any) -> bool:
    return isinstance(row, dict) and "index" in row


def _are_rows(outer: Sequence[str], inner: Sequence[str]) -> bool:
    """Returns whether the outer keys of nested objects are rows and the inner ones columns."""
    are_known = [
        any(has_usual_name(part, names) for part in USUAL if names) for names in (outer, inner)
    ]
    if are_known[0] != are_known[1]:
        return are_known[1]
    return all(map(str.isdecimal, outer)) and not all(map(str.isdecimal, inner))


def _add_labels(
    path: pathlib.Path,
    labels: Sequence[Any],
    columns: Collection[str],
    records: Sequence[Mapping[str, Any]],
    note: Callable[[str], None],
    choose_ids: _ChooseIds,
) -> Sequence[Mapping[str, Any]]:
    """Returns records with the labels of their index, unless these are the records' numbers.

    The labels become the records' ids if they are suitable and there is no other id column.
    """
    index_ids = find_index_ids(labels)
    if index_ids and index_ids.are_row_numbers:
        return records
    if ids := choose_ids(index_ids, columns):
        name, labels = "id", [ids.id_of(label) for label in labels]
        note(f"{path}: {ids.describe()}")
    else:
        name = free_name(columns, "index")
        note(f"{path}: the index is read as the field {name!r}")
    return [{name: label, **record} for label, record in zip(labels, records, strict=True)]


def _add_places(path: pathlib.Path, items: Any) -> Iterator[Row]:
    for name, fields in items:
        place = f"{path}: [{format_value(name)}]"
        if not isinstance(fields, dict):
            raise InputError(f"{place}: expected a JSON object, got {format_value(fields)}.")
        yield Row(place, fields)


def free_name(columns: Collection[str], name: str) -> str:
    """Returns a name, followed by a number if there already is such a column."""
    numbered = (f"{name} {number}" for number in itertools.count(2))
    return next(free for free in itertools.chain([name], numbered) if free not in columns)
