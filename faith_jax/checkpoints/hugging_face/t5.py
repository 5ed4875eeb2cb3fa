"""T5, Flan-T5, mT5 and umT5: encoder-decoder, with relative position biases.

T5 1.0 scales its tied output layer. Transformers 5 never scales mT5's, though it always writes
`"tie_word_embeddings": true`; Transformers 4 scaled a tied one. A scaled mT5 is written as a T5,
which computes the same.

Classifiers have a head on the decoder instead of the output layer.
"""

import functools
import re

from faith_jax.checkpoints.hugging_face.bert import labels_of
from faith_jax.checkpoints.hugging_face.family import (
    ACTIVATIONS,
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    Settings,
    attention_modules,
)
from faith_jax.models.config import TransformerConfig


def _read_t5(fields: ConfigFields, base_settings: Settings, projection: str) -> Settings:
    """Reads the other settings; `projection` is the family's default feed-forward layer."""
    projection = str(fields.fields.get("feed_forward_proj") or projection)
    gate, _, name = projection.rpartition("-")
    # In Transformers, "gated-gelu" is the tanh form, although "gelu" is the exact one.
    name = "gelu_new" if projection == "gated-gelu" else name
    name = str(fields.fields.get("dense_act_fn") or name)
    if gate not in ("", "gated") or name not in ACTIVATIONS:
        raise fields.error("feed_forward_proj", f"one of {sorted(ACTIVATIONS)}, or 'gated-' and it")
    gated = fields.get("is_gated_act", default=bool(gate))
    return {
        "mlp_activations": (ACTIVATIONS[name], "linear") if gated else (ACTIVATIONS[name],),
        # Transformers 5 writes scale_decoder_outputs; older files only have tie_word_embeddings.
        "logits_via_embedding": fields.get(
            "scale_decoder_outputs", default=fields.get("tie_word_embeddings", default=True)
        ),
    }


def _read_mt5(fields: ConfigFields, base_settings: Settings) -> Settings:
    settings = _read_t5(fields, base_settings, projection="gated-gelu")
    is_of_version_4 = bool(re.match(r"4\.", str(fields.fields.get("transformers_version"))))
    tied = fields.get("tie_word_embeddings", default=False) and is_of_version_4
    return settings | {"logits_via_embedding": fields.get("scale_decoder_outputs", default=tied)}


def _write_t5(config: TransformerConfig) -> Settings:
    activation = PUBLISHED_ACTIVATIONS[config.mlp_activations[0]]
    gated = len(config.mlp_activations) == 2
    name = "gelu" if gated and activation == "gelu_new" else activation
    scaled = config.logits_via_embedding or config.scale_own_logits
    return {
        "dense_act_fn": activation,
        "feed_forward_proj": f"gated-{name}" if gated else name,
        "is_encoder_decoder": True,
        "is_gated_act": gated,
        "scale_decoder_outputs": scaled,
        "tie_word_embeddings": scaled,
    }


def _t5_layer(*attentions: tuple[str, str, str]) -> dict[str, str]:
    """Returns a layer's modules; an attention is (published name, our name, our norm's name)."""
    modules: dict[str, str] = {}
    for i, (published, ours, norm) in enumerate(attentions):
        modules |= attention_modules(f"layer.{i}.{published}", ours, "qkvo")
        modules[f"layer.{i}.layer_norm"] = norm
    mlp = f"layer.{len(attentions)}"
    modules |= {f"{mlp}.DenseReluDense.{x}": f"mlp/{x}" for x in ("wi", "wi_0", "wi_1", "wo")}
    return modules | {f"{mlp}.layer_norm": "pre_mlp_layer_norm"}


