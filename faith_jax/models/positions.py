"""Position encodings: T5's relative bias, rotary positions, ALiBi, and DeBERTa's buckets."""

import math
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import struct
from jaxtyping import Float

from faith_jax.core.types import Array
from faith_jax.models.attention.masks import Tokens
from faith_jax.models.config import TransformerConfig
from faith_jax.models.layers import fan_avg_uniform, param_with_axes


def relative_position_bucket(
    relative_position: Array, *, bidirectional: bool, num_buckets: int, max_distance: int
) -> Array:
    """Maps key position minus query position to T5's buckets, int32 in [0, num_buckets).

    Half of the buckets contain one small distance each; the others grow logarithmically up to
    `max_distance`, and larger distances share the last one. The encoder's map is bidirectional and
    uses half of all buckets for keys after the query.

    Reference: Raffel 2020, section 2.1.
    """
    bucket = jnp.zeros_like(relative_position)
    distance = -relative_position
    if bidirectional:
        num_buckets //= 2
        # Keys after the query use the second half.
        bucket = jnp.where(distance < 0, num_buckets, 0)
        distance = jnp.abs(distance)
    else:
        # Keys after the query are masked anyway.
        distance = jnp.maximum(distance, 0)
    # The first `exact` buckets contain one distance each, starting with 0.
    exact = num_buckets // 2
    # The small constant avoids log(0) in the branch that is not used.
    ratio = jnp.log(distance.astype(jnp.float32) / exact + jnp.finfo(jnp.float32).eps)
    # exact + (buckets - exact) log(distance / exact) / log(max_distance / exact), rounded down.
    coarse = exact + (ratio / jnp.log(max_distance / exact) * (num_buckets - exact)).astype(
        jnp.int32
    )
    coarse = jnp.minimum(coarse, num_buckets - 1)
    return bucket + jnp.where(distance < exact, distance, coarse)


class RelativePositionBias(nn.Module):
    """T5's learned bias of attention logits for each bucketed distance and head."""

    num_heads: int
    bidirectional: bool
    num_buckets: int = 32
    max_distance: int = 128
    dtype: str = "float32"

    def setup(self):
        self.rel_embedding = param_with_axes(
            "rel_embedding",
            fan_avg_uniform,
            (self.num_heads, self.num_buckets),
            ("heads", "relpos_buckets"),
        )

    def __call__(self, relative_position: Array) -> "Array | DistanceBias":
        """Looks up the bias of key positions minus query positions.

        Args:
          relative_position: int32 [rows or 1, queries, keys]; or [2 * length - 1], all distances
            in a sequence of `length` tokens, in ascending order from 1 - length.

        Returns:
          [rows or 1, heads, queries, keys]; for a list of distances a `DistanceBias`, which avoids
          the array of all pairs.
        """
        buckets = relative_position_bucket(
            relative_position,
            bidirectional=self.bidirectional,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
        )
        bias = jnp.take(self.rel_embedding, buckets, axis=1).astype(self.dtype)
        return DistanceBias(bias) if bias.ndim == 2 else jnp.moveaxis(bias, 0, 1)


def relative_position_bias(
    config: TransformerConfig, bidirectional: bool, name: str | None = None
) -> RelativePositionBias:
    """Returns the bias module of a stack, or of a layer."""
    return RelativePositionBias(
        config.num_heads,
        bidirectional=bidirectional,
        num_buckets=config.relative_attention_num_buckets,
        max_distance=config.relative_attention_max_distance,
        dtype=config.dtype,
        name=name,
    )


def skew(products: Array, queries: int) -> Array:
    """Converts values by distance into values by query and key.

    Args:
      products: [..., queries, queries + keys - 1]; element [i, c] belongs to the distance
        queries - 1 - c, the query's index minus the key's.
      queries: number of queries.

    Returns:
      [..., queries, keys]; element [i, j] belongs to distance i - j. This needs no gather: after
      padding by one column, a reshape to rows of the old width shifts each row by one element.
    """
    *batch, _, width = products.shape
    padded = jnp.pad(products, ((0, 0),) * (products.ndim - 1) + ((0, 1),))
    flat = padded.reshape(*batch, queries * (width + 1))
    # Element [i, c] was at i (width + 1) + c and is now at i width + j: c = queries - 1 - (i - j).
    flat = flat[..., queries - 1 : queries - 1 + queries * width]
    return flat.reshape(*batch, queries, width)[..., : width - queries + 1]


@runtime_checkable
class BlockBias(Protocol):
    """A bias of attention logits that is computed block by block; a pytree of trained arrays."""

    def block(
        self, query: Array, key: Array, queries: Tokens, keys: Tokens, distance: Array
    ) -> Float[Array, "#rows heads queries keys"]:
        """Returns the bias of a block of queries and keys, each [rows, heads, length, head_dim].

        `distance` is the first query's index minus the first key's.
        """
        ...


def at_distances(values: Array, queries: int, keys: int, distance: Array, axis: int) -> Array:
    """Cuts the values for a block's queries + keys - 1 distances out of a whole sequence's.

    Values are 2 * length - 1 along `axis`; element c belongs to the distance length - 1 - c.
    `distance` is the first query's index minus the first key's.
    """
    # The block's first value belongs to its largest distance, from its last query to its first key:
    # length - 1 - start = distance + queries - 1.
    start = (values.shape[axis] + 1) // 2 - queries - distance
    return jax.lax.dynamic_slice_in_dim(values, start, queries + keys - 1, axis)


