"""Log-likelihoods of target tokens, without a [batch, length, vocab] array of logits.

Losses and scores need three numbers per token from the logits. They are computed for a piece of the
length at a time. Gradients compute the logits of a piece again instead of storing them.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Integer

from faith_jax.core.types import Array
from faith_jax.models.output_layer import OutputLayer

# The maximum number of bytes of float32 logits held at once.
MAX_LOGITS_BYTES = 256 * 2**20


class TargetStatistics(NamedTuple):
    """Statistics of each target token; all float32 [batch, length].

    Attributes:
      logit: the target's logit.
      log_z: natural log of the sum of exp(logits) over the vocabulary.
      mean_logit: mean of the logits over the vocabulary, for label smoothing.
    """

    logit: Array
    log_z: Array
    mean_logit: Array

    @property
    def log_prob(self) -> Array:
        """Natural log-probability of each target, in (-inf, 0]."""
        return self.logit - self.log_z


def target_statistics(
    hidden: Float[Array, "batch length embed"],
    layer: OutputLayer,
    targets: Integer[Array, "batch length"],
    max_logits_bytes: int = MAX_LOGITS_BYTES,
) -> TargetStatistics:
    """Returns the statistics of target tokens under the output layer.

    `max_logits_bytes` limits the memory for the logits held at once (at least one position).
    """
    batch, length = targets.shape
    position_bytes = 4 * batch * layer.vocab_size
    piece = max(1, min(length, max_logits_bytes // position_bytes))
    if piece == length:
        return _piece_statistics(layer, hidden, targets)

    pieces = -(-length // piece)
    padding = pieces * piece - length

    def split(x):
        x = jnp.pad(x, ((0, 0), (0, padding)) + ((0, 0),) * (x.ndim - 2))
        return jnp.moveaxis(x.reshape(batch, pieces, piece, *x.shape[2:]), 1, 0)

    statistics_of = functools.partial(_piece_statistics, layer)

    def body(_, inputs):
        return None, jax.checkpoint(statistics_of)(*inputs)

    _, statistics = jax.lax.scan(body, None, (split(hidden), split(targets)))
    return TargetStatistics(
        *(jnp.moveaxis(x, 0, 1).reshape(batch, -1)[:, :length] for x in statistics)
    )


def _piece_statistics(layer: OutputLayer, hidden: Array, targets: Array) -> TargetStatistics:
    logits = layer.logits(hidden)
    # A comparison instead of a gather, because its gradient is a select, not a scatter.
    is_target = jnp.arange(logits.shape[-1])[None, None] == targets[..., None]
    return TargetStatistics(
        logit=jnp.sum(jnp.where(is_target, logits, 0.0), axis=-1),
        log_z=jax.nn.logsumexp(logits, axis=-1),
        mean_logit=jnp.mean(logits, axis=-1),
    )
