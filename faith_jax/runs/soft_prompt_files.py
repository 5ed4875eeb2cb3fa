"""The files of soft prompts: exported as .npy files or PEFT folders, and imported from them.

Training saves prompts in its checkpoints; see `training.checkpoints`.
"""

import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from faith_jax.checkpoints.checkpoint import PROMPTS, Checkpoint
from faith_jax.checkpoints.hugging_face import folder as hugging_face
from faith_jax.checkpoints.native import (
    is_native,
    read_native,
    write_native,
)
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.checkpoints.peft import (
    DECODER_ONLY,
    ENCODER_DECODER,
    PeftPrompt,
    embedding_scale,
    read_peft_prompt,
    supports_prompt,
    write_peft_prompt,
)
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import (
    atomic_file,
    output_lock,
    report_write_errors,
)
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.models.config import TransformerConfig
from faith_jax.models.soft_prompt import read_npy
from faith_jax.runs import setup
from faith_jax.runs.convert import free_place, is_npy_file, new_checkpoint
from faith_jax.tokenizers.vocabularies import tokenizer_folder


class Prompts(NamedTuple):
    """The soft prompts of a checkpoint."""

    vectors: dict[str, np.ndarray]  # float32 [length, embed] by their names among `PROMPTS`
    config: TransformerConfig  # of the model with the prompts
    base: Mapping[str, str] | None  # base model's path and content_hash; None = model is included


def read_prompts(source: str) -> Prompts:
    """Reads the soft prompts of a checkpoint, without its base model if they are stored alone.

    Raises:
      CheckpointError: the source has no prompt, or a broken one.
    """
    path = path_of(source)
    checkpoint = read_native(path) if is_native(path) else None
    if checkpoint is None or not any(name in checkpoint.params for name in PROMPTS):
        checkpoint = open_checkpoint(source)
    params, config = checkpoint.params, checkpoint.config
    vectors_by_name = {
        n: np.asarray(params[n]["embedding"], np.float32) for n in PROMPTS if n in params
    }
    problem = ""
    if not vectors_by_name:
        problem = "no soft prompt; give a prompt-tuned MODEL_DIR or one of its steps"
    for name, vectors in vectors_by_name.items():
        width = config.embedding_width if name == "encoder_prompt" else config.emb_dim
        expected = (getattr(config, f"{name}_length"), width)
        if vectors.shape != expected:
            problem = f"{name} of the shape {vectors.shape}, but model.json says {expected}"
        elif not np.isfinite(vectors).all():
            row = np.argwhere(~np.isfinite(vectors))[0][0]
            problem = f"no finite numbers in {name}, vector {row}; take an earlier step"
    if problem:
        raise CheckpointError(f"{source}: has {problem}.")
    return Prompts(vectors_by_name, config, checkpoint.base)


def export_prompt(
    source: str, target: str, overwrite: bool = False, which: str | None = None, base_name: str = ""
) -> None:
    """Writes a soft prompt as a .npy file, float32 [length, embed], or as a PEFT folder.

    The base model need not exist. The target appears whole or not at all. A checkpoint with both
    prompts needs `which`: "encoder" or "decoder". The PEFT folder calls the base model `base_name`;
    "" = its path, if that is a Hugging Face folder.
    """
    place = free_place(target, overwrite, source)
    prompts = read_prompts(source)
    config, names = prompts.config, sorted(n.removesuffix("_prompt") for n in prompts.vectors)
    if (which is None and len(names) > 1) or (which and which not in names):
        raise ConfigError(f"{source}: give --prompt={'|'.join(names)}, of which it has prompts.")
    name = f"{which or names[0]}_prompt"
    vectors = prompts.vectors[name]
    if is_npy_file(target):
        _write_npy(place, vectors)
        return
    if not supports_prompt(name, config):
        raise CheckpointError(
            f"{source}: PEFT knows no prompts of encoders and DoHAs, and none in front of a "
            "decoder's input beside an encoder; write a .npy file."
        )
    path = str((prompts.base or {}).get("path") or "")
    where = base_name or (path if path and hugging_face.is_huggingface(path) else "")
    with new_checkpoint(place, overwrite) as beside:
        beside.mkdir(parents=True)
        write_peft_prompt(beside, vectors * np.float32(embedding_scale(config)), config, where)


