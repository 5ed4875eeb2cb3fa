"""Table columns of all types, and whether a command must read a table that has one.

`bad_inputs.py` adds a column of a random type to a good table, or replaces one of its columns. The
command must either read the table or report in one line what is wrong with it: it must read an
additional column of any readable type, and must not turn a value that is not a text into one.
"""

import csv
import datetime
import decimal
import io
import json
import pathlib
import random
import struct
from collections.abc import Callable, Mapping
from typing import Any

from spoiled_files import Change

FURTHER = "further"
_TEXTS = ("grounding", "generated_text", "history", "response", "inputs", "id")
# JSON values that an additional column may have, and values that no column may have.
_READABLE = {
    "an integer of 63 bits": "9223372036854775807", "one of 64 bits": "9223372036854775808",
    "one of 400 digits": "9" * 400, "a float": "0.1", "a small one": "1e-320", "1e400": "1e400",
    "NaN": "NaN", "infinity": "-Infinity", "minus zero": "-0.0", "true": "true", "null": "null",
    "a list with null": '["a", null]', "a list of null": "[null]", "an empty list": "[]",
    "lists in a list": '[["a"]]', "an object": '{"a": {"b": [1, {"c": null}]}}',
    "an empty object": "{}", "a text": '"a"', "a blank text": '" "', "an empty text": '""',
    "a text with a NUL": '"a\\u0000"', "an escaped pair": '"\\ud83d\\ude00"', "1 as a text": '"1"',
    "1.0 as a text": '"1.0"', "90 lists in each other": "[" * 90 + "]" * 90,
}  # fmt: skip
_UNREADABLE = {
    "a key twice": '{"a": 1, "a": 2}', "a key twice in a list": '[{"a": {"b": 1, "b": 1}}]',
    "an escaped key twice": '{"a": 1, "\\u0061": 2}', "half of a pair": '"\\ud800"',
    "an integer of 5,000 digits": "9" * 5000, "3,000 lists in each other": "[" * 3000 + "]" * 3000,
}  # fmt: skip
_CELLS = (
    *("", " ", "a", "1", "1.0", "1,0", "nan", "NaN", "inf", "1e400", "9" * 400, "True", "None"),
    *("1850-01-01", "2300-01-01T00:00:00.000000001", "['a', None]", "[None]", '["a", null]'),
    *("['a' None]", "{'a': 1}", '{"a": 1, "a": 2}', "\x00", "\x1b[31m", "=1+1", "\ufeffa", "😀"),
)


