"""Training of passage retrievers, with the passages of other queries as negatives."""

import dataclasses
from collections.abc import Collection

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Array, PyTree
from faith_jax.models.transformer import Transformer
from faith_jax.training.objectives import Batch, Metrics, Objective, dropout_rngs, reduce_losses


def in_batch_log_probs(
    queries: Float[Array, "batch embed"],
    passages: Float[Array, "batch embed"],
    is_negative: Bool[Array, "batch batch"],
) -> Float[Array, "batch batch"]:
    """Returns the log-probability of each passage for each query, from their inner products.

    Passage i is the positive of query i and always counts; `is_negative` marks its negatives.

    Reference: Karpukhin 2020, section 3.2.
    """
    # [queries, passages]; the pairs are on the diagonal.
    scores = jnp.matmul(queries, passages.T)
    is_own = jnp.eye(len(scores), dtype=bool)
    # exp(-inf) = 0, so other passages do not count. A row's own passage always counts, because a
    # row of only -inf would be NaN.
    return jax.nn.log_softmax(jnp.where(is_negative | is_own, scores, -jnp.inf), axis=1)


@dataclasses.dataclass(frozen=True)
class InBatchNegatives(Objective):
    """The negative log-likelihood of each query's own passage among the batch's passages.

    The same encoder reads queries and passages, unless the model has a question encoder (DPR). The
    batch has `encoder_input_tokens` (the queries) and `passage_tokens`, int [batch, length], and
    `label_weights`, float [batch]. Passages of rows with weight 0 and copies of a query's own
    passage are not negatives.
    """

    @property
    def couples_rows(self) -> bool:
        """True, because a row's loss depends on the other rows."""
        return True

    def check(self, module: Transformer, features: Collection[str]) -> None:
        """See `Objective`."""
        if "passages" not in features:
            raise ConfigError(
                "InBatchNegatives needs queries and passages: a task such as dialfact_dense, and "
                "their length in TASK_FEATURE_LENGTHS = {'inputs': 128, 'passages': 256, …}."
            )

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Metrics, dict[str, Array]]:
        """See `Objective`; metrics have `accuracy`, and `weight` is the number of queries."""
        # Queries and passages get separate dropout masks.
        keys = (None, None) if dropout_key is None else jax.random.split(dropout_key)
        methods = {"encoder_input_tokens": "question_vectors", "passage_tokens": "text_vectors"}
        queries, passages = (
            module.apply(
                {"params": params},
                batch[name],
                key is not None,
                method=method,
                rngs=dropout_rngs(key),
            )
            for (name, method), key in zip(methods.items(), keys, strict=True)
        )
        tokens, weights = batch["passage_tokens"], batch["label_weights"].astype(jnp.float32)
        # is_copy[i, j]: passages i and j have the same tokens.
        is_copy = jnp.all(tokens[:, None] == tokens[None], axis=2)
        # A passage is a query's negative if its row has weight and its text is not the query's own.
        log_probs = in_batch_log_probs(queries, passages, ~is_copy & (weights > 0)[None])
        # -log P(own passage | query) of each query
        losses = -jnp.diagonal(log_probs)
        hits = jnp.argmax(log_probs, axis=1) == jnp.arange(len(losses))
        metrics = {
            "loss": reduce_losses(losses, weights=weights),
            "negative_log_likelihood": reduce_losses(losses, weights=weights),
            "accuracy": reduce_losses(hits, weights=weights),
            "weight": jnp.sum(weights),
        }
        return metrics, {}
