"""All model families as tables: their config.json and their tensors in our terms."""

import functools
from collections.abc import Sequence
from typing import Any

from faith_jax.checkpoints.hugging_face.family import (
    ACTIVATIONS,
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    usual_head_dim,
)
from faith_jax.models.config import ROPE_TYPES, TransformerConfig

LOGITS_BIAS = "final_logits_bias"
Settings = dict[str, Any]

_FUSED = "self_attention/query self_attention/key self_attention/value"


def _attention(theirs: str, ours: str, names: Sequence[str]) -> dict[str, str]:
    """Returns the modules of an attention; names are the query's, key's, value's and output's."""
    parts = ("query", "key", "value", "out")
    return {f"{theirs}.{a}": f"{ours}/{b}" for a, b in zip(names, parts, strict=True)}


# The settings of all families with layer norms, and of all decoder-only ones.
_LAYER_NORM: Settings = {
    "norm": "layer",
    "attention_bias": True,
    "mlp_bias": True,
    "mlp_dropout_rate": 0.0,
    "broadcast_dropout": False,
}
_CAUSAL: Settings = {"num_encoder_layers": 0, "scale_tied_logits": False}

# --- GPT-2 and DialoGPT: decoder-only, learned positions.


def _read_gpt2(fields: ConfigFields, said: Settings) -> Settings:
    scaled = fields.get("scale_attn_weights", default=True)
    return {"attention_scale": said["head_dim"] ** -0.5 if scaled else 1.0}


def _write_gpt2(config: TransformerConfig) -> Settings:
    return {
        "bos_token_id": config.eos_ids[0] if config.eos_ids else None,
        "embd_pdrop": config.dropout_rate,
        "scale_attn_weights": config.attention_scale != 1.0,
    }


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
        "mlp_dim": (lambda said: 4 * said["emb_dim"], "n_inner"),
        "mlp_activations": ("gelu_new", "activation_function"),
        "dropout_rate": (0.1, "resid_pdrop"),
        "attention_dropout_rate": (0.1, "attn_pdrop"),
        "layer_norm_epsilon": (1e-5, "layer_norm_epsilon"),
        "max_positions": (1024, "n_positions", "max_position_embeddings"),
    },
    constants=_LAYER_NORM | _CAUSAL | {"logits_via_embedding": True, "positions": "learned"},
    required={
        "scale_attn_by_inverse_layer_idx": (False, False),
        "add_cross_attention": (False, False),
    },
    end=50256,
    read=_read_gpt2,
    write=_write_gpt2,
    modules={
        "transformer.wte": "token_embedder",
        "transformer.wpe": "decoder/position_embedder",
        "transformer.ln_f": "decoder/decoder_norm",
        "lm_head": "decoder/logits_dense",
    },
    layers={
        ("transformer.h", "decoder/layers"): {
            "ln_1": "pre_self_attention_layer_norm",
            "attn.c_attn": _FUSED,
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

# --- BLOOM: decoder-only, ALiBi, a norm behind the embeddings.

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
    constants=_LAYER_NORM
    | _CAUSAL
    | {
        "mlp_activations": ("gelu",),
        "logits_via_embedding": True,
        "embedding_norm": True,
        "positions": "alibi",
    },
    required={"apply_residual_connection_post_layernorm": (False, False)},
    read=lambda fields, said: {"mlp_dim": 4 * said["emb_dim"]},
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
            "self_attention.query_key_value": _FUSED,
            "self_attention.dense": "self_attention/out",
            "post_attention_layernorm": "pre_mlp_layer_norm",
            "mlp.dense_h_to_4h": "mlp/wi",
            "mlp.dense_4h_to_h": "mlp/wo",
        }
    },
    interleaved=True,
    prefix="transformer.",
)

# --- Llama, Mistral, Gemma and Gemma 2: decoder-only, rotary positions, gated feed-forward layers.

