"""Our own checkpoints: model.json beside parameters in Orbax's form.

- An imported checkpoint is a folder with model.json and params/.
- A training run's MODEL_DIR has model.json and checkpoints/<step>/params/. Where only a soft
  prompt is trained, params hold nothing else, and model.json names the base model by path and
  content hash.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from faith_jax.checkpoints.checkpoint import Checkpoint, content_hash, new_folder
from faith_jax.checkpoints.hugging_face.families import family_name
from faith_jax.checkpoints.orbax import read_arrays, write_arrays
from faith_jax.errors import CheckpointError, ConfigError
from faith_jax.models.config import TransformerConfig

MODEL_JSON = "model.json"
FORMAT, VERSION = "faith_jax", 1


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """What model.json says.

    Attributes:
      config: the model's.
      content_hash: of whole parameters that do not change; None = others.
      base: {"path", "content_hash"} of the model that a soft prompt belongs to.
      metadata: where the parameters came from.
      family: of the model: config.json's `model_type` of such models, or "doha" or "other".
    """

    config: TransformerConfig
    content_hash: str | None = None
    base: Mapping[str, str] | None = None
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    family: str = ""


def write_model_json(
    folder: str | pathlib.Path,
    config: TransformerConfig,
    content_hash: str | None = None,
    base: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    family: str = "",
) -> None:
    """Writes the description of a model.

    Args:
      folder: where parameters lie, or MODEL_DIR of a run.
      config: see `ModelDescription`.
      content_hash: see there.
      base: see there.
      metadata: see there.
      family: of the checkpoint that the model began with; "" = none.
    """
    path = pathlib.Path(folder) / MODEL_JSON
    described = {
        "format": FORMAT,
        "version": VERSION,
        "family": family_name(config, family),
        "config": config.to_dict(),
        "content_hash": content_hash,
        "base": None if base is None else dict(base),
        "metadata": dict(metadata or {}),
    }
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, path)


def read_model_json(folder: str | pathlib.Path) -> ModelDescription:
    """Reads what `write_model_json` wrote.

    Raises:
      CheckpointError: it is not readable as such.
    """
    path = pathlib.Path(folder) / MODEL_JSON
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not a readable model description ({error}).") from None
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise CheckpointError(f'{path}: expected "format": "{FORMAT}"; this is another\'s file.')
    if described.get("version") != VERSION:
        raise CheckpointError(
            f"{path}: version {described.get('version')!r} is not known here; update faith_jax."
        )
    try:
        config = TransformerConfig.from_dict(described["config"])
    except (ConfigError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: field 'config': {error}") from None
    base = described.get("base") or None
    if base is not None and not (
        isinstance(base, dict)
        and all(isinstance(base.get(field), str) for field in ("path", "content_hash"))
    ):
        raise CheckpointError(f"{path}: field 'base': expected 'path' and 'content_hash'.")
    return ModelDescription(
        config,
        described.get("content_hash"),
        base,
        described.get("metadata") or {},
        described.get("family") or "",
    )


def write_native(checkpoint: Checkpoint, folder: str | pathlib.Path) -> None:
    """Writes a checkpoint; one with a base holds only what the base does not.

    Raises:
      CheckpointError: `folder` exists, or Orbax cannot write to its path.
    """
    folder = new_folder(folder)
    write_arrays(folder / "params", checkpoint.params)
    write_model_json(
        folder,
        checkpoint.config,
        content_hash(checkpoint.params) if checkpoint.base is None else None,
        checkpoint.base,
        checkpoint.metadata,
        checkpoint.family,
    )


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
    described = read_model_json(run_folder(path))
    params = read_arrays(params_folder(path))
    metadata = {**described.metadata, "source": str(path)}
    return Checkpoint(described.config, params, metadata, described.family, described.base)
