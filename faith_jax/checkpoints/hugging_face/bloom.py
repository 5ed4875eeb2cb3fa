"""BLOOM: decoder-only, ALiBi, a norm behind the embeddings."""

from typing import Any

from faith_jax.checkpoints.hugging_face.family import (
    LAYER_NORM,
    ConfigFields,
    Family,
    TensorMap,
    layer_norm,
    linear,
)
from faith_jax.models.config import TransformerConfig


def read(fields: ConfigFields, said: dict[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    fields.require("apply_residual_connection_post_layernorm", False, False)
    return {
        "mlp_dim": 4 * said["emb_dim"],
        "attention_scale": said["head_dim"] ** -0.5,
        "pad_id": fields.distinct_pad(),
        "eos_ids": fields.tokens("eos_token_id", 2),
    }


def tensors(config: TransformerConfig) -> list[TensorMap]:
    """See `Family`."""
    maps = [
        TensorMap("transformer.word_embeddings.weight", ("token_embedder/embedding",)),
        *layer_norm("transformer.word_embeddings_layernorm", "decoder/embedding_norm"),
        *layer_norm("transformer.ln_f", "decoder/decoder_norm"),
    ]
    heads = config.num_heads
    for i in range(config.num_decoder_layers):
        theirs, ours = f"transformer.h.{i}", f"decoder/layers_{i}"
        attention = f"{ours}/self_attention"
        parts = [f"{attention}/{name}" for name in ("query", "key", "value")]
        norms = {
            "input_layernorm": "pre_self_attention_layer_norm",
            "post_attention_layernorm": "pre_mlp_layer_norm",
        }
        for their_norm, our_norm in norms.items():
            maps += layer_norm(f"{theirs}.{their_norm}", f"{ours}/{our_norm}")
        fused = f"{theirs}.self_attention.query_key_value"
        maps += [
            *linear(fused, *parts, bias=True, groups=heads),
            *linear(f"{theirs}.self_attention.dense", f"{attention}/out", bias=True),
            *linear(f"{theirs}.mlp.dense_h_to_4h", f"{ours}/mlp/wi", bias=True),
            *linear(f"{theirs}.mlp.dense_4h_to_h", f"{ours}/mlp/wo", bias=True),
        ]
    return maps


BLOOM = Family(
    name="BLOOM",
    model_type="bloom",
    architecture="BloomForCausalLM",
    matches=lambda c: c.is_decoder_only and c.positions == "alibi",
    fields={
        "vocab_size": (250880, "vocab_size"),
        "emb_dim": (64, "hidden_size", "n_embed"),
        "num_heads": (8, "n_head", "num_attention_heads"),
        "num_decoder_layers": (2, "n_layer", "num_hidden_layers"),
        "dropout_rate": (0.0, "hidden_dropout"),
        "attention_dropout_rate": (0.0, "attention_dropout"),
        "layer_norm_epsilon": (1e-5, "layer_norm_epsilon"),
    },
    constants=LAYER_NORM
    | {
        "num_encoder_layers": 0,
        "mlp_activations": ("gelu",),
        "logits_via_embedding": True,
        "scale_tied_logits": False,
        "embedding_norm": True,
        "positions": "alibi",
    },
    read=read,
    write=lambda config: {"apply_residual_connection_post_layernorm": False},
    tensors=tensors,
    prefix="transformer.",
)