_ROTARY = {"is_decoder_only": True, "positions": "rotary"}
# Settings of rotary positions, with their defaults and names.
_ROPE = {
    "rope_factor": (1.0, "factor"),
    "rope_low_freq_factor": (1.0, "low_freq_factor"),
    "rope_high_freq_factor": (4.0, "high_freq_factor"),
    "rope_original_max_positions": (8192, "original_max_position_embeddings"),
}


def _read_llama(fields: ConfigFields, said: Settings) -> Settings:
    """Reads the settings of all four; those of rotary positions may have an old form."""
    given = fields.get("rope_parameters", "rope_scaling", default={})
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in ROPE_TYPES:
        name = "rope_parameters" if fields.fields.get("rope_parameters") else "rope_scaling"
        raise fields.error(name, f"a rope_type of {list(ROPE_TYPES)}")
    rope = ConfigFields(given, fields.path)
    theta = fields.get("rope_theta", default=10000.0)
    return {
        "mlp_activations": (*said["mlp_activations"], "linear"),
        "rope_type": kind,
        "rope_theta": rope.get("rope_theta", default=theta),
        **{ours: rope.get(name, default=default) for ours, (default, name) in _ROPE.items()},
    }


def _write_llama(config: TransformerConfig) -> Settings:
    names = {"default": [], "llama3": list(_ROPE)}.get(config.rope_type, ["rope_factor"])
    rope = {_ROPE[ours][1]: getattr(config, ours) for ours in names}
    return {
        # Only the first size of a cache; there is no limit.
        "max_position_embeddings": config.max_positions or 8192,
        "rope_parameters": rope | {"rope_theta": config.rope_theta, "rope_type": config.rope_type},
    }


def _read_mistral(fields: ConfigFields, said: Settings) -> Settings:
    settings = _read_llama(fields, said)
    if fields.fields.get("sliding_window", 4096) is None:
        return settings
    return settings | {
        "sliding_window": fields.get("sliding_window", default=4096),
        "sliding_window_layers": tuple(range(said["num_decoder_layers"])),
    }


def _write_mistral(config: TransformerConfig) -> Settings:
    return _write_llama(config) | {"sliding_window": config.sliding_window or None}


def _read_gemma(fields: ConfigFields, said: Settings) -> Settings:
    settings = _read_llama(fields, said)
    # Gemma was trained with the tanh form; the first releases called it "gelu".
    activation, gate = settings["mlp_activations"]
    return settings | {
        "mlp_activations": ("gelu" if activation == "gelu_exact" else activation, gate),
    }


def _write_gemma(config: TransformerConfig) -> Settings:
    activation = PUBLISHED_ACTIVATIONS[config.mlp_activations[0]]
    return _write_llama(config) | {"hidden_act": activation}


_SLIDING, _FULL = "sliding_attention", "full_attention"


