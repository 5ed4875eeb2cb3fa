"""T5X checkpoints, in T5X's own form and in Orbax's.

T5X's own form is a msgpack file `checkpoint` with the state's tree, and zarr arrays. A large
parameter is a TensorStore description in the tree, with its zarr array in the folder
`target.<name with dots>` beside the file; a small one may be an array in the file.

T5X's current train.py (`use_orbax`) writes the whole state in Orbax's form, in a folder `state`.
Other Orbax folders are read if they have parameters with T5X's names: alone, or inside a larger
tree, such as a train state's `params`.

If layers were scanned (`scalable_t5`), one array has all layers of a stack on axis 1, and the
stack's name is repeated: `encoder/encoder/mlp/wo/kernel`. They are read as one array per layer.
Soft prompts trained by Google's prompt-tuning are read too.
"""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import flax.traverse_util
import ml_dtypes
import numpy as np
import tensorstore

from faith_jax.checkpoints import manifest
from faith_jax.checkpoints.checkpoint import (
    Checkpoint,
    check_params,
    stack_layers,
    unflatten,
    unstack_layers,
)
from faith_jax.checkpoints.flax_weights import restore_msgpack
from faith_jax.checkpoints.lazy_arrays import LazyArray, entry, lazy
from faith_jax.checkpoints.native import (
    METADATA,
    lazy_store,
    part_of,
    stored_arrays,
    stored_names,
)
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files.stores import kvstore, path_of
from faith_jax.models.config import TransformerConfig

FILE = "checkpoint"
_STATE = "state"  # the folder of Orbax's form
# Folders of a step where programs let Orbax write the tree; "" = the step's own folder.
_TREES = (_STATE, "", "default", "params", "items", "model", "train_state")
STEP = "checkpoint_"  # prefix of a step's folder
_EMBEDDING, _BIAS = "token_embedder/embedding", "relpos_bias/rel_embedding"
# Names of prompt-tuning's soft prompts (Lester 2021), and our names.
_PROMPTS = {
    f"{stack}/prompt/prompt/prompt": f"{stack}_prompt/embedding" for stack in ("encoder", "decoder")
}
_SCANNED = re.compile(r"(encoder|decoder)/(\1|layers)/(.*)")
# T5X before June 2021 wrote bfloat16 as uint16, which neither current T5X nor we can read.
_DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16)


def is_t5x(path: str | pathlib.Path) -> bool:
    """Whether a folder is a T5X checkpoint or contains T5X checkpoints."""
    return newest_t5x(path_of(path)) is not None


def read_t5x(path: str | pathlib.Path, config: TransformerConfig | None = None) -> Checkpoint:
    """Opens a checkpoint that T5X wrote.

    Parameters are read on access, and then verified against the folder's manifest.

    Args:
      path: a folder checkpoint_<step>, the file `checkpoint` in it, an Orbax folder, or a folder
        of several checkpoints, of which the newest is opened.
      config: the model's dimensions; None = read from the parameters' shapes.

    Raises:
      CheckpointError: if a file is truncated, a parameter (which the error names) is missing or
        mis-shaped, or a file or a parameter's form differs from the folder's manifest.
    """
    folder = newest_t5x(path_of(path))
    if folder is None:
        raise CheckpointError(f"{path}: there is no T5X checkpoint here.")
    manifest.check_files(folder)
    checkpoint_manifest = manifest.read_manifest(folder)
    stored = stored_params(folder).items()
    verified = {
        name: manifest.verify_when_read(folder, checkpoint_manifest, name, array)
        for name, array in stored
    }
    flat = _by_layer(verified, folder)
    shapes = {name: array.shape for name, array in flat.items()}
    scanned = any("/layers/" in name for name in shapes)
    if config is None:
        config = infer_config(shapes, folder)
    params = unflatten(flat)
    check_params(config.replace(scan_layers=scanned), params, str(folder))
    if config.scan_layers != scanned:
        params = unstack_layers(params) if scanned else stack_layers(params)
    return Checkpoint(config, params, {"source": str(folder.absolute()), "format": "t5x"})


