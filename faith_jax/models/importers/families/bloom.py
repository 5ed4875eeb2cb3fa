"""BLOOM: decoder-only, ALiBi, a norm behind the embeddings."""

from typing import Any

from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.families.family import (
    ConfigFields,
    Family,
    TensorMap,
    layer_norm,
    linear,
)


def read_config(fields: ConfigFields) -> TransformerConfig:
    """See `Family`."""
    fields.require("apply_residual_connection_post_layernorm", False, False)
    width = fields.whole("n_embed", "hidden_size", default=64)
    heads = fields.whole("n_head", "num_attention_heads", default=8)
    head_dim = max(1, width // max(1, heads))
    return TransformerConfig(
        vocab_size=fields.whole("vocab_size", default=250880),
        emb_dim=width,
        num_heads=heads,
        head_dim=head_dim,
        num_encoder_layers=0,
        num_decoder_layers=fields.whole("n_layer", "num_hidden_layers", default=2),
        mlp_dim=4 * width,
        mlp_activations=("gelu",),
        dropout_rate=fields.number("hidden_dropout", default=0.0),
        attention_dropout_rate=fields.number("attention_dropout", default=0.0),
        mlp_dropout_rate=0.0,
        broadcast_dropout=False,
        logits_via_embedding=True,
        scale_tied_logits=False,
        layer_norm_epsilon=fields.number("layer_norm_epsilon", default=1e-5),
        norm="layer",
        embedding_norm=True,
        positions="alibi",
        attention_bias=True,
        mlp_bias=True,
        attention_scale=head_dim**-0.5,
        pad_id=fields.distinct_pad(),
        eos_ids=fields.tokens("eos_token_id", 2),
    )


def write_config(config: TransformerConfig) -> dict[str, Any]:
    """See `Family`."""
    return {
        "apply_residual_connection_post_layernorm": False,
        "architectures": ["BloomForCausalLM"],
        "attention_dropout": config.attention_weights_dropout,
        "hidden_dropout": config.dropout_rate,
        "hidden_size": config.emb_dim,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "model_type": "bloom",
        "n_head": config.num_heads,
        "n_layer": config.num_decoder_layers,
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
    model_types=("bloom",),
    prefix="transformer.",
    read_config=read_config,
    write_config=write_config,
    tensors=tensors,
    unused=r"(?!)",
    matches=lambda c: c.is_decoder_only and c.positions == "alibi",
)
