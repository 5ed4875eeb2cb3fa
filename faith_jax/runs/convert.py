"""The runs `import-checkpoint`, `export-checkpoint`, `import-prompt` and `export-prompt`."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

from faith_jax.checkpoints.checkpoint import PROMPTS, Checkpoint
from faith_jax.checkpoints.hugging_face import folder as hugging_face
from faith_jax.checkpoints.native import is_native, read_native, write_native
from faith_jax.checkpoints.open import is_checkpoint, open_checkpoint
from faith_jax.checkpoints.peft import (
    DECODER_ONLY,
    ENCODER_DECODER,
    PeftPrompt,
    embedding_scale,
    read_peft_prompt,
    write_peft_prompt,
)
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import written_whole
from faith_jax.models.config import TransformerConfig
from faith_jax.models.soft_prompt import read_npy
from faith_jax.runs import setup
from faith_jax.tokenizers.vocabularies import tokenizer_folder

DTYPES = ("float32", "bfloat16", "float16")


def import_checkpoint(source: str, target: str, overwrite: bool = False) -> None:
    """Converts any checkpoint that `open_checkpoint` reads to our own form, with its tokenizer.

    The target appears whole or not at all; `overwrite` replaces a checkpoint or an empty folder.

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

    Parameters are rounded to `dtype`, one of DTYPES; None = as they are. See `import_checkpoint`.

    Raises:
      CheckpointError: the source cannot be read, or has a soft prompt, which has no such form.
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


class Prompts(NamedTuple):
    """The soft prompts of a checkpoint."""

    vectors: dict[str, np.ndarray]  # float32 [length, embed] by their names among `PROMPTS`
    config: TransformerConfig  # of the model with them
    base: Mapping[str, str] | None  # path and content_hash of their model; None = it is there too


def read_prompts(source: str) -> Prompts:
    """Reads the soft prompts of a checkpoint, without its base model where they stand alone.

    Args:
      source: a prompt-tuned MODEL_DIR (its newest step) or one of its steps, or any other
        checkpoint with a soft prompt.

    Raises:
      CheckpointError: on a source that cannot be read, that has no prompt, or whose prompt is not
        what its config says or not finite.
    """
    path = pathlib.Path(source).expanduser()
    checkpoint = read_native(path) if is_native(path) else None
    if checkpoint is None or not any(name in checkpoint.params for name in PROMPTS):
        checkpoint = open_checkpoint(source)
    params, config = checkpoint.params, checkpoint.config
    flat = {name: params[name] for name in PROMPTS if name in params}
    if any(set(part) != {"embedding"} for part in flat.values()):
        raise CheckpointError(f"{source}: a prompt is not the one array 'embedding'.")
    found = {name: np.asarray(part["embedding"], np.float32) for name, part in flat.items()}
    if not found:
        raise CheckpointError(
            f"{source}: has no soft prompt; give a prompt-tuned MODEL_DIR or one of its steps."
        )
    for name, vectors in found.items():
        expected = (getattr(config, f"{name}_length"), config.emb_dim)
        if vectors.shape != expected:
            raise CheckpointError(
                f"{source}: {name} has the shape {vectors.shape}, but model.json says {expected}."
            )
        if not np.isfinite(vectors).all():
            row = int(np.argwhere(~np.isfinite(vectors))[0][0])
            raise CheckpointError(
                f"{source}: {name}: expected finite numbers, but vector {row} has others; take an "
                "earlier step."
            )
    return Prompts(found, config, checkpoint.base)


def export_prompt(
    source: str,
    target: str,
    overwrite: bool = False,
    which: str | None = None,
    base_name: str = "",
) -> None:
    """Writes the soft prompt of a checkpoint as a .npy file, or as a folder that PEFT reads.

    The base model need not be there. `prompts/from_npy.gin` starts another run from the file.

    Args:
      source: as for `read_prompts`.
      target: a file that ends in .npy, of float32 [length, embed], or PEFT's folder; it appears
        whole or not at all.
      overwrite: replace it.
      which: "encoder" or "decoder", needed where the checkpoint has both.
      base_name: what PEFT's folder calls the base model; "" = the path of the checkpoint's, where
        that is a Hugging Face folder.

    Raises:
      CheckpointError: on a source that cannot be read, or whose prompt has no such form.
      ConfigError: on a target that exists or cannot be written.
    """
    place = pathlib.Path(target).expanduser().absolute()
    _check_place(place, overwrite, source)
    prompts = read_prompts(source)
    name = _chosen(prompts, which, source)
    if _is_file(target):
        _write_npy(place, target, prompts.vectors[name])
        return
    _check_peft_form(prompts.config, name, source)
    vectors = prompts.vectors[name] * np.float32(embedding_scale(prompts.config))
    path = str((prompts.base or {}).get("path") or "")
    where = base_name or (path if path and hugging_face.is_huggingface(path) else "")
    with folder_written_whole(place) as beside:
        beside.mkdir(parents=True)
        write_peft_prompt(beside, vectors, prompts.config, where)


