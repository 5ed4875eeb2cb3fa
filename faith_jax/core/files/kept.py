"""What a run keeps on an object store until its output is whole, so that it resumes anywhere.

A run works in a local folder. Its note and its rows are kept on the store in `<output>.partial`:
since nothing can be appended to an object, rows that are added become further objects
`rows.jsonl.<their first byte>`, every few seconds and when the run ends.
"""

import pathlib
import time
from typing import Any

from faith_jax.core.files.staging import answering
from faith_jax.core.files.stores import content, versions

SECONDS, BYTES = 10.0, 8_000_000  # added rows are kept at least as often
_DIGITS = 16


class Kept:
    """A local folder whose note and rows are kept on a store.

    Args:
      folder: the local folder.
      kept: the folder on the store.
      note: the name of the note.
      rows: the name of the file of rows.
    """

    def __init__(self, folder: pathlib.Path, kept: Any, note: str, rows: str):
        self.folder, self.kept = folder, kept
        self._note, self._rows = note, rows
        self._parts: list[int] = []  # the first bytes of the objects of rows
        self._sent, self._when = 0, time.monotonic()

    def fetch(self) -> set[str]:
        """Copies what is kept into the folder; returns the names of objects that are not ours."""
        with answering(self.kept):
            found = set(versions(self.kept))
            starts = sorted(name for name in found if self._is_part(name))
            self._parts = [int(name.removeprefix(f"{self._rows}.")) for name in starts]
            if found:
                self.folder.mkdir(parents=True, exist_ok=True)
            if self._note in found:
                (self.folder / self._note).write_bytes(content(self.kept / self._note))
            if starts:
                with (self.folder / self._rows).open("wb") as file:
                    for first, name in zip(self._parts, starts, strict=True):
                        file.truncate(first)  # a part that was cut: the next one begins there
                        file.seek(first)
                        file.write(content(self.kept / name))
                    self._sent = file.tell()
        return {name for name in found if name != self._note and not self._is_part(name)}

    def _is_part(self, name: str) -> bool:
        first = name.removeprefix(f"{self._rows}.")
        return first != name and len(first) == _DIGITS and first.isdecimal()

    def keep_note(self) -> None:
        """Keeps the note; rows that are gone from the folder go from the store first."""
        self.keep_rows(now=True)
        with answering(self.kept):
            note = (self.folder / self._note).read_bytes()
            self.kept.fs.pipe_file((self.kept / self._note).path, note)

    def keep_rows(self, now: bool = False) -> None:
        """Keeps the rows that were added since the last time, if there are enough, or `now`.

        Rows that were dropped since then are dropped at once.
        """
        path = self.folder / self._rows
        size = path.stat().st_size if path.exists() else 0
        with answering(self.kept):
            if size < self._sent:
                gone = [first for first in self._parts if first >= size]
                if gone:
                    self.kept.fs.rm([self._part(first) for first in gone])
                self._parts = [first for first in self._parts if first < size]
                self._sent = size
            is_due = time.monotonic() - self._when > SECONDS or size - self._sent > BYTES
            if size > self._sent and (now or is_due):
                with path.open("rb") as file:
                    file.seek(self._sent)
                    self.kept.fs.pipe_file(self._part(self._sent), file.read())
                self._parts.append(self._sent)
                self._sent, self._when = size, time.monotonic()

    def _part(self, first: int) -> str:
        return str((self.kept / f"{self._rows}.{first:0{_DIGITS}}").path)

    def remove(self) -> None:
        """Removes from the store what was kept there."""
        with answering(self.kept):
            names = [n for n in versions(self.kept) if n == self._note or self._is_part(n)]
            if names:
                self.kept.fs.rm([(self.kept / name).path for name in names])
