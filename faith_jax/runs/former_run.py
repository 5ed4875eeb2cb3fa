"""What MODEL_DIR holds when a run begins: nothing, this run, or another, which is left alone."""

import logging
import pathlib
from typing import Any

from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.native import MODEL_JSON, read_model_json
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import written_whole
from faith_jax.models.config import TransformerConfig
from faith_jax.runs.run_log import CONFIG
from faith_jax.runs.run_settings import (
    TRAIN_STEPS,
    Difference,
    differences,
    settings_in_force,
    settings_of,
)
from faith_jax.runs.setup import BaseModel
from faith_jax.training.checkpoints import newest_step

logger = logging.getLogger("faith_jax")

# Arguments of `train` that decide nothing of what is trained, and may change as a run goes on.
_FREE = (
    "log_period",
    "eval_period",
    "decoded_eval_period",
    "checkpoint_period",
    "keep_last",
    "keep_best",
    "decoding",
    "eval_dataset",
    "partitioner_for",
    "num_microbatches",
    "train_dataset.module",
)
# Those that say where something is: what is there is compared, not its path.
_PLACES = ("model_dir", "initial_checkpoint_path", "vocabulary", "model")
# Of a model's config: how it is computed, not what.
_FORMS = ("scan_layers", "remat_policy")
_INITIAL = "initial_checkpoint"


def check_former_run(
    folder: pathlib.Path, config: TransformerConfig, initial: BaseModel | None, frozen: bool
) -> None:
    """Checks that MODEL_DIR holds no other run than the one that begins or goes on.

    What makes another run is refused: data, objective, optimizer, model, seed, initial checkpoint.
    Of what may change, TRAIN_STEPS is warned of, and the rest told. A run without a checkpoint
    begins anew, with any settings.

    Args:
      folder: MODEL_DIR, which need not be there; nothing in it is touched.
      config: of the model.
      initial: the model that training starts from; None = random parameters.
      frozen: whether `initial` stays, in part, as it is.

    Raises:
      ConfigError: another run, naming the settings that differ, or what is no run.
      CheckpointError: another initial checkpoint, or a model.json that cannot be read.
    """
    if not (folder / MODEL_JSON).exists():
        return
    described = read_model_json(folder)
    if (folder / "params").exists():
        raise ConfigError(
            f"MODEL_DIR = {str(folder)!r} holds a model, which no run wrote there; choose another "
            "folder."
        )
    if newest_step(folder) is None:
        return
    _check_initial(described, initial, frozen, str(folder))
    model_differs = _model_differences(described.config, config)
    changed = _changed_settings(folder)
    free, decisive = [], [*model_differs]
    for found in changed:
        if _is_free(found, changed):
            free.append(found)
        elif not _is_within(found, _PLACES):
            decisive.append(found)
    if decisive:
        told = dict.fromkeys(f"{d.name} is {d.before} there, {d.now} here" for d in decisive)
        raise ConfigError(
            f"MODEL_DIR = {str(folder)!r} holds another run: {'; '.join(told)}. Choose another "
            "MODEL_DIR, or remove this one."
        )
    _tell(folder, free)


def initial_checkpoint(base: BaseModel | None) -> dict[str, Any]:
    """Returns what model.json says, as metadata, of the checkpoint that a run starts from."""
    told = None if base is None else {"path": base.path, "content_hash": base.content_hash}
    return {_INITIAL: told}


def write_config(folder: pathlib.Path) -> None:
    """Writes the gin config that is in force into MODEL_DIR, empty where gin is not used."""
    import gin

    with written_whole(folder / CONFIG) as beside:
        beside.write_text(gin.config_str(), encoding="utf-8")


def _check_initial(
    described: Checkpoint, initial: BaseModel | None, frozen: bool, path: str
) -> None:
    old = described.base["content_hash"] if described.base else None
    new = initial.content_hash if initial and frozen else None
    if old != new:
        began = f"on the base model {old[:12]}…" if old else "without a frozen base model"
        given = f"{new[:12]}… ({initial.path})" if initial and new else "none"
        raise CheckpointError(
            f"{path}: this run began {began} but INITIAL_CHECKPOINT_PATH is {given}. Give what it "
            "began with, or another MODEL_DIR."
        )
    if frozen or _INITIAL not in described.metadata:
        return
    before, now = described.metadata[_INITIAL], initial_checkpoint(initial)[_INITIAL]
    if (before or {}).get("content_hash") != (now or {}).get("content_hash"):
        raise CheckpointError(
            f"{path}: this run began with {_named(before)} but INITIAL_CHECKPOINT_PATH is "
            f"{_named(now)}. Give what it began with, or another MODEL_DIR."
        )


def _named(told: dict[str, str] | None) -> str:
    if told is None:
        return "random parameters"
    return f"{told['content_hash'][:12]}… ({told['path']})"


def _model_differences(before: TransformerConfig, now: TransformerConfig) -> list[Difference]:
    old, new = before.to_dict(), now.to_dict()
    return [
        Difference(f"model.{name}", f"the model's {name}", repr(old.get(name)), repr(value))
        for name, value in new.items()
        if old.get(name) != value and name not in _FORMS
    ]


def _changed_settings(folder: pathlib.Path) -> list[Difference]:
    now = settings_in_force()
    if now is None:
        return []  # `train` was called without gin
    try:
        before = settings_of((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        before = None
    if before is None:
        logger.warning(
            "%s has no readable %s: whether this run began with these settings is not known",
            folder,
            CONFIG,
        )
        return []
    return differences(before, now)


def _is_within(found: Difference, paths: tuple[str, ...]) -> bool:
    return any(found.path == path or found.path.startswith(f"{path}.") for path in paths)


def _is_free(found: Difference, changed: list[Difference]) -> bool:
    if _is_within(found, (*_FREE, TRAIN_STEPS)):
        return True
    # A schedule that ends where training does.
    steps = [(d.before, d.now) for d in changed if d.path == TRAIN_STEPS]
    return found.path.endswith(f".{TRAIN_STEPS}") and (found.before, found.now) in steps


def _tell(folder: pathlib.Path, changed: list[Difference]) -> None:
    steps = next((d for d in changed if d.path == TRAIN_STEPS), None)
    if steps and any(d.path.endswith(f".{TRAIN_STEPS}") for d in changed):
        logger.warning(
            "%s was %s and is %s now: the steps from here on have the learning rates of a schedule "
            "of %s steps, so that this is not the run that takes %s from its start",
            steps.name,
            steps.before,
            steps.now,
            steps.now,
            steps.now,
        )
        changed = [d for d in changed if d.name != steps.name]
    for name, found in {d.name: d for d in changed}.items():
        logger.info("%s goes on with %s = %s, which was %s", folder, name, found.now, found.before)
