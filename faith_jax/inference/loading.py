"""Opens a checkpoint of any family as a model."""

import os

from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError
from faith_jax.inference.causal import CausalModel
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel

Model = EncoderDecoderModel | CausalModel | EncoderModel


def load_model(
    path: str | os.PathLike[str], *, dtype: str | None = None, base: str | None = None
) -> Model:
    """Opens a checkpoint of any known form.

    Args:
      path: a Hugging Face folder (config.json and safetensors), a T5X checkpoint (its dimensions
        are read from its parameter shapes), one of ours (an imported checkpoint, or the MODEL_DIR
        of a training run), or the name of an embedded model.
      dtype: "float32" or "bfloat16" activations; default: the checkpoint's.
      base: for a prompt-tuned checkpoint, where its base model is, if it has moved.

    Returns:
      A `EncoderDecoderModel` (encoder-decoder: T5, BART), a `CausalModel` (decoder-only: GPT-2,
      BLOOM, Gemma, Llama, Mistral) or an `EncoderModel` (RoBERTa, DeBERTa-v3).

    Raises:
      CheckpointError: on a checkpoint that is missing, foreign, truncated or mis-shaped, naming
        the parameter; and on what is no path.
      ConfigError: on another dtype.
    """
    if not path or not isinstance(path, str | os.PathLike):
        raise CheckpointError(
            f"load_model: expected the path of a checkpoint, or the name of a model, got {path!r}."
        )
    checkpoint = open_checkpoint(os.fspath(path), base=base)
    config = checkpoint.config if dtype is None else checkpoint.config.replace(dtype=dtype)
    if config.is_decoder_only:
        return CausalModel(config, checkpoint.params)
    if config.is_encoder_only:
        return EncoderModel(config, checkpoint.params)
    return EncoderDecoderModel(config, checkpoint.params)
