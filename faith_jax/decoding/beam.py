"""Beam search as one compiled loop with static shapes over a step function.

Each example has `num_beams` = K live beams and at most K finished hypotheses. Each step works as
follows:

1. Every live beam is extended by every token. The best max(2, 1 + end tokens) * K of these
   candidates are selected by their sums of scores, so at least K of them do not end.
2. A candidate finishes if it ends with an end token or is `max_length` long, and is among the
   best K candidates. A candidate that ends below rank K is dropped. Finished hypotheses are ranked
   by sum of scores / length**length_penalty, where the length includes the end token. The K best
   finished hypotheses, old or new, are kept.
3. The best K candidates that do not end become the live beams, and the cache is reordered.

An example is closed, and its hypotheses no longer change, as soon as

- `early_stopping=True`: K hypotheses have finished;
- `early_stopping=False`: K hypotheses have finished, and the best live beam, if it ended now with
  its current sum, would not rank above the worst of them;
- `early_stopping="never"`: like False, but if length_penalty > 0, the sum of the live beam is
  divided by max_length**length_penalty, which gives the best score that it could reach.

The rules for False and "never" assume that sums only decrease. This holds for log-probabilities.
PMI-Decode's scores may be positive, so its search may close before it finds the best hypothesis.
The loop ends when all examples are closed or at `max_length`.

These are the rules of Hugging Face's beam search (`max_length` is its `max_new_tokens`), with one
exception: a beam with a score of -inf does not exist. It never finishes and never counts.

Candidates with equal scores are ranked by their index, the smaller first: older hypotheses before
newer ones, better beams before worse ones, then by token id.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from faith_jax.core.types import Array, PyTree, StepScores
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.limits import limited_scores
from faith_jax.decoding.nucleus import top_k
from faith_jax.decoding.steps import DecodingResult, Prefilled, is_end, loop_in_stages


class _Beams(NamedTuple):
    """Hypotheses of each example, best first; a score of -inf marks an empty place."""

    tokens: Array  # int32 [batch, beams, max_length]
    score: Array  # float32 [batch, beams]: the sum if live, length-penalised if finished
    log_prob: Array  # float32 [batch, beams]
    length: Array  # int32 [batch, beams]

    def take(self, index: Array) -> "_Beams":
        """Gathers beams by index, int32 [batch, new beams]."""
        return jax.vmap(lambda beams, i: jax.tree.map(lambda x: x[i], beams))(self, index)


class _State(NamedTuple):
    position: Array  # int32 scalar, tokens decoded so far
    last: Array  # int32 [batch, beams], the tokens to feed
    live: _Beams
    finished: _Beams
    open: Array  # boolean [batch], whether finished hypotheses may still change
    cache: PyTree


def beam_search(prefilled: Prefilled, config: DecodingConfig) -> DecodingResult:
    """Searches for the responses with the highest scores, by the rules above.

    Args:
      prefilled: a model with batch * num_beams rows; the rows of an example are equal.
      config: width, penalty and rules, with end and padding tokens set.

    Returns:
      The `num_return` best hypotheses of each example, best first. If fewer exist (all others have
      a probability of 0), the missing ones have no tokens and scores of -inf.
    """
    beams = config.num_beams
    last = prefilled.first_tokens.reshape(-1, beams)
    batch = last.shape[0]
    none = _Beams(
        tokens=jnp.full((batch, beams, config.max_length), config.padding, jnp.int32),
        score=jnp.full((batch, beams), -jnp.inf, jnp.float32),
        log_prob=jnp.full((batch, beams), -jnp.inf, jnp.float32),
        length=jnp.zeros((batch, beams), jnp.int32),
    )
    # The rows of an example are equal at first, so only its first beam is live.
    live = none._replace(score=none.score.at[:, 0].set(0), log_prob=none.log_prob.at[:, 0].set(0))

    def is_unfinished(state: _State) -> Array:
        return (state.position < config.max_length) & jnp.any(state.open)

    def advance(state: _State) -> _State:
        scored, cache = prefilled.step(state.last.reshape(-1), state.cache)
        responses = state.live.tokens.reshape(-1, config.max_length)
        scores = limited_scores(scored, state.position[None], config, prefilled, responses)
        scored = scored._replace(scores=scores)
        candidates, parents = _extend_beams(state.live, scored, state.position, config)
        length = state.position + 1
        last = jax.lax.dynamic_index_in_dim(candidates.tokens, state.position, 2, keepdims=False)
        ends = is_end(last, config) | (length == config.max_length)
        finished = _merge_finished(state, candidates, ends, config)
        # Rule 3: the best candidates that do not end.
        _, survivors = top_k(jnp.where(ends, -jnp.inf, candidates.score), beams)
        live = candidates.take(survivors)
        # If too few candidates survive, ended candidates fill the places; they are not live beams.
        dead = jnp.take_along_axis(ends, survivors, axis=1)
        live = live._replace(score=jnp.where(dead, -jnp.inf, live.score))
        parents = jnp.take_along_axis(parents, survivors, axis=1)
        # Beams are numbered within each example, cache rows across all examples.
        rows = parents + beams * jnp.arange(batch)[:, None]
        return _State(
            position=length,
            last=jnp.take_along_axis(last, survivors, axis=1),
            live=live,
            finished=finished,
            # A closed example stays closed.
            open=state.open & _may_improve(live, finished, length, config),
            cache=prefilled.reorder(cache, rows.reshape(-1)),
        )

    start = _State(jnp.int32(0), last, live, none, jnp.ones((batch,), bool), prefilled.cache)
    end = loop_in_stages(
        is_unfinished, advance, lambda state: state.position + 1, start, config.cache_length
    )
    best = end.finished
    best = jax.tree.map(lambda x: x[:, : config.num_return], best)
    if config.num_return == 1:
        best = jax.tree.map(lambda x: x[:, 0], best)
    return DecodingResult(best.tokens, best.log_prob, best.length, best.score)


def _extend_beams(
    live: _Beams, scored: StepScores, position: Array, config: DecodingConfig
) -> tuple[_Beams, Array]:
    """Returns the best candidates, and the beams that they extend, int32 [batch, candidates]."""
    batch, beams = live.score.shape
    vocab = scored.scores.shape[-1]
    count = min(max(2, 1 + len(config.end_ids)) * beams, beams * vocab)
    # All beams' extensions compete: [batch, beams * vocab].
    sums = live.score[:, :, None] + scored.scores.reshape(batch, beams, vocab)
    score, index = top_k(sums.reshape(batch, -1), count)
    # index = parent * vocab + token
    parents, tokens = index // vocab, index % vocab
    log_probs = scored.log_probs.reshape(batch, -1)
    candidates = live.take(parents)
    first = jnp.zeros_like(position)  # a plain 0 would be int64 if JAX has 64 bits enabled
    return (
        _Beams(
            tokens=jax.lax.dynamic_update_slice(
                candidates.tokens, tokens[:, :, None].astype(jnp.int32), (first, first, position)
            ),
            score=score,
            log_prob=candidates.log_prob + jnp.take_along_axis(log_probs, index, axis=1),
            length=jnp.full((batch, count), position + 1, jnp.int32),
        ),
        parents,
    )


def _merge_finished(
    state: _State, candidates: _Beams, ends: Array, config: DecodingConfig
) -> _Beams:
    """Returns the best finished hypotheses, including the candidates that end now."""
    beams = config.num_beams
    # Only the best K candidates may finish (rule 2).
    new = jax.tree.map(lambda x: x[:, :beams], candidates)
    allowed = ends[:, :beams] & state.open[:, None]
    ranked = new.score / _length_penalty(state.position + 1, config)
    new = new._replace(score=jnp.where(allowed, ranked, -jnp.inf))
    # Older hypotheses come first, so they win ties.
    hypotheses = jax.tree.map(lambda old, n: jnp.concatenate([old, n], axis=1), state.finished, new)
    _, best = top_k(hypotheses.score, beams)
    best_hypotheses = hypotheses.take(best)
    # Empty places have no tokens.
    real = best_hypotheses.score > -jnp.inf
    return _Beams(
        tokens=jnp.where(real[:, :, None], best_hypotheses.tokens, config.padding),
        score=best_hypotheses.score,
        log_prob=jnp.where(real, best_hypotheses.log_prob, -jnp.inf),
        length=jnp.where(real, best_hypotheses.length, 0),
    )


def _may_improve(live: _Beams, finished: _Beams, length: Array, config: DecodingConfig) -> Array:
    """Returns boolean [batch]: whether a live beam may still rank above a finished one."""
    if config.early_stopping == "never" and config.length_penalty > 0:
        # The maximum length has the largest divisor, so it gives the best score of a negative sum.
        length = jnp.int32(config.max_length)
    best = live.score[:, 0] / _length_penalty(length, config)
    # -inf while there are fewer than K finished hypotheses.
    worst = jnp.min(finished.score, axis=1)
    improving = best > worst
    # K finished hypotheses close the example, however good the live beams are.
    if config.early_stopping is True:
        improving &= worst == -jnp.inf
    return improving


def _length_penalty(length: Array, config: DecodingConfig) -> Array:
    return length.astype(jnp.float32) ** config.length_penalty
