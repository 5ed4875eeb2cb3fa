"""DeBERTa's disentangled attention: products of contents, and of contents with relative positions.

Reference: He 2021 (DeBERTa), equation 4, which also omits the position-to-position term.
"""

import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from faith_jax.core.types import Array
from faith_jax.models.attention import attend
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import Projection, with_sharding_constraint
from faith_jax.models.positions import log_bucket_positions


def relative_rows(length: int, buckets: int, max_distance: int) -> np.ndarray:
    """Returns the relative embedding's row for each distance, int32 [2 * length - 1].

    Element c is the row for a query that is length - 1 - c positions after its key.
    """
    rows = log_bucket_positions(length, buckets, max_distance)
    # Distances length - 1 … 0 are in the first column, from the bottom; -1 … in the first row.
    by_distance = np.concatenate([rows[::-1, 0], rows[0, 1:]])
    return np.clip(by_distance + buckets, 0, 2 * buckets - 1)


def skew(products: Array) -> Array:
    """Converts products by distance into products by position.

    Args:
      products: [..., length, 2 * length - 1]; [i, c] belongs to distance length - 1 - c.

    Returns:
      [..., length, length]; [i, j] belongs to distance i - j. This needs no gather: after padding
      by one column, a reshape to rows of the old width shifts each row by one element.
    """
    length = products.shape[-2]
    padded = jnp.pad(products, ((0, 0),) * (products.ndim - 1) + ((0, 1),))
    flat = padded.reshape(*products.shape[:-2], 2 * length * length)
    flat = flat[..., length - 1 : length - 1 + length * (2 * length - 1)]
    return flat.reshape(*products.shape[:-2], length, 2 * length - 1)[..., :length]


class DisentangledAttention(nn.Module):
    """Self-attention whose logits also compare contents with relative positions.

    The projections of the contents also give the queries and keys of the positions. Three products
    are summed, so `scale` is (3 * head_dim) ** -0.5.

    Attributes:
      config: of the model; the relative embedding has twice as many rows as relative buckets.
    """

    config: TransformerConfig

    @nn.compact
    def __call__(
        self, inputs: Array, relative: Array, *, mask: Array | None, deterministic: bool
    ) -> Array:
        """Attends within `inputs`.

        Args:
          inputs: [batch, length, embed], like the result.
          relative: the relative embedding [2 * buckets, embed], normalised.
          mask: boolean, broadcast to [batch, heads, length, length]; True = attend.
          deterministic: no dropout.
        """
        cfg = self.config
        width = cfg.num_heads * cfg.head_dim
        parts = {
            name: Projection(width, ("embed", "joined_kv"), cfg.dtype, use_bias=True, name=name)
            for name in ("query", "key", "value")
        }
        relative = nn.Dropout(cfg.dropout_rate)(relative, deterministic=deterministic)[None]
        query, key, value = (self._heads(parts[name](inputs)) for name in parts)
        bias = self._position_logits(
            query, key, self._heads(parts["query"](relative)), self._heads(parts["key"](relative))
        )
        rate = cfg.attention_weights_dropout
        x = attend(
            query,
            key,
            value,
            mask=mask,
            bias=bias * cfg.attention_scale,
            float32_logits=cfg.float32_attention_logits,
            scale=cfg.attention_scale,
            dropout_rate=rate,
            dropout_key=self.make_rng("dropout") if rate and not deterministic else None,
            broadcast_dropout=cfg.broadcast_dropout,
        )
        x = jnp.swapaxes(x, -3, -2)
        x = x.reshape(*x.shape[:-2], width)
        return Projection(
            cfg.emb_dim, ("joined_kv", "embed"), cfg.dtype, use_bias=True, name="out"
        )(x)

    def _heads(self, x: Array) -> Array:
        """Maps [batch, length, joined] to [batch, heads, length, head_dim]."""
        x = x.reshape(*x.shape[:-1], self.config.num_heads, self.config.head_dim)
        return jnp.swapaxes(with_sharding_constraint(x, ("batch", "length", "heads", "kv")), -3, -2)

    def _position_logits(
        self, query: Array, key: Array, position_query: Array, position_key: Array
    ) -> Array:
        """Returns content-to-position plus position-to-content, [batch, heads, length, length]."""
        cfg = self.config
        rows = relative_rows(
            query.shape[-2],
            cfg.relative_attention_num_buckets,
            cfg.relative_attention_max_distance,
        )
        by_distance = position_key[:, :, rows]
        content_to_position = skew(jnp.einsum("bhqd,xhcd->bhqc", query, by_distance))
        # Seen from the key, the distance has the opposite sign.
        by_distance = position_query[:, :, rows[::-1]]
        position_to_content = skew(jnp.einsum("bhkd,xhcd->bhkc", key, by_distance))
        return content_to_position + jnp.swapaxes(position_to_content, -1, -2)
