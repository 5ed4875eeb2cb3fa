"""Spoils files at random, and tells whether the result can still be read.

The possible changes depend on a file's format: bytes of any file, values of JSON, cells of CSV and
TSV, tensors of safetensors, arrays of .npy. `is_broken` uses readers that are not ours: a file that
they cannot read must be refused, however it was changed.
"""

import csv
import io
import json
import pathlib
import pickle
import random
import shutil
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

UNIQUE = "(unique ids)"  # one of `required`: rows with repeated ids must be refused
_MAY_BE_BLANK = ("generated_text",)  # a model may answer with nothing
_MAY_BE = {"generated_text": (None,), "grounding": (["x"],)}  # valid values of another type
_VALUES: tuple[Any, ...] = (
    None, True, 0, -3, 2**70, 10**400, 1.5, 1e308, float("nan"), float("inf"), "", "  ", "x",
    "\ud800", "\x00", "\x1b[31m", "../../x", "x" * 100_000, [], [[]], ["x"], [None], {}, {"x": {}},
)  # fmt: skip
_WRONG: dict[type, tuple[Any, ...]] = {  # invalid in any schema that has this type there
    str: (None, [], ["x"], {}, {"x": [1]}),
    bool: ("x", [], {}, "maybe", None),
    int: ("x", [], {}, float("nan"), None),
    float: ("x", [], {}, None),
    list: (3, "", {"x": 1}, None, True),
    dict: (3, "x", [3], None, True),
}


class Change(NamedTuple):
    """A change to an input, and whether a command must refuse or accept the result."""

    what: str
    must_refuse: bool = False
    must_accept: bool = False


class _Pickled:
    """Writes the canary when it is unpickled."""

    def __init__(self, canary: pathlib.Path):
        self.canary = canary

    def __reduce__(self):
        return (open, (str(self.canary), "w"))


def pickled(canary: pathlib.Path) -> bytes:
    """Returns a pickle that writes the file `canary` when it is loaded."""
    return pickle.dumps(_Pickled(canary))


def is_broken(path: pathlib.Path) -> bool:
    """Whether a standard reader of the file's format cannot read the whole file."""
    content, suffix = path.read_bytes(), path.suffix
    try:
        if suffix in (".json", ".jsonl"):
            text = content.decode("utf-8-sig")
            if suffix == ".json" or text.startswith("["):  # some .jsonl is an array
                json.loads(text)
            elif not all(isinstance(json.loads(t), dict) for t in text.split("\n") if t.strip()):
                return True
        elif suffix in (".csv", ".tsv", ".gin"):
            content.decode("utf-8-sig")
        elif suffix == ".safetensors":
            import safetensors

            safetensors.deserialize(content)
        elif suffix == ".parquet":
            from pyarrow import parquet

            parquet.read_table(io.BytesIO(content)).to_pylist()
        elif suffix == ".npy":
            np.load(io.BytesIO(content), allow_pickle=False)
    except RecursionError:  # deep nesting is valid
        return content.count(b"[") != content.count(b"]")
    except Exception as error:
        return "digits" not in str(error)
    return False


def spoil_bytes(rng: random.Random, path: pathlib.Path, canary: pathlib.Path) -> Change:
    """Changes the bytes of any file, or puts something else in its place."""
    content, was_broken = path.read_bytes(), is_broken(path)
    kind = rng.choice(
        ("cut", "cut", "flipped", "inserted", "taken out", "empty", "UTF-16", "a mark", "noise")
        + ("a folder", "missing", "a link to itself", "a pickle", "nested", "repeated")
    )
    at = rng.randrange(len(content) + 1)
    if kind in ("a folder", "missing", "a link to itself"):
        path.unlink()
        if kind == "a folder":
            path.mkdir()
        elif kind != "missing":
            path.symlink_to(path)
        return Change(kind, True)
    more = rng.choice((b"\xff", b"\x00", b'"', b"\n", b"\r", b",", b"\t", b"{", b"\xed\xa0\x80"))
    flipped = bytearray(content)
    for _ in range(rng.choice((1, 1, 8)) if content else 0):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    spoiled_bytes = {
        "cut": content[: rng.randrange(len(content) or 1)],
        "flipped": bytes(flipped),
        "inserted": content[:at] + more + content[at:],
        "taken out": content[:at] + content[at + rng.choice((1, 5, 400)) :],
        "empty": b"",
        "UTF-16": content.decode("utf-8", "replace").encode("utf-16"),
        "a mark": b"\xef\xbb\xbf" + content,
        "noise": rng.randbytes(300),
        "a pickle": pickled(canary),
        "nested": b'{"x":' + b"[" * 100_000,
        "repeated": content + content,
    }[kind]
    path.write_bytes(spoiled_bytes)
    description = f"{kind} (byte {at}: {more!r})" if kind == "inserted" else kind
    return Change(description, is_broken(path) and not was_broken)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*path, key))


