"""DeBERTa v1 and v3 (published as deberta-v2): encoder-only, disentangled attention."""

from faith_jax.checkpoints.hugging_face.bert import (
    AFTER_ATTENTION,
    BERT,
    bert_layer,
    dropout_rate,
    labels_of,
)
from faith_jax.checkpoints.hugging_face.family import PUBLISHED_ACTIVATIONS, ConfigFields, Settings
from faith_jax.models.config import TransformerConfig


def _read_v1(fields: ConfigFields, base_settings: Settings) -> Settings:
    for name in ("embedding_size", "pooler_hidden_size"):
        fields.require(name, base_settings["emb_dim"], base_settings["emb_dim"])
    # Only attention with both content-to-position and position-to-content is supported.
    kinds = fields.fields.get("pos_att_type")
    kinds = "|".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)
    if sorted(kinds.lower().split("|")) != ["c2p", "p2c"]:
        raise fields.error("pos_att_type", '"p2c|c2p"; other attentions are not supported')
    distance = fields.get("max_relative_positions", default=-1)
    distance = distance if distance >= 1 else base_settings["max_positions"]
    return {
        "label_names": fields.labels(),
        "classifier_activation": fields.get("pooler_hidden_act", default="gelu"),
        "classifier_dropout_rate": dropout_rate(fields, "cls_dropout"),
        "relative_attention_num_buckets": distance,
        "relative_attention_max_distance": distance,
        "attention_scale": (3 * base_settings["head_dim"]) ** -0.5,
    }


def _read_deberta(fields: ConfigFields, base_settings: Settings) -> Settings:
    read = _read_v1(fields, base_settings)
    if "layer_norm" not in str(fields.fields.get("norm_rel_ebd", "none")).lower().split("|"):
        raise fields.error("norm_rel_ebd", '"layer_norm"; only DeBERTa-v3\'s form is supported')
    buckets = fields.get("position_buckets", default=-1)
    if buckets < 4 or buckets % 2:
        raise fields.error("position_buckets", "an even number from 4 on; others are not supported")
    return read | {"relative_attention_num_buckets": buckets}


def _write_v1(config: TransformerConfig) -> Settings:
    rate = config.classifier_dropout_rate
    return (
        labels_of(config)
        | ({} if rate is None else {"cls_dropout": rate})
        | {
            "max_relative_positions": config.relative_attention_num_buckets,
            "pooler_dropout": 0,
            "pooler_hidden_act": PUBLISHED_ACTIVATIONS[config.classifier_activation],
            "pooler_hidden_size": config.emb_dim,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "relative_attention": True,
        }
    )


def _write_deberta(config: TransformerConfig) -> Settings:
    return _write_v1(config) | {
        "max_relative_positions": config.relative_attention_max_distance,
        "norm_rel_ebd": "layer_norm",
        "position_buckets": config.relative_attention_num_buckets,
        "share_att_key": True,
    }


DEBERTA = BERT.replace(
    name="DeBERTa-v3",
    model_type="deberta-v2",
    architecture="DebertaV2",
    marks={"is_encoder_only": True, "positions": "disentangled", "separate_positions": False},
    fields=BERT.fields
    | {
        "vocab_size": (128100, "vocab_size"),
        "layer_norm_epsilon": (1e-7, "layer_norm_eps"),
        "num_token_types": (0, "type_vocab_size"),
    },
    constants=BERT.constants | {"positions": "disentangled"},
    required={
        "relative_attention": (False, True),
        "share_att_key": (False, True),
        "position_biased_input": (True, False),
        "conv_kernel_size": (0, 0),
        "pooler_dropout": (0, 0),
    },
    pad=lambda fields: fields.pad(0),
    read=_read_deberta,
    write=_write_deberta,
    modules={
        "deberta.embeddings.word_embeddings": "token_embedder",
        "deberta.embeddings.token_type_embeddings": "encoder/token_type_embedder",
        "deberta.embeddings.LayerNorm": "encoder/embedding_norm",
        "deberta.encoder.rel_embeddings": "encoder/relative_embedder",
        "deberta.encoder.LayerNorm": "encoder/relative_norm",
        "pooler.dense": "classifier/dense",
        "classifier": "classifier/out",
        "qa_outputs": "span",
    },
    layers={
        ("deberta.encoder.layer", "encoder/layers"): bert_layer(
            "query_proj", "key_proj", "value_proj"
        )
    },
    prefix="deberta.",
    unused=(
        r"embeddings\.position_ids|lm_predictions\..*|mask_predictions\..*|cls\..*|"
        r"pooler\.dense\.(weight|bias)"
    ),
)
DEBERTA_V1 = DEBERTA.replace(
    name="DeBERTa-v1",
    model_type="deberta",
    architecture="Deberta",
    marks={**DEBERTA.marks, "separate_positions": True},
    fields=DEBERTA.fields | {"vocab_size": (50265, "vocab_size")},
    constants=DEBERTA.constants | {"separate_positions": True},
    required={
        "relative_attention": (False, True),
        "position_biased_input": (True, False),
        "pooler_dropout": (0, 0),
        "talking_head": (False, False),
    },
    read=_read_v1,
    write=_write_v1,
    layers={
        ("deberta.encoder.layer", "encoder/layers"): {
            "attention.self.in_proj": "attention/query attention/key attention/value",
            "attention.self.q_bias": "attention/query/bias",
            "attention.self.v_bias": "attention/value/bias",
            "attention.self.pos_q_proj": "attention/position_query",
            "attention.self.pos_proj": "attention/position_key",
            "attention.output.dense": "attention/out",
        }
        | AFTER_ATTENTION
    },
    interleaved=True,
    unused=rf"embeddings\.position_embeddings\.weight|{DEBERTA.unused}",
)
