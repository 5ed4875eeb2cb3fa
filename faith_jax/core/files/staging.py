"""Copies between this machine and object stores: uploads that appear whole, and staged copies.

A file is uploaded as one object, which appears when it is whole. A folder has no moment at which it
appears: `_upload.json` in it says, before its first object, that it is being written, and after the
last one which objects it has, of how many bytes. Whoever reads a folder that has this file demands
this; a folder that others have uploaded has none, and is read as it is.

What a library opens by its local name is staged: copied once, into a cache by the versions of its
objects.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from faith_jax.core.errors import ConfigError, InputError, StorageError, storage_failure
from faith_jax.core.files.private import private_place
from faith_jax.core.files.stores import (
    content,
    is_remote,
    path_of,
    reason,
    storage_errors,
    versions,
)

UPLOAD = "_upload.json"
MIRROR_SECONDS = 30.0
_OURS = {"made_by": "faith_jax"}


@contextlib.contextmanager
def answering(place: Any) -> Iterator[None]:
    """Turns errors of the clients of stores that are not OSErrors into one."""
    try:
        yield
    except OSError:
        raise
    except storage_errors() as error:
        raise OSError(reason(error)) from error


def upload_file(source: pathlib.Path, target: Any) -> None:
    """Copies a local file to an object, which appears whole or not at all."""
    with answering(target):
        target.fs.put_file(str(source), target.path)


def fetch_file(source: Any, target: pathlib.Path) -> bool:
    """Copies an object to a local file; returns False if there is no such object.

    Raises:
      InputError: it cannot be read.
      StorageError: the local disk is full.
    """
    try:
        with answering(source):
            source.fs.get_file(source.path, str(target))
    except FileNotFoundError:
        return False
    except OSError as error:
        if storage_failure(error):
            raise StorageError(f"{target}: cannot be written ({reason(error)}).") from None
        raise InputError(f"{source}: cannot be read ({reason(error)}).") from None
    return True


def upload_folder(source: pathlib.Path, target: Any) -> None:
    """Copies a local folder to a store, in place of what a stopped upload has left there.

    Raises:
      ConfigError: objects are there which no upload of ours has left.
    """
    files = {
        path.relative_to(source).as_posix(): path.stat().st_size
        for path in sorted(source.rglob("*"))
        if path.is_file()
    }
    with answering(target):
        _replace(
            target,
            files,
            lambda to: target.fs.put([str(source / name) for name in files], to),
        )


def copy_within(source: Any, target: Any) -> None:
    """Copies a file or folder within a store, as an upload does; nothing moves through here."""
    with answering(target):
        if not source.is_dir():
            source.fs.cp_file(source.path, target.path)
            return
        files = {name: size for name, (_, size) in versions(source).items()}
        places = [(source / name).path for name in files]
        _replace(target, files, lambda to: source.fs.copy(places, to))


def remove_tree(folder: Any) -> None:
    """Removes a folder of any storage with all that is in it, if it is there."""
    if not is_remote(folder):
        shutil.rmtree(folder, ignore_errors=True)
    elif objects := versions(folder):
        folder.fs.rm([(folder / name).path for name in objects])


def _replace(target: Any, files: dict[str, int], write_files: Callable[[list[str]], None]) -> None:
    """Makes a folder of what `write_files` writes; it is marked as partial until all is there."""
    before = versions(target)
    if before and UPLOAD not in before:
        raise ConfigError(f"{target} is there, and no run has made it; name another output.")
    _write_upload_mark(target, False, {})
    if left := [(target / name).path for name in before if name != UPLOAD]:
        target.fs.rm(left)
    write_files([(target / name).path for name in files])
    _write_upload_mark(target, True, files)


class Mirror:
    """A local folder whose files are copied to a store as they grow, such as logs.

    Attributes:
      folder: the local folder.
    """

    def __init__(self, target: Any):
        self._temporary = tempfile.TemporaryDirectory(prefix="faith_jax_")
        self.folder, self._target = pathlib.Path(self._temporary.name), target
        self._sizes: dict[pathlib.Path, int] = {}
        self._when = time.monotonic()

    def copy(self, force: bool = False) -> None:
        """Copies what has grown, if the last copy is old enough or with `force`."""
        if not force and time.monotonic() - self._when < MIRROR_SECONDS:
            return
        self._when = time.monotonic()
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and (size := path.stat().st_size) != self._sizes.get(path):
                upload_file(path, self._target / path.relative_to(self.folder).as_posix())
                self._sizes[path] = size

    def close(self) -> None:
        """Copies what has grown, and removes the folder."""
        try:
            self.copy(force=True)
        finally:
            self._temporary.cleanup()


def _write_upload_mark(target: Any, complete: bool, files: dict[str, int]) -> None:
    mark = {**_OURS, "complete": complete, "files": files}
    target.fs.pipe_file((target / UPLOAD).path, json.dumps(mark, indent=1).encode())


def is_complete(path: pathlib.Path) -> bool:
    """Whether a file or a folder is there; a folder that an upload has left unfinished is not."""
    if not is_remote(path) or not path.is_dir():
        return path.exists()
    mark = _read_mark(path)
    return mark is None or bool(mark["complete"])


def _read_mark(folder: Any) -> dict[str, Any] | None:
    """Returns the mark that an upload has left in its folder; None = others have made it."""
    try:
        mark = json.loads(content(folder / UPLOAD))
    except FileNotFoundError:
        return None
    except ValueError:
        return {"complete": False, "files": {}}
    return mark if isinstance(mark, dict) and mark.items() >= _OURS.items() else None


def check_whole(folder: Any) -> dict[str, tuple[str, int]]:
    """Returns the versions and bytes of a store's folder by the names of its objects.

    Raises:
      InputError: it is not there, or an upload of it was stopped, or lacks objects.
    """
    objects = versions(folder)
    if not objects:
        raise InputError(f"{folder}: no such folder.")
    if UPLOAD in objects and (mark := _read_mark(folder)) is not None:
        if not mark["complete"]:
            raise InputError(
                f"{folder} is not complete: the run that writes it has not finished; run it again."
            )
        for name, size in mark["files"].items():
            stored_size = objects[name][1] if name in objects else None
            if stored_size != size:
                problem = (
                    "is gone" if stored_size is None else f"has {stored_size:,} bytes of {size:,}"
                )
                raise InputError(f"{folder} is not complete: {name} {problem}; make it again.")
        objects = {name: objects[name] for name in mark["files"]}
    return objects


def user_cache() -> pathlib.Path:
    """Returns the user's folder for what can be made again."""
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(caches) / "faith_jax"


