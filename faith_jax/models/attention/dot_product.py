"""Dot-product attention, with all scores at once (plain) or block by block.

Attention by blocks takes one block of queries at a time and iterates over the blocks of keys with
a running maximum and sum of the softmax. The gradient computes a block's scores again, so memory
grows with the length of the inputs, not its square. Masks and biases are computed for each block.

Reference: Dao 2023 (FlashAttention-2), algorithms 1 and 2.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Bool, Float

from faith_jax.core.types import Array
from faith_jax.models.attention.masks import AttentionMask, Tokens, repeat_rows
from faith_jax.models.dropout import drop
from faith_jax.models.positions import BlockBias

# Low enough that its exp() is 0 beside any real logit, high enough for sums in bfloat16.
MASKED_LOGIT = -1e10
# XLA for CPUs multiplies the same keys by two to four queries in up to four times the time that it
# needs for one query after the other.
_FEW_QUERIES = 4


def _pairwise_products(
    query: Float[Array, "rows heads queries width"],
    key: Float[Array, "batch kv_heads keys width"],
    dtype: DTypeLike | None,
) -> Float[Array, "rows heads queries keys"]:
    """Returns query-key products; consecutive rows and groups of heads may share keys."""
    rows, heads, length, width = query.shape
    batch, kv_heads = key.shape[:2]
    copies, group = rows // batch, heads // kv_heads

    def at_once(query: Array, key: Array) -> Array:
        if copies == group == 1:
            return jnp.einsum("bhqd,bhkd->bhqk", query, key, preferred_element_type=dtype)
        # Queries are reshaped so that shared keys are broadcast, not repeated in memory.
        query = query.reshape(batch, copies, kv_heads, group, length, width)
        products = jnp.einsum("bchgqd,bhkd->bchgqk", query, key, preferred_element_type=dtype)
        return products.reshape(rows, heads, length, -1)

    def one_by_one(query: Array, key: Array) -> Array:
        query = query.reshape(batch, copies, kv_heads, group, length, width)
        products = [
            jnp.einsum("bhd,bhkd->bhk", query[:, c, :, g, q], key, preferred_element_type=dtype)
            for c, g, q in np.ndindex(copies, group, length)
        ]
        stacked = jnp.stack(products).reshape(copies, group, length, batch, kv_heads, -1)
        return stacked.transpose(3, 0, 4, 1, 2, 5).reshape(rows, heads, length, -1)

    if not 1 < copies * group * length <= _FEW_QUERIES:
        return at_once(query, key)
    return jax.lax.platform_dependent(query, key, cpu=one_by_one, default=at_once)


def _weighted_sum(
    weights: Float[Array, "rows heads queries keys"],
    value: Float[Array, "batch kv_heads keys width"],
    dtype: DTypeLike | None = None,
) -> Float[Array, "rows heads queries width"]:
    """Returns weighted sums of values, which rows and heads share as in `_pairwise_products`."""
    rows, heads, length, width = weights.shape
    batch, kv_heads = value.shape[:2]
    if (rows, heads) == (batch, kv_heads):
        return jnp.einsum("bhqk,bhkd->bhqd", weights, value, preferred_element_type=dtype)
    # As in `_pairwise_products`: [batch, copies, kv_heads, group, queries, keys].
    weights = weights.reshape(batch, rows // batch, kv_heads, heads // kv_heads, length, width)
    sums = jnp.einsum("bchgqk,bhkd->bchgqd", weights, value, preferred_element_type=dtype)
    return sums.reshape(rows, heads, length, -1)


def _attention_logits(
    query: Array, key: Array, float32: bool, scale: float, softcap: float
) -> Array:
    """Returns float32 logits before bias and mask."""
    logits = _pairwise_products(query, key, jnp.float32 if float32 else None).astype(jnp.float32)
    if scale != 1.0:
        logits *= scale
    # Almost linear around 0, and limited to (-softcap, softcap).
    return softcap * jnp.tanh(logits / softcap) if softcap else logits


def attend(
    query: Float[Array, "rows heads queries width"],
    key: Float[Array, "batch kv_heads keys width"],
    value: Float[Array, "batch kv_heads keys value_width"],
    *,
    mask: Bool[Array, "#rows #heads #queries all_keys"] | AttentionMask | None,
    bias: Float[Array, "#rows #heads #queries all_keys"] | BlockBias | None,
    float32_logits: bool,
    prefix: tuple[Array, Array] | None = None,
    scale: float = 1.0,
    softcap: float = 0.0,
    dropout_rate: float = 0.0,
    dropout_draw: Array | None = None,
    block_length: int = 0,
    window_length: int = 0,
) -> Float[Array, "rows heads queries value_width"]:
    """Computes dot-product attention; like T5, without scaling by the head's width by default.

    Args:
      query: `rows` and `heads` are multiples of `batch` and `kv_heads`; consecutive rows and heads
        share keys and values.
      key: see `query`.
      value: see `query`.
      mask: True = attend; covers the keys of the prefix, then the others. An `AttentionMask` =
        attend by blocks with the mask's kernel, without a prefix.
      bias: added to the logits; a `BlockBias` for attention by blocks.
      float32_logits: compute the products of query and key in float32.
      prefix: keys and values before the others, with their own batch size.
      scale: factor of the products.
      softcap: c in c * tanh(product / c); 0 = none.
      dropout_rate: share of attention weights to drop.
      dropout_draw: the keys whose weights are kept, boolean [rows, heads, 1, keys]; or a random
        key, for a mask of each query, which only plain attention and "blocks" have; None = no
        dropout.
      block_length: maximum number of queries, and of keys, in a block.
      window_length: see `splash.splash_attend`.
    """
    if dropout_draw is not None and dropout_draw.dtype == jnp.bool_:
        # If all queries keep the same keys, dropping weights is dropping values, which are smaller,
        # and which every kernel can do.
        key, value = (_repeat(x, query.shape) for x in (key, value))
        value = drop(value, dropout_rate, jnp.swapaxes(dropout_draw, -1, -2))
        dropout_draw = None
    if isinstance(mask, AttentionMask):
        # Only decoding has a prefix, and its mask is an array.
        assert prefix is None
        if mask.kernel == "splash":
            from faith_jax.models.attention.splash import splash_attend

            assert bias is None
            assert dropout_draw is None
            return splash_attend(
                query, key, value, mask, scale=scale, softcap=softcap, window_length=window_length
            )
        if mask.kernel == "cudnn":
            from faith_jax.models.attention.cudnn import cudnn_attend

            assert not softcap
            assert dropout_draw is None
            return cudnn_attend(query, key, value, mask, bias, scale=scale)
        form = _Form(mask.causal, float32_logits, scale, softcap, dropout_rate)
        return _attend_by_blocks(form, query, key, value, mask, bias, dropout_draw, block_length)
    assert not isinstance(bias, BlockBias)
    attend_to_all = functools.partial(
        _attend_to_all,
        logits_of=functools.partial(
            _attention_logits, float32=float32_logits, scale=scale, softcap=softcap
        ),
        dropout_rate=dropout_rate,
    )
    # The backward pass computes the weights [rows, heads, queries, keys] again: keeping the weights
    # of all layers would take most of the memory of a training step.
    return jax.checkpoint(attend_to_all)(query, key, value, mask, bias, prefix, dropout_draw)


def _repeat(x: Array, shape: tuple[int, ...]) -> Array:
    """Repeats rows and heads of [batch, kv_heads, keys, width] to those of queries of `shape`."""
    x = repeat_rows(x, shape[0])
    return x if x.shape[1] == shape[1] else jnp.repeat(x, shape[1] // x.shape[1], axis=1)


def _attend_to_all(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    bias: Array | None,
    prefix: tuple[Array, Array] | None,
    dropout_draw: Array | None,
    *,
    logits_of: Callable[[Array, Array], Array],
    dropout_rate: float,
) -> Array:
    """Returns the attention with all its scores at once; see `attend`."""
    logits = logits_of(query, key)
    if prefix is not None:
        # The prefix has its own batch size, so its logits are computed separately; the softmax is
        # over both.
        logits = jnp.concatenate([logits_of(query, prefix[0]), logits], axis=-1)
    if bias is not None:
        logits += bias.astype(jnp.float32)
    if mask is not None:
        logits = jnp.where(mask, logits, MASKED_LOGIT)
    # The softmax is always float32, whatever the dtype of activations.
    weights = drop(jax.nn.softmax(logits).astype(value.dtype), dropout_rate, dropout_draw)
    if prefix is None:
        return _weighted_sum(weights, value)
    split = prefix[0].shape[-2]
    # The values cannot be concatenated either, so the two partial sums are added.
    of_prefix = _weighted_sum(weights[..., :split], prefix[1])
    return of_prefix + _weighted_sum(weights[..., split:], value)


class _Form(NamedTuple):
    """The static settings of attention by blocks, known at compilation; see `attend`."""

    causal: bool
    float32_logits: bool
    scale: float
    softcap: float
    dropout_rate: float


class _Trained(NamedTuple):
    """The input arrays of attention that have gradients; the first axis is the blocks."""

    query: Array  # [blocks, rows, heads, queries, width]
    key: Array
    value: Array
    bias: Any  # a BlockBias, without an axis of blocks, or None


class _Constants(NamedTuple):
    """The input arrays of attention that have no gradients."""

    mask: AttentionMask  # with tokens in blocks: [blocks, rows, length]
    dropout_key: Array | None  # for the masks of all blocks


def block_sizes(length: int, block_length: int) -> tuple[int, int]:
    """Returns the number of blocks of a sequence and their length, at most `block_length`.

    Blocks have equal lengths, rounded up to a multiple of 8; their sum may exceed the length.
    """
    count = -(-length // block_length)
    return count, min(block_length, -(-length // (8 * count)) * 8)


def _split_blocks(x: Array, block_length: int, axis: int) -> Array:
    """Splits an axis into blocks [blocks, ..., length, ...].

    The last block is padded with zeros, which mark tokens as not valid.
    """
    axis %= x.ndim
    count, size = block_sizes(x.shape[axis], block_length)
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, count * size - x.shape[axis])
    x = jnp.pad(x, padding).reshape(*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(x, axis, 0)


def _join_blocks(x: Array, length: int) -> Array:
    """Joins [blocks, rows, heads, size, width] to [rows, heads, length, width]."""
    x = jnp.moveaxis(x, 0, 2)
    return x.reshape(*x.shape[:2], -1, x.shape[-1])[:, :, :length]


def _attend_by_blocks(
    form: _Form,
    query: Array,
    key: Array,
    value: Array,
    mask: AttentionMask,
    bias: Any,
    dropout_key: Array | None,
    block_length: int,
) -> Array:
    split = functools.partial(_split_blocks, block_length=block_length, axis=-2)
    split_tokens = functools.partial(_split_blocks, block_length=block_length, axis=-1)
    trained = _Trained(split(query), split(key), split(value), bias)
    of_queries, of_keys = jax.tree.map(split_tokens, (mask.queries, mask.keys))
    mask = mask.replace(queries=of_queries, keys=of_keys)
    blocks, log_sums = _by_blocks(form, trained, _Constants(mask, dropout_key))
    # A query that may see no key, such as padding, averages all values, as in plain attention.
    rows, heads, length = query.shape[:3]
    keys = key.shape[-2]
    equal_weights = jnp.full((rows, heads, 1, keys), 1.0 / keys, value.dtype)
    is_blind = _join_blocks(log_sums == MASKED_LOGIT, length)
    return jnp.where(is_blind, _weighted_sum(equal_weights, value), _join_blocks(blocks, length))


class _Queries(NamedTuple):
    """A block of queries, or all blocks, stacked on the first axis."""

    first: Array  # index of the block's first query
    query: Array
    tokens: Tokens


class _Keys(NamedTuple):
    """A block of keys and values, or all blocks, stacked on the first axis."""

    first: Array
    key: Array
    value: Array
    tokens: Tokens


def _build_blocks(trained: _Trained, constants: _Constants) -> tuple[_Queries, _Keys]:
    def first(x: Array) -> Array:
        # All blocks have the same length; the last one is padded.
        return x.shape[-2] * jnp.arange(len(x))

    queries = _Queries(first(trained.query), trained.query, constants.mask.queries)
    keys = trained.key, trained.value, constants.mask.keys
    return queries, _Keys(first(trained.key), *keys)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _by_blocks(form: _Form, trained: _Trained, constants: _Constants) -> tuple[Array, Array]:
    """Returns the sums of values and the logs of the softmax's sums, in blocks of queries.

    The sums are [blocks, rows, heads, queries, width]; the logs are float32, with a width of 1, and
    have no gradient. For queries that see no key, they are 0 and MASKED_LOGIT.
    """
    query_blocks, key_blocks = _build_blocks(trained, constants)
    # Masks and biases are the same in all layers. Without a barrier, the gradient of a scan over
    # the layers would compute them for all blocks before the scan, and keep them.
    query_blocks, key_blocks, bias, constants = jax.lax.optimization_barrier(
        (query_blocks, key_blocks, trained.bias, constants)
    )

    def attend_from(queries: _Queries) -> tuple[Array, Array]:
        def add(state, keys: _Keys):
            maximum, total, sums = state
            logits, mask = _block_logits(form, queries, keys, bias, constants)
            logits = jnp.where(mask, logits, MASKED_LOGIT)
            new_maximum = jnp.maximum(maximum, jnp.max(logits, axis=-1, keepdims=True))
            # If a query has seen no key yet, the maximum is MASKED_LOGIT too, and exp() would be 1.
            weights = jnp.where(mask, jnp.exp(logits - new_maximum), 0.0)
            # Rescale earlier sums: exp(x - new) = exp(x - maximum) exp(maximum - new).
            old = jnp.exp(maximum - new_maximum)
            total = total * old + jnp.sum(weights, axis=-1, keepdims=True)
            # The softmax's sum includes all weights; dropout only affects the sum of values.
            weights = _drop_block_weights(form, weights, queries, keys, constants).astype(
                keys.value.dtype
            )
            return new_maximum, total, sums * old + _weighted_sum(weights, keys.value, jnp.float32)

        def skip(state, keys: _Keys):
            return state

        def step(state, keys: _Keys):
            return _where_needed(form, queries, keys, constants, add, skip, state), None

        # One number for each query: [rows, heads, queries, 1].
        column = (*queries.query.shape[:-1], 1)
        start = (
            jnp.full(column, MASKED_LOGIT),
            jnp.zeros(column),
            jnp.zeros((*column[:-1], trained.value.shape[-1])),
        )
        (maximum, total, sums), _ = jax.lax.scan(step, start, key_blocks)
        # `_attend_by_blocks` replaces the sums of queries that have seen no key.
        is_blind = total == 0.0
        total = jnp.where(is_blind, 1.0, total)
        # log sum exp(logits), from which the gradient recomputes the weights.
        log_sums = jnp.where(is_blind, MASKED_LOGIT, maximum + jnp.log(total))
        return (sums / total).astype(trained.value.dtype), log_sums

    # One block of queries after the other, so that only one block's scores are in memory.
    return jax.lax.map(attend_from, query_blocks)


def _attend_forward(form: _Form, trained: _Trained, constants: _Constants) -> tuple[Any, Any]:
    sums, log_sums = _by_blocks(form, trained, constants)
    return (sums, log_sums), (trained, constants, sums, log_sums)


def _attend_backward(
    form: _Form, residuals: Any, gradients: tuple[Array, Array]
) -> tuple[_Trained, None]:
    trained, constants, sums, log_sums = residuals
    query_blocks, key_blocks = _build_blocks(trained, constants)
    # The common term in a query's gradients, since its weights sum to 1:
    # dL/dlogit = w (dL/dw - sum w dL/dw), where sum w dL/dw = output . dL/doutput.
    common = jnp.sum(_to_float32(sums) * _to_float32(gradients[0]), axis=-1, keepdims=True)

    def from_queries(totals, block):
        # Query gradients belong to one block; those of bias, keys and values add up over blocks.
        queries, log_sum, gradient, common = block

        def add(totals, block):
            keys, to_key, to_value = block

            def logits_of(query, key, bias):
                blocks = queries._replace(query=query), keys._replace(key=key)
                return _block_logits(form, *blocks, bias, constants)

            # `pull` is the backward pass through softcap, scale and bias.
            logits, pull, mask = jax.vjp(
                logits_of, queries.query, keys.key, trained.bias, has_aux=True
            )
            # softmax(logits) = exp(logits - log sum exp(logits)).
            weights = jnp.where(mask, jnp.exp(logits - log_sum), 0.0)
            # The same random key as in the forward pass gives the same mask: 0 or 1 / (1 - rate).
            keep = _drop_block_weights(form, jnp.ones_like(weights), queries, keys, constants)
            to_weights = keep * _pairwise_products(gradient, keys.value, jnp.float32)
            to_query, more_to_key, to_bias = pull(weights * (to_weights - common))
            weights = (weights * keep).astype(keys.value.dtype)
            # `vjp` adds up the gradients of rows that share values.
            _, pull = jax.vjp(lambda value: _weighted_sum(weights, value), keys.value)
            (more_to_value,) = pull(gradient)
            totals = jax.tree.map(jnp.add, totals, _to_float32((to_query, to_bias)))
            return totals, (
                to_key + _to_float32(more_to_key),
                to_value + _to_float32(more_to_value),
            )

        def skip(totals, block):
            return totals, block[1:]

        def step(totals, block):
            return _where_needed(form, queries, block[0], constants, add, skip, totals, block)

        to_bias, to_keys, to_values = totals
        start = (jnp.zeros(queries.query.shape), to_bias)
        (to_query, to_bias), (to_keys, to_values) = jax.lax.scan(
            step, start, (key_blocks, to_keys, to_values)
        )
        return (to_bias, to_keys, to_values), to_query.astype(trained.query.dtype)

    # Gradients are summed over blocks in float32, whatever the dtype of activations.
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape), (trained.bias, trained.key, trained.value))
    (to_bias, to_keys, to_values), to_queries = jax.lax.scan(
        from_queries, zeros, (query_blocks, log_sums, gradients[0], common)
    )
    to_trained = _Trained(to_queries, to_keys, to_values, to_bias)
    return jax.tree.map(lambda x, like: x.astype(like.dtype), to_trained, trained), None


_by_blocks.defvjp(_attend_forward, _attend_backward)


def _to_float32(tree: Any) -> Any:
    return jax.tree.map(lambda x: x.astype(jnp.float32), tree)


def _block_logits(
    form: _Form, queries: _Queries, keys: _Keys, bias: Any, constants: _Constants
) -> tuple[Array, Array]:
    """Returns the logits [rows, heads, queries, keys] of a block, before its mask, and the mask."""
    distance = queries.first - keys.first
    logits = _attention_logits(
        queries.query, keys.key, form.float32_logits, form.scale, form.softcap
    )
    if bias is not None:
        bias = bias.block(queries.query, keys.key, queries.tokens, keys.tokens, distance)
        logits += bias.astype(jnp.float32)
    return logits, constants.mask.block(queries.tokens, keys.tokens, distance)


def _where_needed(
    form: _Form,
    queries: _Queries,
    keys: _Keys,
    constants: _Constants,
    add: Callable[..., Any],
    skip: Callable[..., Any],
    state: Any,
    block: Any = None,
) -> Any:
    """Calls `add`, or `skip` if all keys are later than all queries or outside their window.

    The decision depends on lengths only, because padding may differ from device to device.
    """
    block = keys if block is None else block
    window = constants.mask.window
    if not form.causal and window is None:
        return add(state, block)
    needed = jnp.bool_(True)
    if form.causal:
        # Needed if the last query is not before the first key.
        needed &= keys.first < queries.first + queries.query.shape[-2]
    if window is not None:
        # Needed if the last key is in the first query's window; if not causal, the first key must
        # also be in the last query's window.
        before = queries.first - (keys.first + keys.key.shape[-2] - 1)
        if form.causal:
            needed &= before < window
        else:
            after = keys.first - (queries.first + queries.query.shape[-2] - 1)
            needed &= jnp.maximum(before, after) <= window // 2
    return jax.lax.cond(needed, add, skip, state, block)


def _drop_block_weights(
    form: _Form, weights: Array, queries: _Queries, keys: _Keys, constants: _Constants
) -> Array:
    """Returns a block's weights after dropout."""
    if constants.dropout_key is None:
        return weights
    # Each block has its own key. Token indices do not depend on the order of blocks in the forward
    # and backward passes.
    key = jax.random.fold_in(constants.dropout_key, keys.first)
    return drop(weights, form.dropout_rate, jax.random.fold_in(key, queries.first))
