"""Our own checkpoints: model.json beside parameters in Orbax's form.

- An imported checkpoint is a folder with model.json and params/.
- A training run's MODEL_DIR has model.json and checkpoints/<step>/params/. If only a soft prompt is
  trained, params contain nothing else; model.json names the base model by path and content hash.

Orbax writes the arrays, and TensorStore reads them one by one: Orbax's own reader does not say
which array of a broken folder is broken, and its other threads print tracebacks.
"""

import dataclasses
import json
import pathlib
from typing import Any, Literal

import msgspec
import numpy as np
import orbax.checkpoint as ocp
import tensorstore

from faith_jax.checkpoints.checkpoint import Checkpoint, content_hash, new_folder, unflatten
from faith_jax.checkpoints.hugging_face.families import family_name
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import written_whole
from faith_jax.core.rows import read_json
from faith_jax.core.schema import read_json_as
from faith_jax.models.config import TransformerConfig

MODEL_JSON = "model.json"
_METADATA = "_METADATA"  # Orbax's description of its files


class _Base(msgspec.Struct):
    path: str
    content_hash: str


class _Described(msgspec.Struct):
    """model.json, whose other fields are "config" and "metadata"."""

    format: Literal["faith_jax"]
    version: Literal[1]
    family: str = ""
    base: _Base | None = None


def write_model_json(folder: str | pathlib.Path, checkpoint: Checkpoint) -> None:
    """Writes the description of a model, without its parameters.

    Args:
      folder: of the parameters, or MODEL_DIR of a run.
      checkpoint: the model; its family is that of the checkpoint that it began with.
    """
    is_whole = bool(checkpoint.params) and checkpoint.base is None
    described = {
        "format": "faith_jax",
        "version": 1,
        "family": family_name(checkpoint.config, checkpoint.family),
        "config": checkpoint.config.to_dict(),
        "content_hash": content_hash(checkpoint.params) if is_whole else None,
        "base": checkpoint.base,
        "metadata": checkpoint.metadata,
    }
    with written_whole(pathlib.Path(folder) / MODEL_JSON) as beside:
        beside.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


def read_model_json(folder: str | pathlib.Path) -> Checkpoint:
    """Reads what `write_model_json` wrote, a model without its parameters.

    Raises:
      CheckpointError: it cannot be read, or is of another program or version.
    """
    path = pathlib.Path(folder) / MODEL_JSON
    described = read_json(path, CheckpointError)
    known = read_json_as(path, _Described, CheckpointError)
    try:
        config = TransformerConfig.from_dict(described["config"])
    except (ConfigError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: field 'config': {error}") from None
    metadata, base = described.get("metadata") or {}, described.get("base")
    return Checkpoint(config, {}, metadata, known.family, base)


def write_native(checkpoint: Checkpoint, folder: str | pathlib.Path) -> None:
    """Writes a checkpoint; one with a base contains only what the base does not.

    Raises:
      CheckpointError: `folder` exists, or Orbax cannot write to its path.
    """
    if "[" in str(pathlib.Path(folder).absolute()):
        # Orbax takes such a path for a pattern, and leaves out what it then does not find.
        raise CheckpointError(
            f"{folder}: Orbax cannot write to a path with '['; choose another folder."
        )
    folder = new_folder(folder)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / "params", checkpoint.params)
    write_model_json(folder, checkpoint)


def read_native(path: str | pathlib.Path) -> Checkpoint:
    """Reads the parameters that a checkpoint of ours contains, without those of its base.

    Args:
      path: an imported checkpoint, a MODEL_DIR (its newest step), or MODEL_DIR/checkpoints/<step>.

    Raises:
      CheckpointError: the checkpoint is not whole.
    """
    path = pathlib.Path(path).expanduser().absolute()
    checkpoint = read_model_json(run_folder(path))
    metadata = {**checkpoint.metadata, "source": str(path)}
    params = _read_arrays(params_folder(path))
    return dataclasses.replace(checkpoint, params=params, metadata=metadata)


def is_native(path: str | pathlib.Path) -> bool:
    """Whether `path` is a checkpoint of ours."""
    return _model_folder(pathlib.Path(path)) is not None


def run_folder(path: str | pathlib.Path) -> pathlib.Path:
    """Returns the folder with the model.json of a checkpoint of ours: of a step, its MODEL_DIR.

    Raises:
      CheckpointError: there is no checkpoint of ours.
    """
    path = pathlib.Path(path).expanduser().absolute()
    folder = _model_folder(path)
    if folder is None:
        raise CheckpointError(f"{path}: there is no {MODEL_JSON} here.")
    return folder


def _model_folder(path: pathlib.Path) -> pathlib.Path | None:
    is_step = path.name.isdigit() and path.parent.name == "checkpoints"
    folders = (path, path.parent.parent) if is_step else (path,)
    return next((folder for folder in folders if (folder / MODEL_JSON).is_file()), None)


def params_folder(path: str | pathlib.Path) -> pathlib.Path:
    """Returns the folder with the parameters of a checkpoint of ours: of a MODEL_DIR, the newest.

    Raises:
      CheckpointError: there is no checkpoint of ours, or none yet.
    """
    path = pathlib.Path(path).expanduser().absolute()
    folder = run_folder(path)
    if (path / "params").is_dir():
        return path / "params"
    steps = sorted(
        int(step.name)
        for step in (folder / "checkpoints").glob("*")
        if step.name.isdigit() and (step / "params").is_dir()
    )
    if not steps or path != folder:
        problem = "no checkpoint has been written here yet"
        if steps:
            problem = f"no checkpoint of this step; there are {', '.join(map(str, steps))}"
        raise CheckpointError(f"{path}: {problem}.")
    return folder / "checkpoints" / str(steps[-1]) / "params"


def _read_arrays(folder: pathlib.Path) -> dict[str, Any]:
    """Reads a tree that Orbax wrote as NumPy arrays."""
    try:
        described = json.loads((folder / _METADATA).read_text(encoding="utf-8"))
        names = [
            [part["key"] for part in entry["key_metadata"]]
            for entry in described["tree_metadata"].values()
        ]
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a description of arrays by Orbax"
        raise CheckpointError(
            f"{folder / _METADATA}: {reason}; copy the checkpoint again."
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
    # All are opened before the first is waited for.
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