def cache_folder() -> pathlib.Path:
    """Returns the local folder for data of stores: FAITH_JAX_STAGING, or in the user's cache."""
    if named := os.environ.get("FAITH_JAX_STAGING"):
        return pathlib.Path(named)
    return user_cache() / "stores"


def make_once(place: pathlib.Path, make: Callable[[pathlib.Path], object]) -> None:
    """Makes a folder of a cache, whole or not at all, unless it is there.

    Several processes may make it at once.

    Args:
      place: the folder; the one above it is there.
      make: gets the path of another folder, which takes its place.
    """
    if place.exists():
        return
    with private_place(place) as new_folder:
        make(new_folder)
        with contextlib.suppress(OSError):  # another process was first
            new_folder.rename(place)


def local_copy(
    location: str | os.PathLike[str], names: Iterable[str] | None = None
) -> pathlib.Path:
    """Returns a local path of a file or folder: its own, or that of a staged copy.

    A copy is made again if an object has changed. Several processes may make it at once.

    Args:
      location: a path of any storage.
      names: of a folder, only the files of these names, if they are there; None = all.

    Raises:
      InputError: a folder is not complete, or cannot be read.
      StorageError: the disk has no room.
    """
    path: Any = path_of(location)
    if not is_remote(path):
        return pathlib.Path(path)
    try:
        with answering(path):
            is_folder = path.is_dir()
            if is_folder:
                objects = check_whole(path)
                if names is not None:
                    requested_names = set(names)
                    objects = {name: objects[name] for name in objects if name in requested_names}
            else:
                info = path.fs.info(path.path)
                version_id = str(info.get("generation") or info.get("ETag"))
                objects = {path.name: (version_id, int(info["size"]))}
            identity = json.dumps([str(path), sorted(objects.items())])
            digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
            place = cache_folder() / "copies" / digest
            place.parent.mkdir(parents=True, exist_ok=True)
            make_once(place, lambda folder: _download_objects(path, objects, folder, is_folder))
            return place / path.name
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise InputError(f"{path}: no such file or folder.") from None
        if error.errno is not None:
            raise
        raise InputError(f"{path}: cannot be read ({reason(error)}).") from None


def _download_objects(
    path: Any, objects: dict[str, tuple[str, int]], new_folder: pathlib.Path, is_folder: bool
) -> None:
    size = sum(byte_count for _, byte_count in objects.values())
    free = shutil.disk_usage(new_folder.parent).free
    if free < size:
        raise StorageError(
            f"{cache_folder()}: No space left on device: a copy of {path} needs "
            f"{size / 1e6:,.1f} MB, {free / 1e6:,.1f} MB are free."
        )
    source, target = (path, new_folder / path.name) if is_folder else (path.parent, new_folder)
    target.mkdir(parents=True)
    if any(".." in pathlib.PurePosixPath(name).parts for name in objects):
        raise InputError(f"{path}: an object's name has '..'; rename it.")
    places = [(source / name).path for name in objects]
    path.fs.get(places, [str(target / name) for name in objects])
