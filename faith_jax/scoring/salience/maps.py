"""Token-to-token salience: how much each earlier token moves the logit of each response token.

For a response token y_t with the logit l_t, and an earlier token i with the embedding e_i, the map
holds the dot product of e_i and the gradient of l_t with respect to e_i (gradient x input), or the
gradient's L2 norm. Earlier tokens are the encoder's inputs and the response tokens before y_t, or,
in a decoder-only model, all tokens before y_t. Soft prompts have no rows.

One forward pass serves all response tokens. There is one backward pass for each token of the
longest response, for all rows of a batch at once; several of them run together, each on its own
copy of the rows. Only the columns of the response tokens go through the output layer.

Reference: Chang 2024, section 3.3 and appendix C.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.types import Array, PyTree
from faith_jax.models.attention.masks import goes_by_blocks
from faith_jax.models.config import TransformerConfig
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.partitioning import Partitioner
from faith_jax.models.transformer import Inputs, Transformer, output_layer
from faith_jax.statistics.texts.salience_scores import check_choice

METHODS = ("gradient_x_input", "gradient_l2")
# Backward passes that run together may keep this many bytes of activations, by an estimate.
MAX_BYTES_ON_CPU, MAX_BYTES = 2**28, 2**32
# On a CPU, more tokens together are no faster, and each pass needs a copy of the forward pass.
TOKENS_ON_CPU = 768


class SalienceMaps(NamedTuple):
    """The salience of earlier tokens for each response token; signed for gradient x input.

    Attributes:
      encoder: float32 [batch, encoder_length, response_length]; a pair in DoHA; None in a
        decoder-only model.
      decoder: float32 [batch, decoder_length, response_length], the salience of the decoder's
        inputs. Column t is for the token that the decoder predicts at t; inputs after t have 0.
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
    max_bytes: int | None = None,
    positions: Array | None = None,
    num_columns: Array | np.int32 | None = None,
) -> SalienceMaps:
    """Computes the maps of a batch; compiled once for each shape.

    Args:
      module: a model that can generate.
      params: the model's parameters.
      encoder_input_tokens: int [batch, encoder_length], padded; a pair for DoHA; None for a
        decoder-only model.
      decoder_input_tokens: int [batch, length], the targets shifted right, or a decoder-only
        model's tokens.
      decoder_target_tokens: int [batch, length], the token that each position predicts; columns of
        padding mean nothing.
      method: one of METHODS.
      max_bytes: bound on the memory for activations, by an estimate. If not all passes fit, they
        run in turns, with at least one pass in each. Default: 256 MiB on a CPU, else 4 GiB. On a
        CPU at most TOKENS_ON_CPU tokens run together.
      positions: int [batch, columns], the decoder positions whose targets get a column, so that
        maps have `columns` instead of `response_length` columns; None = all.
      num_columns: the number of leading columns to compute, the same for all rows; later columns
        are meaningless and cost little. Changing it does not recompile. None = all.

    Raises:
      ConfigError: there is no such method.
    """
    check_choice("method", method, METHODS)
    targets = jnp.asarray(decoder_target_tokens)
    if positions is None:
        positions = jnp.broadcast_to(jnp.arange(targets.shape[1]), targets.shape)
    max_rows = None
    if jax.default_backend() == "cpu":
        read = (*jax.tree.leaves(encoder_input_tokens), targets)
        max_rows = TOKENS_ON_CPU // sum(tokens.shape[1] for tokens in read)
    return _compute_maps(
        module,
        method,
        _count_parallel_passes(
            module.config, encoder_input_tokens, positions, targets, max_bytes, max_rows
        ),
        params,
        encoder_input_tokens,
        decoder_input_tokens,
        targets,
        positions,
        np.int32(positions.shape[1]) if num_columns is None else num_columns,
    )


