"""T5, Flan-T5 and mT5: encoder-decoder, with biases of relative positions."""

import functools
from typing import Any

from faith_jax.checkpoints.hugging_face.family import (
    ACTIVATIONS,
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    TensorMap,
    layer_norm,
    linear,
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


def tensors(config: TransformerConfig) -> list[TensorMap]:
    """See `Family`."""
    maps = [TensorMap("shared.weight", ("token_embedder/embedding",))]
    for stack, count in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        maps.append(TensorMap(bias, (f"{stack}/relpos_bias/rel_embedding",), turned=True))
        for i in range(count):
            maps += _layer(config, f"{stack}.block.{i}.layer", f"{stack}/layers_{i}", stack)
        maps += layer_norm(f"{stack}.final_layer_norm", f"{stack}/{stack}_norm", bias=False)
    return maps


def _layer(config: TransformerConfig, theirs: str, ours: str, stack: str) -> list[TensorMap]:
    parts = [("SelfAttention", "attention", "pre_attention_layer_norm")]
    if stack == "decoder":
        parts = [
            ("SelfAttention", "self_attention", "pre_self_attention_layer_norm"),
            ("EncDecAttention", "encoder_decoder_attention", "pre_cross_attention_layer_norm"),
        ]
    maps = []
    for i, (their_part, our_part, norm) in enumerate(parts):
        for a, b in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "out")):
            maps += linear(f"{theirs}.{i}.{their_part}.{a}", f"{ours}/{our_part}/{b}", bias=False)
        maps += layer_norm(f"{theirs}.{i}.layer_norm", f"{ours}/{norm}", bias=False)
    mlp = f"{theirs}.{len(parts)}"
    for kernel in (*config.mlp_kernels, "wo"):
        maps += linear(f"{mlp}.DenseReluDense.{kernel}", f"{ours}/mlp/{kernel}", bias=False)
    return maps + layer_norm(f"{mlp}.layer_norm", f"{ours}/pre_mlp_layer_norm", bias=False)


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
        tensors=tensors,
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
