"""Which tokens may come next, whatever their scores: lengths, repeated n-grams, forced tokens."""

import jax
import jax.numpy as jnp

from faith_jax.core.types import Array, StepScores
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.steps import Prefilled, is_end


def limited_scores(
    scored: StepScores,
    position: Array,
    config: DecodingConfig,
    prefilled: Prefilled,
    responses: Array,
) -> Array:
    """Returns the scores [rows, vocab] of the token at `position`, -inf where one may not come.

    End tokens may not come before `min_length`, nor tokens that end an n-gram which their row has
    already. Where nothing else may be chosen (the nucleus of PMI-Decode may hold such tokens only),
    the model's own log-probabilities of the other tokens take the scores' place. A forced token
    has the score 0, and all others -inf, whatever else is asked for.

    Args:
      scored: of the token at `position`.
      position: int32 scalar, tokens decoded before it.
      config: the limits.
      prefilled: what rows were fed before their responses.
      responses: int32 [rows, max_length], of which the first `position` tokens count.
    """
    scores = scored.scores
    tokens = jnp.arange(scores.shape[-1])
    forbidden = jnp.zeros((1, scores.shape[-1]), bool)
    if config.min_length > 1:
        forbidden |= is_end(tokens, config) & (position + 1 < config.min_length)
    if config.no_repeat_ngram:
        prompt = prefilled.prompt
        prompt = prefilled.first_tokens[:, None] if prompt is None else prompt
        size = config.no_repeat_ngram
        forbidden |= repeating(prompt, responses, position, size, scores.shape[-1])
    if config.min_length > 1 or config.no_repeat_ngram:
        others = jnp.where(forbidden, -jnp.inf, scores)
        # A row in which nothing may be chosen anyway stays so.
        possible = _any(others) | ~_any(scores)
        scores = jnp.where(possible, others, jnp.where(forbidden, -jnp.inf, scored.log_probs))
    if config.forced_bos_id is not None:
        first = jnp.where(tokens == config.forced_bos_id, 0.0, -jnp.inf)
        scores = jnp.where(position == 0, first, scores)
    if config.forced_last_ids:
        is_last = jnp.isin(tokens, jnp.asarray(config.forced_last_ids))
        last = jnp.where(is_last, 0.0, -jnp.inf)
        scores = jnp.where(position + 1 == config.max_length, last, scores)
    return scores


def _any(scores: Array) -> Array:
    return jnp.any(scores > -jnp.inf, axis=-1, keepdims=True)


def repeating(
    prompt: Array, responses: Array, position: Array, size: int, vocab_size: int
) -> Array:
    """Returns which tokens would end an n-gram that their row has already, boolean [rows, vocab].

    As in Hugging Face's search, n-grams of the prompt count, and those that it shares with the
    response.

    Args:
      prompt: int32 [rows, any], filled up with -1 in front.
      responses: int32 [rows, max_length], of which the first `position` tokens count.
      position: int32 scalar.
      size: tokens of an n-gram, 1 or more.
      vocab_size: of the model.
    """
    history = jnp.concatenate([prompt, responses], axis=1)
    rows, length = history.shape
    known = prompt.shape[1] + position
    # The first n-grams that could end at each token reach into the padding.
    padded = jnp.pad(history, ((0, 0), (size - 1, 0)), constant_values=-1)
    last = jax.lax.dynamic_slice(padded, (0, known), (rows, size - 1))
    # What no text has in front of it begins with padding, and is no n-gram.
    found = (padded[:, :length] >= 0) & (jnp.arange(length) < known)
    for place in range(size - 1):
        found &= padded[:, place : place + length] == last[:, place, None]
    # Tokens that end none are set to one that no vocabulary has, and dropped.
    ends = jnp.where(found, history, vocab_size)
    none = jnp.zeros((rows, vocab_size), bool)
    return none.at[jnp.arange(rows)[:, None], ends].set(True, mode="drop")
