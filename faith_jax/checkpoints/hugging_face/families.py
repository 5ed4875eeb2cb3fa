"""All model families, by name and by the models that are theirs."""

from faith_jax.checkpoints.hugging_face.bart import BART
from faith_jax.checkpoints.hugging_face.bloom import BLOOM
from faith_jax.checkpoints.hugging_face.deberta import DEBERTA
from faith_jax.checkpoints.hugging_face.family import Family
from faith_jax.checkpoints.hugging_face.gpt2 import GPT2
from faith_jax.checkpoints.hugging_face.llama import GEMMA, GEMMA2, LLAMA, MISTRAL
from faith_jax.checkpoints.hugging_face.roberta import ROBERTA, XLM_ROBERTA
from faith_jax.checkpoints.hugging_face.t5 import MT5, T5
from faith_jax.models.config import TransformerConfig

_ALL = (T5, MT5, BART, GPT2, BLOOM, GEMMA, GEMMA2, LLAMA, MISTRAL, ROBERTA, XLM_ROBERTA, DEBERTA)
# By config.json's `model_type`.
FAMILIES = {family.model_type: family for family in _ALL}


def family_of_config(config: TransformerConfig, model_type: str = "") -> Family | None:
    """Returns the family whose form a model has, None for a mixture of several.

    Args:
      config: of the model.
      model_type: of the checkpoint that it began with, "" = none. It decides if the config fits
        several families: a Mistral without a window is a Llama too.
    """
    former = FAMILIES.get(model_type)
    if former is not None and former.matches(config):
        return former
    return next((family for family in _ALL if family.matches(config)), None)


def family_name(config: TransformerConfig, model_type: str = "") -> str:
    """Returns the `model_type` of a model, "doha" with knowledge attention, "other" = unknown."""
    if config.knowledge_attention:
        return "doha"
    family = family_of_config(config, model_type)
    return family.model_type if family else "other"
