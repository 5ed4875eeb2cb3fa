"""Log-likelihoods of target tokens, without a [batch, length, vocab] array of logits.

Losses and scores need only three numbers per token from the logits, which are computed for one
piece of the length at a time. `summed_losses` computes a piece's gradients together with its loss,
so it computes logits only once; gradients through `target_statistics` compute them again.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Float, Integer

from faith_jax.core.types import Array, PyTree
from faith_jax.models.output_layer import OutputLayer

# Maximum bytes of float32 logits held at once. On CPUs, the lower limit makes a step 10% faster.
MAX_LOGITS_BYTES, MAX_LOGITS_BYTES_ON_CPU = 256 * 2**20, 64 * 2**20


class TargetStatistics(NamedTuple):
    """Statistics of each target token; all float32 [batch, length].

    The fields are the target's logit, the natural log of the sum of exp(logits) over the
    vocabulary, and the mean of the logits over the vocabulary, for label smoothing.
    """

    logit: Array
    log_z: Array
    mean_logit: Array

    @property
    def log_prob(self) -> Array:
        """Natural log-probability of each target, in (-inf, 0]."""
        return self.logit - self.log_z


def piece_length(length: int, vocab_size: int, max_logits_bytes: int, rows: int = 1) -> int:
    """Returns for how many of `length` positions the float32 logits fit, at least 1."""
    return max(1, min(length, max_logits_bytes // (4 * rows * vocab_size)))


def target_statistics(
    hidden: Float[Array, "batch length embed"],
    layer: OutputLayer,
    targets: Integer[Array, "batch length"],
    max_logits_bytes: int | None = None,
) -> TargetStatistics:
    """Returns the statistics of target tokens under the output layer.

    `max_logits_bytes` limits the memory of logits held at once, which are always at least those of
    one position; None = 64 MiB on a mesh of CPUs, otherwise 256 MiB.
    """
    length = targets.shape[1]
    split = _make_splitter(targets, layer.vocab_size, max_logits_bytes)
    if split is None:
        return _piece_statistics(layer, hidden, targets)

    statistics_of = functools.partial(_piece_statistics, layer)

    def body(_, inputs):
        # The gradient computes logits again; otherwise the scan would keep those of all pieces.
        return None, jax.checkpoint(statistics_of)(*inputs)

    _, statistics = jax.lax.scan(body, None, (split(hidden), split(targets)))
    return TargetStatistics(*(_join_pieces(x, length) for x in statistics))


def summed_losses(
    measure: Callable[[TargetStatistics, Array], dict[str, Array]],
    hidden: Float[Array, "batch length embed"],
    layer: OutputLayer,
    targets: Integer[Array, "batch length"],
    weights: Float[Array, "batch length"],
    max_logits_bytes: int | None = None,
) -> dict[str, Array]:
    """Returns sums over target tokens, computed by `measure` from their statistics and weights.

    Each piece's gradient of "loss" is computed together with its value, while its logits are in
    memory; the backward pass only scales it. The other sums and the weights have no gradient. If
    the output layer is frozen, only the gradient of `hidden` is computed.

    Args:
      measure: maps statistics and weights [batch, some length] to float32 scalars, one of them
        "loss". They must add up over pieces, and tokens of weight 0 must add nothing.
      hidden: the states before the output layer.
      layer: the output layer.
      targets: token ids.
      weights: the targets' weights.
      max_logits_bytes: as in `target_statistics`.
    """

    def sums_of(hidden: Array, arrays: PyTree, targets: Array, weights: Array):
        # The arrays are separate arguments, because gradients are taken with respect to them.
        placed = layer._replace(weights=arrays[0], bias=arrays[1])
        return measure(_piece_statistics(placed, hidden, targets), weights)

    def loss_of(*arguments: Any):
        sums = sums_of(*arguments)
        return sums["loss"], sums

    def over_pieces(function: Any, hidden: Array, arrays: PyTree, *rest: Array) -> Any:
        """Adds up the sums of `function` over pieces and joins its per-token outputs."""
        split = _make_splitter(targets, layer.vocab_size, max_logits_bytes)
        if split is None:
            return function(hidden, arrays, *rest)
        pieces = tuple(map(split, (hidden, *rest)))
        first = [x[0] for x in pieces]
        # The scan starts with zeros in the shapes of one piece's sums.
        shapes, _ = jax.eval_shape(function, first[0], arrays, *first[1:])

        def body(total: Any, piece: Any):
            summed, of_piece = function(piece[0], arrays, *piece[1:])
            # Sums and the layer's gradients add up; gradients of hidden states stay separate.
            return jax.tree.map(jnp.add, total, summed), of_piece

        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        total, of_pieces = jax.lax.scan(body, zeros, pieces)
        return total, jax.tree.map(lambda x: _join_pieces(x, hidden.shape[1]), of_pieces)

    @jax.custom_vjp
    def total(*arguments: Any) -> dict[str, Array]:
        return over_pieces(lambda *piece: (sums_of(*piece), ()), *arguments)[0]

    def forward(*arguments: Any):
        # With `symbolic_zeros`, JAX says which arguments are differentiated: a frozen layer is not.
        is_trained = any(leaf.perturbed for leaf in jax.tree.leaves(arguments[1]))
        values = jax.tree.map(lambda leaf: leaf.value, arguments)

        def with_gradients(*piece: Any):
            # Argument 0 is the hidden states; argument 1 is the layer's arrays.
            argument_numbers = (0, 1) if is_trained else (0,)
            gradients, sums = jax.grad(loss_of, argument_numbers, has_aux=True)(*piece)
            return (sums, gradients[1:]), gradients[0]

        (sums, of_layer), of_hidden = over_pieces(with_gradients, *values)
        return sums, (of_hidden, *of_layer)

    def backward(gradients: Any, cotangents: dict[str, Any]):
        factor = cotangents["loss"]
        # The loss was not used, and the other sums have no gradient.
        if isinstance(factor, SymbolicZero):
            return None, None, None, None
        # The loss is a scalar, so its gradient only has to be scaled.
        of_hidden, *of_layer = jax.tree.map(lambda x: (x * factor).astype(x.dtype), gradients)
        # Targets and weights have no gradient.
        return of_hidden, of_layer[0] if of_layer else None, None, None

    total.defvjp(forward, backward, symbolic_zeros=True)
    return total(hidden, (layer.weights, layer.bias), targets, weights)


def _make_splitter(
    targets: Array, vocab_size: int, max_logits_bytes: int | None
) -> Callable | None:
    """Returns the map [batch, length, ...] -> [pieces, batch, piece, ...]; None = one piece."""
    batch, length = targets.shape
    if max_logits_bytes is None:
        # Ask the mesh, because a program for TPUs may be traced on another machine.
        device = jax.sharding.get_abstract_mesh().abstract_device
        on_cpu = device is not None and device.device_kind == "cpu"
        max_logits_bytes = MAX_LOGITS_BYTES_ON_CPU if on_cpu else MAX_LOGITS_BYTES
    piece = piece_length(length, vocab_size, max_logits_bytes, batch)
    if piece == length:
        return None
    pieces = -(-length // piece)

    def split(x: Array) -> Array:
        widths = ((0, 0), (0, pieces * piece - length)) + ((0, 0),) * (x.ndim - 2)
        # The last piece is padded with zeros, including its weights, so padding adds nothing.
        x = jnp.pad(x, widths).reshape(batch, pieces, piece, *x.shape[2:])
        # A scan iterates over the first axis.
        return jnp.moveaxis(x, 1, 0)

    return split


def _join_pieces(pieces: Array, length: int) -> Array:
    """Joins [pieces, batch, piece, ...] to [batch, length, ...]; undoes `_make_splitter`."""
    joined = jnp.moveaxis(pieces, 0, 1)
    return joined.reshape(joined.shape[0], -1, *joined.shape[3:])[:, :length]


def _piece_statistics(layer: OutputLayer, hidden: Array, targets: Array) -> TargetStatistics:
    # [batch, piece, vocab], the only array of this size.
    logits = layer.logits(hidden)
    # A comparison instead of a gather, because its gradient is a select, not a scatter.
    is_target = jnp.arange(logits.shape[-1])[None, None] == targets[..., None]
    return TargetStatistics(
        logit=jnp.sum(jnp.where(is_target, logits, 0.0), axis=-1),
        log_z=jax.nn.logsumexp(logits, axis=-1),
        mean_logit=jnp.mean(logits, axis=-1),
    )
