"""An open checkpoint: a config, parameters with T5X's names, and their origin."""

import concurrent.futures
import dataclasses
import hashlib
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import flax.traverse_util
import jax
import numpy as np

from faith_jax.checkpoints.lazy_arrays import entry, lazy, stack_arrays
from faith_jax.core.errors import CheckpointError
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.types import PyTree
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer, parameter_shapes

PROMPTS = ("encoder_prompt", "decoder_prompt")
_LAYER = re.compile(r"(.*?/?)layers_(\d+)/(.*)")


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint.

    Attributes:
      config: the model's dimensions.
      params: nested dict, with `layers_0` … unless `config.scan_layers`. Arrays are NumPy's, or
        lazy (`LazyArray`), which are read and checked when a model takes parts of them.
      metadata: the origin: "source", "format", and the text of a Hugging Face config.json.
      family: config.json's `model_type`, or model.json's `family`; "" = unknown.
      base: {"path", "content_hash"} of the model with the other parameters, which
        `open_checkpoint` adds; None = `params` is complete.
      content_hash: hash of the parameters, if known without reading them.
    """

    config: TransformerConfig
    params: PyTree
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    family: str = ""
    base: Mapping[str, str] | None = None
    content_hash: str | None = None

    def read(self) -> "Checkpoint":
        """Returns the checkpoint with all its parameters in memory.

        Raises:
          CheckpointError: if a parameter is damaged, NaN or infinite.
        """
        leaves, tree = jax.tree.flatten(self.params)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            params = jax.tree.unflatten(tree, pool.map(np.asarray, leaves))
        return dataclasses.replace(self, params=params)


def flatten(params: PyTree) -> dict[str, Any]:
    """Returns {"encoder/layers_0/mlp/wo/kernel": array, …}."""
    return flax.traverse_util.flatten_dict(params, sep="/")


def unflatten(flat: Mapping[str, Any]) -> PyTree:
    """The inverse of `flatten`."""
    return flax.traverse_util.unflatten_dict(dict(flat), sep="/")


def stack_layers(params: PyTree) -> PyTree:
    """Stacks `layers_0`, `layers_1` … into `layers`, with the layers on axis 0 of lazy arrays."""
    flat: dict[str, Any] = {}
    layers: dict[str, dict[int, Any]] = {}
    for name, array in flatten(params).items():
        match = _LAYER.fullmatch(name)
        if match:
            stack, number, rest = match.groups()
            layers.setdefault(f"{stack}layers/{rest}", {})[int(number)] = array
        else:
            flat[name] = array
    for name, arrays in layers.items():
        flat[name] = stack_arrays([lazy(arrays[i]) for i in range(len(arrays))])
    return unflatten(flat)


def unstack_layers(params: PyTree) -> PyTree:
    """The inverse of `stack_layers`."""
    flat: dict[str, Any] = {}
    for name, array in flatten(params).items():
        stack, separator, rest = f"/{name}".partition("/layers/")
        if not separator:
            flat[name] = array
            continue
        for i in range(array.shape[0]):
            flat[f"{stack}/layers_{i}/{rest}".lstrip("/")] = entry(lazy(array), i)
    return unflatten(flat)


def content_hash(params: PyTree) -> str:
    """Returns a SHA-256 of sorted names, dtypes, shapes and bytes, which identifies a base model.

    It does not depend on the checkpoint's form, on scanned layers, or on soft prompts. Arrays are
    read one at a time.
    """
    digest = hashlib.sha256()
    flat = flatten(unstack_layers({k: v for k, v in params.items() if k not in PROMPTS}))
    for name in sorted(flat):
        array = np.ascontiguousarray(flat[name])
        digest.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(array.view(np.uint8).data if array.size else b"")
    return digest.hexdigest()


def new_folder(path: str | pathlib.Path) -> pathlib.Path:
    """Makes the folder of a checkpoint, which must not exist yet; returns its absolute path."""
    folder = path_of(path).absolute()
    if folder.exists():
        raise CheckpointError(f"{folder}: exists already; choose another folder.")
    if not is_remote(folder):
        folder.mkdir(parents=True)
    return folder


def expected_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each parameter of a model with this config."""
    variables = parameter_shapes(Transformer(config))
    return {n: tuple(s.shape) for n, s in flatten(variables["params"]).items()}


def check_params(config: TransformerConfig, params: PyTree, where: str = "checkpoint") -> None:
    """Checks that parameters fit a model's config; see `check_shapes`."""
    shapes = {name: tuple(np.shape(array)) for name, array in flatten(params).items()}
    check_shapes(shapes, expected_shapes(config), where, "parameter")


def check_shapes(
    shapes: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, tuple[int, ...]],
    where: Any,
    kind: str,
) -> None:
    """Raises a CheckpointError that names the first array that does not fit the model, if any."""
    another = "is this a checkpoint of another model?"
    for name, shape in [*expected.items(), *shapes.items()]:
        if name not in shapes:
            problem = f"{name} {shape} is missing; {another}"
        elif name not in expected:
            problem = f"{name} {shape} is not one of the model's; {another}"
        elif shapes[name] != expected[name]:
            problem = (
                f"{name} has the shape {shapes[name]} but the model expects {expected[name]}; use "
                "a config of the checkpoint's dimensions."
            )
        else:
            continue
        raise CheckpointError(f"{where}: the {kind} {problem}")
