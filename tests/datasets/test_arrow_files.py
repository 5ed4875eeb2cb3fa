"""Parquet and Arrow files are read as rows of Python's types."""

import struct

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from faith_jax.core.errors import InputError
from faith_jax.datasets import tables
from faith_jax.datasets.tables import read_rows

ROWS = [{"question": f"Is tea {word}?", "contexts": ["Tea is hot."]} for word in ("hot", "a", "b")]


def fields_of(path):
    return [row.fields for row in read_rows(path)]


def test_arrow_and_parquet(tmp_path):
    table = pa.Table.from_pylist(ROWS)
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=2)
    feather.write_feather(table, tmp_path / "rows.feather")
    with pa.ipc.new_stream(tmp_path / "rows.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    for ending in ("parquet", "feather", "arrow"):
        path = tmp_path / f"rows.{ending}"
        for first in range(4):
            rows = list(read_rows(path, first=first))
            assert [row.fields for row in rows] == ROWS[first:]
            assert [row.place for row in rows] == [f"{path}:{n}" for n in range(first + 1, 4)]
    (tmp_path / "cut.arrow").write_bytes((tmp_path / "rows.arrow").read_bytes()[:300])
    with pytest.raises(InputError, match=r"cut.arrow: not a whole Arrow file \("):
        fields_of(tmp_path / "cut.arrow")


def test_lists_of_a_fixed_size_may_be_null(tmp_path):
    vectors = [[1, 2], None, [3, None]]
    column = pa.array(vectors, pa.list_(pa.int32(), 2))
    parquet.write_table(pa.table({"vector": column}), tmp_path / "rows.parquet")
    assert [row["vector"] for row in fields_of(tmp_path / "rows.parquet")] == vectors


def test_bytes_that_are_utf_8_are_texts(tmp_path):
    texts = {
        "grounding": pa.array([b"Tea is h\xc3\xb4t.", None], pa.binary()),
        "contexts": pa.array([[b"Tea.", None], []], pa.list_(pa.binary())),
        "photo": pa.array([b"\xff", b"x"], pa.binary()),
        "uuid": pa.array([b"ab", b"cd"], pa.binary(2)),
    }
    parquet.write_table(pa.table(texts), tmp_path / "rows.parquet")
    assert fields_of(tmp_path / "rows.parquet") == [
        {
            "grounding": "Tea is h\xf4t.",
            "contexts": ["Tea.", None],
            "photo": b"\xff",
            "uuid": b"ab",
        },
        {"grounding": None, "contexts": [], "photo": b"x", "uuid": b"cd"},
    ]


NOT_UTF_8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, 1)), pa.py_buffer(b"\xff")]
)


def without_pandas(self):
    raise ValueError("Nanosecond resolution needs pandas.")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([1], pa.timestamp("ns")), "1970-01-01 00:00:00.000000001"),
        (pa.array([None], pa.timestamp("ns")), None),
    ],
)
def test_times_that_python_cannot_hold_are_texts(tmp_path, monkeypatch, column, text):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"response": ["a"], "at": column}), path)

    class Scalars:
        """Stands in for a column whose values only pandas can represent."""

        to_pylist = without_pandas
        cast = staticmethod(column.cast)
        type = column.type

    class Batch:
        to_pylist = without_pandas
        columns = (pa.array(["a"]), Scalars())
        schema = pa.schema({"response": pa.string(), "at": column.type})

    assert tables._python_rows(path, Batch()) == [{"response": "a", "at": text}]
    (row,) = fields_of(path)  # as it is here
    assert (row["at"] is None) == (text is None)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"at": pa.array([1], pa.timestamp("us", "Mars/Base"))},
            r"column 'at': a timestamp\[us, tz=Mars/Base\] cannot be read",
        ),
        ({"at": NOT_UTF_8}, "column 'at': holds text that is not UTF-8"),
    ],
)
def test_columns_that_cannot_be_read_are_named(tmp_path, columns, message):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"contexts": ["Tea."], **columns}), path)
    with pytest.raises(InputError, match=message):
        fields_of(path)


@pytest.mark.parametrize("write", [parquet.write_table, feather.write_feather])
def test_columns_of_one_name_are_an_error(tmp_path, write):
    table = pa.table([pa.array(["a"]), pa.array(["b"])], names=["answer", "answer"])
    path = tmp_path / ("rows.parquet" if write is parquet.write_table else "rows.arrow")
    write(table, path)
    with pytest.raises(InputError, match="column 'answer' is there twice; rename or drop one"):
        fields_of(path)
