"""T5, Flan-T5 and mT5: the published names and shapes of their tensors."""

import numpy as np

from faith_jax.models.config import TransformerConfig


def tensor_names(config: TransformerConfig) -> dict[str, str]:
    """Returns Hugging Face's tensor names with our parameter names."""
    names = {
        "shared.weight": "token_embedder/embedding",
        "encoder.final_layer_norm.weight": "encoder/encoder_norm/scale",
        "decoder.final_layer_norm.weight": "decoder/decoder_norm/scale",
    }
    if not config.logits_via_embedding:
        names["lm_head.weight"] = "decoder/logits_dense/kernel"
    for stack, count in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        names[bias] = f"{stack}/relpos_bias/rel_embedding"
        for i in range(count):
            names |= _layer_names(config, stack, i)
    return names


def _layer_names(config: TransformerConfig, stack: str, i: int) -> dict[str, str]:
    decoder = stack == "decoder"
    attentions = [("SelfAttention", "self_attention" if decoder else "attention")]
    norms = ["pre_self_attention_layer_norm" if decoder else "pre_attention_layer_norm"]
    if decoder:
        attentions.append(("EncDecAttention", "encoder_decoder_attention"))
        norms.append("pre_cross_attention_layer_norm")
    norms.append("pre_mlp_layer_norm")
    theirs, ours = f"{stack}.block.{i}.layer", f"{stack}/layers_{i}"
    names = {f"{theirs}.{j}.layer_norm.weight": f"{ours}/{n}/scale" for j, n in enumerate(norms)}
    for j, (their_attention, our_attention) in enumerate(attentions):
        for a, b in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "out")):
            names[f"{theirs}.{j}.{their_attention}.{a}.weight"] = (
                f"{ours}/{our_attention}/{b}/kernel"
            )
    for kernel in (*config.mlp_kernels, "wo"):
        their_kernel = f"{theirs}.{len(norms) - 1}.DenseReluDense.{kernel}.weight"
        names[their_kernel] = f"{ours}/mlp/{kernel}/kernel"
    return names


def turned(ours: str, array: np.ndarray) -> np.ndarray:
    """Transposes what the two forms hold transposed; the same map both ways."""
    return array.T if ours.endswith(("/kernel", "/rel_embedding")) else array


def tensor_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each tensor of a model, by Hugging Face's names."""
    cfg = config
    inner = cfg.num_heads * cfg.head_dim
    shapes: dict[str, tuple[int, ...]] = {}
    for theirs, ours in tensor_names(config).items():
        match ours.split("/")[-2:]:
            case [_, "scale"]:
                shape: tuple[int, ...] = (cfg.emb_dim,)
            case ["token_embedder" | "logits_dense", _]:
                shape = (cfg.vocab_size, cfg.emb_dim)
            case [_, "rel_embedding"]:
                shape = (cfg.relative_attention_num_buckets, cfg.num_heads)
            case ["query" | "key" | "value", _]:
                shape = (inner, cfg.emb_dim)
            case ["out", _]:
                shape = (cfg.emb_dim, inner)
            case ["wo", _]:
                shape = (cfg.emb_dim, cfg.mlp_dim)
            case _:
                shape = (cfg.mlp_dim, cfg.emb_dim)
        shapes[theirs] = shape
    return shapes
