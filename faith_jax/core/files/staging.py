"""Local copies of files on stores, and copies on stores of growing local files.

A file that a library must open by a local name is staged: copied once, into a cache that is keyed
by the versions of the objects.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.files.stores import (
    is_remote,
    path_of,
    reason,
    translate_store_errors,
    upload_file,
    version,
)
from faith_jax.core.files.whole import check_space, check_whole, private_place

_MIRROR_SECONDS = 30.0


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
        """Copies files that have grown, if the last copy is old enough or with `force`."""
        if not force and time.monotonic() - self._when < _MIRROR_SECONDS:
            return
        self._when = time.monotonic()
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and (size := path.stat().st_size) != self._sizes.get(path):
                upload_file(path, self._target / path.relative_to(self.folder).as_posix())
                self._sizes[path] = size

    def close(self) -> None:
        """Copies files that have grown, and removes the local folder."""
        try:
            self.copy(force=True)
        finally:
            self._temporary.cleanup()


def user_cache() -> pathlib.Path:
    """Returns the user's cache folder, for files that can be made again."""
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(caches) / "faith_jax"


def cache_folder() -> pathlib.Path:
    """Returns the local folder for data of stores: FAITH_JAX_STAGING or in the user's cache."""
    if named := os.environ.get("FAITH_JAX_STAGING"):
        return pathlib.Path(named)
    return user_cache() / "stores"


def make_once(place: pathlib.Path, make: Callable[[pathlib.Path], object]) -> None:
    """Makes a folder of a cache, complete or not at all, unless the folder exists.

    Several processes may do so at once. `make` fills a new folder, which is then moved to `place`.
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
    """Returns a local path of a file or folder: the path itself, or a staged copy.

    The copy is made again if an object has changed. Several processes may make it at once. With
    `names`, the copy of a folder only has the files with these names, if they exist.

    Raises:
      InputError: if a folder is not complete, or cannot be read.
      StorageError: if the disk has no room.
    """
    path: Any = path_of(location)
    if not is_remote(path):
        return pathlib.Path(path)

    def download(new_folder: pathlib.Path) -> None:
        size = sum(byte_count for _, byte_count in objects.values())
        check_space(cache_folder() / path.name, size)
        source, target = (path, new_folder / path.name) if is_folder else (path.parent, new_folder)
        target.mkdir(parents=True)
        if any(".." in pathlib.PurePosixPath(name).parts for name in objects):
            raise InputError(f"{path}: an object's name has '..'; rename it.")
        places = [(source / name).path for name in objects]
        path.fs.get(places, [str(target / name) for name in objects])

    try:
        with translate_store_errors():
            is_folder = path.is_dir()
            if is_folder:
                objects = check_whole(path)
                if names is not None:
                    objects = {name: objects[name] for name in objects.keys() & set(names)}
            else:
                objects = {path.name: (str(version(path)), path.stat().st_size)}
            identity = json.dumps([str(path), sorted(objects.items())])
            digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
            place = cache_folder() / "copies" / digest
            place.parent.mkdir(parents=True, exist_ok=True)
            make_once(place, download)
            return place / path.name
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise InputError(f"{path}: no such file or folder.") from None
        if error.errno is not None:
            raise
        raise InputError(f"{path}: cannot be read ({reason(error)}).") from None
