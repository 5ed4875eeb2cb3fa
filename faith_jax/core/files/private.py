"""Private places for what is not whole yet, beside where it belongs; and locked files.

Whoever may make files in a shared folder could put a link to a foreign file under a name that can
be guessed. So what is written beside its target is written in a folder of a random name, into which
only this user may write.
"""

import contextlib
import fcntl
import glob
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from faith_jax.core.errors import ConfigError
from faith_jax.core.files.stores import is_remote

_PARTIAL = ".partial"
_MARK = ".private"  # the locked file in a private folder, which no other folder has
_RANDOM = "?" * 8  # the letters that tempfile draws


@contextlib.contextmanager
def private_place(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a local path of the name of a file or folder, to be moved there once it is whole.

    What is left there at the end is removed; for what a kill leaves see `remove_leftovers`.

    Args:
      target: of any storage. For one that is not on a disk the place is a temporary folder.
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
    return f".{glob.escape(name)}.{_RANDOM}{_PARTIAL}"


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
    block = 0 if wait else fcntl.LOCK_NB
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | block)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), path.lstat()):
                    return file
            os.close(file)  # of another run, which ended just then and has removed it
        except BlockingIOError:
            os.close(file)
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
    """Whether a path is "-", or of a device, a pipe or a socket, or leads to one."""
    if is_remote(path) or str(path) == "-":
        return not is_remote(path)
    return path.exists() and not (path.is_file() or path.is_dir())
