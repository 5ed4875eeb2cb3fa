"""ALBERT: BERT with narrow embeddings and one layer's parameters for all layers."""

from faith_jax.checkpoints.hugging_face.bert import BERT, bert_embeddings, labels_of
from faith_jax.checkpoints.hugging_face.family import Settings, attention_modules
from faith_jax.models.config import TransformerConfig

_LAYER = attention_modules("attention", "attention", ("query", "key", "value", "dense")) | {
    "attention.LayerNorm": "post_attention_layer_norm",
    "ffn": "mlp/wi",
    "ffn_output": "mlp/wo",
    "full_layer_layer_norm": "post_mlp_layer_norm",
}


def _write_albert(config: TransformerConfig) -> Settings:
    return labels_of(config) | {
        "bos_token_id": 2,
        "inner_group_num": 1,
        "num_hidden_groups": 1,
    }


ALBERT = BERT.replace(
    name="ALBERT",
    model_type="albert",
    architecture="Albert",
    marks={"is_encoder_only": True, "positions": "learned", "shared_layers": True},
    fields=BERT.fields
    | {
        "vocab_size": (30000, "vocab_size"),
        "embedding_dim": (128, "embedding_size"),
        "emb_dim": (4096, "hidden_size"),
        "num_heads": (64, "num_attention_heads"),
        "mlp_dim": (16384, "intermediate_size"),
        "mlp_activations": ("gelu_new", "hidden_act"),
        "dropout_rate": (0.0, "hidden_dropout_prob"),
        "attention_dropout_rate": (0.0, "attention_probs_dropout_prob"),
        "classifier_dropout_rate": (0.1, "classifier_dropout_prob"),
    },
    constants=BERT.constants | {"shared_layers": True},
    required={**BERT.required, "inner_group_num": (1, 1), "num_hidden_groups": (1, 1)},
    end=3,
    read=lambda fields, base_settings: {"label_names": fields.labels()},
    write=_write_albert,
    modules=bert_embeddings("albert.")
    | {
        "albert.encoder.embedding_hidden_mapping_in": "encoder/embedding_projection",
        "albert.pooler": "classifier/dense",
        "classifier": "classifier/out",
        "qa_outputs": "span",
    }
    | {
        f"albert.encoder.albert_layer_groups.0.albert_layers.0.{module}": f"encoder/layers_0/{ours}"
        for module, ours in _LAYER.items()
    },
    layers={},
    prefix="albert.",
    unused=r"embeddings\.(position_ids|token_type_ids)|predictions\..*|sop_classifier\..*",
)
