"""Llama, Mistral, Gemma and Gemma 2: decoder-only, rotary positions, gated feed-forward layers."""

from collections.abc import Callable
from typing import Any

from faith_jax.checkpoints.hugging_face.family import (
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    attention,
)
from faith_jax.models.config import ROPE_TYPES, TransformerConfig

Settings = dict[str, Any]


def _read_rotary(fields: ConfigFields, said: Settings) -> Settings:
    """Returns what all have alike; rotary settings may be in their old form (rope_scaling)."""
    given = fields.get("rope_parameters", "rope_scaling", default={})
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in ROPE_TYPES:
        name = "rope_parameters" if fields.fields.get("rope_parameters") else "rope_scaling"
        raise fields.error(name, f"a rope_type of {list(ROPE_TYPES)}")
    rope = ConfigFields(given, fields.path)
    theta = fields.get("rope_theta", default=10000.0)
    return {
        "num_kv_heads": fields.get("num_key_value_heads", default=said["num_heads"]),
        "head_dim": fields.get("head_dim", default=said["head_dim"]),
        "mlp_activations": (*said["mlp_activations"], "linear"),
        "attention_scale": fields.get("head_dim", default=said["head_dim"]) ** -0.5,
        "rope_type": kind,
        "rope_theta": rope.get("rope_theta", default=theta),
        "rope_factor": rope.get("factor", default=1.0),
        "rope_low_freq_factor": rope.get("low_freq_factor", default=1.0),
        "rope_high_freq_factor": rope.get("high_freq_factor", default=4.0),
        "rope_original_max_positions": rope.get("original_max_position_embeddings", default=8192),
    }


def _read_llama(fields: ConfigFields, said: Settings) -> Settings:
    return _read_rotary(fields, said) | {
        "logits_via_embedding": fields.get("tie_word_embeddings", default=False),
        "pad_id": fields.distinct_pad(),
        "eos_ids": fields.tokens("eos_token_id", 2),
    }


def _read_mistral(fields: ConfigFields, said: Settings) -> Settings:
    settings = _read_llama(fields, said)
    if fields.fields.get("sliding_window", 4096) is None:
        return settings
    return settings | {
        "sliding_window": fields.get("sliding_window", default=4096),
        "sliding_window_layers": tuple(range(said["num_decoder_layers"])),
    }


def _read_gemma(fields: ConfigFields, said: Settings) -> Settings:
    fields.require("use_bidirectional_attention", None, None, False)
    settings = _read_rotary(fields, said)
    # Gemma was trained with the tanh form; the first releases called it "gelu".
    activation, _ = settings["mlp_activations"]
    activation = "gelu" if activation == "gelu_exact" else activation
    return settings | {
        "mlp_activations": (activation, "linear"),
        "logits_via_embedding": fields.get("tie_word_embeddings", default=True),
        "norm_offset": 1.0,
        "scale_embeddings": True,
        "pad_id": fields.pad(0),
        "eos_ids": fields.tokens("eos_token_id", 1),
    }


def _read_gemma2(fields: ConfigFields, said: Settings) -> Settings:
    layers = range(said["num_decoder_layers"])
    kinds = ("sliding_attention", "full_attention")
    types = fields.fields.get("layer_types") or [kinds[i % 2] for i in layers]
    if (
        not isinstance(types, list)
        or len(types) != len(layers)
        or not all(kind in kinds for kind in types)
    ):
        raise fields.error(
            "layer_types", f"one of {list(kinds)} for each of the {len(layers)} layers"
        )
    scalar = fields.get("query_pre_attn_scalar", default=256.0)
    if scalar <= 0:
        raise fields.error("query_pre_attn_scalar", "a positive number")
    caps = {
        ours: fields.get(theirs, default=default)
        for ours, theirs, default in (
            ("attention_softcap", "attn_logit_softcapping", 50.0),
            ("logits_softcap", "final_logit_softcapping", 30.0),
        )
        if fields.fields.get(theirs, default) is not None
    }
    return (
        _read_gemma(fields, said)
        | caps
        | {
            "norm_position": "sandwich",
            "attention_scale": scalar**-0.5,
            "sliding_window": fields.get("sliding_window", default=4096),
            "sliding_window_layers": tuple(i for i in layers if types[i] == kinds[0]),
        }
    )


