"""Training of classification heads: natural language inference, and FaithDial's critic."""

import dataclasses
import math
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float, Integer

from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import ShareBelow1
from faith_jax.core.types import Array, PyTree
from faith_jax.models.transformer import Transformer
from faith_jax.training.objectives import Batch, Metrics, Objective, dropout_rngs, reduce_losses


def label_cross_entropy(
    log_probs: Float[Array, "batch classes"],
    labels: Integer[Array, "batch"],
    label_smoothing: float = 0.0,
    **reduction: Any,
) -> Float[Array, "..."]:
    """Returns the cross-entropy of classes, in nats; like `cross_entropy`, 0 for a perfect model.

    Labels must be in [0, classes), which compiled code cannot check. `label_smoothing`, in [0, 1),
    is spread evenly over the other classes. `reduction` has the arguments of `reduce_losses`.
    """
    smoothing, num_others = label_smoothing, log_probs.shape[1] - 1
    likelihood = jnp.take_along_axis(log_probs, labels[:, None], axis=1)[:, 0]
    # A separate case: the entropy below has 0 log 0, which is 0, but `math.log(0)` raises an error.
    if smoothing == 0.0:
        return reduce_losses(-likelihood, **reduction)
    rest = smoothing / num_others
    # The cross-entropy of a perfect model with smoothed labels, the lowest possible.
    entropy = -((1 - smoothing) * math.log(1 - smoothing) + smoothing * math.log(rest))
    total = jnp.sum(log_probs, axis=1)
    # -sum_c q(c) log p(c), where q is 1 - smoothing for the label and `rest` for the others. The
    # total includes the label, so `rest` is subtracted from the label's factor.
    losses = -((1 - smoothing - rest) * likelihood + rest * total) - entropy
    return reduce_losses(losses, **reduction)


@dataclasses.dataclass(frozen=True)
class LabelCrossEntropy(Objective):
    """`label_cross_entropy` of each row, by the model's classification head.

    The batch has `encoder_input_tokens` and, for models with several token types, `token_types`,
    int [batch, length], `labels`, int [batch], and the rows' weights `label_weights`, float
    [batch]. Sums are over rows. A `label_smoothing` outside [0, 1) raises a ConfigError.
    """

    label_smoothing: ShareBelow1 = 0.0

    def check(self, module: Transformer, features: Collection[str]) -> None:
        """See `Objective`."""
        if "passages" in features:
            raise ConfigError(
                "TASK_FEATURE_LENGTHS: 'passages' are of InBatchNegatives; classes need none."
            )

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Metrics, dict[str, Array]]:
        """See `Objective`; metrics have `accuracy`, and `weight` is the number of rows."""
        logits: Array = module.apply(  # type: ignore[assignment]
            {"params": params},
            batch["encoder_input_tokens"],
            dropout_key is not None,
            batch.get("token_types"),
            method="classify",
            rngs=dropout_rngs(dropout_key),
        )
        log_probs = jax.nn.log_softmax(logits)
        labels, weights = batch["labels"], batch["label_weights"].astype(jnp.float32)
        # If logits are equal, the first class counts.
        hits = jnp.argmax(logits, axis=1) == labels
        metrics = {
            "loss": label_cross_entropy(log_probs, labels, self.label_smoothing, weights=weights),
            "negative_log_likelihood": label_cross_entropy(log_probs, labels, weights=weights),
            "accuracy": reduce_losses(hits, weights=weights),
            "weight": jnp.sum(weights),
        }
        return metrics, {}
