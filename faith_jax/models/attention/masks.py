"""Attention masks and positions of padded and packed rows."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Bool, Integer, Shaped

from faith_jax.core.types import Array
from faith_jax.models.config import Kernel, TransformerConfig

NO_WINDOW = np.iinfo(np.int32).max  # of `AttentionMask.window`


class Tokens(NamedTuple):
    """The tokens of an attention's queries, or of its keys, as a mask sees them.

    Attributes:
      valid: boolean [rows, length], False for padding.
      segments: int [rows, length], the number of each token's segment in a packed row.
      positions: int32 [rows or 1, length], for `AttentionMask.window` and biases.
      shared: int [rows, length], of queries: another segment that each sees too, whose input it
        shares with others.
    """

    valid: Array
    segments: Array | None = None
    positions: Array | None = None
    shared: Array | None = None


class Regrouped(NamedTuple):
    """The queries of a cross-attention, sorted to rows of keys that several rows see.

    Attributes:
      places: int32 [groups, all queries], the place of each of the keys' queries among the tokens
        of a group of rows, which a device holds.
      back: int32 [groups, all tokens], the place of each token among the group's queries.
      segments: int32 [batch, queries], the segment of the keys that each query sees; 0 = none.
    """

    places: Array
    back: Array
    segments: Array


class AttentionMask(struct.PyTreeNode):
    """Which queries see which keys: described by token, and made whole or block by block.

    A query sees a key if both are valid, the key is in the query's segment of a packed row or in
    the one that it shares, and near enough.

    Attributes:
      queries: the queries; they may have a multiple of the keys' rows, and consecutive rows then
        share keys.
      keys: the keys.
      window: int32 scalar, the number of keys that a query sees, including itself; None = all. They
        end with it if causal, otherwise it is in their middle.
      causal: a query sees no later key.
      kernel: what computes the attention; see `TransformerConfig.attention_kernel`.
    """

    queries: Tokens
    keys: Tokens
    window: Array | None = None
    causal: bool = struct.field(pytree_node=False, default=False)
    kernel: Kernel = struct.field(pytree_node=False, default="blocks")

    def with_positions(self, positions: Integer[Array, "#rows length"]) -> "AttentionMask":
        """Returns the mask of self-attention with the positions of its tokens."""
        return self.replace(
            queries=self.queries._replace(positions=positions),
            keys=self.keys._replace(positions=positions),
        )

    def merge_copies(self) -> "AttentionMask":
        """Returns the mask for the queries of all rows that share keys, as one row."""
        rows = self.keys.valid.shape[0]
        return self.replace(queries=jax.tree.map(lambda x: x.reshape(rows, -1), self.queries))

    def block(
        self, queries: Tokens, keys: Tokens, distance: Array | int = 0
    ) -> Bool[Array, "rows 1 queries keys"]:
        """Returns the mask of blocks of the mask's queries and keys.

        `distance` is the first query's index minus the first key's.
        """
        rows = len(queries.valid)
        # [rows, queries, keys], until the axis of heads is added.
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
            # By positions: in a line, other rows stand between a token and the input it shares.
            offset = queries.positions[:, :, None] - keys.positions[:, None, :]
            mask &= offset < self.window if self.causal else jnp.abs(offset) <= self.window // 2
        return mask[:, None]

    def whole(self) -> Bool[Array, "rows 1 queries keys"]:
        """Returns the mask of all queries and keys."""
        return self.block(self.queries, self.keys)

    def for_attention(
        self, config: TransformerConfig, deterministic: bool
    ) -> "Array | AttentionMask":
        """Returns the mask with its kernel where attention goes by blocks, otherwise a whole array.

        cuDNN takes attention of any length, other kernels where `goes_by_blocks`. The kernel is
        one of the mesh that is active, or of JAX's default device.
        """
        platform = kernel_platform(jax.devices()[0])
        device = jax.sharding.get_abstract_mesh().abstract_device
        if device is not None and device.platform != jax.default_backend():
            platform = device.platform  # compiling for devices that are not here
        kernel = config.kernel_on(platform, deterministic)
        rows, keys = self.keys.valid.shape
        queries = self.queries.valid.size // rows
        if kernel == "cudnn" or goes_by_blocks(config.attention_block_length, queries, keys):
            return self.replace(kernel=kernel)
        return self.whole()


def kernel_platform(device: Any) -> str:
    """Returns a device's platform, or "cpu" for GPUs that lack fused attention (before Ampere)."""
    generation = float(getattr(device, "compute_capability", 8.0))
    return "cpu" if device.platform == "gpu" and generation < 8 else device.platform


def goes_by_blocks(block_length: int, queries: int, keys: int) -> bool:
    """Whether attention goes by blocks: where a head has more scores than one block would have.

    >>> goes_by_blocks(512, 512, 512), goes_by_blocks(512, 512, 600), goes_by_blocks(0, 9, 9)
    (False, True, False)
    """
    return 0 < block_length**2 < queries * keys


def segment_positions(
    valid: Bool[Array, "batch length"], segments: Integer[Array, "batch length"] | None
) -> Integer[Array, "batch length"]:
    """Returns positions within each segment of a packed batch, or within rows; -1 if not valid.

    The tokens of a segment are consecutive.
    """
    # Padding does not count, wherever it is.
    positions = jnp.cumsum(valid, axis=1, dtype=jnp.int32) - 1
    if segments is not None:
        # The first token of a row needs no mark: nothing is in front of it.
        is_first = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))
        before = positions + 1 - valid  # valid tokens in front of each
        # The count in front of a segment's first token, for all its tokens: it only grows, so that
        # the latest one is the maximum.
        positions -= jax.lax.cummax(jnp.where(is_first, before, 0), axis=1)
    return jnp.where(valid, positions, -1)


def pad_axis(x: Array, axis: int, multiple: int, value: int = 0) -> Array:
    """Fills an axis up to a multiple of a length."""
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, -x.shape[axis] % multiple)
    return jnp.pad(x, padding, constant_values=value)


def repeat_rows(array: Shaped[Array, "batch *rest"], rows: int) -> Shaped[Array, "rows *rest"]:
    """Repeats each row [batch, …], to `rows` rows, a multiple of batch."""
    return array if len(array) == rows else jnp.repeat(array, rows // len(array), axis=0)
