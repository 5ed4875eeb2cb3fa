"""MODEL_DIR: checks its contents before a run, and keeps the run's files beside its checkpoints.

The folder is empty, or holds this run, which is then resumed, or another run, which is an error. A
run keeps there the model's description, the vocabulary, the config in force, the initial values of
soft prompts and the metrics.
"""

import contextlib
import logging
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gin
import jax
import numpy as np
from numpy.typing import NDArray

from faith_jax.checkpoints import tensors
from faith_jax.checkpoints.checkpoint import PROMPTS, Checkpoint
from faith_jax.checkpoints.embedded import BEST, NEWEST, newest_step
from faith_jax.checkpoints.identity import opened_path
from faith_jax.checkpoints.manifest import write_manifest
from faith_jax.checkpoints.native import (
    ERROR_LABELS,
    MODEL_JSON,
    PARAMS,
    read_model_json,
    stored_names,
    write_model_json,
)
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import atomic_file, working_folder, write_text
from faith_jax.core.files.stores import is_remote, path_of, reason, storage_errors
from faith_jax.core.files.whole import remove_tree
from faith_jax.core.processes import on_first_process
from faith_jax.gin_files.run_settings import (
    CONFIG,
    TRAIN_STEPS,
    SettingDifference,
    differences,
    read_settings,
    settings_of,
)
from faith_jax.models.config import TransformerConfig
from faith_jax.runs.setup import BaseCheckpoint
from faith_jax.statistics.prompt_health import Curve
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.carried import check_kept_vocabulary, keep_vocabulary
from faith_jax.training.metrics import METRICS, read_metric_lines

logger = logging.getLogger("faith_jax")

PROMPT_START = "prompt_start.safetensors"
Starts = dict[str, NDArray[np.float32]]

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
_INITIAL = "initial_checkpoint"


@contextlib.contextmanager
def own_folder(path: str) -> Iterator[pathlib.Path]:
    """Makes MODEL_DIR, see `make_folder`, and locks it against other runs.

    The processes of a run share the lock. A new folder is removed again after an error that occurs
    before the run is described.
    """
    was_there = path_of(path).exists()
    folder = make_folder(path)
    with contextlib.ExitStack() as held:
        owned = working_folder(folder, "MODEL_DIR")
        on_first_process(lambda: held.enter_context(owned), "MODEL_DIR")
        try:
            yield folder
        except BaseException:
            is_new = not was_there and not (folder / MODEL_JSON).exists()
            if is_new and jax.process_index() == 0:
                remove_tree(folder)
            raise


def make_folder(path: str, setting: str = "MODEL_DIR") -> pathlib.Path:
    """Makes a folder that a setting names, and checks that it can be written to."""
    folder = path_of(path)
    try:
        if is_remote(folder):
            probe = folder / f".writable-{jax.process_index()}"
            probe.touch()
            probe.unlink()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
    except storage_errors() as error:
        raise ConfigError(
            f"{setting} = {str(path)!r} cannot be written to ({reason(error)}); choose a folder "
            "that you own."
        ) from None
    return folder


def pin_start(folder: pathlib.Path, initial: str) -> str:
    """Returns the path of the checkpoint that a run starts from; of a MODEL_DIR, one of its steps.

    A resumed run keeps the step that it began with, even if its base has been trained further and
    now has another best step. `check_former_run` compares the contents.
    """
    opened = opened_path(initial)
    if newest_step(folder) is None or not (folder / MODEL_JSON).exists():
        return opened
    described = read_model_json(folder)
    origin = described.base or described.metadata.get(_INITIAL) or {}
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


