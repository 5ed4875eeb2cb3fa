"""Resuming a training: the state that MODEL_DIR holds, and whether this run may continue it.

`training.checkpoints.TrainCheckpoints` saves and restores the state itself. A run continues it only
with the same settings, except for those that do not define what is trained.
"""

import dataclasses
import logging
import pathlib
from collections.abc import Callable, Mapping

import gin

from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.embedded import BEST, NEWEST, newest_step
from faith_jax.checkpoints.identity import opened_path
from faith_jax.checkpoints.native import MODEL_JSON, PARAMS, read_model_json, stored_names
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files.stores import path_of
from faith_jax.gin_files.run_settings import (
    CONFIG,
    TRAIN_STEPS,
    SettingDifference,
    differences,
    read_settings,
    settings_of,
)
from faith_jax.models.config import TransformerConfig
from faith_jax.runs.model_dir import INITIAL
from faith_jax.runs.setup import BaseCheckpoint
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.carried import check_kept_vocabulary
from faith_jax.training.metrics import DECODED, is_measured, losses_until, no_longer_falls

logger = logging.getLogger("faith_jax")

# Arguments of `train` that do not define what is trained, and may change when a run is resumed.
_FREE = (
    "evaluation",
    "output.log_period",
    "output.checkpoint_period",
    "output.keep_last",
    "output.keep_best",
    "partitioner_for",
    "optimization.num_microbatches",
    "optimization.learning_rate",  # only logged; the optimizer has its own
    "dataset.module",
)
# Arguments that are paths: the contents are compared, not the path.
_PLACES = ("output.model_dir", "start.initial_checkpoint_path", "start.vocabulary", "model")
# Fields of a model's config that change how it is computed, but not the result.
_FORMS = ("remat_policy", "attention_block_length", "attention_kernel")
_SCAN_LAYERS = "scan_layers"  # belongs to `_FORMS` if a run's checkpoints contain no layers


@dataclasses.dataclass(frozen=True)
class SavedState:
    """The state that a stopped run has left in MODEL_DIR, and the step at which training ends.

    Attributes:
      step: of the newest checkpoint; None = there is no checkpoint.
      end: the last step.
      losses: on the validation data, up to `step`; empty without PATIENCE.
      has_converged: whether the losses no longer fall.
      is_unmeasured: whether decoded metrics are due at `step` but missing, because the run was
        killed, or a metric failed, after the state was saved.
    """

    step: int | None
    end: int
    losses: list[float]
    has_converged: bool
    is_unmeasured: bool

    @property
    def is_last(self) -> bool:
        """Whether nothing is left to train."""
        return self.step is not None and self.step >= self.end


def find_saved_state(
    folder: pathlib.Path,
    total_steps: int,
    split: str | None,
    patience: int | None,
    decodes_after: Callable[[int, int], bool] | None,
) -> SavedState:
    """Returns the state that a stopped run has left in MODEL_DIR.

    Args:
      folder: MODEL_DIR.
      total_steps: TRAIN_STEPS.
      split: the name of the validation data; None = nothing is measured.
      patience: see `training.metrics.no_longer_falls`.
      decodes_after: whether decoded metrics are due after a step, given the last step as well; None
        = they never are.
    """
    step = newest_step(folder)
    if step is None or split is None:
        return SavedState(step, total_steps, [], False, False)
    losses = losses_until(folder, step, split) if patience else []
    has_converged = no_longer_falls(losses, patience)
    end = step if has_converged else total_steps
    is_due = decodes_after is not None and decodes_after(step, end)
    is_unmeasured = is_due and not is_measured(folder, step, f"{split}{DECODED}")
    return SavedState(step, end, losses, has_converged, is_unmeasured)


def pin_start(folder: pathlib.Path, initial: str) -> str:
    """Returns the path of the checkpoint that a run starts from; of a MODEL_DIR, one of its steps.

    A resumed run keeps the step that it began with, even if its base has been trained further and
    now has another best step. `check_former_run` compares the contents.
    """
    opened = opened_path(initial)
    if newest_step(folder) is None or not (folder / MODEL_JSON).exists():
        return opened
    described = read_model_json(folder)
    origin = described.base or described.metadata.get(INITIAL) or {}
    began, steps = path_of(origin.get("path", opened)), path_of(initial).absolute()
    if steps.name in (BEST, NEWEST) and not steps.exists():
        steps = steps.parent
    # A step that is named explicitly is used as it is.
    names_many = steps in path_of(opened).parents
    if not names_many or began.parent != path_of(opened).parent or not began.is_dir():
        return opened
    if str(began) != opened:
        logger.info("%s is resumed with %s, which it began with, not %s", folder, began, opened)
    return str(began)


