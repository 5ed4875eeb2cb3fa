"""Disk faults: processes that are killed while they write, and power cuts.

A process runs with `disk_faults.c` preloaded. It can be killed at any of its writes. After it has
ended, `cut` removes the data that a power cut would have lost: bytes after the last sync of a file
become zeros, as on file systems that write sizes before data, and a file that was never synced
becomes empty.
"""

import os
import pathlib
import subprocess
from collections.abc import Mapping

_SOURCE = pathlib.Path(__file__).with_name("disk_faults.c")
_NOTE = "user.synced"


def shim(folder: pathlib.Path) -> pathlib.Path:
    """Compiles the preloaded library into `folder`, and returns its path."""
    library = folder / "disk_faults.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


def is_possible(folder: pathlib.Path) -> bool:
    """Whether there is a compiler, and the file system of `folder` has extended attributes."""
    try:
        os.setxattr(folder, _NOTE, b"")
        os.removexattr(folder, _NOTE)
        subprocess.run(["cc", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def environment(
    library: pathlib.Path,
    folder: pathlib.Path,
    count: pathlib.Path | None = None,
    kill_at: int | None = None,
) -> Mapping[str, str]:
    """Returns the environment variables of a process.

    Args:
      library: the library compiled by `shim`.
      folder: only writes below this folder count.
      count: the file that counts the writes, see `writes`; None = they are not counted.
      kill_at: the number of the write at which the process is killed; None = never.
    """
    variables = {**os.environ, "LD_PRELOAD": str(library), "FAULTS_FOLDER": f"{folder.resolve()}/"}
    variables |= {"FAULTS_COUNT": str(count)} if count else {}
    return variables | ({"FAULTS_KILL_AT": str(kill_at)} if kill_at else {})


def writes(count: pathlib.Path) -> int:
    """Returns the number of writes, syncs and renames that the file `count` holds."""
    return int.from_bytes(count.read_bytes()[:8], "little")


def unsynced(folder: pathlib.Path) -> dict[pathlib.Path, int]:
    """Returns the files and folders below `folder` with changes that are not on disk.

    The values are the bytes of a file that are on disk, or -1 for a folder with unsynced entries.
    """
    unsynced_files = {}
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
            unsynced_files[path] = min(int(size), status.st_size) if path.is_file() else -1
    return unsynced_files


def cut(folder: pathlib.Path) -> list[pathlib.Path]:
    """Removes unsynced data from the files below `folder`; returns the changed files."""
    lost = {path: synced_size for path, synced_size in unsynced(folder).items() if path.is_file()}
    for path, synced_size in lost.items():
        size = path.stat().st_size if synced_size else 0
        os.truncate(path, synced_size)
        os.truncate(path, size)
    return list(lost)
