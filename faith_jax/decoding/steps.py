"""What a search needs of a model: its step function, the start, and the order of its cache.

Rows and examples: a search over `batch` examples with `copies` rows each (beams, or samples of
one example) has `rows = batch * copies` rows, and row r belongs to example r // copies.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from faith_jax.core.types import Array, PyTree, StepFunction, StepScores
from faith_jax.decoding.config import DecodingConfig


class Prefilled(NamedTuple):
    """A model that has read its inputs and is about to decode.

    Attributes:
      step: feeds the last token of each row and scores the next one.
      cache: the model's state before the first token.
      first_tokens: int32 [rows], what is fed first: the start token, or a prompt's last token.
      reorder: (cache, int32 [rows]) -> cache whose row r is the given cache's row rows[r].
      prompt: int32 [rows, any], what each row has been fed of its own sequence, `first_tokens`
        last, filled up with -1 in front; alike within an example. None = `first_tokens` alone.
    """

    step: StepFunction
    cache: PyTree
    first_tokens: Array
    reorder: Callable[[PyTree, Array], PyTree]
    prompt: Array | None = None


class DecodingResult(NamedTuple):
    """What was decoded; [batch, num_return, ...] where several responses were asked for.

    Attributes:
      tokens: int32 [batch, max_length], padded behind each row's end token.
      log_prob: float32 [batch], natural log-probability of each row's tokens, the end token
        included, under the model itself (temperature 1, no top_k, top_p or PMI).
      length: int32 [batch], tokens of each row, the end token included.
      score: float32 [batch], the sum of the step function's scores of the tokens; in beam search
        what beams are ranked by: that sum / length**length_penalty. For a plain model the sum is
        log_prob.
    """

    tokens: Array
    log_prob: Array
    length: Array
    score: Array


def model_scores(logits: Array) -> StepScores:
    """Returns a plain model's scores of logits [rows, vocab]: its own log-probabilities."""
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return StepScores(log_probs, log_probs)


def reorder_rows(cache: PyTree, rows: Array) -> PyTree:
    """Gathers rows of a model's cache.

    Args:
      cache: leaves `cached_key` and `cached_value` [..., rows, heads, length, head_dim], with
        the layers in front where they are stacked; scalars, which all rows share; any other
        leaf with the rows first.
      rows: int32 [new rows], which old row each new row continues.
    """

    def gather(path, leaf):
        if jnp.ndim(leaf) == 0:
            return leaf
        name = getattr(path[-1], "key", None) if path else None
        axis = leaf.ndim - 4 if name in ("cached_key", "cached_value") else 0
        return jnp.take(leaf, rows, axis=axis)

    return jax.tree_util.tree_map_with_path(gather, cache)


def repeat_rows(cache: PyTree, batch: int, copies: int) -> PyTree:
    """Returns a cache of `batch` rows with each row `copies` times, one after the other."""
    if copies == 1:
        return cache
    return reorder_rows(cache, jnp.repeat(jnp.arange(batch), copies))


def stack_rows(first: PyTree, second: PyTree) -> PyTree:
    """Returns the caches of two batches as those of one, the first one's rows in front.

    Args:
      first: what a model keeps of its inputs: keys and values [..., rows, heads, length, head_dim],
        with the layers in front where they are stacked, `valid` [rows, length], and scalars,
        which are equal in both.
      second: likewise, of any length; the shorter one is filled up with zeros at the end.
    """

    def stack(path, a, b):
        if jnp.ndim(a) == 0:
            return a
        rows, length = (0, 1) if path[-1].key == "valid" else (a.ndim - 4, a.ndim - 2)
        longest = max(a.shape[length], b.shape[length])
        filled = [
            jnp.pad(x, [(0, (longest - n) * (i == length)) for i, n in enumerate(x.shape)])
            for x in (a, b)
        ]
        return jnp.concatenate(filled, axis=rows)

    return jax.tree_util.tree_map_with_path(stack, first, second)


def is_end(tokens: Array, config: DecodingConfig) -> Array:
    """Returns where tokens are an end token: boolean, of their shape."""
    found = jnp.zeros(jnp.shape(tokens), bool)
    for end in config.end_ids:
        found |= tokens == end
    return found
