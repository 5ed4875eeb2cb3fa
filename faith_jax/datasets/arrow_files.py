"""Reads Parquet and Arrow files as rows of Python's types."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

from faith_jax.core.errors import InputError, reason
from faith_jax.core.files.stores import is_remote, open_binary
from faith_jax.core.rows import Row, check_columns

_ROWS = 1024  # of an Arrow batch
# What Arrow raises where Python has no value: a far date, an unknown time zone, no pandas.
_UNREADABLE = (ValueError, OverflowError, ImportError, LookupError, NotImplementedError)
_BEYOND = "<value out of range"  # as Arrow writes a time that is no date


def read_parquet(path: pathlib.Path, first: int) -> Iterator[Row]:
    """Yields the rows of a Parquet file from row `first` on."""
    from pyarrow import parquet

    with _reported_errors(path, "Parquet"):
        source = open_binary(path) if is_remote(path) else path
        with parquet.ParquetFile(source) as file:
            number, groups = 0, list(range(file.metadata.num_row_groups))
            while groups and number + file.metadata.row_group(groups[0]).num_rows <= first:
                number += file.metadata.row_group(groups.pop(0)).num_rows
            batches = file.iter_batches(batch_size=_ROWS, row_groups=groups)
            yield from _rows_of(path, batches, number, first)


def read_arrow(path: pathlib.Path, first: int) -> Iterator[Row]:
    """Yields the rows of an Arrow file, or of an Arrow stream, as `datasets` writes it."""
    import pyarrow

    with _reported_errors(path, "Arrow"), open_binary(path) as file:
        if file.read(6) == b"ARROW1":
            batch_reader = pyarrow.ipc.open_file(file)
            numbers = range(batch_reader.num_record_batches)
            batches: Iterator[Any] = map(batch_reader.get_batch, numbers)
        else:
            file.seek(0)
            batches = iter(pyarrow.ipc.open_stream(file))
        yield from _rows_of(path, batches, 0, first)


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


def _rows_of(path: pathlib.Path, batches: Iterator[Any], number: int, first: int) -> Iterator[Row]:
    """Yields the rows of Arrow batches from row `first` on; `number` are before the batches."""
    for batch in batches:
        check_columns(batch.schema.names, path)
        wanted = batch.slice(min(batch.num_rows, max(0, first - number)))
        number += batch.num_rows - wanted.num_rows
        for start in range(0, wanted.num_rows, _ROWS):
            for fields in _python_rows(path, wanted.slice(start, _ROWS)):
                number += 1
                yield Row(f"{path}:{number}", fields)


def _python_rows(path: pathlib.Path, batch: Any) -> list[dict[str, Any]]:
    """Returns the rows of an Arrow batch; times that Python's types cannot hold are texts.

    Raises:
      InputError: a column holds texts that are not UTF-8, or what neither Python nor a text holds.
    """
    import pyarrow

    try:
        return batch.to_pylist()
    except _UNREADABLE:  # tell no column
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
            with contextlib.suppress(pyarrow.ArrowException):  # of nanoseconds
                texts = column.cast(pyarrow.string()).to_pylist()
            if any(text is not None and text.startswith(_BEYOND) for text in texts):
                raise InputError(
                    f"{path}: column {name!r}: a {column.type} cannot be read ({reason(error)}); "
                    "convert or drop it."
                ) from None
            columns.append(texts)
    rows = zip(*columns, strict=True)
    return [dict(zip(batch.schema.names, row, strict=True)) for row in rows]
