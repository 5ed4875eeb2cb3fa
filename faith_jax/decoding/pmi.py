"""PMI-Decode: the search of responses that the document makes more probable.

The score of a next token v, after the response so far, is

    (1 - alpha) log P(v | d, h, r) + alpha [log P(v | d, h, r) - log P(v | h, r)]

limited to the smallest set of tokens whose probability under the first branch, the one with the
document d, sums to at least p (equation 9). Greedy search, sampling and beam search rank by it;
with alpha = 0 and p = 1 they find what they find without it.

The authors' code (github.com/ynandwan/pmi-faith) computes the same, except that its set also takes
one token more where the probabilities sum to p exactly, and that their search's own processors
(minimum length, repeated n-grams, forced tokens) come before the set is taken, ours after. N-grams
of a decoder-only model's prompt are those of the prompt with the document.

Reference: Nandwani 2023, section 4.2.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from faith_jax.core.types import Array, PyTree, StepScores
from faith_jax.decoding.config import PMIConfig
from faith_jax.decoding.nucleus import keep_most_probable
from faith_jax.decoding.steps import Prefilled

# A token that is impossible without the document would have an infinite score, and two beams
# with one could not be ranked: e**-1e4 is far below any probability that float32 can hold.
_LOWEST_LOG_PROB = -1e4


class _PairedCache(NamedTuple):
    base: PyTree  # of 2 * rows rows
    first_tokens: Array  # int32 [2 * rows]
    started: Array  # boolean scalar


def pmi_scores(with_document: Array, without_document: Array, config: PMIConfig) -> Array:
    """Returns the scores of next tokens, -inf for those that may not be chosen.

    Args:
      with_document: float32 [rows, vocab], log-probabilities given the document.
      without_document: likewise without it.
      config: alpha and p.
    """
    allowed = keep_most_probable(with_document, 0, config.p)
    # (1 - alpha) a + alpha (a - b) = a - alpha b, which is exactly a where alpha is 0.
    return allowed - config.alpha * jnp.maximum(without_document, _LOWEST_LOG_PROB)


def pmi_decode(base: Prefilled, config: PMIConfig) -> Prefilled:
    """Returns a model of `rows` rows that scores by PMI-Decode, from one of 2 * rows rows.

    Args:
      base: a plain model. Its first `rows` rows have read the document, the others the same
        inputs without it; both are fed the same tokens, after their own first ones.
      config: alpha and p.

    Returns:
      The model; its `log_probs` are those of the rows with the document.
    """
    rows = base.first_tokens.shape[0] // 2

    def step(tokens: Array, cache: _PairedCache) -> tuple[StepScores, _PairedCache]:
        # Prompts of the two branches may end differently.
        fed = jnp.where(cache.started, jnp.tile(tokens, 2), cache.first_tokens)
        scored, updated = base.step(fed, cache.base)
        with_document, without_document = jnp.split(scored.log_probs, 2)
        scores = pmi_scores(with_document, without_document, config)
        new_cache = _PairedCache(updated, cache.first_tokens, jnp.bool_(True))
        return StepScores(scores, with_document), new_cache

    def reorder(cache: _PairedCache, order: Array) -> _PairedCache:
        return cache._replace(base=base.reorder(cache.base, jnp.concatenate([order, order + rows])))

    cache = _PairedCache(base.cache, base.first_tokens, jnp.bool_(False))
    prompt = None if base.prompt is None else base.prompt[:rows]
    return Prefilled(step, cache, base.first_tokens[:rows], jax.tree_util.Partial(reorder), prompt)
