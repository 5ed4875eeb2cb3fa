"""GPT-2 and DialoGPT: decoder-only, learned positions."""

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
    fields.require("scale_attn_by_inverse_layer_idx", False, False)
    fields.require("add_cross_attention", False, False)
    scaled = fields.get("scale_attn_weights", default=True)
    return {
        "mlp_dim": fields.get("n_inner", default=4 * said["emb_dim"]),
        "attention_scale": said["head_dim"] ** -0.5 if scaled else 1.0,
        "pad_id": fields.distinct_pad(),
        "eos_ids": fields.tokens("eos_token_id", 50256),
    }


def write(config: TransformerConfig) -> dict[str, Any]:
    """See `Family`."""
    return {
        "bos_token_id": config.eos_ids[0] if config.eos_ids else None,
        "embd_pdrop": config.dropout_rate,
        "n_inner": config.mlp_dim,
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
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    matches=lambda c: c.is_decoder_only and c.positions == "learned",
    fields={
        "vocab_size": (50257, "vocab_size"),
        "emb_dim": (768, "n_embd", "hidden_size"),
        "num_heads": (12, "n_head", "num_attention_heads"),
        "num_decoder_layers": (12, "n_layer", "num_hidden_layers"),
        "mlp_activations": ("gelu_new", "activation_function"),
        "dropout_rate": (0.1, "resid_pdrop"),
        "attention_dropout_rate": (0.1, "attn_pdrop"),
        "layer_norm_epsilon": (1e-5, "layer_norm_epsilon"),
        "max_positions": (1024, "n_positions", "max_position_embeddings"),
    },
    constants=LAYER_NORM
    | {
        "num_encoder_layers": 0,
        "logits_via_embedding": True,
        "scale_tied_logits": False,
        "positions": "learned",
    },
    read=read,
    write=write,
    tensors=tensors,
    prefix="transformer.",
    unused=r"h\.\d+\.attn\.(bias|masked_bias)",
)
