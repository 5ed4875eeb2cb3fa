"""A model with its parameters: what a library user loads, scores and generates with.

```python
model = faith_jax.load_model("path/to/checkpoint")
log_probs = model.target_log_probs(encoder_input_tokens, decoder_target_tokens)
tokens = model.generate(encoder_input_tokens, max_length=64)
```

All tokens are integer arrays [batch, length] with 0 as padding. Inputs are padded to a few
lengths, so that batches of many lengths share few compilations; padding changes no result.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.decoding import encoder_decoder
from faith_jax.decoding.search import DecodingConfig, DecodingResult
from faith_jax.errors import InputError
from faith_jax.models.config import TransformerConfig
from faith_jax.models.importers.formats import open_checkpoint
from faith_jax.models.likelihood import target_statistics
from faith_jax.models.transformer import Transformer, output_layer
from faith_jax.types import Array, PyTree


def bucket_length(length: int, smallest: int = 16) -> int:
    """Returns the padded length: the smallest power of two, or 1.5 times one, that holds it."""
    bucket = smallest
    while bucket < length:
        if length <= bucket * 3 // 2:
            return bucket * 3 // 2
        bucket *= 2
    return bucket


def shift_right(tokens: Array, start_id: int = 0) -> Array:
    """Returns the decoder's inputs [batch, length] for target tokens [batch, length]."""
    return jnp.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=start_id)


@functools.partial(jax.jit, static_argnums=0)
def _logits(module: Transformer, params: PyTree, encoder_input: Array, decoder_input: Array):
    variables = {"params": params}
    encoded = module.apply(variables, encoder_input, None, False, method="encode")
    # Without targets no decoder position is padding: the logits of every prefix are right.
    hidden = module.apply(
        variables,
        encoded,
        encoder_input,
        decoder_input,
        enable_dropout=False,
        method="decode_hidden",
    )
    return module.apply(variables, hidden, method="logits")


@functools.partial(jax.jit, static_argnums=0)
def _target_log_probs(module: Transformer, params: PyTree, encoder_input: Array, targets: Array):
    variables = {"params": params}
    encoded = module.apply(variables, encoder_input, None, False, method="encode")
    hidden = module.apply(
        variables,
        encoded,
        encoder_input,
        shift_right(targets),
        enable_dropout=False,
        method="decode_hidden",
    )
    log_prob = target_statistics(hidden, output_layer(module, params), targets).log_prob
    return jnp.where(targets > 0, log_prob, 0.0)


_generate = jax.jit(encoder_decoder.generate, static_argnums=(0, 4))


