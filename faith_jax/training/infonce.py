"""InfoNCE with cross-entropy: ranks a context's response above unfaithful ones (Dziri 2022)."""

import dataclasses
import math
from collections.abc import Collection
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Integer

from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import NotNegativeNumber, PositiveNumber
from faith_jax.core.types import Array, PyTree
from faith_jax.models.transformer import Inputs, Transformer, output_layer
from faith_jax.training.objectives import (
    Batch,
    CrossEntropy,
    Metrics,
    Objective,
    decoder_states,
    encoder_states,
    reduce_losses,
)


def infonce(
    scores: Float[Array, "batch candidates"],
    where: Bool[Array, "batch candidates"],
    **reduction: Any,
) -> Float[Array, "..."]:
    """Returns -log softmax(scores)[0] of each row, in nats; 0 if no other candidate counts.

    Candidates in `where` count, and the first candidate always counts. `reduction` has the
    arguments of `reduce_losses`, which combines the rows.

    Raises:
      ValueError: if scores are not [batch, candidates], or `where` has another shape.
    """
    scores = _mask_others(scores, where)
    # Dziri 2022, equation 1: -log(exp(s_0) / sum_x exp(s_x)) = log sum_x exp(s_x) - s_0
    losses = jax.nn.logsumexp(scores, axis=1) - scores[:, 0]
    return reduce_losses(losses, **reduction)


def hits_at_1(
    scores: Float[Array, "batch candidates"],
    where: Bool[Array, "batch candidates"],
    **reduction: Any,
) -> Float[Array, "..."]:
    """Returns 1 for rows whose first candidate scores above all others, otherwise (and for ties) 0.

    Takes the arguments of `infonce`.
    """
    scores = _mask_others(scores, where)
    # If no other candidate counts, any score is above -inf.
    hits = scores[:, 0] > jnp.max(scores[:, 1:], axis=1, initial=-jnp.inf)
    return reduce_losses(hits.astype(jnp.float32), **reduction)


def _mask_others(
    scores: Float[Array, "batch candidates"], where: Bool[Array, "batch candidates"]
) -> Float[Array, "batch candidates"]:
    """Returns float32 scores with -inf for candidates that do not count.

    exp(-inf) = 0, so they add nothing to a sum. The first candidate always counts, because a row of
    only -inf would have the loss -inf + inf, NaN.
    """
    if scores.ndim != 2 or where.shape != scores.shape:
        raise ValueError(
            f"expected scores and where of one shape [batch, candidates], got {scores.shape} and "
            f"{where.shape}."
        )
    counts = jnp.asarray(where).at[:, 0].set(True)
    return jnp.where(counts, scores.astype(jnp.float32), -jnp.inf)


