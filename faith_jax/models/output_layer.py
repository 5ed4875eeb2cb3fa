"""The output layer, which maps hidden states to the logits of all tokens or of a few."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Integer

from faith_jax.core.types import Array
from faith_jax.models.layers import expand_rank, project
from faith_jax.models.quantization import Int8Matrix, product


class OutputLayer(NamedTuple):
    """Maps hidden states to logits: softcap(scale * hidden @ weights + bias).

    Attributes:
      weights: a kernel [embed, vocab], or the token embedding [vocab, embed], which is never
        transposed in memory; float32, bfloat16 or 8 bits.
      is_embedding: whether the weights are the embedding.
      scale: factor of the hidden states.
      bias: float32 [vocab], or None.
      softcap: c in c * tanh(logits / c); 0 = none.
    """

    weights: Array | Int8Matrix
    is_embedding: bool = False
    scale: float = 1.0
    bias: Array | None = None
    softcap: float = 0.0

    @property
    def vocab_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return self.weights.shape[0 if self.is_embedding else 1]

    def logits(self, hidden: Float[Array, "*batch embed"]) -> Float[Array, "*batch vocab"]:
        """Maps hidden states [..., embed] to float32 logits [..., vocab]."""
        axis = 1 if self.is_embedding else 0  # of the weights' width
        contracted = (((hidden.ndim - 1,), (axis,)), ((), ()))
        if isinstance(self.weights, Int8Matrix):
            logits = product(self._scale_states(hidden), self.weights, axis)
        elif hidden.dtype == self.weights.dtype != jnp.float32:
            # Products of 16-bit numbers are exact in float32. Weights converted to float32 would
            # be written and read in every decoding step.
            logits = self.scale * jax.lax.dot_general(
                hidden, self.weights, contracted, preferred_element_type=jnp.float32
            )
        elif self.is_embedding:
            # hidden @ embedding^T, without a transpose.
            logits = jax.lax.dot_general(self._scale_states(hidden), self.weights, contracted)
        else:
            logits = project(self._scale_states(hidden), self.weights)
        return self._finish_logits(logits, self.bias)

    def logits_of(
        self, hidden: Float[Array, "*batch embed"], tokens: Integer[Array, "labels"]
    ) -> Float[Array, "*batch labels"]:
        """Maps hidden states [..., embed] to float32 logits [..., labels] of only a few tokens."""
        axis = 0 if self.is_embedding else 1
        # Only the tokens' columns are multiplied, not the whole vocabulary's.
        if isinstance(self.weights, Int8Matrix):
            columns = self.weights.take(tokens, axis)
        else:
            columns = jnp.take(self.weights, tokens, axis=axis)
        columns = columns.T if self.is_embedding else columns
        bias = None if self.bias is None else self.bias[tokens]
        return self._finish_logits(jnp.dot(self._scale_states(hidden), columns), bias)

    def _scale_states(self, hidden: Array) -> Array:
        # bfloat16's 8 bits would round logits near 20 to steps of 1/8, too coarse for
        # log-probabilities.
        hidden = hidden.astype(jnp.float32)
        # The scale is applied to the states because they are smaller than the logits.
        return hidden if self.scale == 1.0 else hidden * self.scale

    def _finish_logits(self, logits: Array, bias: Array | None) -> Array:
        if bias is not None:
            logits += expand_rank(bias, logits)
        return self.softcap * jnp.tanh(logits / self.softcap) if self.softcap else logits
