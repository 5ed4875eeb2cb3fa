"""Paths of the repository and of the shared data."""

import os
import pathlib

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SHARED = pathlib.Path(os.environ.get("FAITH_JAX_SHARED", REPOSITORY.parent / "shared"))
PARITY = SHARED / "data" / "parity"
REAL = SHARED / "data" / "real"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(),
    reason=f"the shared data folder {SHARED.name!r} is not beside the repository "
    "(set FAITH_JAX_SHARED to point to it)",
)