def _read_gemma2(fields: ConfigFields, said: Settings) -> Settings:
    layers = range(said["num_decoder_layers"])
    types = fields.fields.get("layer_types") or [(_SLIDING, _FULL)[i % 2] for i in layers]
    known = isinstance(types, list) and all(kind in (_SLIDING, _FULL) for kind in types)
    if not known or len(types) != len(layers):
        expected = f"one of {[_SLIDING, _FULL]} for each of the {len(layers)} layers"
        raise fields.error("layer_types", expected)
    scalar = fields.get("query_pre_attn_scalar", default=256.0)
    if scalar <= 0:
        raise fields.error("query_pre_attn_scalar", "a positive number")
    settings = _read_gemma(fields, said) | {
        "attention_scale": scalar**-0.5,
        "sliding_window": fields.get("sliding_window", default=4096),
        "sliding_window_layers": tuple(i for i in layers if types[i] == _SLIDING),
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
    return _write_gemma(config) | {
        "attn_logit_softcapping": config.attention_softcap or None,
        "final_logit_softcapping": config.logits_softcap or None,
        "layer_types": [_SLIDING if i in config.sliding_window_layers else _FULL for i in layers],
        "query_pre_attn_scalar": round(config.attention_scale**-2),
        "sliding_window": config.sliding_window,
    }


_LLAMA_LAYER = _attention(
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
        "num_kv_heads": (lambda said: said["num_heads"], "num_key_value_heads"),
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
    constants=_CAUSAL
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
    write=_write_mistral,
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
    write=_write_gemma,
)
GEMMA2 = GEMMA.replace(
    name="Gemma 2",
    model_type="gemma2",
    architecture="Gemma2ForCausalLM",
    marks={**_ROTARY, "norm_position": "sandwich"},
    constants=GEMMA.constants | {"norm_position": "sandwich"},
    read=_read_gemma2,
    write=_write_gemma2,
    layers={
        ("model.layers", "decoder/layers"): _LLAMA_LAYER
        | {
            "post_attention_layernorm": "post_self_attention_layer_norm",
            "pre_feedforward_layernorm": "pre_mlp_layer_norm",
            "post_feedforward_layernorm": "post_mlp_layer_norm",
        }
    },
)

# --- RoBERTa and XLM-RoBERTa: encoder-only, learned positions, norms behind the residual sums.


def _bert_layer(*names: str) -> dict[str, str]:
    """Returns the modules of a layer; `names` are the query's, key's and value's."""
    own = (*(f"self.{name}" for name in names), "output.dense")
    return _attention("attention", "attention", own) | {
        "attention.output.LayerNorm": "post_attention_layer_norm",
        "intermediate.dense": "mlp/wi",
        "output.dense": "mlp/wo",
        "output.LayerNorm": "post_mlp_layer_norm",
    }


def _rate(fields: ConfigFields, name: str) -> float | None:
    return None if fields.fields.get(name) is None else fields.get(name, default=0.0)


def _write_labels(config: TransformerConfig) -> Settings:
    names = config.label_names
    return {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
    }


def _read_roberta(fields: ConfigFields, said: Settings) -> Settings:
    pad = fields.padding(1)
    return {
        "label_names": fields.labels(),
        "classifier_dropout_rate": _rate(fields, "classifier_dropout"),
        "max_positions": fields.get("max_position_embeddings", default=512) - pad - 1,
        "position_offset": pad + 1,
    }


def _write_roberta(config: TransformerConfig) -> Settings:
    return _write_labels(config) | {
        "bos_token_id": 0,
        "classifier_dropout": config.classifier_dropout_rate,
        "max_position_embeddings": config.max_positions + config.position_offset,
    }


ROBERTA = Family(
    name="RoBERTa",
    model_type="roberta",
    architecture="Roberta",
    marks={"is_encoder_only": True, "positions": "learned"},
    fields={
        "emb_dim": (768, "hidden_size"),
        "num_heads": (12, "num_attention_heads"),
        "num_encoder_layers": (12, "num_hidden_layers"),
        "mlp_dim": (3072, "intermediate_size"),
        "mlp_activations": ("gelu", "hidden_act"),
        "dropout_rate": (0.1, "hidden_dropout_prob"),
        "attention_dropout_rate": (0.1, "attention_probs_dropout_prob"),
        "vocab_size": (50265, "vocab_size"),
        "layer_norm_epsilon": (1e-12, "layer_norm_eps"),
        "num_token_types": (2, "type_vocab_size"),
    },
    constants=_LAYER_NORM
    | {
        "num_decoder_layers": 0,
        "norm_position": "post",
        "embedding_norm": True,
        "positions": "learned",
    },
    required={"position_embedding_type": ("absolute", "absolute"), "is_decoder": (False, False)},
    pad=lambda fields: fields.padding(1),
    read=_read_roberta,
    write=_write_roberta,
    modules={
        "roberta.embeddings.word_embeddings": "token_embedder",
        "roberta.embeddings.position_embeddings": "encoder/position_embedder",
        "roberta.embeddings.token_type_embeddings": "encoder/token_type_embedder",
        "roberta.embeddings.LayerNorm": "encoder/embedding_norm",
        "classifier.dense": "classifier/dense",
        "classifier.out_proj": "classifier/out",
    },
    layers={("roberta.encoder.layer", "encoder/layers"): _bert_layer("query", "key", "value")},
    prefix="roberta.",
    unused=r"embeddings\.(position_ids|token_type_ids)|pooler\.dense\.(weight|bias)|lm_head\..*",
)
XLM_ROBERTA = ROBERTA.replace(
    name="XLM-RoBERTa", model_type="xlm-roberta", architecture="XLMRoberta"
)

# --- DeBERTa-v3 (published as deberta-v2): encoder-only, disentangled attention.


def _read_deberta(fields: ConfigFields, said: Settings) -> Settings:
    for name in ("embedding_size", "pooler_hidden_size"):
        fields.require(name, said["emb_dim"], said["emb_dim"])
    # Contents meet positions both ways, and positions are normalised.
    kinds = fields.fields.get("pos_att_type")
    kinds = "|".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)
    if sorted(kinds.lower().split("|")) != ["c2p", "p2c"]:
        raise fields.error("pos_att_type", '"p2c|c2p"; other attentions are not supported')
    if "layer_norm" not in str(fields.fields.get("norm_rel_ebd", "none")).lower().split("|"):
        raise fields.error("norm_rel_ebd", '"layer_norm"; only DeBERTa-v3\'s form is supported')
    buckets = fields.get("position_buckets", default=-1)
    if buckets < 4 or buckets % 2:
        raise fields.error("position_buckets", "an even number from 4 on; others are not supported")
    distance = fields.get("max_relative_positions", default=-1)
    return {
        "label_names": fields.labels(),
        "classifier_activation": fields.get("pooler_hidden_act", default="gelu"),
        "classifier_dropout_rate": _rate(fields, "cls_dropout"),
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": distance if distance >= 1 else said["max_positions"],
        "attention_scale": (3 * said["head_dim"]) ** -0.5,
    }


