"""Opens a checkpoint of any known form."""

import pathlib

from faith_jax.errors import CheckpointError, did_you_mean
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.checkpoint import Checkpoint
from faith_jax.models.importers.native import is_native, read_native


def open_checkpoint(
    path_or_name: str | pathlib.Path,
    *,
    config: TransformerConfig | None = None,
    base: str | None = None,
) -> Checkpoint:
    """Opens a checkpoint."""
    path = pathlib.Path(path_or_name).expanduser()
    if is_native(path):
        return read_native(path, base)
    raise CheckpointError(f"{path}: not a checkpoint.{did_you_mean(path.name, [])}")