def import_prompt(
    source: str, target: str, base: str = "", overwrite: bool = False, which: str | None = None
) -> None:
    """Converts a prompt in another format to our own checkpoint format, or to a .npy file.

    The source is a PEFT folder, or a .npy file of floats [length, embed]. The target is a folder
    with the prompt and the name of its base model, or, from a PEFT folder, a .npy file; it appears
    whole or not at all. `base` is the base model; "" = the one that the PEFT folder names. `which`
    says where the prompt of a .npy file goes: "encoder", "decoder", or None = before the input.
    """
    place = free_place(target, overwrite, source, base)
    is_npy, path = is_npy_file(source), path_of(source)
    if not is_npy and path.is_file():  # the prompt-tuning library writes .npy files without ending
        with path.open("rb") as file:
            is_npy = file.read(6) == np.lib.format.MAGIC_PREFIX
    if is_npy and is_npy_file(target):
        raise ConfigError(f"{target}: SOURCE is a .npy file already; name a folder.")
    prompt_file = PeftPrompt(read_npy(source), "", "") if is_npy else read_peft_prompt(source)
    where = base or prompt_file.base
    if not where:
        raise ConfigError(f"{source}: names no base model; say where it is with --base.")
    try:
        checkpoint = open_checkpoint(where)
    except CheckpointError as error:
        raise CheckpointError(
            f"{source}: its base model cannot be opened ({error}) Say where it is with --base."
        ) from None
    setup.check_generates(checkpoint.config)
    name = _prompt_name(checkpoint.config, which, prompt_file.task_type, where)
    vectors = prompt_file.vectors
    if vectors.shape[1] != checkpoint.config.emb_dim:
        raise CheckpointError(
            f"{source}: its vectors are {vectors.shape[1]} wide, but the model {where} expects "
            f"{checkpoint.config.emb_dim}; give the base model that the prompt was made for."
        )
    if not is_npy:
        vectors = vectors / np.float32(embedding_scale(checkpoint.config))
    if is_npy_file(target):
        _write_npy(place, vectors)
        return
    lengths = {f"{prompt}_length": len(vectors) if prompt == name else 0 for prompt in PROMPTS}
    prompted = Checkpoint(
        checkpoint.config.replace(**lengths),
        {name: {"embedding": vectors}},
        {"source": str(source), "format": "npy" if is_npy else "peft"},
        checkpoint.family,
        setup.base_model(where, checkpoint).describe(),
    )
    tokenizer = tokenizer_folder(checkpoint.metadata["source"])
    with new_checkpoint(place, overwrite) as beside:
        write_native(prompted, beside)
        if tokenizer is not None:
            hugging_face.copy_companions(tokenizer, beside)


def _prompt_name(config: TransformerConfig, side: str | None, task_type: str, where: str) -> str:
    """Returns the name among `PROMPTS` of a prompt for a side; by default, of the input's side."""
    in_front, kind = "encoder", ENCODER_DECODER
    if config.is_decoder_only:
        in_front, kind = "decoder", DECODER_ONLY
    problem = ""
    if task_type not in ("", kind):
        problem = f"the prompt is of a model of the kind {task_type}, but {where} is {kind}"
    elif side == "encoder" and config.is_decoder_only:
        problem = f"--prompt=encoder: {where} has no encoder"
    elif side == "decoder" and task_type == ENCODER_DECODER:
        problem = "--prompt=decoder: PEFT's prompts stand in front of the encoder's input"
    if problem:
        raise ConfigError(f"{problem}.")
    return f"{side or in_front}_prompt"


def _write_npy(place: pathlib.Path, vectors: np.ndarray) -> None:
    with report_write_errors(f"TARGET: {place}"):
        if not is_remote(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        with (
            output_lock(place, option="TARGET"),
            atomic_file(place) as beside,
            beside.open("wb") as file,
        ):
            np.save(file, np.asarray(vectors, np.float32), allow_pickle=False)
