"""Rows as a run reads them, in Arrow files with random access to rows.

Each process of a run makes some of the files. Their number depends on the data alone, and each is
made independently. So rows and their numbers are the same for any number of processes.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import pyarrow as pa
import pyarrow.compute  # pyarrow does not import this submodule itself

from faith_jax.core.errors import ConfigError, ProcessError, StorageError
from faith_jax.core.files import atomic_file, report_write_errors
from faith_jax.core.files.stores import fetch_file, is_remote, upload_file
from faith_jax.core.files.whole import remove_tree
from faith_jax.core.processes import raise_together
from faith_jax.core.progress import Progress

Row = Mapping[str, Any]

EXAMPLES = 2000  # per part; a part adds a fifth of a second to the time of its examples
MOST = 64  # parts; larger data has more examples per part
_FINGERPRINT = b"fingerprint"
_ROWS = 1000  # per Arrow record batch
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
        ("part_tokens", pa.list_(pa.int32(), 5)),  # like unknown, by tokenizers.unknown.PARTS
        ("unknown", pa.list_(pa.int32(), 5)),
        ("unknown_characters", pa.string()),
    ]
)


class RowCache:
    """The rows of one split of a task, read on demand from memory-mapped files.

    Attributes:
      name: of the task, for messages.
      keeps_order: whether the task wants its rows unshuffled.
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
        """Returns a row's arrays of token ids (absent ones are empty), `second` and `label`."""
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
    """Whether a complete cache with this fingerprint exists."""
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


@dataclasses.dataclass(frozen=True)
class RowsPart:
    """A part of a task's rows: its file name, a fingerprint, and a function that makes its rows."""

    name: str
    fingerprint: str
    rows: Callable[[], Iterator[Row]]


def count_parts(task: Any, split: str, use_cached: bool) -> int:
    """Returns the number of parts in which the rows of a SeqIO task are made.

    It is 1 for a task that keeps the order of its rows. To read no example twice, a source that
    cannot be read in ranges, unlike ours, has at most as many parts as files.
    """
    if task.shuffle_buffer_size is None:
        return 1
    source = task._get_cached_source(split) if use_cached else task.source
    examples = source.num_input_examples(split)
    parts = MOST if examples is None else min(MOST, -(-examples // EXAMPLES))
    if not source.supports_arbitrary_sharding:
        parts = min(parts, len(source.list_shards(split)))
    return max(1, parts)


def make_parts(
    parts: Sequence[RowsPart], local: pathlib.Path, shared: pathlib.Path | None, contents: str
) -> None:
    """Makes the missing parts, after which the folder `local` holds all of them.

    Processes of a run share the folder `shared`, where each makes its own parts: `local` itself, or
    a folder of a store, from which each process copies the parts that the others have made. None =
    each process makes all parts. `contents` names the rows in messages.

    Raises:
      FaithJaxError: a row is bad; all processes raise the error of the first bad row. No part is
        kept, because the data must change.
      ProcessError: another process does not arrive.
      ConfigError: `local` cannot be written, or `shared` is not shared.
      StorageError: the disk is full.
    """
    index, count = (jax.process_index(), jax.process_count()) if shared else (0, 1)
    progress, done, number = Progress(f"making {contents}: row"), 0, 0
    problem: BaseException | None = None

    def count_rows(rows: Iterator[Row]) -> Iterator[Row]:
        nonlocal done
        for row in rows:
            yield row
            done += 1
            progress.update(done)

    try:
        with report_write_errors(f"{local}: {contents}"):
            local.mkdir(parents=True, exist_ok=True)
        for number in range(index, len(parts), count):
            part = parts[number]
            if not _is_there(part, local, shared):
                write_cache(local / part.name, count_rows(part.rows()), part.fingerprint, contents)
                if shared and is_remote(shared):
                    with report_write_errors(f"{shared}: {contents}"):
                        upload_file(local / part.name, shared / part.name)
        progress.update(done, force=True)
    except BaseException as error:  # of any kind: the other processes wait in `raise_together`
        problem = error
    try:
        raise_together(problem, f"make {contents}", number)
    except (ProcessError, StorageError):
        raise  # keep the parts: the same command resumes
    except Exception:
        if shared and index == 0:
            remove_tree(shared)
        raise
    try:
        missing = next((part.name for part in parts if not _is_there(part, local, shared)), None)
        if missing:
            problem = ConfigError(
                f"{shared or local}: process {index} does not find {missing}, which another one "
                "has made: MODEL_DIR is not on storage that all processes share."
            )
    except Exception as error:
        problem = error
    raise_together(problem, f"find {contents}")


def _is_there(part: RowsPart, local: pathlib.Path, shared: pathlib.Path | None) -> bool:
    path = local / part.name
    if read_cache(path, part.fingerprint):
        return True
    if shared is None or not is_remote(shared) or not fetch_file(shared / part.name, path):
        return False
    return read_cache(path, part.fingerprint)
