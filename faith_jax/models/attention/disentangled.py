"""DeBERTa's disentangled attention: products of contents, and of contents with relative positions.

Reference: He 2021 (DeBERTa), equation 4, which also omits the position-to-position term.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import struct

from faith_jax.core.types import Array
from faith_jax.models.attention.dot_product import attend, block_sizes
from faith_jax.models.attention.masks import AttentionMask, Tokens
from faith_jax.models.attention.multi_head import join_heads, split_heads
from faith_jax.models.config import TransformerConfig
from faith_jax.models.dropout import Draws, drop
from faith_jax.models.layers import Projection
from faith_jax.models.positions import at_distances, log_buckets, skew


def relative_rows(length: int, buckets: int, max_distance: int) -> np.ndarray:
    """Returns the relative embedding's row for each distance, int32 [2 * length - 1].

    Element c is the row for a query that is length - 1 - c positions after its key. With a
    `max_distance` of 0, each distance below `buckets` is a bucket (DeBERTa v1).
    """
    by_distance = log_buckets(np.arange(length - 1, -length, -1), buckets, max_distance)
    # Distance 0 has row `buckets`; the first and the last row also serve all larger distances.
    return np.clip(by_distance + buckets, 0, 2 * buckets - 1)


class DisentangledBias(struct.PyTreeNode):
    """The products of contents with relative positions, times `scale`.

    `position_query` is the projected relative embedding [heads, 2 * length - 1, head_dim] that
    meets keys; `position_key` meets queries. Element c is for a query length - 1 - c after its key.
    """

    position_query: Array
    position_key: Array
    scale: float = struct.field(pytree_node=False)

    def block(
        self,
        query: Array,
        key: Array,
        queries: Tokens | None,
        keys: Tokens | None,
        distance: Array | int,
    ) -> Array:
        """See `positions.BlockBias`."""
        sizes = query.shape[-2], key.shape[-2]
        by_distance = at_distances(self.position_key, *sizes, distance, axis=1)
        # The query's content and the key's relative position: [rows, heads, queries, keys].
        content_to_position = skew(jnp.einsum("bhqd,hcd->bhqc", query, by_distance), sizes[0])
        # Seen from the key, the distances are in the opposite order.
        by_distance = at_distances(self.position_query, *sizes, distance, axis=1)[:, ::-1]
        # The key's content and the query's relative position: [rows, heads, keys, queries].
        position_to_content = skew(jnp.einsum("bhkd,hcd->bhkc", key, by_distance), sizes[1])
        return (content_to_position + jnp.swapaxes(position_to_content, -1, -2)) * self.scale


class DisentangledAttention(nn.Module):
    """Self-attention whose logits also compare contents with relative positions.

    The content projections also project the relative positions, except in DeBERTa v1
    (`separate_positions`). Three products are summed, so `attention_scale` is
    (3 * head_dim) ** -0.5. The relative embedding has twice as many rows as relative buckets.
    """

    config: TransformerConfig

    @nn.compact
    def __call__(
        self,
        inputs: Array,
        relative: Array,
        *,
        mask: Array | AttentionMask | None,
        draws: Draws,
    ) -> Array:
        """Attends within inputs [batch, length, embed].

        `relative` is the relative embedding [2 * buckets, embed], normalised except in DeBERTa v1.
        The mask is broadcast to [batch, heads, length, length]; an `AttentionMask` = attend by
        blocks. `draws` has the dropout of "relative" and "attention_weights".
        """
        cfg = self.config
        width = cfg.num_heads * cfg.head_dim
        separate = cfg.separate_positions

        def projection(name, use_bias=True):
            axes = ("embed", "joined_kv")
            return Projection(width, axes, cfg.dtype, use_bias=use_bias, name=name)

        of_contents = projection("query"), projection("key", not separate), projection("value")
        # The kernels of queries and keys project relative positions too, except in DeBERTa v1.
        of_positions = of_contents[:2]
        if separate:
            of_positions = projection("position_query"), projection("position_key", False)
        # [1, 2 * buckets, embed]: a batch of one, as `split_heads` expects.
        relative = drop(relative, cfg.dropout_rate, draws.get("relative"))[None]
        query, key, value = (split_heads(part(inputs), cfg.num_heads) for part in of_contents)
        by_blocks = isinstance(mask, AttentionMask)
        length = inputs.shape[1]
        if by_blocks:
            # The last block may extend beyond the length.
            length = math.prod(block_sizes(length, cfg.attention_block_length))
        max_distance = 0 if separate else cfg.relative_attention_max_distance
        rows = relative_rows(length, cfg.relative_attention_num_buckets, max_distance)
        order: Any = rows
        if len(rows) < relative.shape[1]:  # project fewer rows
            relative, order = relative[:, rows], slice(None)
        # [heads, 2 * length - 1, head_dim] each, by distance.
        position_query, position_key = (
            split_heads(part(relative), cfg.num_heads)[0][:, order] for part in of_positions
        )
        bias: Any = DisentangledBias(position_query, position_key, cfg.attention_scale)
        if not by_blocks:
            # Without blocks, the whole sequence is a single block.
            bias = bias.block(query, key, None, None, 0)
        x = attend(
            query,
            key,
            value,
            mask=mask,
            bias=bias,
            float32_logits=cfg.float32_attention_logits,
            scale=cfg.attention_scale,
            dropout_rate=cfg.attention_weights_dropout,
            dropout_draw=draws.get("attention_weights"),
            block_length=cfg.attention_block_length,
        )
        out = Projection(cfg.emb_dim, ("joined_kv", "embed"), cfg.dtype, use_bias=True, name="out")
        return out(join_heads(x))
