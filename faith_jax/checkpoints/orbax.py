"""Arrays as Orbax writes them, read one by one with TensorStore.

Orbax's own reader does not say which array of a broken folder is broken, and the threads of the
other arrays go on and print tracebacks. Orbax describes its files in `_METADATA`.
"""

import json
import pathlib
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
import tensorstore

from faith_jax.checkpoints.checkpoint import unflatten
from faith_jax.core.errors import CheckpointError
from faith_jax.core.types import PyTree

METADATA = "_METADATA"


def write_arrays(folder: pathlib.Path, tree: PyTree) -> None:
    """Writes a tree of arrays to a new folder.

    Raises:
      CheckpointError: Orbax cannot write to the path.
    """
    if "[" in str(folder):
        # Orbax takes it for a pattern, and leaves out what it then does not find.
        raise CheckpointError(
            f"{folder}: Orbax cannot write to a path with '['; choose another folder."
        )
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder, tree)


def read_arrays(folder: pathlib.Path) -> dict[str, Any]:
    """Reads one item of an Orbax checkpoint, such as params/, as NumPy arrays.

    Raises:
      CheckpointError: the folder is not whole; names the array if it is one's fault.
    """
    try:
        described = json.loads((folder / METADATA).read_text(encoding="utf-8"))
        names = [
            [part["key"] for part in entry["key_metadata"]]
            for entry in described["tree_metadata"].values()
        ]
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a description of arrays by Orbax"
        raise CheckpointError(
            f"{folder / METADATA}: {reason}; copy the checkpoint again."
        ) from None
    driver = "zarr3" if described.get("use_zarr3") else "zarr"
    opened = {}
    for name in names:
        store: dict[str, Any] = {"driver": "file", "path": f"{folder / '.'.join(name)}/"}
        if described.get("use_ocdbt"):
            base = {"driver": "file", "path": f"{folder}/"}
            store = {"driver": "ocdbt", "base": base, "path": f"{'.'.join(name)}/"}
        spec = {"driver": driver, "kvstore": store}
        opened["/".join(name)] = tensorstore.open(spec, read=True, open=True)
    # All are on their way before the first is waited for.
    return unflatten({name: _result(folder, name, array) for name, array in opened.items()})


def _result(folder: pathlib.Path, name: str, array: Any) -> np.ndarray:
    try:
        return np.asarray(array.result().read().result())
    except (OSError, ValueError) as error:
        raise unreadable(folder, name, error) from None


def unreadable(place: pathlib.Path, name: str, error: Exception) -> CheckpointError:
    """Returns the error of a parameter that TensorStore cannot read, on one line."""
    reason = " ".join(str(error).split("[")[0].split())[:400]
    return CheckpointError(
        f"{place}: the parameter {name} cannot be read ({reason}); copy the checkpoint again."
    )
