"""The runs that convert checkpoints, and `write-manifest`."""

import contextlib
import dataclasses
import json
import logging
import pathlib
import shlex
from collections.abc import Callable, Iterator

import jax
import ml_dtypes
import numpy as np

from faith_jax.checkpoints.checkpoint import PROMPTS, Checkpoint, flatten
from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.hugging_face import folder as hugging_face
from faith_jax.checkpoints.lora import read_lora
from faith_jax.checkpoints.manifest import MANIFEST, check_finite, tensor_digests, write_manifest
from faith_jax.checkpoints.native import (
    is_native,
    read_model_json,
    run_folder,
    write_native,
)
from faith_jax.checkpoints.open import (
    is_checkpoint,
    open_checkpoint,
    stored_tensors,
    unknown_form_message,
)
from faith_jax.checkpoints.peft import (
    adapter_message,
    is_peft,
    method_of,
    supports_prompt,
)
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import (
    atomic_folder,
    check_space,
    defer_interrupts,
    is_finished,
    output_lock,
    partial_folder,
    report_write_errors,
)
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.rows import read_json
from faith_jax.tokenizers.vocabularies import tokenizer_folder

logger = logging.getLogger("faith_jax")

_ROOM = 1 << 20  # bytes for the files beside the parameters


def import_checkpoint(source: str, target: str, overwrite: bool = False, base: str = "") -> None:
    """Converts any checkpoint that can be read to our own format, with its tokenizer.

    The target appears whole or not at all; `overwrite` replaces a checkpoint or an empty folder.
    `base` is the base model of a prompt-tuned checkpoint, if it has moved, or of a LoRA adapter,
    which is merged into it; "" = the base that the source names.
    """
    path = path_of(source)
    is_whole = not base and hugging_face.is_huggingface(path)  # even if an adapter is beside it
    if is_peft(path) and method_of(path) == "LORA" and not is_whole:
        base = base or read_lora(path).base
        if not base:
            raise ConfigError(f"{source}: names no base model; say where it is with --base.")
    elif base and is_peft(path):
        raise CheckpointError(f"{source}: {adapter_message(path)}")
    elif base and not is_checkpoint(checkpoint_path(source)):
        raise CheckpointError(unknown_form_message(path))
    elif base and not (is_native(path) and read_model_json(run_folder(path)).base):
        raise ConfigError(f"--base: {source} is no adapter or prompt-tuned run; leave it out.")
    _convert_checkpoint(source, target, overwrite, write_native, base)


def export_checkpoint(
    source: str, target: str, overwrite: bool = False, dtype: str | None = None
) -> None:
    """Writes any checkpoint that can be read as a Hugging Face folder; see `import_checkpoint`.

    generation_config.json is copied if the checkpoint was read from a Hugging Face folder, and
    otherwise names the model's special tokens. Parameters are rounded to `dtype`; None = unchanged.

    Raises:
      CheckpointError: for a soft prompt, with the commands that export it and its base model.
    """
    path = path_of(source)
    model = read_model_json(run_folder(path)) if is_native(path) else None
    prompts = [name for name in PROMPTS if model and getattr(model.config, f"{name}_length")]
    if model and model.base is not None and prompts:
        rounded = [f"--dtype={dtype}"] if dtype else []
        parts = [["export-checkpoint", model.base["path"], target, *rounded]]
        for name in prompts:
            prompt_option = [f"--prompt={name.removesuffix('_prompt')}"] if len(prompts) > 1 else []
            place = [f"{target}_{name}.npy"]
            if supports_prompt(name, model.config):
                place = [f"{target}_{name}", f"--base={target}"]
            parts.append(["export-prompt", source, *place, *prompt_option])
        commands = [shlex.join(["faith-jax", *map(str, part)]) for part in parts]
        raise CheckpointError(
            f"{source}: its soft prompt has no place in a Hugging Face folder. Run, for its base "
            f"model and for the prompt: {' && '.join(commands)}"
        )

    def write(checkpoint: Checkpoint, folder: pathlib.Path) -> None:
        if dtype is not None:
            numpy = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
            with np.errstate(over="ignore"):  # check_finite reports overflows below
                params = jax.tree.map(lambda x: np.asarray(x).astype(numpy), checkpoint.params)
            for name, array in flatten(params).items():
                check_finite(name, array, f"{source}, rounded to {dtype}")
            checkpoint = dataclasses.replace(checkpoint, params=params)
        hugging_face.write_huggingface(checkpoint, folder)
        if "huggingface" not in checkpoint.metadata and checkpoint.config.writes_text:
            config = read_json(folder / hugging_face.CONFIG)
            names = [f"{name}_token_id" for name in ("bos", "decoder_start", "eos", "pad")]
            token_ids = {name: config[name] for name in names if config.get(name) is not None}
            text = json.dumps(token_ids, indent=2) + "\n"
            (folder / "generation_config.json").write_text(text, encoding="utf-8")

    _convert_checkpoint(source, target, overwrite, write)


