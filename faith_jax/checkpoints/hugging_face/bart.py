"""BART: encoder-decoder, learned positions, norms after the residual sums.

A classifier (bart-large-mnli) has a head on the decoder instead of the output layer.

The names of DoHA's tensors, `decoder.layers.N.knowledge_attn` and `knowledge_attn_layer_norm`, are
our own.
"""

import functools

from faith_jax.checkpoints.hugging_face.bert import labels_of
from faith_jax.checkpoints.hugging_face.family import (
    LAYER_NORM,
    LOGITS_BIAS,
    ConfigFields,
    Family,
    Settings,
    attention_modules,
)
from faith_jax.models.config import TransformerConfig


def _read_bart(fields: ConfigFields, base_settings: Settings) -> Settings:
    for name, ours in (("decoder_attention_heads", "num_heads"), ("decoder_ffn_dim", "mlp_dim")):
        if fields.get(name, default=base_settings[ours]) != base_settings[ours]:
            raise fields.error(
                name, f"{base_settings[ours]}, as the encoder has; others are not supported"
            )
    is_classifier = "ForSequenceClassification" in str(fields.fields.get("architectures"))
    return {
        "knowledge_attention": fields.get("knowledge_attention", default=False),
        "label_names": fields.labels() if is_classifier else (),
    }


def _write_bart(config: TransformerConfig) -> Settings:
    doha = {"knowledge_attention": True} if config.knowledge_attention else {}
    return (
        doha
        | labels_of(config)
        | {
            "bos_token_id": 0,
            "decoder_attention_heads": config.num_heads,
            "decoder_ffn_dim": config.mlp_dim,
            "is_encoder_decoder": True,
        }
    )


_bart_attention = functools.partial(
    attention_modules, names=("q_proj", "k_proj", "v_proj", "out_proj")
)
_BART_MLP = {"fc1": "mlp/wi", "fc2": "mlp/wo", "final_layer_norm": "post_mlp_layer_norm"}
BART = Family(
    name="BART",
    model_type="bart",
    architecture="BartForConditionalGeneration",
    marks={"is_decoder_only": False, "is_encoder_only": False, "norm": "layer"},
    fields={
        "vocab_size": (50265, "vocab_size"),
        "emb_dim": (1024, "d_model"),
        "num_heads": (16, "encoder_attention_heads"),
        "num_encoder_layers": (12, "encoder_layers"),
        "num_decoder_layers": (12, "decoder_layers"),
        "mlp_dim": (4096, "encoder_ffn_dim"),
        "mlp_activations": ("gelu", "activation_function"),
        "dropout_rate": (0.1, "dropout"),
        "attention_dropout_rate": (0.0, "attention_dropout"),
        "mlp_dropout_rate": (0.0, "activation_dropout"),
        "classifier_dropout_rate": (0.0, "classifier_dropout"),
        "scale_embeddings": (False, "scale_embedding"),
        "max_positions": (1024, "max_position_embeddings"),
        "decoder_start_id": (2, "decoder_start_token_id"),
    },
    constants=LAYER_NORM
    | {
        "logits_via_embedding": True,
        "scale_tied_logits": False,
        "logits_bias": True,
        "layer_norm_epsilon": 1e-5,
        "norm_position": "post",
        "embedding_norm": True,
        "positions": "learned",
        "position_offset": 2,
    },
    pad=lambda fields: fields.padding(1),
    tasks=("ForSequenceClassification",),
    read=_read_bart,
    write=_write_bart,
    modules={
        "model.shared": "token_embedder",
        "model.encoder.embed_positions": "encoder/position_embedder",
        "model.encoder.layernorm_embedding": "encoder/embedding_norm",
        "model.decoder.embed_positions": "decoder/position_embedder",
        "model.decoder.layernorm_embedding": "decoder/embedding_norm",
        "lm_head": "decoder/logits_dense",
        LOGITS_BIAS: "decoder/logits_bias",
        "classification_head.dense": "classifier/dense",
        "classification_head.out_proj": "classifier/out",
    },
    layers={
        ("model.encoder.layers", "encoder/layers"): _BART_MLP
        | _bart_attention("self_attn", "attention")
        | {"self_attn_layer_norm": "post_attention_layer_norm"},
        ("model.decoder.layers", "decoder/layers"): _BART_MLP
        | _bart_attention("self_attn", "self_attention")
        | _bart_attention("encoder_attn", "encoder_decoder_attention")
        | _bart_attention("knowledge_attn", "knowledge_attention")
        | {
            "self_attn_layer_norm": "post_self_attention_layer_norm",
            "encoder_attn_layer_norm": "post_cross_attention_layer_norm",
            "knowledge_attn_layer_norm": "post_knowledge_attention_layer_norm",
        },
    },
    prefix="model.",
    unused=rf"(encoder|decoder)\.embed_tokens\.weight|classification_head\..*|{LOGITS_BIAS}",
    embedding_copies=("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"),
)