def maps_program(
    module: Transformer,
    partitioner: Partitioner,
    params: PyTree,
    encoder: Any,
    decoder: Any,
    positions: Any,
) -> tuple[Callable[[], Any], int]:
    """Returns a function that compiles the maps on an accelerator, as `salience_maps` calls it.

    The arrays are given by their shapes with shardings: the encoder's tokens (None = no encoder),
    the decoder's tokens, and the positions whose targets get a column. So are the parameters,
    unless they are loaded.

    Returns:
      The function, which returns JAX's program; and the number of turns of the program's loop.
    """
    together = _count_parallel_passes(module.config, encoder, positions, decoder, MAX_BYTES, None)
    count = jax.ShapeDtypeStruct((), jnp.int32)

    def compile_program() -> Any:
        arrays = (encoder, decoder, decoder, positions, count)
        with partitioner.active():
            return _compute_maps.lower(module, METHODS[0], together, params, *arrays).compile()

    return compile_program, -(-positions.shape[1] // together)


def _count_parallel_passes(
    config: TransformerConfig,
    encoder: Any,
    positions: Any,
    targets: Any,
    max_bytes: int | None,
    max_rows: int | None,
) -> int:
    """Returns how many backward passes of a batch run together, with at most `max_rows` rows."""
    inputs = tuple(tokens.shape[1] for tokens in jax.tree.leaves(encoder))
    rows = rows_in_bound(config, inputs, targets.shape[1], max_bytes)
    rows = rows if max_rows is None else min(rows, max_rows)
    return min(max(1, rows // targets.shape[0]), positions.shape[1])


def rows_in_bound(
    config: TransformerConfig, inputs: Sequence[int], length: int, max_bytes: int | None = None
) -> int:
    """Returns how many rows have activations within the bound, by an estimate; may be 0.

    `inputs` has the length of the encoder's input in tokens: two numbers for DoHA, empty for a
    decoder-only model. `length` is the length of the decoder's input.
    """
    if max_bytes is None:
        max_bytes = MAX_BYTES_ON_CPU if jax.default_backend() == "cpu" else MAX_BYTES
    row_floats = config.num_decoder_layers * _layer_floats(config, length, (length, *inputs))
    row_floats += sum(config.num_encoder_layers * _layer_floats(config, n, (n,)) for n in inputs)
    return max_bytes // (4 * row_floats)


def _layer_floats(config: TransformerConfig, length: int, keys: Sequence[int]) -> int:
    """Returns how many numbers a layer stores for a row; `keys` has the keys of each attention."""
    mlp = (2 * len(config.mlp_activations) + 1) * config.mlp_dim
    inner = config.num_heads * config.head_dim
    scores = sum(
        3 * config.num_heads * n
        for n in keys
        if not goes_by_blocks(config.attention_block_length, length, n)
    )
    attention = len(keys) * (4 * inner + 3 * config.emb_dim) + scores
    return length * (mlp + 3 * config.emb_dim + attention)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _compute_maps(
    module: Transformer,
    method: str,
    together: int,
    params: PyTree,
    encoder_tokens: Inputs | None,
    decoder_tokens: Array,
    targets: Array,
    positions: Array,
    num_columns: Array,
) -> SalienceMaps:
    variables = {"params": params}

    def embed(tokens: Inputs | None, method: Callable) -> Any:
        return jax.tree.map(lambda x: module.apply(variables, x, method=method), tokens)

    def encode(embeddings: Array, tokens: Array) -> Any:
        return module.apply(
            variables, tokens, enable_dropout=False, embeddings=embeddings, method="encode"
        )

    def logits(embeddings: Any) -> Array:
        encoder, decoder = embeddings
        encoded = jax.tree.map(encode, encoder, encoder_tokens)
        hidden: Any = module.apply(
            variables,
            encoded,
            encoder_tokens,
            None,
            enable_dropout=False,
            embeddings=decoder,
            method="decode_hidden",
        )
        hidden = jnp.take_along_axis(hidden, positions[:, :, None], axis=1)
        return target_logits(output_layer(module, params), hidden, target_ids)

    def repeat_rows(x: Array) -> Array:
        return jnp.repeat(x, together, axis=0)

    # Each row is repeated for each pass that runs at the same time. (Under jax.vmap the backward
    # pass would not need the copies, but jaxlib 0.10.2 then computes wrong norms on CPUs.)
    encoder_tokens, decoder_tokens, targets, positions = jax.tree.map(
        repeat_rows, (encoder_tokens, decoder_tokens, targets, positions)
    )
    target_ids = jnp.take_along_axis(targets, positions, axis=1)
    embeddings = (
        embed(encoder_tokens, lambda module, tokens: module.token_embedder(tokens)),
        embed(decoder_tokens, lambda module, tokens: module.decoder_embedder(tokens)),
    )
    values, pull_back = jax.vjp(logits, embeddings)
    rows, count = values.shape

    def columns(first: Array) -> Any:
        # Rows are independent, so one call can compute a different column for each copy.
        one_hot = jax.nn.one_hot(first + jnp.arange(rows) % together, count, dtype=values.dtype)
        (gradients,) = pull_back(one_hot)
        return jax.tree.map(functools.partial(_compute_salience, method), gradients, embeddings)

    def add(turn: Array, salience: Any) -> Any:
        return jax.tree.map(
            lambda all_, turn_salience: all_.at[turn].set(turn_salience),
            salience,
            columns(turn * together),
        )

    turns = -(-count // together)
    empty = jax.tree.map(lambda e: jnp.zeros((turns, *e.shape[:2]), jnp.float32), embeddings)
    salience = jax.lax.fori_loop(0, -(-num_columns // together), add, empty)
    return SalienceMaps(*jax.tree.map(lambda x: _columns_last(x, together, count), salience))


def target_logits(layer: OutputLayer, hidden: Array, targets: Array) -> Array:
    """Returns the logit of each position's target only: float32 [batch, length].

    Hidden states are [batch, length, embed], targets int [batch, length].
    """
    states = hidden.reshape(-1, 1, hidden.shape[-1])
    logits = jax.vmap(layer.logits_of)(states, targets.reshape(-1, 1))
    return logits.reshape(targets.shape)


def _compute_salience(method: str, gradient: Array, embedding: Array) -> Array:
    """Returns salience, float32 [batch, length]; both arguments are [batch, length, embed]."""
    gradient = gradient.astype(jnp.float32)
    if method == "gradient_l2":
        return jnp.linalg.norm(gradient, axis=-1)
    return jnp.sum(gradient * embedding.astype(jnp.float32), axis=-1)


def _columns_last(salience: Array, together: int, count: int) -> Array:
    """Rearranges [turns, batch * together, inputs] to [batch, inputs, columns]."""
    turns, rows, inputs = salience.shape
    columns = salience.reshape(turns, rows // together, together, inputs)
    columns = jnp.moveaxis(columns, (0, 2), (-2, -1))
    return columns.reshape(rows // together, inputs, -1)[..., :count]
