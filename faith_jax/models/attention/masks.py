"""Attention masks and positions of padded and packed rows."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Bool, Integer, Shaped

from faith_jax.core.types import Array
from faith_jax.models.config import Kernel, TransformerConfig

NO_WINDOW = np.iinfo(np.int32).max  # `AttentionMask.window` of layers without a window


class Tokens(NamedTuple):
    """The properties of queries' or keys' tokens that determine a mask.

    Attributes:
      valid: boolean [rows, length], False for padding.
      segments: int [rows, length], the number of each token's segment in a packed row.
      positions: int32 [rows or 1, length], for `AttentionMask.window` and biases.
      shared: int [rows, length], only for queries: a second segment that each query sees, an input
        that several segments share.
    """

    valid: Array
    segments: Array | None = None
    positions: Array | None = None
    shared: Array | None = None


class Regrouped(NamedTuple):
    """The queries of a cross-attention, moved to the rows of their keys, which several rows share.

    A group consists of the rows that one device holds.

    Attributes:
      places: int32 [groups, all queries], the index of each moved query among its group's tokens.
      back: int32 [groups, all tokens], the index of each token among its group's moved queries.
      segments: int32 [batch, queries], the segment of the keys that each query sees; 0 = none.
    """

    places: Array
    back: Array
    segments: Array


class AttentionMask(struct.PyTreeNode):
    """A description of which queries see which keys, for a whole mask or one block at a time.

    A query sees a key if both are valid, and the key is near enough and in the query's segment of a
    packed row or in its shared segment.

    Attributes:
      queries: the queries; they may have a multiple of the keys' rows, and consecutive rows then
        share keys.
      keys: the keys.
      window: int32 scalar, the number of keys that a query sees, including itself; None = all. The
        window ends with the query if causal, otherwise the query is in its middle.
      causal: a query does not see later keys.
      kernel: the implementation of attention; see `TransformerConfig.attention_kernel`.
    """

    queries: Tokens
    keys: Tokens
    window: Array | None = None
    causal: bool = struct.field(pytree_node=False, default=False)
    kernel: Kernel = struct.field(pytree_node=False, default="blocks")

    def with_positions(self, positions: Integer[Array, "#rows length"]) -> "AttentionMask":
        """Returns the mask of self-attention with positions for its queries and keys."""
        return self.replace(
            queries=self.queries._replace(positions=positions),
            keys=self.keys._replace(positions=positions),
        )

    def merge_copies(self) -> "AttentionMask":
        """Returns the mask with the queries of all rows that share keys joined in one row."""
        rows = self.keys.valid.shape[0]
        return self.replace(queries=jax.tree.map(lambda x: x.reshape(rows, -1), self.queries))

    def block(
        self, queries: Tokens, keys: Tokens, distance: Array | int = 0
    ) -> Bool[Array, "rows 1 queries keys"]:
        """Returns the mask of a block of queries and a block of keys.

        `distance` is the first query's index minus the first key's.
        """
        rows = len(queries.valid)
        # [rows, queries, keys]; the axis of heads is added at the end.
        mask = queries.valid[:, :, None] & repeat_rows(keys.valid, rows)[:, None, :]
        if queries.segments is not None and keys.segments is not None:
            segments = repeat_rows(keys.segments, rows)
            # Padding has a segment too, but is not valid.
            same_segment = queries.segments[:, :, None] == segments[:, None, :]
            if queries.shared is not None:
                same_segment |= queries.shared[:, :, None] == segments[:, None, :]
            mask &= same_segment
        if self.causal:
            # Counted from the block's first key.
            query_index = distance + jnp.arange(mask.shape[1])
            mask &= (query_index[:, None] >= jnp.arange(mask.shape[2])[None])[None]
        if self.window is not None:
            assert queries.positions is not None
            assert keys.positions is not None
            # Positions, not indices: a line may have other rows' tokens after the shared input.
            offset = queries.positions[:, :, None] - keys.positions[:, None, :]
            mask &= offset < self.window if self.causal else jnp.abs(offset) <= self.window // 2
        return mask[:, None]

    def whole(self) -> Bool[Array, "rows 1 queries keys"]:
        """Returns the mask of all queries and keys."""
        return self.block(self.queries, self.keys)

    def for_attention(
        self, config: TransformerConfig, deterministic: bool
    ) -> "Array | AttentionMask":
        """Returns the mask with its kernel if attention goes by blocks, otherwise a whole array.

        cuDNN's kernel is used for any length, the others if `goes_by_blocks`. The kernel fits the
        devices of the active mesh, or JAX's default device.
        """
        platform = kernel_platform(jax.devices()[0])
        device = jax.sharding.get_abstract_mesh().abstract_device
        if device is not None and device.platform != jax.default_backend():
            platform = device.platform  # compiling for devices of another machine
        kernel = config.kernel_on(platform, deterministic)
        rows, keys = self.keys.valid.shape
        queries = self.queries.valid.size // rows
        if kernel == "splash" and self.queries.shared is not None:
            kernel = "blocks"  # a query has one segment in splash
        if kernel == "cudnn" or goes_by_blocks(config.attention_block_length, queries, keys):
            return self.replace(kernel=kernel)
        return self.whole()


def kernel_platform(device: Any) -> str:
    """Returns a device's platform, or "cpu" for GPUs that lack fused attention (before Ampere)."""
    generation = float(getattr(device, "compute_capability", 8.0))
    return "cpu" if device.platform == "gpu" and generation < 8 else device.platform


def goes_by_blocks(block_length: int, queries: int, keys: int) -> bool:
    """Whether attention goes by blocks, because a head has more scores than fit in one block.

    >>> goes_by_blocks(512, 512, 512), goes_by_blocks(512, 512, 600), goes_by_blocks(0, 9, 9)
    (False, True, False)
    """
    return 0 < block_length**2 < queries * keys


def segment_positions(
    valid: Bool[Array, "batch length"], segments: Integer[Array, "batch length"] | None
) -> Integer[Array, "batch length"]:
    """Returns positions within each segment of a packed batch, or within rows; -1 if not valid.

    The tokens of a segment must be consecutive.
    """
    # Padding is not counted, wherever it is.
    positions = jnp.cumsum(valid, axis=1, dtype=jnp.int32) - 1
    if segments is not None:
        # The first token of a row needs no mark, because no token precedes it.
        is_first = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))
        before = positions + 1 - valid  # number of valid tokens before each token
        # Each token needs the count before its segment's first token. Counts only grow along a row,
        # so a running maximum over first tokens gives it.
        positions -= jax.lax.cummax(jnp.where(is_first, before, 0), axis=1)
    return jnp.where(valid, positions, -1)


def pad_axis(x: Array, axis: int, multiple: int, value: int = 0) -> Array:
    """Pads an axis with `value` to a multiple of a length."""
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, -x.shape[axis] % multiple)
    return jnp.pad(x, padding, constant_values=value)


def repeat_rows(array: Shaped[Array, "batch *rest"], rows: int) -> Shaped[Array, "rows *rest"]:
    """Repeats each row of [batch, …], to `rows` rows in total, a multiple of batch."""
    return array if len(array) == rows else jnp.repeat(array, rows // len(array), axis=0)
