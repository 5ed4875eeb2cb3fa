"""The runs `import-checkpoint` and `export-checkpoint`."""

import os
import pathlib
import shutil
from collections.abc import Callable

from faith_jax.errors import ConfigError
from faith_jax.models.importers import huggingface
from faith_jax.models.importers.checkpoint import Checkpoint
from faith_jax.models.importers.formats import open_checkpoint
from faith_jax.models.importers.huggingface import is_huggingface, write_huggingface
from faith_jax.models.importers.native import is_native, write_native
from faith_jax.models.importers.t5x import is_t5x


def import_checkpoint(source: str, target: str, overwrite: bool = False) -> None:
    """Converts any checkpoint that can be read to our own form.

    The tokenizer's files that lie beside it are copied.

    Args:
      source: see `open_checkpoint`.
      target: the folder to write; it appears whole or not at all.
      overwrite: replace it where it is a checkpoint or an empty folder.

    Raises:
      CheckpointError: on a source that cannot be read.
      ConfigError: on a target that exists or cannot be written.
    """
    _convert(source, target, overwrite, write_native)


def export_checkpoint(source: str, target: str, overwrite: bool = False) -> None:
    """Writes any checkpoint that can be read as a Hugging Face folder.

    Arguments and errors are those of `import_checkpoint`; a checkpoint with a soft prompt cannot
    be written.
    """
    _convert(source, target, overwrite, write_huggingface)


def _convert(
    source: str,
    target: str,
    overwrite: bool,
    write: Callable[[Checkpoint, pathlib.Path], None],
) -> None:
    place = pathlib.Path(target).expanduser().absolute()
    _check_target(source, place, overwrite)
    checkpoint = open_checkpoint(source)
    beside = place.with_name(f".{place.name}.partial")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        write(checkpoint, beside)
        huggingface.copy_companions(checkpoint.metadata["source"], beside)
        _move(beside, place)
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written ({error.strerror or error}).") from None
    finally:
        # The writers, too, write beside what they are given.
        for left in (beside, beside.with_name(beside.name + ".partial")):
            shutil.rmtree(left, ignore_errors=True)


def _check_target(source: str, place: pathlib.Path, overwrite: bool) -> None:
    """Refuses what `_move` must not replace."""
    if not place.exists():
        return
    if not overwrite:
        raise ConfigError(f"{place}: exists already; give another TARGET, or --overwrite.")
    found = pathlib.Path(source).expanduser().resolve()
    if found.exists() and found.is_relative_to(place.resolve()):
        raise ConfigError(f"{place}: holds SOURCE, which would be lost; give another TARGET.")
    if not place.is_dir():
        raise ConfigError(f"{place}: is a file, which --overwrite does not replace.")
    known = is_native(place) or is_huggingface(place) or is_t5x(place)
    if not known and any(place.iterdir()):
        raise ConfigError(
            f"{place}: is no checkpoint but has files in it, which --overwrite does not replace."
        )


def _move(beside: pathlib.Path, place: pathlib.Path) -> None:
    if not place.exists():
        os.replace(beside, place)
        return
    old = place.with_name(f".{place.name}.replaced")
    _remove(old)
    os.replace(place, old)
    try:
        os.replace(beside, place)
    except OSError:
        os.replace(old, place)
        raise
    _remove(old)


def _remove(folder: pathlib.Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