def arrow_columns(count: int) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns readable and unreadable columns of `count` rows, by type."""
    import pyarrow as pa

    def of(value: Any, kind: Any = None) -> Any:
        return pa.array([value] * count, kind)

    texts = of("a")
    offsets = struct.pack(f"<{count + 1}i", *range(count + 1))
    not_utf_8 = pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(b"\xff" * count)]
    )
    starts = pa.array(range(count + 1), pa.int32())
    nanoseconds, far = pa.timestamp("ns"), pa.timestamp("us")
    read = {
        "nanoseconds": of(1, nanoseconds),
        "nanoseconds in Berlin": of(1, pa.timestamp("ns", "CET")),
        "no time": pa.nulls(count, nanoseconds),
        "of a category": of(1, nanoseconds).dictionary_encode(),
        "a time": of(1, pa.time64("ns")),
        "a short time": of(1, pa.time32("s")),
        "before 1900": of(datetime.datetime(1600, 1, 1), far),
        "the first day": of(-719162, pa.date32()),
        "after 2262": of(datetime.datetime(2300, 1, 1), far),
        "a day": of(1, pa.date64()),
        "a duration": of(1, pa.duration("ns")),
        "bytes": of(b"\xff"),
        "four bytes": of(b"abcd", pa.binary(4)),
        "large text": of("a", pa.large_string()),
        "a view": of("a", pa.string_view()),
        "a category": texts.dictionary_encode(),
        "categories in a list": pa.ListArray.from_arrays(starts, texts.dictionary_encode()),
        "a struct": of({"a": {"b": 1}}),
        "a struct with a time": of({"a": 1}, pa.struct([("a", nanoseconds)])),
        "structs in a list": of([{"a": 1}]),
        "times in a list": of([1], pa.list_(nanoseconds)),
        "a map": of([("a", "b"), ("a", "c")], pa.map_(pa.string(), pa.string())),
        "null in a list": of(["a", None]),
        "a large list": of(["a"], pa.large_list(pa.string())),
        "a list of two": of(["a", "b"], pa.list_(pa.string(), 2)),
        "a decimal": of(decimal.Decimal("1.50")),
        "76 digits": of(10**75, pa.decimal256(76)),
        "64 bits": of(2**64 - 1, pa.uint64()),
        "half precision": of(1.0, pa.float16()),
        "NaN": of(float("nan")),
        "infinity": of(float("inf")),
        "a bool": of(True),
        "a byte": of(1, pa.int8()),
        "nothing": pa.nulls(count),
        "a text": texts,
        "an empty text": of(""),
        "a UUID": of(b"a" * 16, pa.uuid()),
    }
    unread = {
        "a text that is not UTF-8": not_utf_8,
        "one of a category": not_utf_8.dictionary_encode(),
        "one in a list": pa.ListArray.from_arrays(starts, not_utf_8),
        "one in a struct": pa.StructArray.from_arrays([not_utf_8], ["a"]),
        "a far time": of(2**63 - 1, far),
        "one in a struct, too": of({"a": 2**62}, pa.struct([("a", far)])),
        "a far day": of(2**31 - 1, pa.date32()),
        "an unknown time zone": of(1, pa.timestamp("us", "Mars/Base")),
        "names twice in a struct": pa.StructArray.from_arrays([texts, texts], ["a", "a"]),
    }
    return read, unread


def spoil_column(rng: random.Random, path: pathlib.Path) -> Change:
    """Adds a column of a random type to a table, or replaces one of its columns."""
    return _FORMS[path.suffix](rng, path)


def _judged(name: str, kind: str, is_readable: bool, value: Any) -> Change:
    """Describes the change that a column makes, and whether a command must refuse or accept it.

    Args:
      name: the name of the column.
      kind: the type of its values, in words.
      is_readable: whether the command must read it as an additional column.
      value: the value in Python; an ellipsis if JSON has no such value.
    """
    is_text = isinstance(value, str) or value is None or value != value  # NaN is a missing value
    is_list = isinstance(value, list) and name in ("grounding", "history")
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and name == "id"
    is_wrong = name in _TEXTS and not (is_text or is_list or is_number or value is ...)
    description = f"{name}: {kind}"
    return Change(description, not is_readable or is_wrong, is_readable and name == FURTHER)


def _spoil_arrow(rng: random.Random, path: pathlib.Path) -> Change:
    import pyarrow as pa
    from pyarrow import parquet

    is_parquet = path.suffix == ".parquet"
    table = parquet.read_table(path) if is_parquet else pa.ipc.open_file(path).read_all()
    read, unread = arrow_columns(table.num_rows)
    kind = rng.choice([*read, *unread])
    name = rng.choice([FURTHER, FURTHER, *table.column_names])
    column = (read | unread)[kind]
    columns = {n: table[n] for n in table.column_names} | {name: column}
    write_arrow(pa.table(columns), path)
    values = {"a text": "a", "an empty text": "", "large text": "a", "a view": "a", "nothing": None}
    values |= {"a bool": True, "bytes": b"\xff", "a struct": {}, "infinity": b""}
    return _judged(name, kind, kind in read, values.get(kind, ...))


def write_arrow(table: Any, path: pathlib.Path) -> pathlib.Path:
    """Writes a table as a Parquet or an Arrow file, depending on the path's suffix."""
    import pyarrow as pa
    from pyarrow import parquet

    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return path


def _spoil_json(rng: random.Random, path: pathlib.Path) -> Change:
    text = path.read_text()
    rows = json.loads(text) if path.suffix == ".json" else list(map(json.loads, text.splitlines()))
    name = rng.choice([FURTHER, FURTHER, *rows[0]])
    kind = rng.choice([*_READABLE, *_UNREADABLE])
    value = (_READABLE | _UNREADABLE)[kind]
    number = rng.randrange(len(rows))
    lines = [json.dumps(row) for row in rows]
    kept_values = {n: inner for n, inner in rows[number].items() if n != name}
    lines[number] = f'{json.dumps({**kept_values, "": 0})[:-6]}"{name}": {value}}}'
    twice = rng.random() < 0.1
    if twice:
        lines[number] = f'{lines[number][:-1]}, "{name}": 0}}'
        kind = f"{kind}, and the key twice"
    is_array = path.suffix == ".json"
    path.write_text(f"[{', '.join(lines)}]" if is_array else "\n".join(lines) + "\n")
    is_readable = kind in _READABLE
    return _judged(name, kind, is_readable, json.loads(value) if is_readable else ...)


def _spoil_cells(rng: random.Random, path: pathlib.Path) -> Change:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    rows = list(csv.reader(io.StringIO(path.read_text(), newline=""), delimiter=delimiter))
    name, cell = rng.choice([FURTHER, FURTHER, *rows[0]]), rng.choice(_CELLS)
    if name == FURTHER:
        rows = [[*row, name if not number else cell] for number, row in enumerate(rows)]
    else:
        rows[rng.randrange(1, len(rows))][rows[0].index(name)] = cell
    twice = rng.random() < 0.1
    if twice:
        rows = [[*row, row[0]] for row in rows]
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerows(rows)
    encoding = rng.choice(("utf-8", "utf-8-sig", "utf-16", "utf-32"))
    path.write_bytes(buffer.getvalue().encode(encoding))
    description = f"{name}: {cell[:20]!r} in {encoding}{', and a column twice' * twice}"
    return Change(description, twice, name == FURTHER and not twice and cell != "\x00")


_FORMS: Mapping[str, Callable[[random.Random, pathlib.Path], Change]] = {
    **dict.fromkeys((".parquet", ".arrow"), _spoil_arrow),
    **dict.fromkeys((".jsonl", ".json"), _spoil_json),
    **dict.fromkeys((".csv", ".tsv"), _spoil_cells),
}
