"""Soft prompts as Hugging Face's PEFT keeps them: adapter_config.json beside a safetensors file.

PEFT puts the vectors in front of the input's embeddings: an encoder-decoder model's encoder, a
decoder-only model's one sequence. For an encoder-decoder model it stores as many vectors again for
the decoder (`num_transformer_submodules` 2), which no computation of its prompt tuning uses: they
are not read, and what is written here has none.
"""

import dataclasses
import json
import math
import pathlib

import numpy as np

from faith_jax.checkpoints import tensors
from faith_jax.checkpoints.hugging_face.family import ConfigFields
from faith_jax.core.errors import CheckpointError
from faith_jax.models.config import TransformerConfig

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
TENSOR = "prompt_embeddings"
PEFT_TYPE = "PROMPT_TUNING"
ENCODER_DECODER, DECODER_ONLY = "SEQ_2_SEQ_LM", "CAUSAL_LM"
_PICKLE = "adapter_model.bin"


@dataclasses.dataclass(frozen=True)
class PeftPrompt:
    """A soft prompt as it was read.

    Attributes:
      vectors: float32 [length, embed], in the units of PEFT: of the embedding module's output.
      task_type: `ENCODER_DECODER`, `DECODER_ONLY`, or "" where the folder does not say it.
      base: the base model's name or path, "" where the folder does not say it.
    """

    vectors: np.ndarray
    task_type: str
    base: str


def is_peft(path: str | pathlib.Path) -> bool:
    """Whether `path` is a folder of PEFT's, of whatever method."""
    return (pathlib.Path(path) / CONFIG).is_file()


def read_peft_prompt(path: str | pathlib.Path) -> PeftPrompt:
    """Reads the prompt of a folder that PEFT wrote.

    Raises:
      CheckpointError: there is none, it is an adapter of another method, or its files are broken or
        do not agree.
    """
    folder = pathlib.Path(path).expanduser()
    if not is_peft(folder):
        raise CheckpointError(f"{folder}: no folder of PEFT's: expected {CONFIG} and {WEIGHTS}.")
    fields = ConfigFields(tensors.read_json(folder / CONFIG), folder / CONFIG)
    fields.require("peft_type", None, PEFT_TYPE)
    fields.require("task_type", "", ENCODER_DECODER, DECODER_ONLY, "")
    task_type = fields.fields.get("task_type") or ""
    length, width = (fields.get(name, default=0) for name in ("num_virtual_tokens", "token_dim"))
    # How many times the vectors are stored, which PEFT may leave open.
    name, times = "num_transformer_submodules", 2 if task_type == ENCODER_DECODER else 1
    fields.require(name, times, *((1,) if task_type == DECODER_ONLY else (1, 2)))
    times = fields.get(name, default=times)
    vectors = _read_vectors(folder, (length * times, width))
    base = fields.fields.get("base_model_name_or_path") or ""
    return PeftPrompt(vectors[:length], task_type, base)


def write_peft_prompt(
    folder: str | pathlib.Path, vectors: np.ndarray, config: TransformerConfig, base: str = ""
) -> None:
    """Writes a prompt into a folder, as PEFT does.

    Args:
      folder: an existing one.
      vectors: float32 [length, embed], in the units of PEFT.
      config: of the model that the prompt belongs to.
      base: its name or path, as Transformers would open it; "" = unsaid.
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
        "peft_type": PEFT_TYPE,
        "prompt_tuning_init": "RANDOM",
        "prompt_tuning_init_text": None,
        "revision": None,
        "task_type": DECODER_ONLY if config.is_decoder_only else ENCODER_DECODER,
        "token_dim": width,
        "tokenizer_name_or_path": None,
    }
    folder = pathlib.Path(folder)
    (folder / CONFIG).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    stored = {TENSOR: np.asarray(vectors, np.float32)}
    tensors.write_tensor_file(folder / WEIGHTS, stored, {"format": "pt"})


def embedding_scale(config: TransformerConfig) -> float:
    """Returns what a prompt of ours is multiplied by to be one of PEFT's.

    Our prompts stand beside embeddings that a model with `scale_embeddings` multiplies by
    sqrt(emb_dim) thereafter. Transformers' embedding modules do so themselves, before PEFT puts
    its vectors beside their output.
    """
    return math.sqrt(config.emb_dim) if config.scale_embeddings else 1.0


def _read_vectors(folder: pathlib.Path, shape: tuple[int, int]) -> np.ndarray:
    path = folder / WEIGHTS
    tensors.check_not_pickled(folder, _PICKLE)
    stored, _ = tensors.read_header(path)
    if list(stored) != [TENSOR]:
        raise CheckpointError(f"{path}: expected the tensor {TENSOR} alone, got {sorted(stored)}.")
    found = stored[TENSOR]
    if found.shape != shape or 0 in shape:
        raise CheckpointError(
            f"{path}: the tensor {TENSOR} has the shape {found.shape}, but {CONFIG} says {shape}."
        )
    vectors = found.read_floats().astype(np.float32)
    if not np.isfinite(vectors).all():
        row = int(np.argwhere(~np.isfinite(vectors))[0][0])
        raise CheckpointError(f"{path}: expected finite numbers, but vector {row} has others.")
    return vectors
