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
from faith_jax.checkpoints.manifest import write_manifest
from faith_jax.checkpoints.native import (
    ERROR_LABELS,
    MODEL_JSON,
    write_model_json,
)
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import atomic_file, working_folder, write_text
from faith_jax.core.files.stores import is_remote, path_of, reason, storage_errors
from faith_jax.core.files.whole import remove_tree
from faith_jax.core.processes import on_first_process
from faith_jax.gin_files.run_settings import (
    CONFIG,
)
from faith_jax.models.config import TransformerConfig
from faith_jax.runs.setup import BaseCheckpoint
from faith_jax.statistics.prompt_health import Curve
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.carried import keep_vocabulary
from faith_jax.training.metrics import METRICS, read_metric_lines

logger = logging.getLogger("faith_jax")

PROMPT_START = "prompt_start.safetensors"
Starts = dict[str, NDArray[np.float32]]

INITIAL = "initial_checkpoint"


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
    metadata: dict[str, Any] = {INITIAL: initial.describe() if initial else None}
    if error_labels:
        metadata[ERROR_LABELS] = dict(error_labels)
    family = initial.family if initial else ""
    write_model_json(folder, Checkpoint(config, {}, metadata, family, base))
    write_text(folder / CONFIG, gin.config_str())


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
