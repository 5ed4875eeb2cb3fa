"""The runs `import-checkpoint` and `export-checkpoint`."""

import os
import pathlib
import shutil

from faith_jax.errors import ConfigError
from faith_jax.models.importers import huggingface
from faith_jax.models.importers.formats import open_checkpoint
from faith_jax.models.importers.native import write_native


def import_checkpoint(source: str, target: str, overwrite: bool = False) -> None:
    """Converts any checkpoint that can be read to our own form.

    Args:
      source: see `open_checkpoint`.
      target: the folder to write; it appears whole or not at all.
      overwrite: replace it where it exists.

    Raises:
      CheckpointError: on a source that cannot be read.
      ConfigError: on a target that exists or cannot be written.
    """
    place = _target(source, target, overwrite)
    checkpoint = open_checkpoint(source)
    beside = _beside(place)
    write_native(checkpoint, beside)
    huggingface.copy_companions(source, beside)
    _move(beside, place)


def export_checkpoint(source: str, target: str, overwrite: bool = False) -> None:
    """Writes any checkpoint that can be read as a Hugging Face folder.

    Arguments and errors are those of `import_checkpoint`.
    """
    place = _target(source, target, overwrite)
    checkpoint = open_checkpoint(source)
    beside = _beside(place)
    try:
        huggingface.write_huggingface(checkpoint, beside)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    huggingface.copy_companions(source, beside)
    _move(beside, place)


def _target(source: str, target: str, overwrite: bool) -> pathlib.Path:
    place = pathlib.Path(target).expanduser().absolute()
    if place.exists() and not overwrite:
        raise ConfigError(f"{target} exists; give another TARGET, or --overwrite.")
    if place.exists() and place.samefile(pathlib.Path(source).expanduser()):
        raise ConfigError(f"SOURCE and TARGET are both {target}.")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written ({error.strerror}).") from None
    return place


def _beside(place: pathlib.Path) -> pathlib.Path:
    beside = place.with_name(f".{place.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    return beside


def _move(beside: pathlib.Path, place: pathlib.Path) -> None:
    if place.exists():
        old = place.with_name(f".{place.name}.replaced")
        os.replace(place, old)
        os.replace(beside, place)
        shutil.rmtree(old)
    else:
        os.replace(beside, place)
