"""Files of rows that grow while a run lasts, so that it resumes anywhere; also on object stores.

Nothing can be appended to an object. So one process at a time, which holds a lock, has a local copy
of such a file; what it adds becomes further objects `NAME.<their first byte>` every few seconds and
when the lock is released. A file that is finished becomes one object NAME.
"""

import contextlib
import operator
import os
import pathlib
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from faith_jax.core.files.stores import (
    content,
    is_remote,
    open_binary,
    translate_store_errors,
    upload_file,
    version,
    versions,
)

SECONDS, BYTES = 10.0, 8_000_000  # rows that are added become an object at least as often
_DIGITS = 16
_PART = re.compile(rf"(.+)\.(\d{{{_DIGITS}}})")


class _GrowingFile:
    """The local copy of a file of rows on a store.

    Attributes:
      folder: the temporary one of the copy.
      local: the copy.
    """

    def __init__(self, path: Any):
        self._path = path
        self.folder = tempfile.TemporaryDirectory(prefix="faith_jax_")
        self.local = pathlib.Path(self.folder.name) / path.name
        self._parts: list[int] = []  # the first bytes of the objects of rows
        self._sent, self._when = 0, time.monotonic()
        with translate_store_errors():
            self._finished = version(path) is not None
            if self._finished:
                path.fs.get_file(path.path, str(self.local))
                return
            with self.local.open("wb") as file:
                matches = map(_PART.fullmatch, versions(path.parent))
                firsts = (int(part[2]) for part in matches if part and part[1] == path.name)
                for first in sorted(firsts):
                    self._parts.append(first)
                    file.write(content(self._locate_part(first)))
                self._sent = file.tell()

    def _locate_part(self, first: int) -> Any:
        return self._path.with_name(f"{self._path.name}.{first:0{_DIGITS}}")

    def keep(self, force: bool = False) -> None:
        """Makes an object of the rows that were added, if there are enough or with `force`.

        Rows that were dropped from the copy are dropped at once.
        """
        size = self.local.stat().st_size
        if size == self._sent or self._finished:
            return
        is_due = time.monotonic() - self._when > SECONDS or size - self._sent > BYTES
        with translate_store_errors():
            if size < self._sent:
                # From the last part on, so that no kill leaves a gap between them.
                while self._parts and self._parts[-1] >= size:
                    self._path.fs.rm_file(self._locate_part(self._parts.pop()).path)
                if self._parts:
                    self._send_last_part(size)
                self._sent = size
            elif force or is_due:
                self._parts.append(self._sent)
                self._send_last_part(size)

    def _send_last_part(self, size: int) -> None:
        """Makes the object of the last part, which ends with the byte before `size`."""
        first = self._parts[-1]
        with self.local.open("rb") as file:
            file.seek(first)
            self._path.fs.pipe_file(self._locate_part(first).path, file.read(size - first))
        self._sent, self._when = size, time.monotonic()

    def finish(self) -> None:
        """Makes one object of the file, to which nothing is added then."""
        if not self._finished:
            upload_file(self.local, self._path)
            with translate_store_errors():
                for first in self._parts:
                    self._path.fs.rm_file(self._locate_part(first).path)
            self._parts, self._finished = [], True


def count_stored_rows(folder: pathlib.Path) -> int:
    """Returns the number of rows in the files of a run's folder, or in the objects of these."""
    if is_remote(folder):
        names = versions(folder)
        files = [name for name in names if name.startswith("rows") and name.endswith(".jsonl")]
        parts = (part for part in map(_PART.fullmatch, names) if part and part[1] not in files)
        paths = [folder / name for name in [*files, *(part[0] for part in parts)]]
    else:
        paths = sorted(folder.glob("rows*.jsonl"))
    count = 0
    for path in paths:
        with contextlib.suppress(OSError), open_binary(path) as file:
            count += sum(line.endswith(b"\n") for line in file)
    return count


_OPEN: dict[str, _GrowingFile] = {}  # of this process, by their paths


def growing(path: Any) -> _GrowingFile:
    """Returns a file that this process holds the right to append to."""
    if str(path) not in _OPEN:
        _OPEN[str(path)] = _GrowingFile(path)
    return _OPEN[str(path)]


def current(path: Any) -> Any:
    """Returns the local copy of a growing file of this process, or else the path that is given."""
    growing_file = _OPEN.get(str(path)) if is_remote(path) else None
    return growing_file.local if growing_file else path


def close(output: Any, keep: bool = True) -> None:
    """Closes the growing files of an output: itself, and those of the folder that it is made in.

    The rows that were added are kept, unless the output is discarded.
    """
    inside = (f"{output}/", f"{output}.partial/")
    for name in [name for name in _OPEN if name == str(output) or name.startswith(inside)]:
        file = _OPEN.pop(name)
        try:
            if keep:
                file.keep(force=True)
        finally:
            file.folder.cleanup()


def _locate_local_file(path: Any) -> pathlib.Path:
    """Returns a file of rows on this machine: a local one itself, of a store the copy."""
    return growing(path).local if is_remote(path) else pathlib.Path(path)


def count_whole_rows(path: pathlib.Path) -> int:
    """Returns the number of whole rows that a file begins with, and drops what follows them.

    What follows is a line that a kill cut, or what a power cut left of lines that were not on disk.
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
    """Drops what follows the first bytes of a file."""
    os.truncate(_locate_local_file(path), end)
    if is_remote(path):
        growing(path).keep()


def append_rows(path: pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends rows as JSON, one a line, and flushes them; NaN and infinity become null."""
    encode = msgspec.json.Encoder(enc_hook=operator.methodcaller("item")).encode  # NumPy's numbers
    try:
        with _locate_local_file(path).open("ab") as file:
            file.writelines(msgspec.json.format(encode(row), indent=0) + b"\n" for row in rows)
    except OSError as error:  # a full disk, which does not say of which file
        error.filename = error.filename or str(path)
        raise
    if is_remote(path):
        growing(path).keep()


def truncate_rows(path: pathlib.Path, number: int) -> int:
    """Drops all rows behind the first `number` from a file of whole rows; returns `number`."""
    local = _locate_local_file(path)
    if local.exists():
        with local.open("rb") as file:
            _truncate_file(path, sum(len(file.readline()) for _ in range(number)))
    return number
