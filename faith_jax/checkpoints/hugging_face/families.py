"""All model families, and which of them a model is of."""

from typing import Any

from faith_jax.checkpoints.hugging_face.bart import BART
from faith_jax.checkpoints.hugging_face.bloom import BLOOM
from faith_jax.checkpoints.hugging_face.deberta import DEBERTA
from faith_jax.checkpoints.hugging_face.family import Family
from faith_jax.checkpoints.hugging_face.gpt2 import GPT2
from faith_jax.checkpoints.hugging_face.llama import GEMMA, GEMMA2, LLAMA, MISTRAL
from faith_jax.checkpoints.hugging_face.roberta import ROBERTA, XLM_ROBERTA
from faith_jax.checkpoints.hugging_face.t5 import MT5, T5
from faith_jax.models.config import TransformerConfig

FAMILIES = (
    T5,
    MT5,
    BART,
    GPT2,
    BLOOM,
    GEMMA,
    GEMMA2,
    LLAMA,
    MISTRAL,
    ROBERTA,
    XLM_ROBERTA,
    DEBERTA,
)


def model_types() -> list[str]:
    """Returns the values of config.json's `model_type` that are supported."""
    return sorted(family.model_type for family in FAMILIES)


def family_of_type(model_type: Any) -> Family | None:
    """Returns the family of a `model_type`, None where it is not supported."""
    return next((family for family in FAMILIES if family.model_type == model_type), None)


def family_of_config(config: TransformerConfig, model_type: str = "") -> Family | None:
    """Returns the family whose form a model of ours has, None for a mixture of several.

    Args:
      config: the model's.
      model_type: of the checkpoint that it began with, "" = none. It decides where the config fits
        several families: a Mistral without a window is a Llama too.
    """
    found = [family for family in FAMILIES if family.matches(config)]
    former = [family for family in found if family.model_type == model_type]
    return next(iter(former or found), None)


def family_name(config: TransformerConfig, model_type: str = "") -> str:
    """Returns the `model_type` of a model of ours; see `family_of_config`.

    Returns:
      Also "doha" for a model with knowledge attention, and "other" for a mixture.
    """
    if config.knowledge_attention:
        return "doha"
    family = family_of_config(config, model_type)
    return family.model_type if family else "other"
