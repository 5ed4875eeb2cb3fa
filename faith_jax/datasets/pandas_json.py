"""Reads tables as pandas' `to_json` writes them in one JSON object, and the names of its index."""

import itertools
import json
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import InputError, format_value, pluralize
from faith_jax.core.rows import Row, check_columns
from faith_jax.datasets.usual_names import USUAL, has_usual_name

# A whole number as pandas writes it where another one of the column is missing.
WHOLE_FLOAT = re.compile(r"\d+[.,]0")


def rows_by_column(
    value: Mapping[str, Any], path: pathlib.Path, note: Callable[[str], None]
) -> Iterator[Row] | None:
    """Returns the rows of what pandas' `to_json` writes in its orients; None for another object.

    These are "columns" (its default), "index", "split", "table", and columns of lists. Labels of
    the index that are more than the rows' numbers are a field of the rows.
    """
    columns: Mapping[str, Any] = value
    names, data = value.get("columns"), value.get("data")
    is_split = {"columns", "data"} <= value.keys() <= {"columns", "data", "index", "index_names"}
    if is_split and isinstance(names, list) and isinstance(data, list):
        records: Iterable[Any] = _split_records(names, data, path)
        if (labels := value.get("index")) is not None:
            if not isinstance(labels, list) or len(labels) != len(data):
                expected = f"a list of {pluralize(len(data), 'label')}"
                raise InputError(f"{path}: index: expected {expected}, got {format_value(labels)}.")
            records = _add_labels(path, labels, map(str, names), records, note)
        return _add_places(path, enumerate(records))
    if {"schema", "data"} == value.keys() and isinstance(data, list):
        return _add_places(path, enumerate(data))
    if not value:
        return None
    if all(isinstance(inner, list) for inner in columns.values()):
        lengths = {name: len(inner) for name, inner in columns.items()}
        if len({*lengths.values()}) > 1:
            return None
        rows = zip(*columns.values(), strict=True)
        return _add_places(path, enumerate(dict(zip(columns, row, strict=True)) for row in rows))
    inner = list(columns.values())
    if not all(isinstance(cells, dict) and cells.keys() == inner[0].keys() for cells in inner):
        return None
    keys, names = list(inner[0]), list(columns)
    records = ({name: columns[name][key] for name in names} for key in keys)
    if _are_rows(names, keys):
        keys, names, records = names, keys, inner
    records = _add_labels(path, keys, names, records, note)
    return _add_places(path, zip(keys, records, strict=True))


def _are_rows(outer: Sequence[str], inner: Sequence[str]) -> bool:
    """Returns whether the keys of an object of objects are rows, and those within are columns."""
    are_known = [
        any(has_usual_name(part, names) for part in USUAL if names) for names in (outer, inner)
    ]
    if are_known[0] != are_known[1]:
        return are_known[1]
    return all(map(str.isdecimal, outer)) and not all(map(str.isdecimal, inner))


def _add_labels(
    path: pathlib.Path,
    labels: Sequence[Any],
    names: Iterable[str],
    records: Iterable[Any],
    note: Callable[[str], None],
) -> Iterable[Any]:
    """Returns records with the labels of their index, unless these are the records' numbers.

    They are the records' ids if there are no others and they can be.
    """
    texts = [str(label) for label in labels]
    if all(map(WHOLE_FLOAT.fullmatch, texts)):
        labels = texts = [text[:-2] for text in texts]
    if texts == [str(number) for number in range(len(texts))]:
        return records
    columns = list(names)
    can_be_ids = len({*texts}) == len(texts) and all(
        type(label) in (str, int, float) and text.strip()
        for label, text in zip(labels, texts, strict=True)
    )
    name = "id" if can_be_ids and not has_usual_name("id", columns) else free_name(columns, "index")
    note(f"{path}: the index is read as the field {name!r}")
    return (
        {name: label, **record} if isinstance(record, dict) else record
        for label, record in zip(labels, records, strict=True)
    )


def _split_records(names: list[Any], data: list[Any], path: pathlib.Path) -> Iterator[Any]:
    columns = [name if isinstance(name, str) else json.dumps(name) for name in names]
    check_columns(columns, path)
    for number, cells in enumerate(data):
        if not isinstance(cells, list) or len(cells) != len(columns):
            expected = f"a list of {pluralize(len(columns), 'cell')}"
            raise InputError(f"{path}: [{number}]: expected {expected}, got {format_value(cells)}.")
        yield dict(zip(columns, cells, strict=True))


def _add_places(path: pathlib.Path, items: Any) -> Iterator[Row]:
    for name, fields in items:
        place = f"{path}: [{format_value(name)}]"
        if not isinstance(fields, dict):
            raise InputError(f"{place}: expected a JSON object, got {format_value(fields)}.")
        yield Row(place, fields)


def free_name(columns: Collection[str], name: str) -> str:
    """Returns a name, with a number behind it if there is such a column."""
    numbered = (f"{name} {number}" for number in itertools.count(2))
    return next(free for free in itertools.chain([name], numbered) if free not in columns)
