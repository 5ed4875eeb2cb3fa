"""Generation: a model reads its inputs, and a search decodes responses.

Keys and values of an input are stored once for all beams or samples of an example. In an
encoder-decoder, the loop first feeds the start token. A decoder-only model reads all tokens of an
input except the last at once, and the loop first feeds the last token.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Integer, Key

from faith_jax.core.types import Array, PyTree, StepScores
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.pmi import pmi_decode
from faith_jax.decoding.search import decode
from faith_jax.decoding.shared_prefixes import SharedInputs
from faith_jax.decoding.steps import (
    DecodingResult,
    Prefilled,
    copy_rows,
    join_branches,
    model_scores,
    reorder_rows,
    take_back,
)
from faith_jax.models.transformer import Inputs, Transformer

# The inputs of a batch. For a model with an encoder: tokens padded with the model's `pad_id`, or
# for DoHA a pair of such arrays. For a decoder-only model: tokens padded on the right, and the
# number of tokens in each row, at least one.
Branch = Inputs | tuple[Array | SharedInputs, Array]


def generate(
    module: Transformer,
    params: PyTree,
    branches: Sequence[Branch],
    row_keys: Key[Array, "batch"],
    config: DecodingConfig,
) -> DecodingResult:
    """Decodes a response to each row; jit with static module and config.

    Args:
      module: the model.
      params: the model's parameters.
      branches: the inputs; for PMI-Decode, also the inputs without the document. The branches are
        read separately, because the second is shorter, and decoded in one batch.
      row_keys: random keys for sampling.
      config: how tokens are selected.

    Returns:
      The result; with PMI-Decode, log-probabilities are conditional on the document.

    Raises:
      ConfigError: for tokens outside the vocabulary, or if `config.pmi` does not fit `branches`.
    """
    has_pmi = config.pmi is not None
    expected = "a PMIConfig for inputs without the document" if len(branches) > 1 else "None"
    config.require("pmi", has_pmi == (len(branches) > 1), expected)
    config = for_model(config, module)
    memory, cache = read(module, params, branches, config.cache_length, config.copies)
    model = attach_memory(module, params, memory, cache, config.copies, config.pmi)
    return decode(model, row_keys, config)


def read(
    module: Transformer,
    params: PyTree,
    branches: Sequence[Branch],
    max_length: int,
    copies: int = 1,
) -> tuple[PyTree, PyTree]:
    """Reads the inputs of each branch once for `copies` rows of each example.

    The common beginning of `SharedInputs` is read only once. The branches' lengths may differ.

    Returns:
      The memory, which decoding does not change: for all branches, the input tokens (-1 for
      padding), and keys and values of the encoder's outputs or of all input tokens but the last.
      And the cache of all rows, which decoding changes, for at most `max_length` tokens.
    """

    def read_branch(branch: Any) -> tuple[PyTree, PyTree]:
        if not module.config.is_decoder_only:
            return _encode(module, params, branch, max_length)
        tokens, lengths = branch
        if isinstance(tokens, SharedInputs):
            return _read_lines(module, params, tokens, lengths, max_length)
        tokens, lengths = map(jnp.asarray, branch)
        _, caches = module.apply(
            {"params": params},
            tokens,
            # The loop feeds the last token, whose logits are for the first response token.
            lengths - 1,
            max_length,
            method="prefill",
            mutable=["cache", "prefix_cache"],
        )
        memory = {"tokens": _mark_padding(tokens, lengths), "prefix_cache": caches["prefix_cache"]}
        return memory, caches["cache"]

    memory, cache = functools.reduce(join_branches, map(read_branch, branches))
    return memory, copy_rows(cache, len(jax.tree.leaves(memory["tokens"])[0]), copies)


def _encode(
    module: Transformer, params: PyTree, inputs: Inputs, max_length: int
) -> tuple[PyTree, PyTree]:
    variables = {"params": params}
    encoded = module.apply(variables, inputs, enable_dropout=False, method="encode")
    _, caches = module.apply(
        variables,
        encoded,
        inputs,
        max_length,
        method="start_decoding",
        mutable=["cache", "encoder_cache"],
    )
    tokens = jax.tree.map(lambda x: jnp.where(x == module.config.pad_id, -1, x), inputs)
    return {"tokens": tokens, "encoder_cache": caches["encoder_cache"]}, caches["cache"]


def _mark_padding(tokens: Array, lengths: Array) -> Array:
    """Returns tokens [batch, length] with -1 instead of padding."""
    # Determined by lengths, because the padding id may also be a regular token.
    return jnp.where(jnp.arange(tokens.shape[1])[None] >= lengths[:, None], -1, tokens)


def _read_lines(
    module: Transformer, params: PyTree, inputs: SharedInputs, lengths: Array, max_length: int
) -> tuple[PyTree, PyTree]:
    """Reads lines of shared inputs; returns memory and cache of their rows, like `read`."""
    _, caches = module.apply(
        {"params": params},
        inputs.line_tokens,
        inputs.segments,
        # All tokens see segment 1, the beginning of their line, and their own; 0 is padding.
        jnp.minimum(inputs.segments, 1),
        inputs.positions,
        max_length,
        method="prefill_lines",
        mutable=["cache", "prefix_cache"],
    )
    size = inputs.line_tokens.shape[1]
    # Indices into the concatenated tokens of all lines.
    places = inputs.lines[:, None] * size + inputs.places

    def of_rows(path: Any, leaf: Array) -> Array:
        if getattr(path[-1], "key", None) == "valid":
            prompt = module.config.decoder_prompt_length
            # As in `read`, without the last token, which the loop feeds.
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
    """Returns a model that has read its inputs, given the outputs of `read`.

    With `pmi`, there are two branches, the second one without the document.
    """
    config, tokens = module.config, memory["tokens"]
    # Constant in the loop, so a closure holds it instead of the loop state.
    fixed = {name: kept for name, kept in memory.items() if name != "tokens"} | {"params": params}

    def step(tokens: Array, cache: PyTree) -> tuple[StepScores, PyTree]:
        logits, updated = module.apply(
            fixed | {"cache": cache}, tokens, method="decode_step", mutable=["cache"]
        )
        return model_scores(logits), updated["cache"]

    if config.is_decoder_only:
        # Shift each row to the right by its padding (-1), so that its last token is at the end.
        padding = jnp.sum(tokens < 0, axis=1)[:, None]
        place = jnp.arange(tokens.shape[1])[None] - padding
        moved = jnp.take_along_axis(tokens, jnp.maximum(place, 0), axis=1)
        source = jnp.where(place >= 0, moved, -1).astype(jnp.int32)
        first_tokens = jnp.repeat(source[:, -1], copies)
    else:
        # Drafts may be copied from all inputs; DoHA has two.
        source = jnp.concatenate(jax.tree.leaves(tokens), axis=1)
        # The start token's logits are for the first response token.
        first_tokens = jnp.full((len(source) * copies,), config.decoder_start_id, jnp.int32)
    # Rows of the two branches alternate; the row with the document comes first.
    source = jnp.repeat(source if pmi is None else source[::2], copies, axis=0)
    prompt = source if config.is_decoder_only else None
    model = Prefilled(step, cache, first_tokens, reorder_rows, prompt, take_back, source)
    return model if pmi is None else pmi_decode(model, pmi, copies)


def row_keys(seed: int | Array, rows: Integer[Array, "batch"]) -> Key[Array, "batch"]:
    """Returns a random key for each example number [batch]."""
    # A key depends only on the seed and the example's number, not on its batch.
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.key(seed), rows)


def for_model(config: DecodingConfig, module: Transformer) -> DecodingConfig:
    """Replaces end and padding tokens that are None by the model's.

    Raises:
      ConfigError: if the config has tokens outside the model's vocabulary.
    """
    config.check_vocabulary(module.config.vocab_size)
    # -1 never occurs, so a model without end tokens decodes to the maximum length.
    return config.for_model(module.config.eos_ids or -1, module.config.pad_id)