def spoil_value(rng: random.Random, value: Any, required: Collection[str]) -> Change:
    """Changes, renames or removes one entry of a JSON value, in place.

    Args:
      rng: the random generator.
      value: an object or a list.
      required: keys that must be present at every depth, with a value of the right type.
    """
    places = [place for place in _places(value) if place[-1] in required]
    if not places or rng.random() < 0.4:
        places = list(_places(value))
    if not places:
        return Change("nothing")
    *above, last = rng.choice(places)
    holder = value
    for key in above:
        holder = holder[key]
    place, old, must = ".".join(map(str, [*above, last])), holder[last], last in required
    kind = rng.choice(("taken out", "renamed", "another value", "another value", "wrong"))
    if kind == "wrong" and must:
        holder[last] = rng.choice(_WRONG.get(type(old), (None,)))
        # Any value may be right for an optional field, which is null here.
        may_be = old is None or holder[last] in _MAY_BE.get(last, ())
        return Change(f"{place} = {holder[last]!r}", not may_be)
    if kind in ("taken out", "renamed") and (isinstance(holder, dict) or kind == "taken out"):
        del holder[last]
        if kind == "renamed":
            holder[f"{last}x"] = old
        return Change(f"{place} {kind}", must and old is not None)
    holder[last] = rng.choice(_VALUES)
    return Change(f"{place} = {str(holder[last])[:30]!r}")


def _spoil_json(
    rng: random.Random, path: pathlib.Path, required: Collection[str], canary: pathlib.Path
) -> Change:
    value = json.loads(path.read_text(encoding="utf-8-sig"))
    change = spoil_value(rng, value, required)
    text = json.dumps(value)
    if rng.random() < 0.1 and text.endswith("}"):
        more, fault = _too_much(rng)
        text, change = f'{text[:-1]}, "more": {more}}}', Change(fault)
    path.write_text(text)
    return change


def _too_much(rng: random.Random) -> tuple[str, str]:
    """Returns valid JSON that is too deep or too long for some readers, and its description."""
    if rng.random() < 0.3:
        return "9" * 5000, "5,000 digits"
    depth = rng.choice((90, 300, 450, 900, 1100, 3000, 100_000))
    return "[" * depth + "]" * depth, f"{depth} lists in each other"


def _spoil_jsonl(
    rng: random.Random, path: pathlib.Path, required: Collection[str], canary: pathlib.Path
) -> Change:
    lines = path.read_text(encoding="utf-8-sig").strip().split("\n")
    number = rng.randrange(len(lines))
    match rng.choice(("value",) * 6 + ("twice", "cut", "no object", "too much")):
        case "twice":
            lines.insert(number, lines[number])
            change = Change(f"line {number + 1} twice", UNIQUE in required)
        case "cut":
            lines[number] = lines[number][: rng.randrange(1, len(lines[number]))]
            change = Change(f"line {number + 1} cut", True)
        case "no object":
            lines[number] = rng.choice(("[]", "null", '"x"', "NaN", "{}x", "5"))
            change = Change(f"line {number + 1} is {lines[number]}", True)
        case "too much":
            more, fault = _too_much(rng)
            lines[number] = f'{lines[number][:-1]}, "more": {more}}}'
            change = Change(f"line {number + 1} has {fault}")
        case _:
            row = json.loads(lines[number])
            fault = spoil_value(rng, row, required)
            lines[number] = json.dumps(row)
            change = fault._replace(what=f"line {number + 1}: {fault.what}")
    path.write_text("\n".join(lines) + "\n")
    return change


def _spoil_cells(
    rng: random.Random, path: pathlib.Path, required: Collection[str], canary: pathlib.Path
) -> Change:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    text = path.read_text(encoding="utf-8-sig")
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    number, column = rng.randrange(1, len(rows)), rng.randrange(len(rows[0]))
    name, must = rows[0][column], rows[0][column] in required
    match rng.choice(("cell", "cell", "header", "quote", "short", "long", "column", "twice")):
        case "header":
            rows[0][column] = rng.choice(("", "x", f"{name} x", name.upper() + "X"))
            change = Change(f"column {name!r} renamed {rows[0][column]!r}", must)
        case "quote" if delimiter == ",":
            joined = text.rstrip("\n") + '\n"open' + ",x" * (len(rows[0]) - 1) + "\n"
            path.write_text(joined, newline="")
            return Change("a quote that is never closed", True)
        case "short":
            rows[number] = rows[number][:-1]
            change = Change(f"row {number} lacks a cell", len(rows[0]) > 1)
        case "long":
            rows[number].append("x")
            change = Change(f"row {number} has a cell too many", True)
        case "column":
            rows = [[*row, "more"] for row in rows]
            change = Change("a further column")
        case "twice":
            rows.insert(number, rows[number])
            change = Change(f"row {number} twice", UNIQUE in required)
        case _:
            value = rng.choice([v for v in _VALUES if isinstance(v, str)] + ["9" * 400, "nan"])
            value = value.encode("utf-8", "replace").decode()
            rows[number][column] = value
            must &= not value.strip() and name not in _MAY_BE_BLANK
            change = Change(f"row {number}: {name} = {value[:30]!r}", must)
    buffer = io.StringIO(newline="")
    if delimiter == ",":
        csv.writer(buffer).writerows(rows)
    else:
        buffer.write("".join("\t".join(row) + "\n" for row in rows))
    path.write_text(buffer.getvalue(), newline="")
    return change


