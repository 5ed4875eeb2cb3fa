"""T5, Flan-T5 and mT5: encoder-decoder, with biases of relative positions."""

import functools
from typing import Any

from faith_jax.checkpoints.hugging_face.family import (
    ACTIVATIONS,
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    attention,
)
from faith_jax.models.config import TransformerConfig


def read(fields: ConfigFields, said: dict[str, Any], projection: str) -> dict[str, Any]:
    """See `Family`; `projection` is the family's default feed-forward layer."""
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
        "num_decoder_layers": fields.get("num_decoder_layers", default=said["num_encoder_layers"]),
        "mlp_activations": (ACTIVATIONS[name], "linear") if gated else (ACTIVATIONS[name],),
        # Transformers 5 writes scale_decoder_outputs; in older files tie_word_embeddings says it.
        "logits_via_embedding": fields.get("scale_decoder_outputs", default=tied),
    }


def write(config: TransformerConfig) -> dict[str, Any]:
    """See `Family`."""
    activation = PUBLISHED_ACTIVATIONS[config.mlp_activations[0]]
    gated = len(config.mlp_activations) == 2
    name = "gelu" if gated and activation == "gelu_new" else activation
    return {
        "decoder_start_token_id": config.decoder_start_id,
        "dense_act_fn": activation,
        "feed_forward_proj": f"gated-{name}" if gated else name,
        "is_encoder_decoder": True,
        "is_gated_act": gated,
        "num_decoder_layers": config.num_decoder_layers,
        "scale_decoder_outputs": config.logits_via_embedding,
    }


_POSITIONS = "block.0.layer.0.SelfAttention.relative_attention_bias"


def _layer(*attentions: tuple[str, str, str]) -> dict[str, str]:
    """Returns the modules of a layer with attentions, each by its name, ours, and its norm's."""
    modules: dict[str, str] = {}
    for i, (theirs, ours, norm) in enumerate(attentions):
        modules |= attention(f"layer.{i}.{theirs}", ours, "qkvo")
        modules[f"layer.{i}.layer_norm"] = norm
    mlp = f"layer.{len(attentions)}"
    modules |= {f"{mlp}.DenseReluDense.{x}": f"mlp/{x}" for x in ("wi", "wi_0", "wi_1", "wo")}
    return modules | {f"{mlp}.layer_norm": "pre_mlp_layer_norm"}


def _family(
    name: str, architecture: str, vocab: int, mlp: int, layers: int, heads: int, projection: str
) -> Family:
    return Family(
        name=name,
        model_type=name.lower(),
        architecture=architecture,
        matches=lambda c: (
            c.num_encoder_layers > 0
            and c.num_decoder_layers > 0
            and c.norm == "rms"
            and c.positions == "relative_bias"
        ),
        fields={
            "vocab_size": (vocab, "vocab_size"),
            "emb_dim": (512, "d_model"),
            "num_heads": (heads, "num_heads"),
            "head_dim": (64, "d_kv"),
            "num_encoder_layers": (layers, "num_layers"),
            "mlp_dim": (mlp, "d_ff"),
            "dropout_rate": (0.1, "dropout_rate"),
            "relative_attention_num_buckets": (32, "relative_attention_num_buckets"),
            "relative_attention_max_distance": (128, "relative_attention_max_distance"),
            "layer_norm_epsilon": (1e-6, "layer_norm_epsilon"),
        },
        constants={},
        read=functools.partial(read, projection=projection),
        write=write,
        modules={
            "shared": "token_embedder",
            f"encoder.{_POSITIONS}": "encoder/relpos_bias",
            f"decoder.{_POSITIONS}": "decoder/relpos_bias",
            "encoder.final_layer_norm": "encoder/encoder_norm",
            "decoder.final_layer_norm": "decoder/decoder_norm",
            "lm_head": "decoder/logits_dense",
        },
        layers={
            ("encoder.block", "encoder/layers"): _layer(
                ("SelfAttention", "attention", "pre_attention_layer_norm")
            ),
            ("decoder.block", "decoder/layers"): _layer(
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


T5 = _family("T5", "T5ForConditionalGeneration", 32128, 2048, 6, 8, "relu")
MT5 = _family("mT5", "MT5ForConditionalGeneration", 250112, 1024, 8, 6, "gated-gelu")
