"""BART: encoder-decoder, learned positions, norms behind the residual sums; and DoHA.

DoHA (Prabhumoye 2021, section 3.2) is a BART whose decoder has a second cross-attention, over the
knowledge. Each decoder layer attends to itself, then to the first encoder input (the dialogue),
then to the second (the dialogue with its knowledge, or the knowledge alone); both inputs go through
the one encoder. The second attention begins as a copy of the first. Its tensors
`decoder.layers.N.knowledge_attn` and `knowledge_attn_layer_norm` are names of our own.

The authors' code (github.com/shrimai/Focused-Attention-Improves-Document-Grounded-Generation) has
the same layers and the same start, but it feeds its decoder the token <s> first, where BART's own
start token is </s>. Here that is the caller's choice.
"""

from typing import Any

import numpy as np

from faith_jax.checkpoints.checkpoint import Checkpoint, flatten, unflatten
from faith_jax.checkpoints.hugging_face.family import LAYER_NORM, ConfigFields, Family, attention
from faith_jax.core.errors import CheckpointError
from faith_jax.models.config import TransformerConfig

LOGITS_BIAS = "final_logits_bias"


def read(fields: ConfigFields, said: dict[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    for name, ours in (("decoder_attention_heads", "num_heads"), ("decoder_ffn_dim", "mlp_dim")):
        if fields.get(name, default=said[ours]) != said[ours]:
            raise fields.error(name, f"{said[ours]}, as the encoder has; others are not supported")
    return {
        "knowledge_attention": fields.get("knowledge_attention", default=False),
        "attention_scale": said["head_dim"] ** -0.5,
        "pad_id": fields.padding(1),
        "eos_ids": fields.tokens("eos_token_id", 2),
    }


def write(config: TransformerConfig) -> dict[str, Any]:
    """See `Family`."""
    doha = {"knowledge_attention": True} if config.knowledge_attention else {}
    return doha | {
        "bos_token_id": 0,
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.mlp_dim,
        "is_encoder_decoder": True,
    }


_ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")
_MLP = {
    "fc1": "mlp/wi",
    "fc2": "mlp/wo",
    "final_layer_norm": "post_mlp_layer_norm",
}
BART = Family(
    name="BART",
    model_type="bart",
    architecture="BartForConditionalGeneration",
    matches=lambda c: c.num_encoder_layers > 0 and c.num_decoder_layers > 0 and c.norm == "layer",
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
    constants=LAYER_NORM
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
    read=read,
    write=write,
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
        ("model.encoder.layers", "encoder/layers"): _MLP
        | attention("self_attn", "attention", _ATTENTION)
        | {"self_attn_layer_norm": "post_attention_layer_norm"},
        ("model.decoder.layers", "decoder/layers"): _MLP
        | attention("self_attn", "self_attention", _ATTENTION)
        | attention("encoder_attn", "encoder_decoder_attention", _ATTENTION)
        | attention("knowledge_attn", "knowledge_attention", _ATTENTION)
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

# Parts of a decoder layer of ours, and those of DoHA's second attention that begin as their copies.
COPIED = {
    "encoder_decoder_attention": "knowledge_attention",
    "pre_cross_attention_layer_norm": "pre_knowledge_attention_layer_norm",
    "post_cross_attention_layer_norm": "post_knowledge_attention_layer_norm",
}


def check_becomes_doha(config: TransformerConfig, source: str) -> None:
    """Checks that a model has a cross-attention to copy.

    Raises:
      CheckpointError: where it has not, naming the source.
    """
    if config.is_decoder_only or config.is_encoder_only:
        raise CheckpointError(
            f"{source}: DoHA is made of an encoder-decoder model (BART), but this one has "
            f"{config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder layers."
        )


def doha_from_bart(checkpoint: Checkpoint) -> Checkpoint:
    """Returns a DoHA model whose knowledge attention is a copy of its first cross-attention.

    Args:
      checkpoint: of a BART, or of another encoder-decoder model; layers may be stacked.

    Raises:
      CheckpointError: on a model without cross-attention, and on one that is DoHA already.
    """
    config = checkpoint.config
    source = checkpoint.metadata.get("source", "checkpoint")
    check_becomes_doha(config, source)
    if config.knowledge_attention:
        raise CheckpointError(f"{source}: is DoHA already; it needs no second knowledge attention.")
    params = flatten(checkpoint.params)
    for name, array in list(params.items()):
        path = name.split("/")
        copied = [COPIED.get(part, part) for part in path]
        if copied != path:
            params["/".join(copied)] = np.array(array)
    config = config.replace(knowledge_attention=True)
    return Checkpoint(config, unflatten(params), checkpoint.metadata)
