"""Which of its tokens a text repeats: an encoder's lesson in comparing texts."""

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

    Scores are logits that a token is repeated; for what is done with them see `reduce_losses`.
    """
    # softplus(-x) = -log sigmoid(x)
    return reduce_losses(jax.nn.softplus(jnp.where(repeated, -scores, scores)), **reduction)


@dataclasses.dataclass(frozen=True)
class RepeatedTokens(Objective):
    """Cross-entropy of the targets, and of whether each input token stands in a repeated n-gram.

    The second is `repetition` of tokens that are part of an n-gram which stands elsewhere in the
    same inputs. A token's score is the logit of the label "yes" less that of
    "no": its encoder state, projected to both by the output layer. The loss is the cross-entropy's
    mean over target tokens plus `weight` times the mean of `repetition` over input tokens. Where
    targets are answers of one label among long texts, `label_weight` makes the labels count.

    A small encoder begins to compare two texts within minutes by it, because every token of the
    inputs is an answer; by one answer of the decoder for each input it did not in an hour. The
    labels need no one to write them. Inputs should repeat about half of their tokens, for
    otherwise the words themselves tell: lists that share some of their words with n = 1, a text
    and a telling of it with n = 4.

    Attributes:
      labels: token ids of "yes" and "no".
      cross_entropy: of the target tokens.
      weight: of repetition, not negative.
      ngram: n, positive.
      label_weight: of target tokens that are a label, in the cross-entropy of training; others
        count 1, and so do all in validation.

    Raises:
      ConfigError: on a wrong setting; when called on a model without an encoder, or with two
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
        """Adds `input_weights`, float [batch]: target tokens over input tokens of the batch.

        The trainer divides by target tokens, so that input tokens so weighted give a mean. Target
        tokens count as `decoder_loss_weights`, float [batch, length].
        """
        self.check(module, batch)
        config = module.config
        weights = self.cross_entropy.weights(module, batch)
        # Labels may be few among long targets, and can count more.
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
    ) -> tuple[Array, Metrics, dict[str, Array]]:
        """See `Objective`; metrics have `repetition` and `repetition_accuracy` besides."""
        if "input_weights" not in batch:
            # Validation, whose likelihood is that of the model alone.
            batch = dataclasses.replace(self, label_weight=1.0).prepare(module, batch)
        layer = output_layer(module, params)
        encoded = encoder_states(module, params, batch, dropout_key)
        hidden = decoder_states(module, params, batch, encoded, dropout_key)
        metrics = self.cross_entropy.sum_losses(hidden, layer, module, batch)
        config, tokens = module.config, batch["encoder_input_tokens"]
        states: Any = encoded
        logits = layer.logits_of(
            # Vectors of a soft prompt are no tokens that could be repeated.
            states[:, config.encoder_prompt_length :],
            jnp.asarray(self.labels),
        )
        # log(p(yes) / p(no)), whatever the other tokens' logits.
        scores = logits[..., 0] - logits[..., 1]
        valid = _is_text(tokens, config.pad_id, config.eos_ids)
        is_repeated = find_repeated_tokens(
            tokens, valid, self.ngram, batch.get("encoder_segment_ids")
        )
        # Padding and end tokens, such as of short inputs, do not count.
        weights = valid * batch["input_weights"][:, None]
        metrics["repetition"] = repetition(scores, is_repeated, weights=weights)
        metrics["repetition_accuracy"] = reduce_losses((scores > 0) == is_repeated, weights=weights)
        metrics["loss"] += self.weight * metrics["repetition"]
        return metrics["loss"], metrics, {}


def _is_text(tokens: Array, pad: int, ends: tuple[int, ...]) -> Array:
    """Returns which tokens are neither padding nor an end: boolean [batch, length]."""
    return ~jnp.isin(tokens, jnp.asarray([pad, *ends]))


def find_repeated_tokens(
    tokens: Integer[Array, "batch length"],
    valid: Bool[Array, "batch length"],
    ngram: int,
    segments: Integer[Array, "batch length"] | None = None,
) -> Bool[Array, "batch length"]:
    """Returns which tokens stand in an n-gram that is elsewhere in their text.

    N-grams are of `valid` tokens only. `segments` say which text of a packed row a token is of;
    None = one text a row. Two copies may overlap ("a a a" repeats "a a").
    """
    # is_repeat[i, j]: tokens i and j are equal, valid and of one text, but not one token.
    is_repeat = tokens[:, :, None] == tokens[:, None, :]
    is_repeat &= valid[:, :, None] & valid[:, None, :]
    if segments is not None:
        is_repeat &= segments[:, :, None] == segments[:, None, :]
    is_repeat &= ~jnp.eye(tokens.shape[1], dtype=bool)[None]
    # begins[i, j]: the n-grams that begin at i and j are the same.
    # (JAX's `&=` and `|=` make new arrays: `is_repeat` and `first` stay as they are.)
    begins = is_repeat
    for step in range(1, ngram):
        ahead = is_repeat[:, step:, step:]
        # ... and so are the tokens `step` behind them, unless the row ends before.
        begins &= jnp.pad(ahead, ((0, 0), (0, step), (0, step)))
    # [batch, length]: whether the n-gram that begins at a token stands elsewhere.
    first = jnp.any(begins, axis=-1)
    covered = first
    for step in range(1, ngram):
        # An n-gram that begins at i covers i + step too.
        covered |= jnp.pad(first[:, :-step], ((0, 0), (step, 0)))
    return covered
