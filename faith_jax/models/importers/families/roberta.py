"""RoBERTa and XLM-RoBERTa: encoder-only, learned positions, norms behind the residual sums."""

from typing import Any

from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.families.family import (
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    TensorMap,
    layer_norm,
    linear,
)


def bert_like(fields: ConfigFields) -> dict[str, Any]:
    """Returns what RoBERTa's and DeBERTa's configs have alike."""
    width = fields.whole("hidden_size", default=768)
    heads = fields.whole("num_attention_heads", default=12)
    return {
        "emb_dim": width,
        "num_heads": heads,
        "head_dim": max(1, width // max(1, heads)),
        "num_encoder_layers": fields.whole("num_hidden_layers", default=12),
        "num_decoder_layers": 0,
        "mlp_dim": fields.whole("intermediate_size", default=3072),
        "mlp_activations": (fields.activation("hidden_act", default="gelu"),),
        "dropout_rate": fields.number("hidden_dropout_prob", default=0.1),
        "attention_dropout_rate": fields.number("attention_probs_dropout_prob", default=0.1),
        "mlp_dropout_rate": 0.0,
        "broadcast_dropout": False,
        "norm": "layer",
        "norm_position": "post",
        "embedding_norm": True,
        "attention_bias": True,
        "mlp_bias": True,
        "label_names": fields.labels(),
    }


def written_like_bert(config: TransformerConfig) -> dict[str, Any]:
    """Returns the fields of a config.json that RoBERTa and DeBERTa have alike."""
    labels = dict(enumerate(config.label_names))
    return {
        "attention_probs_dropout_prob": config.attention_weights_dropout,
        "hidden_act": PUBLISHED_ACTIVATIONS[config.mlp_activations[0]],
        "hidden_dropout_prob": config.dropout_rate,
        "hidden_size": config.emb_dim,
        "id2label": {str(i): name for i, name in labels.items()},
        "intermediate_size": config.mlp_dim,
        "label2id": {name: i for i, name in labels.items()},
        "layer_norm_eps": config.layer_norm_epsilon,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.num_encoder_layers,
        "type_vocab_size": config.num_token_types,
    }


def bert_layers(
    config: TransformerConfig, prefix: str, projections: dict[str, str]
) -> list[TensorMap]:
    """Returns the maps of the encoder's layers; `projections` are the attention's own names."""
    maps = []
    for i in range(config.num_encoder_layers):
        theirs, ours = f"{prefix}encoder.layer.{i}", f"encoder/layers_{i}"
        for a, b in projections.items():
            maps += linear(f"{theirs}.attention.self.{a}", f"{ours}/attention/{b}", bias=True)
        maps += [
            *linear(f"{theirs}.attention.output.dense", f"{ours}/attention/out", bias=True),
            *layer_norm(
                f"{theirs}.attention.output.LayerNorm", f"{ours}/post_attention_layer_norm"
            ),
            *linear(f"{theirs}.intermediate.dense", f"{ours}/mlp/wi", bias=True),
            *linear(f"{theirs}.output.dense", f"{ours}/mlp/wo", bias=True),
            *layer_norm(f"{theirs}.output.LayerNorm", f"{ours}/post_mlp_layer_norm"),
        ]
    return maps


def read_config(fields: ConfigFields) -> TransformerConfig:
    """See `Family`."""
    fields.require("position_embedding_type", "absolute", "absolute")
    fields.require("is_decoder", False, False)
    pad = fields.padding("pad_token_id", 1)
    common = bert_like(fields)
    head = fields.fields.get("classifier_dropout")
    rows = fields.whole("max_position_embeddings", default=512)
    return TransformerConfig(
        vocab_size=fields.whole("vocab_size", default=50265),
        **common,
        classifier_dropout_rate=None if head is None else fields.number("classifier_dropout"),
        layer_norm_epsilon=fields.number("layer_norm_eps", default=1e-12),
        positions="learned",
        max_positions=rows - pad - 1,
        position_offset=pad + 1,
        num_token_types=fields.whole("type_vocab_size", default=2),
        attention_scale=common["head_dim"] ** -0.5,
        pad_id=pad,
        eos_ids=fields.tokens("eos_token_id", 2),
    )


def write_config(config: TransformerConfig) -> dict[str, Any]:
    """See `Family`."""
    kind = "ForSequenceClassification" if config.label_names else "Model"
    return written_like_bert(config) | {
        "architectures": [f"Roberta{kind}"],
        "bos_token_id": 0,
        "classifier_dropout": config.classifier_dropout_rate,
        "max_position_embeddings": config.max_positions + config.position_offset,
        "model_type": "roberta",
    }


def tensors(config: TransformerConfig) -> list[TensorMap]:
    """See `Family`."""
    names = {
        "word_embeddings": "token_embedder",
        "position_embeddings": "encoder/position_embedder",
        "token_type_embeddings": "encoder/token_type_embedder",
    }
    maps = [
        TensorMap(f"roberta.embeddings.{theirs}.weight", (f"{ours}/embedding",))
        for theirs, ours in names.items()
    ]
    maps += layer_norm("roberta.embeddings.LayerNorm", "encoder/embedding_norm")
    maps += bert_layers(config, "roberta.", {name: name for name in ("query", "key", "value")})
    if config.label_names:
        maps += linear("classifier.dense", "classifier/dense", bias=True)
        maps += linear("classifier.out_proj", "classifier/out", bias=True)
    return maps


ROBERTA = Family(
    name="RoBERTa",
    model_types=("roberta", "xlm-roberta"),
    prefix="roberta.",
    read_config=read_config,
    write_config=write_config,
    tensors=tensors,
    unused=r"embeddings\.(position_ids|token_type_ids)|pooler\.dense\.(weight|bias)|lm_head\..*",
    matches=lambda c: c.is_encoder_only and c.positions == "learned",
)