def _write_rotary(config: TransformerConfig) -> Settings:
    rope: Settings = {"rope_theta": config.rope_theta, "rope_type": config.rope_type}
    if config.rope_type != "default":
        rope["factor"] = config.rope_factor
    if config.rope_type == "llama3":
        rope |= {
            "low_freq_factor": config.rope_low_freq_factor,
            "high_freq_factor": config.rope_high_freq_factor,
            "original_max_position_embeddings": config.rope_original_max_positions,
        }
    return {
        "head_dim": config.head_dim,
        # Nothing but a cache's first size; there is no limit.
        "max_position_embeddings": config.max_positions or 8192,
        "num_key_value_heads": config.num_kv_heads or config.num_heads,
        "rope_parameters": rope,
    }


def _write_mistral(config: TransformerConfig) -> Settings:
    return _write_rotary(config) | {"sliding_window": config.sliding_window or None}


def _write_gemma(config: TransformerConfig) -> Settings:
    activation = PUBLISHED_ACTIVATIONS[config.mlp_activations[0]]
    return _write_rotary(config) | {"hidden_act": activation}


def _write_gemma2(config: TransformerConfig) -> Settings:
    sliding = set(config.sliding_window_layers)
    return _write_gemma(config) | {
        "attn_logit_softcapping": config.attention_softcap or None,
        "final_logit_softcapping": config.logits_softcap or None,
        "layer_types": [
            "sliding_attention" if i in sliding else "full_attention"
            for i in range(config.num_decoder_layers)
        ],
        "query_pre_attn_scalar": round(config.attention_scale**-2),
        "sliding_window": config.sliding_window,
    }


def _family(
    name: str,
    model_type: str,
    read: Callable[[ConfigFields, Settings], Settings],
    write: Callable[[TransformerConfig], Settings],
    matches: Callable[[TransformerConfig], bool],
    norms: dict[str, str] | None = None,
) -> Family:
    activation: tuple[str, ...] = ("silu", "hidden_act")
    if model_type.startswith("gemma"):
        activation = ("gelu_pytorch_tanh", "hidden_activation", "hidden_act")
    return Family(
        name=name,
        model_type=model_type,
        architecture=f"{model_type.capitalize()}ForCausalLM",
        matches=lambda c: c.is_decoder_only and c.positions == "rotary" and matches(c),
        fields={
            "vocab_size": (32000, "vocab_size"),
            "emb_dim": (4096, "hidden_size"),
            "num_heads": (32, "num_attention_heads"),
            "num_decoder_layers": (32, "num_hidden_layers"),
            "mlp_dim": (11008, "intermediate_size"),
            "mlp_activations": activation,
            "attention_dropout_rate": (0.0, "attention_dropout"),
            "layer_norm_epsilon": (1e-6, "rms_norm_eps"),
            "max_positions": (2048, "max_position_embeddings"),
            "attention_bias": (False, "attention_bias"),
            "mlp_bias": (False, "mlp_bias"),
        },
        constants={
            "num_encoder_layers": 0,
            "dropout_rate": 0.0,
            "mlp_dropout_rate": 0.0,
            "broadcast_dropout": False,
            "scale_tied_logits": False,
            "positions": "rotary",
        },
        read=read,
        write=write,
        modules={
            "model.embed_tokens": "token_embedder",
            "model.norm": "decoder/decoder_norm",
            "lm_head": "decoder/logits_dense",
        },
        layers={
            ("model.layers", "decoder/layers"): attention(
                "self_attn", "self_attention", ("q_proj", "k_proj", "v_proj", "o_proj")
            )
            | {
                "mlp.gate_proj": "mlp/wi_0",
                "mlp.up_proj": "mlp/wi_1",
                "mlp.down_proj": "mlp/wo",
                "input_layernorm": "pre_self_attention_layer_norm",
            }
            | (norms or {"post_attention_layernorm": "pre_mlp_layer_norm"})
        },
        prefix="model.",
        unused=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
    )


LLAMA = _family(
    "Llama",
    "llama",
    _read_llama,
    _write_rotary,
    lambda c: c.norm_offset == 0.0 and c.sliding_window == 0,
)
MISTRAL = _family(
    "Mistral", "mistral", _read_mistral, _write_mistral, lambda c: c.norm_offset == 0.0
)
GEMMA = _family(
    "Gemma",
    "gemma",
    _read_gemma,
    _write_gemma,
    lambda c: c.norm_position == "pre" and c.norm_offset == 1.0,
)
GEMMA2 = _family(
    "Gemma 2",
    "gemma2",
    _read_gemma2,
    _write_gemma2,
    lambda c: c.norm_position == "sandwich",
    {
        "post_attention_layernorm": "post_self_attention_layer_norm",
        "pre_feedforward_layernorm": "pre_mlp_layer_norm",
        "post_feedforward_layernorm": "post_mlp_layer_norm",
    },
)
