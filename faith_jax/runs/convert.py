"""The runs `import-checkpoint` and `export-checkpoint`."""

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Callable

import jax
import ml_dtypes
import numpy as np

from faith_jax.errors import ConfigError
from faith_jax.models.importers import huggingface
from faith_jax.models.importers.checkpoint import Checkpoint
from faith_jax.models.importers.formats import open_checkpoint
from faith_jax.models.importers.huggingface import is_huggingface, write_huggingface
from faith_jax.models.importers.native import is_native, write_native
from faith_jax.models.importers.peft import is_peft
from faith_jax.models.importers.t5x import is_t5x
from faith_jax.tokenizers.vocabularies import tokenizer_folder

DTYPES = ("float32", "bfloat16", "float16")


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


def export_checkpoint(
    source: str, target: str, overwrite: bool = False, dtype: str | None = None
) -> None:
    """Writes any checkpoint that can be read as a Hugging Face folder.

    What was read from such a folder keeps its files; else generation_config.json says the model's
    special tokens.

    Args:
      source: see `open_checkpoint`; a checkpoint with a soft prompt cannot be written.
      target: see `import_checkpoint`.
      overwrite: see `import_checkpoint`.
      dtype: one of DTYPES, which the parameters are rounded to; None = as they are.

    Raises:
      CheckpointError: on a source that cannot be read.
      ConfigError: on a target that exists or cannot be written, on another dtype, and on one for a
        source that is such a folder.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(f"--dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}.")

    def write(checkpoint: Checkpoint, folder: pathlib.Path) -> None:
        _write_huggingface(checkpoint if dtype is None else _rounded(checkpoint, dtype), folder)

    _convert(source, target, overwrite, write)


def _rounded(checkpoint: Checkpoint, dtype: str) -> Checkpoint:
    if "huggingface" in checkpoint.metadata:
        raise ConfigError(
            "--dtype: a Hugging Face folder is given back as it was; leave --dtype out."
        )
    chosen = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    params = jax.tree.map(lambda x: np.asarray(x).astype(chosen), checkpoint.params)
    return dataclasses.replace(checkpoint, params=params)


def _write_huggingface(checkpoint: Checkpoint, folder: pathlib.Path) -> None:
    write_huggingface(checkpoint, folder)
    if "huggingface" not in checkpoint.metadata and not checkpoint.config.is_encoder_only:
        config = json.loads((folder / huggingface.CONFIG).read_text(encoding="utf-8"))
        names = ("bos", "decoder_start", "eos", "pad")
        tokens = {f"{name}_token_id": config.get(f"{name}_token_id") for name in names}
        said = {name: token for name, token in tokens.items() if token is not None}
        text = json.dumps(said, indent=2) + "\n"
        (folder / "generation_config.json").write_text(text, encoding="utf-8")


def _convert(
    source: str,
    target: str,
    overwrite: bool,
    write: Callable[[Checkpoint, pathlib.Path], None],
) -> None:
    place = pathlib.Path(target).expanduser().absolute()
    check_target(source, place, overwrite)
    checkpoint = open_checkpoint(source)
    beside = place.with_name(f".{place.name}.partial")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        write(checkpoint, beside)
        for folder in (tokenizer_folder(source), checkpoint.metadata["source"]):
            if folder is not None:
                huggingface.copy_companions(folder, beside)
        move_folder(beside, place)
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written ({error.strerror or error}).") from None
    finally:
        # The writers, too, write beside what they are given.
        for left in (beside, beside.with_name(beside.name + ".partial")):
            shutil.rmtree(left, ignore_errors=True)


def check_target(source: str, place: pathlib.Path, overwrite: bool) -> None:
    """Refuses a target that `move_folder` must not replace.

    Raises:
      ConfigError: it exists and `overwrite` is false, it holds the source, or it is no checkpoint.
    """
    if not place.exists():
        return
    if not overwrite:
        raise ConfigError(f"{place}: exists already; give another TARGET, or --overwrite.")
    found = pathlib.Path(source).expanduser().resolve()
    if found.exists() and found.is_relative_to(place.resolve()):
        raise ConfigError(f"{place}: holds SOURCE, which would be lost; give another TARGET.")
    if not place.is_dir():
        raise ConfigError(f"{place}: is a file, which --overwrite does not replace.")
    known = is_native(place) or is_huggingface(place) or is_t5x(place) or is_peft(place)
    if not known and any(place.iterdir()):
        raise ConfigError(
            f"{place}: is no checkpoint but has files in it, which --overwrite does not replace."
        )


def move_folder(beside: pathlib.Path, place: pathlib.Path) -> None:
    """Puts a folder in the place of another, which stays where that fails."""
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
