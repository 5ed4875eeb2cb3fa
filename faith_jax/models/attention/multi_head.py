"""Multi-head attention with key-value caches for decoding.

Three caches make a decoding step cheap. Decoding may have several *copies* of each example (beams
or samples): row r belongs to example r // copies, and everything that copies share is stored only
once.

- `cache`: keys and values of the tokens decoded so far, `cached_key` and `cached_value`
  [rows, kv_heads, cache_length, head_dim]. The decoder's `cache_index` counts the filled positions.
- `encoder_cache`: keys and values [batch, kv_heads, length, head_dim] of the encoder's outputs,
  projected once, and `valid` (boolean [batch, length], for each encoder input): the keys that are
  not padding. It exists only if the caller makes it mutable in `Transformer.start_decoding`. For
  other callers, such as T5X, each step projects the encoder's outputs again.
- `prefix_cache`: keys and values of a decoder-only model's input (`Transformer.prefill`).
"""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Float, Integer

from faith_jax.core.types import Array
from faith_jax.models.attention.dot_product import attend
from faith_jax.models.attention.masks import AttentionMask, Regrouped
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import (
    Initializer,
    Projection,
    RMSNorm,
    fan_in_normal,
    separate_inputs,
)
from faith_jax.models.partitioning import with_sharding_constraint
from faith_jax.models.positions import BlockBias, rotate


def _one_row_per_example(
    inputs: Array, mask: Array | AttentionMask | None, batch: int
) -> tuple[Array, Array | AttentionMask | None]:
    """Returns inputs [batch, copies * length, embed] and their mask.

    The queries of all copies of an example, which share keys, are concatenated. Keys are then
    multiplied by one large matrix, and no product has to be transposed.
    """
    rows, length, width = inputs.shape
    if rows == batch:
        return inputs, mask
    if isinstance(mask, AttentionMask):
        mask = mask.merge_copies()
    elif mask is not None:
        # Copies may see different keys: [batch, 1, copies * length, keys].
        mask = jnp.broadcast_to(mask, (rows, 1, length, mask.shape[-1]))
        mask = mask.reshape(batch, 1, -1, mask.shape[-1])
    return inputs.reshape(batch, -1, width), mask


def _sort_queries(
    x: Float[Array, "rows heads queries width"], places: Integer[Array, "groups places"], rows: int
) -> Float[Array, "new_rows heads new_queries width"]:
    """Rearranges queries into `rows` rows; `places` are indices within each group of rows."""
    heads, width = x.shape[1], x.shape[3]
    # [groups, tokens, heads, width]: no device needs the queries of another device's group.
    by_group = jnp.swapaxes(x, 1, 2).reshape(len(places), -1, heads, width)
    sorted_queries = jax.vmap(lambda group_queries, group_places: group_queries[group_places])(
        by_group, places
    )
    # [groups, places, heads, width] -> [rows, heads, queries, width]
    return jnp.swapaxes(sorted_queries.reshape(rows, -1, heads, width), 1, 2)


def split_heads(x: Array, heads: int) -> Array:
    """Maps [batch, length, heads * head_dim] to [batch, heads, length, head_dim]."""
    x = x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)
    return jnp.swapaxes(with_sharding_constraint(x, ("batch", "length", "heads", "kv")), -3, -2)


def join_heads(x: Array) -> Array:
    """Maps [batch, heads, length, head_dim] to [batch, length, heads * head_dim]."""
    x = jnp.swapaxes(x, -3, -2)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


