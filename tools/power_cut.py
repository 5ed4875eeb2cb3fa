"""Simulates a power cut: what processes wrote without a sync is lost.

A process runs with `power_cut.c` preloaded, which notes what is synced. After it has ended, or was
killed, `cut` takes away what is not: bytes behind the last sync of a file become zeros, as on file
systems that write sizes before data, and a file that was never synced is empty.
"""

import os
import pathlib
import subprocess

_SOURCE = pathlib.Path(__file__).with_name("power_cut.c")
_NOTE = "user.synced"


def shim(folder: pathlib.Path) -> pathlib.Path:
    """Compiles the library to preload, with LD_PRELOAD, into `folder`, and returns its path."""
    library = folder / "power_cut.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


def is_possible(folder: pathlib.Path) -> bool:
    """Whether there is a compiler, and the file system of `folder` keeps notes."""
    try:
        os.setxattr(folder, _NOTE, b"")
        os.removexattr(folder, _NOTE)
        subprocess.run(["cc", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def unsynced(folder: pathlib.Path) -> dict[pathlib.Path, int]:
    """Returns the files and folders below `folder` with changes that are not on disk.

    The values are how many bytes of a file are; -1 for a folder, whose names are not.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            continue
        status = path.stat()
        try:
            size, time = os.getxattr(path, _NOTE).split()
        except OSError:
            size, time = b"0", b""
        if path.is_file() and not status.st_size and not time:
            continue  # an empty file has nothing to lose
        if int(time or 0) != status.st_mtime_ns:
            found[path] = min(int(size), status.st_size) if path.is_file() else -1
    return found


def cut(folder: pathlib.Path) -> list[pathlib.Path]:
    """Takes away from the files below `folder` what is not on disk; returns those files."""
    lost = {path: kept for path, kept in unsynced(folder).items() if path.is_file()}
    for path, kept in lost.items():
        size = path.stat().st_size if kept else 0
        os.truncate(path, kept)
        os.truncate(path, size)
    return list(lost)
