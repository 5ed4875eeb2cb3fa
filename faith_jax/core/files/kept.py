"""Files of rows on object stores that grow while a run lasts, so that it resumes anywhere.

Nothing can be appended to an object. So one process at a time, which holds a lock, has a local copy
of such a file; what it adds becomes further objects `NAME.<their first byte>` every few seconds and
when the lock is released. A file that is finished becomes one object NAME.
"""

import pathlib
import tempfile
import time
from typing import Any

from faith_jax.core.files.staging import answering
from faith_jax.core.files.stores import content, is_remote, version

SECONDS, BYTES = 10.0, 8_000_000  # rows that are added become an object at least as often
_DIGITS = 16


class GrowingFile:
    """The local copy of a file of rows on a store.

    Attributes:
      path: on the store.
      local: the copy.
    """

    def __init__(self, path: Any):
        self.path = path
        self._folder = tempfile.TemporaryDirectory(prefix="faith_jax_")
        self.local = pathlib.Path(self._folder.name) / path.name
        self._parts: list[int] = []  # the first bytes of the objects of rows
        self._sent, self._when = 0, time.monotonic()
        self._finished = False
        with answering(path):
            self._fetch()

    def _fetch(self) -> None:
        if version(self.path) is not None:
            self.path.fs.get_file(self.path.path, str(self.local))
            self._finished, self._sent = True, self.local.stat().st_size
            return
        self._parts = part_starts(self.path)
        if not self._parts:
            return
        with self.local.open("wb") as file:
            for first in self._parts:
                file.truncate(first)  # of a part that was cut: the next one begins there
                file.seek(first)
                file.write(content(self._part(first)))
            self._sent = file.tell()

    def _part(self, first: int) -> Any:
        return self.path.with_name(f"{self.path.name}.{first:0{_DIGITS}}")

    def keep(self, now: bool = False) -> None:
        """Makes an object of the rows that were added, if they are enough or `now`.

        Rows that were dropped from the copy are dropped at once.
        """
        size = self.local.stat().st_size if self.local.exists() else 0
        if size == self._sent:
            return
        with answering(self.path):
            if size < self._sent and not self._finished:
                self._drop(size)
            is_due = time.monotonic() - self._when > SECONDS or size - self._sent > BYTES
            if self._finished:  # it grows again
                self._send(0, size)
                self.path.unlink()
                self._finished = False
            elif size > self._sent and (now or is_due):
                self._send(self._sent, size)

    def _drop(self, size: int) -> None:
        if gone := [first for first in self._parts if first >= size]:
            self.path.fs.rm([self._part(first).path for first in gone])
        self._parts = [first for first in self._parts if first < size]
        self._sent = size

    def _send(self, first: int, size: int) -> None:
        with self.local.open("rb") as file:
            file.seek(first)
            self.path.fs.pipe_file(self._part(first).path, file.read())
        self._parts.append(first)
        self._sent, self._when = size, time.monotonic()

    def finish(self) -> None:
        """Makes one object of the file."""
        if not self._finished and self.local.exists():
            with answering(self.path):
                self.path.fs.put_file(str(self.local), self.path.path)
                if parts := part_starts(self.path):
                    self.path.fs.rm([self._part(first).path for first in parts])
            self._parts, self._finished = [], True
            self._sent = self.local.stat().st_size

    def close(self) -> None:
        """Keeps what was added, and removes the copy."""
        try:
            self.keep(now=True)
        finally:
            self.forget()

    def forget(self) -> None:
        """Removes the copy."""
        self._folder.cleanup()


def part_starts(path: Any) -> list[int]:
    """Returns the first bytes of the objects of a growing file, in order."""
    start = f"{path.path}."
    try:
        found = path.fs.find(path.parent.path, prefix=f"{path.name}.")
    except FileNotFoundError:
        return []
    ends = (name.removeprefix(start) for name in found if name.startswith(start))
    return sorted(int(end) for end in ends if len(end) == _DIGITS and end.isdecimal())


_OPEN: dict[str, GrowingFile] = {}  # of this process, by their paths


def growing(path: Any) -> GrowingFile:
    """Returns a file that this process holds the right to append to."""
    if str(path) not in _OPEN:
        _OPEN[str(path)] = GrowingFile(path)
    return _OPEN[str(path)]


def current(path: Any) -> Any:
    """Returns the local copy of a growing file of this process, or else the path that is given."""
    found = _OPEN.get(str(path)) if is_remote(path) else None
    return found.local if found else path


def close(output: Any) -> None:
    """Closes the growing files of an output: itself, and those of the folder that it is made in."""
    for name in [name for name in _OPEN if name.startswith(str(output))]:
        _OPEN.pop(name).close()


def forget(output: Any) -> None:
    """Removes the copies of growing files of an output that is discarded."""
    for name in [name for name in _OPEN if name.startswith(str(output))]:
        _OPEN.pop(name).forget()