def _write_deberta(config: TransformerConfig) -> Settings:
    rate = config.classifier_dropout_rate
    return (
        _write_labels(config)
        | ({} if rate is None else {"cls_dropout": rate})
        | {
            "max_relative_positions": config.relative_attention_max_distance,
            "norm_rel_ebd": "layer_norm",
            "pooler_dropout": 0,
            "pooler_hidden_act": PUBLISHED_ACTIVATIONS[config.classifier_activation],
            "pooler_hidden_size": config.emb_dim,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "position_buckets": config.relative_attention_num_buckets,
            "relative_attention": True,
            "share_att_key": True,
        }
    )


DEBERTA = ROBERTA.replace(
    name="DeBERTa-v3",
    model_type="deberta-v2",
    architecture="DebertaV2",
    marks={"is_encoder_only": True, "positions": "disentangled"},
    fields=ROBERTA.fields
    | {
        "vocab_size": (128100, "vocab_size"),
        "layer_norm_epsilon": (1e-7, "layer_norm_eps"),
        "max_positions": (512, "max_position_embeddings"),
        "num_token_types": (0, "type_vocab_size"),
    },
    constants=ROBERTA.constants | {"positions": "disentangled"},
    required={
        "relative_attention": (False, True),
        "share_att_key": (False, True),
        "position_biased_input": (True, False),
        "conv_kernel_size": (0, 0),
        "pooler_dropout": (0, 0),
    },
    pad=lambda fields: fields.pad(0),
    end=None,
    read=_read_deberta,
    write=_write_deberta,
    modules={
        "deberta.embeddings.word_embeddings": "token_embedder",
        "deberta.embeddings.token_type_embeddings": "encoder/token_type_embedder",
        "deberta.embeddings.LayerNorm": "encoder/embedding_norm",
        "deberta.encoder.rel_embeddings": "encoder/relative_embedder",
        "deberta.encoder.LayerNorm": "encoder/relative_norm",
        "pooler.dense": "classifier/dense",
        "classifier": "classifier/out",
    },
    layers={
        ("deberta.encoder.layer", "encoder/layers"): _bert_layer(
            "query_proj", "key_proj", "value_proj"
        )
    },
    prefix="deberta.",
    unused=(
        r"embeddings\.position_ids|lm_predictions\..*|mask_predictions\..*|cls\..*|"
        r"pooler\.dense\.(weight|bias)"
    ),
)

