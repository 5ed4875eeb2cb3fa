"""Files and folders that appear whole or not at all, and stay after a power cut.

An output is made in a private place beside it: whoever may make files in a shared folder could put
a link to a foreign file under a name that can be guessed, so this is a folder of a random name,
into which only this user may write. Before the output takes its place, its data is synced to disk.

On a store, a file is one object, which appears when its upload ends. A folder has no moment at
which it appears: `_upload.json` in it says, before its first object, that it is being written, and
after the last one which objects it has, of how many bytes. Whoever reads a folder that has this
file demands this; a folder that others have uploaded has none, and is read as it is.
"""

import contextlib
import errno
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from faith_jax.core.errors import ConfigError, InputError, StorageError, storage_failure
from faith_jax.core.files import growing_rows
from faith_jax.core.files.stores import (
    content,
    is_remote,
    path_of,
    reason,
    storage_errors,
    translate_store_errors,
    upload_file,
    versions,
)

OURS = {"made_by": "faith_jax"}  # in the notes by which a folder of ours is known
UPLOAD = "_upload.json"
_PARTIAL = ".partial"
_MARK = ".private"  # the locked file in a private folder, which no other folder has


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
        if not beside.exists():
            return
        if str(target) == "-" and (stream := getattr(sys.stdout, "buffer", None)):
            sys.stdout.flush()
            stream.write(beside.read_bytes())
        elif str(target) == "-":  # of a notebook
            sys.stdout.write(beside.read_text(encoding="utf-8"))
        elif is_stream(target):
            number = _open_file(target)
            sys.stdout.flush()  # which comes before, if it is the same file
            place = target if number is None else os.dup(number)
            with open(beside, "rb") as file, open(place, "wb", buffering=0) as stream:
                shutil.copyfileobj(file, stream)
        else:
            move_into_place(beside, target)