def infer_config(shapes: Mapping[str, tuple[int, ...]], where: Any) -> TransformerConfig:
    """Returns a model's dimensions, given the shapes of its parameters.

    Other settings have T5's values: a gated layer's activation is GELU, and the position bias has a
    maximum distance of 128.

    Raises:
      CheckpointError: if a parameter, which the error names, is missing or mis-shaped.
    """
    scanned = any("/layers/" in name for name in shapes)
    first = "layers" if scanned else "layers_0"

    def dimension(name: str, axis: int) -> int:
        shape = shapes.get(name, ())
        if len(shape) != (3 if "/layers/" in name else 2) or 0 in shape:
            problem = f"has the shape {shape}; expected 2 dimensions" if shape else "is missing"
            raise CheckpointError(
                f"{where}: the parameter {name} {problem}; is this a checkpoint of another model?"
            )
        return shape[axis]

    def layers(stack: str) -> int:
        if scanned:
            return dimension(f"{stack}/layers/mlp/wo/kernel", 0)
        return max(1, len({n.split("/")[1] for n in shapes if n.startswith(f"{stack}/layers_")}))

    def prompt(name: str) -> int:
        return dimension(name, 0) if name in shapes else 0

    own_bias = f"encoder/{first}/{_BIAS}"  # umT5's
    bias = own_bias if own_bias in shapes else f"encoder/{_BIAS}"
    heads = dimension(bias, -2)
    gated = f"encoder/{first}/mlp/wi_0/kernel" in shapes
    try:
        return TransformerConfig(
            vocab_size=dimension(_EMBEDDING, 0),
            emb_dim=dimension(_EMBEDDING, 1),
            num_heads=heads,
            head_dim=dimension(f"encoder/{first}/attention/query/kernel", -1) // heads,
            mlp_dim=dimension(f"encoder/{first}/mlp/wo/kernel", -2),
            num_encoder_layers=layers("encoder"),
            num_decoder_layers=layers("decoder"),
            mlp_activations=("gelu", "linear") if gated else ("relu",),
            logits_via_embedding="decoder/logits_dense/kernel" not in shapes,
            relative_attention_num_buckets=dimension(bias, -1),
            layer_position_biases=bias == own_bias,
            scan_layers=scanned,
            encoder_prompt_length=prompt("encoder_prompt/embedding"),
            decoder_prompt_length=prompt("decoder_prompt/embedding"),
        )
    except ConfigError as error:
        raise CheckpointError(
            f"{where}: the parameters' shapes make no model ({error}); give a config."
        ) from None


def newest_t5x(path: pathlib.Path) -> pathlib.Path | None:
    """Returns the folder of a checkpoint, the newest if there are several; None = there is none.

    Checkpoints that T5X is still writing have other names and are ignored.
    """
    if path.name == FILE and path.is_file():
        return path.parent
    if _is_step(path):
        return path
    if not path.is_dir():
        return None
    steps = {
        int(match.group(1)): folder
        for folder in path.iterdir()
        if (match := re.fullmatch(rf"(?:{STEP})?(\d+)", folder.name)) and _is_step(folder)
    }
    return steps[max(steps)] if steps else None


def _is_step(folder: pathlib.Path) -> bool:
    if (folder / FILE).is_file():
        return not any(folder.glob("*.ckpt*.index"))  # TensorFlow's text file has the same name
    return orbax_tree(folder) is not None