class DistanceBias(struct.PyTreeNode):
    """A bias that depends only on the distance between query and key.

    Attributes:
      values: [heads, 2 * length - 1]; element c is for queries length - 1 - c after their key.
    """

    values: Array

    def block(
        self, query: Array, key: Array, queries: Tokens, keys: Tokens, distance: Array
    ) -> Array:
        """See `BlockBias`."""
        sizes = query.shape[-2], key.shape[-2]
        values = at_distances(self.values, *sizes, distance, axis=-1)
        # [heads, queries, queries + keys - 1]: the values by distance are the same for all queries.
        values = jnp.broadcast_to(values[:, None], (len(values), sizes[0], values.shape[-1]))
        return skew(values, sizes[0])[None]


def rotary_frequencies(config: TransformerConfig) -> np.ndarray:
    """Returns the angle per position of each pair of features, float32 [head_dim / 2].

    Reference: Su 2021; for "llama3" the Llama 3.1 release: wavelengths longer than the original
    training length are stretched by `rope_factor`, short ones are kept, and those between are
    interpolated.
    """
    exponents = np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim
    # theta^(-2i / head_dim) for pair i
    frequencies = config.rope_theta**-exponents
    if config.rope_type == "linear":
        frequencies = frequencies / config.rope_factor
    elif config.rope_type == "llama3":
        # The number of turns of each pair in the original length; few turns = a long wavelength.
        turns = config.rope_original_max_positions * frequencies / (2 * math.pi)
        low, high = config.rope_low_freq_factor, config.rope_high_freq_factor
        # This share of the frequency is kept; the rest is divided by the factor.
        kept_share = np.clip((turns - low) / (high - low), 0.0, 1.0)
        frequencies = frequencies * (kept_share + (1 - kept_share) / config.rope_factor)
    return frequencies.astype(np.float32)


def rotation(config: TransformerConfig, positions: Array) -> tuple[Array, Array]:
    """Returns cosine and sine for `rotate`, float32 [batch, 1, length, head_dim / 2] each.

    Positions are int32 [batch, length].
    """
    # In float32, because bfloat16 cannot tell large positions apart.
    angles = positions.astype(jnp.float32)[..., None] * rotary_frequencies(config)[None, None]
    return jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]


def rotate(x: Array, cosine_and_sine: tuple[Array, Array]) -> Array:
    """Rotates each pair of features of [batch, heads, length, head_dim] by its position's angle.

    Feature i of the first half and feature i of the second half are a pair, as in Llama and Gemma.
    """
    cosine, sine = cosine_and_sine
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    # (first + i second) exp(i angle), real and imaginary part.
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Returns the slope of each head, float32 [heads]: a geometric sequence.

    If the number of heads is not a power of two, the remaining slopes are every other element of
    the sequence for twice the next lower power.

    Reference: Press 2022, section 3.
    """
    power = 2 ** math.floor(math.log2(num_heads))
    # 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads
    slopes = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    # The sequence for 2 power heads is 2^(-4 i / power); its even elements are `slopes` already.
    more = 2.0 ** (-4.0 * np.arange(1, 2 * (num_heads - power), 2) / power)
    return np.concatenate([slopes, more]).astype(np.float32)


def alibi_bias(num_heads: int, query_positions: Array, key_positions: Array) -> Array:
    """Returns the bias [batch, heads, query_length, key_length]: minus slope times distance.

    Positions are int32 [batch or 1, length].
    """
    distance = query_positions[:, None, :, None] - key_positions[:, None, None, :]
    return -alibi_slopes(num_heads)[None, :, None, None] * distance


class AlibiBias(struct.PyTreeNode):
    """`alibi_bias`, block by block."""

    num_heads: int = struct.field(pytree_node=False)

    def block(
        self, query: Array, key: Array, queries: Tokens, keys: Tokens, distance: Array
    ) -> Array:
        """See `BlockBias`."""
        return alibi_bias(self.num_heads, queries.positions, keys.positions)


def log_buckets(distance: np.ndarray, buckets: int, max_distance: int) -> np.ndarray:
    """Returns DeBERTa's buckets of query position minus key position, int32 of the same shape.

    Half of the buckets contain one distance each; the others grow logarithmically up to
    `max_distance`. The sign is kept. With 0 buckets or a `max_distance` of 0, distances are kept.

    Reference: He 2023 (DeBERTa-v3's code; the paper gives no formula).
    """
    middle = buckets // 2
    if buckets <= 0 or max_distance <= 0:
        return distance.astype(np.int32)
    # Distance 0 has no logarithm; it is a bucket of its own.
    size = np.maximum(np.abs(distance), 1).astype(np.float32)
    # The ratio is 0 at the distance `middle`, and 1 at max_distance - 1.
    ratio = np.log(size / middle) / np.log(np.float32((max_distance - 1) / middle))
    # Distances from middle to max_distance - 1 share the remaining middle - 1 buckets.
    coarse = np.ceil(ratio * (middle - 1)) + middle
    bucketed = np.where(np.abs(distance) <= middle, distance, coarse * np.sign(distance))
    return bucketed.astype(np.int32)