def describe_run(
    folder: pathlib.Path,
    config: TransformerConfig,
    initial: BaseCheckpoint | None,
    frozen: bool,
    vocabulary: Tokenizer,
    error_labels: Mapping[str, str] | None = None,
) -> None:
    """Writes model.json, the vocabulary and the config in force; see `check_former_run`.

    `error_labels` are the texts of a classifier of errors, for its scorers.
    """
    keep_vocabulary(vocabulary, folder)
    write_manifest(folder, {})  # covers the vocabulary; each step has a manifest of its arrays
    base = initial.describe() if initial and frozen else None
    metadata: dict[str, Any] = {_INITIAL: initial.describe() if initial else None}
    if error_labels:
        metadata[ERROR_LABELS] = dict(error_labels)
    family = initial.family if initial else ""
    write_model_json(folder, Checkpoint(config, {}, metadata, family, base))
    write_text(folder / CONFIG, gin.config_str())


def _check_initial(
    described: Checkpoint, initial: BaseCheckpoint | None, frozen: bool, path: str
) -> None:
    current, before = initial.describe() if initial else None, described.metadata.get(_INITIAL)
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


def read_or_write_prompt_starts(
    folder: pathlib.Path, trained: Starts, origin: Mapping[str, str], resumed: bool
) -> Starts:
    """Returns the initial values of a run's prompts, float32 [length, embed] by name.

    In a new run these are `trained`, and they are kept in MODEL_DIR with their origin. A resumed
    run reads them from there, since config, seed, base and libraries may all have changed; if the
    file is gone, the result is empty.
    """
    if resumed:
        kept_starts = read_prompt_starts(folder)[0] if trained else {}
        if kept_starts is None:
            message = "%s has no file %s: how far its prompts moved is not logged"
            logger.warning(message, folder, PROMPT_START)
        return kept_starts or {}
    if jax.process_index() == 0:
        if trained:
            write_prompt_starts(folder, trained, origin)
        else:
            (folder / PROMPT_START).unlink(missing_ok=True)
    return trained


def write_prompt_starts(
    folder: pathlib.Path, starts: Mapping[str, NDArray[np.floating]], origin: Mapping[str, str]
) -> None:
    """Writes prompts' initial values, [length, embed] by name, and their origin into MODEL_DIR."""
    arrays = {name: np.asarray(v, np.float32) for name, v in starts.items()}
    with atomic_file(folder / PROMPT_START) as beside:
        tensors.write_tensor_file(beside, arrays, origin)


def read_prompt_starts(folder: pathlib.Path) -> tuple[Starts | None, dict[str, str]]:
    """Returns the initial values of a run's prompts (None = not kept), and their origin."""
    path = folder / PROMPT_START
    if not path.exists():
        return None, {}
    stored, origin = tensors.read_header(path)
    if not stored or not set(stored) <= set(PROMPTS):
        raise CheckpointError(f"{path}: expected the tensors of {' or '.join(PROMPTS)}.")
    return {name: np.asarray(tensor.array) for name, tensor in stored.items()}, origin


class RunLog:
    """The metrics of a run in MODEL_DIR, by step, up to `last_step`."""

    def __init__(self, folder: pathlib.Path, last_step: int | None = None):
        self._rows = [
            row
            for _, row in read_metric_lines(folder / METRICS)
            if "step" in row and (last_step is None or row["step"] <= last_step)
        ]

    def training(self, name: str) -> Curve:
        """Returns the curve of a number that is logged for training batches."""
        return self._build_curve(name, lambda row: "gradient_norm" in row)

    def validation(self, name: str) -> Curve:
        """Returns the curve of a number that is logged for the validation set."""
        return self._build_curve(name, lambda row: "gradient_norm" not in row)

    def vectors(self, name: str, length: int) -> Curve:
        """Returns the curve of a figure that each vector of a prompt has, [points, length]."""
        curve = self._build_curve(name, lambda row: len(row.get(name, ())) == length)
        return curve._replace(values=curve.values.reshape(-1, length))

    def _build_curve(self, name: str, is_row: Callable[[Mapping[str, Any]], bool]) -> Curve:
        value_by_step = {
            row["step"]: row[name] for row in self._rows if is_row(row) and name in row
        }
        values = np.array(list(value_by_step.values()), np.float64)
        return Curve(np.array(list(value_by_step), np.int64), values)
