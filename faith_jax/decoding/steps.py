"""The interface between search and model: step function, first tokens, and cache.

A search over `batch` examples with `copies` rows each (beams or samples of an example) has
`rows = batch * copies` rows. Row r belongs to example r // copies.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Integer

from faith_jax.core.types import Array, PyTree, StepFunction, StepScores
from faith_jax.decoding.config import DecodingConfig


class Prefilled(NamedTuple):
    """A model that has read its inputs and is about to decode.

    Attributes:
      step: feeds the last tokens of each row and scores the next ones.
      cache: the model's state before the first token.
      first_tokens: int32 [rows], the tokens to feed first: the start token, or a prompt's last.
      reorder: (cache, int32 [rows]) -> cache whose row r is row rows[r] of the given cache.
      prompt: int32 [rows, any], the tokens of each row's own sequence up to `first_tokens`, padded
        on the left with -1; equal for the rows of an example. None = only `first_tokens`.
      take_back: (cache, int32 [rows]) -> cache without the given number of last tokens of each row.
      source: int32 [rows, any], the tokens of each row's input, from which drafts are copied; -1 =
        padding. Only speculation needs this.
    """

    step: StepFunction
    cache: PyTree
    first_tokens: Array
    reorder: Callable[[PyTree, Array], PyTree]
    prompt: Array | None
    take_back: Callable[[PyTree, Array], PyTree]
    source: Array


class DecodingResult(NamedTuple):
    """The decoded responses; [batch, num_return, ...] if num_return > 1.

    Attributes:
      tokens: int32 [batch, max_length], padded after each row's end token.
      log_prob: float32 [batch], natural log-probability of each row's tokens, including the end
        token, under the model itself (temperature 1, without top_k, top_p or PMI).
      length: int32 [batch], the number of tokens of each row, including the end token.
      score: float32 [batch], the sum of the step function's scores of the tokens, which is log_prob
        for a plain model. In beam search, the ranking score: sum / length**length_penalty.
    """

    tokens: Array
    log_prob: Array
    length: Array
    score: Array


def model_scores(logits: Float[Array, "rows *several vocab"]) -> StepScores:
    """Returns the scores of a plain model: the log-probabilities of its logits."""
    # Float32, because a search adds scores up over the response.
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return StepScores(log_probs, log_probs)


_KEYS_AND_VALUES = ("cached_key", "cached_value", "key", "value")


def _name(path: Any) -> Any:
    return getattr(path[-1], "key", None)


def _row_axis(path: Any, leaf: Array) -> int:
    # [..., rows, heads, length, head_dim]; scanned layers add an axis before the rows.
    return leaf.ndim - 4 if _name(path) in _KEYS_AND_VALUES else 0


def reorder_rows(cache: PyTree, rows: Array) -> PyTree:
    """Gathers rows of a model's cache or memory.

    Args:
      cache: keys and values [..., rows, heads, length, head_dim], with the layers first if they are
        stacked; scalars, which all rows share; other leaves with the rows first.
      rows: int32 [new rows], the old row that each new row continues.
    """

    def gather(path, leaf):
        # Scalars, such as an index that all rows share, stay the same.
        return leaf if jnp.ndim(leaf) == 0 else jnp.take(leaf, rows, axis=_row_axis(path, leaf))

    return jax.tree_util.tree_map_with_path(gather, cache)


def take_back(cache: PyTree, tokens: Integer[Array, "rows"]) -> PyTree:
    """Removes the last `tokens` tokens of each row from a model's cache, by its `cache_index`.

    The index, which may be a scalar before, then has one entry per row, int32 [rows].
    """

    def lower(path, leaf):
        # Keys and values stay in the cache, but are masked and later overwritten.
        return leaf - tokens if path[-1].key == "cache_index" else leaf

    return jax.tree_util.tree_map_with_path(lower, cache)


# A step reads the whole cache, so a loop starts with a short one; shorter ones would save little.
_SHORTEST_CACHE = 64


def cache_lengths(max_length: int) -> list[int]:
    """Returns the successive lengths of a cache of at most `max_length` tokens.

    Each is about twice the previous one. There are few, because a loop is compiled for each.

    >>> cache_lengths(64), cache_lengths(256), cache_lengths(2048)
    ([64], [64, 128, 256], [512, 1024, 2048])
    """
    # A quarter and a half, rounded up to multiples of 16.
    parts = [-(-max_length // (16 << halvings)) * 16 for halvings in (2, 1)]
    return [length for length in parts if _SHORTEST_CACHE <= length < max_length] + [max_length]


def _holds_tokens(path: Any) -> bool:
    return _name(path) in ("cached_key", "cached_value")


def cache_capacity(cache: PyTree) -> int | None:
    """Returns the number of tokens a cache has room for; None = a cache without keys and values."""
    leaves = jax.tree_util.tree_leaves_with_path(cache)
    return next((leaf.shape[-2] for path, leaf in leaves if _holds_tokens(path)), None)


def resize_cache(cache: PyTree, length: int) -> PyTree:
    """Shortens a cache, or extends it with zeros, to make room for `length` tokens."""

    def resize(path, leaf):
        if not _holds_tokens(path):
            return leaf
        # [..., length, head_dim]
        cached = jax.lax.slice_in_dim(leaf, 0, min(length, leaf.shape[-2]), axis=-2)
        padding = [(0, 0)] * leaf.ndim
        padding[-2] = (0, length - cached.shape[-2])
        return jnp.pad(cached, padding)

    return jax.tree_util.tree_map_with_path(resize, cache)


def loop_in_stages(
    unfinished: Callable[[Any], Array],
    step: Callable[[Any], Any],
    needed: Callable[[Any], Array],
    state: Any,
    max_tokens: int,
) -> Any:
    """Repeats a step with a cache that starts short and grows as more tokens need room.

    Args:
      unfinished: maps a state to a boolean scalar.
      step: maps a state to the next one.
      needed: maps a state to the number of tokens that the cache must hold after the next step,
        int32 scalar, not counting the soft prompt.
      state: a tuple with a `cache` that has room for the soft prompt and `max_tokens` tokens.
      max_tokens: maximum number of tokens that can be needed.
    """
    capacity = cache_capacity(state.cache)
    if capacity is None:  # not a transformer's cache
        return jax.lax.while_loop(unfinished, step, state)
    for length in cache_lengths(max_tokens):
        # capacity - max_tokens is the length of the soft prompt.
        state = state._replace(cache=resize_cache(state.cache, length + capacity - max_tokens))

        def goes_on(state: Any, length: int = length) -> Array:
            return unfinished(state) & (needed(state) <= length)

        # The last cache holds all tokens that can be needed.
        state = jax.lax.while_loop(goes_on if length < max_tokens else unfinished, step, state)
    return state


def copy_rows(cache: PyTree, batch: int, copies: int) -> PyTree:
    """Repeats each of the `batch` rows of a cache `copies` times, in consecutive rows."""
    if copies == 1:
        return cache
    return reorder_rows(cache, jnp.repeat(jnp.arange(batch), copies))


def join_branches(first: tuple[PyTree, PyTree], second: tuple[PyTree, PyTree]) -> tuple:
    """Joins the memories and caches of PMI-Decode's branches; see `generation.read`.

    Rows of the branches alternate. Rows that are split over devices stay on their devices; if all
    rows of the first branch came first, half of the rows would move.

    An encoder cache has one row for both branches of an example: the keys of the second input
    follow those of the first, so that a step reads only as many keys as the inputs have. Each
    branch's row of `valid` hides the keys of the other branch.
    """

    def stack(path, a, b):
        if jnp.ndim(a) == 0:
            return a  # equal in both branches
        if path[1].key == "encoder_cache":
            if _name(path) in _KEYS_AND_VALUES:
                return jnp.concatenate([a, b], axis=-2)
            a, b = jnp.pad(a, ((0, 0), (0, b.shape[1]))), jnp.pad(b, ((0, 0), (a.shape[1], 0)))
        axis = _row_axis(path, a)
        # The shorter branch is padded at the end, tokens with -1.
        longest = [max(sizes) for sizes in zip(a.shape, b.shape, strict=True)]
        # Rows 2 i and 2 i + 1 are row i of the first and the second branch.
        pairs = jnp.stack([_fill_up(x, longest, axis) for x in (a, b)], axis + 1)
        return pairs.reshape(*longest[:axis], -1, *longest[axis + 1 :])

    return jax.tree_util.tree_map_with_path(stack, first, second)


def place_rows(held: PyTree, new: PyTree, examples: Integer[Array, "new"], batch: int) -> PyTree:
    """Replaces the rows of a few examples of a batch.

    Args:
      held: the batch's arrays, as in `reorder_rows`, without scalars. The rows of an example are
        consecutive; arrays may differ in their number, which depends on branches and copies.
      new: the same for the new examples, of the same or smaller lengths.
      examples: index of each new example in the batch; an index of `batch` drops the example.
      batch: number of examples in `held`.
    """

    def place(path, leaf, rows):
        axis = _row_axis(path, leaf)
        per_example = leaf.shape[axis] // batch
        index = (examples[:, None] * per_example + jnp.arange(per_example)[None]).reshape(-1)
        rows = _fill_up(rows, leaf.shape, axis)
        return leaf.at[(slice(None),) * axis + (index,)].set(rows, mode="drop")

    return jax.tree_util.tree_map_with_path(place, held, new)


def _fill_up(leaf: Array, shape: Sequence[int], row_axis: int) -> Array:
    """Pads the end of each axis except the rows; integers (tokens) with -1, others with 0."""
    sizes = zip(leaf.shape, shape, strict=True)
    padding = [(0, 0 if i == row_axis else size - n) for i, (n, size) in enumerate(sizes)]
    is_tokens = jnp.issubdtype(leaf.dtype, jnp.integer)
    return jnp.pad(leaf, padding, constant_values=-1 if is_tokens else 0)


def is_end(tokens: Integer[Array, "*shape"], config: DecodingConfig) -> Bool[Array, "*shape"]:
    """Returns which tokens are end tokens, boolean of the same shape."""
    matches = jnp.zeros(jnp.shape(tokens), bool)
    for end in config.end_ids:
        matches |= tokens == end
    return matches