def add_manifest(source: str) -> pathlib.Path:
    """Writes the manifest of a checkpoint, or verifies an existing one; returns its path.

    The checkpoint is read first, so a broken one gets no manifest.

    Raises:
      CheckpointError: the checkpoint cannot be read, or differs from its manifest.
      ConfigError: the folder cannot be written to.
    """
    folder, tensors = stored_tensors(source)
    path = folder / MANIFEST
    open_checkpoint(source).read()
    if path.exists():
        logger.info("%s: the checkpoint is as its manifest says", source)
        return path
    digests = {name: tensor_digests({name: tensor})[name] for name, tensor in tensors}
    with report_write_errors(path), output_lock(path, option="SOURCE"):
        write_manifest(folder, digests)
    return path


def _convert_checkpoint(
    source: str,
    target: str,
    overwrite: bool,
    write: Callable[[Checkpoint, pathlib.Path], None],
    base: str = "",
) -> None:
    place = free_place(target, overwrite, source, base)
    checkpoint = open_checkpoint(source, base=base or None).read()
    # The folder of an adapter may lack a tokenizer.
    tokenizer = tokenizer_folder(source) or (tokenizer_folder(base) if base else None)
    check_space(place, _ROOM + sum(leaf.nbytes for leaf in jax.tree.leaves(checkpoint.params)))
    with new_checkpoint(place, overwrite) as beside:
        write(checkpoint, beside)
        for folder in (tokenizer, checkpoint.metadata["source"]):
            if folder is not None:
                hugging_face.copy_companions(folder, beside)


def is_npy_file(path: str | pathlib.Path) -> bool:
    """Whether a path names a .npy file, rather than a folder."""
    return str(path).endswith(".npy")


def free_place(target: str, overwrite: bool, *sources: str) -> pathlib.Path:
    """Returns the path of a target; raises ConfigError, before any work, if it is not free."""
    partial_folder(path_of(target))  # raises if the target cannot have one
    place = path_of(target).absolute()
    read = [path_of(source).resolve() for source in sources if source]
    problem = ""
    if is_finished(place) and (not overwrite or (is_npy_file(place) and place.is_dir())):
        problem = "exists already; give another TARGET, or --overwrite"
    elif place.exists() and not is_npy_file(place):
        same_store = [
            path for path in read if is_remote(path) == is_remote(place) and path.exists()
        ]
        if any(path.is_relative_to(place.resolve()) for path in same_store):
            problem = "holds SOURCE, which would be lost; give another TARGET"
        elif not place.is_dir():
            problem = "is a file, which --overwrite does not replace"
        elif not is_checkpoint(place) and any(place.iterdir()):
            problem = "is no checkpoint but has files in it, which --overwrite does not replace"
    if problem:
        raise ConfigError(f"{place}: {problem}.")
    return place


@contextlib.contextmanager
def new_checkpoint(place: pathlib.Path, overwrite: bool) -> Iterator[pathlib.Path]:
    """Yields a folder to write a checkpoint to; it is moved to `place` at the end."""
    with (
        atomic_folder(place, "a checkpoint", overwrite, "TARGET") as beside,
        report_write_errors(f"TARGET: {place}"),
        defer_interrupts(),
    ):
        yield beside
