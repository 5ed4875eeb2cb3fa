"""T5X's own checkpoints: a msgpack file `checkpoint`, and a zarr array for each parameter.

The msgpack file contains the state's tree. A large parameter is a TensorStore description there,
with a folder `target.<name with dots>` beside it; a small one may be an array in the file.
"""

import math
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import flax.serialization
import flax.traverse_util
import ml_dtypes
import numpy as np
import tensorstore

from faith_jax.checkpoints import manifest
from faith_jax.checkpoints.checkpoint import (
    Checkpoint,
    check_params,
    flatten,
    stack_layers,
    unflatten,
    unstack_layers,
)
from faith_jax.checkpoints.native import unreadable
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files.stores import kvstore, path_of
from faith_jax.models.config import TransformerConfig

FILE = "checkpoint"
STEP = "checkpoint_"  # begins the name of a step's folder
# T5X before June 2021 wrote bfloat16 as uint16; today's T5X does not read this, nor do we.
_DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16)


def is_t5x(path: str | pathlib.Path) -> bool:
    """Whether a folder is a T5X checkpoint, or contains some."""
    return newest_t5x(path_of(path)) is not None


def read_t5x(path: str | pathlib.Path, config: TransformerConfig | None = None) -> Checkpoint:
    """Reads the parameters of a checkpoint that T5X wrote.

    Args:
      path: a folder checkpoint_<step>, the file `checkpoint` in it, or a folder of several, of
        which the newest is read.
      config: the model's dimensions; by default, read from the parameters' shapes.

    Raises:
      CheckpointError: a file is truncated, a parameter (which the error names) is missing or
        mis-shaped, or the folder has a manifest from which it differs.
    """
    folder = newest_t5x(path_of(path))
    if folder is None:
        raise CheckpointError(f"{path}: there is no T5X checkpoint here.")
    found = {
        name: _opened(folder, name, value)
        for name, value in _leaves(_read_tree(folder / FILE)).items()
    }
    shapes = {name: tuple(array.shape) for name, array in found.items()}
    scanned = any("/layers/" in name for name in shapes)
    if config is None:
        config = infer_config(shapes, folder)
    # Before anything large is read.
    check_params(config.replace(scan_layers=scanned), unflatten(found), str(folder))
    manifest.check_files(folder)
    params = unflatten({name: _read(folder, name, array) for name, array in found.items()})
    manifest.check_tensors(folder, manifest.read_manifest(folder), flatten(params))
    if config.scan_layers != scanned:
        params = unstack_layers(params) if scanned else stack_layers(params)
    return Checkpoint(config, params, {"source": str(folder.absolute()), "format": "t5x"})


