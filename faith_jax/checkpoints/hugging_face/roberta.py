"""RoBERTa and XLM-RoBERTa: encoder-only, learned positions, norms behind the residual sums."""

from faith_jax.checkpoints.hugging_face.family import (
    LAYER_NORM,
    ConfigFields,
    Family,
    Settings,
    attention_modules,
)
from faith_jax.models.config import TransformerConfig


def bert_layer(*names: str) -> dict[str, str]:
    """Returns the modules of a layer; `names` are the query's, key's and value's."""
    own = (*(f"self.{name}" for name in names), "output.dense")
    return attention_modules("attention", "attention", own) | {
        "attention.output.LayerNorm": "post_attention_layer_norm",
        "intermediate.dense": "mlp/wi",
        "output.dense": "mlp/wo",
        "output.LayerNorm": "post_mlp_layer_norm",
    }


def dropout_rate(fields: ConfigFields, name: str) -> float | None:
    """Returns a dropout rate that config.json may leave out."""
    return None if fields.fields.get(name) is None else fields.get(name, default=0.0)


def labels_of(config: TransformerConfig) -> Settings:
    """Returns the fields of config.json that name the classes."""
    names = config.label_names
    return {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
    }


def _read_roberta(fields: ConfigFields, said: Settings) -> Settings:
    pad = fields.padding(1)
    return {
        "label_names": fields.labels(),
        "classifier_dropout_rate": dropout_rate(fields, "classifier_dropout"),
        "max_positions": fields.get("max_position_embeddings", default=512) - pad - 1,
        "position_offset": pad + 1,
    }


def _write_roberta(config: TransformerConfig) -> Settings:
    return labels_of(config) | {
        "bos_token_id": 0,
        "classifier_dropout": config.classifier_dropout_rate,
        "max_position_embeddings": config.max_positions + config.position_offset,
    }


ROBERTA = Family(
    name="RoBERTa",
    model_type="roberta",
    architecture="Roberta",
    marks={"is_encoder_only": True, "positions": "learned"},
    fields={
        "emb_dim": (768, "hidden_size"),
        "num_heads": (12, "num_attention_heads"),
        "num_encoder_layers": (12, "num_hidden_layers"),
        "mlp_dim": (3072, "intermediate_size"),
        "mlp_activations": ("gelu", "hidden_act"),
        "dropout_rate": (0.1, "hidden_dropout_prob"),
        "attention_dropout_rate": (0.1, "attention_probs_dropout_prob"),
        "vocab_size": (50265, "vocab_size"),
        "layer_norm_epsilon": (1e-12, "layer_norm_eps"),
        "num_token_types": (2, "type_vocab_size"),
    },
    constants=LAYER_NORM
    | {
        "num_decoder_layers": 0,
        "norm_position": "post",
        "embedding_norm": True,
        "positions": "learned",
    },
    required={"position_embedding_type": ("absolute", "absolute"), "is_decoder": (False, False)},
    pad=lambda fields: fields.padding(1),
    read=_read_roberta,
    write=_write_roberta,
    modules={
        "roberta.embeddings.word_embeddings": "token_embedder",
        "roberta.embeddings.position_embeddings": "encoder/position_embedder",
        "roberta.embeddings.token_type_embeddings": "encoder/token_type_embedder",
        "roberta.embeddings.LayerNorm": "encoder/embedding_norm",
        "classifier.dense": "classifier/dense",
        "classifier.out_proj": "classifier/out",
    },
    layers={("roberta.encoder.layer", "encoder/layers"): bert_layer("query", "key", "value")},
    prefix="roberta.",
    unused=r"embeddings\.(position_ids|token_type_ids)|pooler\.dense\.(weight|bias)|lm_head\..*",
)
XLM_ROBERTA = ROBERTA.replace(
    name="XLM-RoBERTa", model_type="xlm-roberta", architecture="XLMRoberta"
)
