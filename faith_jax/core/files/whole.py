"""Files that appear whole or not at all, and stay after a power cut."""

import contextlib
import errno
import json
import os
import pathlib
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from faith_jax.core.errors import ConfigError, StorageError, storage_failure
from faith_jax.core.files import growing_rows
from faith_jax.core.files.private import is_stream, private_place
from faith_jax.core.files.staging import copy_within, upload_file, upload_folder
from faith_jax.core.files.stores import is_remote, path_of, reason, storage_errors


@contextlib.contextmanager
def atomic_file(path: str | pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a local path, beside that of a file on a disk, whose place it takes at the end.

    On an error nothing is left, and what stood at `path` stays. If nothing is written, nothing
    changes. Several processes may write a file at once; the last one wins. What is no regular file,
    such as a pipe or /dev/null, is written to, and never replaced; "-" is standard output.
    """
    target = path_of(path)
    with private_place(target) as beside:
        yield beside
        if beside.exists():
            (_copy_to_stream if is_stream(target) else move_into_place)(beside, target)


def _copy_to_stream(source: pathlib.Path, target: pathlib.Path) -> None:
    if str(target) == "-":
        sys.stdout.write(source.read_text(encoding="utf-8"))
        return
    with open(source, "rb") as file, open(target, "wb", buffering=0) as stream:
        shutil.copyfileobj(file, stream)


def move_into_place(source: pathlib.Path, target: pathlib.Path) -> None:
    """Moves a file or folder to its place, where it stays after a power cut.

    Its data is on disk before it has its name. A folder takes the place of a file or an empty
    folder only. To a store it is copied: see `staging`.
    """
    if is_remote(target):
        if is_remote(source):
            copy_within(source, target)
        else:
            (upload_folder if source.is_dir() else upload_file)(source, target)
        return
    sync(source)
    os.replace(source, target)
    sync_entry(target.parent)


def sync(path: pathlib.Path) -> None:
    """Returns when a file, or a folder with all that is in it, is on disk.

    A file of rows on a store is one object then.
    """
    if is_remote(path):
        if growing_rows.current(path) is not path:
            growing_rows.growing(path).finish()
        return
    if path.is_dir():
        for inner in path.iterdir():
            if not inner.is_symlink():
                sync(inner)
    sync_entry(path)


def sync_entry(path: pathlib.Path) -> None:
    """Returns when a file, or which names a folder has, is on disk."""
    if is_remote(path):
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # folders of some file systems
            raise
    finally:
        os.close(file)


@contextlib.contextmanager
def report_write_errors(place: Any) -> Iterator[None]:
    """Turns an OSError into an error that says that `place` cannot be written.

    Raises:
      StorageError: the disk is full, or fails.
      ConfigError: anything else that the user can change.
    """
    try:
        yield
    except storage_errors() as error:
        kind = StorageError if storage_failure(error) else ConfigError
        raise kind(f"{place}: cannot be written ({reason(error)}).") from None


def write_text(path: str | pathlib.Path, text: str) -> None:
    """Writes a file, which appears whole or not at all.

    Raises:
      ConfigError: it cannot be written.
    """
    with report_write_errors(path), atomic_file(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(path: str | pathlib.Path, value: Any) -> None:
    """Writes a value as JSON, as `write_text` does; paths become texts."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def read_json_or_none(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns the object that `write_json` wrote; None where there is none, or no whole one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_jsonl(path: str | pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSON, one a line, as `write_text` does."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def make_output_folder(output: str | pathlib.Path, option: str = "--output") -> pathlib.Path:
    """Returns the folder of an option, which is made where it is not there.

    Raises:
      ConfigError: it cannot be made.
    """
    folder = path_of(output)
    with report_write_errors(f"{option}: {folder}"):
        if not is_remote(folder):
            folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def remove_new_folders_on_error(folder: pathlib.Path) -> Iterator[None]:
    """Removes on an error a folder and those above it which are made within, if they are empty."""
    if is_remote(folder):
        yield  # it is gone with what was in it
        return
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for path in missing:
                path.rmdir()
        raise


def check_space(place: pathlib.Path, size: int) -> None:
    """Checks that a disk has room before much is written to it.

    Args:
      place: a file or folder to be, on this disk.
      size: bytes.

    Raises:
      StorageError: it has not; says how much is needed, and how much is free.
    """
    if is_remote(place):
        return
    folder = next(path for path in place.absolute().parents if path.is_dir())
    free = shutil.disk_usage(folder).free
    if free < size:
        raise StorageError(
            f"{place}: No space left on device: {size / 1e6:,.1f} MB are needed, "
            f"{free / 1e6:,.1f} MB are free."
        )


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Makes Ctrl-C and SIGTERM wait: libraries that write in threads abort if they break off."""
    signals: list[tuple[int, Any]] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    before = {number: signal.signal(number, lambda *a: signals.append(a)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signals:
        signal.raise_signal(signals[0][0])
