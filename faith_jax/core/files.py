"""Files that commands write: checks before any work, outputs that appear whole, kept settings.

A run that can resume keeps its rows in a folder beside the output. A lock on a file in this folder
stops a second run from writing the same output. The lock goes with its process, however that ends.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from faith_jax.core.errors import ConfigError, counted, shown

ROWS = "rows.jsonl"
_NOTE = "run.json"
_LOCK = ".lock"
_ATTEMPTS = 10


def check_outputs(inputs: Iterable[str], outputs: Mapping[str, str]) -> None:
    """Checks that outputs can be written, and overwrite neither an input nor each other.

    Args:
      inputs: paths of files or folders.
      outputs: paths of files by the option that names them; "" = none.

    Raises:
      ConfigError: names the option and the path.
    """
    read = [(path, pathlib.Path(path).resolve()) for path in inputs if path]
    taken: dict[pathlib.Path, str] = {}
    for option, output in outputs.items():
        path = pathlib.Path(output)
        place = path.resolve()
        if not output:
            continue
        problem = ""
        if not path.absolute().parent.is_dir():
            problem = ": cannot be written (no such folder)"
        elif path.is_dir():
            problem = ": cannot be written (a folder)"
        elif place in taken:
            problem = f" is the output of {taken[place]} too"
        for name, other in read:
            if place == other or other in place.parents or _same_file(place, other):
                problem = problem or f" would overwrite the input {name}"
        if problem:
            raise ConfigError(f"{option}: {output}{problem}.")
        taken[place] = option


def _same_file(one: pathlib.Path, other: pathlib.Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


@contextlib.contextmanager
def written_whole(path: str | pathlib.Path, shared: bool = False) -> Iterator[pathlib.Path]:
    """Yields a path beside `path` for a file or folder, which takes its place at the end.

    On an error nothing is left, and what stood at `path` stays. If nothing is written, nothing
    changes.

    Args:
      path: of the output.
      shared: several processes may write it at once; the last one wins.
    """
    target = pathlib.Path(path)
    mark = f"{os.getpid()}." if shared else ""
    beside, old = (
        target.with_name(f".{target.name}.{mark}{end}") for end in ("partial", "replaced")
    )
    _remove(beside)
    try:
        yield beside
        if beside.is_dir() and target.is_dir():  # a folder can only replace an empty one
            _remove(old)
            os.replace(target, old)
        if beside.exists():
            os.replace(beside, target)
    except BaseException:
        if old.exists() and not target.exists():
            os.replace(old, target)
        raise
    finally:
        _remove(beside)
        _remove(old)


def _remove(path: pathlib.Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextlib.contextmanager
def writing(place: Any) -> Iterator[None]:
    """Within, an OSError becomes a ConfigError: `place` cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{place}: cannot be written ({reason}).") from None


