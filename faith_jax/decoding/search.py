"""Greedy search and sampling as one compiled loop over a step function.

The loop does not depend on the model: it feeds the last token of each row to a `StepFunction` and
selects the next token, or several (`decoding.speculation`). Each row has its own position. Each
example has its own random key, so its samples do not depend on the other rows of the batch.
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
from faith_jax.decoding.speculation import ngram_draft
from faith_jax.decoding.steps import DecodingResult, Prefilled, is_end, loop_in_stages


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
    """Selects int32 [rows] from scores [rows, vocab], with one random key per row.

    If scores are NaN, greedy search selects an arbitrary token.
    """
    if config.temperature == 0.0:
        # The argmax by two plain reductions; XLA's own takes 5 times as long.
        best = jnp.max(scores, axis=-1, keepdims=True)
        tokens = jnp.arange(scores.shape[-1], dtype=jnp.int32)[None]
        # The smallest id among the tokens with the best score.
        return jnp.min(jnp.where(scores < best, scores.shape[-1], tokens), axis=-1)
    logits = keep_most_probable(scores / config.temperature, config.top_k, config.top_p)
    return jax.vmap(jax.random.categorical)(row_keys, logits).astype(jnp.int32)


def copy_keys(row_keys: Key[Array, "batch"], copies: int) -> Key[Array, "rows"]:
    """Returns a key for each copy of each example, [batch * copies], from keys [batch].

    Copy 0 has the example's own key, so its sample is the same as with a single copy.
    """
    # Positions are folded in from 0 upwards; copies count downwards to avoid the same numbers.
    numbers = jnp.uint32(0) - jnp.arange(copies, dtype=jnp.uint32)

    def keys(key):
        folded_keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, numbers)
        return jnp.where(jnp.arange(copies) == 0, key, folded_keys)

    return row_keys if copies == 1 else jax.vmap(keys)(row_keys).reshape(-1)


class Rows(NamedTuple):
    """Rows that are being decoded."""

    tokens: Array  # int32 [rows, max_length]
    last: Array  # int32 [rows], the token to feed
    ended: Array  # boolean [rows]
    length: Array  # int32 [rows], the number of tokens decoded so far
    log_prob: Array  # float32 [rows]
    score: Array  # float32 [rows]
    cache: PyTree


def search(
    prefilled: Prefilled, row_keys: Key[Array, "batch"], config: DecodingConfig
) -> DecodingResult:
    """Runs greedy search or sampling until every row has ended or is `max_length` long.

    A row without any possible token (all scores are -inf) ends there, with a score of -inf.

    Has the arguments and results of `decode`.
    """
    keys = copy_keys(row_keys, config.copies)
    end = loop_in_stages(
        lambda rows: ~jnp.all(rows.ended),
        lambda rows: advance(rows, prefilled, keys, config),
        lambda rows: needed_cache_length(rows, config),
        start(prefilled, config),
        config.cache_length,
    )
    result = DecodingResult(end.tokens, end.log_prob, end.length, end.score)
    if config.num_return == 1:
        return result
    return jax.tree.map(lambda x: x.reshape(-1, config.num_return, *x.shape[1:]), result)


def start(prefilled: Prefilled, config: DecodingConfig) -> Rows:
    """Returns the rows of a model before their first tokens."""
    rows = prefilled.first_tokens.shape[0]
    return Rows(
        tokens=jnp.full((rows, config.max_length), config.padding, jnp.int32),
        last=prefilled.first_tokens,
        ended=jnp.zeros((rows,), bool),
        length=jnp.zeros((rows,), jnp.int32),
        log_prob=jnp.zeros((rows,), jnp.float32),
        score=jnp.zeros((rows,), jnp.float32),
        # Takes no token back, but gives each row its own cache index.
        cache=prefilled.take_back(prefilled.cache, jnp.zeros((rows,), jnp.int32)),
    )


def needed_cache_length(rows: Rows, config: DecodingConfig) -> Integer[Array, ""]:
    """Returns how many tokens the cache must hold after the next step of the unfinished rows."""
    return jnp.max(jnp.where(rows.ended, 0, rows.length)) + 1 + config.num_drafted


def advance(
    rows: Rows, prefilled: Prefilled, keys: Key[Array, "rows"], config: DecodingConfig
) -> Rows:
    """Takes one model step; each unfinished row gains a token, plus accepted drafted tokens."""
    count = 1 + config.num_drafted
    fed, draft = rows.last, None
    if count > 1:
        draft = ngram_draft(prefilled.source, rows.tokens, rows.length, count - 1)
        # A draft of -1 (nothing could be drafted) is fed as 0, but never equals a selected token.
        fed = jnp.concatenate([rows.last[:, None], jnp.maximum(draft, 0)], axis=1)
    scored, cache = prefilled.step(fed, rows.cache)
    # [rows, count, vocab] -> [rows * count, vocab], to limit and select positions like rows.
    scored = jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), scored)
    positions = rows.length[:, None] + jnp.arange(count)[None]  # [rows, count], as below
    responses = rows.tokens
    if draft is not None:
        responses = jnp.repeat(_write_tokens(rows.tokens, positions[:, :-1], draft), count, axis=0)
    scores = limited_scores(scored, positions.reshape(-1), config, prefilled, responses)
    # A key for each row and position, so that samples do not depend on drafts.
    fold = jax.vmap(jax.vmap(jax.random.fold_in, in_axes=(None, 0)))
    position_keys = fold(keys, positions).reshape(-1)
    tokens = next_tokens(scores, config, position_keys)
    gained = jnp.take_along_axis(scores, tokens[:, None], axis=-1)[:, 0]
    log_prob = jnp.take_along_axis(scored.log_probs, tokens[:, None], axis=-1)[:, 0]
    tokens, gained, log_prob = (x.reshape(-1, count) for x in (tokens, gained, log_prob))
    # Rows without any possible token end here, without a token.
    stuck = gained == -jnp.inf
    ends = stuck | is_end(tokens, config) | (positions + 1 >= config.max_length)
    reached = ~rows.ended[:, None]
    if draft is not None:
        goes_on = ((tokens[:, :-1] == draft) & ~ends[:, :-1]).astype(jnp.int32)
        # A position is reached if all drafted tokens before it were selected: a running product.
        reached &= jnp.pad(jnp.cumprod(goes_on, axis=1), ((0, 0), (1, 0)), constant_values=1) > 0
    is_kept = reached & ~stuck
    new = jnp.sum(is_kept, axis=1, dtype=jnp.int32)
    # The last kept token is fed next.
    last = jnp.take_along_axis(tokens, jnp.maximum(new - 1, 0)[:, None], axis=1)[:, 0]
    if draft is not None:
        # `count` tokens were fed, and `new` of them are kept.
        cache = prefilled.take_back(cache, count - new)
    return Rows(
        # Tokens at the index `max_length` are out of range and dropped.
        tokens=_write_tokens(rows.tokens, jnp.where(is_kept, positions, config.max_length), tokens),
        last=jnp.where(new > 0, last, rows.last),
        ended=rows.ended | jnp.any(reached & ends, axis=1),
        length=rows.length + new,
        # A token with a score of -inf is not kept, but counts in both sums.
        log_prob=rows.log_prob + jnp.sum(jnp.where(reached, log_prob, 0.0), axis=1),
        score=rows.score + jnp.sum(jnp.where(reached, gained, 0.0), axis=1),
        cache=cache,
    )


def _write_tokens(tokens: Array, positions: Array, new: Array) -> Array:
    """Writes tokens [rows, any] at positions of each row; drops those after the row's end."""
    return tokens.at[jnp.arange(len(tokens))[:, None], positions].set(new, mode="drop")
