"""Training objectives: sums over target tokens, so that micro-batches and shards add up.

A loss is a pure function of scores and masks: `where` selects elements, and `weights` says how much
each counts. An objective is configured by gin; it computes the model's scores and calls the losses.
"""

import dataclasses
import math
from collections.abc import Collection
from typing import Any, NamedTuple

import jax.numpy as jnp

from faith_jax.core.settings import NotNegativeNumber, Positive, Settings, ShareBelow1
from faith_jax.core.types import Array, PyTree
from faith_jax.models.chunked_logits import (
    TargetStatistics,
    summed_losses,
    target_statistics,
)
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.transformer import Inputs, Transformer, output_layer

# A batch has encoder_input_tokens, decoder_input_tokens, decoder_target_tokens, in packed batches
# encoder_segment_ids and decoder_segment_ids, optionally decoder_loss_weights: [batch, length].
Batch = dict[str, Array]
Metrics = dict[str, Array]


def reduce_losses(losses: Array, where: Array | None = None, weights: Array | None = None) -> Array:
    """Returns the sum of losses [...] times their weights, without those outside of `where`.

    `where` and `weights` are broadcast to [...]; None = all losses count, with weight 1.

    Raises:
      ValueError: if `where` or `weights` cannot be broadcast to the losses' shape.
    """
    # Shapes are known at tracing time, so this check costs nothing at run time.
    for name, array in (("where", where), ("weights", weights)):
        if array is not None and jnp.broadcast_shapes(array.shape, losses.shape) != losses.shape:
            raise ValueError(
                f"{name}: expected the losses' shape {losses.shape}, got {array.shape}."
            )
    if weights is not None:
        losses = losses * weights
    if where is not None:
        # Not by multiplication, since 0 * inf is NaN.
        losses = jnp.where(where, losses, 0.0)
    return jnp.sum(losses)


def cross_entropy(
    statistics: TargetStatistics,
    vocab_size: int,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    **reduction: Any,
) -> Array:
    """Returns the cross-entropy of target tokens [batch, length], in nats.

    loss = -sum_v q(v) log p(v) - constant + z_loss * log(Z)^2, where q is 1 - label_smoothing for
    the target and spreads the rest evenly over the other tokens; the constant is q's entropy, so
    that a perfect model has loss 0. The z-loss keeps logits from drifting.
    """
    # log_z is the log of the softmax's denominator: 0 for normalised logits.
    z_losses = z_loss * jnp.square(statistics.log_z)
    # A separate case: the entropy below has 0 log 0, which is 0, but `math.log(0)` raises an error.
    if label_smoothing == 0.0:
        return reduce_losses(-statistics.log_prob + z_losses, **reduction)
    off_target = label_smoothing / (vocab_size - 1)
    confidence = 1.0 - label_smoothing
    # sum_v q(v) logit(v); the mean over all tokens includes the target, which is subtracted.
    expected_logit = (
        confidence - off_target
    ) * statistics.logit + off_target * vocab_size * statistics.mean_logit
    # -sum_v q(v) log q(v), for the target and vocab_size - 1 other tokens with equal shares.
    entropy = -(confidence * math.log(confidence) + label_smoothing * math.log(off_target))
    # log p(v) = logit(v) - log_z, and q sums to 1.
    losses = statistics.log_z - expected_logit - entropy
    return reduce_losses(losses + z_losses, **reduction)


class Objective(Settings):
    """A training objective; the default methods are those of an objective without a state."""

    @property
    def couples_rows(self) -> bool:
        """Whether a row's loss depends on other rows, so that a batch cannot be split in pieces."""
        return False

    def init_state(self) -> PyTree:
        """Returns the objective's own state before the first step, as arrays; () = no state."""
        return ()

    def check(self, module: Transformer, features: Collection[str]) -> None:
        """Checks that the objective fits a model and batches with these arrays.

        Raises:
          ConfigError: if it does not fit.
        """
        return None

    def prepare(self, module: Transformer, batch: Batch, state: PyTree) -> Batch:
        """Returns a whole training batch, with added arrays that its pieces need.

        `state` is the objective's state after the previous batches. Raises the errors of `check`.
        """
        return batch

    def update_state(self, state: PyTree, rows: dict[str, Array]) -> PyTree:
        """Returns the state after a batch, given the row arrays that `__call__` returned."""
        return state

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Metrics, dict[str, Array]]:
        """Returns the metrics of a batch, summed over its target tokens.

        Without a key there is no dropout.

        Returns:
          Metrics, float32 scalars, *sums* over target tokens (the trainer divides by their number):
          `loss` (minimised), `negative_log_likelihood` (of the model only, used to keep the best
          checkpoints), `weight` (the number of target tokens), and others; and arrays [batch] for
          `update_state`.
        """
        raise NotImplementedError


