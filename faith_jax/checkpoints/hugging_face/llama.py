"""Llama, Mistral, Qwen2, Qwen3 and Gemma 1 to 3: decoder-only, rotary, gated feed-forward layers.

Qwen2 is a Llama with biases of queries, keys and values; Qwen3 has norms of queries and keys.
"""

import re

from faith_jax.checkpoints.hugging_face.family import (
    CAUSAL,
    FULL,
    PUBLISHED_ACTIVATIONS,
    SLIDING,
    ConfigFields,
    Family,
    Settings,
    attention_modules,
    usual_head_dim,
)
from faith_jax.core.errors import format_value
from faith_jax.models.config import ROPE_TYPES, TransformerConfig

_ROTARY = {
    "is_decoder_only": True,
    "positions": "rotary",
    "attention_output_bias": True,
    "query_key_norm": False,
}
ORIGINAL_LENGTH = "original_max_position_embeddings"
SEES_IMAGES = "gemma3"  # the `model_type` of a Gemma 3 with a language model and more
# Settings of rotary positions, with their defaults and names.
_ROPE = {
    "rope_factor": (1.0, "factor"),
    "rope_low_freq_factor": (1.0, "low_freq_factor"),
    "rope_high_freq_factor": (4.0, "high_freq_factor"),
    "rope_original_max_positions": (8192, ORIGINAL_LENGTH),
}


def _read_llama(fields: ConfigFields, base_settings: Settings) -> Settings:
    """Reads the settings of all these families; rotary positions may have an old form.

    As in Transformers 5, the old form takes precedence over the new one. Llama 3's original length
    may also be a separate field, which takes precedence, or be missing.
    """
    name = "rope_scaling" if fields.fields.get("rope_scaling") else "rope_parameters"
    rope_fields = fields.get(name, default={})
    kind = rope_fields.get("rope_type", rope_fields.get("type", "default"))
    if kind not in ROPE_TYPES:
        raise fields.error(name, f"a rope_type of {list(ROPE_TYPES)} and not {format_value(kind)}")
    if kind == "llama3":
        inside = rope_fields.get(ORIGINAL_LENGTH) or base_settings["max_positions"]
        rope_fields = rope_fields | {ORIGINAL_LENGTH: fields.fields.get(ORIGINAL_LENGTH) or inside}
    rope = ConfigFields(rope_fields, fields.path)
    theta = fields.get("rope_theta", default=10000.0)
    return {
        "mlp_activations": (*base_settings["mlp_activations"], "linear"),
        "rope_type": kind,
        "rope_theta": rope.get("rope_theta", default=theta),
        **{ours: rope.get(name, default=default) for ours, (default, name) in _ROPE.items()},
    }


def _write_llama(config: TransformerConfig) -> Settings:
    names = {"default": [], "llama3": list(_ROPE)}.get(config.rope_type, ["rope_factor"])
    rope = {_ROPE[ours][1]: getattr(config, ours) for ours in names}
    return {
        # Only the initial size of a cache, not a limit.
        "max_position_embeddings": config.max_positions or 8192,
        "rope_parameters": rope | {"rope_theta": config.rope_theta, "rope_type": config.rope_type},
    }


def _read_mistral(fields: ConfigFields, base_settings: Settings) -> Settings:
    settings = _read_llama(fields, base_settings)
    if fields.fields.get("sliding_window", 4096) is None:
        return settings
    return settings | {
        "sliding_window": fields.get("sliding_window", default=4096),
        "sliding_window_layers": tuple(range(base_settings["num_decoder_layers"])),
    }


def _read_gemma(fields: ConfigFields, base_settings: Settings) -> Settings:
    settings = _read_llama(fields, base_settings)
    # Gemma 1 was trained with the tanh form, which its first releases called "gelu".
    activation, gate = settings["mlp_activations"]
    return settings | {
        "mlp_activations": ("gelu" if activation == "gelu_exact" else activation, gate),
    }


def _read_gemma2(fields: ConfigFields, base_settings: Settings) -> Settings:
    types = [(SLIDING, FULL)[i % 2] for i in range(base_settings["num_decoder_layers"])]
    scalar = fields.get("query_pre_attn_scalar", default=256.0)
    if scalar <= 0:
        raise fields.error("query_pre_attn_scalar", "a positive number")
    settings = _read_llama(fields, base_settings) | {
        "attention_scale": scalar**-0.5,
        "sliding_window": fields.get("sliding_window", default=4096),
        "sliding_window_layers": fields.sliding_layers(types),
    }
    for ours, name, default in (
        ("attention_softcap", "attn_logit_softcapping", 50.0),
        ("logits_softcap", "final_logit_softcapping", 30.0),
    ):
        if fields.fields.get(name, default) is not None:
            settings[ours] = fields.get(name, default=default)
    return settings


