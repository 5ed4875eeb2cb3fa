"""Which tokens may be chosen: the k best, and the nucleus, without sorting the vocabulary."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.types import Array

# So many of the best tokens are looked at one by one; where the nucleus goes on behind them, so
# many halvings, one sum of the vocabulary each, come before the next look.
_LOOKED_AT = 64
_HALVINGS = 12
# CPU sums so many columns side by side in half the time of one sum after the other.
_LANES = 64


def top_k(scores: Array, k: int) -> tuple[Array, Array]:
    """Returns the k largest of float [rows, vocab] and their int32 indices, both [rows, k].

    Equal ones are ranked by index, the smaller first.
    """
    # XLA knows a top-k by the two slices behind a sort. Were a caller's own slice merged with one
    # of them, it would sort the whole vocabulary: 200 ms instead of 2 for 8 rows of 128,512. Each
    # has a barrier of its own: one for both would be handed the operation's tuple, on which XLA's
    # sharded compilation fails.
    values, indices = jax.lax.top_k(scores, k)
    return jax.lax.optimization_barrier(values), jax.lax.optimization_barrier(indices)


def keep_most_probable(logits: Array, k: int, p: float) -> Array:
    """Returns the logits with all but the top-k and nucleus tokens at minus infinity.

    Ties are kept by token id, the smaller first, so that exactly k tokens remain, and the
    nucleus is the smallest set whose probability (after top-k) sums to at least p.

    Args:
      logits: float [rows, vocab], not all -inf; need not be normalised.
      k: 0 = no limit.
      p: 1.0 = no limit.

    Reference: Holtzman 2020, section 3.1.
    """
    if 0 < k < logits.shape[-1]:
        ranked, ids = top_k(logits, k)
        last, last_id = ranked[:, -1:], ids[:, -1:]
        # top_k ranks equal logits by id.
        tokens = jnp.arange(logits.shape[-1])
        keep = (logits > last) | ((logits == last) & (tokens <= last_id))
        logits = jnp.where(keep, logits, -jnp.inf)
    if p < 1.0:
        logits = jnp.where(nucleus(logits, p), logits, -jnp.inf)
    return logits


def nucleus(logits: Array, p: float) -> Array:
    """Returns which tokens are in the nucleus, boolean [rows, vocab].

    A token belongs to it as long as those ranked before it do not yet sum to `p`. The last one
    is looked for among the best tokens. Where it is farther down, bisection first leaves a narrow
    range of logits to look at: a sort of 32,128 tokens takes ten times as long.

    Args:
      logits: float [rows, vocab], not all -inf; equal ones are ranked by id.
      p: in (0, 1).
    """
    vocab = logits.shape[-1]
    padding = ((0, 0), (0, -vocab % _LANES))
    logits = jnp.pad(logits.astype(jnp.float32), padding, constant_values=-jnp.inf)
    probabilities = jax.nn.softmax(logits, axis=-1)
    best = jnp.max(logits, axis=-1, keepdims=True)
    worst = jnp.min(jnp.where(logits > -jnp.inf, logits, jnp.inf), axis=-1, keepdims=True)
    # The last token of the nucleus and those behind it hold more than 1 - p together, so it is
    # at least (1 - p) / vocab probable; the 2 allows for the rounding of the sums.
    farthest = np.float32(np.log(2 * vocab / max(1 - p, 1e-9)))
    nowhere = jnp.zeros(best.shape, bool)
    # Above the best, by more than a denormal number, which XLA takes for 0.
    high = best + jnp.maximum(1e-6 * jnp.abs(best), 1e-30)
    low = jnp.maximum(best - farthest, worst)
    start = _Range(low, high, best, jnp.int32(0) + nowhere, nowhere)

    def narrow_and_look(bounds: _Range) -> _Range:
        bounds = jax.lax.fori_loop(
            0, _HALVINGS, lambda _, b: _halve(b, logits, probabilities, p), bounds
        )
        return _look(bounds, logits, probabilities, p)

    start = _look(start, logits, probabilities, p)
    end = jax.lax.while_loop(lambda b: ~jnp.all(b.found), narrow_and_look, start)
    logits, ids = logits[:, :vocab], jnp.arange(vocab)
    return (logits > end.last) | ((logits == end.last) & (ids <= end.last_id))


class _Range(NamedTuple):
    """Where the last token of each row's nucleus is; all [rows, 1].

    Tokens from `high` on sum to less than p, those from `low` on to at least p.
    """

    low: Array
    high: Array
    last: Array  # its logit, once it is found
    last_id: Array
    found: Array


def _mass(inside: Array, probabilities: Array) -> Array:
    """Sums the probabilities [rows, n * _LANES] of the tokens inside, [rows, 1]."""
    chosen = jnp.where(inside, probabilities, 0.0).reshape(len(inside), -1, _LANES)
    sums = jax.lax.optimization_barrier(jnp.sum(chosen, axis=1))
    return jnp.sum(sums, axis=-1, keepdims=True)


def _halve(bounds: _Range, logits: Array, probabilities: Array, p: float) -> _Range:
    middle = (bounds.low + bounds.high) / 2
    enough = _mass(logits >= middle, probabilities) >= p
    return bounds._replace(
        low=jnp.where(enough, middle, bounds.low), high=jnp.where(enough, bounds.high, middle)
    )


def _look(bounds: _Range, logits: Array, probabilities: Array, p: float) -> _Range:
    """Looks for the last token among the best ones of the range."""
    inside = (logits >= bounds.low) & (logits < bounds.high)
    values, ids = top_k(jnp.where(inside, logits, -jnp.inf), min(_LOOKED_AT, logits.shape[-1]))
    before = _mass(logits >= bounds.high, probabilities)
    masses = jnp.take_along_axis(probabilities, ids, axis=-1)
    enough = before + jnp.cumsum(jnp.where(values > -jnp.inf, masses, 0.0), axis=-1) >= p
    reached = jnp.any(enough, axis=-1, keepdims=True)
    # Where the range has no more tokens, only rounding keeps the sum below p: then its last token
    # is the nucleus's, or, in an empty range, the one that it ends at.
    real = jnp.sum(values > -jnp.inf, axis=-1, keepdims=True)
    place = jnp.where(reached, jnp.argmax(enough, axis=-1, keepdims=True), real - 1)
    value, token = (jnp.take_along_axis(x, jnp.maximum(place, 0), axis=-1) for x in (values, ids))
    seen = bounds._replace(
        last=jnp.where(real == 0, bounds.high, value),
        last_id=jnp.where(real == 0, logits.shape[-1], token),
        found=reached | (real < values.shape[-1]),
    )
    tied = ~bounds.found & ~seen.found & (values[:, :1] == values[:, -1:])
    seen = jax.lax.cond(
        jnp.any(tied),
        lambda: _look_at_tied(seen, tied, values[:, :1], logits, probabilities, p),
        lambda: seen,
    )
    return jax.tree.map(lambda old, new: jnp.where(bounds.found, old, new), bounds, seen)


def _look_at_tied(
    seen: _Range, tied: Array, value: Array, logits: Array, probabilities: Array, p: float
) -> _Range:
    """Looks among all tokens of one logit by id, in rows [rows, 1] with too many of them."""
    before = _mass(logits > value, probabilities)
    equal = jnp.where(logits == value, probabilities, 0.0)
    enough = before + jnp.cumsum(equal, axis=-1) >= p
    found = tied & jnp.any(enough, axis=-1, keepdims=True)
    first = jnp.argmax(enough, axis=-1, keepdims=True).astype(jnp.int32)
    return seen._replace(
        high=jnp.where(tied & ~found, value, seen.high),
        last=jnp.where(found, value, seen.last),
        last_id=jnp.where(found, first, seen.last_id),
        found=seen.found | found,
    )
