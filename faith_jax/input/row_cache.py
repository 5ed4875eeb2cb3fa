"""Rows as a run reads them, in Arrow files that any row can be read from at once."""

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute  # else an attribute of pyarrow only where something imports it

from faith_jax.core.files import atomic_file, report_write_errors

Row = Mapping[str, Any]

_FINGERPRINT = b"fingerprint"
_ROWS = 1000  # of an Arrow record batch
_IDS = pa.list_(pa.int32())
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("inputs", _IDS),
        ("targets", _IDS),
        ("knowledge", _IDS),
        ("negatives", pa.list_(_IDS)),
        ("second", pa.int32()),
        ("label", pa.int32()),
        ("length", pa.int32()),
        ("cut", pa.list_(pa.int32(), 4)),
        ("negatives_cut", pa.int32()),
        ("grounding", pa.int64()),
        ("part_tokens", pa.list_(pa.int32(), 5)),  # as unknown, of tokenizers.unknown.PARTS
        ("unknown", pa.list_(pa.int32(), 5)),
        ("unknown_characters", pa.string()),
    ]
)


class RowCache:
    """The rows of one split of a task, read from memory-mapped files when they are asked for.

    Attributes:
      name: of the task, for messages.
      keeps_order: whether the task asks for its rows in their own order.
    """

    def __init__(self, paths: Sequence[pathlib.Path], name: str, keeps_order: bool = False):
        self.name, self.keeps_order = name, keeps_order
        self._files = [pa.ipc.open_file(pa.memory_map(str(path))) for path in paths]
        self._record_batches = [
            (file, n) for file in self._files for n in range(file.num_record_batches)
        ]
        self._starts = np.cumsum(
            [0, *(file.get_batch(n).num_rows for file, n in self._record_batches)]
        )

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Returns a row's arrays: `inputs` and, where it has them, the others of token ids."""
        batch = int(np.searchsorted(self._starts, number, side="right")) - 1
        file, inner = self._record_batches[batch]
        columns = file.get_batch(inner).slice(number - int(self._starts[batch]), 1)
        row: dict[str, Any] = {
            name: columns.column(name)[0].values.to_numpy(zero_copy_only=False)
            for name in ("inputs", "targets", "knowledge")
        }
        row["negatives"] = columns.column("negatives")[0].as_py()
        for name in ("second", "label"):
            row[name] = columns.column(name)[0].as_py()
        return row

    def column(self, name: str) -> Any:
        """Returns a column of all rows, as a `pyarrow.ChunkedArray`."""
        columns = [file.read_all().column(name) for file in self._files]
        chunks = [chunk for column in columns for chunk in column.chunks]
        return pa.chunked_array(chunks, _SCHEMA.field(name).type)

    def lengths(self, name: str) -> np.ndarray:
        """Returns the number of tokens of each row in a column of token ids: int [rows]."""
        return np.asarray(pa.compute.list_value_length(self.column(name)))


def read_cache(path: pathlib.Path, fingerprint: str) -> bool:
    """Whether there is a whole cache of just these rows."""
    try:
        with pa.memory_map(str(path)) as source:
            metadata = pa.ipc.open_file(source).schema.metadata or {}
    except (OSError, pa.ArrowInvalid):
        return False
    return metadata.get(_FINGERPRINT) == fingerprint.encode()


def write_cache(path: pathlib.Path, rows: Iterable[Row], fingerprint: str, contents: str) -> None:
    """Writes rows into a cache, which appears complete or not at all.

    Raises:
      ConfigError: the file cannot be written.
      StorageError: the disk is full.
    """
    schema = _SCHEMA.with_metadata({_FINGERPRINT: fingerprint})
    with (
        report_write_errors(f"{path}: {contents}"),
        atomic_file(path) as beside,
        pa.OSFile(str(beside), "wb") as file,
        pa.ipc.new_file(file, schema) as writer,
    ):
        for batch in _record_batches(rows, schema):
            writer.write_batch(batch)


def _record_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    empty: Row = {"inputs": [], "targets": [], "knowledge": [], "negatives": []}
    remaining = iter(rows)
    while batch := [{**empty, **row} for row in itertools.islice(remaining, _ROWS)]:
        yield pa.RecordBatch.from_pylist(batch, schema)
