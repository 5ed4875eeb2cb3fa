"""Files that commands write: checks before any work, outputs that appear whole, kept settings.

A run that can be resumed keeps its rows in a folder beside the output. A lock on a file in that
folder keeps two runs from writing the same output. The lock goes with its process, however that
ends.
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

SETTINGS = "settings.json"
ROWS = "rows.jsonl"
_NOTE = "run.json"
_LOCK = "lock"
# A folder that vanishes between two steps was another run's, which ended just then.
_ATTEMPTS = 10


def check_outputs(inputs: Iterable[str], outputs: Mapping[str, str]) -> None:
    """Refuses outputs that cannot be written, or would overwrite an input or each other.

    Args:
      inputs: paths that are read, files or folders.
      outputs: paths of files by the option that names them; "" = none.

    Raises:
      ConfigError: naming the option and the path.
    """
    read = [(path, pathlib.Path(path).resolve()) for path in inputs if path]
    taken: dict[pathlib.Path, str] = {}
    for option, output in outputs.items():
        if not output:
            continue
        path = pathlib.Path(output)
        if not path.absolute().parent.is_dir():
            raise ConfigError(f"{option}: {output}: cannot be written (no such folder).")
        if path.is_dir():
            raise ConfigError(f"{option}: {output}: cannot be written (a folder).")
        place = path.resolve()
        for name, other in read:
            if place == other or other in place.parents or _same_file(place, other):
                raise ConfigError(f"{option}: {output} would overwrite the input {name}.")
        if place in taken:
            raise ConfigError(f"{option}: {output} is the output of {taken[place]} too.")
        taken[place] = option


def _same_file(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Returns whether two paths are links to one file."""
    return one.exists() and other.exists() and one.samefile(other)


@contextlib.contextmanager
def written_whole(path: str | pathlib.Path, shared: bool = False) -> Iterator[pathlib.Path]:
    """Yields a path beside `path` for a file or folder, which takes its place at the end.

    On an error nothing is left, and what stood at `path` stays. Where nothing was written, nothing
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
        if beside.is_dir() and target.is_dir():  # a folder replaces an empty one alone
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


def write_text(path: str | pathlib.Path, text: str) -> None:
    """Writes a file, which appears whole or not at all.

    Raises:
      ConfigError: where it cannot be written.
    """
    try:
        with written_whole(path) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}).") from None


def write_json(path: str | pathlib.Path, value: Any) -> None:
    """Writes a value as JSON, as `write_text` does."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_jsonl(path: str | pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSON, one a line, as `write_text` does."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def made_folder(output: str | pathlib.Path) -> pathlib.Path:
    """Returns the output folder, which is made where it is not there.

    Raises:
      ConfigError: where it cannot be.
    """
    folder = pathlib.Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output: {folder}: cannot be written ({error.strerror}).") from None
    return folder


def checkpoint_state(model: str) -> str:
    """Returns what changes with the files of a checkpoint."""
    root = pathlib.Path(model).expanduser()
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            status = path.stat()
            digest.update(repr((path.name, status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:16]


def as_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as they are read back from a file."""
    found: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return found


def read_settings_file(path: pathlib.Path, *sections: str) -> dict[str, Any]:
    """Returns what `write_settings` wrote.

    Args:
      path: of the file.
      sections: names of settings that are mappings themselves.

    Raises:
      ConfigError: for a file that is not there, is no such file, or lacks a section.
    """
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
        whole = all(isinstance(found.get(name), dict) for name in sections)
    except (OSError, ValueError, TypeError):
        whole = False
    if not whole:
        raise ConfigError(f"{path}: not readable; name another --output.")
    return found


def write_settings(folder: pathlib.Path, settings: Mapping[str, Any]) -> None:
    """Writes settings into the folder that they decide."""
    text = json.dumps(settings, indent=1, ensure_ascii=False, default=str) + "\n"
    write_text(folder / SETTINGS, text)


def difference(before: Any, now: Mapping[str, Any]) -> str:
    """Returns the first setting that differs, with both values; "" = none does.

    What is only in `before` is not compared.
    """
    if not isinstance(before, Mapping):
        return "other settings, which are not readable"
    for name, value in now.items():
        if before.get(name) != value:
            return f"another value of {name} ({_told(before.get(name))}, not {_told(value)})"
    return ""


def _told(value: Any) -> str:
    return shown(value) if isinstance(value, dict | list) else str(value)


def check_same(
    folder: pathlib.Path, before: Mapping[str, Any], now: Mapping[str, Any], kept: str
) -> None:
    """Checks that the files of a folder were made with the settings that are asked for.

    Args:
      folder: of the files.
      before: what they were made with.
      now: what is asked for.
      kept: what the files have, such as "responses".

    Raises:
      ConfigError: naming the first setting that differs.
    """
    if found := difference(before, now):
        raise ConfigError(
            f"--output: {folder} keeps {kept} with {found}; name another folder, or remove it."
        )


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
        if not difference(before, run):
            return
        raise ConfigError(
            f"--output: {folder} keeps {counted(count, 'row')} of another run "
            f"({difference(before, run)}); finish it with its own command, or discard them with "
            "--restart or by removing that folder."
        )
    rows.unlink(missing_ok=True)
    try:
        note.write_text(json.dumps(run, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output: {folder}: cannot be written ({error.strerror}).") from None
