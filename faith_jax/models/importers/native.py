"""Our own checkpoints: model.json beside parameters in Orbax's form.

- An imported checkpoint is a folder with model.json and params/.
- A training run's MODEL_DIR has model.json and checkpoints/<step>/params/. Where only a soft
  prompt is trained, params hold nothing else, and model.json names the base model by path and
  content hash.
"""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from faith_jax.errors import CheckpointError, ConfigError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.checkpoint import (
    PROMPTS,
    Checkpoint,
    check_params,
    content_hash,
    flatten,
    stack_layers,
    unflatten,
    unstack_layers,
    written_whole,
)
from faith_jax.models.importers.huggingface_families import family_name
from faith_jax.models.importers.orbax_arrays import read_arrays
from faith_jax.types import PyTree

MODEL_JSON = "model.json"
FORMAT, VERSION = "faith_jax", 1


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
      config: the model's.
      content_hash: of whole parameters that do not change.
      base: {"path", "content_hash"} of the model that a soft prompt belongs to.
      metadata: where the parameters came from.
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


def read_model_json(folder: str | pathlib.Path) -> dict[str, Any]:
    """Reads what `write_model_json` wrote.

    Raises:
      CheckpointError: where it is not readable as such.
    """
    path = pathlib.Path(folder) / MODEL_JSON
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: not a readable model description ({error}).") from None
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise CheckpointError(f'{path}: expected "format": "{FORMAT}"; this is another\'s file.')
    if described.get("version") != VERSION:
        raise CheckpointError(
            f"{path}: version {described.get('version')!r} is not known here; update faith_jax."
        )
    return described


def described_config(described: Mapping[str, Any], folder: pathlib.Path) -> TransformerConfig:
    """Returns the config that `read_model_json` found in a folder.

    Raises:
      CheckpointError: where it is none of a model.
    """
    try:
        return TransformerConfig.from_dict(described["config"])
    except (ConfigError, TypeError, KeyError) as error:
        raise CheckpointError(f"{folder / MODEL_JSON}: field 'config': {error}") from None


def write_native(checkpoint: Checkpoint, folder: str | pathlib.Path) -> None:
    """Writes a checkpoint beside `folder` and renames it.

    Raises:
      CheckpointError: where `folder` exists, or Orbax cannot write to its path.
    """
    with _written_params(folder, checkpoint.params) as beside:
        write_model_json(
            beside,
            checkpoint.config,
            content_hash(checkpoint.params),
            metadata=checkpoint.metadata,
            family=checkpoint.family,
        )


def write_native_prompt(
    folder: str | pathlib.Path,
    config: TransformerConfig,
    prompts: Mapping[str, np.ndarray],
    base: Mapping[str, str],
    metadata: Mapping[str, Any] | None = None,
    family: str = "",
) -> None:
    """Writes soft prompts of a base model, which stays where it is, beside `folder`; renames it.

    Args:
      folder: to be made.
      config: of the model with its prompts.
      prompts: float32 [length, embed] by their names among `PROMPTS`.
      base: as for `write_model_json`.
      metadata: where the prompts came from.
      family: of the base model's checkpoint.

    Raises:
      CheckpointError: where `folder` exists, or Orbax cannot write to its path.
    """
    params = {name: {"embedding": vectors} for name, vectors in prompts.items()}
    with _written_params(folder, params) as beside:
        write_model_json(beside, config, base=base, metadata=metadata, family=family)


@contextlib.contextmanager
def _written_params(folder: str | pathlib.Path, params: PyTree) -> Iterator[pathlib.Path]:
    """`written_whole` of a folder that has params/."""
    folder = pathlib.Path(folder).absolute()
    with written_whole(folder) as beside:
        if "[" in str(folder):
            # Orbax takes it for a pattern, and leaves out what it then does not find.
            raise CheckpointError(
                f"{folder}: Orbax cannot write to a path with '['; choose another folder."
            )
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(beside / "params", params)
        yield beside


def is_native(path: str | pathlib.Path) -> bool:
    """Whether `path` is a checkpoint of ours."""
    return _model_folder(pathlib.Path(path)) is not None


def run_folder(path: str | pathlib.Path) -> pathlib.Path:
    """Returns the folder with the model.json of a checkpoint of ours: of a step, its MODEL_DIR.

    Raises:
      CheckpointError: on what is no checkpoint of ours.
    """
    path = pathlib.Path(path).expanduser().absolute()
    folder = _model_folder(path)
    if folder is None:
        raise CheckpointError(f"{path}: there is no {MODEL_JSON} here.")
    return folder


