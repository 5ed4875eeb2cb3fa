"""Training objectives: sums over target tokens, so that micro-batches and shards add up.

A loss is a pure function of scores and masks: `where` says which elements take part, and `weights`
how much each counts. An objective is what gin configures: it computes the model's scores and calls
the losses.
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

# A batch: encoder_input_tokens, decoder_input_tokens, decoder_target_tokens, and, where packed,
# encoder_segment_ids and decoder_segment_ids; optional decoder_loss_weights. [batch, length].
Batch = dict[str, Array]
Metrics = dict[str, Array]


def reduce_losses(losses: Array, where: Array | None = None, weights: Array | None = None) -> Array:
    """Returns the sum of losses [...] times their weights, without those outside of `where`.

    Both are [...] too, or are repeated to it; None = all take part, and count 1.

    Raises:
      ValueError: they have another shape, by which the losses would be repeated.
    """
    # Shapes are known when a program is traced: this costs no step anything.
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

    loss = -sum_v q(v) log p(v) - constant + z_loss * log(Z)^2, where q has 1 - label_smoothing
    on the target and the rest spread evenly over the other tokens; the constant is q's entropy,
    so that a perfect model has loss 0. The z-loss keeps logits from drifting.
    """
    # log_z is the log of the softmax's denominator: 0 for normalised logits.
    z_losses = z_loss * jnp.square(statistics.log_z)
    # A case of its own: the entropy below has 0 log 0, which is 0, but `math.log(0)` is an error.
    if label_smoothing == 0.0:
        return reduce_losses(-statistics.log_prob + z_losses, **reduction)
    off_target = label_smoothing / (vocab_size - 1)
    confidence = 1.0 - label_smoothing
    # sum_v q(v) logit(v), with the target's own share taken out of the mean of all.
    expected_logit = (
        confidence - off_target
    ) * statistics.logit + off_target * vocab_size * statistics.mean_logit
    # -sum_v q(v) log q(v), of one target and vocab_size - 1 other tokens with the same share.
    entropy = -(confidence * math.log(confidence) + label_smoothing * math.log(off_target))
    # log p(v) = logit(v) - log_z, and q sums to 1.
    losses = statistics.log_z - expected_logit - entropy
    return reduce_losses(losses + z_losses, **reduction)


class Objective(Settings):
    """A training objective; the defaults are those of one without a state of its own."""

    @property
    def couples_rows(self) -> bool:
        """Whether a row's loss depends on others, so that a batch cannot be taken in pieces."""
        return False

    def init_state(self) -> PyTree:
        """Returns the objective's own state before the first step, as arrays: () = it has none."""
        return ()

    def check(self, module: Transformer, features: Collection[str]) -> None:
        """Checks that the objective fits a model and batches with these arrays.

        Raises:
          ConfigError: where it does not.
        """
        return None

    def prepare(self, module: Transformer, batch: Batch, state: PyTree) -> Batch:
        """Returns a whole training batch with what its pieces need to know of it.

        `state` is that after the batches before. Errors are those of `check`.
        """
        return batch

    def update_state(self, state: PyTree, rows: dict[str, Array]) -> PyTree:
        """Returns the state after a batch, from what `__call__` returned of its rows."""
        return state

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Array, Metrics, dict[str, Array]]:
        """Returns the loss and metrics of a batch, summed over its target tokens.

        Without a key there is no dropout.

        Returns:
          A float32 scalar, the *sum* over target tokens (the trainer divides by their number);
          metrics, sums too: `loss`, the same, `negative_log_likelihood`, the model's alone, by
          which checkpoints are kept, `weight`, the number of target tokens, and others; and arrays
          [batch], for `update_state`.
        """
        raise NotImplementedError


class TokenScores(NamedTuple):
    """The statistics of target tokens under a model, and their weights: [batch, length]."""

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
    ) -> tuple[Array, Metrics, dict[str, Array]]:
        """See `Objective`."""
        encoded = encoder_states(module, params, batch, dropout_key)
        hidden = decoder_states(module, params, batch, encoded, dropout_key)
        metrics = self.sum_losses(hidden, output_layer(module, params), module, batch)
        return metrics["loss"], metrics, {}

    def sum_losses(
        self, hidden: Array, layer: OutputLayer, module: Transformer, batch: Batch
    ) -> Metrics:
        """Returns the metrics of the decoder's states; only `loss` has a gradient."""
        # The logits of a few positions at a time, and their gradient while they are there.
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
        # Packed batches, and some objectives, say which targets count; else all but padding.
        weights = batch.get("decoder_loss_weights", targets != module.config.pad_id)
        # Truth values and whole numbers become factors of float32 losses.
        return weights.astype(jnp.float32)

    def scores(
        self, hidden: Array, layer: OutputLayer, module: Transformer, batch: Batch
    ) -> TokenScores:
        """Returns the statistics of the targets, by the decoder's states [batch, length, embed]."""
        targets = batch["decoder_target_tokens"]
        statistics = target_statistics(hidden, layer, targets, self.max_logits_bytes)
        return TokenScores(statistics, self.weights(module, batch), layer.vocab_size)

    def sums(self, scores: TokenScores, where: Array | None = None) -> Metrics:
        """Returns the metrics of an `Objective`; `loss` and `z_loss` only `where`, [batch, 1]."""
        reduction = {"where": where, "weights": scores.weights}
        smoothing = self.label_smoothing
        return {
            "loss": cross_entropy(
                scores.statistics, scores.vocab_size, smoothing, self.z_loss, **reduction
            ),
            "z_loss": reduce_losses(self.z_loss * jnp.square(scores.statistics.log_z), **reduction),
            # Of all targets and without smoothing, so that runs can be compared.
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
      ValueError: arrays of the batch have different numbers of rows.
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
        # DoHA's decoder attends to both.
        return inputs, batch["knowledge_input_tokens"]
    return inputs


def dropout_rngs(dropout_key: Array | None) -> dict[str, Array]:
    """Returns Flax's keys: encoder and decoder draw from one, into which it folds their paths."""
    # Flax folds a module's path into the key, so that layers draw different masks.
    return {} if dropout_key is None else {"dropout": dropout_key}
