"""Speculation: several tokens a step, without changing which tokens are selected.

A draft guesses the next tokens of each row. One step of the model feeds the last token and the
draft, and scores the token after each of them. The search selects a token from each of these
scores, just as it does without a draft: the best one, or a sample with the random key of the
position. It keeps the selected tokens up to the first one that the draft did not guess. What
follows was scored after a wrong token and is taken back.

Each token is thus selected from the scores that follow the tokens before it, so greedy responses
are the same (a step of several tokens rounds differently, so tokens whose scores differ by less
than 1e-4 may change places), and so are samples, given their keys.

A draft is what follows the last tokens of the response in the input (n-gram look-up). It is often
right where responses copy from their grounding. A drafted token is accepted with the probability
that sampling selects it; otherwise another token is sampled. This is the rule of speculative
sampling for a draft that is certain of its tokens (Leviathan 2023, algorithm 1).
"""

import jax.numpy as jnp
from jaxtyping import Integer

from faith_jax.core.types import Array

# As many of the last tokens are compared at most.
LONGEST_NGRAM = 4
_NONE = -1


def ngram_draft(
    source: Integer[Array, "rows any"],
    responses: Integer[Array, "rows max_length"],
    length: Integer[Array, "rows"],
    count: int,
) -> Integer[Array, "rows count"]:
    """Returns the tokens that follow the response's last tokens in the source.

    The place in the source is the one with the longest n-gram before it that the response ends
    with, up to LONGEST_NGRAM tokens; of equal ones the first.

    Args:
      source: tokens; -1 = padding.
      responses: only the first `length` tokens of each count.
      length: see `responses`.
      count: tokens of the draft.

    Returns:
      -1 where the source ends, and everywhere if it does not contain the response's last token.
    """
    padded = jnp.pad(source, ((0, 0), (LONGEST_NGRAM - 1, count + 1)), constant_values=_NONE)
    width = source.shape[1]
    equal, matched = jnp.ones(source.shape, bool), jnp.zeros(source.shape, jnp.int32)
    for back in range(LONGEST_NGRAM):
        place = length - 1 - back
        token = jnp.take_along_axis(responses, jnp.maximum(place, 0)[:, None], axis=1)
        start = LONGEST_NGRAM - 1 - back
        before = padded[:, start : start + width]
        # equal[i]: up to place i, the source has the last back + 1 tokens of the response.
        equal &= (before == token) & (before >= 0) & (place >= 0)[:, None]
        # The length of the n-gram up to each place, as it ends where `equal` becomes False.
        matched += equal
    end = jnp.argmax(matched, axis=1)
    # Place end + 1 of the source, behind LONGEST_NGRAM - 1 tokens of padding.
    places = (LONGEST_NGRAM + end)[:, None] + jnp.arange(count)[None]
    has_match = jnp.max(matched, axis=1, keepdims=True) > 0
    return jnp.where(has_match, jnp.take_along_axis(padded, places, axis=1), _NONE)
