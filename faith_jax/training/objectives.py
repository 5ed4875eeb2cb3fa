"""Training objectives: sums over target tokens, so that micro-batches and shards add up."""

import dataclasses
import math
from typing import Any, Protocol

import jax.numpy as jnp

from faith_jax.models.likelihood import MAX_LOGITS_BYTES, TargetStatistics, target_statistics
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.transformer import Transformer, output_layer
from faith_jax.types import Array, PyTree

# A batch: encoder_input_tokens, decoder_input_tokens, decoder_target_tokens, and, where packed,
# encoder_segment_ids and decoder_segment_ids; optional decoder_loss_weights. [batch, length].
Batch = dict[str, Array]


class Objective(Protocol):
    """A training objective."""

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Array, dict[str, Array]]:
        """Returns the loss and metrics of a batch, summed over its target tokens.

        Args:
          module: the model.
          params: all of its parameters.
          batch: arrays [batch, length].
          dropout_key: None = no dropout.

        Returns:
          A float32 scalar, the *sum* over target tokens (the trainer divides by their number),
          and metrics, sums too, of which `weight` is the number of target tokens.
        """
        ...


@dataclasses.dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy of the target tokens.

    loss = -sum_v q(v) log p(v) - constant + z_loss * log(Z)^2, where q has 1 - label_smoothing
    on the target and the rest spread evenly over the other tokens; the constant is q's entropy,
    so that a perfect model has loss 0. Natural logarithms.

    Attributes:
      label_smoothing: in [0, 1).
      z_loss: weight of the squared log normaliser, which keeps logits from drifting.
      max_logits_bytes: memory bound, see `target_statistics`.

    Reference: Raffel 2020; T5X has the same loss.
    """

    label_smoothing: float = 0.0
    z_loss: float = 0.0
    max_logits_bytes: int = MAX_LOGITS_BYTES

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Array, dict[str, Array]]:
        """See `Objective`."""
        targets = batch["decoder_target_tokens"]
        weights = batch.get("decoder_loss_weights", targets != module.config.pad_id)
        weights = weights.astype(jnp.float32)
        hidden, layer = decoder_states(module, params, batch, dropout_key)
        statistics = target_statistics(hidden, layer, targets, self.max_logits_bytes)
        loss = self.token_loss(statistics, layer.vocab_size)
        z_loss = self.z_loss * jnp.square(statistics.log_z)
        total = jnp.sum((loss + z_loss) * weights)
        metrics = {
            "loss": total,
            "z_loss": jnp.sum(z_loss * weights),
            "negative_log_likelihood": -jnp.sum(statistics.log_prob * weights),
            "weight": jnp.sum(weights),
        }
        return total, metrics

    def token_loss(self, statistics: TargetStatistics, vocab_size: int) -> Array:
        """Returns the smoothed cross-entropy of each token, [batch, length], without z-loss."""
        smoothing = self.label_smoothing
        if smoothing == 0.0:
            return -statistics.log_prob
        other = smoothing / (vocab_size - 1)
        confidence = 1.0 - smoothing
        # sum_v q(v) logit(v), with the target's own share taken out of the mean of all.
        expected_logit = (
            confidence - other
        ) * statistics.logit + other * vocab_size * statistics.mean_logit
        entropy = -(confidence * math.log(confidence) + smoothing * math.log(other))
        return statistics.log_z - expected_logit - entropy


def decoder_states(
    module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
) -> tuple[Array, OutputLayer]:
    """Returns hidden states [batch, length, embed] and the output layer."""
    variables = {"params": params}
    dropout = dropout_key is not None
    # Encoder and decoder draw from one key; Flax folds in the path of each dropout.
    rngs = {} if dropout_key is None else {"dropout": dropout_key}
    inputs: Any = batch.get("encoder_input_tokens")
    if module.config.knowledge_attention:
        inputs = (inputs, batch["knowledge_input_tokens"])
    encoded = None
    if inputs is not None:
        encoded = module.apply(
            variables,
            inputs,
            batch.get("encoder_segment_ids"),
            dropout,
            method="encode",
            rngs=rngs,
        )
    hidden = module.apply(
        variables,
        encoded,
        inputs,
        batch["decoder_input_tokens"],
        batch["decoder_target_tokens"],
        batch.get("encoder_segment_ids"),
        batch.get("decoder_segment_ids"),
        dropout,
        method="decode_hidden",
        rngs=rngs,
    )
    return hidden, output_layer(module, params)
