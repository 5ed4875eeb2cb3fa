"""Multi-head attention with key-value caches for decoding.

Two caches make a decoding step cheap:

- `cache`: keys and values of the tokens decoded so far, `cached_key` and `cached_value`
  [batch, heads, cache_length, head_dim]. How many are filled is `cache_index` of the decoder.
- `encoder_cache`: keys and values of the encoder's outputs, projected once for a whole decode.
  It exists only where the caller makes it mutable at prefill (`Transformer.start_decoding`);
  callers that do not, such as T5X, get the projection at each step instead.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

from faith_jax.models.layers import Initializer, Projection, with_sharding_constraint
from faith_jax.types import Array

# Large enough that exp() of it is 0 beside any real logit, small enough for bfloat16 sums.
MASKED_LOGIT = -1e10


def attend(
    query: Array,
    key: Array,
    value: Array,
    *,
    mask: Array | None,
    bias: Array | None,
    float32_logits: bool,
    dropout_rate: float = 0.0,
    dropout_key: Array | None = None,
) -> Array:
    """Dot-product attention without scaling by the head's width, as T5 has it.

    Args:
      query: [batch, heads, query_length, head_dim].
      key: [batch, heads, key_length, head_dim].
      value: like `key`.
      mask: boolean, broadcast to [batch, heads, query_length, key_length]; True = attend.
      bias: added to the logits, broadcast likewise.
      float32_logits: take the products of query and key in float32.
      dropout_rate: share of attention weights dropped, one mask for all queries.
      dropout_key: key of the dropout; None = no dropout.

    Returns:
      [batch, heads, query_length, head_dim], of `value`'s dtype.
    """
    logits = jnp.einsum(
        "bhqd,bhkd->bhqk",
        query,
        key,
        preferred_element_type=jnp.float32 if float32_logits else None,
    ).astype(jnp.float32)
    if bias is not None:
        logits += bias.astype(jnp.float32)
    if mask is not None:
        logits = jnp.where(mask, logits, MASKED_LOGIT)
    weights = jax.nn.softmax(logits).astype(value.dtype)
    if dropout_key is not None and dropout_rate > 0.0:
        shape = (*weights.shape[:-2], 1, weights.shape[-1])
        keep = jax.random.bernoulli(dropout_key, 1.0 - dropout_rate, shape)
        weights *= keep.astype(weights.dtype) / jnp.asarray(1.0 - dropout_rate, weights.dtype)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, value)


class MultiHeadAttention(nn.Module):
    """Self-attention, or attention over the encoder's outputs.

    Attributes:
      num_heads: number of heads.
      head_dim: width of each.
      dropout_rate: of the attention weights.
      float32_logits: see `attend`.
      dtype: of activations.
    """

    num_heads: int
    head_dim: int
    dropout_rate: float = 0.0
    float32_logits: bool = False
    dtype: str = "float32"

    @nn.compact
    def __call__(
        self,
        inputs: Array,
        encoded: Array | None = None,
        *,
        mask: Array | None = None,
        bias: Array | None = None,
        deterministic: bool,
        cache_position: Array | None = None,
        cache_length: int | None = None,
    ) -> Array:
        """Attends from `inputs` to `encoded`, or to `inputs` themselves where it is absent.

        Args:
          inputs: [batch, query_length, embed].
          encoded: [batch, key_length, embed]; left out in self-attention, and in
            cross-attention whose `encoder_cache` is filled.
          mask: boolean, broadcast to [batch, heads, query_length, key_length].
          bias: added to the logits, broadcast likewise.
          deterministic: no dropout.
          cache_position: int32 scalar, where in the `cache` the inputs belong; None = no cache.
          cache_length: positions of a `cache` that does not exist yet.

        Returns:
          [batch, query_length, embed].
        """
        query = self._project("query", inputs)
        key: Array
        value: Array
        if encoded is None and self.has_variable("encoder_cache", "key"):
            key = self.get_variable("encoder_cache", "key")
            value = self.get_variable("encoder_cache", "value")
        else:
            source = inputs if encoded is None else encoded
            key = self._project("key", source)
            value = self._project("value", source)
            if cache_position is not None and encoded is None:
                key, value = self._extend_cache(key, value, cache_position, cache_length)
            elif cache_position is not None and self.is_mutable_collection("encoder_cache"):
                self.put_variable("encoder_cache", "key", key)
                self.put_variable("encoder_cache", "value", value)

        dropout_key = None
        if not deterministic and self.dropout_rate > 0.0:
            dropout_key = self.make_rng("dropout")
        x = attend(
            query,
            key,
            value,
            mask=mask,
            bias=bias,
            float32_logits=self.float32_logits,
            dropout_rate=self.dropout_rate,
            dropout_key=dropout_key,
        )
        x = jnp.swapaxes(x, -3, -2)
        x = x.reshape(*x.shape[:-2], self.num_heads * self.head_dim)
        axes = ("joined_kv", "embed")
        return Projection(inputs.shape[-1], axes, self.dtype, _kernel_init, name="out")(x)

    def _project(self, name: str, x: Array) -> Array:
        """[batch, length, embed] -> [batch, heads, length, head_dim]."""
        init = _query_kernel_init(self.head_dim) if name == "query" else _kernel_init
        width = self.num_heads * self.head_dim
        x = Projection(width, ("embed", "joined_kv"), self.dtype, init, name=name)(x)
        x = x.reshape(*x.shape[:-1], self.num_heads, self.head_dim)
        x = with_sharding_constraint(x, ("batch", "length", "heads", "kv"))
        return jnp.swapaxes(x, -3, -2)

    def _extend_cache(
        self, key: Array, value: Array, position: Array, cache_length: int | None
    ) -> tuple[Array, Array]:
        """Writes new keys and values [batch, heads, new, head_dim] at `position`.

        Where no cache exists yet, an empty one is made and the new entries are *not* written:
        T5X makes its caches by such a call on dummy tokens.
        """
        exists = self.has_variable("cache", "cached_key")
        shape = (*key.shape[:-2], cache_length or key.shape[-2], key.shape[-1])
        cached_key = self.variable("cache", "cached_key", jnp.zeros, shape, key.dtype)
        cached_value = self.variable("cache", "cached_value", jnp.zeros, shape, value.dtype)
        if not exists:
            return key, value
        start = (0,) * (key.ndim - 2) + (position, 0)
        cached_key.value = jax.lax.dynamic_update_slice(cached_key.value, key, start)
        cached_value.value = jax.lax.dynamic_update_slice(cached_value.value, value, start)
        return cached_key.value, cached_value.value


_kernel_init = nn.initializers.variance_scaling(1.0, "fan_in", "normal")


def _query_kernel_init(head_dim: int) -> Initializer:
    """T5 folds the 1/sqrt(head_dim) of the logits into the query kernel's start."""
    return lambda *args: _kernel_init(*args) / jnp.sqrt(float(head_dim))
