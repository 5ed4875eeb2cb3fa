"""Llama, Mistral, Gemma and Gemma 2: decoder-only, rotary positions, gated feed-forward layers."""

from typing import Any

from faith_jax.errors import CheckpointError
from faith_jax.models.config import ROPE_TYPES, TransformerConfig
from faith_jax.models.importers.families.family import (
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    TensorMap,
    layer_norm,
    linear,
)


def _common(fields: ConfigFields, activation: str) -> dict[str, Any]:
    """Returns what all have alike; defaults are Llama's."""
    width = fields.whole("hidden_size", default=4096)
    heads = fields.whole("num_attention_heads", default=32)
    return {
        "vocab_size": fields.whole("vocab_size", default=32000),
        "emb_dim": width,
        "num_heads": heads,
        "num_kv_heads": fields.whole("num_key_value_heads", default=heads),
        "head_dim": fields.whole("head_dim", default=max(1, width // max(1, heads))),
        "num_encoder_layers": 0,
        "num_decoder_layers": fields.whole("num_hidden_layers", default=32),
        "mlp_dim": fields.whole("intermediate_size", default=11008),
        "mlp_activations": (activation, "linear"),
        "dropout_rate": 0.0,
        "attention_dropout_rate": fields.number("attention_dropout", default=0.0),
        "mlp_dropout_rate": 0.0,
        "broadcast_dropout": False,
        "scale_tied_logits": False,
        "layer_norm_epsilon": fields.number("rms_norm_eps", default=1e-6),
        "positions": "rotary",
        "max_positions": fields.whole("max_position_embeddings", default=2048),
        "attention_bias": fields.flag("attention_bias", False),
        "mlp_bias": fields.flag("mlp_bias", False),
        **_rope(fields),
    }


def _rope(fields: ConfigFields) -> dict[str, Any]:
    """Returns the rotary settings, in their old form (rope_theta, rope_scaling) or the new one."""
    given = dict(fields.mapping("rope_parameters", "rope_scaling"))
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in ROPE_TYPES:
        name = "rope_parameters" if fields.fields.get("rope_parameters") else "rope_scaling"
        raise CheckpointError(
            f"{fields.path}: field '{name}': expected a rope_type of {list(ROPE_TYPES)}, got "
            f"{kind!r}, which is not supported."
        )
    nested = ConfigFields({k: v for k, v in given.items() if k != "type"}, fields.path)
    theta = fields.number("rope_theta", default=10000.0)
    return {
        "rope_type": kind,
        "rope_theta": nested.number("rope_theta", default=theta),
        "rope_factor": nested.number("factor", default=1.0),
        "rope_low_freq_factor": nested.number("low_freq_factor", default=1.0),
        "rope_high_freq_factor": nested.number("high_freq_factor", default=4.0),
        "rope_original_max_positions": nested.whole(
            "original_max_position_embeddings", default=8192
        ),
    }


def _read_llama(fields: ConfigFields) -> TransformerConfig:
    common = _common(fields, fields.activation("hidden_act", default="silu"))
    return TransformerConfig(
        **common,
        attention_scale=common["head_dim"] ** -0.5,
        logits_via_embedding=fields.flag("tie_word_embeddings", False),
        pad_id=fields.distinct_pad(),
        eos_ids=fields.tokens("eos_token_id", 2),
    )


def _read_mistral(fields: ConfigFields) -> TransformerConfig:
    config = _read_llama(fields)
    if fields.fields.get("sliding_window", 4096) is None:
        return config
    return config.replace(
        sliding_window=fields.whole("sliding_window", default=4096),
        sliding_window_layers=tuple(range(config.num_decoder_layers)),
    )


def _read_gemma(fields: ConfigFields) -> TransformerConfig:
    fields.require("use_bidirectional_attention", None, None, False)
    activation = fields.activation("hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
    # Gemma was trained with the tanh form; the first releases called it "gelu".
    common = _common(fields, "gelu" if activation == "gelu_exact" else activation)
    return TransformerConfig(
        **common,
        attention_scale=common["head_dim"] ** -0.5,
        logits_via_embedding=fields.flag("tie_word_embeddings", True),
        norm_offset=1.0,
        scale_embeddings=True,
        pad_id=fields.token("pad_token_id", 0),
        eos_ids=fields.tokens("eos_token_id", 1),
    )


def _read_gemma2(fields: ConfigFields) -> TransformerConfig:
    config = _read_gemma(fields)
    types = fields.fields.get("layer_types")
    layers = range(config.num_decoder_layers)
    if types is None:
        types = ["full_attention" if i % 2 else "sliding_attention" for i in layers]
    kinds = ("sliding_attention", "full_attention")
    if (
        not isinstance(types, list)
        or len(types) != len(layers)
        or not all(kind in kinds for kind in types)
    ):
        raise CheckpointError(
            f"{fields.path}: field 'layer_types': expected one of {list(kinds)} for each of the "
            f"{len(layers)} layers, got {types!r}."
        )
    caps = {
        ours: fields.number(theirs, default=default) if theirs in fields.fields else default
        for ours, theirs, default in (
            ("attention_softcap", "attn_logit_softcapping", 50.0),
            ("logits_softcap", "final_logit_softcapping", 30.0),
        )
        if fields.fields.get(theirs, default) is not None
    }
    return config.replace(
        **caps,
        norm_position="sandwich",
        attention_scale=fields.positive("query_pre_attn_scalar", default=256) ** -0.5,
        sliding_window=fields.whole("sliding_window", default=4096),
        sliding_window_layers=tuple(i for i in layers if types[i] == "sliding_attention"),
    )


def _written(config: TransformerConfig, model_type: str, architecture: str) -> dict[str, Any]:
    rope: dict[str, Any] = {"rope_theta": config.rope_theta, "rope_type": config.rope_type}
    if config.rope_type != "default":
        rope["factor"] = config.rope_factor
    if config.rope_type == "llama3":
        rope |= {
            "low_freq_factor": config.rope_low_freq_factor,
            "high_freq_factor": config.rope_high_freq_factor,
            "original_max_position_embeddings": config.rope_original_max_positions,
        }
    activation = PUBLISHED_ACTIVATIONS[config.mlp_activations[0]]
    return {
        "architectures": [architecture],
        "attention_bias": config.attention_bias,
        "attention_dropout": config.attention_weights_dropout,
        "head_dim": config.head_dim,
        "hidden_act": "gelu_pytorch_tanh" if activation == "gelu_new" else activation,
        "hidden_size": config.emb_dim,
        "intermediate_size": config.mlp_dim,
        # Nothing but a cache's first size; there is no limit.
        "max_position_embeddings": config.max_positions or 8192,
        "model_type": model_type,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.num_decoder_layers,
        "num_key_value_heads": config.num_kv_heads or config.num_heads,
        "rms_norm_eps": config.layer_norm_epsilon,
        "rope_parameters": rope,
    }


def _write_llama(config: TransformerConfig) -> dict[str, Any]:
    return _written(config, "llama", "LlamaForCausalLM") | {"mlp_bias": config.mlp_bias}


def _write_mistral(config: TransformerConfig) -> dict[str, Any]:
    written = _written(config, "mistral", "MistralForCausalLM")
    del written["attention_bias"]
    return written | {"sliding_window": config.sliding_window or None}


def _write_gemma(config: TransformerConfig) -> dict[str, Any]:
    return _written(config, "gemma", "GemmaForCausalLM")


def _write_gemma2(config: TransformerConfig) -> dict[str, Any]:
    written = _written(config, "gemma2", "Gemma2ForCausalLM")
    sliding = set(config.sliding_window_layers)
    return written | {
        "attn_logit_softcapping": config.attention_softcap or None,
        "final_logit_softcapping": config.logits_softcap or None,
        "hidden_activation": written.pop("hidden_act"),
        "layer_types": [
            "sliding_attention" if i in sliding else "full_attention"
            for i in range(config.num_decoder_layers)
        ],
        "query_pre_attn_scalar": round(config.attention_scale**-2),
        "sliding_window": config.sliding_window,
    }


_NORMS = {
    "input_layernorm": "pre_self_attention_layer_norm",
    "post_attention_layernorm": "pre_mlp_layer_norm",
}
_SANDWICH_NORMS = {
    "input_layernorm": "pre_self_attention_layer_norm",
    "post_attention_layernorm": "post_self_attention_layer_norm",
    "pre_feedforward_layernorm": "pre_mlp_layer_norm",
    "post_feedforward_layernorm": "post_mlp_layer_norm",
}


def tensors(config: TransformerConfig) -> list[TensorMap]:
    """See `Family`."""
    maps = [
        TensorMap("model.embed_tokens.weight", ("token_embedder/embedding",)),
        *layer_norm("model.norm", "decoder/decoder_norm", bias=False),
    ]
    norms = _SANDWICH_NORMS if config.norm_position == "sandwich" else _NORMS
    projections = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "out"}
    kernels = {"gate_proj": "wi_0", "up_proj": "wi_1", "down_proj": "wo"}
    for i in range(config.num_decoder_layers):
        theirs, ours = f"model.layers.{i}", f"decoder/layers_{i}"
        for a, b in norms.items():
            maps += layer_norm(f"{theirs}.{a}", f"{ours}/{b}", bias=False)
        for a, b in projections.items():
            name = f"{ours}/self_attention/{b}"
            maps += linear(f"{theirs}.self_attn.{a}", name, bias=config.attention_bias)
        for a, b in kernels.items():
            maps += linear(f"{theirs}.mlp.{a}", f"{ours}/mlp/{b}", bias=config.mlp_bias)
    return maps


def _family(name, model_type, read_config, write_config, matches) -> Family:
    return Family(
        name=name,
        model_types=(model_type,),
        prefix="model.",
        read_config=read_config,
        write_config=write_config,
        tensors=tensors,
        unused=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
        matches=lambda c: c.is_decoder_only and c.positions == "rotary" and matches(c),
    )


GEMMA2 = _family(
    "Gemma 2", "gemma2", _read_gemma2, _write_gemma2, lambda c: c.norm_position == "sandwich"
)
GEMMA = _family(
    "Gemma",
    "gemma",
    _read_gemma,
    _write_gemma,
    lambda c: c.norm_position == "pre" and c.norm_offset == 1.0,
)
MISTRAL = _family(
    "Mistral",
    "mistral",
    _read_mistral,
    _write_mistral,
    lambda c: c.norm_offset == 0.0,
)
LLAMA = _family(
    "Llama",
    "llama",
    _read_llama,
    _write_llama,
    lambda c: c.norm_offset == 0.0 and c.sliding_window == 0,
)
