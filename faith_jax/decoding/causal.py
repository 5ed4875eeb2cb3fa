"""Generation with decoder-only models: the step function and its filled caches.

The model reads all tokens of an input except the last at once. Their keys and values are stored
once for all beams or samples of an example. The loop feeds the last token first.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Integer, Key

from faith_jax.core.types import Array, PyTree, StepScores
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.encoder_decoder import for_model
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
from faith_jax.models.transformer import Transformer


def input_lengths(
    input_tokens: Integer[np.ndarray, "batch length"], pad_id: int
) -> Integer[np.ndarray, "batch"]:
    """Returns int32 [batch]: the length of each row without the padding at its end."""
    real = np.asarray(input_tokens) != pad_id
    behind = np.argmax(real[:, ::-1], axis=1)
    return np.where(real.any(axis=1), real.shape[1] - behind, 0).astype(np.int32)


def prefill(
    module: Transformer,
    params: PyTree,
    input_tokens: Integer[Array, "batch length"],
    input_lengths: Integer[Array, "batch"],
    max_length: int,
    copies: int = 1,
) -> Prefilled:
    """Reads the inputs once for `copies` rows of each example, which share their keys and values.

    Inputs are padded on the right and have at least one token. At most `max_length` tokens can be
    decoded then.
    """
    lengths = jnp.asarray(input_lengths)
    last, caches = _read(module, params, input_tokens, lengths, max_length)
    prompt = jnp.repeat(_filled_in_front(input_tokens, lengths), copies, axis=0)
    return _started(module, params, last, caches, copies)._replace(prompt=prompt)


def _read(
    module: Transformer, params: PyTree, tokens: Array, lengths: Array, max_length: int
) -> tuple[Array, PyTree]:
    """Returns each row's last token, and the caches after the tokens before it."""
    last = jnp.take_along_axis(tokens, lengths[:, None] - 1, axis=1)[:, 0]
    _, caches = module.apply(
        {"params": params},
        tokens,
        lengths - 1,
        max_length,
        method="prefill",
        mutable=["cache", "prefix_cache"],
    )
    return last, caches


def _filled_in_front(tokens: Array, lengths: Array) -> Array:
    """Moves the padding of rows [batch, length] from the right to the left, as -1."""
    length = tokens.shape[1]
    place = jnp.arange(length)[None] - (length - lengths[:, None])
    moved = jnp.take_along_axis(tokens, jnp.maximum(place, 0), axis=1)
    return jnp.where(place >= 0, moved, -1).astype(jnp.int32)


def _started(
    module: Transformer, params: PyTree, last: Array, caches: PyTree, copies: int
) -> Prefilled:
    fixed = {"params": params, "prefix_cache": caches["prefix_cache"]}

    def step(tokens: Array, cache: PyTree) -> tuple[StepScores, PyTree]:
        logits, updated = module.apply(
            fixed | {"cache": cache}, None, tokens, method="decode_step", mutable=["cache"]
        )
        return model_scores(logits), updated["cache"]

    cache = repeat_rows(caches["cache"], len(last), copies)
    first_tokens = jnp.repeat(last, copies).astype(jnp.int32)
    return Prefilled(step, cache, first_tokens, jax.tree_util.Partial(reorder_rows))


def generate(
    module: Transformer,
    params: PyTree,
    input_tokens: Integer[Array, "batch length"],
    input_lengths: Integer[Array, "batch"],
    row_keys: Key[Array, "batch"],
    config: DecodingConfig,
) -> DecodingResult:
    """Decodes the continuation of each row of int [batch, length]; jit with static config.

    Raises:
      ConfigError: if `config.pmi` is set; PMI-Decode needs more inputs.
    """
    config.require("pmi", config.pmi is None, "None, or generate_pmi with both inputs")
    config = for_model(config, module)
    prefilled = prefill(
        module, params, input_tokens, input_lengths, config.max_length, config.copies
    )
    return decode(prefilled, row_keys, config)


def generate_pmi(
    module: Transformer,
    params: PyTree,
    input_tokens: Integer[Array, "batch length"],
    input_lengths: Integer[Array, "batch"],
    input_tokens_without_document: Integer[Array, "batch other_length"],
    input_lengths_without_document: Integer[Array, "batch"],
    row_keys: Key[Array, "batch"],
    config: DecodingConfig,
) -> DecodingResult:
    """Decodes with PMI-Decode; jit with static config.

    The two inputs of an example are read separately, because those without the document are
    shorter, and decoded in one batch.

    Returns:
      The result, with log-probabilities given the document and the scores of PMI-Decode.

    Raises:
      ConfigError: if `config.pmi` is None.
    """
    pmi = config.pmi
    config.require("pmi", pmi is not None, "a PMIConfig for generate_pmi")
    assert pmi is not None
    config = for_model(config, module)
    (first, caches), (second, caches_without_document) = (
        _read(module, params, tokens, jnp.asarray(lengths), config.max_length)
        for tokens, lengths in (
            (input_tokens, input_lengths),
            (input_tokens_without_document, input_lengths_without_document),
        )
    )
    last, both = interleaved(first, second), stack_rows(caches, caches_without_document)
    prompt = _filled_in_front(input_tokens, jnp.asarray(input_lengths))
    base = _started(module, params, last, both, config.copies)
    base = base._replace(prompt=jnp.repeat(prompt, config.copies, axis=0))
    return decode(pmi_decode(base, pmi, config.copies), row_keys, config)