def move_into_place(source: pathlib.Path, target: pathlib.Path) -> None:
    """Moves a file or folder to its place, where it stays after a power cut.

    Its data is on disk before it has its name. A folder takes the place of a file or an empty
    folder only. To a store it is copied.
    """
    if not is_remote(target):
        sync(source)
        os.replace(source, target)
        sync_entry(target.parent)
    elif is_remote(source):
        _copy_within(source, target)
    else:
        (upload_folder if source.is_dir() else upload_file)(source, target)


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
    """Writes a file whole; raises a ConfigError if it cannot be written."""
    with report_write_errors(path), atomic_file(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(path: str | pathlib.Path, value: Any) -> None:
    """Writes a value as JSON, as `write_text` does; paths become texts."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def read_json_or_none(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns the object in a file of JSON; None where there is none, or no whole one."""
    try:
        value = json.loads(content(path) if is_remote(path) else path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_jsonl(path: str | pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSON, one a line, as `write_text` does."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def make_output_folder(output: str | pathlib.Path, option: str = "--output") -> pathlib.Path:
    """Makes the folder that an option names; raises a ConfigError if it cannot be made."""
    folder = path_of(output)
    with report_write_errors(f"{option}: {folder}"):
        if not is_remote(folder):
            folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def remove_new_folders_on_error(folder: pathlib.Path) -> Iterator[None]:
    """Removes on an error a folder and those above it which are made within, if they are empty."""
    # On a store, a folder is gone with what was in it.
    paths = () if is_remote(folder) else (folder, *folder.parents)
    missing = [path for path in paths if not path.exists()]
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for path in missing:
                path.rmdir()
        raise


def check_space(place: pathlib.Path, size: int) -> None:
    """Raises a StorageError unless a disk has `size` bytes free for a place, there or not yet."""
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


@contextlib.contextmanager
def private_place(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a local path of the name of a file or folder, to be moved there once it is whole.

    What is left there at the end is removed; for what a kill leaves see `remove_leftovers`. For a
    target that is not on a disk the place is in a temporary folder.
    """
    if is_remote(target) or is_stream(target):
        with tempfile.TemporaryDirectory(prefix="faith_jax_") as temporary:
            yield pathlib.Path(temporary) / target.name
        return
    remove_leftovers(target)
    while True:
        folder = pathlib.Path(tempfile.mkdtemp(_PARTIAL, f".{target.name}.", target.parent))
        try:
            lock = lock_file(folder / _MARK)
        except FileNotFoundError:
            continue  # another writer took the folder for one that a kill has left
        except OSError:  # a file system without locks
            lock = None
            break
        if lock is not None:
            break
    try:
        yield folder / target.name
    finally:
        try:
            _remove_private_folder(folder)
        finally:
            if lock is not None:
                os.close(lock)


def private_pattern(name: str) -> str:
    """Returns the glob pattern of the names of private folders for a target of a name."""
    letters = "?" * 8  # that tempfile draws
    return f".{glob.escape(name)}.{letters}{_PARTIAL}"


def remove_leftovers(target: pathlib.Path) -> None:
    """Removes the private folders for a target that kills have left: nobody holds their locks.

    On file systems without locks those that are not empty stay.
    """
    for folder in target.parent.glob(private_pattern(target.name)):
        with contextlib.suppress(OSError):
            lock = lock_file(folder / _MARK) if (folder / _MARK).exists() else None
            if lock is None:
                folder.rmdir()  # if it is empty
                continue
            try:
                _remove_private_folder(folder)
            finally:
                os.close(lock)


def _remove_private_folder(folder: pathlib.Path) -> None:
    """Removes a private folder, its mark last, so that what a kill leaves is still known as one."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != _MARK:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def lock_file(path: pathlib.Path, wait: bool = False) -> int | None:
    """Returns the descriptor of a file that is locked now; None = another process has locked it."""
    from filelock import lock_descriptor  # imports asyncio

    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            is_locked = lock_descriptor(file, blocking=wait)
            with contextlib.suppress(FileNotFoundError):
                if is_locked and os.path.samestat(os.fstat(file), path.lstat()):
                    return file
            os.close(file)  # of another run, which may have ended just then and removed it
            if not is_locked:
                return None
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise


def link_error(path: pathlib.Path, option: str) -> ConfigError:
    """Returns the error of a link in a place of ours, which may lead to a foreign file."""
    return ConfigError(
        f"{option}: {path} is a link, and no run has made it; remove it, or name another output."
    )


def is_stream(path: pathlib.Path) -> bool:
    """Whether a path is "-", or of a device, a pipe or a socket, or leads to one.

    Links to what this process has open are too, such as /dev/stdout, also where it is a file.
    """
    if is_remote(path):
        return False
    is_special = path.exists() and not (path.is_file() or path.is_dir())
    return str(path) == "-" or is_special or _open_file(path) is not None


def _open_file(path: pathlib.Path) -> int | None:
    """Returns the number of an open file of this process that a path leads to; None = none."""
    for _ in range(40):  # as many links as Linux follows
        place = os.path.join(os.path.realpath(path.parent), path.name)
        if match := re.fullmatch(rf"/proc/{os.getpid()}/fd/(\d+)", place):
            return int(match[1])
        if not path.is_symlink():
            return None
        path = path.parent / os.readlink(path)
    return None


def upload_folder(source: pathlib.Path, target: Any) -> None:
    """Copies a local folder to a store, in place of what a stopped upload has left there."""
    files = {
        path.relative_to(source).as_posix(): path.stat().st_size
        for path in sorted(source.rglob("*"))
        if path.is_file()
    }
    paths = [str(source / name) for name in files]
    _replace_objects(target, files, lambda places: target.fs.put(paths, places))


def _copy_within(source: Any, target: Any) -> None:
    """Copies a file or folder within a store, as an upload does; nothing moves through here."""
    if source.is_dir():
        files = {name: size for name, (_, size) in versions(source).items()}
        paths = [(source / name).path for name in files]
        _replace_objects(target, files, lambda places: source.fs.copy(paths, places))
        return
    with translate_store_errors():
        source.fs.cp_file(source.path, target.path)


def _replace_objects(
    target: Any, files: dict[str, int], write_files: Callable[[list[str]], None]
) -> None:
    """Makes a folder of what `write_files` writes; it is marked as partial until all is there."""
    with translate_store_errors():
        before = versions(target)
        if before and UPLOAD not in before:
            raise ConfigError(f"{target} is there, and no run has made it; name another output.")
        _write_upload_mark(target, False, {})
        # Files that stay are never missing: another process may be making the same folder.
        if left := [(target / name).path for name in before if name not in (UPLOAD, *files)]:
            target.fs.rm(left)
        write_files([(target / name).path for name in files])
        _write_upload_mark(target, True, files)


def _write_upload_mark(target: Any, complete: bool, files: dict[str, int]) -> None:
    mark = {**OURS, "complete": complete, "files": files}
    target.fs.pipe_file((target / UPLOAD).path, json.dumps(mark, indent=1).encode())


def _read_upload_mark(folder: Any) -> dict[str, Any] | None:
    """Returns the mark that an upload has left in its folder; None = others have made it."""
    try:
        mark = json.loads(content(folder / UPLOAD))
    except FileNotFoundError:
        return None
    except ValueError:
        return {"complete": False, "files": {}}
    return mark if isinstance(mark, dict) and mark.items() >= OURS.items() else None


def is_complete(path: pathlib.Path) -> bool:
    """Whether a file or a folder is there; a folder that an upload has left unfinished is not."""
    if not is_remote(path) or not path.is_dir():
        return path.exists()
    mark = _read_upload_mark(path)
    return mark is None or bool(mark["complete"])


def check_whole(folder: Any) -> dict[str, tuple[str, int]]:
    """Returns the versions and bytes of a store's whole folder by the names of its objects."""
    objects = versions(folder)
    if not objects:
        raise InputError(f"{folder}: no such folder.")
    if UPLOAD not in objects or (mark := _read_upload_mark(folder)) is None:
        return objects
    if not mark["complete"]:
        raise InputError(
            f"{folder} is not complete: the run that writes it has not finished; run it again."
        )
    for name, size in mark["files"].items():
        stored_size = objects[name][1] if name in objects else None
        if stored_size != size:
            problem = "is gone" if stored_size is None else f"has {stored_size:,} bytes of {size:,}"
            raise InputError(f"{folder} is not complete: {name} {problem}; make it again.")
    return {name: objects[name] for name in mark["files"]}


def remove_tree(folder: Any) -> None:
    """Removes a folder of any storage with all that is in it, if it is there."""
    if not is_remote(folder):
        shutil.rmtree(folder, ignore_errors=True)
    elif objects := versions(folder):
        folder.fs.rm([(folder / name).path for name in objects])
