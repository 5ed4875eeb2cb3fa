"""T5X's own checkpoints: a msgpack file `checkpoint`, and a zarr array for each parameter.

The msgpack file holds the state's tree. A large parameter is a TensorStore description there and
lies in a folder `target.<name with dots>` beside it; a small one may be an array in the file.
"""

import itertools
import json
import math
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import flax.serialization
import numpy as np
import tensorstore

from faith_jax.errors import CheckpointError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.checkpoint import Checkpoint, check_params, unflatten

FILE = "checkpoint"
_STEP = re.compile(r"checkpoint_(\d+)")


def is_t5x(path: str | pathlib.Path) -> bool:
    """Whether a folder is a T5X checkpoint, or holds some."""
    return _newest(pathlib.Path(path)) is not None


def read_t5x(path: str | pathlib.Path, config: TransformerConfig | None = None) -> Checkpoint:
    """Reads the parameters of a checkpoint that T5X wrote.

    Args:
      path: a folder checkpoint_<step>, or the one that holds them (then the newest whole one).
      config: the model's dimensions; default: read from the parameters' shapes.

    Raises:
      CheckpointError: on a truncated file, and a parameter that is missing or mis-shaped, named.
    """
    folder = _newest(pathlib.Path(path))
    if folder is None:
        raise CheckpointError(f"{path}: there is no T5X checkpoint here.")
    target = _read_tree(folder / FILE)
    params = {
        name: value if isinstance(value, np.ndarray) else _read_array(folder, name, value)
        for name, value in _leaves(target)
    }
    if config is None:
        config = infer_config({n: tuple(np.shape(v)) for n, v in params.items()}, folder)
    tree = unflatten(params)
    check_params(config, tree, str(folder))
    return Checkpoint(config, tree, {"source": str(folder.absolute()), "format": "t5x"})


def infer_config(shapes: Mapping[str, tuple[int, ...]], where: Any) -> TransformerConfig:
    """Reads a model's dimensions from the shapes of its parameters.

    Args:
      shapes: parameter names with shapes.
      where: what to name in errors.

    Raises:
      CheckpointError: where a parameter that tells a dimension is missing, named.
    """

    def shape(name: str) -> tuple[int, ...]:
        if name not in shapes:
            raise CheckpointError(
                f"{where}: the parameter {name} is missing; is this a checkpoint of another model?"
            )
        return shapes[name]

    scanned = any("/layers/" in name for name in shapes)
    first = "layers" if scanned else "layers_0"

    def count(stack: str) -> int:
        if scanned:
            return shape(f"{stack}/layers/mlp/wo/kernel")[0]
        found = {n.split("/")[1] for n in shapes if n.startswith(f"{stack}/layers_")}
        return len(found)

    vocab_size, emb_dim = shape("token_embedder/embedding")
    heads, buckets = shape("encoder/relpos_bias/rel_embedding")
    gated = f"encoder/{first}/mlp/wi_0/kernel" in shapes
    return TransformerConfig(
        vocab_size=vocab_size,
        emb_dim=emb_dim,
        num_heads=heads,
        head_dim=shape(f"encoder/{first}/attention/query/kernel")[-1] // heads,
        mlp_dim=shape(f"encoder/{first}/mlp/wo/kernel")[-2],
        num_encoder_layers=count("encoder"),
        num_decoder_layers=count("decoder"),
        mlp_activations=("gelu", "linear") if gated else ("relu",),
        logits_via_embedding="decoder/logits_dense/kernel" not in shapes,
        relative_attention_num_buckets=buckets,
        scan_layers=scanned,
    )


def _newest(path: pathlib.Path) -> pathlib.Path | None:
    if (path / FILE).is_file():
        return path
    if not path.is_dir():
        return None
    steps = {
        int(match.group(1)): folder
        for folder in path.iterdir()
        if (match := _STEP.fullmatch(folder.name)) and (folder / FILE).is_file()
    }
    return steps[max(steps)] if steps else None


def _read_tree(path: pathlib.Path) -> dict[str, Any]:
    try:
        state = flax.serialization.msgpack_restore(path.read_bytes())
        target = state["optimizer"]["target"]
    except Exception as error:  # msgpack raises many kinds for a truncated file
        raise CheckpointError(
            f"{path}: not a whole T5X checkpoint ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:150]})."
        ) from None
    if not isinstance(target, dict):
        raise CheckpointError(f"{path}: expected a tree of parameters under optimizer/target.")
    return target


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Returns parameters by name; a TensorStore description is a leaf, not a subtree."""
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and "driver" not in value:
            found += _leaves(value, f"{name}/")
        elif isinstance(value, dict | np.ndarray):
            found.append((name, value))
        else:
            found.append((name, np.asarray(value)))
    return found


def _read_array(folder: pathlib.Path, name: str, described: Mapping[str, Any]) -> np.ndarray:
    place = folder / f"target.{name.replace('/', '.')}"
    driver = described.get("driver")
    base = described.get("base", {}).get("driver") if driver == "cast" else driver
    if base != "zarr":
        raise CheckpointError(f"{folder}: the parameter {name} is stored as {base!r}, not as zarr.")
    try:
        metadata = json.loads((place / ".zarray").read_text(encoding="utf-8"))
        _check_chunks(place, metadata, name)
        store = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{place}/"}}
        return np.asarray(tensorstore.open(store, read=True, open=True).result().read().result())
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{place}: the parameter {name} cannot be read "
            f"({' '.join(str(error).split())[:200]}); copy the checkpoint again."
        ) from None


def _check_chunks(place: pathlib.Path, metadata: Mapping[str, Any], name: str) -> None:
    """Zarr fills in a chunk that is missing; here it is an error."""
    counts = [math.ceil(n / c) for n, c in zip(metadata["shape"], metadata["chunks"], strict=True)]
    separator = metadata.get("dimension_separator", ".")
    for index in itertools.product(*(range(n) for n in counts)):
        chunk = separator.join(map(str, index)) or "0"
        if not (place / chunk).is_file():
            raise CheckpointError(
                f"{place}: the parameter {name} lacks its chunk {chunk}; copy the checkpoint again."
            )
