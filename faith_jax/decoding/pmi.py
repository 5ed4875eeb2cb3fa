"""PMI-Decode: searches for responses that the document makes more probable.

The score of a next token v, after the response so far, is

    (1 - alpha) log P(v | d, h, r) + alpha [log P(v | d, h, r) - log P(v | h, r)]

limited to the smallest set of tokens whose probabilities in the first branch, with the document d,
sum to at least p (equation 9). Greedy search, sampling and beam search rank tokens by this score.
With alpha = 0 and p = 1, their results are the same as without PMI-Decode.

If tokens are forbidden (by a minimum length, or as repeated n-grams), the probabilities of both
branches are normalised over the other tokens, as in the authors' code
(github.com/ynandwan/pmi-faith); see `limits.limited_scores`. The authors' set contains one more
token if the probabilities sum to p exactly. For a decoder-only model, repeated n-grams are looked
up in the prompt with the document.

Reference: Nandwani 2023, section 4.2.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from faith_jax.core.types import Array, PyTree, StepScores
from faith_jax.decoding.config import PMIConfig
from faith_jax.decoding.nucleus import keep_most_probable
from faith_jax.decoding.steps import Prefilled

# A token that is impossible without the document would have an infinite score, and two beams with
# such tokens could not be ranked. e**-1e4 is far below any probability in float32.
_LOWEST_LOG_PROB = -1e4


class _PairedCache(NamedTuple):
    base: PyTree  # has 2 * rows rows
    first_tokens: Array  # int32 [2 * rows]
    started: Array  # boolean [2 * rows]


def pmi_scores(
    with_document: Float[Array, "rows vocab"],
    without_document: Float[Array, "rows vocab"],
    config: PMIConfig,
) -> Float[Array, "rows vocab"]:
    """Returns the scores of next tokens, -inf for tokens that may not be selected.

    The arguments are natural log-probabilities, with and without the document. If a token is
    impossible without the document, log P(v | h, r) counts as -10,000.
    """
    allowed = keep_most_probable(with_document, 0, config.p)
    # (1 - alpha) a + alpha (a - b) = a - alpha b, which is exactly a if alpha is 0.
    return allowed - config.alpha * jnp.maximum(without_document, _LOWEST_LOG_PROB)


def pmi_decode(base: Prefilled, config: PMIConfig, copies: int) -> Prefilled:
    """Turns a model with 2 * rows rows into one with `rows` rows that scores by PMI-Decode.

    Args:
      base: a plain model. The first `copies` rows of each example have read the document, and the
        next `copies` rows the same inputs without it, so both are on the same devices. After their
        own first tokens, both are fed the same tokens. The model's prompt and source only have the
        rows with the document.
      config: alpha and p.
      copies: number of rows per example.

    Returns:
      The model; its `log_probs` are conditional on the document.
    """

    def double_rows(values: Array) -> Array:
        """Repeats values of rows for the rows of both branches."""
        # [examples, branches, copies, ...]
        by_example = values.reshape(-1, 1, copies, *values.shape[1:])
        return jnp.repeat(by_example, 2, axis=1).reshape(-1, *values.shape[1:])

    def branch(values: Array, number: int) -> Array:
        """Returns the rows of one branch."""
        by_branch = values.reshape(-1, 2, copies, *values.shape[1:])
        return by_branch[:, number].reshape(-1, *values.shape[1:])

    def step(tokens: Array, cache: _PairedCache) -> tuple[StepScores, _PairedCache]:
        # The prompts of the two branches may end with different tokens.
        fed = double_rows(tokens)
        last = fed if fed.ndim == 1 else fed[:, 0]
        last = jnp.where(cache.started, last, cache.first_tokens)
        fed = last if fed.ndim == 1 else fed.at[:, 0].set(last)
        scored, updated = base.step(fed, cache.base)
        with_document, without_document = (branch(scored.log_probs, number) for number in (0, 1))
        first, second = (x.reshape(-1, x.shape[-1]) for x in (with_document, without_document))
        scores = pmi_scores(first, second, config).reshape(with_document.shape)
        new_cache = _PairedCache(updated, cache.first_tokens, jnp.ones_like(cache.started))
        return StepScores(scores, with_document, without_document), new_cache

    def reorder(cache: _PairedCache, order: Array) -> _PairedCache:
        example, copy = jnp.divmod(order.reshape(-1, 1, copies), copies)
        # Copy c of example e is row (2 e + b) copies + c of branch b.
        rows = (2 * example + jnp.arange(2)[None, :, None]) * copies + copy
        return cache._replace(base=base.reorder(cache.base, rows.reshape(-1)))

    def take_back(cache: _PairedCache, tokens: Array) -> _PairedCache:
        return cache._replace(base=base.take_back(cache.base, double_rows(tokens)))

    started = jnp.zeros(base.first_tokens.shape, bool)
    return base._replace(
        step=step,
        cache=_PairedCache(base.cache, base.first_tokens, started),
        first_tokens=branch(base.first_tokens, 0),
        reorder=reorder,
        take_back=take_back,
    )