# --- BART: encoder-decoder, learned positions, norms behind the residual sums. DoHA's tensors
# `decoder.layers.N.knowledge_attn` and `knowledge_attn_layer_norm` are names of our own.


def _read_bart(fields: ConfigFields, said: Settings) -> Settings:
    for name, ours in (("decoder_attention_heads", "num_heads"), ("decoder_ffn_dim", "mlp_dim")):
        if fields.get(name, default=said[ours]) != said[ours]:
            raise fields.error(name, f"{said[ours]}, as the encoder has; others are not supported")
    return {"knowledge_attention": fields.get("knowledge_attention", default=False)}


def _write_bart(config: TransformerConfig) -> Settings:
    doha = {"knowledge_attention": True} if config.knowledge_attention else {}
    return doha | {
        "bos_token_id": 0,
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.mlp_dim,
        "is_encoder_decoder": True,
    }


_bart_attention = functools.partial(_attention, names=("q_proj", "k_proj", "v_proj", "out_proj"))
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
        "scale_embeddings": (False, "scale_embedding"),
        "max_positions": (1024, "max_position_embeddings"),
        "decoder_start_id": (2, "decoder_start_token_id"),
    },
    constants=_LAYER_NORM
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
    unused=r"(encoder|decoder)\.embed_tokens\.weight|classification_head\..*",
    embedding_copies=("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"),
)

# --- T5, Flan-T5 and mT5: encoder-decoder, with biases of relative positions.


def _read_t5(fields: ConfigFields, said: Settings, projection: str) -> Settings:
    """Reads the other settings; `projection` is the family's default feed-forward layer."""
    projection = str(fields.fields.get("feed_forward_proj") or projection)
    gate, _, name = projection.rpartition("-")
    # By "gated-gelu" Transformers means the tanh form, though by "gelu" the exact one.
    name = "gelu_new" if projection == "gated-gelu" else name
    name = str(fields.fields.get("dense_act_fn") or name)
    if gate not in ("", "gated") or name not in ACTIVATIONS:
        raise fields.error("feed_forward_proj", f"one of {sorted(ACTIVATIONS)}, or 'gated-' and it")
    gated = fields.get("is_gated_act", default=bool(gate))
    tied = fields.get("tie_word_embeddings", default=True)
    return {
        "mlp_activations": (ACTIVATIONS[name], "linear") if gated else (ACTIVATIONS[name],),
        # Transformers 5 writes scale_decoder_outputs; in older files tie_word_embeddings says it.
        "logits_via_embedding": fields.get("scale_decoder_outputs", default=tied),
    }


def _write_t5(config: TransformerConfig) -> Settings:
    activation = PUBLISHED_ACTIVATIONS[config.mlp_activations[0]]
    gated = len(config.mlp_activations) == 2
    name = "gelu" if gated and activation == "gelu_new" else activation
    return {
        "decoder_start_token_id": config.decoder_start_id,
        "dense_act_fn": activation,
        "feed_forward_proj": f"gated-{name}" if gated else name,
        "is_encoder_decoder": True,
        "is_gated_act": gated,
        "scale_decoder_outputs": config.logits_via_embedding,
    }


def _t5_layer(*attentions: tuple[str, str, str]) -> dict[str, str]:
    """Returns the modules of a layer with attentions, each by its name, ours, and its norm's."""
    modules: dict[str, str] = {}
    for i, (theirs, ours, norm) in enumerate(attentions):
        modules |= _attention(f"layer.{i}.{theirs}", ours, "qkvo")
        modules[f"layer.{i}.layer_norm"] = norm
    mlp = f"layer.{len(attentions)}"
    modules |= {f"{mlp}.DenseReluDense.{x}": f"mlp/{x}" for x in ("wi", "wi_0", "wi_1", "wo")}
    return modules | {f"{mlp}.layer_norm": "pre_mlp_layer_norm"}


