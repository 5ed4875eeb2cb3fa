"""An objective that teaches an encoder to compare texts: finding a text's repeated tokens."""

import dataclasses
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Integer

from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import NotNegativeNumber, Positive, PositiveNumber, TokenId
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


def repetition(
    scores: Float[Array, "batch length"], repeated: Bool[Array, "batch length"], **reduction: Any
) -> Float[Array, "..."]:
    """Returns -log sigmoid(score) of repeated tokens and -log sigmoid(-score) of others, in nats.

    A score is the logit that a token is repeated. `reduction` has the arguments of `reduce_losses`.
    """
    # softplus(-x) = -log sigmoid(x)
    return reduce_losses(jax.nn.softplus(jnp.where(repeated, -scores, scores)), **reduction)


@dataclasses.dataclass(frozen=True)
class RepeatedTokens(Objective):
    """Cross-entropy of the targets, and of whether each input token is in a repeated n-gram.

    The second loss is `repetition`: a token counts as repeated if it is part of an n-gram that also
    occurs elsewhere in the same inputs. Its score is the logit of the label "yes" minus the logit
    of "no", projected from its encoder state by the output layer. The loss is the mean
    cross-entropy over target tokens plus `weight` times the mean of `repetition` over input tokens.
    If some targets are single labels and others long texts, `label_weight` makes the labels count.

    With this objective a small encoder began to compare two texts within minutes, because every
    input token has a label; with one decoder answer per input it did not within an hour. The labels
    need no annotation. Inputs should repeat about half of their tokens, because otherwise the words
    alone reveal the label: lists that share some of their words with n = 1, a text and a retelling
    of it with n = 4.

    Attributes:
      labels: token ids of "yes" and "no".
      cross_entropy: the loss of the target tokens.
      weight: weight of `repetition`, not negative.
      ngram: n, positive.
      label_weight: weight of target tokens that are labels, in the cross-entropy of training. Other
        tokens have weight 1, and so have all tokens in validation.

    Raises:
      ConfigError: for an invalid setting; when called on a model without an encoder, or with two
        inputs.
    """

    labels: tuple[TokenId, TokenId]
    cross_entropy: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)
    weight: NotNegativeNumber = 1.0
    ngram: Positive = 1
    label_weight: PositiveNumber = 1.0

    def __post_init__(self):
        super().__post_init__()
        self.require("labels", len(set(self.labels)) == 2, "two different token ids")

    def check(self, module: Transformer, features: Collection[str]) -> None:
        """See `Objective`."""
        if not module.config.num_encoder_layers or module.config.knowledge_attention:
            raise ConfigError("RepeatedTokens: expected a model with one encoder input.")

    def prepare(self, module: Transformer, batch: Batch, state: PyTree = ()) -> Batch:
        """Adds `input_weights`, float [batch]: target tokens / input tokens of the batch.

        The trainer divides by target tokens, so these weights give a mean over input tokens. Also
        sets the weights of target tokens, `decoder_loss_weights`, float [batch, length].
        """
        self.check(module, batch)
        config = module.config
        weights = self.cross_entropy.weights(module, batch)
        # Labels may be few among long targets, so they can have a higher weight.
        labels = jnp.isin(batch["decoder_target_tokens"], jnp.asarray(self.labels))
        weights = weights * jnp.where(labels, self.label_weight, 1.0)
        tokens = batch["encoder_input_tokens"]
        counted = jnp.sum(_is_text(tokens, config.pad_id, config.eos_ids))
        weight = jnp.sum(weights) / jnp.maximum(counted, 1)
        return {
            **batch,
            "decoder_loss_weights": weights,
            "input_weights": jnp.full(tokens.shape[0], weight),
        }

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Metrics, dict[str, Array]]:
        """See `Objective`; metrics also have `repetition` and `repetition_accuracy`."""
        if "input_weights" not in batch:
            # Validation measures the plain likelihood, without label weights.
            batch = dataclasses.replace(self, label_weight=1.0).prepare(module, batch)
        layer = output_layer(module, params)
        encoded = encoder_states(module, params, batch, dropout_key)
        hidden = decoder_states(module, params, batch, encoded, dropout_key)
        metrics = self.cross_entropy.sum_losses(hidden, layer, module, batch)
        config, tokens = module.config, batch["encoder_input_tokens"]
        states: Any = encoded
        logits = layer.logits_of(
            # Soft prompt vectors are not tokens and cannot be repeated.
            states[:, config.encoder_prompt_length :],
            jnp.asarray(self.labels),
        )
        # log(p(yes) / p(no)), independent of other tokens' logits.
        scores = logits[..., 0] - logits[..., 1]
        valid = _is_text(tokens, config.pad_id, config.eos_ids)
        is_repeated = find_repeated_tokens(
            tokens, valid, self.ngram, batch.get("encoder_segment_ids")
        )
        # Padding and end tokens do not count.
        weights = valid * batch["input_weights"][:, None]
        metrics["repetition"] = repetition(scores, is_repeated, weights=weights)
        metrics["repetition_accuracy"] = reduce_losses((scores > 0) == is_repeated, weights=weights)
        metrics["loss"] += self.weight * metrics["repetition"]
        return metrics, {}


def _is_text(tokens: Array, pad: int, ends: tuple[int, ...]) -> Array:
    """Returns which tokens are neither padding nor end tokens, boolean [batch, length]."""
    return ~jnp.isin(tokens, jnp.asarray([pad, *ends]))


def find_repeated_tokens(
    tokens: Integer[Array, "batch length"],
    valid: Bool[Array, "batch length"],
    ngram: int,
    segments: Integer[Array, "batch length"] | None = None,
) -> Bool[Array, "batch length"]:
    """Returns which tokens are in an n-gram that also occurs elsewhere in their text.

    N-grams only consist of `valid` tokens. `segments` numbers the texts of a packed row; None = one
    text per row. Two occurrences may overlap ("a a a" repeats "a a").
    """
    # is_repeat[i, j]: tokens i and j are equal, valid and in the same text, and i != j.
    is_repeat = tokens[:, :, None] == tokens[:, None, :]
    is_repeat &= valid[:, :, None] & valid[:, None, :]
    if segments is not None:
        is_repeat &= segments[:, :, None] == segments[:, None, :]
    is_repeat &= ~jnp.eye(tokens.shape[1], dtype=bool)[None]
    # begins[i, j]: the n-grams that begin at i and j are equal.
    # (JAX's `&=` and `|=` make new arrays: `is_repeat` and `first` do not change.)
    begins = is_repeat
    for step in range(1, ngram):
        ahead = is_repeat[:, step:, step:]
        # ... including the tokens at i + step and j + step, if the row does not end before.
        begins &= jnp.pad(ahead, ((0, 0), (0, step), (0, step)))
    # [batch, length]: whether the n-gram that begins at a token also occurs elsewhere.
    first = jnp.any(begins, axis=-1)
    covered = first
    for step in range(1, ngram):
        # An n-gram that begins at i also covers i + step.
        covered |= jnp.pad(first[:, :-step], ((0, 0), (step, 0)))
    return covered
