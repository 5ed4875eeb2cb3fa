"""Greedy search and sampling, as one compiled loop over a step function.

The loop does not depend on the model: it feeds the last token of each row to a `StepFunction` and
selects the next one. Each example has its own random key, so its samples do not depend on the other
rows of the batch.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Integer, Key

from faith_jax.core.types import Array, PyTree
from faith_jax.decoding.beam import beam_search
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.limits import limited_scores
from faith_jax.decoding.nucleus import keep_most_probable
from faith_jax.decoding.steps import DecodingResult, Prefilled, is_end


def decode(
    prefilled: Prefilled, row_keys: Key[Array, "batch"], config: DecodingConfig
) -> DecodingResult:
    """Decodes a batch by greedy search, sampling or beam search, according to the config.

    Args:
      prefilled: a model with batch * `config.copies` rows.
      row_keys: random keys [batch]; only sampling uses them.
      config: how tokens are selected and when rows end, with end and padding tokens set.

    Returns:
      Tokens, log-probabilities, lengths and scores; best beams first, samples in any order.
    """
    if config.num_beams > 1:
        return beam_search(prefilled, config)
    return search(prefilled, row_keys, config)


def next_tokens(
    scores: Float[Array, "rows vocab"], config: DecodingConfig, row_keys: Key[Array, "rows"]
) -> Integer[Array, "rows"]:
    """Selects int32 [rows] from scores [rows, vocab], with one random key per row."""
    if config.temperature == 0.0:
        return _first_best(scores)
    logits = keep_most_probable(scores / config.temperature, config.top_k, config.top_p)
    return jax.vmap(jax.random.categorical)(row_keys, logits).astype(jnp.int32)


def _first_best(scores: Array) -> Array:
    """Returns the argmax int32 [rows] by two plain reductions; XLA's own takes 5 times as long.

    If scores are NaN, the result is an arbitrary token.
    """
    best = jnp.max(scores, axis=-1, keepdims=True)
    tokens = jnp.arange(scores.shape[-1], dtype=jnp.int32)[None]
    return jnp.min(jnp.where(scores < best, scores.shape[-1], tokens), axis=-1)


def copy_keys(row_keys: Key[Array, "batch"], copies: int) -> Key[Array, "rows"]:
    """Returns a key for each copy of each example, [batch * copies], from keys [batch].

    Copy 0 has the example's own key, so its sample is the same as with a single copy.
    """
    # Positions are folded in from 0 upwards, so copies count downwards to avoid the same numbers.
    numbers = jnp.uint32(0) - jnp.arange(copies, dtype=jnp.uint32)

    def keys(key):
        others = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, numbers)
        return jnp.where(jnp.arange(copies) == 0, key, others)

    return row_keys if copies == 1 else jax.vmap(keys)(row_keys).reshape(-1)


class _State(NamedTuple):
    position: Array  # int32 scalar, tokens decoded so far
    tokens: Array  # int32 [rows, max_length]
    last: Array  # int32 [rows], the token to feed
    ended: Array  # boolean [rows]
    length: Array  # int32 [rows]
    log_prob: Array  # float32 [rows]
    score: Array  # float32 [rows]
    cache: PyTree


def search(
    prefilled: Prefilled, row_keys: Key[Array, "batch"], config: DecodingConfig
) -> DecodingResult:
    """Runs greedy search or sampling until every row has ended or is `max_length` long.

    A row without any possible token (every score is -inf) ends there, with a score of -inf.

    Arguments and results are those of `decode`.
    """
    rows = prefilled.first_tokens.shape[0]
    keys = copy_keys(row_keys, config.copies)

    def unfinished(state: _State) -> Array:
        return (state.position < config.max_length) & ~jnp.all(state.ended)

    def advance(state: _State) -> _State:
        scored, cache = prefilled.step(state.last, state.cache)
        scores = limited_scores(scored, state.position, config, prefilled, state.tokens)
        position_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, state.position)
        chosen = next_tokens(scores, config, position_keys)
        gained = jnp.take_along_axis(scores, chosen[:, None], axis=-1)[:, 0]
        log_prob = jnp.take_along_axis(scored.log_probs, chosen[:, None], axis=-1)[:, 0]
        stuck = ~state.ended & (gained == -jnp.inf)
        ended = state.ended | stuck
        chosen = jnp.where(ended, config.padding, chosen)
        return _State(
            position=state.position + 1,
            tokens=jax.lax.dynamic_update_slice(state.tokens, chosen[:, None], (0, state.position)),
            last=chosen,
            ended=ended | is_end(chosen, config),
            length=state.length + ~ended,
            log_prob=state.log_prob + jnp.where(ended & ~stuck, 0.0, log_prob),
            score=state.score + jnp.where(ended & ~stuck, 0.0, gained),
            cache=cache,
        )

    start = _State(
        position=jnp.int32(0),
        tokens=jnp.full((rows, config.max_length), config.padding, jnp.int32),
        last=prefilled.first_tokens,
        ended=jnp.zeros((rows,), bool),
        length=jnp.zeros((rows,), jnp.int32),
        log_prob=jnp.zeros((rows,), jnp.float32),
        score=jnp.zeros((rows,), jnp.float32),
        cache=prefilled.cache,
    )
    end = jax.lax.while_loop(unfinished, advance, start)
    result = DecodingResult(end.tokens, end.log_prob, end.length, end.score)
    if config.num_return == 1:
        return result
    return jax.tree.map(lambda x: x.reshape(-1, config.num_return, *x.shape[1:]), result)
