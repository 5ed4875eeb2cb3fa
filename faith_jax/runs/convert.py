"""The runs `import-checkpoint` and `export-checkpoint`."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator

import jax
import ml_dtypes
import numpy as np

from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.hugging_face import folder as hugging_face
from faith_jax.checkpoints.native import write_native
from faith_jax.checkpoints.open import is_checkpoint, open_checkpoint
from faith_jax.core.errors import ConfigError
from faith_jax.core.files import written_whole
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
      CheckpointError: the source cannot be read.
      ConfigError: the target exists or cannot be written.
    """
    _convert(source, target, overwrite, write_native)


def export_checkpoint(
    source: str, target: str, overwrite: bool = False, dtype: str | None = None
) -> None:
    """Writes any checkpoint that can be read as a Hugging Face folder.

    generation_config.json says the model's special tokens, unless the checkpoint was read from such
    a folder, whose own is copied.

    Args:
      source: see `open_checkpoint`; a checkpoint with a soft prompt cannot be written.
      target: see `import_checkpoint`.
      overwrite: see `import_checkpoint`.
      dtype: one of DTYPES, which the parameters are rounded to; None = as they are.

    Raises:
      CheckpointError: the source cannot be read.
      ConfigError: the target exists or cannot be written, or the dtype is another.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(f"--dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}.")

    def write(checkpoint: Checkpoint, folder: pathlib.Path) -> None:
        if dtype is not None:
            params = jax.tree.map(lambda x: np.asarray(x).astype(_numpy(dtype)), checkpoint.params)
            checkpoint = dataclasses.replace(checkpoint, params=params)
        hugging_face.write_huggingface(checkpoint, folder)
        if "huggingface" not in checkpoint.metadata and not checkpoint.config.is_encoder_only:
            _write_generation_config(folder)

    _convert(source, target, overwrite, write)


def _numpy(dtype: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, dtype, None) or dtype)


def _write_generation_config(folder: pathlib.Path) -> None:
    config = json.loads((folder / hugging_face.CONFIG).read_text(encoding="utf-8"))
    names = [f"{name}_token_id" for name in ("bos", "decoder_start", "eos", "pad")]
    said = {name: config[name] for name in names if config.get(name) is not None}
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
    with folder_written_whole(place) as beside:
        write(checkpoint, beside)
        for folder in (tokenizer_folder(source), checkpoint.metadata["source"]):
            if folder is not None:
                hugging_face.copy_companions(folder, beside)


def check_target(source: str, place: pathlib.Path, overwrite: bool) -> None:
    """Checks that `folder_written_whole` may replace a target.

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
    if not is_checkpoint(place) and any(place.iterdir()):
        raise ConfigError(
            f"{place}: is no checkpoint but has files in it, which --overwrite does not replace."
        )


@contextlib.contextmanager
def folder_written_whole(place: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the path of a folder to make, as `written_whole` does.

    Raises:
      ConfigError: it cannot be written.
    """
    try:
        with written_whole(place) as beside:
            yield beside
    except OSError as error:
        raise ConfigError(f"{place}: cannot be written ({error.strerror or error}).") from None
