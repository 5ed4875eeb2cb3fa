"""Pointers of Git LFS: in a clone, they lie in the place of large files until these are fetched."""

import contextlib
import pathlib

from faith_jax.core.errors import FaithJaxError

_POINTER = b"version https://git-lfs"


def check_no_pointer(path: pathlib.Path, error: type[FaithJaxError]) -> None:
    """Raises `error` for a file that is a pointer of Git LFS; one that cannot be read is none."""
    head = b""
    with contextlib.suppress(OSError), path.open("rb") as file:
        head = file.read(len(_POINTER))
    if head == _POINTER:
        raise error(
            f"{path}: is a pointer of Git LFS in place of the file; run `git lfs pull` in its "
            "folder, or download the file itself."
        )
