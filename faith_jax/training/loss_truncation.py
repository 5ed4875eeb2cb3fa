"""Loss truncation: drops the examples that the model finds least likely (Kang 2020)."""

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
    """The losses of recent examples, in nats, and the numbers of all examples and steps so far.

    `losses`, float32 [window], is a ring buffer; the next index is `examples` modulo window.
    """

    losses: Array
    examples: Array
    steps: Array

    def quantile(self, share: float) -> Float[Array, ""]:
        """Returns the loss quantile of a share of the examples, linearly interpolated.

        Returns:
          float32 scalar; infinity before the first example.
        """
        window = self.losses.shape[0]
        count = jnp.minimum(self.examples, window)
        # Entries without a loss yet are sorted last.
        ordered = jnp.sort(jnp.where(jnp.arange(window) < count, self.losses, jnp.inf))
        # The quantile is at this place among the sorted losses, numbered from 0 to count - 1.
        place = share * jnp.maximum(count - 1, 0).astype(jnp.float32)
        low = jnp.floor(place).astype(jnp.int32)
        high = jnp.minimum(low + 1, jnp.maximum(count - 1, 0))
        # If both indices are the same, no difference is taken: before the first example it would be
        # inf - inf, NaN.
        return jnp.where(
            high > low,
            ordered[low] + (place - low) * (ordered[high] - ordered[low]),
            ordered[low],
        )

    def append(self, losses: Float[Array, "batch"], valid: Bool[Array, "batch"]) -> "RecentLosses":
        """Returns the window after a batch's losses, float32 [batch]; padding is not `valid`."""
        window = self.losses.shape[0]
        total = jnp.sum(valid, dtype=jnp.int32)
        # The number of valid examples after each one in the batch.
        num_later = total - jnp.cumsum(valid, dtype=jnp.int32)
        # If the batch is larger than the window, only its last examples are kept.
        is_kept = valid & (num_later < window)
        # Example number n since the beginning has index n modulo window.
        place = (self.examples + total - 1 - num_later) % window
        # The index `window` does not exist, so losses written there are dropped.
        ring = self.losses.at[jnp.where(is_kept, place, window)].set(losses, mode="drop")
        return RecentLosses(ring, self.examples + total, self.steps + 1)


@dataclasses.dataclass(frozen=True)
class LossTruncation(Objective):
    """Cross-entropy of the examples whose loss is not among the highest.

    After `warmup_steps`, an example is dropped from its batch if its negative log-likelihood is
    above the quantile 1 - `drop_fraction` of the last `window` examples before the batch. As in the
    published code, the loss is still a mean over the whole batch: dropped examples count as 0.
    Validation drops nothing.

    The window is part of the training state and saved with it. All devices share the window, and
    all pieces of a batch share the quantile.

    Attributes:
      cross_entropy: the loss of the target tokens.
      drop_fraction: in [0, 1); the published default is 0.4.
      window: number of examples, positive; the published code keeps 10,000.
      warmup_steps: steps without dropping, 0 or more. The published code waits for 10,000
        examples: 313 steps of 32.
      length_normalized: an example's loss is the mean over its target tokens; False = their sum.

    Raises:
      ConfigError: for an invalid setting; when called on packed examples.

    Reference: Kang 2020, section 4.1; Dziri 2022, section 5.2. The published code updates the
    quantile every 10,000 examples and includes padding in the mean; here each step has its own
    quantile, and padding does not count.
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

        The trainer divides sums by target tokens; with `row_weights`, sums over rows become means
        over the examples of the batch.
        """
        self.check(module, batch)
        weights = self.cross_entropy.weights(module, batch)
        # Rows of padding do not count as examples.
        examples = jnp.sum(jnp.any(weights > 0, axis=1))
        quantile = state.quantile(1.0 - self.drop_fraction)
        # With a limit of infinity, nothing is dropped.
        highest = jnp.where(state.steps < self.warmup_steps, jnp.inf, quantile)
        rows = weights.shape[0]
        return {
            **batch,
            "highest_loss": jnp.full(rows, highest),
            # A sum times tokens / examples, divided by tokens, is a mean over examples.
            "row_weights": jnp.full(rows, jnp.sum(weights) / jnp.maximum(examples, 1)),
        }

    def update_state(self, state: RecentLosses, rows: dict[str, Array]) -> RecentLosses:
        """Returns the window after a batch, including dropped examples."""
        return state.append(rows["loss"], rows["valid"])

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Metrics, dict[str, Array]]:
        """See `Objective`.

        `loss` is minimised; `negative_log_likelihood` includes all examples. After `prepare`,
        metrics also have `examples_dropped`, a share of the batch, from 0 to 1.
        """
        self.check(module, batch)
        encoded = encoder_states(module, params, batch, dropout_key)
        hidden = decoder_states(module, params, batch, encoded, dropout_key)
        scores = self.cross_entropy.scores(hidden, output_layer(module, params), module, batch)
        losses = _example_losses(
            -scores.statistics.log_prob, weights=scores.weights, mean=self.length_normalized
        )
        # The choice of dropped examples is not a part of the loss, so no gradient flows through it.
        rows = {"loss": jax.lax.stop_gradient(losses), "valid": jnp.any(scores.weights > 0, axis=1)}
        # Validation calls this without `prepare`, and drops nothing.
        if "highest_loss" not in batch:
            return self.cross_entropy.sums(scores), rows
        # The quantile was computed before the batch and is the same for all of its pieces.
        dropped = rows["valid"] & (rows["loss"] > batch["highest_loss"])
        metrics = self.cross_entropy.sums(scores, where=~dropped[:, None])
        # Dividing by target tokens, as the trainer does, makes this a share of examples.
        metrics["examples_dropped"] = reduce_losses(dropped, weights=batch["row_weights"])
        return metrics, rows


def _example_losses(
    losses: Float[Array, "batch length"], weights: Float[Array, "batch length"], mean: bool = True
) -> Float[Array, "batch"]:
    """Returns the loss of each example, [batch]: the weighted mean or sum of its tokens' losses.

    The mean of an example without tokens is 0.
    """
    total, count = jnp.sum(losses * weights, axis=1), jnp.sum(weights, axis=1)
    return total / jnp.where(count > 0, count, 1.0) if mean else total
