"""Files of rows that grow during a run, so that it can resume at any point; also on object stores.

Objects of a store cannot be appended to. So a process appends to a local copy, which it uploads as
NAME.part every few seconds and when its lock is released. A finished file becomes the object NAME.
"""

import contextlib
import json
import operator
import os
import pathlib
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from faith_jax.core.errors import ConfigError
from faith_jax.core.files.stores import (
    content,
    is_remote,
    open_binary,
    translate_store_errors,
    upload_file,
    versions,
)

NOTE = "run.json"  # in the folder of a run
SECONDS = 30.0  # minimum between two uploads; also at least ten times as long as the last one took
_PART = ".part"


class _GrowingFile:
    """The local copy of a file of rows on a store.

    Attributes:
      folder: the temporary folder of the copy.
      local: the copy.
    """

    def __init__(self, path: Any):
        self._path, self._part = path, path.with_name(f"{path.name}{_PART}")
        self.folder = tempfile.TemporaryDirectory(prefix="faith_jax_")
        self.local = pathlib.Path(self.folder.name) / path.name
        self._finished = self._fetch(path)
        self._has_part = not self._finished and self._fetch(self._part)
        self._run = self._read_note()
        self._is_changed, self._next_upload = False, time.monotonic() + SECONDS

    def _fetch(self, source: Any) -> bool:
        """Copies an object in one request; returns whether the object exists."""
        with contextlib.suppress(FileNotFoundError), translate_store_errors():
            self.local.write_bytes(content(source))
        return self.local.exists()

    def change(self) -> None:
        """Notes that rows were added or dropped, and uploads them if it is time."""
        self._is_changed = True
        if time.monotonic() > self._next_upload:
            self.keep()

    def _read_note(self) -> dict[str, Any]:
        try:
            note: dict[str, Any] = json.loads(content(self._path.with_name(NOTE)))
        except FileNotFoundError:
            return {}
        return note

    def _is_taken(self) -> bool:
        """Whether a run with other settings, on another machine, has taken the folder meanwhile."""
        note = self._read_note()
        # A folder without a note was removed because its output is finished.
        return bool(note) and any(note.get(name) != value for name, value in self._run.items())

    def keep(self) -> None:
        """Uploads the rows, unless the store already has them."""
        if self._is_changed and not self._finished and not self._is_taken():
            start = time.monotonic()
            upload_file(self.local, self._part)
            end = time.monotonic()
            self._is_changed, self._has_part = False, True
            self._next_upload = end + max(SECONDS, 10 * (end - start))

    def finish(self) -> None:
        """Uploads the whole file as its final object; no rows may be added afterwards.

        Raises:
          ConfigError: if another run has taken the folder meanwhile.
        """
        if not self._finished:
            if self._is_taken():
                raise ConfigError(
                    f"{self._path.parent}: another run is writing here; this one stops."
                )
            upload_file(self.local, self._path)
            self._finished = True
            if self._has_part:
                with translate_store_errors():
                    self._path.fs.rm_file(self._part.path)


def count_stored_rows(folder: pathlib.Path) -> int:
    """Returns the number of rows in the files of a run's folder, or in their objects on a store."""
    if is_remote(folder):
        names = [name for name in versions(folder) if name.startswith("rows")]
        files = {name for name in names if name.endswith(".jsonl")}
        parts = {name for name in names if name.endswith(f".jsonl{_PART}")}
        files |= {name for name in parts if name.removesuffix(_PART) not in files}
        paths = [folder / name for name in files]
    else:
        paths = sorted(folder.glob("rows*.jsonl"))
    count = 0
    for path in paths:
        with contextlib.suppress(OSError), open_binary(path) as file:
            count += sum(line.endswith(b"\n") for line in file)
    return count


_OPEN: dict[str, _GrowingFile] = {}  # the open files of this process, by path


def growing(path: Any) -> _GrowingFile:
    """Returns the growing file at a path, whose lock this process must hold."""
    if str(path) not in _OPEN:
        _OPEN[str(path)] = _GrowingFile(path)
    return _OPEN[str(path)]


def current(path: Any) -> Any:
    """Returns the local copy if a path is a growing file of this process, otherwise the path."""
    growing_file = _OPEN.get(str(path)) if is_remote(path) else None
    return growing_file.local if growing_file else path


def close(output: Any, keep: bool = True) -> None:
    """Closes the growing files of an output: the output itself, and files in its folders.

    With `keep`, added rows are uploaded; otherwise they are discarded.
    """
    inside = (f"{output}/", f"{output}.partial/")
    for name in [name for name in _OPEN if name == str(output) or name.startswith(inside)]:
        file = _OPEN.pop(name)
        try:
            if keep:
                file.keep()
        finally:
            file.folder.cleanup()


def _locate_local_file(path: Any) -> pathlib.Path:
    """Returns the local path of a file of rows: the path itself, or the copy of a store's file."""
    return growing(path).local if is_remote(path) else pathlib.Path(path)


def count_whole_rows(path: pathlib.Path) -> int:
    """Counts the complete rows at the start of a file, and cuts off the rest.

    The rest may be a line that was cut by a kill, or lines that a power cut kept from the disk.
    """
    local = _locate_local_file(path)
    if not local.exists():
        return 0
    count, end = 0, 0
    with open(local, "rb") as file:
        for line in file:
            try:
                is_whole = line.endswith(b"\n") and isinstance(msgspec.json.decode(line), dict)
            except (msgspec.DecodeError, UnicodeDecodeError):
                is_whole = False
            if not is_whole:
                break
            count, end = count + 1, end + len(line)
    _truncate_file(path, end)
    return count


def _truncate_file(path: pathlib.Path, end: int) -> None:
    """Cuts a file off after its first `end` bytes."""
    os.truncate(_locate_local_file(path), end)
    if is_remote(path):
        growing(path).change()


def append_rows(path: pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends rows as JSON lines and flushes them; NaN and infinity become null."""
    encode = msgspec.json.Encoder(enc_hook=operator.methodcaller("item")).encode  # NumPy's numbers
    try:
        with _locate_local_file(path).open("ab") as file:
            file.writelines(msgspec.json.format(encode(row), indent=0) + b"\n" for row in rows)
    except OSError as error:  # the error of a full disk does not name the file
        error.filename = error.filename or str(path)
        raise
    if is_remote(path):
        growing(path).change()


def truncate_rows(path: pathlib.Path, number: int) -> int:
    """Drops all but the first `number` rows from a file of complete rows; returns `number`."""
    local = _locate_local_file(path)
    if local.exists():
        with local.open("rb") as file:
            _truncate_file(path, sum(len(file.readline()) for _ in range(number)))
    return number