class TokenScores(NamedTuple):
    """The statistics of target tokens under a model, and the tokens' weights: [batch, length]."""

    statistics: TargetStatistics
    weights: Array
    vocab_size: int


@dataclasses.dataclass(frozen=True)
class CrossEntropy(Objective):
    """`cross_entropy` of the target tokens; `max_logits_bytes` is that of `summed_losses`.

    Reference: Raffel 2020; T5X has the same loss.
    """

    label_smoothing: ShareBelow1 = 0.0
    z_loss: NotNegativeNumber = 0.0
    max_logits_bytes: Positive | None = None

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Metrics, dict[str, Array]]:
        """See `Objective`."""
        encoded = encoder_states(module, params, batch, dropout_key)
        hidden = decoder_states(module, params, batch, encoded, dropout_key)
        return self.sum_losses(hidden, output_layer(module, params), module, batch), {}

    def sum_losses(
        self, hidden: Array, layer: OutputLayer, module: Transformer, batch: Batch
    ) -> Metrics:
        """Returns the metrics for the decoder's states; only `loss` has a gradient."""
        # Computes the logits of a few positions at a time, together with their gradient.
        return summed_losses(
            lambda statistics, weights: self.sums(
                TokenScores(statistics, weights, layer.vocab_size)
            ),
            hidden,
            layer,
            batch["decoder_target_tokens"],
            self.weights(module, batch),
            self.max_logits_bytes,
        )

    def weights(self, module: Transformer, batch: Batch) -> Array:
        """Returns the weight of each target token, float32 [batch, length]."""
        targets = batch["decoder_target_tokens"]
        # Packed batches and some objectives set weights; otherwise all targets but padding count.
        weights = batch.get("decoder_loss_weights", targets != module.config.pad_id)
        # Weights may be booleans or integers.
        return weights.astype(jnp.float32)

    def scores(
        self, hidden: Array, layer: OutputLayer, module: Transformer, batch: Batch
    ) -> TokenScores:
        """Returns the targets' statistics, given decoder states [batch, length, embed]."""
        targets = batch["decoder_target_tokens"]
        statistics = target_statistics(hidden, layer, targets, self.max_logits_bytes)
        return TokenScores(statistics, self.weights(module, batch), layer.vocab_size)

    def sums(self, scores: TokenScores, where: Array | None = None) -> Metrics:
        """Returns an `Objective`'s metrics; `where` [batch, 1] only applies to `loss`, `z_loss`."""
        reduction = {"where": where, "weights": scores.weights}
        smoothing = self.label_smoothing
        return {
            "loss": cross_entropy(
                scores.statistics, scores.vocab_size, smoothing, self.z_loss, **reduction
            ),
            "z_loss": reduce_losses(self.z_loss * jnp.square(scores.statistics.log_z), **reduction),
            # Over all targets and without smoothing, so that runs can be compared.
            "negative_log_likelihood": reduce_losses(
                -scores.statistics.log_prob, weights=scores.weights
            ),
            "weight": jnp.sum(scores.weights),
        }


def encoder_states(
    module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
) -> Inputs | None:
    """Returns the encoder's states [batch, prompt + length, embed]; None without an encoder.

    Raises:
      ValueError: if the batch's arrays have different numbers of rows.
    """
    if len({len(array) for array in batch.values()}) > 1:
        counts = ", ".join(f"{name} {len(array)}" for name, array in batch.items())
        raise ValueError(f"batch: expected the same number of rows everywhere, got {counts}.")
    inputs = _encoder_inputs(module, batch)
    if inputs is None:
        return None
    return module.apply(
        {"params": params},
        inputs,
        batch.get("encoder_segment_ids"),
        dropout_key is not None,
        method="encode",
        rngs=dropout_rngs(dropout_key),
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
        rngs=dropout_rngs(dropout_key),
    )


def _encoder_inputs(module: Transformer, batch: Batch) -> Inputs | None:
    inputs = batch.get("encoder_input_tokens")
    if module.config.knowledge_attention:
        # DoHA's decoder attends to two inputs.
        return inputs, batch["knowledge_input_tokens"]
    return inputs


def dropout_rngs(dropout_key: Array | None) -> dict[str, Array]:
    """Returns the dropout key for Flax's `apply`, or no keys."""
    # Flax folds each module's path into the key, so all layers draw different masks.
    return {} if dropout_key is None else {"dropout": dropout_key}
