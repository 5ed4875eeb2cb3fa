"""Our own checkpoints: model.json beside parameters in Orbax's form.

- An imported checkpoint is a folder with model.json and params/.
- A training run's MODEL_DIR has model.json and checkpoints/<step>/params/. Where only a soft
  prompt is trained, params hold nothing else, and model.json names the base model by path and
  content hash.
"""

import dataclasses
import json
import pathlib

from faith_jax.checkpoints.checkpoint import Checkpoint, content_hash, new_folder
from faith_jax.checkpoints.hugging_face.families import family_name
from faith_jax.checkpoints.orbax import read_arrays, write_arrays
from faith_jax.checkpoints.tensors import read_json
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import written_whole
from faith_jax.models.config import TransformerConfig

MODEL_JSON = "model.json"
FORMAT, VERSION = "faith_jax", 1


def write_model_json(folder: str | pathlib.Path, checkpoint: Checkpoint) -> None:
    """Writes the description of a model, all but its parameters.

    Args:
      folder: where the parameters lie, or MODEL_DIR of a run.
      checkpoint: the model; its family is that of the checkpoint it began with.
    """
    path = pathlib.Path(folder) / MODEL_JSON
    is_whole = bool(checkpoint.params) and checkpoint.base is None
    described = {
        "format": FORMAT,
        "version": VERSION,
        "family": family_name(checkpoint.config, checkpoint.family),
        "config": checkpoint.config.to_dict(),
        "content_hash": content_hash(checkpoint.params) if is_whole else None,
        "base": checkpoint.base,
        "metadata": checkpoint.metadata,
    }
    with written_whole(path) as beside:
        beside.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


def read_model_json(folder: str | pathlib.Path) -> Checkpoint:
    """Reads what `write_model_json` wrote, a model without its parameters.

    Raises:
      CheckpointError: it is not readable as such.
    """
    path = pathlib.Path(folder) / MODEL_JSON
    described = read_json(path)
    if described.get("format") != FORMAT:
        raise CheckpointError(f'{path}: expected "format": "{FORMAT}"; this is another\'s file.')
    if described.get("version") != VERSION:
        raise CheckpointError(
            f"{path}: version {described.get('version')!r} is not known here; update faith_jax."
        )
    try:
        config = TransformerConfig.from_dict(described["config"])
    except (ConfigError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: field 'config': {error}") from None
    base = described.get("base")
    if base is not None and not (
        isinstance(base, dict)
        and all(isinstance(base.get(field), str) for field in ("path", "content_hash"))
    ):
        raise CheckpointError(f"{path}: field 'base': expected 'path' and 'content_hash'.")
    metadata, family = described.get("metadata") or {}, described.get("family") or ""
    return Checkpoint(config, {}, metadata, family, base)


def write_native(checkpoint: Checkpoint, folder: str | pathlib.Path) -> None:
    """Writes a checkpoint; one with a base holds only what the base does not.

    Raises:
      CheckpointError: `folder` exists, or Orbax cannot write to its path.
    """
    folder = new_folder(folder)
    write_arrays(folder / "params", checkpoint.params)
    write_model_json(folder, checkpoint)


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
    if (path / MODEL_JSON).is_file():
        return path
    run = path.parent.parent
    is_step = path.name.isdigit() and path.parent.name == "checkpoints"
    return run if is_step and (run / MODEL_JSON).is_file() else None


def params_folder(path: str | pathlib.Path) -> pathlib.Path:
    """Returns where a checkpoint of ours holds its own parameters: of a MODEL_DIR, the newest step.

    Raises:
      CheckpointError: there is no checkpoint of ours, or none yet.
    """
    path = pathlib.Path(path).expanduser().absolute()
    folder = run_folder(path)
    if (path / "params").is_dir():
        return path / "params"
    steps = [
        int(step.name)
        for step in (folder / "checkpoints").glob("*")
        if step.name.isdigit() and (step / "params").is_dir()
    ]
    if not steps:
        raise CheckpointError(f"{path}: no checkpoint has been written here yet.")
    if path != folder:
        there = ", ".join(map(str, sorted(steps)))
        raise CheckpointError(f"{path}: no checkpoint of this step; there are {there}.")
    return folder / "checkpoints" / str(max(steps)) / "params"


def read_native(path: str | pathlib.Path) -> Checkpoint:
    """Reads the parameters that a checkpoint of ours holds itself, without those of its base.

    Args:
      path: an imported checkpoint, a MODEL_DIR (its newest step), or MODEL_DIR/checkpoints/<step>.

    Raises:
      CheckpointError: the checkpoint is not whole.
    """
    path = pathlib.Path(path).expanduser().absolute()
    checkpoint = read_model_json(run_folder(path))
    metadata = {**checkpoint.metadata, "source": str(path)}
    params = read_arrays(params_folder(path))
    return dataclasses.replace(checkpoint, params=params, metadata=metadata)
