"""Training of classification heads: natural language inference, and FaithDial's critic."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Array, PyTree
from faith_jax.models.transformer import Transformer
from faith_jax.training.objectives import Batch, Objective


@dataclasses.dataclass(frozen=True)
class LabelCrossEntropy(Objective):
    """Cross-entropy of the class of each row, by the model's classification head.

    loss = -sum_v q(v) log p(v) - constant, where q has 1 - label_smoothing on the row's class and
    the rest spread evenly over the others; the constant is q's entropy. Natural logarithms.

    The batch has `encoder_input_tokens`, int [batch, length], `labels`, int [batch], and
    `label_weights`, float [batch], how much each row counts. What other objectives sum over target
    tokens is summed over rows.

    Attributes:
      label_smoothing: in [0, 1).

    Raises:
      ConfigError: on a wrong setting.
    """

    label_smoothing: float = 0.0

    def __post_init__(self):
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(
                "LabelCrossEntropy.label_smoothing: expected from 0 to less than 1, got "
                f"{self.label_smoothing!r}."
            )

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Array, dict[str, Array], dict[str, Array]]:
        """See `Objective`; metrics have `accuracy`, and `weight` is the number of rows."""
        logits: Array = module.apply(  # type: ignore[assignment]
            {"params": params},
            batch["encoder_input_tokens"],
            dropout_key is not None,
            method="classify",
            rngs={} if dropout_key is None else {"dropout": dropout_key},
        )
        log_probs = jax.nn.log_softmax(logits)
        labels, weights = batch["labels"], batch["label_weights"].astype(jnp.float32)
        likelihood = jnp.take_along_axis(log_probs, labels[:, None], axis=1)[:, 0]
        metrics = {
            "loss": jnp.sum(self._losses(likelihood, log_probs) * weights),
            "negative_log_likelihood": -jnp.sum(likelihood * weights),
            "accuracy": jnp.sum((jnp.argmax(logits, axis=1) == labels) * weights),
            "weight": jnp.sum(weights),
        }
        return metrics["loss"], metrics, {}

    def _losses(self, likelihood: Array, log_probs: Array) -> Array:
        smoothing, others = self.label_smoothing, log_probs.shape[1] - 1
        if smoothing == 0.0:
            return -likelihood
        rest = smoothing / others
        entropy = -((1 - smoothing) * math.log(1 - smoothing) + smoothing * math.log(rest))
        total = jnp.sum(log_probs, axis=1)
        return -((1 - smoothing - rest) * likelihood + rest * total) - entropy
