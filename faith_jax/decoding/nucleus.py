"""Which tokens may be chosen: the k best, and the nucleus, without sorting the vocabulary."""

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.types import Array


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

    A token belongs to it as long as those ranked before it do not yet sum to `p`. The rank of
    the last one is found by bisection of its distance to the best logit, which reads the
    vocabulary thirty times: a sort of 32,128 tokens takes ten times as long.

    Args:
      logits: float [rows, vocab], not all -inf; equal ones are ranked by id.
      p: in (0, 1).
    """
    # Non-negative floats have the order of their bits, so that bisection ends after 31 halvings.
    distance = (jnp.max(logits, axis=-1, keepdims=True) - logits).astype(jnp.float32)
    probabilities = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
    bits = jax.lax.bitcast_convert_type(distance, jnp.int32)

    def mass(inside: Array) -> Array:
        return jnp.sum(jnp.where(inside, probabilities, 0.0), axis=-1)

    def halve(_, bounds):
        below, reached = bounds  # mass(bits <= below) < p <= mass(bits <= reached)
        middle = below + (reached - below) // 2
        enough = mass(bits <= middle[:, None]) >= p
        return jnp.where(enough, below, middle), jnp.where(enough, middle, reached)

    # The last token of the nucleus and those behind it hold more than 1 - p together, so it is
    # at least (1 - p) / vocab probable; the 2 allows for the rounding of the sums.
    farthest = np.float32(np.log(2 * logits.shape[-1] / max(1 - p, 1e-9)))
    below = jnp.full(logits.shape[:1], -1, jnp.int32)
    reached = jnp.full_like(below, farthest.view(np.int32))
    halvings = int(farthest.view(np.int32) + 1).bit_length()
    _, reached = jax.lax.fori_loop(0, halvings, halve, (below, reached))
    tied = bits == reached[:, None]
    before = bits < reached[:, None]
    return before | _first_tied(tied, probabilities, p - mass(before))


def _first_tied(tied: Array, probabilities: Array, missing: Array) -> Array:
    """Returns the tied tokens [rows, vocab], by id, that are needed to reach the missing mass."""

    def by_id():
        mass = jnp.where(tied, probabilities, 0.0)
        return tied & (jnp.cumsum(mass, axis=-1) - mass < missing[:, None])

    # Ties are rare, and the cumulative sum is dear.
    return jax.lax.cond(jnp.any(jnp.sum(tied, axis=-1) > 1), by_id, lambda: tied)
