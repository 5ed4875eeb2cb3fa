"""Limits on the next token: minimum length, repeated n-grams, forced tokens."""

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Integer

from faith_jax.core.types import Array, StepScores
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.pmi import pmi_scores
from faith_jax.decoding.steps import Prefilled, is_end
from faith_jax.models.attention.masks import repeat_rows


def limited_scores(
    scored: StepScores,
    position: Integer[Array, "#rows"],
    config: DecodingConfig,
    prefilled: Prefilled,
    responses: Integer[Array, "rows max_length"],
) -> Float[Array, "rows vocab"]:
    """Returns the scores of the token at each row's `position`, -inf for forbidden tokens.

    End tokens are forbidden before `min_length`, and tokens that complete an n-gram that the row
    already contains are always forbidden. PMI-Decode's scores are computed over the remaining
    tokens: both branches' probabilities sum to 1 over them, and the nucleus is chosen from them. If
    no allowed token has a score above -inf, the allowed tokens' log-probabilities replace the
    scores. A forced token has the score 0 and all others -inf, regardless of other limits.

    Only the first `position` tokens of the responses count. Scores and responses may have several
    consecutive rows for each row of the model, such as one for each of several positions.
    """
    scores = scored.scores
    tokens = jnp.arange(scores.shape[-1])[None]
    forbidden = jnp.zeros((1, scores.shape[-1]), bool)
    if config.min_length > 1:
        # With the token at `position`, a response has position + 1 tokens.
        forbidden |= is_end(tokens, config) & (position + 1 < config.min_length)[:, None]
    if config.no_repeat_ngram:
        prompt = prefilled.prompt
        prompt = prefilled.first_tokens[:, None] if prompt is None else prompt
        # All positions of a row have the same prompt.
        prompt = repeat_rows(prompt, len(responses))
        size = config.no_repeat_ngram
        forbidden |= repeating(prompt, responses, position, size, scores.shape[-1])
    if config.min_length > 1 or config.no_repeat_ngram:
        if config.pmi is not None and scored.without_document is not None:
            # A row without any possible token is not changed.
            forbidden &= _has_possible_token(jnp.where(forbidden, -jnp.inf, scored.log_probs))
            with_document, without_document = (
                jax.nn.log_softmax(jnp.where(forbidden, -jnp.inf, branch))
                for branch in (scored.log_probs, scored.without_document)
            )
            scores = pmi_scores(with_document, without_document, config.pmi)
        allowed_scores = jnp.where(forbidden, -jnp.inf, scores)
        # A row without any possible token is not changed.
        possible = _has_possible_token(allowed_scores) | ~_has_possible_token(scores)
        scores = jnp.where(
            possible, allowed_scores, jnp.where(forbidden, -jnp.inf, scored.log_probs)
        )
    if config.forced_bos_id is not None:
        first = jnp.where(tokens == config.forced_bos_id, 0.0, -jnp.inf)
        scores = jnp.where((position == 0)[:, None], first, scores)
    if config.forced_last_ids:
        is_last = jnp.isin(tokens, jnp.asarray(config.forced_last_ids))
        last = jnp.where(is_last, 0.0, -jnp.inf)
        is_at_limit = (position + 1 == config.max_length)[:, None]
        scores = jnp.where(is_at_limit, last, scores)
    return scores


def _has_possible_token(scores: Array) -> Array:
    return jnp.any(scores > -jnp.inf, axis=-1, keepdims=True)


def repeating(
    prompt: Integer[Array, "rows any"],
    responses: Integer[Array, "rows max_length"],
    position: Integer[Array, "#rows"],
    size: int,
    vocab_size: int,
) -> Bool[Array, "rows vocab"]:
    """Returns which tokens would complete an n-gram of `size` tokens that the row contains.

    As in Hugging Face's search, n-grams of the prompt count, and so do those that span prompt and
    response. The prompt is padded on the left with -1; only the first `position` tokens of the
    responses count.
    """
    history = jnp.concatenate([prompt, responses], axis=1)
    rows, length = history.shape
    history_length = (prompt.shape[1] + position)[:, None]
    # The n-grams that end at the first tokens start in the padding.
    padded = jnp.pad(history, ((0, 0), (size - 1, 0)), constant_values=-1)
    # In `padded`, the size - 1 tokens before the next token begin at `history_length`.
    places = jnp.broadcast_to(history_length + jnp.arange(size - 1)[None], (rows, size - 1))
    # The last size - 1 tokens of each row, which the next token extends to an n-gram.
    last = jnp.take_along_axis(padded, places, axis=1)
    # An n-gram that starts with padding does not count.
    matches = (padded[:, :length] >= 0) & (jnp.arange(length)[None] < history_length)
    for place in range(size - 1):
        # matches[i]: the size - 1 tokens before history[i] equal the row's last tokens.
        matches &= padded[:, place : place + length] == last[:, place, None]
    # Other positions get an id outside the vocabulary, which is dropped.
    ends = jnp.where(matches, history, vocab_size)
    none = jnp.zeros((rows, vocab_size), bool)
    return none.at[jnp.arange(rows)[:, None], ends].set(True, mode="drop")
