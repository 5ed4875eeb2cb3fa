"""The interface between search and model: step function, first tokens, and cache.

A search over `batch` examples with `copies` rows each (beams or samples of an example) has
`rows = batch * copies` rows. Row r belongs to example r // copies.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Integer

from faith_jax.core.types import Array, PyTree, StepFunction, StepScores
from faith_jax.decoding.config import DecodingConfig


class Prefilled(NamedTuple):
    """A model that has read its inputs and is about to decode.

    Attributes:
      step: feeds the last token of each row and scores the next one.
      cache: the model's state before the first token.
      first_tokens: int32 [rows], the tokens to feed first: the start token, or a prompt's last.
      reorder: (cache, int32 [rows]) -> cache whose row r is row rows[r] of the given cache.
      prompt: int32 [rows, any], the tokens of each row's own sequence up to `first_tokens`, padded
        on the left with -1; equal for the rows of an example. None = only `first_tokens`.
    """

    step: StepFunction
    cache: PyTree
    first_tokens: Array
    reorder: Callable[[PyTree, Array], PyTree]
    prompt: Array | None = None


class DecodingResult(NamedTuple):
    """The decoded responses; [batch, num_return, ...] if num_return > 1.

    Attributes:
      tokens: int32 [batch, max_length], padded after each row's end token.
      log_prob: float32 [batch], natural log-probability of each row's tokens, including the end
        token, under the model itself (temperature 1, without top_k, top_p or PMI).
      length: int32 [batch], the number of tokens of each row, including the end token.
      score: float32 [batch], the sum of the step function's scores of the tokens, which is log_prob
        for a plain model. In beam search it is the ranking score: sum / length**length_penalty.
    """

    tokens: Array
    log_prob: Array
    length: Array
    score: Array


def model_scores(logits: Float[Array, "rows vocab"]) -> StepScores:
    """Returns the scores of a plain model, the log-probabilities of logits [rows, vocab]."""
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return StepScores(log_probs, log_probs)


def reorder_rows(cache: PyTree, rows: Array) -> PyTree:
    """Gathers rows of a model's cache.

    Args:
      cache: leaves `cached_key` and `cached_value` [..., rows, heads, length, head_dim], with the
        layers first if they are stacked; scalars, which all rows share; other leaves with the rows
        first.
      rows: int32 [new rows], the old row that each new row continues.
    """

    def gather(path, leaf):
        if jnp.ndim(leaf) == 0:
            return leaf
        name = getattr(path[-1], "key", None) if path else None
        axis = leaf.ndim - 4 if name in ("cached_key", "cached_value") else 0
        return jnp.take(leaf, rows, axis=axis)

    return jax.tree_util.tree_map_with_path(gather, cache)


def repeat_rows(cache: PyTree, batch: int, copies: int) -> PyTree:
    """Repeats each of the `batch` rows of a cache `copies` times, next to each other."""
    if copies == 1:
        return cache
    return reorder_rows(cache, jnp.repeat(jnp.arange(batch), copies))


def stack_rows(first: PyTree, second: PyTree) -> PyTree:
    """Joins the caches of two batches into one, where `interleaved` rows follow each other.

    Args:
      first: what a model stores about its inputs: keys and values [..., rows, heads, length,
        head_dim], with the layers first if they are stacked, `valid` [rows, length], and scalars,
        which are equal in both.
      second: the same, of any length; the shorter one is padded with zeros at the end.
    """

    def stack(path, a, b):
        if jnp.ndim(a) == 0:
            return a
        rows, length = (0, 1) if path[-1].key == "valid" else (a.ndim - 4, a.ndim - 2)
        longest = max(a.shape[length], b.shape[length])
        first, second = (
            jnp.pad(x, [(0, (longest - n) * (i == length)) for i, n in enumerate(x.shape)])
            for x in (a, b)
        )
        return interleaved(first, second, axis=rows)

    return jax.tree_util.tree_map_with_path(stack, first, second)


def interleaved(first: Array, second: Array, axis: int = 0) -> Array:
    """Returns each row of the first array, followed by that of the second.

    Rows that are split over devices stay where they are; if all of the first array's came first,
    half of the rows would move.
    """
    both = jnp.stack([first, second], axis + 1)
    return both.reshape(*first.shape[:axis], -1, *first.shape[axis + 1 :])


def is_end(tokens: Integer[Array, "*shape"], config: DecodingConfig) -> Bool[Array, "*shape"]:
    """Returns which tokens are end tokens, boolean of the same shape."""
    found = jnp.zeros(jnp.shape(tokens), bool)
    for end in config.end_ids:
        found |= tokens == end
    return found
