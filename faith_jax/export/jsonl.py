"""Rows to JSONL."""

import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any


def append_rows(path: pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends rows, one JSON object a line, and flushes them to disk."""
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def complete_rows(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads back what `append_rows` wrote; a last line that a kill cut is dropped from the file."""
    if not path.exists():
        return []
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))
    # Not splitlines(): a JSON text may hold separators such as U+2028 as they are.
    return [json.loads(line) for line in whole.decode("utf-8").split("\n")[:-1]]


def keep_rows(path: pathlib.Path, number: int) -> int:
    """Drops all rows behind the first `number` from a file of complete rows; returns `number`."""
    if path.exists():
        with path.open("rb") as file:
            os.truncate(path, sum(len(file.readline()) for _ in range(number)))
    return number