@dataclasses.dataclass(frozen=True)
class InfoNCE(Objective):
    """Cross-entropy of the targets, and InfoNCE of the target among negatives.

    infonce = -log( exp(s(c, x+)) / sum_x exp(s(c, x)) ), s(c, x) = c.x / (sqrt(embed) temperature),
    over the target x+ and the row's negatives. A text's representation x is the decoder's state
    before the output layer at its end token. Rows without a target or without negatives do not
    count, nor do negatives equal to the target. The loss is the mean cross-entropy over target
    tokens plus `weight` times the mean infonce over rows.

    The batch has `negatives`, int [batch, texts, length], each with its end token; rows with fewer
    texts are filled up with padding. Targets have end tokens too. Batches are not packed.

    Attributes:
      cross_entropy: the loss of the target tokens.
      weight: weight of infonce, not negative; the published code uses 0.1.
      temperature: positive; the published code uses 1.
      context: c is the encoder's state of the "first" token, its "mean" state over tokens (both
        without soft prompts), or the decoder's first state, "decoder_first".
      in_batch_negatives: other rows' targets and negatives are candidates too, on all devices.

    Raises:
      ConfigError: for an invalid setting; when called on a batch without negatives, or a model
        without encoder or decoder.

    Reference: Dziri 2022, section 5.2.1; the representations follow its published code, but there
    the padding of rows with fewer negatives counts as candidates.
    """

    cross_entropy: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)
    weight: NotNegativeNumber = 0.1
    temperature: PositiveNumber = 1.0
    context: Literal["first", "mean", "decoder_first"] = "first"
    in_batch_negatives: bool = False

    @property
    def couples_rows(self) -> bool:
        """See `Objective`."""
        return self.in_batch_negatives

    def check(self, module: Transformer, features: Collection[str]) -> None:
        """See `Objective`."""
        if "negatives" not in features:
            raise ConfigError(
                "InfoNCE: the batches have no negatives. Choose a task that has them, such as "
                "faithdial_generate_infonce, and set their number and length: "
                "TASK_FEATURE_LENGTHS = {'inputs': 256, 'targets': 64, 'negatives': (8, 64)}."
            )
        if not (module.config.num_encoder_layers and module.config.num_decoder_layers):
            raise ConfigError("InfoNCE: expected a model with an encoder and a decoder.")
        if "decoder_segment_ids" in features:
            raise ConfigError("InfoNCE: packed examples have no negatives; set PACK = False.")

    def prepare(self, module: Transformer, batch: Batch, state: PyTree = ()) -> Batch:
        """Adds `contrast_weights`, float [batch]: target tokens / rows with negatives, or 0.

        The trainer divides by target tokens, so these weights give a mean over rows.
        """
        self.check(module, batch)
        # Rows with a target and at least one negative.
        rows = jnp.any(_valid_negatives(batch, module.config.pad_id), axis=1)
        tokens = jnp.sum(self.cross_entropy.weights(module, batch))
        # A sum of losses times tokens / rows, divided by tokens, is a mean over rows.
        weights = jnp.where(rows, tokens / jnp.maximum(jnp.sum(rows), 1), 0.0)
        return {**batch, "contrast_weights": weights}

    def __call__(
        self, module: Transformer, params: PyTree, batch: Batch, dropout_key: Array | None
    ) -> tuple[Metrics, dict[str, Array]]:
        """See `Objective`; metrics also have `infonce` and `hits_at_1`, means over rows."""
        if "contrast_weights" not in batch:
            batch = self.prepare(module, batch)
        encoded = encoder_states(module, params, batch, dropout_key)
        # One decoder pass gives the states that predict targets and the states at their ends.
        hidden, positives = _positive_states(module, params, batch, encoded, dropout_key)
        layer = output_layer(module, params)
        metrics = self.cross_entropy.sum_losses(hidden, layer, module, batch)
        negatives = _negative_states(module, params, batch, encoded, dropout_key)
        context = self._compute_context_vectors(module, batch, encoded, hidden)
        scores, where = self._score_candidates(context, positives, negatives, batch, module)
        # With the weights of `prepare`, sums divided by target tokens are means over rows.
        for name, measure in (("infonce", infonce), ("hits_at_1", hits_at_1)):
            metrics[name] = measure(scores, where, weights=batch["contrast_weights"])
        metrics["loss"] += self.weight * metrics["infonce"]
        return metrics, {}

    def _compute_context_vectors(
        self,
        module: Transformer,
        batch: Batch,
        encoded: Inputs,
        hidden: Float[Array, "batch length embed"],
    ) -> Float[Array, "batch embed"]:
        """Returns the vector of each row's context, to compare candidates with."""
        if self.context == "decoder_first":
            return hidden[:, 0]
        # The first of DoHA's two inputs, to which the mask below belongs.
        states = encoded[0] if isinstance(encoded, tuple) else encoded
        # The soft prompt is the same for all rows and not a part of the context.
        states = states[:, module.config.encoder_prompt_length :]
        if self.context == "first":
            return states[:, 0]
        mask = (batch["encoder_input_tokens"] != module.config.pad_id).astype(jnp.float32)
        # [batch, embed], in float32, because a sum over many tokens in bfloat16 would be coarse.
        total = jnp.einsum("ble,bl->be", states.astype(jnp.float32), mask)
        # A row of padding has the mean 0, because 0 / 0 would make the gradient NaN.
        return total / jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), 1.0)

    def _score_candidates(
        self,
        context: Float[Array, "batch embed"],
        positives: Float[Array, "batch embed"],
        negatives: Float[Array, "batch texts embed"],
        batch: Batch,
        module: Transformer,
    ) -> tuple[Float[Array, "batch candidates"], Bool[Array, "batch candidates"]]:
        """Returns scores and a mask of those that count; the row's target comes first."""
        # s(c, x) = c.x / (sqrt(embed) temperature)
        scale = 1.0 / (math.sqrt(context.shape[-1]) * self.temperature)
        context = context.astype(jnp.float32) * scale
        # [batch, 1 + texts, embed]
        states = jnp.concatenate([positives[:, None], negatives], axis=1).astype(jnp.float32)
        pad = module.config.pad_id
        scores = jnp.einsum("be,bce->bc", context, states)
        valid_negatives = _valid_negatives(batch, pad)
        # The target always counts.
        valid = jnp.pad(valid_negatives, ((0, 0), (1, 0)), constant_values=True)
        if not self.in_batch_negatives:
            return scores, valid
        # Scores of the texts of all rows: row 0's texts, then row 1's, ...
        all_scores = jnp.einsum("be,xe->bx", context, states.reshape(-1, states.shape[-1]))
        targets, row_negatives = _same_lengths(batch, pad)
        texts = jnp.concatenate([targets[:, None], row_negatives], axis=1)
        rows, count, length = texts.shape
        texts = texts.reshape(rows * count, length)
        # Padding, copies of the row's target, and the row's own texts, which are in `scores`
        # already, do not count. These masks are [rows, rows * (1 + texts)].
        is_own_text = jnp.all(texts[None] == targets[:, None], axis=-1)
        is_own_row = jnp.repeat(jnp.eye(rows, dtype=bool), count, axis=1)
        valid_others = jnp.any(texts != pad, axis=-1)[None] & ~is_own_text & ~is_own_row
        return (
            jnp.concatenate([scores, all_scores], axis=1),
            jnp.concatenate([valid, valid_others], axis=1),
        )


