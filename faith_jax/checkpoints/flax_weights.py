"""Weights that Transformers' Flax classes saved: flax_model.msgpack, or shards with an index.

The file is a tree of arrays, so reading it runs no code. Names are converted to those of the same
model's safetensors, where Flax's kernel is transposed and called a weight.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

import flax.serialization
import flax.traverse_util
import numpy as np

from faith_jax.checkpoints.lazy_arrays import lazy, transpose
from faith_jax.checkpoints.tensors import StoredTensor, weight_files
from faith_jax.core.errors import CheckpointError, reason

WHOLE = "flax_model.msgpack"
INDEX = "flax_model.msgpack.index.json"
_WEIGHTS = ("kernel", "embedding", "scale", "weight")


def restore_msgpack(path: pathlib.Path, contents: str) -> Any:
    """Returns the tree in a Flax file; raises a CheckpointError if the file is incomplete."""
    try:
        return flax.serialization.msgpack_restore(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or reason(error)}.") from None
    except Exception as error:  # msgpack raises many kinds for a truncated file
        raise CheckpointError(
            f"{path}: not a whole {contents} ({reason(error)[:180]}); copy it again."
        ) from None


def flax_tensors(folder: pathlib.Path) -> dict[str, StoredTensor]:
    """Returns the arrays of a folder's Flax weights by their names in safetensors."""
    tensors: dict[str, StoredTensor] = {}
    for path in weight_files(folder, WHOLE, INDEX):
        tree = restore_msgpack(path, "file of Flax weights")
        if isinstance(tree, Mapping) and isinstance(tree.get("params"), Mapping):
            tree = tree["params"]
        leaves: Mapping[tuple[Any, ...], Any] = {}
        if isinstance(tree, Mapping):
            leaves = flax.traverse_util.flatten_dict(dict(tree))
        if not leaves or not all(isinstance(leaf, np.ndarray) for leaf in leaves.values()):
            raise CheckpointError(f"{path}: expected a tree of arrays, as Flax models are saved.")
        for keys, value in leaves.items():
            *modules, kind = map(str, keys)
            array = lazy(value)
            if kind == "kernel" and value.ndim == 2:
                array = transpose(array)
            name = ".".join([*modules, "weight" if kind in _WEIGHTS else kind])
            tensors[name] = StoredTensor(path, name, array)
    return tensors
