"""ModernBERT: encoder-only, rotary positions, windows in most layers, gated feed-forward layers.

Its head classifies texts or tokens (LettuceDetect). The head of a masked language model is not
read.
"""

from faith_jax.checkpoints.hugging_face.bert import dropout_rate, labels_of
from faith_jax.checkpoints.hugging_face.family import (
    FULL,
    PUBLISHED_ACTIVATIONS,
    SLIDING,
    ConfigFields,
    Family,
    Settings,
)
from faith_jax.models.config import TransformerConfig

_THETAS = {FULL: ("global_rope_theta", 160_000.0), SLIDING: ("local_rope_theta", 10_000.0)}


def _read_theta(fields: ConfigFields, kind: str) -> float:
    """Returns the base of the rotary frequencies of a kind of layers, from the old or new form.

    As in Transformers 5, `rope_scaling` is for both kinds and takes precedence.
    """
    name, default = _THETAS[kind]
    theta = fields.get(name, default=default)
    of_kind = fields.get("rope_parameters", default={}).get(kind)
    of_both = fields.get("rope_scaling", default={})
    for field, rope in (("rope_parameters", of_kind), ("rope_scaling", of_both)):
        if isinstance(rope, dict):
            if (rope.get("rope_type") or rope.get("type") or "default") != "default":
                raise fields.error(field, 'a rope_type of "default"; others are not supported')
            theta = ConfigFields(rope, fields.path).get("rope_theta", default=theta)
    return theta


def _read_modernbert(fields: ConfigFields, base_settings: Settings) -> Settings:
    architectures = str(fields.fields.get("architectures"))
    period = fields.get("global_attn_every_n_layers", default=3)
    if period < 1:
        raise fields.error("global_attn_every_n_layers", "a positive whole number")
    count = base_settings["num_encoder_layers"]
    default = [SLIDING if number % period else FULL for number in range(count)]
    names = "token_label_names" if "ForTokenClassification" in architectures else "label_names"
    fields.require("classifier_pooling", "cls", "cls", "mean")
    return {
        names: fields.labels(),
        "mlp_activations": (*base_settings["mlp_activations"], "linear"),
        "classifier_activation": fields.get("classifier_activation", default="gelu"),
        "classifier_dropout_rate": dropout_rate(fields, "classifier_dropout"),
        "classifier_pooling": (
            "mean" if fields.fields.get("classifier_pooling") == "mean" else "first"
        ),
        # The window extends to both sides of the query's own position.
        "sliding_window": 2 * (fields.get("local_attention", default=128) // 2) + 1,
        "sliding_window_layers": fields.sliding_layers(default),
        "rope_theta": _read_theta(fields, FULL),
        "rope_window_theta": _read_theta(fields, SLIDING),
    }


def _write_modernbert(config: TransformerConfig) -> Settings:
    count, windows = config.num_encoder_layers, config.sliding_window_layers
    types = [SLIDING if number in windows else FULL for number in range(count)]
    thetas = {FULL: config.rope_theta, SLIDING: config.rope_window_theta or config.rope_theta}
    rate = config.classifier_dropout_rate
    return labels_of(config) | {
        "classifier_activation": PUBLISHED_ACTIVATIONS[config.classifier_activation],
        "classifier_dropout": 0.0 if rate is None else rate,
        "classifier_pooling": "mean" if config.classifier_pooling == "mean" else "cls",
        "layer_types": types,
        "local_attention": max(0, config.sliding_window - 1),
        "rope_parameters": {
            kind: {"rope_theta": theta, "rope_type": "default"} for kind, theta in thetas.items()
        },
        **{_THETAS[kind][0]: theta for kind, theta in thetas.items()},
    }


MODERNBERT = Family(
    name="ModernBERT",
    model_type="modernbert",
    architecture="ModernBert",
    marks={"is_encoder_only": True, "positions": "rotary"},
    fields={
        "emb_dim": (768, "hidden_size"),
        "num_heads": (12, "num_attention_heads"),
        "num_encoder_layers": (22, "num_hidden_layers"),
        "mlp_dim": (1152, "intermediate_size"),
        "mlp_activations": ("gelu", "hidden_activation"),
        "mlp_dropout_rate": (0.0, "mlp_dropout"),
        "vocab_size": (50368, "vocab_size"),
        "layer_norm_epsilon": (1e-5, "norm_eps"),
        "norm_bias": (False, "norm_bias"),
        "attention_bias": (False, "attention_bias"),
        "mlp_bias": (False, "mlp_bias"),
        "classifier_bias": (False, "classifier_bias"),
        "max_positions": (8192, "max_position_embeddings"),
    },
    constants={
        "num_decoder_layers": 0,
        "norm": "layer",
        "first_norm": False,
        "embedding_norm": True,
        "positions": "rotary",
        "dropout_rate": 0.0,
        "broadcast_dropout": False,
        "classifier_input_dropout": False,
        "classifier_norm": True,
    },
    required={"attention_dropout": (0.0, 0.0), "embedding_dropout": (0.0, 0.0)},
    pad=lambda fields: fields.padding(50283),
    end=50282,
    tasks=("ForSequenceClassification", "ForTokenClassification"),
    read=_read_modernbert,
    write=_write_modernbert,
    modules={
        "model.embeddings.tok_embeddings": "token_embedder",
        "model.embeddings.norm": "encoder/embedding_norm",
        "model.final_norm": "encoder/encoder_norm",
        "head.dense": "classifier/dense",
        "head.norm": "classifier/norm",
        "classifier": "classifier/out",
    },
    layers={
        ("model.layers", "encoder/layers"): {
            "attn_norm": "pre_attention_layer_norm",
            "attn.Wqkv": "attention/query attention/key attention/value",
            "attn.Wo": "attention/out",
            "mlp_norm": "pre_mlp_layer_norm",
            "mlp.Wi": "mlp/wi_0 mlp/wi_1",
            "mlp.Wo": "mlp/wo",
        }
    },
    prefix="model.",
    unused=r"head\..*|decoder\..*",
)
