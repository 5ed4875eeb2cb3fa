"""Top-k and nucleus selection for sampling (`search.next_tokens`), without a full sort."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Integer

from faith_jax.core.types import Array

# The number of best tokens that are examined one by one. If the nucleus is larger, the range of
# logits is first halved `_HALVINGS` times, each time with a sum over the vocabulary.
_LOOKED_AT = 64
_HALVINGS = 12
# Summing this many columns side by side takes half the time on CPU.
_LANES = 64


def top_k(
    scores: Float[Array, "rows vocab"], k: int
) -> tuple[Float[Array, "rows k"], Integer[Array, "rows k"]]:
    """Returns the k largest of float [rows, vocab] and their int32 indices, both [rows, k].

    Equal scores are ranked by index, the smaller first.
    """
    # XLA recognises a top-k by the two slices after a sort. If it merged a caller's slice with one
    # of them, it would sort the whole vocabulary: 200 ms instead of 2 for 8 rows of 128,512. Each
    # output has its own barrier, because XLA's sharded compilation fails on a barrier of the tuple.
    values, indices = jax.lax.top_k(scores, k)
    return jax.lax.optimization_barrier(values), jax.lax.optimization_barrier(indices)


def keep_most_probable(
    logits: Float[Array, "rows vocab"], k: int, p: float
) -> Float[Array, "rows vocab"]:
    """Sets the logits of all tokens outside the top k and the nucleus to minus infinity.

    Ties are broken by token id, the smaller first. Exactly k tokens remain, and the nucleus is the
    smallest set whose probabilities (after top-k) sum to at least p.

    Args:
      logits: not all -inf; they need not be normalised.
      k: 0 = no limit.
      p: 1.0 = no limit.

    Reference: Holtzman 2020, section 3.1.
    """
    if 0 < k < logits.shape[-1]:
        ranked, ids = top_k(logits, k)
        last, last_id = ranked[:, -1:], ids[:, -1:]
        # top_k ranks equal logits by id.
        tokens = jnp.arange(logits.shape[-1])[None]
        keep = (logits > last) | ((logits == last) & (tokens <= last_id))
        logits = jnp.where(keep, logits, -jnp.inf)
    if p < 1.0:
        logits = jnp.where(nucleus(logits, p), logits, -jnp.inf)
    return logits


def nucleus(logits: Float[Array, "rows vocab"], p: float) -> Bool[Array, "rows vocab"]:
    """Returns which tokens are in the nucleus, boolean [rows, vocab].

    A token is in the nucleus if the tokens ranked before it sum to less than `p`. The last token of
    the nucleus is searched for among the best tokens. If it ranks lower, bisection first narrows
    the range of logits. This is ten times as fast as sorting 32,128 tokens.
    Equal logits are ranked by id; `p` is in (0, 1).
    """
    vocab = logits.shape[-1]
    padding = ((0, 0), (0, -vocab % _LANES))
    logits = jnp.pad(logits.astype(jnp.float32), padding, constant_values=-jnp.inf)
    probabilities = jax.nn.softmax(logits, axis=-1)
    best = jnp.max(logits, axis=-1, keepdims=True)
    worst = jnp.min(jnp.where(logits > -jnp.inf, logits, jnp.inf), axis=-1, keepdims=True)
    # The last token of the nucleus and those after it sum to more than 1 - p, so its probability is
    # at least (1 - p) / vocab; the 2 allows for the rounding of the sums.
    farthest = np.float32(np.log(2 * vocab / max(1 - p, 1e-9)))
    nowhere = jnp.zeros(best.shape, bool)
    # Above the best logit by more than a denormal number, which XLA would treat as 0.
    high = best + jnp.maximum(1e-6 * jnp.abs(best), 1e-30)
    low = jnp.maximum(best - farthest, worst)
    start = _Range(low, high, best, jnp.zeros_like(nowhere, jnp.int32), nowhere)

    def halve_range(_: Array, bounds: _Range) -> _Range:
        middle = (bounds.low + bounds.high) / 2
        # Keeps the half in which the sum reaches p, which preserves the invariant of `_Range`.
        enough = _sum_probabilities(logits >= middle, probabilities) >= p
        return bounds._replace(
            low=jnp.where(enough, middle, bounds.low), high=jnp.where(enough, bounds.high, middle)
        )

    def narrow_and_look(bounds: _Range) -> _Range:
        bounds = jax.lax.fori_loop(0, _HALVINGS, halve_range, bounds)
        return _search_best_tokens(bounds, logits, probabilities, p)

    start = _search_best_tokens(start, logits, probabilities, p)
    end = jax.lax.while_loop(lambda b: ~jnp.all(b.is_found), narrow_and_look, start)
    logits, ids = logits[:, :vocab], jnp.arange(vocab)[None]
    return (logits > end.last) | ((logits == end.last) & (ids <= end.last_id))


class _Range(NamedTuple):
    """The range of logits that contains the last token of each row's nucleus; all [rows, 1].

    Probabilities sum to less than p for logits >= `high`, and to at least p for logits >= `low`.
    """

    low: Array
    high: Array
    last: Array  # the logit of the last token, once found
    last_id: Array
    is_found: Array


def _sum_probabilities(inside: Array, probabilities: Array) -> Array:
    """Sums the probabilities [rows, n * _LANES] of the tokens in the mask `inside`: [rows, 1]."""
    inside_probabilities = jnp.where(inside, probabilities, 0.0).reshape(len(inside), -1, _LANES)
    sums = jax.lax.optimization_barrier(jnp.sum(inside_probabilities, axis=1))
    return jnp.sum(sums, axis=-1, keepdims=True)


def _search_best_tokens(bounds: _Range, logits: Array, probabilities: Array, p: float) -> _Range:
    """Searches for the last token among the best ones of the range."""
    inside = (logits >= bounds.low) & (logits < bounds.high)
    values, ids = top_k(jnp.where(inside, logits, -jnp.inf), min(_LOOKED_AT, logits.shape[-1]))
    # The probability of all tokens above the range.
    before = _sum_probabilities(logits >= bounds.high, probabilities)
    masses = jnp.take_along_axis(probabilities, ids, axis=-1)
    enough = before + jnp.cumsum(jnp.where(values > -jnp.inf, masses, 0.0), axis=-1) >= p
    reached = jnp.any(enough, axis=-1, keepdims=True)
    # If the range has no more tokens, only rounding keeps the sum below p. The last token of the
    # range is then the last of the nucleus; for an empty range, it is the token at its upper end.
    real = jnp.sum(values > -jnp.inf, axis=-1, keepdims=True)
    place = jnp.where(reached, jnp.argmax(enough, axis=-1, keepdims=True), real - 1)
    value, token = (jnp.take_along_axis(x, jnp.maximum(place, 0), axis=-1) for x in (values, ids))
    seen = bounds._replace(
        last=jnp.where(real == 0, bounds.high, value),
        last_id=jnp.where(real == 0, logits.shape[-1], token),
        is_found=reached | (real < values.shape[-1]),
    )
    # All examined tokens have the same logit, so bisection of logits cannot separate them.
    tied = ~bounds.is_found & ~seen.is_found & (values[:, :1] == values[:, -1:])

    def look_at_tied() -> _Range:
        # Searches by id among all tokens with this logit.
        tied_logit = values[:, :1]
        above = _sum_probabilities(logits > tied_logit, probabilities)
        equal = jnp.where(logits == tied_logit, probabilities, 0.0)
        suffices = above + jnp.cumsum(equal, axis=-1) >= p
        is_in_tie = tied & jnp.any(suffices, axis=-1, keepdims=True)
        first = jnp.argmax(suffices, axis=-1, keepdims=True).astype(jnp.int32)
        return seen._replace(
            # All tied tokens are in the nucleus, and the last token of the nucleus ranks lower.
            high=jnp.where(tied & ~is_in_tie, tied_logit, seen.high),
            last=jnp.where(is_in_tie, tied_logit, seen.last),
            last_id=jnp.where(is_in_tie, first, seen.last_id),
            is_found=seen.is_found | is_in_tie,
        )

    seen = jax.lax.cond(jnp.any(tied), look_at_tied, lambda: seen)
    return jax.tree.map(lambda old, new: jnp.where(bounds.is_found, old, new), bounds, seen)
