"""Files that commands write: one writer, outputs that appear whole, rows that a kill leaves.

Whoever writes an output holds a lock on it. What is not whole yet lies beside it in a folder
`<output>.partial` with a note of the run, from which a stopped run resumes. Before an output takes
its place, its data is synced to disk, so that a power cut leaves the former output or the new one.

All paths may be of object stores (`stores`). There an output is made locally and uploaded: a file
appears whole, a folder says itself whether it is (`staging`). The lock is a lease (`leases`), and
rows are added as further objects (`kept`).
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import logging
import os
import pathlib
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import msgspec

from faith_jax.core.errors import ConfigError, StorageError, counted, shown, storage_failure
from faith_jax.core.files import kept as kept_files
from faith_jax.core.files.leases import is_renewed, leased
from faith_jax.core.files.staging import (
    copy_within,
    remove_tree,
    stands,
    upload_file,
    upload_folder,
)
from faith_jax.core.files.stores import (
    is_remote,
    path_of,
    reason,
    storage_errors,
    version,
    versions,
)

logger = logging.getLogger("faith_jax")

P = ParamSpec("P")
T = TypeVar("T")

ROWS, PLAN = "rows.jsonl", "plan.json"
_NOTE, _OURS = "run.json", {"made_by": "faith_jax"}
_LOCK, _PARTIAL = ".lock", ".partial"
_REPLACED = "replaced"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)
LEASE_SECONDS = 30.0  # after these, a lock whose process does not refresh it is gone


class TakenError(ConfigError):
    """Another process holds the right to write an output.

    Attributes:
      is_certain: False = on a store, it may have been killed a moment ago.
    """

    is_certain = True


def reserves(
    outputs: Callable[P, tuple[Iterable[str], Mapping[str, str]]],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes a function hold the only right to write its outputs, which are checked first.

    Args:
      outputs: returns, from the function's arguments, what `check_outputs` is given.

    Raises:
      ConfigError: see `check_outputs` and `locked`.
    """

    def decorated(run: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(run)
        def reserved(*args: P.args, **kwargs: P.kwargs) -> T:
            read, written = outputs(*args, **kwargs)
            check_outputs(read, written)
            with contextlib.ExitStack() as held:
                for option, output in written.items():
                    if output:
                        held.enter_context(locked(path_of(output), option=option))
                return run(*args, **kwargs)

        return reserved

    return decorated


def check_outputs(inputs: Iterable[str], outputs: Mapping[str, str]) -> None:
    """Checks that outputs can be written, and overwrite neither an input nor each other.

    Args:
      inputs: paths of files or folders.
      outputs: paths of files by the option that names them; "" = none.

    Raises:
      ConfigError: names the option and the path.
    """
    read = [(path, path_of(path).resolve()) for path in inputs if path]
    taken: dict[pathlib.Path, str] = {}
    for option, output in outputs.items():
        path = path_of(output)
        place = path.resolve()
        if not output:
            continue
        problem = ""
        if not has_parent(path):
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


def has_parent(path: pathlib.Path) -> bool:
    """Whether a file or folder can be made at a path: a store has no folders to be there first."""
    return is_remote(path) or path.absolute().parent.is_dir()


def _same_file(one: pathlib.Path, other: pathlib.Path) -> bool:
    if is_remote(one) or is_remote(other):
        return False  # it has one name
    return one.exists() and other.exists() and one.samefile(other)


@contextlib.contextmanager
def written_whole(path: str | pathlib.Path, shared: bool = False) -> Iterator[pathlib.Path]:
    """Yields a local path, beside that of a file on a disk, whose place it takes at the end.

    On an error nothing is left, and what stood at `path` stays. If nothing is written, nothing
    changes. What a kill leaves is written over the next time.

    Args:
      path: of the file.
      shared: several processes may write it at once; the last one wins.
    """
    target = path_of(path)
    if is_remote(target):
        with tempfile.TemporaryDirectory(prefix="faith_jax_") as folder:
            beside = pathlib.Path(folder) / target.name
            yield beside
            if beside.exists():
                upload_file(beside, target)
        return
    mark = f"{secrets.token_hex(4)}." if shared else ""
    beside = target.with_name(f".{target.name}.{mark}partial")
    try:
        yield beside
        if beside.exists():
            put(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def put(made: pathlib.Path, target: pathlib.Path) -> None:
    """Moves a file or folder to its place, where it stays after a power cut.

    Its data is on disk before it has its name. A folder takes the place of a file or an empty
    folder only. To a store it is copied: see `staging`.
    """
    if is_remote(target):
        if is_remote(made):
            copy_within(made, target)
        else:
            (upload_folder if made.is_dir() else upload_file)(made, target)
        return
    sync(made)
    os.replace(made, target)
    sync_entry(target.parent)


def sync(path: pathlib.Path) -> None:
    """Returns when a file, or a folder with all that is in it, is on disk.

    A file of rows on a store is one object then.
    """
    if is_remote(path):
        if kept_files.current(path) is not path:
            kept_files.growing(path).finish()
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
def uninterrupted() -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM wait: libraries that write in threads abort if they break off."""
    asked: list[tuple[int, Any]] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    before = {number: signal.signal(number, lambda *a: asked.append(a)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        signal.raise_signal(asked[0][0])


@contextlib.contextmanager
def writing(place: Any) -> Iterator[None]:
    """Within, an OSError becomes an error that says that `place` cannot be written.

    Raises:
      StorageError: the disk is full, or fails.
      ConfigError: anything else that the user can change.
    """
    try:
        yield
    except storage_errors() as error:
        kind = StorageError if storage_failure(error) else ConfigError
        raise kind(f"{place}: cannot be written ({reason(error)}).") from None


def check_space(place: pathlib.Path, size: int) -> None:
    """Checks that a disk has room before much is written to it.

    Args:
      place: a file or folder to be, on this disk.
      size: bytes.

    Raises:
      StorageError: it has not; says how much is needed, and how much is free.
    """
    if is_remote(place):
        return
    folder = next(path for path in place.absolute().parents if path.is_dir())
    free = shutil.disk_usage(folder).free
    if free < size:
        raise StorageError(
            f"{place}: No space left on device: {size / 1e6:,.1f} MB are needed, "
            f"{free / 1e6:,.1f} MB are free."
        )


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
    folder = path_of(output)
    with writing(f"{option}: {folder}"):
        if not is_remote(folder):
            folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def working_folder(
    output: str | pathlib.Path, option: str = "--output"
) -> Iterator[tuple[pathlib.Path, int | None]]:
    """Makes the folder of an option, and holds the only right to write into it.

    Yields the folder and the descriptor of `locked`.

    Raises:
      ConfigError: it cannot be made, or another run is writing into it.
    """
    folder = path_of(output)
    with emptied(folder):
        made_folder(folder, option)
        with locked(folder, folder / _LOCK, option) as lock:
            yield folder, lock


@contextlib.contextmanager
def emptied(folder: pathlib.Path) -> Iterator[None]:
    """Removes on an error a folder and those above it which are made within, if they are empty."""
    if is_remote(folder):
        yield  # it is gone with what was in it
        return
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for path in made:
                path.rmdir()
        raise


def content_digest(values: Iterable[Any]) -> str:
    """Returns a hash of values in their order, by their representations."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(repr(value).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def stamp(paths: Iterable[str | pathlib.Path]) -> list[list[Any]]:
    """Returns what tells whether files have changed: size and time, or on a store the version."""
    return [[str(path), *_state(path_of(path))] for path in paths]


def _state(path: pathlib.Path) -> list[Any]:
    if is_remote(path):
        return [version(path)]
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def check_settings(path: pathlib.Path, settings: Mapping[str, Any], kept: str) -> None:
    """Checks that files were made with the settings that are asked for.

    Args:
      path: where `write_json` wrote what they were made with.
      settings: what is asked for; settings that are only in the file do not matter.
      kept: what the files have, such as "responses".

    Raises:
      ConfigError: names the first setting that differs.
    """
    if found := difference(kept_json(path), settings):
        raise ConfigError(
            f"--output: {path.parent} keeps {kept} with {found}; name another folder, or remove it."
        )


def difference(before: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> str:
    """Returns the first setting that differs from those of a former run, with both values.

    "" = none differs. A setting within settings is named with these, as `decoding.top_p`.
    """
    if before is None:
        return "other settings, which are not readable"
    return _difference(before, json.loads(json.dumps(settings, default=str)), "")


def _difference(before: Mapping[str, Any], settings: Mapping[str, Any], within: str) -> str:
    for name, value in settings.items():
        former, path = before.get(name), f"{within}{name}"
        if former == value:
            continue
        if isinstance(former, dict) and isinstance(value, dict) and former.keys() == value.keys():
            return _difference(former, value, f"{path}.")
        return f"another value of {path} ({_shown(former)}, not {_shown(value)})"
    return ""


def _shown(value: Any) -> str:
    return shown(value) if isinstance(value, dict | list) else str(value)


def count_whole_rows(path: pathlib.Path) -> int:
    """Returns how many whole rows a file begins with, and drops what follows them.

    What follows is a line that a kill cut, or what a power cut left of lines that were not on disk.
    """
    local = kept_files.growing(path).local if is_remote(path) else path
    if not local.exists():
        return 0
    count, end = 0, 0
    with open(local, "rb") as file:
        for line in file:
            if not _is_whole(line):
                break
            count, end = count + 1, end + len(line)
    _cut(path, end)
    return count


def _cut(path: pathlib.Path, end: int) -> None:
    """Drops what follows the first bytes of a file."""
    if is_remote(path):
        os.truncate(kept_files.growing(path).local, end)
        kept_files.growing(path).keep()
    else:
        os.truncate(path, end)


def _is_whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def append_rows(path: pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends rows as JSON, one a line, and flushes them."""
    local = kept_files.growing(path).local if is_remote(path) else path
    encode = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes one for each row
    with local.open("a", encoding="utf-8") as file:
        file.writelines(f"{encode(row)}\n" for row in rows)
    if is_remote(path):
        kept_files.growing(path).keep()


def keep_rows(path: pathlib.Path, number: int) -> int:
    """Drops all rows behind the first `number` from a file of whole rows; returns `number`."""
    local = kept_files.growing(path).local if is_remote(path) else path
    if local.exists():
        with local.open("rb") as file:
            _cut(path, sum(len(file.readline()) for _ in range(number)))
    return number


def partial_folder(target: pathlib.Path) -> pathlib.Path:
    """Returns the folder that keeps what is made of an output until it is whole."""
    return target.with_name(f"{target.name}{_PARTIAL}")


def kept_note(target: pathlib.Path) -> dict[str, Any]:
    """Returns what a stopped run has noted of itself; empty if there is none."""
    return kept_json(partial_folder(target) / _NOTE) or {}


def kept_rows(target: pathlib.Path) -> int:
    """Returns how many rows a stopped run has kept, in all of its shards; changes nothing."""
    count = 0
    for path in kept_files.row_files(partial_folder(target)):
        with contextlib.suppress(OSError), path.open("rb") as file:
            count += sum(line.endswith(b"\n") for line in file)
    return count


@contextlib.contextmanager
def partial_output(
    target: pathlib.Path,
    run: Mapping[str, Any],
    restart: bool = False,
    replaces: bool = False,
    option: str = "--output",
    wait: bool = False,
) -> Iterator[pathlib.Path]:
    """Holds the folder of a run, which is removed if the run is done or has made nothing.

    Args:
      target: the output.
      run: settings that must be the same for a stopped run to resume: its scorers and input.
      restart: discard what a stopped run has made.
      replaces: the output may exist.
      option: that names the output.
      wait: for another process that makes it.

    Raises:
      ConfigError: the output exists or cannot be written, another run is writing it, what a
        different run has made is kept, or a folder of this name is no run's.
    """
    done = False
    with locked(target, option=option, wait=wait):
        try:
            yield begun(target, run, restart, replaces, option)
            done = True
        finally:
            let_go(target, done)


def begun(
    target: pathlib.Path, run: Mapping[str, Any], restart: bool, replaces: bool, option: str
) -> pathlib.Path:
    """Returns the folder of a run that begins or resumes; see `partial_output`.

    The caller holds the lock of the target, and calls `let_go` at the end.
    """
    folder = partial_folder(target)
    with writing(f"{option}: {target}"):
        _resume(folder, target, run, restart, option)
    if stands(target) and not replaces:
        raise ConfigError(f"{target} exists already; remove it or name another output.")
    return folder


def let_go(target: pathlib.Path, done: bool = False) -> None:
    """Removes the folder of a run that is done, or that has made nothing."""
    folder = partial_folder(target)
    kept_files.close(folder)
    if _is_ours(folder) and (done or not has_made(folder)):
        remove_tree(folder)


@contextlib.contextmanager
def made_in(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a local path for an output, or a part of one, that is made of what a folder keeps."""
    if is_remote(folder):
        with tempfile.TemporaryDirectory(prefix="faith_jax_") as place:
            yield pathlib.Path(place) / "made"
        return
    made = folder / "made"
    shutil.rmtree(made, ignore_errors=True)  # of a run killed here
    yield made


def note_later(folder: pathlib.Path, more: Mapping[str, Any], option: str = "--output") -> None:
    """Adds to the note of a run what is known only later, such as a digest of its input.

    Args:
      folder: of `partial_output`.
      more: what must be the same for a stopped run to resume.
      option: that names the output.

    Raises:
      ConfigError: a stopped run noted another value.
    """
    kept = kept_json(folder / _NOTE) or {}
    known = {name: value for name, value in more.items() if name in kept}
    if found := difference(kept, known):
        raise _other_run(folder, found, option)
    if known != more:
        write_json(folder / _NOTE, {**kept, **more})


def _other_run(folder: pathlib.Path, found: str, option: str) -> ConfigError:
    count = kept_rows(folder.with_name(folder.name.removesuffix(_PARTIAL)))
    kept = counted(count, "row") if count else "what is made"
    return ConfigError(
        f"{option}: {folder} keeps {kept} of another run ({found}); finish it with its own "
        "command, or discard it with --restart or by removing that folder."
    )


@contextlib.contextmanager
def written_folder(
    target: pathlib.Path,
    what: str,
    replaces: bool = False,
    option: str = "--output",
    wait: bool = False,
) -> Iterator[pathlib.Path]:
    """Yields a path for a folder, which takes its place at the end.

    On an error nothing is left, and what stood at `target` stays. If nothing is written, nothing
    changes.

    Args:
      target: the folder; those above it are made where they are missing.
      what: is made; what a stopped run has made of the same is discarded.
      replaces: a folder that is there is replaced.
      option: that names the folder.
      wait: for another process that makes it.

    Raises:
      ConfigError: see `partial_output`.
    """
    with contextlib.ExitStack() as held:
        held.enter_context(emptied(target.parent))
        with writing(f"{option}: {target}"):
            if not is_remote(target):
                missing = [path for path in target.parents if not path.exists()]
                target.parent.mkdir(parents=True, exist_ok=True)
                for path in missing:
                    sync_entry(path.parent)
        run = {"makes": what}
        folder = held.enter_context(
            partial_output(target, run, replaces=replaces, option=option, wait=wait)
        )
        made = held.enter_context(made_in(folder))
        try:
            yield made
            with writing(f"{option}: {target}"):
                if made.exists() and target.exists() and not is_remote(target):
                    sync(made)
                    os.replace(target, folder / _REPLACED)
                if made.exists():
                    put(made, target)
        except BaseException:
            _put_back(folder, target)
            shutil.rmtree(made, ignore_errors=True)
            raise


def _resume(
    folder: pathlib.Path,
    target: pathlib.Path,
    run: Mapping[str, Any],
    restart: bool,
    option: str,
) -> None:
    """Makes the folder ready; discards nothing that another made unless `restart` says so."""
    if folder.is_symlink() or (folder.exists() and not _is_ours(folder)):
        raise ConfigError(
            f"{option}: {folder} is there, and no run has made it; move it away, or name another "
            "output."
        )
    _put_back(folder, target)
    if not restart:
        found = difference(kept_json(folder / _NOTE), run)
        if found and has_made(folder):
            raise _other_run(folder, found, option)
        if not found:
            return
    kept_files.forget(folder)
    remove_tree(folder)
    if not is_remote(folder):
        folder.mkdir()
    write_json(folder / _NOTE, {**_OURS, **run})


def _put_back(folder: pathlib.Path, target: pathlib.Path) -> None:
    """Puts back an output that was moved aside, where nothing has taken its place."""
    if (folder / _REPLACED).exists() and not target.exists():
        os.replace(folder / _REPLACED, target)


def _is_ours(folder: pathlib.Path) -> bool:
    """Whether a run has made a folder; an empty one, without a whole note, is anyone's."""
    if not folder.is_dir():
        return False
    note = kept_json(folder / _NOTE) or {}
    others = (path for path in folder.iterdir() if path.name != f".{_NOTE}.partial")
    return note.items() >= _OURS.items() or not any(others)


def has_made(folder: pathlib.Path) -> bool:
    """Whether there is more in a folder than a note, or a part of one."""
    notes = {name for note in (_NOTE, PLAN) for name in (note, f".{note}.partial")}
    if is_remote(folder):  # where locks have a content
        found = versions(folder)
        return any(name not in notes and not name.endswith(_LOCK) for name in found)
    files = (path for path in folder.rglob("*") if path.is_file())
    return any(path.name not in notes and path.stat().st_size for path in files)


@contextlib.contextmanager
def locked(
    output: pathlib.Path,
    lock: pathlib.Path | None = None,
    option: str = "--output",
    wait: bool | None = False,
) -> Iterator[int | None]:
    """Holds the only right to write an output, until the process ends, however that ends.

    Yields the descriptor that holds it. On a file system without locks, and on an object store,
    there is none: the right is a lease then, which expires when its process no longer refreshes it.

    Args:
      output: a file or a folder.
      lock: the file that is locked; None = `.<output>.lock` beside the output.
      option: that names the output.
      wait: for another process that holds it; None = on a store, not even to see whether it lives.

    Raises:
      TakenError: another process holds it.
      ConfigError: the lock cannot be written.
    """
    path = lock or output.resolve().with_name(f".{output.name}{_LOCK}")
    with contextlib.ExitStack() as held:
        with writing(f"{option}: {output}"):
            file = None
            if is_remote(path):
                stop = functools.partial(_stop, output)
                lease = leased(path, output, LEASE_SECONDS, wait, stop)
                taken = not held.enter_context(lease)
            else:
                try:
                    file = _locked_file(path, wait)
                    taken = file is None
                except OSError as error:
                    if error.errno not in _NO_LOCKS:
                        raise
                    taken = not held.enter_context(_leased(path, output, wait))
        if taken:
            refusal = TakenError(
                f"{option}: another run is writing {output}; wait for it, or name another output."
            )
            refusal.is_certain = not is_remote(path) or is_renewed(path)
            raise refusal
        if file is not None:
            held.callback(os.close, file)
            held.callback(path.unlink, missing_ok=True)
        held.callback(kept_files.close, output)
        yield file


def _locked_file(path: pathlib.Path, wait: bool | None) -> int | None:
    """Returns the descriptor of a file that is locked now; None = another process has locked it."""
    block = 0 if wait else fcntl.LOCK_NB
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | block)
            if path.exists() and os.path.samestat(os.fstat(file), os.stat(path)):
                return file
            os.close(file)  # of another run, which ended just then and has removed it
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _leased(path: pathlib.Path, output: pathlib.Path, wait: bool | None) -> Iterator[bool]:
    """Holds a file whose process says that it lives; False = another process does."""
    import filelock  # takes a moment to import, and is rarely needed

    lease = filelock.SoftFileLease(
        path.with_suffix(".lease"),
        lease_duration=LEASE_SECONDS,
        on_compromise=lambda lost: _stop(output, f"another run has taken it over ({lost.reason})"),
    )
    if path.with_suffix(".lease").exists():
        logger.info("%s: waiting to see whether another run is writing it", output)
    try:
        # Whoever waits must see the file unchanged for as long as it lasts.
        lease.acquire(timeout=-1 if wait else 1.5 * LEASE_SECONDS)
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lease.release()


def _stop(output: pathlib.Path, why: str) -> None:
    logger.error("%s: %s; this one stops", output, why)
    # A shell lets what it starts in the background ignore Ctrl-C.
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    number = signal.SIGTERM if ignored else signal.SIGINT
    signal.pthread_kill(threading.main_thread().ident or 0, number)  # wakes it
