"""Encoder-only models with their parameters: RoBERTa, DeBERTa-v3."""

import functools
from typing import Any, NoReturn

import jax
import numpy as np

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.types import Array, PyTree
from faith_jax.inference.base import BaseModel
from faith_jax.models.transformer import Transformer


@functools.partial(jax.jit, static_argnums=0)
def _classify(module: Transformer, params: PyTree, input_tokens: Array) -> Any:
    return module.apply({"params": params}, input_tokens, False, method="classify")


@functools.partial(jax.jit, static_argnums=0)
def _encode(module: Transformer, params: PyTree, input_tokens: Array) -> Any:
    return module.apply({"params": params}, input_tokens, None, False, method="encode")


class EncoderModel(BaseModel):
    """An encoder-only model with its parameters."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes of its head, in the order of `classify`'s logits; () = it has no head."""
        return self.config.label_names

    def classify(self, input_tokens: Any) -> np.ndarray:
        """Returns the logits of each class.

        Args:
          input_tokens: int [batch, length], with the special tokens, padded with `pad_id`.

        Returns:
          float32 [batch, classes], in the order of `label_names`.

        Raises:
          InputError: on arrays of other ranks or dtypes, ids outside the vocabulary, rows longer
            than the model's positions, or a model without a classification head.
        """
        if not self.label_names:
            raise InputError(
                "This model has no classification head; load a checkpoint that was fine-tuned for "
                "sequence classification."
            )
        tokens = self._checked(input_tokens)
        found: np.ndarray = self._computed(_classify, self._padded(tokens))
        return found

    def respond(self, *_: Any, **__: Any) -> NoReturn:
        """Raises ConfigError: an encoder writes nothing."""
        raise ConfigError(
            "respond: this is an encoder-only model (RoBERTa, DeBERTa), which cannot generate; "
            "load a language model."
        )

    def hidden_states(self, input_tokens: Any) -> np.ndarray:
        """Returns the tokens' last hidden states, float32 [batch, length, embed]."""
        tokens = self._checked(input_tokens)
        hidden: np.ndarray = self._computed(_encode, self._padded(tokens))
        prompt = self.config.encoder_prompt_length
        return hidden[:, prompt : prompt + tokens.shape[1]]

    def _checked(self, input_tokens: Any) -> np.ndarray:
        tokens = self._tokens("input_tokens", input_tokens)
        self._check_positions("input_tokens", tokens.shape[1], self.config.encoder_prompt_length)
        return tokens
