"""Attention by a Pallas kernel for TPUs, "splash", for models without position bias.

Like attention by blocks, it never stores all scores, and its gradient computes them again, but a
block's scores never leave the fast memory of a core. The kernel is JAX's
(`jax.experimental.pallas.ops.tpu.splash_attention`). This file tells it which tokens see each
other, and splits rows and heads over the mesh, which XLA cannot do with a kernel.
"""

import functools
import math

import jax
import jax.numpy as jnp
from flax.linen import partitioning as nn_partitioning
from jax.experimental.pallas.ops.tpu import splash_attention as splash
from jax.sharding import PartitionSpec
from jaxtyping import Float

from faith_jax.core.types import Array
from faith_jax.models.attention.masks import NO_WINDOW, AttentionMask, Tokens, pad_axis, repeat_rows

INTERPRET = False  # whether the kernel runs as plain JAX; CPU tests set it
_LANES = 128  # the width of a TPU's vectors: lengths are padded to multiples
_BLOCKS = (512, 256, 128)  # block lengths; the first one that divides the length is used
_NO_QUERY, _NO_KEY = -2, -1  # segments of padding, which match no other segment


def splash_attend(
    query: Float[Array, "rows heads queries width"],
    key: Float[Array, "batch kv_heads keys width"],
    value: Float[Array, "batch kv_heads keys value_width"],
    mask: AttentionMask,
    *,
    scale: float = 1.0,
    softcap: float = 0.0,
    window_length: int = 0,
) -> Float[Array, "rows heads queries value_width"]:
    """Computes dot-product attention like `attend` by blocks, without bias and dropout.

    With a sliding window, the valid tokens of a segment must be consecutive. `window_length` is the
    value of `mask.window` if that is not NO_WINDOW; the kernel needs it at compile time.
    """
    rows, heads = query.shape[:2]
    # The kernel is mapped over rows, so every row needs its own keys.
    key, value = repeat_rows(key, rows), repeat_rows(value, rows)
    query_tokens, key_tokens = (jax.tree.map(lambda x: repeat_rows(x, rows), part) for part in
                   (mask.queries, mask.keys))  # fmt: skip
    mesh = jax.sharding.get_abstract_mesh()
    # The mesh axes that split rows and heads; None if they do not divide evenly.
    of_rows, of_heads = None, None
    if not mesh.empty:
        spec = nn_partitioning.logical_to_mesh_axes(("batch", "heads")) or ()
        of_rows, of_heads = (
            None if count % _count_shards(mesh, name) else name
            for name, count in zip((*spec, None, None), (rows, heads), strict=False)
        )
    # If the mesh cannot split the key heads, they are repeated, one for each query head.
    if key.shape[1] % _count_shards(mesh, of_heads):
        key, value = (jnp.repeat(x, heads // x.shape[1], axis=1) for x in (key, value))
    attend = functools.partial(
        _attend_on_device, causal=mask.causal, softcap=softcap, window_length=window_length
    )
    arrays = (
        # The kernel itself does not scale products.
        query * jnp.asarray(scale, query.dtype),
        key,
        value,
        _build_segment_ids(query_tokens, key_tokens),
        mask.window,
    )
    if not mesh.empty:
        row_spec, split = PartitionSpec(of_rows), PartitionSpec(of_rows, of_heads)
        in_specs = (split, split, split, row_spec, PartitionSpec())
        # Each device runs the kernel on its own rows and heads.
        attend = jax.shard_map(attend, in_specs=in_specs, out_specs=split, check_vma=False)
    outputs = attend(*arrays)
    # Queries that may see no key, such as padding, average all values, as in plain attention.
    sees_none = ~query_tokens.valid | ~key_tokens.valid.any(axis=1, keepdims=True)
    mean_value = jnp.repeat(value.mean(axis=2, keepdims=True), heads // value.shape[1], axis=1)
    return jnp.where(sees_none[:, None, :, None], mean_value, outputs)


def _count_shards(mesh: jax.sharding.AbstractMesh, name: str | tuple[str, ...] | None) -> int:
    names = (name,) if isinstance(name, str) else name or ()
    return math.prod(mesh.shape[axis] for axis in names)


def _build_segment_ids(queries: Tokens, keys: Tokens) -> splash.SegmentIds:
    """Returns segments int32 [rows, length]; a query sees the keys of its own segment."""

    def of(tokens: Tokens, missing: int) -> Array:
        segments = tokens.segments
        if queries.segments is None or keys.segments is None or segments is None:
            # A row that is not packed is one segment.
            segments = jnp.zeros(tokens.valid.shape, jnp.int32)
        # Padding queries and padding keys get different segments, so that they do not match.
        return jnp.where(tokens.valid, segments, missing).astype(jnp.int32)

    return splash.SegmentIds(of(queries, _NO_QUERY), of(keys, _NO_KEY))


def _attend_on_device(
    query: Array,
    key: Array,
    value: Array,
    segments: splash.SegmentIds,
    window: Array | None,
    *,
    causal: bool,
    softcap: float,
    window_length: int,
) -> Array:
    """Returns the attention of a device's own rows and heads."""
    length = query.shape[2]
    query, key, value = (pad_axis(x, 2, _LANES) for x in (query, key, value))
    segments = splash.SegmentIds(
        pad_axis(segments.q, 1, _LANES, _NO_QUERY), pad_axis(segments.kv, 1, _LANES, _NO_KEY)
    )
    heads, shape = query.shape[1], (query.shape[2], key.shape[2])

    def with_mask(mask: splash.Mask, *arrays: Array) -> Array:
        of_queries, of_keys = map(_choose_block_size, shape)
        # Block sizes of queries, keys, and keys computed at once: in the forward pass, in the
        # gradients of keys and values, and (without the last) in the gradient of queries.
        sizes = splash.BlockSizes(
            *(of_queries, of_keys, of_keys),
            *(of_queries, of_keys, of_keys),
            *(of_queries, of_keys),
        )
        kernel = splash.make_splash_mha(
            splash.MultiHeadMask([mask] * heads),
            block_sizes=sizes,
            head_shards=1,
            q_seq_shards=1,
            attn_logits_soft_cap=softcap or None,
            interpret=INTERPRET,
        )
        # The kernel takes a single row.
        return jax.vmap(kernel)(*arrays)

    arrays = query, key, value, segments
    full_mask = splash.CausalMask(shape) if causal else splash.FullMask(shape)
    if window is None:
        outputs = with_mask(full_mask, *arrays)
    else:
        # A window of n keys has the query's own key and the n - 1 before it.
        near = splash.LocalMask(shape, (window_length - 1, 0 if causal else None), offset=0)
        branches = (functools.partial(with_mask, mask) for mask in (near, full_mask))
        # Scanned layers run the same program, but only some have a window.
        outputs = jax.lax.cond(window < NO_WINDOW, *branches, *arrays)
    return outputs[:, :, :length]


def _choose_block_size(length: int) -> int:
    return next(size for size in _BLOCKS if length % size == 0)
