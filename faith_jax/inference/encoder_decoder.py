"""Encoder-decoder models with their parameters: T5, BART, and DoHA, whose input is a pair."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.errors import InputError
from faith_jax.core.types import Array, PyTree
from faith_jax.decoding.steps import DecodingResult
from faith_jax.inference.base import GenerativeModel, check_batch, hidden_states, next_logits
from faith_jax.models.chunked_logits import target_statistics
from faith_jax.models.transformer import Inputs, Transformer, output_layer


def shift_right(tokens: Array, start_id: int = 0) -> Array:
    """Returns the decoder's inputs [batch, length] for target tokens [batch, length]."""
    # Teacher forcing: at t, the decoder reads target t - 1.
    pad = np.pad if isinstance(tokens, np.ndarray) else jnp.pad  # np.pad needs no compilation
    return pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=start_id)


@functools.partial(jax.jit, static_argnums=0)
def _target_log_probs(module: Transformer, params: PyTree, inputs: Inputs, targets: Array) -> Array:
    config = module.config
    shifted = shift_right(targets, config.decoder_start_id)
    hidden = hidden_states(module, params, inputs, shifted)
    # State t is before target t and predicts it.
    log_prob = target_statistics(hidden, output_layer(module, params), targets).log_prob
    # Padding gets log-probability 0, so that a row's sum is the sum over its targets.
    return jnp.where(targets != config.pad_id, log_prob, 0.0)


class EncoderDecoderModel(GenerativeModel):
    """An encoder-decoder model with its parameters.

    DoHA's encoder inputs are a pair, for the cross-attention and for the knowledge attention, such
    as the context and the context with its knowledge. Padding, which is masked, marks where an
    input ends, so no method takes lengths.
    """

    def logits(self, encoder_input_tokens: Any, decoder_input_tokens: Any) -> np.ndarray:
        """Returns the logits of each next token, with teacher forcing.

        Args:
          encoder_input_tokens: int [batch, encoder_length], padded with `pad_id`.
          decoder_input_tokens: int [batch, decoder_length], starting with the start token (0 in
            T5).

        Returns:
          float32 [batch, decoder_length, vocab].

        Raises:
          InputError: on arrays of other ranks, dtypes, batch sizes, ids outside the vocabulary, or
            rows longer than the model's positions.
        """
        inputs, first = self._prepare_encoder_inputs(encoder_input_tokens)
        decoder_inputs = self._check_decoder_tokens("decoder_input_tokens", decoder_input_tokens)
        check_batch(("encoder", first), ("decoder", decoder_inputs))
        length = decoder_inputs.shape[1]
        batch = (inputs, self._pad_tokens(decoder_inputs))
        logits: np.ndarray = self._run_compiled(next_logits, *batch)
        # The causal mask hides padding on the right from all given tokens.
        return logits[:, :length]

    def target_log_probs(self, encoder_input_tokens: Any, decoder_target_tokens: Any) -> np.ndarray:
        """Returns the log-probability of each target, given the inputs and the targets before it.

        Args:
          encoder_input_tokens: int [batch, encoder_length], padded with `pad_id`.
          decoder_target_tokens: int [batch, decoder_length], padded, without a start token.

        Returns:
          float32 [batch, decoder_length], natural logarithms in (-inf, 0]; 0 at padding.

        Raises:
          InputError: as in `logits`.
        """
        inputs, first = self._prepare_encoder_inputs(encoder_input_tokens)
        targets = self._check_decoder_tokens("decoder_target_tokens", decoder_target_tokens)
        check_batch(("encoder", first), ("decoder", targets))
        length = targets.shape[1]
        batch = (inputs, self._pad_tokens(targets))
        log_probs: np.ndarray = self._run_compiled(_target_log_probs, *batch)
        return log_probs[:, :length]

    def generate(self, encoder_input_tokens: Any, **options: Any) -> np.ndarray:
        """Returns generated tokens, int32 [batch, max_length]; options are `decode`'s.

        A row that ends within `max_length` has an end token, and then `pad_id`s. The start token is
        not included.
        """
        return np.asarray(self.decode(encoder_input_tokens, **options).tokens)

    def decode(self, encoder_input_tokens: Any, *, seed: int = 0, **options: Any) -> DecodingResult:
        """Decodes a response to each row of inputs.

        Args:
          encoder_input_tokens: int [batch, encoder_length], padded with `pad_id`.
          seed: seed of the sampling; row i of a batch has the same randomness in any batch.
          **options: fields of `DecodingConfig`: max_length, temperature, top_k, top_p, num_beams …

        Returns:
          Tokens [batch, max_length], log-probabilities, lengths and scores [batch].

        Raises:
          InputError: as in `logits`.
          ConfigError: on an unknown option or seed, and on one out of its range.
        """
        config = self._build_decoding_config(options)
        inputs, _ = self._prepare_encoder_inputs(encoder_input_tokens)
        # `max_length` positions are fed: the start token, and all tokens but the last.
        self._check_decoder_length("max_length", config.max_length)
        return self._generate([inputs], seed, config)

    def decode_pmi(
        self,
        encoder_input_tokens: Any,
        encoder_input_tokens_without_document: Any,
        *,
        seed: int = 0,
        **options: Any,
    ) -> DecodingResult:
        """Decodes by PMI-Decode (Nandwani 2023, section 4.2).

        Arguments, results and errors are as in `decode`; the option `pmi` defaults to
        `PMIConfig()`. The inputs without the document are int [batch, any length].
        Log-probabilities are conditioned on the document.

        Raises:
          InputError: also on different numbers of rows, and for DoHA, which reads two inputs.
        """
        if self.config.knowledge_attention:
            raise InputError("PMI-Decode needs one encoder input; DoHA has two.")
        config = self._build_decoding_config(options, pmi=True)
        inputs, first = self._prepare_encoder_inputs(encoder_input_tokens)
        inputs_without, first_without = self._prepare_encoder_inputs(
            encoder_input_tokens_without_document
        )
        check_batch(("document's input", first), ("other one", first_without))
        self._check_decoder_length("max_length", config.max_length)
        return self._generate([inputs, inputs_without], seed, config)

    def _prepare_encoder_inputs(self, tokens: Any) -> tuple[Inputs, np.ndarray]:
        """Returns the encoder's checked and padded inputs, and the first of them."""
        name = "encoder_input_tokens"
        if not self.config.knowledge_attention:
            checked = self._check_tokens(name, tokens)
            self._check_positions(name, checked.shape[1], self.config.encoder_prompt_length)
            return self._pad_tokens(checked), checked
        if not isinstance(tokens, tuple) or len(tokens) != 2:
            raise InputError(f"{name}: expected a pair (context, context with knowledge).")
        pair = [self._check_tokens(name, part) for part in tokens]
        check_batch(("context", pair[0]), ("knowledge", pair[1]))
        for part in pair:
            self._check_positions(name, part.shape[1], self.config.encoder_prompt_length)
        # Pad each to its own length: the decoder attends to them separately.
        return (self._pad_tokens(pair[0]), self._pad_tokens(pair[1])), pair[0]

    def _check_decoder_tokens(self, name: str, tokens: Any) -> np.ndarray:
        checked = self._check_tokens(name, tokens)
        self._check_decoder_length(name, checked.shape[1])
        return checked

    def _check_decoder_length(self, name: str, length: int) -> None:
        self._check_positions(name, length, self.config.decoder_prompt_length)