def read_native(path: str | pathlib.Path, base: str | None = None) -> Checkpoint:
    """Reads a checkpoint of ours; one of a soft prompt with its base model.

    Args:
      path: an imported checkpoint, a MODEL_DIR (its newest step), or MODEL_DIR/checkpoints/<step>.
      base: where the base model is, if not where it was.

    Raises:
      CheckpointError: on a checkpoint that is not whole, or whose base is missing or another.
    """
    return _read(path, base, frozenset())


def read_native_params(path: str | pathlib.Path) -> dict[str, Any]:
    """Reads the parameters that a checkpoint of ours holds itself, without those of its base.

    Args:
      path: as for `read_native`.

    Raises:
      CheckpointError: on a checkpoint that is not whole.
    """
    return read_arrays(params_folder(path))


def params_folder(path: str | pathlib.Path) -> pathlib.Path:
    """Returns where a checkpoint of ours holds its own parameters: of a MODEL_DIR, the newest step.

    Raises:
      CheckpointError: on what is no checkpoint of ours, or has none yet.
    """
    folder = run_folder(path)
    return _params_folder(pathlib.Path(path).expanduser().absolute(), folder)


def _read(path: str | pathlib.Path, base: str | None, above: frozenset[pathlib.Path]) -> Checkpoint:
    """`read_native`; `above` are the checkpoints whose base this one is."""
    path = pathlib.Path(path).absolute()
    folder = run_folder(path)
    described = read_model_json(folder)
    config = described_config(described, folder)
    params = read_arrays(_params_folder(path, folder))
    metadata = dict(described.get("metadata") or {}) | {"source": str(path)}
    if described.get("base"):
        opened = _open_base(described["base"], base, path, above | {folder})
        params = _with_base(params, opened, config)
    check_params(config, params, str(path))
    return Checkpoint(config, params, metadata, str(described.get("family") or ""))


def _model_folder(path: pathlib.Path) -> pathlib.Path | None:
    if (path / MODEL_JSON).is_file():
        return path
    run = path.parent.parent
    is_step = path.name.isdigit() and path.parent.name == "checkpoints"
    return run if is_step and (run / MODEL_JSON).is_file() else None


def _params_folder(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
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


def _open_base(
    described: Mapping[str, str],
    base: str | None,
    path: pathlib.Path,
    above: frozenset[pathlib.Path],
) -> Checkpoint:
    """Opens the base model of the checkpoint at `path` and checks that it is the right one."""
    from faith_jax.models.importers.formats import open_checkpoint

    if not isinstance(described, Mapping) or not all(
        isinstance(described.get(field), str) for field in ("path", "content_hash")
    ):
        raise CheckpointError(
            f"{path}: {MODEL_JSON}: field 'base': expected 'path' and 'content_hash'."
        )
    where = base or described["path"]
    place = pathlib.Path(where).expanduser().absolute()
    folder = _model_folder(place)
    if base is None and folder in above:
        raise CheckpointError(
            f"{path}: {MODEL_JSON}: field 'base': {where} names this checkpoint as its own base; "
            "say where the base is with base=."
        )
    try:
        opened = open_checkpoint(where) if folder is None else _read(place, None, above)
    except CheckpointError as error:
        raise CheckpointError(
            f"{path}: its base model cannot be opened ({error}); say where it is with base=."
        ) from None
    found = content_hash(opened.params)
    if found != described["content_hash"]:
        raise CheckpointError(
            f"{path}: its base model has the content hash {described['content_hash'][:12]}… but "
            f"{where} has {found[:12]}…; it belongs to another model."
        )
    return opened


def _with_base(
    params: dict[str, Any], base: Checkpoint, config: TransformerConfig
) -> dict[str, Any]:
    """Returns trained parameters together with those of their base."""
    whole = base.params
    if config.scan_layers and not base.config.scan_layers:
        whole = stack_layers(whole)
    elif base.config.scan_layers and not config.scan_layers:
        whole = unstack_layers(whole)
    # The base may have had a prompt of its own, in whose place this one was trained.
    whole = {name: part for name, part in whole.items() if name not in PROMPTS}
    return unflatten(flatten(whole) | flatten(params))
