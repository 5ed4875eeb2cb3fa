"""RoBERTa and XLM-RoBERTa: encoder-only, learned positions, norms behind the residual sums."""

from collections.abc import Sequence
from typing import Any

from faith_jax.checkpoints.hugging_face.family import LAYER_NORM, ConfigFields, Family, attention
from faith_jax.models.config import TransformerConfig

# What RoBERTa and DeBERTa have alike.
BERT_FIELDS: dict[str, tuple[Any, ...]] = {
    "emb_dim": (768, "hidden_size"),
    "num_heads": (12, "num_attention_heads"),
    "num_encoder_layers": (12, "num_hidden_layers"),
    "mlp_dim": (3072, "intermediate_size"),
    "mlp_activations": ("gelu", "hidden_act"),
    "dropout_rate": (0.1, "hidden_dropout_prob"),
    "attention_dropout_rate": (0.1, "attention_probs_dropout_prob"),
}
BERT_CONSTANTS = LAYER_NORM | {
    "num_decoder_layers": 0,
    "norm_position": "post",
    "embedding_norm": True,
}


def write_labels(config: TransformerConfig) -> dict[str, Any]:
    """Returns the fields of the classes' names."""
    labels = dict(enumerate(config.label_names))
    return {
        "id2label": {str(i): name for i, name in labels.items()},
        "label2id": {name: i for i, name in labels.items()},
    }


def bert_layer(names: Sequence[str]) -> dict[str, str]:
    """Returns the modules of a layer; `names` are the query's, key's and value's."""
    return attention("attention", "attention", [*(f"self.{n}" for n in names), "output.dense"]) | {
        "attention.output.LayerNorm": "post_attention_layer_norm",
        "intermediate.dense": "mlp/wi",
        "output.dense": "mlp/wo",
        "output.LayerNorm": "post_mlp_layer_norm",
    }


def read(fields: ConfigFields, said: dict[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    fields.require("position_embedding_type", "absolute", "absolute")
    fields.require("is_decoder", False, False)
    pad = fields.padding(1)
    rate = fields.fields.get("classifier_dropout")
    rate = None if rate is None else fields.get("classifier_dropout", default=0.0)
    return {
        "label_names": fields.labels(),
        "classifier_dropout_rate": rate,
        "max_positions": fields.get("max_position_embeddings", default=512) - pad - 1,
        "position_offset": pad + 1,
        "attention_scale": said["head_dim"] ** -0.5,
        "pad_id": pad,
        "eos_ids": fields.tokens("eos_token_id", 2),
    }


def write(config: TransformerConfig) -> dict[str, Any]:
    """See `Family`."""
    return write_labels(config) | {
        "bos_token_id": 0,
        "classifier_dropout": config.classifier_dropout_rate,
        "max_position_embeddings": config.max_positions + config.position_offset,
    }


def _family(name: str, architecture: str) -> Family:
    return Family(
        name=name,
        model_type=name.lower(),
        architecture=architecture,
        matches=lambda c: c.is_encoder_only and c.positions == "learned",
        fields=BERT_FIELDS
        | {
            "vocab_size": (50265, "vocab_size"),
            "layer_norm_epsilon": (1e-12, "layer_norm_eps"),
            "num_token_types": (2, "type_vocab_size"),
        },
        constants=BERT_CONSTANTS | {"positions": "learned"},
        read=read,
        write=write,
        modules={
            "roberta.embeddings.word_embeddings": "token_embedder",
            "roberta.embeddings.position_embeddings": "encoder/position_embedder",
            "roberta.embeddings.token_type_embeddings": "encoder/token_type_embedder",
            "roberta.embeddings.LayerNorm": "encoder/embedding_norm",
            "classifier.dense": "classifier/dense",
            "classifier.out_proj": "classifier/out",
        },
        layers={("roberta.encoder.layer", "encoder/layers"): bert_layer(("query", "key", "value"))},
        prefix="roberta.",
        unused=(
            r"embeddings\.(position_ids|token_type_ids)|pooler\.dense\.(weight|bias)|lm_head\..*"
        ),
    )


ROBERTA = _family("RoBERTa", "Roberta")
XLM_ROBERTA = _family("XLM-RoBERTa", "XLMRoberta")