def write_text(path: str | pathlib.Path, text: str) -> None:
    """Writes a file, which appears whole or not at all.

    Raises:
      ConfigError: it cannot be written.
    """
    with writing(path), written_whole(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(path: str | pathlib.Path, value: Any) -> None:
    """Writes a value as JSON, as `write_text` does; paths become texts."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def kept_json(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns the object that `write_json` wrote; None where there is none, or no whole one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_jsonl(path: str | pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSON, one a line, as `write_text` does."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def made_folder(output: str | pathlib.Path, option: str = "--output") -> pathlib.Path:
    """Returns the folder of an option, which is made where it is not there.

    Raises:
      ConfigError: it cannot be made.
    """
    folder = pathlib.Path(output)
    with writing(f"{option}: {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def checkpoint_state(model: str) -> str:
    """Returns a hash that changes with the files of a checkpoint, by their sizes and times."""
    root = pathlib.Path(model).expanduser()
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            status = path.stat()
            digest.update(repr((path.name, status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]


def check_settings(path: pathlib.Path, settings: Mapping[str, Any], kept: str) -> None:
    """Checks that files were made with the settings that are asked for.

    Args:
      path: where `write_json` wrote what they were made with.
      settings: what is asked for; settings that are only in the file do not matter.
      kept: what the files have, such as "responses".

    Raises:
      ConfigError: names the first setting that differs.
    """
    if found := _difference(path, settings):
        raise ConfigError(
            f"--output: {path.parent} keeps {kept} with {found}; name another folder, or remove it."
        )


def _difference(path: pathlib.Path, settings: Mapping[str, Any]) -> str:
    """Returns the first setting that differs from a file's, with both values; "" = none does."""
    before = kept_json(path)
    if before is None:
        return "other settings, which are not readable"
    for name, value in json.loads(json.dumps(settings, default=str)).items():
        if before.get(name) != value:
            one, other = map(_shown, (before.get(name), value))
            return f"another value of {name} ({one}, not {other})"
    return ""


def _shown(value: Any) -> str:
    return shown(value) if isinstance(value, dict | list) else str(value)


def count_whole_rows(path: pathlib.Path) -> int:
    """Returns how many whole lines a file has, and drops a last one that a kill cut."""
    if not path.exists():
        return 0
    count, end = 0, 0
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, end = count + 1, end + len(line)
    os.truncate(path, end)
    return count


def append_rows(path: pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends rows as JSON, one a line, and flushes them to disk."""
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def keep_rows(path: pathlib.Path, number: int) -> int:
    """Drops all rows behind the first `number` from a file of whole rows; returns `number`."""
    if path.exists():
        with path.open("rb") as file:
            os.truncate(path, sum(len(file.readline()) for _ in range(number)))
    return number


def partial_folder(target: pathlib.Path) -> pathlib.Path:
    """Returns the folder that keeps the rows of an output until it is whole."""
    return target.with_name(f"{target.name}.partial")


def kept_rows(target: pathlib.Path) -> int:
    """Returns how many rows a stopped run has kept; changes nothing."""
    with contextlib.suppress(OSError), open(partial_folder(target) / ROWS, "rb") as file:
        return sum(line.endswith(b"\n") for line in file)
    return 0


@contextlib.contextmanager
def partial_output(
    target: pathlib.Path, run: Mapping[str, Any], restart: bool = False
) -> Iterator[pathlib.Path]:
    """Holds the folder of a run, which is removed if the run is done or has no rows.

    Args:
      target: the output.
      run: settings that must be the same for a stopped run to resume: its scorers and input.
      restart: discard the rows of a stopped run.

    Raises:
      ConfigError: the output exists or cannot be written, another run is writing it, or rows of a
        different run are kept.
    """
    folder = partial_folder(target)
    done = False
    with locked(folder, target):
        try:
            if target.exists():
                raise ConfigError(f"{target} exists already; remove it or name another output.")
            _resume(folder, run, restart)
            yield folder
            done = True
        finally:
            rows = folder / ROWS
            if done or not (rows.exists() and rows.stat().st_size):
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: pathlib.Path, output: pathlib.Path) -> Iterator[int]:
    """Holds the only right to write into a folder, which is made where it is missing.

    Yields the descriptor that holds it. `output` is what the option names that the folder is of.

    Raises:
      ConfigError: where another process holds it, or the folder cannot be written.
    """
    lock = _lock_of(folder, output)
    try:
        yield lock
    finally:
        os.close(lock)


def _lock_of(folder: pathlib.Path, target: pathlib.Path) -> int:
    path = folder / _LOCK
    with writing(f"--output: {target}"):
        for _ in range(_ATTEMPTS):
            # A folder that vanishes between two steps was another run's, which ended just then.
            with contextlib.suppress(FileNotFoundError):
                folder.mkdir(exist_ok=True)
                lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
                if not _lock(lock):
                    break
                if path.exists() and os.path.samestat(os.fstat(lock), os.stat(path)):
                    return lock
                os.close(lock)
    raise ConfigError(
        f"--output: another run is writing {target} (in {folder}); wait for it, or name another "
        "output."
    )


def _lock(file: int) -> bool:
    """Locks an open file; False = another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    except OSError:  # a file system without locks
        pass
    return True


def _resume(folder: pathlib.Path, run: Mapping[str, Any], restart: bool) -> None:
    """Keeps the rows of the same run, and discards none of another unless `restart` says so."""
    rows, note = folder / ROWS, folder / _NOTE
    count = count_whole_rows(rows)
    if count and not restart:
        if found := _difference(note, run):
            raise ConfigError(
                f"--output: {folder} keeps {counted(count, 'row')} of another run ({found}); "
                "finish it with its own command, or discard them with --restart or by removing "
                "that folder."
            )
        return
    rows.unlink(missing_ok=True)
    write_json(note, run)