_T5_POSITIONS = "block.0.layer.0.SelfAttention.relative_attention_bias"
T5 = Family(
    name="T5",
    model_type="t5",
    architecture="T5ForConditionalGeneration",
    marks={
        "is_decoder_only": False,
        "is_encoder_only": False,
        "norm": "rms",
        "positions": "relative_bias",
        "layer_position_biases": False,
        "writes_text": True,
    },
    fields={
        "vocab_size": (32128, "vocab_size"),
        "emb_dim": (512, "d_model"),
        "num_heads": (8, "num_heads"),
        "head_dim": (64, "d_kv"),
        "num_encoder_layers": (6, "num_layers"),
        "num_decoder_layers": (
            lambda base_settings: base_settings["num_encoder_layers"],
            "num_decoder_layers",
        ),
        "mlp_dim": (2048, "d_ff"),
        "dropout_rate": (0.1, "dropout_rate"),
        "relative_attention_num_buckets": (32, "relative_attention_num_buckets"),
        "relative_attention_max_distance": (128, "relative_attention_max_distance"),
        "layer_norm_epsilon": (1e-6, "layer_norm_epsilon"),
        "decoder_start_id": (0, "decoder_start_token_id"),
    },
    constants={"attention_scale": 1.0},
    pad=lambda fields: fields.padding(0),
    end=1,
    read=functools.partial(_read_t5, projection="relu"),
    write=_write_t5,
    modules={
        "shared": "token_embedder",
        f"encoder.{_T5_POSITIONS}": "encoder/relpos_bias",
        f"decoder.{_T5_POSITIONS}": "decoder/relpos_bias",
        "encoder.final_layer_norm": "encoder/encoder_norm",
        "decoder.final_layer_norm": "decoder/decoder_norm",
        "lm_head": "decoder/logits_dense",
    },
    layers={
        ("encoder.block", "encoder/layers"): _t5_layer(
            ("SelfAttention", "attention", "pre_attention_layer_norm")
        ),
        ("decoder.block", "decoder/layers"): _t5_layer(
            ("SelfAttention", "self_attention", "pre_self_attention_layer_norm"),
            ("EncDecAttention", "encoder_decoder_attention", "pre_cross_attention_layer_norm"),
        ),
    },
    # The first releases have a bias that no model has ever used.
    unused=(
        r"(encoder|decoder)\.embed_tokens\.weight|"
        r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
    ),
    embedding_copies=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    head_is_embedding=True,
)
MT5 = T5.replace(
    name="mT5",
    model_type="mt5",
    architecture="MT5ForConditionalGeneration",
    marks={**T5.marks, "logits_via_embedding": False, "scale_own_logits": False},
    fields=T5.fields
    | {
        "vocab_size": (250112, "vocab_size"),
        "num_heads": (6, "num_heads"),
        "num_encoder_layers": (8, "num_layers"),
        "mlp_dim": (1024, "d_ff"),
    },
    read=_read_mt5,
)


def below(base: str, family: Family) -> Family:
    """Returns the family with a prefix for all tensors, and without the output layer."""
    modules = {f"{base}{name}": ours for name, ours in family.modules.items() if name != "lm_head"}
    return family.replace(
        modules=modules,
        layers={(f"{base}{stack}", ours): layer for (stack, ours), layer in family.layers.items()},
        prefix=base,
        embedding_copies=tuple(f"{base}{name}" for name in family.embedding_copies),
    )


def _make_classifier(family: Family) -> Family:
    """Returns the family with a classification head instead of the output layer."""
    task, body = "ForSequenceClassification", below("transformer.", family)
    head = {"dense": "classifier/dense", "out_proj": "classifier/out"}
    return body.replace(
        kind=task,
        architecture=family.architecture.replace("ForConditionalGeneration", task),
        marks={**T5.marks, "writes_text": False},
        fields={**family.fields, "classifier_dropout_rate": (0.0, "classifier_dropout")},
        tasks=(task,),
        read=lambda fields, base_settings: (
            family.read(fields, base_settings) | {"label_names": fields.labels()}
        ),
        write=lambda config: family.write(config) | labels_of(config),
        modules={**body.modules, **{f"classification_head.{k}": v for k, v in head.items()}},
    )


T5_CLASSIFIER, MT5_CLASSIFIER = map(_make_classifier, (T5, MT5))
UMT5 = T5.replace(
    name="umT5",
    model_type="umt5",
    architecture="UMT5ForConditionalGeneration",
    marks={**T5.marks, "layer_position_biases": True},
    fields=MT5.fields,
    constants={**T5.constants, "layer_position_biases": True},
    read=functools.partial(_read_t5, projection="gated-gelu"),
    layers={
        names: {**layer, "layer.0.SelfAttention.relative_attention_bias": "relpos_bias"}
        for names, layer in T5.layers.items()
    },
)
