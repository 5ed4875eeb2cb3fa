"""Greedy search and sampling, as one compiled loop over a step function.

The loop knows nothing of the model: it feeds the last token of each row to a `StepFunction` and
picks the next one. Each row has its own random key, so that what is sampled for an example does
not depend on the other rows of its batch.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from faith_jax.errors import ConfigError
from faith_jax.types import Array, PyTree, StepFunction


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """How the next token is picked.

    Attributes:
      max_length: tokens decoded at most, the end token included.
      temperature: logits are divided by it; 0 is greedy search.
      top_k: sample from the k most probable tokens only; 0 = from all.
      top_p: sample from the nucleus only: the smallest set of most probable tokens whose
        probability sums to at least this (Holtzman 2020). It follows temperature and top_k.
      eos_id: the token that ends a row.
      pad_id: what fills a row behind its end; also starts the decoder.
    """

    max_length: int = 64
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    eos_id: int = 1
    pad_id: int = 0

    def __post_init__(self):
        checks = {
            "max_length": (self.max_length >= 1, "a positive number of tokens"),
            "temperature": (self.temperature >= 0, "0 (greedy) or more"),
            "top_k": (self.top_k >= 0, "0 (all tokens) or more"),
            "top_p": (0 < self.top_p <= 1, "a probability in (0, 1]"),
        }
        for name, (holds, expected) in checks.items():
            if not holds:
                raise ConfigError(
                    f"decoding: {name} = {getattr(self, name)!r}; expected {expected}."
                )


class DecodingResult(NamedTuple):
    """What was decoded.

    Attributes:
      tokens: int32 [batch, max_length], padded behind each row's end token.
      log_prob: float32 [batch], natural log-probability of each row's tokens, the end token
        included, under the model itself (temperature 1, no top_k or top_p).
      length: int32 [batch], tokens of each row, the end token included.
    """

    tokens: Array
    log_prob: Array
    length: Array


def keep_most_probable(logits: Array, top_k: int, top_p: float) -> Array:
    """Returns the logits with all but the top-k and nucleus tokens at minus infinity.

    Ties are kept by token id, the smaller first, so that exactly k tokens remain, and the
    nucleus is the smallest set whose probability (after top-k) sums to at least top_p.

    Args:
      logits: float [batch, vocab].
      top_k: 0 = no limit.
      top_p: 1.0 = no limit.
    """
    vocab = logits.shape[-1]
    limits_k = 0 < top_k < vocab
    if not limits_k and top_p >= 1.0:
        return logits
    order = jnp.argsort(-logits, axis=-1, stable=True)
    ranked = jnp.take_along_axis(logits, order, axis=-1)
    keep = jnp.ones_like(ranked, bool)
    if limits_k:
        keep &= jnp.arange(vocab) < top_k
    if top_p < 1.0:
        probabilities = jax.nn.softmax(jnp.where(keep, ranked, -jnp.inf), axis=-1)
        # A token is in the nucleus as long as those before it do not yet sum to top_p.
        keep &= jnp.cumsum(probabilities, axis=-1) - probabilities < top_p
    rows = jnp.arange(logits.shape[0])[:, None]
    keep = jnp.zeros_like(keep).at[rows, order].set(keep)
    return jnp.where(keep, logits, -jnp.inf)


def next_tokens(logits: Array, config: DecodingConfig, row_keys: Array) -> Array:
    """Picks int32 [batch] from logits [batch, vocab], with one random key a row."""
    if config.temperature == 0.0:
        return jnp.argmax(logits, axis=-1).astype(jnp.int32)
    logits = keep_most_probable(logits / config.temperature, config.top_k, config.top_p)
    return jax.vmap(jax.random.categorical)(row_keys, logits).astype(jnp.int32)


def decode(
    step: StepFunction, cache: PyTree, row_keys: Array, config: DecodingConfig
) -> DecodingResult:
    """Decodes a batch until every row has ended or is `max_length` long.

    Args:
      step: feeds the last tokens and returns the next ones' logits.
      cache: the model's state before the first token.
      row_keys: random keys [batch]; greedy search does not look at them.
      config: how tokens are picked, and when rows end.

    Returns:
      Tokens, log-probabilities and lengths.
    """
    batch = row_keys.shape[0]

    def unfinished(state):
        position, _, _, ended, _, _ = state
        return (position < config.max_length) & ~jnp.all(ended)

    def advance(state):
        position, tokens, last, ended, log_prob, cache = state
        logits, cache = step(last, cache)
        logits = logits.astype(jnp.float32)
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(row_keys, position)
        chosen = next_tokens(logits, config, keys)
        chosen_logit = jnp.take_along_axis(logits, chosen[:, None], axis=-1)[:, 0]
        gained = chosen_logit - jax.nn.logsumexp(logits, axis=-1)
        chosen = jnp.where(ended, config.pad_id, chosen)
        log_prob = log_prob + jnp.where(ended, 0.0, gained)
        tokens = jax.lax.dynamic_update_slice(tokens, chosen[:, None], (0, position))
        return position + 1, tokens, chosen, ended | (chosen == config.eos_id), log_prob, cache

    tokens = jnp.full((batch, config.max_length), config.pad_id, jnp.int32)
    state = (
        jnp.int32(0),
        tokens,
        jnp.full((batch,), config.pad_id, jnp.int32),
        jnp.zeros((batch,), bool),
        jnp.zeros((batch,), jnp.float32),
        cache,
    )
    position, tokens, _, _, log_prob, _ = jax.lax.while_loop(unfinished, advance, state)
    ends = tokens == config.eos_id
    length = jnp.where(jnp.any(ends, axis=1), jnp.argmax(ends, axis=1) + 1, position)
    return DecodingResult(tokens, log_prob, length.astype(jnp.int32))
