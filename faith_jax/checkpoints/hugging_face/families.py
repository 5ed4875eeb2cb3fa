"""All model families, and the look-up of a model's family."""

from faith_jax.checkpoints.hugging_face.albert import ALBERT
from faith_jax.checkpoints.hugging_face.bart import BART
from faith_jax.checkpoints.hugging_face.bert import (
    BERT,
    DISTILBERT,
    DPR_CONTEXT,
    DPR_QUESTION,
    ELECTRA,
    ROBERTA,
    XLM_ROBERTA,
)
from faith_jax.checkpoints.hugging_face.bloom import BLOOM
from faith_jax.checkpoints.hugging_face.deberta import DEBERTA, DEBERTA_V1
from faith_jax.checkpoints.hugging_face.family import ConfigFields, Family
from faith_jax.checkpoints.hugging_face.gpt2 import GPT2
from faith_jax.checkpoints.hugging_face.hhem import HHEM
from faith_jax.checkpoints.hugging_face.llama import (
    GEMMA,
    GEMMA2,
    GEMMA3,
    LLAMA,
    MISTRAL,
    QWEN2,
    QWEN3,
    SEES_IMAGES,
)
from faith_jax.checkpoints.hugging_face.modernbert import MODERNBERT
from faith_jax.checkpoints.hugging_face.t5 import MT5, MT5_CLASSIFIER, T5, T5_CLASSIFIER, UMT5
from faith_jax.checkpoints.hugging_face.t5gemma import T5GEMMA
from faith_jax.models.config import TransformerConfig

_ALL = (
    *(T5_CLASSIFIER, MT5_CLASSIFIER, T5, MT5, UMT5),
    *(BART, GPT2, BLOOM, GEMMA, GEMMA2, GEMMA3, LLAMA, MISTRAL, QWEN2, QWEN3),
    *(ALBERT, BERT, DPR_CONTEXT, DPR_QUESTION, ELECTRA, DISTILBERT, ROBERTA, XLM_ROBERTA),
    *(DEBERTA, DEBERTA_V1, HHEM, MODERNBERT, T5GEMMA),
)
FAMILIES = {family.key: family for family in _ALL}


def family_of_fields(fields: ConfigFields) -> Family:
    """Returns the family of a config.json, by its `model_type` and `architectures`."""
    of_type = [family for family in _ALL if family.model_type == fields.fields.get("model_type")]
    if not of_type:
        choices = sorted({SEES_IMAGES, *(family.model_type for family in _ALL)})
        raise fields.error("model_type", f"one of {choices}; other families are not supported")
    matching = [f for f in of_type if f.kind in str(fields.fields.get("architectures"))]
    if not matching:
        choices = [family.architecture for family in of_type]
        raise fields.error("architectures", f"one of {choices}; others are not supported")
    return matching[0]


def family_of_config(config: TransformerConfig, family: str = "") -> Family | None:
    """Returns the family that a model's config fits; None for a mixture of several.

    If the config fits several families (a Mistral without a window is a Llama too), `family`, that
    of the checkpoint that the model started from, takes precedence.
    """
    former = FAMILIES.get(family)
    if former is not None and former.matches(config):
        return former
    return next((family for family in _ALL if family.matches(config)), None)


def family_name(config: TransformerConfig, family: str = "") -> str:
    """Returns the key of a model's family; "doha" with knowledge attention, "other" if unknown."""
    if config.knowledge_attention:
        return "doha"
    match = family_of_config(config, family)
    return match.key if match else "other"