def t5x_tensors(folder: pathlib.Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the parameters of one checkpoint as they are stored."""
    for name, value in _leaves(_read_tree(folder / FILE)).items():
        yield name, _read(folder, name, _opened(folder, name, value))


def infer_config(shapes: Mapping[str, tuple[int, ...]], where: Any) -> TransformerConfig:
    """Returns a model's dimensions, given the shapes of its parameters.

    All else has T5's values: a gated layer's activation is GELU, and the largest distance of the
    position bias is 128.

    Raises:
      CheckpointError: names a parameter that is missing or mis-shaped.
    """
    scanned = any("/layers/" in name for name in shapes)
    first = "layers" if scanned else "layers_0"

    def dimension(name: str, axis: int) -> int:
        shape = shapes.get(name, ())
        if len(shape) != (3 if "/layers/" in name else 2) or 0 in shape:
            found = f"has the shape {shape}; expected 2 dimensions" if shape else "is missing"
            raise CheckpointError(
                f"{where}: the parameter {name} {found}; is this a checkpoint of another model?"
            )
        return shape[axis]

    def layers(stack: str) -> int:
        if scanned:
            return dimension(f"{stack}/layers/mlp/wo/kernel", 0)
        return max(1, len({n.split("/")[1] for n in shapes if n.startswith(f"{stack}/layers_")}))

    def prompt(name: str) -> int:
        return dimension(name, 0) if name in shapes else 0

    heads = dimension("encoder/relpos_bias/rel_embedding", 0)
    gated = f"encoder/{first}/mlp/wi_0/kernel" in shapes
    try:
        return TransformerConfig(
            vocab_size=dimension("token_embedder/embedding", 0),
            emb_dim=dimension("token_embedder/embedding", 1),
            num_heads=heads,
            head_dim=dimension(f"encoder/{first}/attention/query/kernel", -1) // heads,
            mlp_dim=dimension(f"encoder/{first}/mlp/wo/kernel", -2),
            num_encoder_layers=layers("encoder"),
            num_decoder_layers=layers("decoder"),
            mlp_activations=("gelu", "linear") if gated else ("relu",),
            logits_via_embedding="decoder/logits_dense/kernel" not in shapes,
            relative_attention_num_buckets=dimension("encoder/relpos_bias/rel_embedding", 1),
            scan_layers=scanned,
            encoder_prompt_length=prompt("encoder_prompt/embedding"),
            decoder_prompt_length=prompt("decoder_prompt/embedding"),
        )
    except ConfigError as error:
        raise CheckpointError(
            f"{where}: the parameters' shapes make no model ({error}); give a config."
        ) from None


def newest_t5x(path: pathlib.Path) -> pathlib.Path | None:
    """Returns the folder of a checkpoint, the newest where there are several; None = there is none.

    T5X gives other names to those that it is still writing.
    """
    if path.name == FILE and path.is_file():
        return path.parent
    if (path / FILE).is_file():
        return path
    if not path.is_dir():
        return None
    steps = {
        int(match.group(1)): folder
        for folder in path.iterdir()
        if (match := re.fullmatch(rf"{STEP}(\d+)", folder.name)) and (folder / FILE).is_file()
    }
    return steps[max(steps)] if steps else None


def _read_tree(path: pathlib.Path) -> dict[str, Any]:
    try:
        state = flax.serialization.msgpack_restore(path.read_bytes())
    except Exception as error:  # msgpack raises many kinds for a truncated file
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
        problem = f"not a whole T5X checkpoint ({reason}); copy it again"
    else:
        # The first version had no level `optimizer`.
        state = state.get("optimizer", state) if isinstance(state, dict) else None
        target = state.get("target") if isinstance(state, dict) else None
        if isinstance(target, dict) and target:
            return target
        problem = "expected a tree of parameters under optimizer/target"
    raise CheckpointError(f"{path}: {problem}.")


def _leaves(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Returns parameters by name; a TensorStore description is a leaf, not a subtree."""
    leaves = flax.traverse_util.flatten_dict(
        tree, is_leaf=lambda _, value: isinstance(value.get("driver"), str)
    )
    return {"/".join(map(str, path)): value for path, value in leaves.items()}


def _place(folder: pathlib.Path, name: str) -> pathlib.Path:
    return folder / f"target.{name.replace('/', '.')}"


def _opened(folder: pathlib.Path, name: str, value: Any) -> np.ndarray | tensorstore.TensorStore:
    """Returns a parameter of the msgpack file, or the open array that is beside it."""
    if isinstance(value, dict):
        spec = {"driver": "zarr", "kvstore": kvstore(_place(folder, name))}
        try:
            value = tensorstore.open(spec, read=True, open=True).result()
        except (OSError, ValueError) as error:
            raise unreadable(_place(folder, name), name, error) from None
    dtype = getattr(value, "dtype", type(value).__name__)
    if getattr(dtype, "numpy_dtype", dtype) not in _DTYPES:
        raise CheckpointError(
            f"{folder}: the parameter {name} is of {dtype}; expected an array of float32, bfloat16 "
            "or float16, as T5X writes them."
        )
    return value


def _read(
    folder: pathlib.Path, name: str, array: np.ndarray | tensorstore.TensorStore
) -> np.ndarray:
    if isinstance(array, np.ndarray):
        return array
    place = _place(folder, name)
    _check_chunks(place, name, array.spec().to_json()["metadata"], array.dtype.numpy_dtype.itemsize)
    try:
        return np.asarray(array.read().result())
    except (OSError, ValueError) as error:
        raise unreadable(place, name, error) from None


def _check_chunks(place: pathlib.Path, name: str, zarr: Mapping[str, Any], itemsize: int) -> None:
    """Checks that chunks are whole: TensorStore fills in a missing one, and reads some cut ones.

    A whole gzip file ends with the size of its content.
    """
    size = math.prod(zarr["chunks"]) * itemsize % 2**32
    gzip = (zarr.get("compressor") or {}).get("id") == "gzip"
    counts = [math.ceil(n / c) for n, c in zip(zarr["shape"], zarr["chunks"], strict=True)]
    for index in np.ndindex(*counts):
        chunk = zarr["dimension_separator"].join(map(str, index)) or "0"
        try:
            with (place / chunk).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - 4))
                is_cut = int.from_bytes(file.read(), "little") != size and gzip
            problem = f"has the chunk {chunk} cut short" if is_cut else ""
        except OSError:
            problem = f"lacks its chunk {chunk}"
        if problem:
            raise CheckpointError(
                f"{place}: the parameter {name} {problem}; copy the checkpoint again."
            )
