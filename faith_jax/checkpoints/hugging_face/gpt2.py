"""GPT-2 and DialoGPT: decoder-only, learned positions."""

from faith_jax.checkpoints.hugging_face.family import (
    CAUSAL,
    FUSED,
    LAYER_NORM,
    ConfigFields,
    Family,
    Settings,
)


def _read_gpt2(fields: ConfigFields, base_settings: Settings) -> Settings:
    scaled = fields.get("scale_attn_weights", default=True)
    return {"attention_scale": base_settings["head_dim"] ** -0.5 if scaled else 1.0}


GPT2 = Family(
    name="GPT-2",
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    marks={"is_decoder_only": True, "positions": "learned"},
    fields={
        "vocab_size": (50257, "vocab_size"),
        "emb_dim": (768, "n_embd", "hidden_size"),
        "num_heads": (12, "n_head", "num_attention_heads"),
        "num_decoder_layers": (12, "n_layer", "num_hidden_layers"),
        "mlp_dim": (lambda base_settings: 4 * base_settings["emb_dim"], "n_inner"),
        "mlp_activations": ("gelu_new", "activation_function"),
        "dropout_rate": (0.1, "resid_pdrop"),
        "attention_dropout_rate": (0.1, "attn_pdrop"),
        "layer_norm_epsilon": (1e-5, "layer_norm_epsilon"),
        "max_positions": (1024, "n_positions", "max_position_embeddings"),
    },
    constants=LAYER_NORM | CAUSAL | {"logits_via_embedding": True, "positions": "learned"},
    required={
        "scale_attn_by_inverse_layer_idx": (False, False),
        "add_cross_attention": (False, False),
    },
    end=50256,
    read=_read_gpt2,
    write=lambda config: {
        "bos_token_id": config.eos_ids[0] if config.eos_ids else None,
        "embd_pdrop": config.dropout_rate,
        "scale_attn_weights": config.attention_scale != 1.0,
    },
    modules={
        "transformer.wte": "token_embedder",
        "transformer.wpe": "decoder/position_embedder",
        "transformer.ln_f": "decoder/decoder_norm",
        "lm_head": "decoder/logits_dense",
    },
    layers={
        ("transformer.h", "decoder/layers"): {
            "ln_1": "pre_self_attention_layer_norm",
            "attn.c_attn": FUSED,
            "attn.c_proj": "self_attention/out",
            "ln_2": "pre_mlp_layer_norm",
            "mlp.c_fc": "mlp/wi",
            "mlp.c_proj": "mlp/wo",
        }
    },
    turned=False,
    prefix="transformer.",
    unused=r"h\.\d+\.attn\.(bias|masked_bias)",
)