def check_former_run(
    folder: pathlib.Path,
    config: TransformerConfig,
    initial: BaseCheckpoint | None,
    frozen: bool,
    vocabulary: Tokenizer,
) -> list[SettingDifference]:
    """Checks that MODEL_DIR holds no other run than the one that begins or resumes.

    It is an error if the data, objective, optimizer, model, seed, vocabulary or initial checkpoint
    (None = random parameters) differ, or whether a part of it is frozen. A run that has no
    checkpoint yet begins anew, with any settings. The folder need not exist and is not modified.

    Returns:
      The settings that have changed and are allowed to; see `log_changes`.
    """
    free: list[SettingDifference] = []
    if not (folder / MODEL_JSON).exists():
        return free
    described = read_model_json(folder)
    if (folder / "params").exists():
        raise ConfigError(
            f"MODEL_DIR = {str(folder)!r} holds a model, which no run wrote there; choose another "
            "folder."
        )
    if (last_step := newest_step(folder)) is not None:
        _check_initial(described, initial, frozen, str(folder))
        changed = _changed_settings(folder)
        steps = [(d.before, d.now) for d in changed if d.path == TRAIN_STEPS]
        free = [
            d
            for d in changed
            if _is_within(d, (*_FREE, TRAIN_STEPS))
            # A schedule may move its end together with the end of training.
            or (_ends_schedule(d) and (d.before, d.now) in steps)
        ]
        old, new = described.config.to_dict(), config.to_dict()
        forms: tuple[str, ...] = _FORMS
        if old[_SCAN_LAYERS] != new[_SCAN_LAYERS]:
            step_params = folder / "checkpoints" / str(last_step) / PARAMS
            has_layers = any("/layers" in name for name in stored_names(step_params))
            forms = _FORMS if has_layers else (*_FORMS, _SCAN_LAYERS)
        decisive = [
            *(
                SettingDifference(
                    f"model.{name}", f"the model's {name}", repr(old.get(name)), repr(value)
                )
                for name, value in new.items()
                if old.get(name) != value and name not in forms
            ),
            *(d for d in changed if d not in free and not _is_within(d, _PLACES)),
        ]
        if decisive:
            changes = dict.fromkeys(f"{d.name} is {d.before} there, {d.now} here" for d in decisive)
            raise ConfigError(
                f"MODEL_DIR = {str(folder)!r} holds another run: {'; '.join(changes)}. Choose "
                "another MODEL_DIR, or remove this one."
            )
    # model.json is written after the vocabulary, so the vocabulary is complete here.
    check_kept_vocabulary(vocabulary, folder)
    return free


def _check_initial(
    described: Checkpoint, initial: BaseCheckpoint | None, frozen: bool, path: str
) -> None:
    current, before = initial.describe() if initial else None, described.metadata.get(INITIAL)
    if frozen or described.base:
        before, current = described.base, current if frozen else None
    if (before or {}).get("content_hash") != (current or {}).get("content_hash"):
        raise CheckpointError(
            f"{path}: this run began with {_base_text(before)} but INITIAL_CHECKPOINT_PATH is "
            f"{_base_text(current)}. Give what it began with, or another MODEL_DIR."
        )


def _base_text(origin: Mapping[str, str] | None) -> str:
    return (
        f"{origin['content_hash'][:12]}… ({origin.get('path')})" if origin else "random parameters"
    )


def _changed_settings(folder: pathlib.Path) -> list[SettingDifference]:
    current = settings_of(gin.config_str())
    if current is None:
        return []  # `train` was called without gin
    before = read_settings(folder)
    if before is None:
        unknown = "%s has no readable %s: whether this run began with these settings is not known"
        logger.warning(unknown, folder, CONFIG)
        return []
    return differences(before, current)


def _is_within(difference: SettingDifference, paths: tuple[str, ...]) -> bool:
    return any(difference.path == path or difference.path.startswith(f"{path}.") for path in paths)


def _ends_schedule(difference: SettingDifference) -> bool:
    return difference.path != TRAIN_STEPS and difference.path.endswith(".total_steps")


def log_changes(folder: pathlib.Path, changed: list[SettingDifference]) -> None:
    """Logs changed settings, with a warning if a change of TRAIN_STEPS changes a schedule."""
    steps = next((d for d in changed if d.path == TRAIN_STEPS), None)
    if steps and any(map(_ends_schedule, changed)):
        logger.warning(
            "%s was %s and is %s now: the learning rates from here on follow the new schedule, so "
            "the result differs from that of a run that has it from the start",
            *(steps.name, steps.before, steps.now),
        )
        changed = [d for d in changed if d.name != steps.name]
    for name, change in {d.name: d for d in changed}.items():
        resumed = "%s is resumed with %s = %s, which was %s"
        logger.info(resumed, folder, name, change.now, change.before)