class LanguageModel:
    """An encoder-decoder model with its parameters.

    Attributes:
      config: the model's dimensions and choices.
      module: the Flax module.
      params: its parameters, as JAX arrays.
    """

    def __init__(self, config: TransformerConfig, params: PyTree):
        self.config = config
        self.module = Transformer(config)
        self.params = jax.tree.map(jnp.asarray, params)

    def __repr__(self) -> str:
        c, size = self.config, sum(leaf.size for leaf in jax.tree.leaves(self.params))
        return (
            f"LanguageModel({size:,} parameters: {c.num_encoder_layers}+{c.num_decoder_layers} "
            f"layers, emb_dim {c.emb_dim}, vocab_size {c.vocab_size:,})"
        )

    def logits(self, encoder_input_tokens: Any, decoder_input_tokens: Any) -> np.ndarray:
        """Returns the logits of each next token, teacher-forced.

        Args:
          encoder_input_tokens: int [batch, encoder_length], 0 = padding.
          decoder_input_tokens: int [batch, decoder_length], starting with 0.

        Returns:
          float32 [batch, decoder_length, vocab].

        Raises:
          InputError: on arrays of other ranks, dtypes, batch sizes or ids outside the vocabulary.
        """
        inputs = self._tokens("encoder_input_tokens", encoder_input_tokens)
        decoder_inputs = self._tokens("decoder_input_tokens", decoder_input_tokens)
        self._check_batch(inputs, decoder_inputs)
        length = decoder_inputs.shape[1]
        logits = _logits(self.module, self.params, _padded(inputs), _padded(decoder_inputs))
        return np.asarray(logits[:, :length])

    def target_log_probs(self, encoder_input_tokens: Any, decoder_target_tokens: Any) -> np.ndarray:
        """Returns the log-probability of each target token, given the inputs and those before it.

        Args:
          encoder_input_tokens: int [batch, encoder_length], 0 = padding.
          decoder_target_tokens: int [batch, decoder_length], 0 = padding, without a start token.

        Returns:
          float32 [batch, decoder_length], natural logarithms in (-inf, 0]; 0 at padding.

        Raises:
          InputError: as `logits`.
        """
        inputs = self._tokens("encoder_input_tokens", encoder_input_tokens)
        targets = self._tokens("decoder_target_tokens", decoder_target_tokens)
        self._check_batch(inputs, targets)
        length = targets.shape[1]
        log_probs = _target_log_probs(self.module, self.params, _padded(inputs), _padded(targets))
        return np.asarray(log_probs[:, :length])

    def generate(self, encoder_input_tokens: Any, **options: Any) -> np.ndarray:
        """Returns generated tokens, int32 [batch, max_length]; options are `decode`'s.

        Rows end with the end token (1) where they end within `max_length`, and are padded with
        0. The start token is not among them.
        """
        return np.asarray(self.decode(encoder_input_tokens, **options).tokens)

    def decode(self, encoder_input_tokens: Any, *, seed: int = 0, **options: Any) -> DecodingResult:
        """Decodes a response to each row of inputs.

        Args:
          encoder_input_tokens: int [batch, encoder_length], 0 = padding.
          seed: of the sampling; row i of a batch has the same randomness in any batch.
          **options: fields of `DecodingConfig`: max_length, temperature, top_k, top_p, eos_id.

        Returns:
          Tokens [batch, max_length], log-probabilities [batch] and lengths [batch].

        Raises:
          InputError: as `logits`.
          ConfigError: on an option out of its range.
        """
        config = DecodingConfig(**options)
        inputs = self._tokens("encoder_input_tokens", encoder_input_tokens)
        keys = encoder_decoder.row_keys(seed, jnp.arange(inputs.shape[0]))
        return _generate(self.module, self.params, _padded(inputs), keys, config)

    def _tokens(self, name: str, tokens: Any) -> np.ndarray:
        try:
            tokens = np.asarray(tokens)
        except ValueError:
            raise InputError(
                f"{name}: expected an integer array [batch, length], got rows of different "
                "lengths; pad them with 0."
            ) from None
        if tokens.ndim != 2 or tokens.dtype.kind not in "iu" or 0 in tokens.shape:
            raise InputError(
                f"{name}: expected an integer array [batch, length], got "
                f"{tokens.dtype} {tokens.shape}."
            )
        outside = (tokens < 0) | (tokens >= self.config.vocab_size)
        if outside.any():
            row, position = np.argwhere(outside)[0]
            raise InputError(
                f"{name}: token {tokens[row, position]} at row {row}, position {position} is not "
                f"in the model's vocabulary of {self.config.vocab_size}."
            )
        return tokens.astype(np.int32)

    @staticmethod
    def _check_batch(inputs: np.ndarray, targets: np.ndarray) -> None:
        if inputs.shape[0] != targets.shape[0]:
            raise InputError(
                f"The encoder has {inputs.shape[0]} rows but the decoder {targets.shape[0]}."
            )


def _padded(tokens: np.ndarray) -> np.ndarray:
    padding = bucket_length(tokens.shape[1]) - tokens.shape[1]
    return np.pad(tokens, ((0, 0), (0, padding)))


def load_model(path: str, *, dtype: str | None = None, base: str | None = None) -> LanguageModel:
    """Opens a checkpoint of any known form.

    Args:
      path: a Hugging Face folder (config.json and safetensors), a T5X checkpoint (its dimensions
        are read from its parameter shapes), one of ours (an imported checkpoint, or the MODEL_DIR
        of a training run), or the name of an embedded model.
      dtype: "float32" or "bfloat16" activations; default: the checkpoint's.
      base: for a prompt-tuned checkpoint, where its base model is, if it has moved.

    Raises:
      CheckpointError: on a checkpoint that is missing, foreign, truncated or mis-shaped, naming
        the parameter.
    """
    checkpoint = open_checkpoint(path, base=base)
    config = checkpoint.config if dtype is None else checkpoint.config.replace(dtype=dtype)
    return LanguageModel(config, checkpoint.params)
