"""Generation with decoder-only models: the step function and its filled caches.

The model reads all tokens of an input except the last at once. Their keys and values are stored
once for all beams or samples of an example. The loop feeds the last token first.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Integer, Key

from faith_jax.core.types import Array, PyTree, StepScores
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.encoder_decoder import for_model
from faith_jax.decoding.pmi import pmi_decode
from faith_jax.decoding.search import decode
from faith_jax.decoding.shared_prefixes import SharedInputs
from faith_jax.decoding.steps import (
    DecodingResult,
    Prefilled,
    model_scores,
    reorder_rows,
    repeat_rows,
    stack_rows,
    take_back,
)
from faith_jax.models.transformer import Transformer


def input_lengths(
    input_tokens: Integer[np.ndarray, "batch length"], pad_id: int
) -> Integer[np.ndarray, "batch"]:
    """Returns int32 [batch]: the length of each row without the padding at its end."""
    # Padding inside of a row is a token like others.
    real = np.asarray(input_tokens) != pad_id
    # The padding at the end: read backwards, the places before the first token.
    num_padding = np.argmax(real[:, ::-1], axis=1)
    return np.where(real.any(axis=1), real.shape[1] - num_padding, 0).astype(np.int32)


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
    branches = [(input_tokens, input_lengths)]
    return attach_memory(
        module, params, *read(module, params, branches, max_length, copies), copies
    )


def read(
    module: Transformer,
    params: PyTree,
    branches: Sequence[tuple[Array | SharedInputs, Array]],
    max_length: int,
    copies: int = 1,
) -> tuple[PyTree, PyTree]:
    """Reads the inputs of each branch, tokens and their lengths; the branches' may differ.

    What `SharedInputs` have in common is read once.

    Returns:
      What decoding does not change: the input tokens, -1 for padding, and keys and values of all
      but the last of them, each of all branches. And what it changes, the cache of all rows.
    """

    def read_branch(branch: tuple[Array | SharedInputs, Array]) -> tuple[PyTree, PyTree]:
        if isinstance(branch[0], SharedInputs):
            return _read_lines(module, params, branch[0], branch[1], max_length)
        tokens, lengths = map(jnp.asarray, branch)
        _, caches = module.apply(
            {"params": params},
            tokens,
            # The loop feeds the last token, whose logits are those of the response's first one.
            lengths - 1,
            max_length,
            method="prefill",
            mutable=["cache", "prefix_cache"],
        )
        memory = {"tokens": _mark_padding(tokens, lengths), "prefix_cache": caches["prefix_cache"]}
        return memory, caches["cache"]

    memory, cache = functools.reduce(stack_rows, map(read_branch, branches))
    return memory, repeat_rows(cache, len(memory["tokens"]), copies)


def _mark_padding(tokens: Array, lengths: Array) -> Array:
    """Returns tokens [batch, length] with -1 in place of padding."""
    # By lengths, since padding may be a token of the vocabulary.
    return jnp.where(jnp.arange(tokens.shape[1])[None] >= lengths[:, None], -1, tokens)


def _read_lines(
    module: Transformer, params: PyTree, inputs: SharedInputs, lengths: Array, max_length: int
) -> tuple[PyTree, PyTree]:
    """Reads lines and returns what `read` does of the rows in them."""
    _, caches = module.apply(
        {"params": params},
        *(inputs.line_tokens, inputs.segments, inputs.shared, inputs.positions),
        max_length,
        method="prefill_lines",
        mutable=["cache", "prefix_cache"],
    )
    size = inputs.line_tokens.shape[1]
    # Places among the tokens of all lines, one after the other.
    places = inputs.lines[:, None] * size + inputs.places

    def of_rows(path: Any, leaf: Array) -> Array:
        if getattr(path[-1], "key", None) == "valid":
            prompt = module.config.decoder_prompt_length
            # Again without the last token, which the loop feeds.
            return jnp.arange(places.shape[1])[None] < (prompt + lengths - 1)[:, None]
        by_token = jnp.swapaxes(leaf, -3, -2)  # [..., lines, length, heads, head_dim]
        # [..., lines * length, heads, head_dim]
        flat = by_token.reshape(*by_token.shape[:-4], -1, *by_token.shape[-2:])
        return jnp.swapaxes(jnp.take(flat, places, axis=-3), -3, -2)

    memory = {"tokens": _mark_padding(inputs.tokens, lengths)}
    memory["prefix_cache"] = jax.tree_util.tree_map_with_path(of_rows, caches["prefix_cache"])
    return memory, reorder_rows(caches["cache"], inputs.lines)


def attach_memory(
    module: Transformer,
    params: PyTree,
    memory: PyTree,
    cache: PyTree,
    copies: int = 1,
    pmi: PMIConfig | None = None,
) -> Prefilled:
    """Returns the model that has read inputs, from what `read` returns.

    With `pmi` there are two branches, the second one without the document.
    """
    fixed = {"params": params, "prefix_cache": memory["prefix_cache"]}

    def step(tokens: Array, cache: PyTree) -> tuple[StepScores, PyTree]:
        logits, updated = module.apply(
            fixed | {"cache": cache}, None, tokens, method="decode_step", mutable=["cache"]
        )
        return model_scores(logits), updated["cache"]

    # Each row moves to the right by its own padding, -1, so the last column has its last token.
    tokens = memory["tokens"]
    padding = jnp.sum(tokens < 0, axis=1)[:, None]
    place = jnp.arange(tokens.shape[1])[None] - padding
    moved = jnp.take_along_axis(tokens, jnp.maximum(place, 0), axis=1)
    prompts = jnp.where(place >= 0, moved, -1).astype(jnp.int32)
    first_tokens = jnp.repeat(prompts[:, -1], copies)
    # Rows of the two branches alternate, and those with the document come first.
    row_prompts = jnp.repeat(prompts if pmi is None else prompts[::2], copies, axis=0)
    model = Prefilled(step, cache, first_tokens, reorder_rows, row_prompts, take_back, row_prompts)
    return model if pmi is None else pmi_decode(model, pmi, copies)


def generate(
    module: Transformer,
    params: PyTree,
    input_tokens: Integer[Array, "batch length"] | SharedInputs,
    input_lengths: Integer[Array, "batch"],
    row_keys: Key[Array, "batch"],
    config: DecodingConfig,
) -> DecodingResult:
    """Decodes the continuation of each row of int [batch, length]; jit with static config.

    Raises:
      ConfigError: if `config.pmi` is set; PMI-Decode needs more inputs.
    """
    config.require("pmi", config.pmi is None, "None, or generate_pmi with both inputs")
    return _generate(module, params, [(input_tokens, input_lengths)], row_keys, config)


def generate_pmi(
    module: Transformer,
    params: PyTree,
    input_tokens: Integer[Array, "batch length"] | SharedInputs,
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
    config.require("pmi", config.pmi is not None, "a PMIConfig for generate_pmi")
    without_document = (input_tokens_without_document, input_lengths_without_document)
    branches = [(input_tokens, input_lengths), without_document]
    return _generate(module, params, branches, row_keys, config)


def _generate(
    module: Transformer,
    params: PyTree,
    branches: Sequence[tuple[Array | SharedInputs, Array]],
    row_keys: Array,
    config: DecodingConfig,
) -> DecodingResult:
    config = for_model(config, module)
    memory, cache = read(module, params, branches, config.cache_length, config.copies)
    return decode(
        attach_memory(module, params, memory, cache, config.copies, config.pmi), row_keys, config
    )
