"""Training objectives: sums over target tokens, so that micro-batches and shards add up."""

import dataclasses
import math
from typing import Protocol

import jax.numpy as jnp

from faith_jax.models.likelihood import MAX_LOGITS_BYTES, TargetStatistics, target_statistics
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.transformer import Inputs, Transformer, output_layer
from faith_jax.types import Array, PyTree

# A batch: encoder_input_tokens, decoder_input_tokens, decoder_target_tokens, and, where packed,
# encoder_segment_ids and decoder_segment_ids; optional decoder_loss_weights. [batch, length].
Batch = dict[str, Array]


class Objective(Protocol):
    """A training objective."""

    @property
    def couples_rows(self) -> bool:
        """Whether a row's loss depends on others, so that a batch cannot be taken in pieces."""
        ...

    def prepare(self, module: Transformer, batch: Batch) -> Batch:
        """Returns a whole batch with what its pieces need to know of it.

        Raises:
          ConfigError: on a model or a batch that the objective is not of.
        """
        ...

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

    @property
    def couples_rows(self) -> bool:
        """Each row's loss is its own."""
        return False

    def prepare(self, module: Transformer, batch: Batch) -> Batch:
        """Returns the batch as it is."""
        return batch

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Array, dict[str, Array]]:
        """See `Objective`."""
        encoded = encoder_states(module, params, batch, dropout_key)
        hidden = decoder_states(module, params, batch, encoded, dropout_key)
        return self.of_states(hidden, output_layer(module, params), module, batch)

    def weights(self, module: Transformer, batch: Batch) -> Array:
        """Returns the weight of each target token, float32 [batch, length]."""
        targets = batch["decoder_target_tokens"]
        weights = batch.get("decoder_loss_weights", targets != module.config.pad_id)
        return weights.astype(jnp.float32)

    def of_states(
        self, hidden: Array, layer: OutputLayer, module: Transformer, batch: Batch
    ) -> tuple[Array, dict[str, Array]]:
        """Returns what a call does, of the decoder's states [batch, length, embed]."""
        weights = self.weights(module, batch)
        targets = batch["decoder_target_tokens"]
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


def encoder_states(
    module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
) -> Inputs | None:
    """Returns the encoder's states [batch, prompt + length, embed]; None without an encoder."""
    inputs = _encoder_inputs(module, batch)
    if inputs is None:
        return None
    return module.apply(
        {"params": params},
        inputs,
        batch.get("encoder_segment_ids"),
        dropout_key is not None,
        method="encode",
        rngs=_rngs(dropout_key),
    )


def decoder_states(
    module: Transformer,
    params: PyTree,
    batch: Batch,
    encoded: Inputs | None,
    dropout_key: Array | None,
) -> Array:
    """Returns the decoder's states [batch, length, embed], before the output layer."""
    return module.apply(
        {"params": params},
        encoded,
        _encoder_inputs(module, batch),
        batch["decoder_input_tokens"],
        batch["decoder_target_tokens"],
        batch.get("encoder_segment_ids"),
        batch.get("decoder_segment_ids"),
        dropout_key is not None,
        method="decode_hidden",
        rngs=_rngs(dropout_key),
    )


def _encoder_inputs(module: Transformer, batch: Batch) -> Inputs | None:
    inputs = batch.get("encoder_input_tokens")
    if module.config.knowledge_attention:
        return inputs, batch["knowledge_input_tokens"]
    return inputs


def _rngs(dropout_key: Array | None) -> dict[str, Array]:
    # Encoder and decoder draw from one key; Flax folds in the path of each dropout.
    return {} if dropout_key is None else {"dropout": dropout_key}
