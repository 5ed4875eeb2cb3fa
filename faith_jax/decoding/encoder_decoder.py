"""Generation with encoder-decoder models: the step function and its filled caches."""

import jax
import jax.numpy as jnp
from jaxtyping import Integer, Key

from faith_jax.core.types import Array, PyTree, StepScores
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.pmi import pmi_decode
from faith_jax.decoding.search import decode
from faith_jax.decoding.steps import (
    DecodingResult,
    Prefilled,
    interleaved,
    model_scores,
    reorder_rows,
    repeat_rows,
    stack_rows,
)
from faith_jax.models.transformer import Inputs, Transformer


def prefill(
    module: Transformer,
    params: PyTree,
    encoder_input_tokens: Inputs,
    max_length: int,
    copies: int = 1,
) -> Prefilled:
    """Encodes the inputs once for `copies` rows of each example, which share their keys and values.

    Inputs are padded with the model's `pad_id`; DoHA's are a pair. At most `max_length` tokens can
    be decoded then.
    """
    caches = _read(module, params, encoder_input_tokens, max_length)
    return _started(module, params, encoder_input_tokens, caches, copies)


def _read(module: Transformer, params: PyTree, inputs: Inputs, max_length: int) -> PyTree:
    """Returns the collections `cache` and `encoder_cache` of a model that has read its inputs."""
    variables = {"params": params}
    encoded = module.apply(variables, inputs, None, False, method="encode")
    _, caches = module.apply(
        variables,
        encoded,
        inputs,
        max_length,
        method="start_decoding",
        mutable=["cache", "encoder_cache"],
    )
    return caches


def _started(
    module: Transformer, params: PyTree, inputs: Inputs, caches: PyTree, copies: int
) -> Prefilled:
    # Constant in the loop, so a closure holds it instead of the loop state.
    fixed = {"params": params, "encoder_cache": caches["encoder_cache"]}
    batch = jax.tree.leaves(inputs)[0].shape[0]

    def step(tokens: Array, cache: PyTree) -> tuple[StepScores, PyTree]:
        logits, updated = module.apply(
            fixed | {"cache": cache},
            inputs,
            tokens,
            method="decode_step",
            mutable=["cache"],
        )
        return model_scores(logits), updated["cache"]

    cache = repeat_rows(caches["cache"], batch, copies)
    first_tokens = jnp.full((batch * copies,), module.config.decoder_start_id, jnp.int32)
    return Prefilled(step, cache, first_tokens, reorder_rows)


def generate(
    module: Transformer,
    params: PyTree,
    encoder_input_tokens: Inputs,
    row_keys: Key[Array, "batch"],
    config: DecodingConfig,
) -> DecodingResult:
    """Decodes responses for each row of int [batch, encoder_length]; jit with static config.

    Raises:
      ConfigError: if `config.pmi` is set; PMI-Decode needs more inputs.
    """
    config.require("pmi", config.pmi is None, "None, or generate_pmi with both inputs")
    config = for_model(config, module)
    prefilled = prefill(module, params, encoder_input_tokens, config.max_length, config.copies)
    return decode(prefilled, row_keys, config)


def generate_pmi(
    module: Transformer,
    params: PyTree,
    encoder_input_tokens: Integer[Array, "batch length"],
    encoder_input_tokens_without_document: Integer[Array, "batch other_length"],
    row_keys: Key[Array, "batch"],
    config: DecodingConfig,
) -> DecodingResult:
    """Decodes responses with PMI-Decode; jit with static config.

    The encoder reads the two inputs of an example separately, because those without the document
    are shorter. Each step decodes both in one batch.

    Returns:
      The result, with log-probabilities given the document and the scores of PMI-Decode.

    Raises:
      ConfigError: if `config.pmi` is None.
    """
    pmi = config.pmi
    config.require("pmi", pmi is not None, "a PMIConfig for generate_pmi")
    assert pmi is not None
    config = for_model(config, module)
    both = (encoder_input_tokens, encoder_input_tokens_without_document)
    caches = stack_rows(*(_read(module, params, tokens, config.max_length) for tokens in both))
    inputs = _stack_padded(*both, module.config.pad_id)
    base = _started(module, params, inputs, caches, config.copies)
    return decode(pmi_decode(base, pmi, config.copies), row_keys, config)


def row_keys(seed: int, rows: Integer[Array, "batch"]) -> Key[Array, "batch"]:
    """Returns a random key for each example number [batch], independent of its batch."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.key(seed), rows)


def for_model(config: DecodingConfig, module: Transformer) -> DecodingConfig:
    """Replaces end and padding tokens that are None by the model's.

    Raises:
      ConfigError: if the config has tokens outside the model's vocabulary.
    """
    config.check_vocabulary(module.config.vocab_size)
    # -1 never occurs, so a model without end tokens decodes to the maximum length.
    return config.for_model(module.config.eos_ids or -1, module.config.pad_id)


def _stack_padded(first: Array, second: Array, pad_id: int) -> Array:
    """Pads two arrays [batch, any length] and joins their rows to int [2 * batch, length]."""
    length = max(first.shape[1], second.shape[1])
    first, second = (
        jnp.pad(x, ((0, 0), (0, length - x.shape[1])), constant_values=pad_id)
        for x in (first, second)
    )
    return interleaved(first, second)
