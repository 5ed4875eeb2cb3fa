"""The runs `import-checkpoint` and `export-checkpoint`."""

import json
import os
import pathlib
import shutil
from collections.abc import Callable

import numpy as np

from faith_jax.data.tokenizer_folders import tokenizer_folder
from faith_jax.errors import CheckpointError, ConfigError
from faith_jax.models.importers import huggingface
from faith_jax.models.importers.checkpoint import PROMPTS, Checkpoint
from faith_jax.models.importers.formats import open_checkpoint
from faith_jax.models.importers.huggingface import is_huggingface, write_huggingface
from faith_jax.models.importers.native import is_native, read_native_params, write_native
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
    be written. What was read from such a folder keeps its files; else generation_config.json says
    the model's special tokens.
    """
    _convert(source, target, overwrite, _write_huggingface)


def export_prompt(
    source: str, target: str, overwrite: bool = False, which: str | None = None
) -> None:
    """Writes the soft prompt of a checkpoint as a .npy file of float32 [length, embed].

    `prompts/from_npy.gin` starts another run's prompt from it. The base model need not be there.

    Args:
      source: a prompt-tuned MODEL_DIR (its newest step) or one of its steps, or any other
        checkpoint with a soft prompt.
      target: the file to write; it appears whole or not at all.
      overwrite: replace it.
      which: "encoder" or "decoder", needed where the checkpoint has both.

    Raises:
      CheckpointError: on a source that cannot be read, or that has no such prompt.
      ConfigError: on a target that exists or cannot be written.
    """
    place = pathlib.Path(target).expanduser().absolute()
    if place.is_dir() or (place.exists() and not overwrite):
        raise ConfigError(f"{place}: exists already; give another TARGET, or --overwrite.")
    prompts = _prompts(source)
    names = sorted(prompts)
    if not names:
        raise CheckpointError(
            f"{source}: has no soft prompt; give a prompt-tuned MODEL_DIR or one of its steps."
        )
    if which is None and len(names) > 1:
        raise ConfigError(f"{source}: has several soft prompts: give --prompt={'|'.join(names)}.")
    if which is not None and which not in prompts:
        raise ConfigError(
            f"--prompt={which}: {source} has none of this name; it has: {', '.join(names)}."
        )
    beside = place.with_name(f".{place.name}.partial")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            np.save(file, np.asarray(prompts[which or names[0]], np.float32), allow_pickle=False)
        os.replace(beside, place)
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written ({error.strerror or error}).") from None
    finally:
        if beside.exists():
            beside.unlink()


def _prompts(source: str) -> dict[str, np.ndarray]:
    """Returns a checkpoint's prompts by "encoder" and "decoder"."""
    params = read_native_params(source) if is_native(source) else {}
    if not any(name in params for name in PROMPTS):
        params = open_checkpoint(source).params
    return {
        name.removesuffix("_prompt"): params[name]["embedding"]
        for name in PROMPTS
        if name in params
    }


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
    _check_target(source, place, overwrite)
    checkpoint = open_checkpoint(source)
    beside = place.with_name(f".{place.name}.partial")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        write(checkpoint, beside)
        for folder in (tokenizer_folder(source), checkpoint.metadata["source"]):
            if folder is not None:
                huggingface.copy_companions(folder, beside)
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