def orbax_tree(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the folder of a checkpoint's Orbax tree; None = there is none, or it is native."""
    trees = (folder / name for name in _TREES)
    tree = next((tree for tree in trees if (tree / METADATA).is_file()), None)
    return None if tree is None or part_of(tree) is not None else tree


def stored_params(folder: pathlib.Path) -> dict[str, LazyArray]:
    """Opens the parameters of one checkpoint as they are stored."""
    if (folder / FILE).is_file():
        arrays = _flax_params(folder)
    else:
        arrays = _orbax_params(orbax_tree(folder) or folder)
    for name, array in arrays.items():
        if array.dtype not in _DTYPES:
            raise CheckpointError(
                f"{folder}: the parameter {name} is of {array.dtype}; expected an array of "
                "float32, bfloat16 or float16, as T5X writes them."
            )
    return arrays


def _flax_params(folder: pathlib.Path) -> dict[str, LazyArray]:
    """Opens the parameters in Flax's file, and the larger ones in Zarr folders beside it."""
    state = restore_msgpack(folder / FILE, "T5X checkpoint")
    # The first version had no level `optimizer`.
    state = state.get("optimizer", state) if isinstance(state, dict) else None
    target = state.get("target") if isinstance(state, dict) else None
    if not isinstance(target, dict) or not target:
        raise CheckpointError(
            f"{folder / FILE}: expected a tree of parameters under optimizer/target."
        )
    # A TensorStore description is a leaf, not a subtree.
    leaves = flax.traverse_util.flatten_dict(
        target, is_leaf=lambda _, value: isinstance(value.get("driver"), str)
    )
    values = {"/".join(map(str, keys)): value for keys, value in leaves.items()}
    folders = {
        name: folder / f"target.{name.replace('/', '.')}"
        for name, value in values.items()
        if isinstance(value, dict)
    }
    # All arrays start opening before the first is waited for. A missing chunk is an error.
    spec = {"driver": "zarr", "fill_missing_data_reads": False}
    opening = {
        name: tensorstore.open({**spec, "kvstore": kvstore(zarr)}, read=True, open=True)
        for name, zarr in folders.items()
    }
    return {
        name: lazy_store(folders[name], name, opening[name]) if name in folders else lazy(value)
        for name, value in values.items()
    }


def _orbax_params(tree: pathlib.Path) -> dict[str, LazyArray]:
    """Opens the parameters of an Orbax tree, which may be the whole state of a training."""
    names = stored_names(tree)
    # An optimizer's moments have the parameters' names too, but deeper in the tree or later.
    places = [name.removesuffix(_EMBEDDING) for name in names if name.endswith(_EMBEDDING)]
    params_place = min(
        places, key=lambda place: (place.count("/"), "params" not in place), default=None
    )
    if tree.name == _STATE and any(name.startswith("target/") for name in names):
        params_place = "target/"
    if params_place is None:
        first_names = ", ".join(names[:3])
        raise CheckpointError(
            f"{tree}: a folder of Orbax's with {len(names)} arrays ({first_names} …), but none is "
            f"{_EMBEDDING}: these are no parameters of a model with T5X's names."
        )
    arrays = stored_arrays(tree, params_place)
    if not arrays:
        raise CheckpointError(
            f"{tree}: expected a tree of parameters under {params_place.rstrip('/')}."
        )
    return arrays


def _by_layer(stored: Mapping[str, LazyArray], folder: pathlib.Path) -> dict[str, LazyArray]:
    """Returns parameters by our names, with scanned layers split and soft prompts renamed."""
    width = stored[_EMBEDDING].shape[-1:] if _EMBEDDING in stored else ()
    params: dict[str, LazyArray] = {}
    biases: dict[str, np.ndarray] = {}  # position biases of scanned layers, by stack
    for name, array in stored.items():
        match = _SCANNED.fullmatch(name)
        if match is None:
            params[_PROMPTS.get(name, name)] = array
            continue
        stack, inner, rest = match.groups()
        norm = stored.get(f"{stack}/{inner}/pre_mlp_layer_norm/scale")
        # Ours are named `layers`, on axis 0; T5X's with `param_scan_axis = 0` were on axis 0 too.
        is_first = norm is not None and norm.shape[1:] == width != norm.shape[:1]
        axis = 0 if is_first else 1
        if inner == "layers" and (norm is None or norm.shape[1:] == width):
            params[name] = array
        elif len(array.shape) <= axis:
            raise CheckpointError(
                f"{folder}: the parameter {name} has the shape {array.shape}; expected the layers "
                f"of a scanned checkpoint on axis {axis}."
            )
        else:
            for i in range(array.shape[axis]):
                params[f"{stack}/layers_{i}/{rest}"] = entry(array, i, axis)
            if rest == _BIAS:
                biases[stack] = np.moveaxis(np.asarray(array), axis, 0)
    # Scanned layers may each have a copy of a position bias that they share.
    if biases and all((layers == layers[:1]).all() for layers in biases.values()):
        for stack, layers in biases.items():
            copies = [params.pop(f"{stack}/layers_{i}/{_BIAS}") for i in range(len(layers))]
            params |= {f"{stack}/{_BIAS}": array for array in copies[:1]}
    return params
