"""The runs that convert checkpoints and soft prompts, and `write-manifest`.

Prompts are .npy files, PEFT folders, and checkpoints in our own format.
"""

import contextlib
import dataclasses
import json
import logging
import pathlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import jax
import ml_dtypes
import numpy as np

from faith_jax.checkpoints.checkpoint import PROMPTS, Checkpoint, flatten
from faith_jax.checkpoints.hugging_face import folder as hugging_face
from faith_jax.checkpoints.lora import read_lora
from faith_jax.checkpoints.manifest import MANIFEST, check_finite, tensor_digests, write_manifest
from faith_jax.checkpoints.native import (
    is_native,
    read_model_json,
    read_native,
    run_folder,
    write_native,
)
from faith_jax.checkpoints.open import is_checkpoint, open_checkpoint, stored_tensors
from faith_jax.checkpoints.peft import (
    DECODER_ONLY,
    ENCODER_DECODER,
    PeftPrompt,
    adapter_message,
    embedding_scale,
    is_peft,
    method_of,
    read_peft_prompt,
    write_peft_prompt,
)
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import (
    atomic_file,
    atomic_folder,
    check_space,
    defer_interrupts,
    is_finished,
    output_lock,
    report_write_errors,
)
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.rows import read_json
from faith_jax.models.config import TransformerConfig
from faith_jax.models.soft_prompt import read_npy
from faith_jax.runs import setup
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
            if _peft_has(name, model.config):
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
    place = _free_place(target, overwrite, source)
    prompts = read_prompts(source)
    config, names = prompts.config, sorted(n.removesuffix("_prompt") for n in prompts.vectors)
    if (which is None and len(names) > 1) or (which and which not in names):
        raise ConfigError(f"{source}: give --prompt={'|'.join(names)}, of which it has prompts.")
    name = f"{which or names[0]}_prompt"
    vectors = prompts.vectors[name]
    if _is_npy_file(target):
        _write_npy(place, vectors)
        return
    if not _peft_has(name, config):
        raise CheckpointError(
            f"{source}: PEFT knows no prompts of encoders and DoHAs, and none in front of a "
            "decoder's input beside an encoder; write a .npy file."
        )
    path = str((prompts.base or {}).get("path") or "")
    where = base_name or (path if path and hugging_face.is_huggingface(path) else "")
    with _new_checkpoint(place, overwrite) as beside:
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
    place = _free_place(target, overwrite, source, base)
    is_npy, path = _is_npy_file(source), path_of(source)
    if not is_npy and path.is_file():  # the prompt-tuning library writes .npy files without ending
        with path.open("rb") as file:
            is_npy = file.read(6) == np.lib.format.MAGIC_PREFIX
    if is_npy and _is_npy_file(target):
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
    if _is_npy_file(target):
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
    with _new_checkpoint(place, overwrite) as beside:
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


def _peft_has(name: str, config: TransformerConfig) -> bool:
    """Whether PEFT supports a prompt of this name in this model."""
    is_before_decoder = name == "decoder_prompt" and not config.is_decoder_only
    return not (is_before_decoder or config.is_encoder_only or config.knowledge_attention)


def _convert_checkpoint(
    source: str,
    target: str,
    overwrite: bool,
    write: Callable[[Checkpoint, pathlib.Path], None],
    base: str = "",
) -> None:
    place = _free_place(target, overwrite, source, base)
    checkpoint = open_checkpoint(source, base=base or None).read()
    # The folder of an adapter may lack a tokenizer.
    tokenizer = tokenizer_folder(source) or (tokenizer_folder(base) if base else None)
    check_space(place, _ROOM + sum(leaf.nbytes for leaf in jax.tree.leaves(checkpoint.params)))
    with _new_checkpoint(place, overwrite) as beside:
        write(checkpoint, beside)
        for folder in (tokenizer, checkpoint.metadata["source"]):
            if folder is not None:
                hugging_face.copy_companions(folder, beside)


def _is_npy_file(path: str | pathlib.Path) -> bool:
    return str(path).endswith(".npy")


def _free_place(target: str, overwrite: bool, *sources: str) -> pathlib.Path:
    """Returns the path of a target; raises ConfigError, before any work, if it is not free."""
    place = path_of(target).absolute()
    read = [path_of(source).resolve() for source in sources if source]
    problem = ""
    if is_finished(place) and (not overwrite or (_is_npy_file(place) and place.is_dir())):
        problem = "exists already; give another TARGET, or --overwrite"
    elif place.exists() and not _is_npy_file(place):
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
def _new_checkpoint(place: pathlib.Path, overwrite: bool) -> Iterator[pathlib.Path]:
    """Yields a folder to write a checkpoint to; it is moved to `place` at the end."""
    with (
        atomic_folder(place, "a checkpoint", overwrite, "TARGET") as beside,
        report_write_errors(f"TARGET: {place}"),
        defer_interrupts(),
    ):
        yield beside
