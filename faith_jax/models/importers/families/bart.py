"""BART: encoder-decoder, learned positions, norms behind the residual sums.

DoHA (Prabhumoye 2021) is a BART with a second cross-attention over the knowledge; its tensors
`decoder.layers.N.knowledge_attn` and `knowledge_attn_layer_norm` are names of our own.
"""

from typing import Any

from faith_jax.errors import CheckpointError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.families.family import (
    PUBLISHED_ACTIVATIONS,
    ConfigFields,
    Family,
    TensorMap,
    layer_norm,
    linear,
)

_OFFSET = 2
LOGITS_BIAS = "final_logits_bias"


def read_config(fields: ConfigFields) -> TransformerConfig:
    """See `Family`."""
    width = fields.whole("d_model", default=1024)
    heads = fields.whole("encoder_attention_heads", default=16)
    mlp = fields.whole("encoder_ffn_dim", default=4096)
    for name, value in (("decoder_attention_heads", heads), ("decoder_ffn_dim", mlp)):
        if fields.whole(name, default=value) != value:
            raise CheckpointError(
                f"{fields.path}: field {name!r}: expected {value}, as the encoder has, got "
                f"{fields.fields[name]}; stacks of different widths are not supported."
            )
    head_dim = max(1, width // max(1, heads))
    return TransformerConfig(
        vocab_size=fields.whole("vocab_size", default=50265),
        emb_dim=width,
        num_heads=heads,
        head_dim=head_dim,
        num_encoder_layers=fields.whole("encoder_layers", default=12),
        num_decoder_layers=fields.whole("decoder_layers", default=12),
        mlp_dim=mlp,
        mlp_activations=(fields.activation("activation_function", default="gelu"),),
        dropout_rate=fields.number("dropout", default=0.1),
        attention_dropout_rate=fields.number("attention_dropout", default=0.0),
        mlp_dropout_rate=fields.number("activation_dropout", default=0.0),
        broadcast_dropout=False,
        logits_via_embedding=True,
        scale_tied_logits=False,
        logits_bias=True,
        layer_norm_epsilon=1e-5,
        norm="layer",
        norm_position="post",
        embedding_norm=True,
        scale_embeddings=fields.flag("scale_embedding", False),
        positions="learned",
        max_positions=fields.whole("max_position_embeddings", default=1024),
        position_offset=_OFFSET,
        attention_bias=True,
        mlp_bias=True,
        attention_scale=head_dim**-0.5,
        knowledge_attention=fields.flag("knowledge_attention", False),
        pad_id=fields.padding("pad_token_id", 1),
        eos_ids=fields.tokens("eos_token_id", 2),
        decoder_start_id=fields.whole("decoder_start_token_id", default=2),
    )


def write_config(config: TransformerConfig) -> dict[str, Any]:
    """See `Family`."""
    doha = {"knowledge_attention": True} if config.knowledge_attention else {}
    return doha | {
        "activation_dropout": config.mlp_dropout_rate or 0.0,
        "activation_function": PUBLISHED_ACTIVATIONS[config.mlp_activations[0]],
        "architectures": ["BartForConditionalGeneration"],
        "attention_dropout": config.attention_weights_dropout,
        "bos_token_id": 0,
        "d_model": config.emb_dim,
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.mlp_dim,
        "decoder_layers": config.num_decoder_layers,
        "decoder_start_token_id": config.decoder_start_id,
        "dropout": config.dropout_rate,
        "encoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.mlp_dim,
        "encoder_layers": config.num_encoder_layers,
        "is_encoder_decoder": True,
        "max_position_embeddings": config.max_positions,
        "model_type": "bart",
        "scale_embedding": config.scale_embeddings,
    }


def tensors(config: TransformerConfig) -> list[TensorMap]:
    """See `Family`."""
    maps = [
        TensorMap("model.shared.weight", ("token_embedder/embedding",)),
    ]
    if config.logits_bias:
        maps.append(TensorMap(LOGITS_BIAS, ("decoder/logits_bias",), row=True))
    for stack, count in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        theirs = f"model.{stack}"
        positions = f"{stack}/position_embedder/embedding"
        maps.append(TensorMap(f"{theirs}.embed_positions.weight", (positions,)))
        maps += layer_norm(f"{theirs}.layernorm_embedding", f"{stack}/embedding_norm")
        for i in range(count):
            maps += _layer(config, f"{theirs}.layers.{i}", f"{stack}/layers_{i}", stack)
    return maps


def _layer(config: TransformerConfig, theirs: str, ours: str, stack: str) -> list[TensorMap]:
    parts: list[tuple[str, str, str | None]] = [
        ("self_attn", "self_attention" if stack == "decoder" else "attention", None)
    ]
    if stack == "decoder":
        parts.append(("encoder_attn", "encoder_decoder_attention", "cross_attention"))
        if config.knowledge_attention:
            parts.append(("knowledge_attn", "knowledge_attention", None))
    maps = []
    for their_part, our_part, norm_name in parts:
        norm = f"{ours}/post_{norm_name or our_part}_layer_norm"
        maps += layer_norm(f"{theirs}.{their_part}_layer_norm", norm)
        for a, b in (
            ("q_proj", "query"),
            ("k_proj", "key"),
            ("v_proj", "value"),
            ("out_proj", "out"),
        ):
            maps += linear(f"{theirs}.{their_part}.{a}", f"{ours}/{our_part}/{b}", bias=True)
    return [
        *maps,
        *linear(f"{theirs}.fc1", f"{ours}/mlp/wi", bias=True),
        *linear(f"{theirs}.fc2", f"{ours}/mlp/wo", bias=True),
        *layer_norm(f"{theirs}.final_layer_norm", f"{ours}/post_mlp_layer_norm"),
    ]


BART = Family(
    name="BART",
    model_types=("bart",),
    prefix="model.",
    read_config=read_config,
    write_config=write_config,
    tensors=tensors,
    # Copies of the shared embedding.
    unused=r"(encoder|decoder)\.embed_tokens\.weight|classification_head\..*",
    matches=lambda c: c.num_encoder_layers > 0 and c.num_decoder_layers > 0 and c.norm == "layer",
    embedding_copies=(
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    ),
)
