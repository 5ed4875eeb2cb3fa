"""Attention masks and positions of padded and packed rows."""

import jax.numpy as jnp
from jaxtyping import Bool, Integer

from faith_jax.core.types import Array


def attention_mask(
    query_mask: Bool[Array, "batch queries"],
    key_mask: Bool[Array, "batch keys"],
    query_segments: Integer[Array, "batch queries"] | None,
    key_segments: Integer[Array, "batch keys"] | None,
) -> Bool[Array, "batch 1 queries keys"]:
    """Returns where query and key are valid, and in the same segment of a packed batch."""
    mask = query_mask[:, :, None] & key_mask[:, None, :]
    if query_segments is not None and key_segments is not None:
        mask &= query_segments[:, :, None] == key_segments[:, None, :]
    return mask[:, None]


def segment_positions(
    valid: Bool[Array, "batch length"], segments: Integer[Array, "batch length"] | None
) -> Integer[Array, "batch length"]:
    """Returns positions within each segment of a packed batch, or within rows; -1 if not valid."""
    if segments is None:
        positions = jnp.cumsum(valid, axis=1, dtype=jnp.int32) - 1
    else:
        first = jnp.argmax(segments[:, :, None] == segments[:, None, :], axis=-1)
        positions = jnp.arange(valid.shape[1], dtype=jnp.int32)[None] - first
    return jnp.where(valid, positions, -1)


def repeat_mask(mask: Bool[Array, "batch *rest"], rows: int) -> Bool[Array, "rows *rest"]:
    """Repeats a mask [batch, …] for `rows` rows, a multiple of batch."""
    return mask if mask.shape[0] == rows else jnp.repeat(mask, rows // mask.shape[0], axis=0)
