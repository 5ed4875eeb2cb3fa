"""Decoder-only models and their parameters: GPT-2, DialoGPT, BLOOM, Gemma, Llama, Mistral, Qwen."""

import functools
import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Integer

from faith_jax.core.errors import InputError
from faith_jax.core.types import Array, PyTree
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.steps import DecodingResult
from faith_jax.inference.base import GenerativeModel, check_batch, hidden_states, next_logits
from faith_jax.models.chunked_logits import target_statistics
from faith_jax.models.transformer import Transformer, output_layer

logger = logging.getLogger("faith_jax")


@functools.partial(jax.jit, static_argnums=0)
def _next_log_probs(module: Transformer, params: PyTree, input_tokens: Array) -> Array:
    # State t predicts token t + 1; the last state predicts a token that is not given.
    hidden = hidden_states(module, params, None, input_tokens)[:, :-1]
    # Padding may be -1, which has no logit; values at padding are meaningless.
    targets = jnp.maximum(input_tokens[:, 1:], 0)
    # A few positions at a time: [batch, length, vocab] is never held at once.
    return target_statistics(hidden, output_layer(module, params), targets).log_prob


def _count_tokens(
    input_tokens: Integer[np.ndarray, "batch length"], pad_id: int
) -> Integer[np.ndarray, "batch"]:
    """Returns int32 [batch]: the length of each row without the padding at its end."""
    # A padding id inside a row counts as a token.
    real = np.asarray(input_tokens) != pad_id
    # Padding at the end: in the reversed row, the positions before the first token.
    num_padding = np.argmax(real[:, ::-1], axis=1)
    return np.where(real.any(axis=1), real.shape[1] - num_padding, 0).astype(np.int32)


