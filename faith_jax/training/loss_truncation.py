"""Loss truncation: no gradient from the examples that a model finds least likely (Kang 2020)."""

import dataclasses
from collections.abc import Collection
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import NotNegative, Positive, ShareBelow1
from faith_jax.core.types import Array, PyTree
from faith_jax.models.transformer import Transformer, output_layer
from faith_jax.training.objectives import (
    Batch,
    CrossEntropy,
    Metrics,
    Objective,
    decoder_states,
    encoder_states,
    reduce_losses,
)


class RecentLosses(NamedTuple):
    """The losses of the last examples, in nats, and how many examples and steps there have been.

    `losses`, float32 [window], are a ring, of which `examples` modulo window is the next place.
    """

    losses: Array
    examples: Array
    steps: Array

    def quantile(self, share: float) -> Float[Array, ""]:
        """Returns the loss below which a share of the examples lies, linear between two.

        Returns:
          float32 scalar; infinity before the first example.
        """
        window = self.losses.shape[0]
        count = jnp.minimum(self.examples, window)
        # Places without a loss yet come last.
        ordered = jnp.sort(jnp.where(jnp.arange(window) < count, self.losses, jnp.inf))
        # Between two of the ordered losses, numbered from 0 to count - 1.
        place = share * jnp.maximum(count - 1, 0).astype(jnp.float32)
        low = jnp.floor(place).astype(jnp.int32)
        high = jnp.minimum(low + 1, jnp.maximum(count - 1, 0))
        # Where both are one place there is no difference to take: before the first example it would
        # be inf - inf, NaN.
        return jnp.where(
            high > low,
            ordered[low] + (place - low) * (ordered[high] - ordered[low]),
            ordered[low],
        )

    def append(self, losses: Float[Array, "batch"], valid: Bool[Array, "batch"]) -> "RecentLosses":
        """Returns them after a batch's losses, float32 [batch]; `valid` ones are no padding."""
        window = self.losses.shape[0]
        total = jnp.sum(valid, dtype=jnp.int32)
        # How many valid examples of the batch come after each.
        num_later = total - jnp.cumsum(valid, dtype=jnp.int32)
        # Of a batch larger than the window the last ones stay.
        is_kept = valid & (num_later < window)
        # Example number n since the beginning has place n modulo window.
        place = (self.examples + total - 1 - num_later) % window
        # There is no place `window`: what is set there is dropped.
        ring = self.losses.at[jnp.where(is_kept, place, window)].set(losses, mode="drop")
        return RecentLosses(ring, self.examples + total, self.steps + 1)


@dataclasses.dataclass(frozen=True)
class LossTruncation(Objective):
    """Cross-entropy of the examples whose loss is not among the highest.

    An example is dropped from its batch where its negative log-likelihood is above the quantile
    1 - `drop_fraction` of the last `window` examples before the batch, once `warmup_steps` are
    done. As in the published code the loss stays a mean over the whole batch: what is dropped
    counts as 0. Validation drops nothing.

    The window is part of the training state, and saved with it. It is one for all devices, and the
    quantile one for all pieces of a batch.

    Attributes:
      cross_entropy: of the target tokens.
      drop_fraction: in [0, 1); the published default is 0.4.
      window: examples, positive; the published code keeps 10,000.
      warmup_steps: steps without dropping, 0 or more. The published code waits for 10,000
        examples: 313 steps of 32.
      length_normalized: an example's loss is the mean over its target tokens, else their sum.

    Raises:
      ConfigError: on a wrong setting; when called on packed examples.

    Reference: Kang 2020, section 4.1; Dziri 2022, section 5.2. The published code takes the
    quantile anew after each 10,000 examples, and the mean over padding too; here each step has its
    own quantile, and padding does not count.
    """

    cross_entropy: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)
    drop_fraction: ShareBelow1 = 0.4
    window: Positive = 10_000
    warmup_steps: NotNegative = 313
    length_normalized: bool = True

    def init_state(self) -> RecentLosses:
        """Returns an empty window."""
        zero = jnp.zeros((), jnp.int32)
        return RecentLosses(jnp.zeros(self.window, jnp.float32), zero, zero)

    def check(self, module: Transformer, features: Collection[str]) -> None:
        """See `Objective`."""
        if "decoder_segment_ids" in features:
            raise ConfigError(
                "LossTruncation: packed examples have no losses of their own; set PACK = False."
            )

    def prepare(self, module: Transformer, batch: Batch, state: RecentLosses) -> Batch:
        """Adds `highest_loss` and `row_weights`, float [batch], the same in each row.

        The latter make sums over rows, which the trainer divides by target tokens, to means over
        the examples of the batch.
        """
        self.check(module, batch)
        weights = self.cross_entropy.weights(module, batch)
        # Rows of padding are no examples.
        examples = jnp.sum(jnp.any(weights > 0, axis=1))
        quantile = state.quantile(1.0 - self.drop_fraction)
        # No loss is above infinity.
        highest = jnp.where(state.steps < self.warmup_steps, jnp.inf, quantile)
        rows = weights.shape[0]
        return {
            **batch,
            "highest_loss": jnp.full(rows, highest),
            # A sum times tokens / examples, divided by tokens, is a mean over examples.
            "row_weights": jnp.full(rows, jnp.sum(weights) / jnp.maximum(examples, 1)),
        }

    def update_state(self, state: RecentLosses, rows: dict[str, Array]) -> RecentLosses:
        """Returns the window after a batch, whether its examples were dropped or not."""
        return state.append(rows["loss"], rows["valid"])

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Array, Metrics, dict[str, Array]]:
        """See `Objective`.

        `loss` is what is minimised; `negative_log_likelihood` is that of all examples; after
        `prepare` metrics have `examples_dropped` besides, a share of the batch, from 0 to 1.
        """
        self.check(module, batch)
        encoded = encoder_states(module, params, batch, dropout_key)
        hidden = decoder_states(module, params, batch, encoded, dropout_key)
        scores = self.cross_entropy.scores(hidden, output_layer(module, params), module, batch)
        losses = _example_losses(
            -scores.statistics.log_prob, weights=scores.weights, mean=self.length_normalized
        )
        # Which examples are dropped is a decision, not a part of the loss: no gradient goes through
        # it.
        rows = {"loss": jax.lax.stop_gradient(losses), "valid": jnp.any(scores.weights > 0, axis=1)}
        # Validation calls this without `prepare`, and drops nothing.
        if "highest_loss" not in batch:
            metrics = self.cross_entropy.sums(scores)
            return metrics["loss"], metrics, rows
        # The quantile is that before the batch, the same in all of its pieces.
        dropped = rows["valid"] & (rows["loss"] > batch["highest_loss"])
        metrics = self.cross_entropy.sums(scores, where=~dropped[:, None])
        # The trainer's division by target tokens makes it a share of examples.
        metrics["examples_dropped"] = reduce_losses(dropped, weights=batch["row_weights"])
        return metrics["loss"], metrics, rows


def _example_losses(
    losses: Float[Array, "batch length"], weights: Float[Array, "batch length"], mean: bool = True
) -> Float[Array, "batch"]:
    """Returns the loss of each example, [batch]: its tokens' weighted mean, or their sum.

    The mean of an example without tokens is 0.
    """
    total, count = jnp.sum(losses * weights, axis=1), jnp.sum(weights, axis=1)
    return total / jnp.where(count > 0, count, 1.0) if mean else total
