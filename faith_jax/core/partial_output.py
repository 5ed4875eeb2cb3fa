"""The folder in which an output grows, row by row, until it is whole.

A lock on a file in it keeps two runs from writing the same output. The lock goes with its process,
however that ends, so that a run that was killed can be taken up again.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.errors import ConfigError, counted

ROWS = "rows.jsonl"
_NOTE = "run.json"
_LOCK = "lock"
# A folder that vanishes between two steps was another run's, which ended just then.
_ATTEMPTS = 10


def count_whole_rows(path: pathlib.Path) -> int:
    """Returns how many whole lines a file has; a last one that a kill cut is dropped from it."""
    if not path.exists():
        return 0
    count, end = 0, 0
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, end = count + 1, end + len(line)
    os.truncate(path, end)
    return count


def partial_folder(target: pathlib.Path) -> pathlib.Path:
    """Returns where the rows of an output gather."""
    return target.with_name(f"{target.name}.partial")


def kept_rows(target: pathlib.Path) -> int:
    """Returns how many rows wait for their run to be taken up again; changes nothing."""
    with contextlib.suppress(OSError), open(partial_folder(target) / ROWS, "rb") as file:
        return sum(line.endswith(b"\n") for line in file)
    return 0


@contextlib.contextmanager
def partial_output(
    target: pathlib.Path, run: Mapping[str, Any], restart: bool = False
) -> Iterator[pathlib.Path]:
    """Holds the folder of a run; it goes when the run is done, or leaves no rows behind.

    Args:
      target: the output.
      run: its `scorers` with their options and its `input`, as JSON has them: what must be equal
        for a stopped run to be taken up.
      restart: discard the rows of a run that was stopped.

    Raises:
      ConfigError: where the output is there, cannot be written, or is being written by another
        run, and where rows of a different run are kept.
    """
    folder = partial_folder(target)
    lock = _locked(folder, target)
    done = False
    try:
        if target.exists():
            raise ConfigError(f"{target} exists already; remove it or name another output.")
        _take_up(folder, json.loads(json.dumps(run, default=str)), restart)
        yield folder
        done = True
    finally:
        rows = folder / ROWS
        if done or not (rows.exists() and rows.stat().st_size):
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(folder: pathlib.Path, target: pathlib.Path) -> int:
    """Returns the open file that holds the lock."""
    for _ in range(_ATTEMPTS):
        try:
            folder.mkdir(exist_ok=True)
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(
                f"--output: {target}: cannot be written ({error.strerror})."
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            break
        except OSError:
            pass  # a file system without locks
        if _is_in_place(folder / _LOCK, lock):
            return lock
        os.close(lock)
    raise ConfigError(
        f"--output: another run is writing {target} (in {folder}); wait for it, or name another "
        "output."
    )


def _is_in_place(path: pathlib.Path, opened: int) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(opened), os.stat(path))
    return False


def _take_up(folder: pathlib.Path, run: Mapping[str, Any], restart: bool) -> None:
    """Keeps the rows of the same run; those of another are kept too, unless they may go."""
    rows, note = folder / ROWS, folder / _NOTE
    count = count_whole_rows(rows)
    if count and not restart:
        before: Any = None
        with contextlib.suppress(OSError, ValueError):
            before = json.loads(note.read_text(encoding="utf-8"))
        if before == run:
            return
        raise ConfigError(
            f"--output: {folder} keeps {counted(count, 'row')} of another run "
            f"({_difference(before, run)}); finish it with its own command, or discard them with "
            "--restart or by removing that folder."
        )
    rows.unlink(missing_ok=True)
    try:
        note.write_text(json.dumps(run, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output: {folder}: cannot be written ({error.strerror}).") from None


def _difference(before: Any, run: Mapping[str, Any]) -> str:
    """Returns how the run that was stopped differs from this one, for people."""
    if not isinstance(before, dict):
        return "an unknown one"
    scorers = before.get("scorers") or {}
    if list(scorers) != list(run["scorers"]):
        return f"--scorers={','.join(scorers)}"
    if scorers != run["scorers"]:
        return "with other --scorer-option"
    if (before.get("input") or {}).get("file") != run["input"]["file"]:
        return "of another input"
    return "its input has changed since, or it had other columns or settings"