def _spoil_tensors(
    rng: random.Random, path: pathlib.Path, required: Collection[str], canary: pathlib.Path
) -> Change:
    """Changes the header or the numbers of a safetensors file, but not the length of its data."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    name = rng.choice([n for n in header if n != "__metadata__"])
    tensor_entry, data = header[name], content[8 + size :]
    kind = rng.choice(("gone", "renamed", "shape", "dtype", "offsets", "size", "NaN", "value"))
    must = kind not in ("NaN", "value")
    match kind:
        case "gone":
            del header[name]
        case "renamed":
            header[f"{name}x"] = header.pop(name)
        case "shape":
            tensor_entry["shape"] = rng.choice(
                ([*tensor_entry["shape"], 1], [2**40], [-1], "x", [], [0])
            )
        case "dtype":
            tensor_entry["dtype"] = rng.choice(("I32", "F8", "x", None, "BOOL", "F64"))
        case "offsets":
            tensor_entry["data_offsets"] = rng.choice(([0, 2**60], [-4, 0], [4, 0], ["0", "4"], []))
        case "NaN":
            data = np.full(len(data) // 4, rng.choice((np.nan, np.inf)), np.float32).tobytes()
        case "value":
            spoil_value(rng, header, ())
    header_bytes = json.dumps(header).encode()
    header_bytes += b" " * (-len(header_bytes) % 8)
    sizes = (len(header_bytes) + 1, 2**62, 0, 2**63) if kind == "size" else (len(header_bytes),)
    path.write_bytes(rng.choice(sizes).to_bytes(8, "little") + header_bytes + data)
    return Change(f"{name}: {kind}", must or is_broken(path))


def _spoil_array(
    rng: random.Random, path: pathlib.Path, required: Collection[str], canary: pathlib.Path
) -> Change:
    array = np.load(path)
    kind = rng.choice(("pickled", "archive", "NaN", "flat", "deep", "texts", "whole", "none"))
    if kind == "pickled":
        np.save(path, np.array([_Pickled(canary)], dtype=object), allow_pickle=True)
    elif kind == "archive":
        np.savez_compressed(path.with_suffix(".npz"), np.zeros((4000, 4000)))
        path.with_suffix(".npz").replace(path)
    else:
        np.save(path, {
            "NaN": array * np.nan, "flat": array.ravel(), "deep": array[None],
            "texts": array.astype(str), "whole": array.astype(np.int32), "none": array[:0],
        }[kind])  # fmt: skip
    return Change(kind, True)


def _spoil_parquet(
    rng: random.Random, path: pathlib.Path, required: Collection[str], canary: pathlib.Path
) -> Change:
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(path)
    name = rng.choice([n for n in table.column_names if n in required] or table.column_names)
    place, count, must = table.column_names.index(name), table.num_rows, name in required
    match rng.choice(("gone", "renamed", "null", "numbers", "nested", "bytes", "none")):
        case "gone":
            table, change = table.drop_columns([name]), Change(f"{name}: taken out", must)
        case "renamed":
            names = [f"{n}x" if n == name else n for n in table.column_names]
            table, change = table.rename_columns(names), Change(f"{name}: renamed", must)
        case "none":
            table, change = table.slice(0, 0), Change("no rows")
        case kind:
            columns = {
                "null": pyarrow.nulls(count),
                "numbers": pyarrow.array([float("nan")] * count),
                "nested": pyarrow.array([[{"x": [1]}]] * count),
                "bytes": pyarrow.array([b"\xff"] * count),
            }
            table = table.set_column(place, name, columns[kind])
            change = Change(f"{name}: {kind}", must)
    parquet.write_table(table, path)
    return change


_FORMS = {
    ".json": _spoil_json, ".jsonl": _spoil_jsonl, ".csv": _spoil_cells, ".tsv": _spoil_cells,
    ".safetensors": _spoil_tensors, ".npy": _spoil_array, ".parquet": _spoil_parquet,
}  # fmt: skip


def spoil_file(
    rng: random.Random, path: pathlib.Path, required: Collection[str], canary: pathlib.Path
) -> Change:
    """Changes a file, in six of ten draws within its format.

    Args:
      rng: the random generator.
      path: an intact file.
      required: keys or columns that must be present; may include `UNIQUE`.
      canary: the file that a pickle would write.
    """
    # The suffix of some files does not tell their format.
    spoil = None if is_broken(path) else _FORMS.get(path.suffix)
    if spoil and rng.random() < 0.6:
        change = spoil(rng, path, required, canary)
        return change._replace(must_refuse=change.must_refuse or is_broken(path))
    return spoil_bytes(rng, path, canary)


def copied(source: pathlib.Path, target: pathlib.Path) -> None:
    """Copies a file or a folder."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
