"""Generation with encoder-decoder models: the step function and its filled caches."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Integer, Key

from faith_jax.core.types import Array, PyTree, StepScores
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.pmi import pmi_decode
from faith_jax.decoding.search import decode
from faith_jax.decoding.steps import (
    DecodingResult,
    Prefilled,
    model_scores,
    reorder_rows,
    repeat_rows,
    stack_rows,
    take_back,
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
    return attach_memory(
        module, params, *read(module, params, [encoder_input_tokens], max_length, copies), copies
    )


def read(
    module: Transformer,
    params: PyTree,
    branches: Sequence[Inputs],
    max_length: int,
    copies: int = 1,
) -> tuple[PyTree, PyTree]:
    """Encodes the inputs of each branch, which may have other lengths.

    Returns:
      What decoding does not change: the encoder's tokens, -1 for padding, and keys and values of
      its outputs, each of all branches. And what it changes, the cache of all rows.
    """
    pad_id = module.config.pad_id

    def read_branch(inputs: Inputs) -> tuple[PyTree, PyTree]:
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
        # -1 marks padding whatever the branches' lengths; `attach_memory` puts the model's back.
        tokens = jax.tree.map(lambda x: jnp.where(x == pad_id, -1, x), inputs)
        memory = {"tokens": tokens, "encoder_cache": caches["encoder_cache"]}
        return memory, caches["cache"]

    memory, cache = functools.reduce(stack_rows, map(read_branch, branches))
    return memory, repeat_rows(cache, len(jax.tree.leaves(memory["tokens"])[0]), copies)


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
    # Constant in the loop, so a closure holds it instead of the loop state.
    fixed = {"params": params, "encoder_cache": memory["encoder_cache"]}
    inputs = jax.tree.map(lambda x: jnp.where(x < 0, module.config.pad_id, x), memory["tokens"])

    def step(tokens: Array, cache: PyTree) -> tuple[StepScores, PyTree]:
        logits, updated = module.apply(
            fixed | {"cache": cache},
            inputs,
            tokens,
            method="decode_step",
            mutable=["cache"],
        )
        return model_scores(logits), updated["cache"]

    tokens = jax.tree.leaves(memory["tokens"])
    batch = tokens[0].shape[0]
    # The loop feeds the start token, whose logits are those of the first response token.
    first_tokens = jnp.full((batch * copies,), module.config.decoder_start_id, jnp.int32)
    # Drafts may be copied from each of the inputs; DoHA has two.
    source = jnp.concatenate(tokens, axis=1)
    # Rows of the two branches alternate, and those with the document come first.
    source = jnp.repeat(source if pmi is None else source[::2], copies, axis=0)
    model = Prefilled(step, cache, first_tokens, reorder_rows, None, take_back, source)
    return model if pmi is None else pmi_decode(model, pmi, copies)


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
    return _generate(module, params, [encoder_input_tokens], row_keys, config)


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
    config.require("pmi", config.pmi is not None, "a PMIConfig for generate_pmi")
    branches = [encoder_input_tokens, encoder_input_tokens_without_document]
    return _generate(module, params, branches, row_keys, config)


def _generate(
    module: Transformer,
    params: PyTree,
    branches: Sequence[Inputs],
    row_keys: Array,
    config: DecodingConfig,
) -> DecodingResult:
    config = for_model(config, module)
    memory, cache = read(module, params, branches, config.cache_length, config.copies)
    return decode(
        attach_memory(module, params, memory, cache, config.copies, config.pmi), row_keys, config
    )


def row_keys(seed: int, rows: Integer[Array, "batch"]) -> Key[Array, "batch"]:
    """Returns a random key for each example number [batch], independent of its batch."""
    # By the number of the example, so that its batch does not matter.
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.key(seed), rows)


def for_model(config: DecodingConfig, module: Transformer) -> DecodingConfig:
    """Replaces end and padding tokens that are None by the model's.

    Raises:
      ConfigError: if the config has tokens outside the model's vocabulary.
    """
    config.check_vocabulary(module.config.vocab_size)
    # -1 never occurs, so a model without end tokens decodes to the maximum length.
    return config.for_model(module.config.eos_ids or -1, module.config.pad_id)
