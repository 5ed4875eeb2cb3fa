"""BLOOM: decoder-only, ALiBi, a norm after the embeddings."""

from faith_jax.checkpoints.hugging_face.family import CAUSAL, FUSED, LAYER_NORM, Family

BLOOM = Family(
    name="BLOOM",
    model_type="bloom",
    architecture="BloomForCausalLM",
    marks={"is_decoder_only": True, "positions": "alibi"},
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
    | CAUSAL
    | {
        "mlp_activations": ("gelu",),
        "logits_via_embedding": True,
        "embedding_norm": True,
        "positions": "alibi",
    },
    required={"apply_residual_connection_post_layernorm": (False, False)},
    read=lambda fields, base_settings: {"mlp_dim": 4 * base_settings["emb_dim"]},
    write=lambda config: {"apply_residual_connection_post_layernorm": False},
    modules={
        "transformer.word_embeddings": "token_embedder",
        "transformer.word_embeddings_layernorm": "decoder/embedding_norm",
        "transformer.ln_f": "decoder/decoder_norm",
        "lm_head": "decoder/logits_dense",
    },
    layers={
        ("transformer.h", "decoder/layers"): {
            "input_layernorm": "pre_self_attention_layer_norm",
            "self_attention.query_key_value": FUSED,
            "self_attention.dense": "self_attention/out",
            "post_attention_layernorm": "pre_mlp_layer_norm",
            "mlp.dense_h_to_4h": "mlp/wi",
            "mlp.dense_4h_to_h": "mlp/wo",
        }
    },
    interleaved=True,
    prefix="transformer.",
)
