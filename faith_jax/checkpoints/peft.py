"""Soft prompts in the form of Hugging Face's PEFT: adapter_config.json and a safetensors file.

PEFT puts the vectors before the embeddings of the encoder, or of a decoder-only model's sequence.
For an encoder-decoder model, it stores as many vectors again for the decoder
(`num_transformer_submodules` 2), which its prompt tuning never uses: we do not read or write them.
P-tuning, where an encoder makes the vectors during training, is stored the same way.
"""

import dataclasses
import json
import math
import pathlib
import shlex
from typing import Literal

import msgspec
import numpy as np

from faith_jax.checkpoints import tensors
from faith_jax.checkpoints.contents import describe_contents
from faith_jax.core.errors import CheckpointError, format_value
from faith_jax.core.files.stores import path_of
from faith_jax.core.rows import read_json
from faith_jax.core.schema import read_json_as
from faith_jax.models.config import TransformerConfig

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_TENSOR = "prompt_embeddings"
ENCODER_DECODER, DECODER_ONLY = "SEQ_2_SEQ_LM", "CAUSAL_LM"


class _AdapterConfig(msgspec.Struct):
    """adapter_config.json; the number of times the vectors are stored may be missing."""

    peft_type: Literal["PROMPT_TUNING", "P_TUNING"]
    num_virtual_tokens: int
    token_dim: int
    task_type: Literal["SEQ_2_SEQ_LM", "CAUSAL_LM", ""] = ""
    num_transformer_submodules: Literal[1, 2] | None = None
    base_model_name_or_path: str = ""


@dataclasses.dataclass(frozen=True)
class PeftPrompt:
    """A soft prompt in PEFT's form.

    Attributes:
      vectors: float32 [length, embed], in PEFT's units, those of the embedding module's output.
      task_type: `ENCODER_DECODER`, `DECODER_ONLY`, or "" if unknown.
      base: the base model's name or path; "" if unknown.
    """

    vectors: np.ndarray
    task_type: str
    base: str


def is_peft(path: str | pathlib.Path) -> bool:
    """Whether `path` is a PEFT folder, of any method."""
    return (path_of(path) / CONFIG).is_file()


def method_of(folder: pathlib.Path) -> str:
    """Returns an adapter's `peft_type`, such as "LORA"; "" if it is not a text."""
    method = read_json(folder / CONFIG, CheckpointError).get("peft_type")
    return method if isinstance(method, str) else ""


def adapter_message(folder: pathlib.Path) -> str:
    """Returns the message that a folder is an adapter, and how to make a model from it."""
    method = method_of(folder)
    match method:
        case "PROMPT_TUNING" | "P_TUNING":
            remedy = "`faith-jax import-prompt` joins a prompt to its base model"
        case "LORA":
            remedy = (
                f"`faith-jax import-checkpoint {shlex.quote(str(folder))} TARGET --base=BASE` "
                "merges it with its base"
            )
        case "ADAPTION_PROMPT" | "CPT" | "MULTITASK_PROMPT_TUNING" | "PREFIX_TUNING":
            remedy = (
                "this method is not read, and PEFT cannot merge it, as it changes no weights; use "
                "the adapter with PEFT"
            )
        case _:
            remedy = (
                "this method is not read; if PEFT can merge it, "
                "PeftModel.merge_and_unload().save_pretrained(FOLDER) makes a whole model"
            )
    named = f" ('peft_type': {format_value(method)})" if method else " (without 'peft_type')"
    return f"an adapter of PEFT's{named}, no whole model; {remedy}."


def adapter_tensors(folder: pathlib.Path) -> dict[str, tensors.StoredTensor]:
    """Returns the tensors of an adapter; raises a CheckpointError if there are none."""
    if not (folder / WEIGHTS).is_file():
        raise CheckpointError(
            f"{folder}: {WEIGHTS}: no such file, but {describe_contents(folder)}."
        )
    return tensors.read_header(folder / WEIGHTS)[0]


def read_peft_prompt(path: str | pathlib.Path) -> PeftPrompt:
    """Reads the prompt of a folder that PEFT wrote.

    Raises:
      CheckpointError: if there is none, it is an adapter of another method, or its files are broken
        or inconsistent.
    """
    folder = path_of(path)
    if not is_peft(folder):
        raise CheckpointError(f"{folder}: no folder of PEFT's: expected {CONFIG} and {WEIGHTS}.")
    if method_of(folder) not in ("PROMPT_TUNING", "P_TUNING"):
        raise CheckpointError(f"{folder}: {adapter_message(folder)}")
    adapter = read_json_as(folder / CONFIG, _AdapterConfig, CheckpointError)
    times = adapter.num_transformer_submodules or (2 if adapter.task_type == ENCODER_DECODER else 1)
    length = adapter.num_virtual_tokens
    shape = (length * times, adapter.token_dim)
    stored = adapter_tensors(folder)
    if list(stored) != [_TENSOR]:
        problem = f"expected the tensor {_TENSOR} alone, got {sorted(stored)}"
    elif (tensor := stored[_TENSOR]).shape != shape or 0 in shape:
        problem = f"the tensor {_TENSOR} has the shape {tensor.shape}, but {CONFIG} says {shape}"
    else:
        vectors = np.asarray(tensor.floats(), np.float32)
        broken = np.argwhere(~np.isfinite(vectors))
        if not broken.size:
            return PeftPrompt(vectors[:length], adapter.task_type, adapter.base_model_name_or_path)
        problem = f"expected finite numbers, but vector {broken[0][0]} has others"
    raise CheckpointError(f"{folder / WEIGHTS}: {problem}.")


def write_peft_prompt(
    folder: str | pathlib.Path, vectors: np.ndarray, config: TransformerConfig, base: str = ""
) -> None:
    """Writes a prompt into an existing folder, as PEFT does.

    Args:
      folder: the prompt's folder.
      vectors: float32 [length, embed], in PEFT's units.
      config: the config of the prompt's model.
      base: the model's name or path, as Transformers would open it; "" = unknown.
    """
    length, width = vectors.shape
    fields = {
        "auto_mapping": None,
        "base_model_name_or_path": base or None,
        "inference_mode": True,
        "modules_to_save": None,
        "num_attention_heads": config.num_heads,
        "num_layers": config.num_encoder_layers or config.num_decoder_layers,
        "num_transformer_submodules": 1,
        "num_virtual_tokens": length,
        "peft_type": "PROMPT_TUNING",
        "prompt_tuning_init": "RANDOM",
        "prompt_tuning_init_text": None,
        "revision": None,
        "task_type": DECODER_ONLY if config.is_decoder_only else ENCODER_DECODER,
        "token_dim": width,
        "tokenizer_name_or_path": None,
    }
    folder = path_of(folder)
    (folder / CONFIG).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    stored = {_TENSOR: np.asarray(vectors, np.float32)}
    tensors.write_tensor_file(folder / WEIGHTS, stored, {"format": "pt"})


def embedding_scale(config: TransformerConfig) -> float:
    """Returns the factor from our prompts to PEFT's.

    A model with `scale_embeddings` multiplies embeddings by sqrt(emb_dim): ours after prepending
    the prompt, Transformers' before PEFT prepends its vectors.
    """
    return math.sqrt(config.emb_dim) if config.scale_embeddings else 1.0


def supports_prompt(name: str, config: TransformerConfig) -> bool:
    """Whether PEFT supports a prompt of this name in this model."""
    is_before_decoder = name == "decoder_prompt" and not config.is_decoder_only
    return not (is_before_decoder or config.is_encoder_only or config.knowledge_attention)
