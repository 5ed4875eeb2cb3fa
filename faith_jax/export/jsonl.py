"""Rows to JSONL."""

import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.files import count_whole_rows


def append_rows(path: pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends rows, one JSON object a line, and flushes them to disk."""
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def lines_of(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields what `append_rows` wrote, one row at a time."""
    # Only a line feed ends a line: a JSON text may hold separators such as U+2028 as they are.
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                raise InputError(f"{path}: a line is not valid JSON; make it again.") from None


def complete_rows(path: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the rows of a file; a last line that a kill cut is dropped from it."""
    return list(lines_of(path)) if count_whole_rows(path) else []


def keep_rows(path: pathlib.Path, number: int) -> int:
    """Drops all rows behind the first `number` from a file of complete rows; returns `number`."""
    if path.exists():
        with path.open("rb") as file:
            os.truncate(path, sum(len(file.readline()) for _ in range(number)))
    return number