def _valid_negatives(batch: Batch, pad: int) -> Bool[Array, "batch texts"]:
    """Returns which negatives are neither padding nor the target; False without a target."""
    targets, negatives = _same_lengths(batch, pad)
    # A text with the target's tokens is not a negative.
    is_target = jnp.all(negatives == targets[:, None], axis=-1)
    is_positive = jnp.any(targets != pad, axis=-1)
    return jnp.any(negatives != pad, axis=-1) & ~is_target & is_positive[:, None]


def _same_lengths(
    batch: Batch, pad: int
) -> tuple[Integer[Array, "batch length"], Integer[Array, "batch texts length"]]:
    """Returns targets and negatives, padded to the same length."""
    targets, negatives = batch["decoder_target_tokens"], batch["negatives"]
    length = max(targets.shape[-1], negatives.shape[-1])
    return _pad_to(targets, length, pad), _pad_to(negatives, length, pad)


def _pad_to(tokens: Array, length: int, pad: int) -> Array:
    """Pads tokens at the end to [..., length]."""
    widths = ((0, 0),) * (tokens.ndim - 1) + ((0, length - tokens.shape[-1]),)
    return jnp.pad(tokens, widths, constant_values=pad)


def _read_to_the_end(tokens: Array, start: int, pad: int) -> tuple[Array, Array, Array]:
    """Returns decoder inputs [..., 1 + length] of texts, a mask, and the end tokens' positions.

    The mask is an array that differs from `pad` at the tokens that the decoder reads.
    """
    # Unlike in `shift_right`, the last token is fed too, because its state is compared.
    first = jnp.full((*tokens.shape[:-1], 1), start, tokens.dtype)
    fed = jnp.concatenate([first, tokens], axis=-1)
    # The start token is read even if it has the id of padding.
    mask = jnp.concatenate([jnp.full_like(first, pad + 1), tokens], axis=-1)
    # After the start token, the n-th token is at index n, and the last token is the end token.
    return fed, mask, jnp.sum(tokens != pad, axis=-1)


def _positive_states(
    module: Transformer, params: PyTree, batch: Batch, encoded: Inputs, key: Array | None
) -> tuple[Float[Array, "batch length embed"], Float[Array, "batch embed"]]:
    """Returns the states that predict the targets, and the states at their end tokens."""
    config = module.config
    targets = batch["decoder_target_tokens"]
    fed, mask, last = _read_to_the_end(targets, config.decoder_start_id, config.pad_id)
    read = batch | {"decoder_input_tokens": fed, "decoder_target_tokens": mask}
    hidden = decoder_states(module, params, read, encoded, key)
    # The states at the end tokens, [batch, embed].
    ends = jnp.take_along_axis(hidden, last[:, None, None], axis=1)[:, 0]
    # State t predicts target t; the state after the last target predicts nothing.
    return hidden[:, :-1], ends


def _negative_states(
    module: Transformer, params: PyTree, batch: Batch, encoded: Inputs, key: Array | None
) -> Float[Array, "batch texts embed"]:
    """Returns the states of the negatives' end tokens.

    Each negative is a separate decoder row; the negatives of a row share encoder keys and values.
    """
    config, negatives = module.config, batch["negatives"]
    rows, texts, length = negatives.shape
    fed, mask, last = _read_to_the_end(negatives, config.decoder_start_id, config.pad_id)
    read = {
        **batch,
        "decoder_input_tokens": fed.reshape(rows * texts, length + 1),
        "decoder_target_tokens": mask.reshape(rows * texts, length + 1),
    }
    # Dropout differs from that of the targets.
    key = None if key is None else jax.random.fold_in(key, 1)
    hidden: Any = decoder_states(module, params, read, encoded, key)
    ends = jnp.take_along_axis(hidden, last.reshape(-1, 1, 1), axis=1)
    return ends.reshape(rows, texts, -1)
