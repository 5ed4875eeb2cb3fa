"""Native checkpoints: model.json beside parameters in Orbax's form.

- An imported checkpoint is a folder with model.json and params/.
- A training run's MODEL_DIR has model.json and checkpoints/<step>/params/. If only a soft prompt is
  trained, params contain nothing else; model.json names the base model by path and content hash.
- manifest.json beside params/ has the digests of the parameters, which are verified on reading;
  model.json includes its own digest.

Orbax writes the arrays, and TensorStore reads them one by one: Orbax's own reader does not say
which array in a folder is broken, and its threads print tracebacks.
"""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np
import tensorstore

from faith_jax.checkpoints import manifest
from faith_jax.checkpoints.checkpoint import (
    Checkpoint,
    content_hash,
    flatten,
    new_folder,
    unflatten,
)
from faith_jax.checkpoints.embedded import best_step, model_dir_of, step_folders
from faith_jax.checkpoints.hugging_face.families import family_name
from faith_jax.checkpoints.lazy_arrays import Box, LazyArray
from faith_jax.core.errors import CheckpointError, ConfigError, did_you_mean
from faith_jax.core.files import atomic_file
from faith_jax.core.files.stores import is_remote, kvstore, path_of
from faith_jax.core.rows import read_json
from faith_jax.core.schema import read_json_as
from faith_jax.models.config import TransformerConfig

MODEL_JSON = "model.json"
PARAMS = "params"  # the folder of the parameters, and the prefix of their names in the manifest
METADATA = "_METADATA"  # Orbax's description of its files
# Key in the metadata of a model that was trained to write error labels: their texts, by "no_error"
# and "error".
ERROR_LABELS = "error_labels"


class _BaseEntry(msgspec.Struct):
    path: str
    content_hash: str


class _ModelJson(msgspec.Struct):
    """model.json; `sha256` is the digest of the other fields, which older files lack."""

    format: Literal["faith_jax"]
    version: Literal[1]
    config: dict[str, Any]
    family: str = ""
    content_hash: str | None = None
    base: _BaseEntry | None = None
    metadata: dict[str, Any] | None = None
    sha256: str | None = None


def write_model_json(folder: str | pathlib.Path, checkpoint: Checkpoint) -> None:
    """Writes the description of a model, without its parameters.

    `checkpoint.family` is the family of the checkpoint that the model started from.
    """
    described = {
        "format": "faith_jax",
        "version": 1,
        "family": family_name(checkpoint.config, checkpoint.family),
        "config": checkpoint.config.to_dict(),
        "content_hash": checkpoint.content_hash,
        "base": checkpoint.base,
        "metadata": checkpoint.metadata,
    }
    described["sha256"] = _own_digest(json.loads(json.dumps(described)))
    with atomic_file(path_of(folder) / MODEL_JSON) as beside:
        beside.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


def orbax_path(folder: pathlib.Path) -> Any:
    """Returns a path as Orbax takes it: for a store, its text, which etils.epath opens."""
    return str(folder) if is_remote(folder) else folder


