"""Models that do not generate text, with their parameters: encoders and classifiers."""

import functools
from typing import Any, NoReturn

import jax
import numpy as np

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.types import Array, PyTree
from faith_jax.inference.base import BaseModel
from faith_jax.models.transformer import Transformer


@functools.partial(jax.jit, static_argnums=0, static_argnames="method")
def _apply_method(
    module: Transformer, params: PyTree, tokens: Array, token_types: Array | None, method: str
) -> Any:
    """Applies a method of the module to tokens, without dropout."""
    return module.apply(
        {"params": params}, tokens, enable_dropout=False, token_types=token_types, method=method
    )


class EncoderModel(BaseModel):
    """An encoder-only model, or a BART or T5 with a classification head, with its parameters."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes of the model's head, in the order of `classify`'s logits; () = no head."""
        return self.config.label_names

    def classify(self, input_tokens: Any, token_types: Any = None) -> np.ndarray:
        """Returns the logits of each class.

        Args:
          input_tokens: int [batch, length], with the special tokens, padded with `pad_id`.
          token_types: int [batch, length], 0 for a first text and 1 for a second one, for models
            with token types (BERT, ALBERT); None = all 0.

        Returns:
          float32 [batch, classes], in the order of `label_names`.

        Raises:
          InputError: on arrays of other ranks or dtypes, ids outside the vocabulary, rows longer
            than the model's positions, or a model without a classification head.
        """
        _check_head(self.label_names, "classification head", "for sequence classification")
        return self._run_method("classify", input_tokens, token_types)

    def classify_tokens(self, input_tokens: Any, token_types: Any = None) -> np.ndarray:
        """Returns the logits of each token's classes.

        Args:
          input_tokens: int [batch, length], as in `classify`.
          token_types: int [batch, length], as in `classify`.

        Returns:
          float32 [batch, length, classes], in the order of the config's `token_label_names`.

        Raises:
          InputError: as in `classify`, and on a model without a head on its tokens.
        """
        names = self.config.token_label_names
        _check_head(names, "classification head on its tokens", "for token classification")
        logits = self._run_method("classify_tokens", input_tokens, token_types)
        return logits[:, : np.shape(input_tokens)[1]]

    def span_logits(self, input_tokens: Any, token_types: Any = None) -> np.ndarray:
        """Returns the logits of an answer starting and ending at each token.

        Args:
          input_tokens: int [batch, length], as in `classify`.
          token_types: int [batch, length], as in `classify`.

        Returns:
          float32 [batch, length, 2].

        Raises:
          InputError: as in `classify`, and on a model without a question answering head.
        """
        _check_head(self.config.span_head, "head of extractive question answering", "on SQuAD")
        logits = self._run_method("spans", input_tokens, token_types)
        # The padding up to a shared shape has logits too, which are meaningless.
        return logits[:, : np.shape(input_tokens)[1]]

    def respond(self, *_: Any, **__: Any) -> NoReturn:
        """Raises ConfigError, since the model cannot generate text."""
        raise ConfigError(
            "respond: this is an encoder-only model (BERT, RoBERTa …) or a classifier, which "
            "cannot generate; load a language model."
        )

    def hidden_states(self, input_tokens: Any, token_types: Any = None) -> np.ndarray:
        """Returns the tokens' last hidden states, float32 [batch, length, embed].

        In a model with a decoder, they are the decoder's states; it reads the tokens after its
        start token.
        """
        states = self._run_method("states", input_tokens, token_types)
        return states[:, : np.shape(input_tokens)[1]]

    def _run_method(self, method: str, input_tokens: Any, token_types: Any) -> np.ndarray:
        tokens = self._check_tokens("input_tokens", input_tokens)
        self._check_positions("input_tokens", tokens.shape[1], self.config.encoder_prompt_length)
        config, types = self.config, token_types
        if not (config.is_encoder_only or np.isin(tokens, config.eos_ids).any(axis=1).all()):
            ends = " or ".join(map(str, config.eos_ids))
            raise InputError(
                f"input_tokens: expected the end token {ends} in each row, whose state is read."
            )
        if types is not None:
            types = np.asarray(types)
            # JAX would silently clip a type beyond the table and look up another one.
            inside = types.shape == tokens.shape and types.dtype.kind in "iu"
            if not inside or not np.isin(types, range(self.config.num_token_types)).all():
                raise InputError(
                    f"token_types: expected integers below {self.config.num_token_types} of the "
                    f"tokens' shape {tokens.shape}, got {types.dtype} {types.shape}."
                )
            # Types are padded like the tokens.
            padding = self._pad_tokens(tokens).shape[1] - tokens.shape[1]
            types = np.pad(types.astype(np.int32), ((0, 0), (0, padding)))
        # Padding keys are masked, so a longer shape does not change the tokens' states.
        outputs: np.ndarray = self._run_compiled(
            _apply_method, self._pad_tokens(tokens), types, method=method
        )
        return outputs


def _check_head(has_head: Any, name: str, training: str) -> None:
    if not has_head:
        raise InputError(
            f"This model has no {name}; load a checkpoint that was fine-tuned {training}."
        )
