"""Training objectives: sums over target tokens, so that micro-batches and shards add up."""

import dataclasses
import math
from collections.abc import Collection
from typing import NamedTuple, Protocol

import jax.numpy as jnp

from faith_jax.core.types import Array, PyTree
from faith_jax.models.chunked_logits import MAX_LOGITS_BYTES, TargetStatistics, target_statistics
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.transformer import Inputs, Transformer, output_layer

# A batch: encoder_input_tokens, decoder_input_tokens, decoder_target_tokens, and, where packed,
# encoder_segment_ids and decoder_segment_ids; optional decoder_loss_weights. [batch, length].
Batch = dict[str, Array]


class Objective(Protocol):
    """A training objective; what is written here is that of one without a state of its own."""

    @property
    def couples_rows(self) -> bool:
        """Whether a row's loss depends on others, so that a batch cannot be taken in pieces."""
        return False

    def init_state(self) -> PyTree:
        """Returns what the objective keeps from step to step, as arrays: () = nothing."""
        return ()

    def check(self, module: Transformer, features: Collection[str]) -> None:
        """Checks that the objective is of a model and of batches with these arrays.

        Raises:
          ConfigError: where it is not.
        """
        return None

    def prepare(self, module: Transformer, batch: Batch, state: PyTree) -> Batch:
        """Returns a whole batch of training with what its pieces need to know of it.

        Args:
          module: the model.
          batch: arrays [batch, length].
          state: after the batches before.

        Raises:
          ConfigError: see `check`.
        """
        return batch

    def update_state(self, state: PyTree, rows: dict[str, Array]) -> PyTree:
        """Returns the state after a batch, from what `__call__` said of its rows."""
        return state

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Array, dict[str, Array], dict[str, Array]]:
        """Returns the loss and metrics of a batch, summed over its target tokens.

        Args:
          module: the model.
          params: all of its parameters.
          batch: arrays [batch, length].
          dropout_key: None = no dropout.

        Returns:
          A float32 scalar, the *sum* over target tokens (the trainer divides by their number);
          metrics, sums too: `loss`, the same, `negative_log_likelihood`, the model's alone, by
          which checkpoints are kept, `weight`, the number of target tokens, and others; and arrays
          [batch], for `update_state`.
        """
        ...


class TokenLosses(NamedTuple):
    """Losses of target tokens, nats: float32 [batch, length], where `weights` is not 0.

    Attributes:
      cross_entropy: smoothed.
      z_loss: weighed.
      negative_log_likelihood: of the token itself.
      weights: how much each counts.
    """

    cross_entropy: Array
    z_loss: Array
    negative_log_likelihood: Array
    weights: Array

    def sums(self) -> dict[str, Array]:
        """Returns the metrics of an `Objective`."""
        return {
            "loss": jnp.sum((self.cross_entropy + self.z_loss) * self.weights),
            "z_loss": jnp.sum(self.z_loss * self.weights),
            "negative_log_likelihood": jnp.sum(self.negative_log_likelihood * self.weights),
            "weight": jnp.sum(self.weights),
        }


@dataclasses.dataclass(frozen=True)
class CrossEntropy(Objective):
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
    ) -> tuple[Array, dict[str, Array], dict[str, Array]]:
        """See `Objective`."""
        encoded = encoder_states(module, params, batch, dropout_key)
        hidden = decoder_states(module, params, batch, encoded, dropout_key)
        metrics = self.of_tokens(hidden, output_layer(module, params), module, batch).sums()
        return metrics["loss"], metrics, {}

    def weights(self, module: Transformer, batch: Batch) -> Array:
        """Returns the weight of each target token, float32 [batch, length]."""
        targets = batch["decoder_target_tokens"]
        weights = batch.get("decoder_loss_weights", targets != module.config.pad_id)
        return weights.astype(jnp.float32)

    def of_tokens(
        self, hidden: Array, layer: OutputLayer, module: Transformer, batch: Batch
    ) -> TokenLosses:
        """Returns each token's losses, of the decoder's states [batch, length, embed]."""
        targets = batch["decoder_target_tokens"]
        statistics = target_statistics(hidden, layer, targets, self.max_logits_bytes)
        return TokenLosses(
            self.token_loss(statistics, layer.vocab_size),
            self.z_loss * jnp.square(statistics.log_z),
            -statistics.log_prob,
            self.weights(module, batch),
        )

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