def import_prompt(
    source: str,
    target: str,
    base: str = "",
    overwrite: bool = False,
    which: str | None = None,
) -> None:
    """Makes a checkpoint of ours, or a .npy file, of a prompt in another form.

    Args:
      source: a folder that PEFT wrote, or a .npy file of floats [length, embed].
      target: the folder to write, which has the prompt and names its base model; or, for PEFT's, a
        file that ends in .npy. It appears whole or not at all.
      base: the checkpoint of the base model; "" = what PEFT's folder names, if that is a path.
      overwrite: replace the target.
      which: "encoder" or "decoder": where the prompt of a .npy file stands; None = in front of the
        input.

    Raises:
      InputError: on a .npy file that cannot be read.
      CheckpointError: on a folder that cannot be read, and a prompt that is not the base model's.
      ConfigError: on a target that exists or cannot be written.
    """
    place = pathlib.Path(target).expanduser().absolute()
    _check_place(place, overwrite, source, base)
    if _is_file(source):
        if _is_file(target):
            raise ConfigError(f"{target}: SOURCE is a .npy file already; name a folder.")
        found = PeftPrompt(read_npy(source), "", "")
    else:
        found = read_peft_prompt(source)
    where = base or found.base
    if not where:
        raise ConfigError(f"{source}: names no base model; say where it is with --base.")
    checkpoint = _open_base(where, source, given=bool(base))
    name = _place_of(checkpoint.config, which, found.task_type, source, where)
    vectors = found.vectors
    if vectors.shape[1] != checkpoint.config.emb_dim:
        raise CheckpointError(
            f"{source}: its vectors are {vectors.shape[1]} wide, but the model {where} expects "
            f"{checkpoint.config.emb_dim}; give the base model that the prompt was made for."
        )
    if not _is_file(source):
        vectors = vectors / np.float32(embedding_scale(checkpoint.config))
    if _is_file(target):
        _write_npy(place, target, vectors)
        return
    metadata = {"source": str(source), "format": "npy" if _is_file(source) else "peft"}
    with folder_written_whole(place) as beside:
        _write_checkpoint(beside, checkpoint, where, name, vectors, metadata)


def _write_checkpoint(
    folder: pathlib.Path,
    base: Checkpoint,
    where: str,
    name: str,
    vectors: np.ndarray,
    metadata: Mapping[str, Any],
) -> None:
    """Writes a prompt of ours, and the tokenizer of its base model, which is at `where`."""
    lengths = {f"{prompt}_length": len(vectors) if prompt == name else 0 for prompt in PROMPTS}
    described = setup.base_model(where, base)
    checkpoint = Checkpoint(
        base.config.replace(**lengths),
        {name: {"embedding": vectors}},
        metadata,
        base.family,
        {"path": described.path, "content_hash": described.content_hash},
    )
    write_native(checkpoint, folder)
    tokenizer = tokenizer_folder(base.metadata["source"])
    if tokenizer is not None:
        hugging_face.copy_companions(tokenizer, folder)


def _open_base(where: str, source: str, given: bool) -> Checkpoint:
    try:
        checkpoint = open_checkpoint(where)
    except CheckpointError as error:
        if given:
            raise
        raise CheckpointError(
            f"{source}: its base model cannot be opened ({error}) Say where it is with --base."
        ) from None
    setup.check_generates(checkpoint.config)
    return checkpoint


def _place_of(
    config: TransformerConfig, which: str | None, task_type: str, source: str, where: str
) -> str:
    """Returns the name among `PROMPTS` of a prompt in front of the input, or as it is asked for."""
    kind = DECODER_ONLY if config.is_decoder_only else ENCODER_DECODER
    if task_type and task_type != kind:
        raise CheckpointError(
            f"{source}: made for a model of the kind {task_type}, but {where} is {kind}."
        )
    in_front = "decoder" if config.is_decoder_only else "encoder"
    if which == "encoder" and config.is_decoder_only:
        raise ConfigError(f"--prompt=encoder: {where} has no encoder.")
    if which == "decoder" and task_type == ENCODER_DECODER:
        raise ConfigError("--prompt=decoder: PEFT's prompts stand in front of the encoder's input.")
    return f"{which or in_front}_prompt"


def _is_file(path: str) -> bool:
    return str(path).endswith(".npy")


def _check_place(place: pathlib.Path, overwrite: bool, *sources: str) -> None:
    """Refuses a target that must not be replaced, before any work."""
    if not _is_file(str(place)):
        for source in sources:
            check_target(source, place, overwrite)
    elif place.is_dir() or (place.exists() and not overwrite):
        raise ConfigError(f"{place}: exists already; give another TARGET, or --overwrite.")


def _chosen(prompts: Prompts, which: str | None, source: str) -> str:
    """Returns the name among `PROMPTS` that is asked for."""
    names = sorted(name.removesuffix("_prompt") for name in prompts.vectors)
    if which is None and len(names) > 1:
        raise ConfigError(f"{source}: has several soft prompts: give --prompt={'|'.join(names)}.")
    if which is not None and which not in names:
        raise ConfigError(
            f"--prompt={which}: {source} has none of this name; it has: {', '.join(names)}."
        )
    return f"{which or names[0]}_prompt"


def _check_peft_form(config: TransformerConfig, name: str, source: str) -> None:
    """Refuses prompts that PEFT has no place for."""
    if config.is_encoder_only or config.knowledge_attention:
        raise CheckpointError(
            f"{source}: PEFT knows no prompts of such a model; write a .npy file."
        )
    if name == "decoder_prompt" and not config.is_decoder_only:
        raise CheckpointError(
            f"{source}: PEFT knows no prompts in front of a decoder's input beside an encoder; "
            "write a .npy file."
        )


def _write_npy(place: pathlib.Path, target: str, vectors: np.ndarray) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(place) as beside, beside.open("wb") as file:
            np.save(file, np.asarray(vectors, np.float32), allow_pickle=False)
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written ({error.strerror or error}).") from None


def check_target(source: str, place: pathlib.Path, overwrite: bool) -> None:
    """Raises ConfigError for a target that `folder_written_whole` must not replace."""
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
