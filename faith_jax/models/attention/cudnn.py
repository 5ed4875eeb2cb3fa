"""Attention by cuDNN's fused kernel for GPUs, also with position bias.

The kernel is JAX's (`jax.nn.dot_product_attention`). It does not keep scores: its gradient,
including the gradient of the bias, computes them again. This file tells the kernel which keys are
valid: by the length of each row if rows are only padded, otherwise by a mask
[rows, 1, queries, keys], which is added to the bias.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Float

from faith_jax.core.types import Array
from faith_jax.models.attention.masks import AttentionMask, pad_axis, repeat_rows
from faith_jax.models.positions import BlockBias

IMPLEMENTATION: Literal["cudnn", "xla"] = "cudnn"  # "xla" runs anywhere; CPU tests set it


def cudnn_attend(
    query: Float[Array, "rows heads queries width"],
    key: Float[Array, "batch kv_heads keys width"],
    value: Float[Array, "batch kv_heads keys width"],
    mask: AttentionMask,
    bias: BlockBias | None,
    *,
    scale: float = 1.0,
) -> Float[Array, "rows heads queries width"]:
    """Computes dot-product attention like `attend` by blocks, without softcap and dropout.

    Outputs of queries that see no key are finite, but meaningless. Queries, keys and values are as
    in `attend`, bfloat16 or float16, with a width of at most 128, a multiple of 8. Without segments
    and a window, a row's valid keys must precede its padding.
    """
    rows, _, length, _ = query.shape
    key, value = repeat_rows(key, rows), repeat_rows(value, rows)
    # The kernel's gradient only supports even lengths; the added token is not valid.
    query, key, value = (pad_axis(x, 2, 2) for x in (query, key, value))
    queries, keys = (
        jax.tree.map(lambda x: pad_axis(x, 1, 2), part) for part in (mask.queries, mask.keys)
    )
    mask = mask.replace(queries=queries, keys=keys)
    added = None
    if bias is not None:
        # Positions may have a single row for all.
        keys = jax.tree.map(lambda x: repeat_rows(x, rows) if len(x) > 1 else x, keys)
        added = bias.block(query, key, queries, keys, 0).astype(query.dtype)
    lengths = full_mask = None
    if mask.keys.segments is None and mask.window is None:
        # At least one key, because a softmax over no keys would be NaN.
        lengths = jnp.maximum(jnp.sum(mask.keys.valid, axis=1, dtype=jnp.int32), 1)
        lengths = repeat_rows(lengths, rows)
    else:
        full_mask = mask.whole()
    # [rows, heads, length, width] -> [rows, length, heads, width], and back.
    query, key, value = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
    outputs: Array = jax.nn.dot_product_attention(
        query,
        key,
        value,
        bias=added,
        mask=full_mask,
        scale=scale,
        # A whole mask already excludes later keys.
        is_causal=mask.causal and full_mask is None,
        key_value_seq_lengths=lengths,
        implementation=IMPLEMENTATION,
    )
    return jnp.swapaxes(outputs, 1, 2)[:, :, :length]