def _own_digest(described: Mapping[str, Any]) -> str:
    """Returns the digest of a description, without the path of the base."""
    rest = {name: value for name, value in described.items() if name != "sha256"}
    if rest.get("base"):
        rest["base"] = {**rest["base"], "path": None}
    text = json.dumps(rest, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_model_json(folder: str | pathlib.Path) -> Checkpoint:
    """Reads a model.json, verifying its digest; returns a checkpoint without parameters."""
    path = path_of(folder) / MODEL_JSON
    described = read_json(path, CheckpointError)
    model_json = read_json_as(path, _ModelJson, CheckpointError)
    if unknown := sorted(described.keys() - set(model_json.__struct_fields__)):
        near = did_you_mean(unknown[0], model_json.__struct_fields__)
        raise CheckpointError(f"{path}: has an unknown field {unknown[0]!r}.{near}")
    try:
        config = TransformerConfig.from_dict(described["config"])
    except (ConfigError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: field 'config': {error}") from None
    if model_json.sha256 not in (None, _own_digest(described)) and manifest.is_verifying():
        raise CheckpointError(
            f"{path}: differs from what was written, other than in the path of the base. Copy the "
            "checkpoint again, or remove the field 'sha256' if you have edited it; --no-verify "
            "opens it as it is."
        )
    metadata, base = described.get("metadata") or {}, described.get("base")
    return Checkpoint(config, {}, metadata, model_json.family, base)


def write_native(checkpoint: Checkpoint, folder: str | pathlib.Path) -> None:
    """Writes a checkpoint; a checkpoint with a base has only the parameters that the base lacks.

    Raises:
      CheckpointError: if `folder` exists, or Orbax cannot write to its path.
    """
    if "[" in str(path_of(folder).absolute()):
        # Orbax takes such a path for a pattern, and leaves out files that do not match it.
        raise CheckpointError(
            f"{folder}: Orbax cannot write to a path with '['; choose another folder."
        )
    import orbax.checkpoint as ocp  # takes half a second, and is not needed for reading

    folder = new_folder(folder)
    checkpoint = checkpoint.read()
    is_whole = bool(checkpoint.params) and checkpoint.base is None
    params_hash = content_hash(checkpoint.params) if is_whole else None
    checkpoint = dataclasses.replace(checkpoint, content_hash=params_hash)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(orbax_path(folder / PARAMS), checkpoint.params)
    flat = flatten(checkpoint.params)
    digests = manifest.tensor_digests(flat)
    named = {f"{PARAMS}/{name}": tensor for name, tensor in digests.items()}
    manifest.write_manifest(folder, named, checkpoint.content_hash)
    write_model_json(folder, checkpoint)


def read_native(path: str | pathlib.Path) -> Checkpoint:
    """Opens the parameters that a native checkpoint contains, without its base's.

    Parameters are read on access, and then verified against the manifest. The path may be an
    imported checkpoint, a MODEL_DIR (opens its best step), or MODEL_DIR/checkpoints/<step>.

    Raises:
      CheckpointError: if the checkpoint is incomplete, or a file or an array's form differs from
        the manifest.
    """
    path = path_of(path).absolute()
    checkpoint = read_model_json(run_folder(path))
    metadata = {**checkpoint.metadata, "source": str(path)}
    manifest.check_files(run_folder(path))
    folder = params_folder(path)
    checkpoint_manifest = manifest.read_manifest(folder.parent)
    params = {
        name: manifest.verify_when_read(
            folder.parent, checkpoint_manifest, f"{PARAMS}/{name}", array
        )
        for name, array in stored_arrays(folder).items()
    }
    return dataclasses.replace(
        checkpoint,
        params=unflatten(params),
        metadata=metadata,
        content_hash=None if checkpoint_manifest is None else checkpoint_manifest.content_hash,
    )


def is_native(path: str | pathlib.Path) -> bool:
    """Whether `path` is a native checkpoint."""
    return _model_folder(path_of(path)) is not None


def run_folder(path: str | pathlib.Path) -> pathlib.Path:
    """Returns the folder with a native checkpoint's model.json; for a step, its MODEL_DIR."""
    path = path_of(path).absolute()
    folder = _model_folder(path)
    if folder is None:
        raise CheckpointError(f"{path}: there is no {MODEL_JSON} here.")
    return folder


def _model_folder(path: pathlib.Path) -> pathlib.Path | None:
    folders = (path, model_dir_of(path))
    return next((folder for folder in folders if (folder / MODEL_JSON).is_file()), None)


def part_of(path: pathlib.Path) -> pathlib.Path | None:
    """Returns the native checkpoint that contains a folder; None = none does."""
    above = [*path.absolute().parents][:3]
    return next((folder for folder in above if (folder / MODEL_JSON).is_file()), None)


def params_folder(path: str | pathlib.Path) -> pathlib.Path:
    """Returns a native checkpoint's parameter folder; for a MODEL_DIR, the best step's."""
    path = path_of(path).absolute()
    folder = run_folder(path)
    if (path / PARAMS).is_dir():
        return path / PARAMS
    steps = step_folders(folder / "checkpoints")
    if not steps or path != folder:
        problem = "no checkpoint has been written here yet"
        if steps:
            numbers = ", ".join(map(str, sorted(int(step.name) for step in steps)))
            problem = f"no checkpoint of this step; there are {numbers}"
        raise CheckpointError(f"{path}: {problem}.")
    return best_step(steps) / PARAMS


def read_part(folder: pathlib.Path, name: str, box: tuple[slice, ...]) -> np.ndarray:
    """Reads a part of a step's array by its name in the manifest, such as "params/a/b"."""
    item, _, inner_name = name.partition("/")
    described, _ = _read_orbax_metadata(folder / item)
    return lazy_store(folder, name, _open_array(folder / item, described, inner_name)).read(box)


def _read_orbax_metadata(folder: pathlib.Path) -> tuple[dict[str, Any], list[str]]:
    """Returns Orbax's metadata of a folder, and the names of the arrays in it."""
    try:
        described = json.loads((folder / METADATA).read_text(encoding="utf-8"))
        return described, [
            "/".join(part["key"] for part in entry["key_metadata"])
            for entry in described["tree_metadata"].values()
        ]
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a description of arrays by Orbax"
        raise CheckpointError(
            f"{folder / METADATA}: {reason}; copy the checkpoint again."
        ) from None


def stored_names(folder: pathlib.Path) -> list[str]:
    """Returns the names of the arrays of a tree that Orbax wrote."""
    return _read_orbax_metadata(folder)[1]


def stored_arrays(folder: pathlib.Path, below: str = "") -> dict[str, LazyArray]:
    """Opens the arrays of a tree that Orbax wrote.

    `below` selects the arrays with this prefix, which is removed from their names.

    Raises:
      CheckpointError: if an array cannot be opened; later, on access, if it cannot be read.
    """
    described, names = _read_orbax_metadata(folder)
    opened = {n: _open_array(folder, described, n) for n in names if n.startswith(below)}
    # All arrays start opening before the first is waited for.
    return {
        name.removeprefix(below): lazy_store(folder, name, array) for name, array in opened.items()
    }


def _open_array(folder: pathlib.Path, described: Mapping[str, Any], name: str) -> Any:
    """Returns TensorStore's future for an array that Orbax wrote."""
    file = name.replace("/", ".")
    store = kvstore(folder / file)
    if described.get("use_ocdbt"):
        store = {"driver": "ocdbt", "base": kvstore(folder), "path": f"{file}/"}
    driver = "zarr3" if described.get("use_zarr3") else "zarr"
    return tensorstore.open({"driver": driver, "kvstore": store}, read=True, open=True)


def lazy_store(place: pathlib.Path, name: str, future: Any) -> LazyArray:
    """Returns an array that TensorStore is opening; errors name its place and parameter."""

    def read(box: Box) -> np.ndarray:
        try:
            return np.asarray(store[box].read().result())
        except (OSError, ValueError) as error:
            raise _unreadable(place, name, error) from None

    try:
        store = future.result()
    except (OSError, ValueError) as error:
        raise _unreadable(place, name, error) from None
    return LazyArray(tuple(store.shape), store.dtype.numpy_dtype, read)


def _unreadable(place: pathlib.Path, name: str, error: Exception) -> CheckpointError:
    """Returns the one-line error for a parameter that TensorStore cannot read."""
    reason = " ".join(str(error).split("[")[0].split())[:400]
    return CheckpointError(
        f"{place}: the parameter {name} cannot be read ({reason}); copy the checkpoint again."
    )