class MultiHeadAttention(nn.Module):
    """Self-attention, or attention over the encoder's outputs."""

    config: TransformerConfig

    @nn.compact
    def __call__(
        self,
        inputs: Float[Array, "rows queries embed"],
        encoded: Float[Array, "batch keys embed"] | None = None,
        *,
        mask: Array | AttentionMask | None = None,
        bias: Array | BlockBias | None = None,
        dropout_draw: Array | None = None,
        rotation: tuple[Array, Array] | None = None,
        cache_position: Array | None = None,
        cache_length: int | None = None,
        prefill: bool = False,
        regrouped: Regrouped | None = None,
    ) -> Float[Array, "rows queries embed"]:
        """Attends from `inputs` to `encoded`, or to `inputs` if `encoded` is None.

        Args:
          inputs: `rows` may be a multiple of `batch`.
          encoded: None in self-attention, and in cross-attention whose `encoder_cache` is filled.
          mask: boolean, broadcast to [rows, heads, query_length, key_length]; an `AttentionMask`
            = attend by blocks.
          bias: added to the logits, broadcast in the same way; a `BlockBias` = by blocks.
          dropout_draw: of the attention weights; see `attend`. All copies of an example use the
            first copy's mask.
          rotation: cosine and sine of the inputs' rotary positions (`positions.rotation`).
          cache_position: int32 scalar or [rows], the position of the inputs in the `cache`; None =
            no cache.
          cache_length: length of a `cache` that does not exist yet.
          prefill: store the keys and values as the `prefix_cache`.
          regrouped: moves queries to the rows of `encoded` that they see; None = the same rows.
            The mask's queries must then be in the order of `regrouped`.
        """
        cfg, shape = self.config, inputs.shape
        prefix: tuple[Array, Array] | None = None
        key: Array
        value: Array
        # In decoding, the encoder's outputs were projected before the loop.
        is_cached = encoded is None and self.has_variable("encoder_cache", "key")
        if is_cached:
            key = self.get_variable("encoder_cache", "key")
            value = self.get_variable("encoder_cache", "value")
        # Beams and samples of an example attend to the same keys.
        if (is_cached or encoded is not None) and regrouped is None:
            batch = key.shape[0] if encoded is None else encoded.shape[0]
            inputs, mask = _one_row_per_example(inputs, mask, batch)
            if dropout_draw is not None and dropout_draw.dtype == jnp.bool_:
                dropout_draw = dropout_draw[:: shape[0] // batch]
        key_inputs = value_inputs = encoded
        if encoded is None:
            inputs, key_inputs, value_inputs = separate_inputs(inputs, 3)
        query = self._project_to_heads("query", inputs, cfg.num_heads)
        if rotation is not None:
            query = rotate(query, rotation)
        if not is_cached:
            kv_heads = cfg.num_kv_heads or cfg.num_heads
            key = self._project_to_heads("key", key_inputs, kv_heads)
            value = self._project_to_heads("value", value_inputs, kv_heads)
            if rotation is not None:
                # Keys are cached after rotation, because a token's position does not change.
                key = rotate(key, rotation)
            # Self-attention: append the new token's entry to those of tokens decoded so far.
            if cache_position is not None and encoded is None:
                if prefill:
                    self._write_cache("prefix_cache", key, value)
                # The input's keys and values, stored once for all copies of an example.
                elif self.has_variable("prefix_cache", "key"):
                    prefix = (
                        self.get_variable("prefix_cache", "key"),
                        self.get_variable("prefix_cache", "value"),
                    )
                key, value = self._extend_cache(key, value, cache_position, cache_length)
            elif cache_position is not None and self.is_mutable_collection("encoder_cache"):
                self._write_cache("encoder_cache", key, value)
        if regrouped is not None:
            # Move queries to the rows of their keys; the results are moved back below.
            query = _sort_queries(query, regrouped.places, len(key))

        x = attend(
            query,
            key,
            value,
            mask=mask,
            bias=bias,
            float32_logits=cfg.float32_attention_logits,
            prefix=prefix,
            scale=cfg.attention_scale,
            softcap=cfg.attention_softcap,
            dropout_rate=cfg.attention_weights_dropout,
            dropout_draw=dropout_draw,
            block_length=cfg.attention_block_length,
            window_length=cfg.sliding_window,
        )
        if regrouped is not None:
            x = _sort_queries(x, regrouped.back, shape[0])
        # Split copies of an example that were joined in one row into separate rows again.
        return self._project_out(x, shape[-1]).reshape(shape)

    def _project_to_heads(self, name: str, x: Array, heads: int) -> Array:
        """Maps [batch, length, embed] to [batch, heads, length, head_dim]."""
        cfg = self.config
        # T5 folds the 1/sqrt(head_dim) of the logits into the query kernel's initial values.
        folded = name == "query" and cfg.attention_scale == 1.0
        init = _query_kernel_init(cfg.head_dim) if folded else fan_in_normal
        axes, width = ("embed", "joined_kv"), heads * cfg.head_dim
        x = Projection(width, axes, cfg.dtype, init, cfg.attention_bias, name=name)(x)
        x = split_heads(x, heads)
        if not cfg.query_key_norm or name == "value":
            return x
        offset = cfg.norm_offset
        norm = RMSNorm(cfg.layer_norm_epsilon, cfg.dtype, offset, "kv", name=f"{name}_norm")
        return norm(x)

    def _project_out(self, x: Array, width: int) -> Array:
        """Maps [batch, heads, length, head_dim] to [batch, length, embed]."""
        cfg, axes = self.config, ("joined_kv", "embed")
        bias = cfg.attention_bias and cfg.attention_output_bias
        out = Projection(width, axes, cfg.dtype, fan_in_normal, bias, name="out")
        return out(join_heads(x))

    def _write_cache(self, collection: str, key: Array, value: Array) -> None:
        self.put_variable(collection, "key", key)
        self.put_variable(collection, "value", value)

    def _extend_cache(
        self, key: Array, value: Array, position: Array, cache_length: int | None
    ) -> tuple[Array, Array]:
        """Writes new keys and values [batch, heads, new, head_dim] at `position`.

        If no cache exists yet, creates an empty one and does *not* write the new entries: T5X
        creates its caches by such a call with dummy tokens.
        """
        exists = self.has_variable("cache", "cached_key")
        # [rows, kv_heads, cache_length, head_dim]
        shape = (*key.shape[:-2], cache_length or key.shape[-2], key.shape[-1])
        cached_key = self.variable("cache", "cached_key", jnp.zeros, shape, key.dtype)
        cached_value = self.variable("cache", "cached_value", jnp.zeros, shape, value.dtype)
        if not exists:
            return key, value
        cached_key.value = _write_at(cached_key.value, key, position)
        cached_value.value = _write_at(cached_value.value, value, position)
        # The whole cache; the mask excludes the slots that are not filled.
        return cached_key.value, cached_value.value


def _write_at(cached: Array, new: Array, position: Array) -> Array:
    """Writes [rows, heads, new, head_dim] into a cache, at one position or one per row."""
    if jnp.ndim(position) == 0:
        return jax.lax.dynamic_update_slice_in_dim(cached, new, position, axis=-2)
    # Rows differ in length if drafts were taken back or examples started at different times.
    write = jax.vmap(lambda row, part, at: jax.lax.dynamic_update_slice_in_dim(row, part, at, -2))
    return write(cached, new, position)


@functools.cache
def _query_kernel_init(head_dim: int) -> Initializer:
    """See `MultiHeadAttention._project_to_heads`."""
    # Logits have variance 1 at the start, as if they were divided by sqrt(head_dim).
    return lambda *args: fan_in_normal(*args) / jnp.sqrt(float(head_dim))
