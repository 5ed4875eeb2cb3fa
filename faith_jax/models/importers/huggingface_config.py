"""Hugging Face's config.json of the T5 family, and what it says in our terms."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.errors import CheckpointError, ConfigError
from faith_jax.models.config import TransformerConfig

# What Transformers takes where a published config.json has no such field.
_T5_DEFAULTS: dict[str, Any] = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "dropout_rate": 0.1,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu",
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "t5": _T5_DEFAULTS,
    "mt5": _T5_DEFAULTS
    | {
        "vocab_size": 250112,
        "d_ff": 1024,
        "num_layers": 8,
        "num_heads": 6,
        "feed_forward_proj": "gated-gelu",
    },
}
_OURS = {
    "vocab_size": "vocab_size",
    "emb_dim": "d_model",
    "num_heads": "num_heads",
    "num_encoder_layers": "num_layers",
    "num_decoder_layers": "num_decoder_layers",
    "head_dim": "d_kv",
    "mlp_dim": "d_ff",
    "dropout_rate": "dropout_rate",
    "relative_attention_num_buckets": "relative_attention_num_buckets",
    "relative_attention_max_distance": "relative_attention_max_distance",
    "layer_norm_epsilon": "layer_norm_epsilon",
}
# Exact GELU ("gelu") is not here: ours is the tanh form, which T5 was trained with.
_ACTIVATIONS = {
    "relu": "relu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "silu": "silu",
    "swish": "silu",
    "linear": "linear",
}
_EXPORTED = {"relu": "relu", "gelu": "gelu_new", "silu": "silu", "linear": "linear"}


def read_config(
    fields: Mapping[str, Any], path: pathlib.Path, other_types: Sequence[str] = ()
) -> TransformerConfig:
    """Returns the dimensions that a config.json says, for a model with an output layer of its own.

    Args:
      fields: of config.json.
      path: of config.json, for messages.
      other_types: what else a `model_type` may be, for messages.

    Raises:
      CheckpointError: on another family or a value that T5 cannot have, naming the field.
    """
    family = fields.get("model_type")
    if not isinstance(family, str) or family not in _DEFAULTS:
        known = sorted([*_DEFAULTS, *other_types])
        raise CheckpointError(
            f"{path}: field 'model_type': expected one of {known}, got {family!r}; this family is "
            "not supported."
        )
    given = _DEFAULTS[family] | {k: v for k, v in fields.items() if v is not None}
    given.setdefault("num_decoder_layers", given["num_layers"])
    for name in _OURS.values():
        if isinstance(given[name], bool) or not isinstance(given[name], int | float):
            raise CheckpointError(
                f"{path}: field {name!r}: expected a number, got {given[name]!r}."
            )
    try:
        return TransformerConfig(
            mlp_activations=_activations(given, path),
            **{ours: given[theirs] for ours, theirs in _OURS.items()},
        )
    except ConfigError as error:
        message = str(error)
        for ours, theirs in _OURS.items():
            message = message.replace(f"TransformerConfig.{ours}:", f"field {theirs!r}:")
        raise CheckpointError(f"{path}: {message}") from None


def _activations(given: Mapping[str, Any], path: pathlib.Path) -> tuple[str, ...]:
    projection = given["feed_forward_proj"]
    gate, dash, name = str(projection).rpartition("-")
    if dash and gate != "gated":
        raise CheckpointError(
            f"{path}: field 'feed_forward_proj': expected an activation or 'gated-' and one, "
            f"got {projection!r}."
        )
    gated = bool(given.get("is_gated_act", bool(dash)))
    # By this name Transformers has always meant the tanh form.
    name = given.get("dense_act_fn", "gelu_new" if projection == "gated-gelu" else name)
    if name not in _ACTIVATIONS:
        raise CheckpointError(
            f"{path}: field 'feed_forward_proj': expected one of {sorted(_ACTIVATIONS)}, "
            f"got {name!r}."
        )
    return (_ACTIVATIONS[name], "linear") if gated else (_ACTIVATIONS[name],)


def scales_output(fields: Mapping[str, Any]) -> bool:
    """Whether the decoder's output is scaled by d_model ** -0.5 before a tied output layer.

    Transformers 5 writes `scale_decoder_outputs`; in older files `tie_word_embeddings` says it.
    """
    scales = fields.get("scale_decoder_outputs")
    return bool(fields.get("tie_word_embeddings", True) if scales is None else scales)


def make_config(config: TransformerConfig, dtype: str) -> dict[str, Any]:
    """Returns the fields of a config.json for a model of ours.

    Args:
      config: without soft prompts.
      dtype: of the tensors.

    Raises:
      CheckpointError: on a feed-forward layer that Transformers' T5 does not have.
    """
    activations = config.mlp_activations
    gated = len(activations) == 2
    if gated and activations[1] != "linear":
        raise CheckpointError(
            f"mlp_activations {list(activations)}: expected 'linear' as the second one; "
            "Hugging Face's T5 has no other gate."
        )
    if activations[0] not in _EXPORTED:
        raise CheckpointError(
            f"mlp_activations {list(activations)}: expected one of {sorted(_EXPORTED)} as the "
            "first one; Hugging Face's T5 has no other."
        )
    activation = _EXPORTED[activations[0]]
    name = activations[0] if gated else activation
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "classifier_dropout": 0.0,
        "d_ff": config.mlp_dim,
        "d_kv": config.head_dim,
        "d_model": config.emb_dim,
        "decoder_start_token_id": 0,
        "dense_act_fn": activation,
        "dropout_rate": config.dropout_rate,
        "dtype": dtype,
        "eos_token_id": 1,
        "feed_forward_proj": f"gated-{name}" if gated else name,
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "is_gated_act": gated,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "model_type": "t5",
        "num_decoder_layers": config.num_decoder_layers,
        "num_heads": config.num_heads,
        "num_layers": config.num_encoder_layers,
        "pad_token_id": 0,
        "relative_attention_max_distance": config.relative_attention_max_distance,
        "relative_attention_num_buckets": config.relative_attention_num_buckets,
        "scale_decoder_outputs": config.logits_via_embedding,
        "tie_word_embeddings": config.logits_via_embedding,
        "use_cache": True,
        "vocab_size": config.vocab_size,
    }
