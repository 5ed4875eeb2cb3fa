"""Files and folders that appear complete or not at all, and survive a power cut.

An output is built in a private folder beside its place. The folder has a random name, and only this
user may write into it: in a shared folder, another user could place a link to a foreign file under
a name that can be guessed. The output's data is synced to disk before it is moved into place.

On a store, a file is one object, which appears when its upload ends. A folder does not appear at
once, so its object `_upload.json` says before the first upload that the folder is being written,
and after the last one which objects it has, with their sizes. Readers of such a folder check this;
a folder that others have uploaded does not have this object, and is read as it is.
"""

import contextlib
import contextvars
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
from typing import IO, Any

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
from faith_jax.core.table import printable

OURS = {"made_by": "faith_jax"}  # in notes, identifies folders that this package has made
UPLOAD = "_upload.json"
_PARTIAL = ".partial"
_MARK = ".private"  # the locked file in a private folder; other folders have no such file
_STANDARD_OUTPUT = 1  # its descriptor
_standard_output = contextvars.ContextVar[IO[str] | None]("standard_output", default=None)


@contextlib.contextmanager
def atomic_file(path: str | pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a local path to write to; the new file is moved to `path` at the end.

    On an error the new file is removed, and an existing file stays. If nothing is written, nothing
    changes. Several processes may write a file at once; the last one wins. A path that is not a
    regular file, such as a pipe, is written to but not replaced; "-" is standard output. If it is a
    link, the file that it leads to is written.
    """
    target = path_of(path)
    with private_place(target) as beside:
        yield beside
        if not beside.exists():
            return
        standard_output = _standard_output.get() or sys.stdout
        if str(target) == "-" and (stream := getattr(standard_output, "buffer", None)):
            standard_output.flush()
            stream.write(beside.read_bytes())
            stream.flush()
        elif str(target) == "-":  # sys.stdout of a notebook has no buffer
            standard_output.write(beside.read_text(encoding="utf-8"))
        elif is_stream(target):
            number = _open_file(target)
            standard_output.flush()  # earlier output comes first, if it goes to the same file
            place = target if number is None else os.dup(number)
            with open(beside, "rb") as file, open(place, "wb", buffering=0) as stream:
                shutil.copyfileobj(file, stream)
        else:
            move_into_place(beside, target)


@contextlib.contextmanager
def only_outputs_on_standard_output() -> Iterator[None]:
    """Lets prints go to standard error, so that only an output is on standard output."""
    former = _standard_output.set(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _standard_output.reset(former)


def through_links(path: pathlib.Path) -> pathlib.Path:
    """Returns the path that a link leads to, which need not exist; other paths are unchanged.

    Raises:
      OSError: the link leads to itself, or the system does not let this user follow it, such as a
        link of another user in a shared folder.
    """
    if is_remote(path) or not path.is_symlink():
        return path
    with contextlib.suppress(FileNotFoundError):
        path.stat()
    return pathlib.Path(os.path.realpath(path))


def move_into_place(source: pathlib.Path, target: pathlib.Path) -> None:
    """Moves a file or folder into place, so that it survives a power cut.

    If the target is a link, what it leads to is replaced.

    The data is synced to disk before the move. A folder can only replace an empty folder. If the
    target is on a store, the source is copied.
    """
    target = through_links(target)
    if not is_remote(target):
        sync(source)
        os.replace(source, target)
        sync_entry(target.parent)
    elif is_remote(source):
        _copy_within(source, target)
    else:
        (upload_folder if source.is_dir() else upload_file)(source, target)


def sync(path: pathlib.Path) -> None:
    """Blocks until a file, or a folder with all its contents, is on disk.

    A growing file of rows on a store is uploaded as its final object.
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
    """Blocks until a file, or the entry list of a folder, is on disk."""
    if is_remote(path):
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # folders on some file systems
            raise
    finally:
        os.close(file)


@contextlib.contextmanager
def report_write_errors(place: Any) -> Iterator[None]:
    """Turns storage errors into an error that says that `place` cannot be written.

    Raises:
      BrokenPipeError: if the reader of a pipe has ended.
      StorageError: if the disk is full or fails.
      ConfigError: for all other reasons, which the user can change.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except storage_errors() as error:
        kind = StorageError if storage_failure(error) else ConfigError
        raise kind(f"{place}: cannot be written ({reason(error)}).") from None


def write_text(path: str | pathlib.Path, text: str) -> None:
    """Writes a file atomically; raises the errors of `report_write_errors`."""
    with report_write_errors(path), atomic_file(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(path: str | pathlib.Path, value: Any) -> None:
    """Writes a value as JSON with `write_text`; paths become strings."""
    write_text(path, json_text(value, indent=1) + "\n")


def json_text(value: Any, indent: int | None = None) -> str:
    """Returns JSON in which control characters are escapes, since terminals would obey them."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    return printable(text, "\n", r"\u{:04x}")


def read_json_or_none(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns the object in a JSON file; None if it is missing or not a complete object."""
    try:
        value = json.loads(content(path) if is_remote(path) else path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_jsonl(path: str | pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSON lines with `write_text`."""
    write_text(path, "".join(json_text(row) + "\n" for row in rows))


def make_output_folder(output: str | pathlib.Path, option: str = "--output") -> pathlib.Path:
    """Makes the folder that an option names; raises a ConfigError if it cannot be made."""
    folder = path_of(output)
    if kind := stream_kind(folder):
        raise ConfigError(f"{option}: {folder}: {kind} is no place for a folder; name a folder.")
    with report_write_errors(f"{option}: {folder}"):
        if not is_remote(folder):
            through_links(folder).mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def remove_new_folders_on_error(folder: pathlib.Path) -> Iterator[None]:
    """Removes `folder` and its parents on an error, if the block made them and they are empty."""
    # On a store, a folder disappears with its contents.
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
    """Raises a StorageError unless the disk of `place`, which need not exist, has `size` bytes."""
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
    """Delays Ctrl-C and SIGTERM, because libraries that write in threads abort on interrupts."""
    signals: list[tuple[int, Any]] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
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
    """Yields a path in a private folder at which to build a file or folder before moving it.

    The private folder is removed at the end; `remove_leftovers` removes it after a kill. If the
    target is not on a disk, a temporary folder is used.
    """
    if is_remote(target) or is_stream(target):
        with tempfile.TemporaryDirectory(prefix="faith_jax_") as temporary:
            yield pathlib.Path(temporary) / target.name
        return
    target = through_links(target)
    remove_leftovers(target)
    while True:
        folder = pathlib.Path(tempfile.mkdtemp(_PARTIAL, f".{target.name}.", target.parent))
        try:
            lock = lock_file(folder / _MARK)
        except FileNotFoundError:
            continue  # another writer removed the folder as the leftover of a kill
        except OSError:  # the file system has no locks
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
    """Returns a glob pattern for the names of private folders of a target called `name`."""
    letters = "?" * 8  # tempfile's random letters
    return f".{glob.escape(name)}.{letters}{_PARTIAL}"


def remove_leftovers(target: pathlib.Path) -> None:
    """Removes the private folders of a target that killed processes left, which are not locked.

    On file systems without locks, folders that are not empty stay.
    """
    target = through_links(target)
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
    """Removes a private folder, its mark last, so that it stays recognisable after a kill."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != _MARK:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def lock_file(path: pathlib.Path, wait: bool = False) -> int | None:
    """Locks a file and returns its descriptor, or None if another process has locked it."""
    from filelock import lock_descriptor  # imported late, because it imports asyncio

    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            is_locked = lock_descriptor(file, blocking=wait)
            with contextlib.suppress(FileNotFoundError):
                if is_locked and os.path.samestat(os.fstat(file), path.lstat()):
                    return file
            os.close(file)  # another run holds it, or has just ended and removed it
            if not is_locked:
                return None
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise


def link_error(path: pathlib.Path, option: str) -> ConfigError:
    """Returns the error for a link in one of our folders, which may lead to a foreign file."""
    return ConfigError(
        f"{option}: {path} is a link, and no run has made it; remove it, or name another output."
    )


def is_stream(path: pathlib.Path) -> bool:
    """Whether a path is "-", or a device, a pipe or a socket, or a link to one.

    Links to open files of this process, such as /dev/stdout, count too, even to regular files.
    """
    if is_remote(path):
        return False
    is_special = path.exists() and not (path.is_file() or path.is_dir())
    return str(path) == "-" or is_special or _open_file(path) is not None


def is_standard_output(path: pathlib.Path) -> bool:
    """Whether a path is "-", or leads to standard output as /dev/stdout does."""
    return not is_remote(path) and (str(path) == "-" or _open_file(path) == _STANDARD_OUTPUT)


def stream_kind(path: pathlib.Path) -> str:
    """Returns what a path is if it is one of `is_stream`, such as "a pipe"; "" = it is none."""
    if not is_stream(path):
        return ""
    if is_standard_output(path):
        return "standard output"
    return "a device" if path.is_char_device() or path.is_block_device() else "a pipe"


def _open_file(path: pathlib.Path) -> int | None:
    """Returns the descriptor of an open file of this process that a path links to, or None."""
    for _ in range(40):  # as many links as Linux follows
        place = os.path.join(os.path.realpath(path.parent), path.name)
        if match := re.fullmatch(rf"/proc/{os.getpid()}/fd/(\d+)", place):
            return int(match[1])
        if not path.is_symlink():
            return None
        path = path.parent / os.readlink(path)
    return None


def upload_folder(source: pathlib.Path, target: Any) -> None:
    """Copies a local folder to a store, and replaces objects that a stopped upload has left."""
    files = {
        path.relative_to(source).as_posix(): path.stat().st_size
        for path in sorted(source.rglob("*"))
        if path.is_file()
    }
    paths = [str(source / name) for name in files]
    _replace_objects(target, files, lambda places: target.fs.put(paths, places))


def _copy_within(source: Any, target: Any) -> None:
    """Copies a file or folder within a store, without downloading it; marked like an upload."""
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
    """Makes a folder of the objects that `write_files` writes, marked as partial until the end."""
    with translate_store_errors():
        before = versions(target)
        if before and UPLOAD not in before:
            raise ConfigError(f"{target} is there, and no run has made it; name another output.")
        _write_upload_mark(target, False, {})
        # Only other objects are removed: another process may be making the same folder.
        if left := [(target / name).path for name in before if name not in (UPLOAD, *files)]:
            target.fs.rm(left)
        write_files([(target / name).path for name in files])
        _write_upload_mark(target, True, files)


def _write_upload_mark(target: Any, complete: bool, files: dict[str, int]) -> None:
    mark = {**OURS, "complete": complete, "files": files}
    target.fs.pipe_file((target / UPLOAD).path, json.dumps(mark, indent=1).encode())


def _read_upload_mark(folder: Any) -> dict[str, Any] | None:
    """Returns the mark that an upload left in its folder; None = the folder was made by others."""
    try:
        mark = json.loads(content(folder / UPLOAD))
    except FileNotFoundError:
        return None
    except ValueError:
        return {"complete": False, "files": {}}
    return mark if isinstance(mark, dict) and mark.items() >= OURS.items() else None


def is_complete(path: pathlib.Path) -> bool:
    """Whether a file or folder exists; a folder of an unfinished upload does not count."""
    if not is_remote(path) or not path.is_dir():
        return path.exists()
    mark = _read_upload_mark(path)
    return mark is None or bool(mark["complete"])


def check_whole(folder: Any) -> dict[str, tuple[str, int]]:
    """Checks that a store's folder is complete; returns versions and sizes of objects, by name."""
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
    """Removes a folder on any storage with all its contents, if it exists."""
    if not is_remote(folder):
        shutil.rmtree(folder, ignore_errors=True)
    elif objects := versions(folder):
        folder.fs.rm([(folder / name).path for name in objects])