def _write_gemma2(config: TransformerConfig) -> Settings:
    layers = range(config.num_decoder_layers)
    return _write_llama(config) | {
        "attn_logit_softcapping": config.attention_softcap or None,
        "final_logit_softcapping": config.logits_softcap or None,
        "layer_types": [SLIDING if i in config.sliding_window_layers else FULL for i in layers],
        "query_pre_attn_scalar": round(config.attention_scale**-2),
        "sliding_window": config.sliding_window,
    }


def _read_gemma3(fields: ConfigFields, base_settings: Settings) -> Settings:
    """Reads a Gemma 3, whose layers with windows have separate, unscaled rotary positions.

    As in Transformers 5, an older `rope_scaling` is for the other layers and takes precedence.
    """
    period = fields.get("sliding_window_pattern", default=6)
    if period < 1:
        raise fields.error("sliding_window_pattern", "a positive whole number")
    layers = range(1, base_settings["num_decoder_layers"] + 1)
    by_kind = ConfigFields(fields.get("rope_parameters", default={}), fields.path)
    of_windows = ConfigFields(by_kind.get(SLIDING, default={}), fields.path)
    if of_windows.fields.get("rope_type", "default") != "default":
        raise fields.error("rope_parameters", f'a rope_type of "default" for {SLIDING}')
    defaults: Settings = {
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "layer_types": [SLIDING if number % period else FULL for number in layers],
        "rope_theta": 1_000_000.0,
    }
    not_null = {name: value for name, value in fields.fields.items() if value is not None}
    rope = by_kind.get(FULL, default={}) | fields.get("rope_scaling", default={})
    as_gemma2 = defaults | not_null | {"rope_parameters": rope, "rope_scaling": None}
    theta = fields.get("rope_local_base_freq", default=10_000.0)
    return _read_gemma2(ConfigFields(as_gemma2, fields.path), base_settings) | {
        "rope_window_theta": of_windows.get("rope_theta", default=theta)
    }


def _write_gemma3(config: TransformerConfig) -> Settings:
    settings = _write_gemma2(config)
    theta = config.rope_window_theta or config.rope_theta
    of_windows = {"rope_theta": theta, "rope_type": "default"}
    return settings | {"rope_parameters": {FULL: settings["rope_parameters"], SLIDING: of_windows}}


