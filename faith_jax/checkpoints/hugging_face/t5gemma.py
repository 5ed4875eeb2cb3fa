"""T5Gemma: Gemma 2 as an encoder-decoder, with an embedding for each stack (Zhang 2025).

Its config.json has a separate object for each stack. Only models with equal stacks are supported,
such as "t5gemma-2b-2b" and "t5gemma-b-b", but not "t5gemma-9b-2b".

With a window of n, an encoder's query attends to n - 1 tokens on each side, as in the authors'
release (Transformers 4.53). Transformers 5 adds one on each side.
"""

from typing import Any

from faith_jax.checkpoints.hugging_face.family import ConfigFields, Settings, attention_modules
from faith_jax.checkpoints.hugging_face.llama import GEMMA2, ORIGINAL_LENGTH
from faith_jax.core.errors import CheckpointError

_STACKS = ("encoder", "decoder")
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
# Fields of the model; all others belong to its stacks.
_OF_MODEL = (
    *("architectures", "dtype", "model_type", "tie_word_embeddings"),
    *("dropout_rate", "attention_dropout", *_TOKENS),
)


def _flatten_stack_fields(fields: ConfigFields) -> Settings:
    """Returns the fields of the model and of its stacks, which must agree, in one object."""
    stacks = [fields.get(name, default={}) for name in _STACKS]
    names = {name for _, *aliases in _FIELDS.values() for name in aliases}
    names |= {"attn_logit_softcapping", "layer_types", "query_pre_attn_scalar", "rope_parameters"}
    names |= {"rope_scaling", "rope_theta", "sliding_window", ORIGINAL_LENGTH}
    for name in sorted(names - set(_OF_MODEL)):
        encoder, decoder = (stack.get(name) for stack in stacks)
        if encoder != decoder:
            raise CheckpointError(
                f"{fields.path}: field {name!r}: {encoder} in the encoder and {decoder} in the "
                "decoder; expected stacks of the same form. Others are not supported."
            )
    of_decoder = {name: stacks[1][name] for name in stacks[1] if name not in _OF_MODEL}
    of_model = {name: fields.fields.get(name) for name in _OF_MODEL}
    tokens = {name: fields.fields.get(name, stacks[1].get(name)) for name in _TOKENS}
    return of_decoder | of_model | tokens


def _nest_stack_fields(fields: Settings) -> Settings:
    """The inverse of `_flatten_stack_fields`."""
    model: dict[str, Any] = {name: fields[name] for name in _OF_MODEL}
    stack = {name: value for name, value in fields.items() if name not in _OF_MODEL}
    stack |= {name: fields[name] for name in _TOKENS} | {"model_type": "t5_gemma_module"}
    return model | {
        "is_encoder_decoder": True,
        "vocab_size": stack["vocab_size"],
        "encoder": stack | {"is_decoder": False},
        "decoder": stack
        | {"is_decoder": True, "cross_attention_hidden_size": stack["hidden_size"]},
    }


def _read_t5gemma(fields: ConfigFields, base_settings: Settings) -> Settings:
    starts = fields.tokens("bos_token_id", 2)
    if len(starts) != 1:
        raise fields.error("bos_token_id", "a token id, with which responses begin")
    return GEMMA2.read(fields, base_settings) | {"decoder_start_id": starts[0]}


_FIELDS: dict[str, tuple[Any, ...]] = {
    "vocab_size": (256_000, "vocab_size"),
    "emb_dim": (2304, "hidden_size"),
    "num_heads": (8, "num_attention_heads"),
    "num_encoder_layers": (26, "num_hidden_layers"),
    "num_decoder_layers": (26, "num_hidden_layers"),
    "num_kv_heads": (4, "num_key_value_heads"),
    "head_dim": (256, "head_dim"),
    "mlp_dim": (9216, "intermediate_size"),
    "mlp_activations": ("gelu_pytorch_tanh", "hidden_activation"),
    "dropout_rate": (0.0, "dropout_rate"),
    "attention_dropout_rate": (0.0, "attention_dropout"),
    "layer_norm_epsilon": (1e-6, "rms_norm_eps"),
    "max_positions": (8192, "max_position_embeddings"),
    "attention_bias": (False, "attention_bias"),
}
_COMMON_LAYER = {
    "mlp.gate_proj": "mlp/wi_0",
    "mlp.up_proj": "mlp/wi_1",
    "mlp.down_proj": "mlp/wo",
    "pre_feedforward_layernorm": "pre_mlp_layer_norm",
    "post_feedforward_layernorm": "post_mlp_layer_norm",
}


def _map_attention_modules(published: str, ours: str, norms: str) -> dict[str, str]:
    """Returns the modules of an attention with its two norms."""
    return attention_modules(published, ours, _PROJECTIONS) | {
        f"{side}_{published}_layernorm": f"{side}_{norms}_layer_norm" for side in ("pre", "post")
    }


T5GEMMA = GEMMA2.replace(
    name="T5Gemma",
    model_type="t5gemma",
    architecture="T5GemmaForConditionalGeneration",
    marks={"decoder_embedding": True, "positions": "rotary"},
    fields=_FIELDS,
    constants={
        "broadcast_dropout": False,
        "decoder_embedding": True,
        "logits_via_embedding": True,
        "norm_offset": 1.0,
        "norm_position": "sandwich",
        "positions": "rotary",
        "scale_embeddings": True,
        "scale_tied_logits": False,
    },
    required={"tie_word_embeddings": (True, True)},
    unfold=_flatten_stack_fields,
    fold=_nest_stack_fields,
    read=_read_t5gemma,
    write=lambda config: GEMMA2.write(config) | {"bos_token_id": config.decoder_start_id},
    modules={
        "model.encoder.embed_tokens": "token_embedder",
        "model.encoder.norm": "encoder/encoder_norm",
        "model.decoder.embed_tokens": "decoder/token_embedder",
        "model.decoder.norm": "decoder/decoder_norm",
    },
    layers={
        ("model.encoder.layers", "encoder/layers"): _map_attention_modules(
            "self_attn", "attention", "attention"
        )
        | _COMMON_LAYER,
        ("model.decoder.layers", "decoder/layers"): _map_attention_modules(
            "self_attn", "self_attention", "self_attention"
        )
        | _map_attention_modules("cross_attn", "encoder_decoder_attention", "cross_attention")
        | _COMMON_LAYER,
    },
    # The output layer is the decoder's embedding.
    unused=r"lm_head\.out_proj\.weight",
)