_T5_POSITIONS = "block.0.layer.0.SelfAttention.relative_attention_bias"
T5 = Family(
    name="T5",
    model_type="t5",
    architecture="T5ForConditionalGeneration",
    marks={
        "is_decoder_only": False,
        "is_encoder_only": False,
        "norm": "rms",
        "positions": "relative_bias",
    },
    fields={
        "vocab_size": (32128, "vocab_size"),
        "emb_dim": (512, "d_model"),
        "num_heads": (8, "num_heads"),
        "head_dim": (64, "d_kv"),
        "num_encoder_layers": (6, "num_layers"),
        "num_decoder_layers": (lambda said: said["num_encoder_layers"], "num_decoder_layers"),
        "mlp_dim": (2048, "d_ff"),
        "dropout_rate": (0.1, "dropout_rate"),
        "relative_attention_num_buckets": (32, "relative_attention_num_buckets"),
        "relative_attention_max_distance": (128, "relative_attention_max_distance"),
        "layer_norm_epsilon": (1e-6, "layer_norm_epsilon"),
    },
    constants={"attention_scale": 1.0, "pad_id": 0, "eos_ids": (1,)},
    read=functools.partial(_read_t5, projection="relu"),
    write=_write_t5,
    modules={
        "shared": "token_embedder",
        f"encoder.{_T5_POSITIONS}": "encoder/relpos_bias",
        f"decoder.{_T5_POSITIONS}": "decoder/relpos_bias",
        "encoder.final_layer_norm": "encoder/encoder_norm",
        "decoder.final_layer_norm": "decoder/decoder_norm",
        "lm_head": "decoder/logits_dense",
    },
    layers={
        ("encoder.block", "encoder/layers"): _t5_layer(
            ("SelfAttention", "attention", "pre_attention_layer_norm")
        ),
        ("decoder.block", "decoder/layers"): _t5_layer(
            ("SelfAttention", "self_attention", "pre_self_attention_layer_norm"),
            ("EncDecAttention", "encoder_decoder_attention", "pre_cross_attention_layer_norm"),
        ),
    },
    # The first releases carry a bias that no model has ever used.
    unused=(
        r"(encoder|decoder)\.embed_tokens\.weight|"
        r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
    ),
    embedding_copies=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    head_is_embedding=True,
)
MT5 = T5.replace(
    name="mT5",
    model_type="mt5",
    architecture="MT5ForConditionalGeneration",
    fields=T5.fields
    | {
        "vocab_size": (250112, "vocab_size"),
        "num_heads": (6, "num_heads"),
        "num_encoder_layers": (8, "num_layers"),
        "mlp_dim": (1024, "d_ff"),
    },
    read=functools.partial(_read_t5, projection="gated-gelu"),
)

_ALL = (T5, MT5, BART, GPT2, BLOOM, GEMMA, GEMMA2, LLAMA, MISTRAL, ROBERTA, XLM_ROBERTA, DEBERTA)
# By config.json's `model_type`.
FAMILIES = {family.model_type: family for family in _ALL}


def family_of_config(config: TransformerConfig, model_type: str = "") -> Family | None:
    """Returns the family whose form a model has, None for a mixture of several.

    Args:
      config: of the model.
      model_type: of the checkpoint that it began with, "" = none. It decides if the config fits
        several families: a Mistral without a window is a Llama too.
    """
    former = FAMILIES.get(model_type)
    if former is not None and former.matches(config):
        return former
    return next((family for family in _ALL if family.matches(config)), None)


def family_name(config: TransformerConfig, model_type: str = "") -> str:
    """Returns the `model_type` of a model, "doha" with knowledge attention, "other" = unknown."""
    if config.knowledge_attention:
        return "doha"
    family = family_of_config(config, model_type)
    return family.model_type if family else "other"
