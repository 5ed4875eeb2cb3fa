"""The starts of a run's soft prompts, kept in MODEL_DIR: what they moved from.

A start is a function of config, seed, base model and libraries, which may all change; so it is
kept, and never made up again.
"""

import logging
import pathlib
from collections.abc import Mapping

import jax
import numpy as np
from numpy.typing import NDArray

from faith_jax.checkpoints import tensors
from faith_jax.checkpoints.checkpoint import PROMPTS
from faith_jax.core.errors import CheckpointError
from faith_jax.core.files import written_whole

logger = logging.getLogger("faith_jax")

PROMPT_START = "prompt_start.safetensors"
Starts = dict[str, NDArray[np.float32]]


def prompt_starts(
    folder: pathlib.Path, trained: Starts, origin: Mapping[str, str], resumed: bool
) -> Starts:
    """Returns the starts of a run's prompts, and keeps those of a new one.

    Args:
      folder: MODEL_DIR.
      trained: the prompts before any training, by name; empty where none is trained.
      origin: what made them, such as {"initializer": "uniform", "seed": "0"}.
      resumed: the run goes on from a checkpoint, where `trained` may be another start than its.

    Returns:
      Float32 [length, embed] by name; empty where they are not known.

    Raises:
      CheckpointError: on a file that is broken.
    """
    if resumed:
        kept = read_prompt_starts(folder) if trained else None
        if trained and kept is None:
            logger.warning(
                "%s does not say where its prompt started: how far it moved is not logged", folder
            )
        return kept or {}
    if jax.process_index() == 0:
        if trained:
            write_prompt_starts(folder, trained, origin)
        else:
            (folder / PROMPT_START).unlink(missing_ok=True)
    return trained


def write_prompt_starts(
    folder: pathlib.Path,
    starts: Mapping[str, NDArray[np.float32]],
    origin: Mapping[str, str] | None = None,
) -> None:
    """Writes the starts, float32 [length, embed] by name, and their origin into MODEL_DIR."""
    given = {name: np.asarray(v, np.float32) for name, v in starts.items()}
    with written_whole(folder / PROMPT_START) as beside:
        tensors.write_tensor_file(beside, given, origin or {})


def read_prompt_starts(folder: pathlib.Path) -> Starts | None:
    """Reads what `write_prompt_starts` wrote, None where nothing was.

    Raises:
      CheckpointError: on a file that is broken.
    """
    path = folder / PROMPT_START
    if not path.exists():
        return None
    stored, _ = tensors.read_header(path)
    if not stored or not set(stored) <= set(PROMPTS):
        raise CheckpointError(f"{path}: expected the tensors of {' or '.join(PROMPTS)}.")
    for name, tensor in stored.items():
        if tensor.dtype != np.float32 or len(tensor.shape) != 2:
            raise CheckpointError(
                f"{path}: tensor {name}: expected float32 [length, embed], got {tensor.dtype} "
                f"{list(tensor.shape)}."
            )
    return {name: tensor.read() for name, tensor in stored.items()}


def read_start_origin(folder: pathlib.Path) -> dict[str, str]:
    """Returns what made a run's starts, as far as it was kept with them.

    Raises:
      CheckpointError: on a file that is broken.
    """
    path = folder / PROMPT_START
    if not path.exists():
        return {}
    return tensors.read_header(path)[1]
