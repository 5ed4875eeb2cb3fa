"""Speculation: several tokens per step, without changing which tokens are selected.

A draft guesses the next tokens of each row. One step of the model feeds the last token and the
draft, and scores the token after each of them. The search selects a token from each of these
scores, just as it does without a draft: the best one, or a sample with the random key of the
position. It keeps the selected tokens up to the first one that the draft did not guess. Later
tokens were scored after a wrong token and are taken back.

Each token is thus selected from the scores that follow the tokens before it, so greedy responses
are the same (a step of several tokens rounds differently, so tokens whose scores differ by less
than 1e-4 may change places), and so are samples, given their keys.

A draft consists of the tokens that follow the last tokens of the response in the input (n-gram
look-up). It is often right if responses copy from their grounding. A drafted token is accepted with
the probability that sampling selects it; otherwise another token is sampled. This is the rule of
speculative sampling for a draft with probability 1 (Leviathan 2023, algorithm 1).
"""

import jax.numpy as jnp
from jaxtyping import Integer

from faith_jax.core.types import Array

# The maximum number of last tokens that are compared.
LONGEST_NGRAM = 4
_NONE = -1


def ngram_draft(
    source: Integer[Array, "rows any"],
    responses: Integer[Array, "rows max_length"],
    length: Integer[Array, "rows"],
    count: int,
) -> Integer[Array, "rows count"]:
    """Returns the tokens that follow the response's last tokens in the source.

    The draft follows the longest n-gram in the source that the response ends with, up to
    LONGEST_NGRAM tokens; if there are several, the first one.

    Args:
      source: tokens; -1 = padding.
      responses: only the first `length` tokens of each count.
      length: see `responses`.
      count: number of tokens in the draft.

    Returns:
      The draft; -1 after the end of the source, and everywhere if the source does not contain the
      response's last token.
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
        # The length of the matching n-gram up to each place.
        matched += equal
    end = jnp.argmax(matched, axis=1)
    # Index end + 1 of the source, after LONGEST_NGRAM - 1 tokens of padding.
    places = (LONGEST_NGRAM + end)[:, None] + jnp.arange(count)[None]
    has_match = jnp.max(matched, axis=1, keepdims=True) > 0
    return jnp.where(has_match, jnp.take_along_axis(padded, places, axis=1), _NONE)
