"""Reads the arrays that Orbax wrote, one by one with TensorStore.

Orbax's own reader says of a broken folder neither which array is broken nor only one thing: the
threads of the other arrays go on, and print tracebacks. Orbax describes its files in `_METADATA`.
"""

import json
import pathlib
from typing import Any

import numpy as np
import tensorstore

from faith_jax.errors import CheckpointError
from faith_jax.models.importers.checkpoint import unflatten

METADATA = "_METADATA"


def read_arrays(folder: pathlib.Path) -> dict[str, Any]:
    """Reads a tree of arrays as NumPy arrays, whatever devices wrote them.

    Args:
      folder: one item of an Orbax checkpoint, such as params/.

    Raises:
      CheckpointError: on a folder that is not whole, naming the array where it is one's.
    """
    described = _describe(folder)
    try:
        names = [
            tuple(str(part["key"]) for part in entry["key_metadata"])
            for entry in described["tree_metadata"].values()
        ]
        driver = "zarr3" if described.get("use_zarr3") else "zarr"
        database = bool(described.get("use_ocdbt"))
    except (KeyError, TypeError, AttributeError):
        raise CheckpointError(
            f"{folder / METADATA}: not a description of arrays by Orbax; copy the checkpoint again."
        ) from None
    opened = {}
    for name in names:
        spec = {"driver": driver, "kvstore": _store(folder, ".".join(name), database)}
        opened["/".join(name)] = tensorstore.open(spec, read=True, open=True)
    # All are on their way before the first is waited for.
    return unflatten({name: _result(folder, name, array) for name, array in opened.items()})


def _describe(folder: pathlib.Path) -> dict[str, Any]:
    try:
        described = json.loads((folder / METADATA).read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(
            f"{folder / METADATA}: {error.strerror}; copy the checkpoint again."
        ) from None
    except ValueError:
        raise CheckpointError(
            f"{folder / METADATA}: cut short or no JSON; copy the checkpoint again."
        ) from None
    if not isinstance(described, dict):
        raise CheckpointError(f"{folder / METADATA}: expected a JSON object.")
    return described


def _store(folder: pathlib.Path, name: str, database: bool) -> dict[str, Any]:
    if not database:
        return {"driver": "file", "path": f"{folder / name}/"}
    base = {"driver": "file", "path": f"{folder}/"}
    return {"driver": "ocdbt", "base": base, "path": f"{name}/"}


def _result(folder: pathlib.Path, name: str, array: Any) -> np.ndarray:
    try:
        return np.asarray(array.result().read().result())
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split("[")[0].split())[:200]
        raise CheckpointError(
            f"{folder}: the parameter {name} cannot be read ({reason}); copy the checkpoint again."
        ) from None
