"""Token-to-token salience: how much each earlier token moves the logit of each response token.

For a response token y_t with the logit l_t, and an earlier token i with the embedding e_i, the map
has the dot product of the gradient of l_t with respect to e_i and e_i itself (gradient x input),
or the gradient's L2 norm. Earlier tokens are the encoder's inputs and the response tokens before
y_t, or, in a decoder-only model, all tokens before it. Soft prompts have no rows.

One forward pass serves all response tokens; their backward passes, one for each token of the
longest response, run several at a time, for all rows of a batch at once. Only the columns of the
response tokens go through the output layer.

Reference: Chang 2024, section 3.3 and appendix C.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from faith_jax.errors import ConfigError
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.transformer import Inputs, Transformer, output_layer
from faith_jax.types import Array, PyTree

METHODS = ("gradient_x_input", "gradient_l2")
# Backward passes that run together hold up to this many bytes of activations, by estimate.
MAX_BYTES = 512 * 2**20


class SalienceMaps(NamedTuple):
    """What each row's response tokens owe to earlier ones; signed for gradient x input.

    Attributes:
      encoder: float32 [batch, encoder_length, response_length]; a pair in DoHA; None in a
        decoder-only model.
      decoder: float32 [batch, decoder_length, response_length]: of the decoder's inputs. Column t
        is of the token that the decoder predicts at t; inputs behind t have 0.
    """

    encoder: Inputs | None
    decoder: Array


def salience_maps(
    module: Transformer,
    params: PyTree,
    encoder_input_tokens: Inputs | None,
    decoder_input_tokens: Array,
    decoder_target_tokens: Array,
    method: str = "gradient_x_input",
    max_bytes: int = MAX_BYTES,
) -> SalienceMaps:
    """Computes the maps of a batch; compiled once for each shape.

    Args:
      module: a model that can generate.
      params: its parameters.
      encoder_input_tokens: int [batch, encoder_length], padded; of DoHA a pair; None in a
        decoder-only model.
      decoder_input_tokens: int [batch, length], the targets shifted right, or a decoder-only
        model's tokens.
      decoder_target_tokens: int [batch, length], the token that each position predicts; columns of
        padding mean nothing.
      method: one of METHODS.
      max_bytes: bound of the memory for backward passes, by an estimate of what one takes.

    Raises:
      ConfigError: there is no such method.
    """
    if method not in METHODS:
        raise ConfigError(f"method: expected one of {', '.join(METHODS)}, got {method!r}.")
    together = _passes_together(
        module, encoder_input_tokens, jnp.asarray(decoder_input_tokens), max_bytes
    )
    return _maps(
        module,
        method,
        together,
        params,
        encoder_input_tokens,
        decoder_input_tokens,
        decoder_target_tokens,
    )


def _passes_together(
    module: Transformer, encoder_tokens: Inputs | None, decoder_tokens: Array, max_bytes: int
) -> int:
    """Returns how many backward passes fit the bound.

    A pass holds a few gradients of a layer's widest activations and attention weights at a time.
    """
    cfg = module.config
    batch, length = decoder_tokens.shape
    longest = max(tokens.shape[1] for tokens in (decoder_tokens, *jax.tree.leaves(encoder_tokens)))
    widest = max(cfg.mlp_dim * len(cfg.mlp_activations), cfg.num_heads * longest, cfg.emb_dim)
    one = 4 * 4 * batch * longest * widest
    return int(max(1, min(length, max_bytes // one)))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _maps(
    module: Transformer,
    method: str,
    together: int,
    params: PyTree,
    encoder_tokens: Inputs | None,
    decoder_tokens: Array,
    targets: Array,
) -> SalienceMaps:
    variables = {"params": params}

    def embed(tokens: Array) -> Any:
        return module.apply(variables, tokens, method=_embeddings)

    def encode(embeddings: Array, tokens: Array) -> Any:
        return module.apply(variables, embeddings, tokens, None, False, method="encode_embeddings")

    def logits(embeddings: Any) -> Array:
        encoder, decoder = embeddings
        encoded = jax.tree.map(encode, encoder, encoder_tokens)
        hidden: Any = module.apply(
            variables,
            decoder,
            encoded,
            encoder_tokens,
            enable_dropout=False,
            method="decode_embeddings",
        )
        return target_logits(output_layer(module, params), hidden, targets)

    embeddings = jax.tree.map(embed, (encoder_tokens, decoder_tokens))
    values, pull_back = jax.vjp(logits, embeddings)

    def columns(position: Array) -> Any:
        # Rows of a batch do not see each other: one pass serves the same position of all.
        chosen = jnp.zeros_like(values).at[:, position].set(1.0, mode="drop")
        (gradients,) = pull_back(chosen)
        return jax.tree.map(functools.partial(_salience, method), gradients, embeddings)

    length = targets.shape[1]
    positions = jnp.arange(length + -length % together).reshape(-1, together)
    found = jax.lax.map(jax.vmap(columns), positions)
    return SalienceMaps(*jax.tree.map(lambda x: _columns_last(x, length), found))


def target_logits(layer: OutputLayer, hidden: Array, targets: Array) -> Array:
    """Returns the logit of each position's target only.

    Args:
      layer: the output layer.
      hidden: [batch, length, embed].
      targets: int [batch, length].

    Returns:
      float32 [batch, length].
    """
    states = hidden.reshape(-1, 1, hidden.shape[-1])
    one = jax.vmap(layer.logits_of)(states, targets.reshape(-1, 1))
    return one.reshape(targets.shape)


def _embeddings(module: Transformer, tokens: Array) -> Array:
    return module.token_embedder(tokens)


def _salience(method: str, gradient: Array, embedding: Array) -> Array:
    """Returns float32 [batch, length] of gradients and embeddings [batch, length, embed]."""
    gradient = gradient.astype(jnp.float32)
    if method == "gradient_l2":
        return jnp.linalg.norm(gradient, axis=-1)
    return jnp.sum(gradient * embedding.astype(jnp.float32), axis=-1)


def _columns_last(found: Array, length: int) -> Array:
    """[passes, together, batch, inputs] -> [batch, inputs, length]."""
    columns = found.reshape(-1, *found.shape[2:])[:length]
    return jnp.moveaxis(columns, 0, -1)
