"""The step function of encoder-decoder models, with their caches filled."""

import jax

from faith_jax.decoding.search import DecodingConfig, DecodingResult, decode
from faith_jax.models.transformer import Transformer
from faith_jax.types import Array, PyTree, StepFunction


def prefill(
    module: Transformer, params: PyTree, encoder_input_tokens: Array, max_length: int
) -> tuple[StepFunction, PyTree]:
    """Encodes the inputs once and returns the step function and its cache.

    Args:
      module: the model.
      params: its parameters.
      encoder_input_tokens: int [batch, encoder_length], 0 = padding.
      max_length: tokens that will be decoded at most.
    """
    variables = {"params": params}
    encoded = module.apply(variables, encoder_input_tokens, None, False, method="encode")
    _, caches = module.apply(
        variables,
        encoded,
        encoder_input_tokens,
        max_length,
        method="start_decoding",
        mutable=["cache", "encoder_cache"],
    )
    # Constant through the loop, so it is closed over rather than carried.
    fixed = variables | {"encoder_cache": caches["encoder_cache"]}

    def step(tokens: Array, cache: PyTree) -> tuple[Array, PyTree]:
        logits, updated = module.apply(
            fixed | {"cache": cache},
            encoder_input_tokens,
            tokens,
            method="decode_step",
            mutable=["cache"],
        )
        return logits, updated["cache"]

    return step, caches["cache"]


def generate(
    module: Transformer,
    params: PyTree,
    encoder_input_tokens: Array,
    row_keys: Array,
    config: DecodingConfig,
) -> DecodingResult:
    """Decodes a response for each row of int [batch, encoder_length]; jit with static config."""
    step, cache = prefill(module, params, encoder_input_tokens, config.max_length)
    return decode(step, cache, row_keys, config)


def row_keys(seed: int, rows: Array) -> Array:
    """Returns one random key for each example number [batch], whatever batch it is in."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.key(seed), rows)