class CausalModel(GenerativeModel):
    """A decoder-only model with its parameters."""

    def logits(self, input_tokens: Any) -> np.ndarray:
        """Returns the logits of the token after each position.

        Args:
          input_tokens: int [batch, length], padded on the right.

        Returns:
          float32 [batch, length, vocab]; logits at padding are meaningless.

        Raises:
          InputError: on arrays of other ranks or dtypes, ids outside the vocabulary, or rows
            longer than the model's positions.
        """
        tokens = self._check_input(input_tokens)
        logits: np.ndarray = self._run_compiled(next_logits, None, self._pad_tokens(tokens))
        # The causal mask hides padding on the right from all given tokens.
        return logits[:, : tokens.shape[1]]

    def next_log_probs(self, input_tokens: Any) -> np.ndarray:
        """Returns the log-probability of each token but the first, given the tokens before it.

        Args:
          input_tokens: int [batch, length], padded on the right.

        Returns:
          float32 [batch, length - 1], natural logarithms in (-inf, 0]: element t belongs to token
          t + 1. Values at padding are meaningless.

        Raises:
          InputError: as in `logits`.
        """
        tokens = self._check_input(input_tokens)
        log_probs: np.ndarray = self._run_compiled(_next_log_probs, self._pad_tokens(tokens))
        return log_probs[:, : tokens.shape[1] - 1]

    def generate(self, input_tokens: Any, **options: Any) -> np.ndarray:
        """Returns the tokens that follow, int32 [batch, max_length]; options are `decode`'s."""
        return np.asarray(self.decode(input_tokens, **options).tokens)

    def decode(
        self, input_tokens: Any, *, input_lengths: Any = None, seed: int = 0, **options: Any
    ) -> DecodingResult:
        """Decodes a continuation of each row of inputs.

        Args:
          input_tokens: int [batch, length], padded on the right.
          input_lengths: int [batch], the number of tokens of each row; default: all but the
            `pad_id`s at its end.
          seed: seed of the sampling; row i of a batch has the same randomness in any batch.
          **options: fields of `DecodingConfig`: max_length, temperature, num_beams …

        Returns:
          Tokens [batch, max_length] without the inputs, log-probabilities, lengths and scores.

        Raises:
          InputError: as in `logits`, and on rows without tokens.
          ConfigError: on an unknown option or seed, and on one out of its range.
        """
        config = self._build_decoding_config(options)
        prompts = self._pad_prompts("", input_tokens, input_lengths, config)
        return self._generate([prompts], seed, config)

    def decode_pmi(
        self,
        input_tokens: Any,
        input_tokens_without_document: Any,
        *,
        input_lengths: Any = None,
        input_lengths_without_document: Any = None,
        seed: int = 0,
        **options: Any,
    ) -> DecodingResult:
        """Decodes by PMI-Decode (Nandwani 2023, section 4.2).

        Arguments, results and errors are as in `decode`; the option `pmi` defaults to
        `PMIConfig()`. The inputs without the document are int [batch, any length].

        Raises:
          InputError: also if the two inputs have different numbers of rows.
        """
        config = self._build_decoding_config(options, pmi=True)
        prompts = self._pad_prompts("", input_tokens, input_lengths, config)
        # Padded to a length of its own, since inputs without the document are shorter.
        without = self._pad_prompts(
            "_without_document",
            input_tokens_without_document,
            input_lengths_without_document,
            config,
        )
        check_batch(("document's input", prompts[0]), ("other one", without[0]))
        return self._generate([prompts, without], seed, config)

    def _check_input(self, input_tokens: Any) -> np.ndarray:
        tokens = self._check_right_padding("input_tokens", input_tokens)
        self._check_positions("input_tokens", tokens.shape[1], self.config.decoder_prompt_length)
        return tokens

    def _check_right_padding(self, name: str, input_tokens: Any) -> np.ndarray:
        tokens = self._check_tokens(name, input_tokens)
        # A token after padding of -1 is a mistake; a padding id from the vocabulary may be meant.
        holes = (tokens[:, :-1] < 0) & (tokens[:, 1:] >= 0)
        if holes.any():
            row, position = np.argwhere(holes)[0]
            raise InputError(
                f"{name}: row {row} has a token behind the padding at position {position}; fill "
                "rows up on the right."
            )
        padded = (tokens[:, 0] == self.pad_id) & (tokens[:, -1] != self.pad_id)
        if padded.any():
            logger.warning(
                "%s: row %d begins with the padding token %d, which is read as text; pad rows on "
                "the right.",
                name,
                np.argmax(padded),
                self.pad_id,
            )
        return tokens

    def _pad_prompts(
        self, suffix: str, input_tokens: Any, input_lengths: Any, config: DecodingConfig
    ) -> tuple[np.ndarray, np.ndarray]:
        """Checks inputs and returns them padded, [batch, bucket], with their lengths, [batch].

        `suffix` is the end of the arguments' names, for errors.
        """
        name = f"input_tokens{suffix}"
        tokens = self._check_right_padding(name, input_tokens)
        if input_lengths is None:
            lengths = _count_tokens(tokens, self.pad_id)
        else:
            try:
                lengths = np.asarray(input_lengths)
            except ValueError:  # rows of different lengths
                lengths = np.asarray(None)
            is_int = lengths.dtype.kind in "iu"
            if not is_int or lengths.shape != tokens.shape[:1] or (lengths > tokens.shape[1]).any():
                raise InputError(
                    f"input_lengths{suffix}: expected [batch] = {tokens.shape[:1]} whole numbers "
                    f"of at most {tokens.shape[1]}, got {lengths.dtype} {lengths.shape}."
                )
            lengths = lengths.astype(np.int32)
        # Decoding starts by feeding each row's last token, so a row needs at least one.
        if (lengths < 1).any():
            row = int(np.argmax(lengths < 1))
            raise InputError(f"{name}: row {row} has no tokens; begin it with at least one.")
        # The last decoded token is not fed and needs no position.
        longest = int(lengths.max()) + config.max_length
        self._check_positions(name, longest - 1, self.config.decoder_prompt_length)
        return self._pad_tokens(tokens), lengths
