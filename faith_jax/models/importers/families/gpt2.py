"""GPT-2 and DialoGPT: decoder-only, learned positions."""

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


def read_config(fields: ConfigFields) -> TransformerConfig:
    """See `Family`."""
    fields.require("scale_attn_by_inverse_layer_idx", False, False)
    fields.require("add_cross_attention", False, False)
    width = fields.whole("n_embd", "hidden_size", default=768)
    heads = fields.whole("n_head", "num_attention_heads", default=12)
    head_dim = max(1, width // max(1, heads))
    scaled = fields.flag("scale_attn_weights", True)
    return TransformerConfig(
        vocab_size=fields.whole("vocab_size", default=50257),
        emb_dim=width,
        num_heads=heads,
        head_dim=head_dim,
        num_encoder_layers=0,
        num_decoder_layers=fields.whole("n_layer", "num_hidden_layers", default=12),
        mlp_dim=fields.whole("n_inner", default=4 * width),
        mlp_activations=(fields.activation("activation_function", default="gelu_new"),),
        dropout_rate=fields.number("resid_pdrop", default=0.1),
        attention_dropout_rate=fields.number("attn_pdrop", default=0.1),
        mlp_dropout_rate=0.0,
        broadcast_dropout=False,
        logits_via_embedding=True,
        scale_tied_logits=False,
        layer_norm_epsilon=fields.number("layer_norm_epsilon", default=1e-5),
        norm="layer",
        positions="learned",
        max_positions=fields.whole("n_positions", "max_position_embeddings", default=1024),
        attention_bias=True,
        mlp_bias=True,
        attention_scale=head_dim**-0.5 if scaled else 1.0,
        pad_id=fields.distinct_pad(),
        eos_ids=fields.tokens("eos_token_id", 50256),
    )


def write_config(config: TransformerConfig) -> dict[str, Any]:
    """See `Family`."""
    return {
        "activation_function": PUBLISHED_ACTIVATIONS[config.mlp_activations[0]],
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": config.attention_weights_dropout,
        "bos_token_id": config.eos_ids[0] if config.eos_ids else None,
        "embd_pdrop": config.dropout_rate,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "model_type": "gpt2",
        "n_embd": config.emb_dim,
        "n_head": config.num_heads,
        "n_inner": config.mlp_dim,
        "n_layer": config.num_decoder_layers,
        "n_positions": config.max_positions,
        "resid_pdrop": config.dropout_rate,
        "scale_attn_weights": config.attention_scale != 1.0,
    }


def tensors(config: TransformerConfig) -> list[TensorMap]:
    """See `Family`."""
    maps = [
        TensorMap("transformer.wte.weight", ("token_embedder/embedding",)),
        TensorMap("transformer.wpe.weight", ("decoder/position_embedder/embedding",)),
        *layer_norm("transformer.ln_f", "decoder/decoder_norm"),
    ]
    for i in range(config.num_decoder_layers):
        theirs, ours = f"transformer.h.{i}", f"decoder/layers_{i}"
        attention = f"{ours}/self_attention"
        parts = [f"{attention}/{name}" for name in ("query", "key", "value")]
        # GPT-2's kernels are stored as ours are.
        maps += [
            *layer_norm(f"{theirs}.ln_1", f"{ours}/pre_self_attention_layer_norm"),
            *linear(f"{theirs}.attn.c_attn", *parts, bias=True, turned=False),
            *linear(f"{theirs}.attn.c_proj", f"{attention}/out", bias=True, turned=False),
            *layer_norm(f"{theirs}.ln_2", f"{ours}/pre_mlp_layer_norm"),
            *linear(f"{theirs}.mlp.c_fc", f"{ours}/mlp/wi", bias=True, turned=False),
            *linear(f"{theirs}.mlp.c_proj", f"{ours}/mlp/wo", bias=True, turned=False),
        ]
    return maps


GPT2 = Family(
    name="GPT-2",
    model_types=("gpt2",),
    prefix="transformer.",
    read_config=read_config,
    write_config=write_config,
    tensors=tensors,
    unused=r"h\.\d+\.attn\.(bias|masked_bias)",
    matches=lambda c: c.is_decoder_only and c.positions == "learned",
)