_LLAMA_LAYER = attention_modules(
    "self_attn", "self_attention", ("q_proj", "k_proj", "v_proj", "o_proj")
) | {
    "mlp.gate_proj": "mlp/wi_0",
    "mlp.up_proj": "mlp/wi_1",
    "mlp.down_proj": "mlp/wo",
    "input_layernorm": "pre_self_attention_layer_norm",
    "post_attention_layernorm": "pre_mlp_layer_norm",
}
LLAMA = Family(
    name="Llama",
    model_type="llama",
    architecture="LlamaForCausalLM",
    marks={**_ROTARY, "norm_offset": 0.0, "sliding_window": 0},
    fields={
        "vocab_size": (32000, "vocab_size"),
        "emb_dim": (4096, "hidden_size"),
        "num_heads": (32, "num_attention_heads"),
        "num_decoder_layers": (32, "num_hidden_layers"),
        "num_kv_heads": (lambda base_settings: base_settings["num_heads"], "num_key_value_heads"),
        "head_dim": (usual_head_dim, "head_dim"),
        "mlp_dim": (11008, "intermediate_size"),
        "mlp_activations": ("silu", "hidden_act"),
        "attention_dropout_rate": (0.0, "attention_dropout"),
        "layer_norm_epsilon": (1e-6, "rms_norm_eps"),
        "max_positions": (2048, "max_position_embeddings"),
        "attention_bias": (False, "attention_bias"),
        "mlp_bias": (False, "mlp_bias"),
        "logits_via_embedding": (False, "tie_word_embeddings"),
    },
    constants=CAUSAL
    | {
        "dropout_rate": 0.0,
        "mlp_dropout_rate": 0.0,
        "broadcast_dropout": False,
        "positions": "rotary",
    },
    read=_read_llama,
    write=_write_llama,
    modules={
        "model.embed_tokens": "token_embedder",
        "model.norm": "decoder/decoder_norm",
        "lm_head": "decoder/logits_dense",
    },
    layers={("model.layers", "decoder/layers"): _LLAMA_LAYER},
    prefix="model.",
    unused=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
)
MISTRAL = LLAMA.replace(
    name="Mistral",
    model_type="mistral",
    architecture="MistralForCausalLM",
    marks={**_ROTARY, "norm_offset": 0.0},
    read=_read_mistral,
    write=lambda config: _write_llama(config) | {"sliding_window": config.sliding_window or None},
)
_QUERY_KEY_NORMS = {
    "self_attn.q_norm": "self_attention/query_norm",
    "self_attn.k_norm": "self_attention/key_norm",
}
QWEN2 = LLAMA.replace(
    name="Qwen2",
    model_type="qwen2",
    architecture="Qwen2ForCausalLM",
    marks={**LLAMA.marks, "attention_output_bias": False},
    fields=LLAMA.fields | {"attention_bias": (True, "attention_bias")},
    constants=LLAMA.constants | {"attention_output_bias": False},
    required={"use_sliding_window": (False, False)},
    end=None,
)
QWEN3 = LLAMA.replace(
    name="Qwen3",
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    marks={**LLAMA.marks, "query_key_norm": True},
    fields=LLAMA.fields | {"head_dim": (128, "head_dim")},
    constants=LLAMA.constants | {"query_key_norm": True},
    required=QWEN2.required,
    end=None,
    layers={("model.layers", "decoder/layers"): _LLAMA_LAYER | _QUERY_KEY_NORMS},
)
GEMMA = LLAMA.replace(
    name="Gemma",
    model_type="gemma",
    architecture="GemmaForCausalLM",
    marks={**_ROTARY, "norm_offset": 1.0, "norm_position": "pre"},
    fields=LLAMA.fields
    | {
        "mlp_activations": ("gelu_pytorch_tanh", "hidden_activation", "hidden_act"),
        "logits_via_embedding": (True, "tie_word_embeddings"),
    },
    constants=LLAMA.constants | {"norm_offset": 1.0, "scale_embeddings": True},
    required={"use_bidirectional_attention": (None, None, False)},
    pad=lambda fields: fields.pad(0),
    end=1,
    read=_read_gemma,
    write=lambda config: (
        _write_llama(config) | {"hidden_act": PUBLISHED_ACTIVATIONS[config.mlp_activations[0]]}
    ),
)
_SANDWICHED_LAYER = _LLAMA_LAYER | {
    "post_attention_layernorm": "post_self_attention_layer_norm",
    "pre_feedforward_layernorm": "pre_mlp_layer_norm",
    "post_feedforward_layernorm": "post_mlp_layer_norm",
}
GEMMA2 = GEMMA.replace(
    name="Gemma 2",
    model_type="gemma2",
    architecture="Gemma2ForCausalLM",
    marks={**_ROTARY, "norm_position": "sandwich"},
    fields=GEMMA.fields | {"mlp_activations": ("gelu_pytorch_tanh", "hidden_activation")},
    constants=GEMMA.constants | {"norm_position": "sandwich"},
    read=_read_gemma2,
    write=_write_gemma2,
    layers={("model.layers", "decoder/layers"): _SANDWICHED_LAYER},
)
GEMMA3 = GEMMA2.replace(
    name="Gemma 3",
    model_type="gemma3_text",
    architecture="Gemma3ForCausalLM",
    marks={**GEMMA2.marks, "query_key_norm": True, "attention_softcap": 0.0},
    fields=GEMMA2.fields
    | {
        "vocab_size": (262_208, "vocab_size"),
        "emb_dim": (2304, "hidden_size"),
        "num_heads": (8, "num_attention_heads"),
        "num_decoder_layers": (26, "num_hidden_layers"),
        "num_kv_heads": (4, "num_key_value_heads"),
        "head_dim": (256, "head_dim"),
        "mlp_dim": (9216, "intermediate_size"),
        "max_positions": (131_072, "max_position_embeddings"),
    },
    constants=GEMMA2.constants | {"query_key_norm": True},
    required={**GEMMA2.required, "attn_logit_softcapping": (None, None)},
    read=_read_gemma3,
    write=_write_gemma3,
    layers={("model.layers", "decoder/layers"): _SANDWICHED_LAYER | _QUERY_KEY_NORMS},
)


def language_model_fields(fields: ConfigFields) -> Settings:
    """Returns the language model's config.json for a Gemma 3 that sees images (`SEES_IMAGES`)."""
    of_all = ("bos_token_id", "eos_token_id", "pad_token_id", "quantization_config")
    return fields.get("text_config", default={}) | {
        "architectures": [GEMMA3.architecture],
        "model_type": GEMMA3.model_type,
        **{name: fields.fields[name] for name in of_all if name in fields.fields},
    }


def language_model_name(name: str) -> str:
    """Returns a tensor's name in the language model; "" for tensors of the vision modules."""
    if re.match(r"(model\.)?(vision_tower|multi_modal_projector)\.", name):
        return ""
    name = re.sub(r"^(model\.language_model|language_model\.model)\.", "model.", name)
    return name.removeprefix("language_model.")
