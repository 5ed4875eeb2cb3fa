"""Matrices of a model in 8 bits, and products with them.

Kernels and embeddings are stored as whole numbers from -127 to 127, with a float32 scale for each
column of a kernel and each row of an embedding: its largest absolute value over 127. A product
rounds its inputs in the same way, with a scale for each position, multiplies whole numbers, and
scales the sums. So results do not depend on which rows are computed together.

Reference: Dettmers 2022 (LLM.int8()), section 3.1 (vector-wise quantization).
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int8, Integer

from faith_jax.core.types import Array, PyTree
from faith_jax.models.partitioning import Partitioner

_LARGEST = 127  # -128 has no counterpart
# The axis of a matrix that shares a scale, by its name; stacked layers are an axis in front.
_SHARED = {"kernel": -2, "embedding": -1}
# Soft prompts are few, and trained.
_KEPT = ("encoder_prompt", "decoder_prompt")


class Int8Matrix(NamedTuple):
    """A matrix in 8 bits: `values` times `scale`.

    Attributes:
      values: from -127 to 127.
      scale: float32, with 1 for the axis that shares a scale.
    """

    values: Int8[Array, "*layers rows columns"]
    scale: Float[Array, "*layers _ _"]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrix."""
        return self.values.shape

    def to_float(self) -> Float[Array, "*layers rows columns"]:
        """Returns the matrix as float32."""
        return self.values.astype(jnp.float32) * self.scale

    def take(self, indices: Integer[Array, "*any"], axis: int) -> Array:
        """Returns some rows (axis 0) or columns (1) as float32; indices outside are clipped."""
        parts = []
        for part in self:
            # One scale for all rows, or columns, holds for those that are taken.
            shares = part.shape[axis] == 1
            parts.append(part if shares else jnp.take(part, indices, axis=axis, mode="clip"))
        return Int8Matrix(*parts).to_float()


def round_to_int8(matrix: Array, axis: int) -> Int8Matrix:
    """Rounds an array of floats, whose numbers along `axis` share a scale."""
    matrix = matrix.astype(jnp.float32)
    largest = jnp.max(jnp.abs(matrix), axis=axis, keepdims=True)
    # Zeros alone have a scale of 1, so that nothing is divided by 0.
    scale = jnp.where(largest > 0, largest, _LARGEST) / _LARGEST
    return Int8Matrix(jnp.round(matrix / scale).astype(jnp.int8), scale)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(
    inputs: Float[Array, "*batch width"], matrix: Int8Matrix, axis: int
) -> Float[Array, "*batch features"]:
    """Returns float32 products of inputs, rounded to 8 bits, with a matrix.

    The gradient of the inputs is that of a product without rounding, which would have none; the
    matrix has no gradient.

    Args:
      inputs: of any float dtype.
      matrix: a kernel [width, features], or an embedding [features, width].
      axis: of the matrix, that of the width: 0 of a kernel, 1 of an embedding.
    """
    # x_i ~ s_i a_i and w_j ~ t_j b_j, so x_i . w_j ~ s_i t_j (a_i . b_j), whose sum is exact.
    rounded = round_to_int8(inputs, -1)
    contracted = (((inputs.ndim - 1,), (axis,)), ((), ()))
    sums = jax.lax.dot_general(
        rounded.values, matrix.values, contracted, preferred_element_type=jnp.int32
    )
    # [..., 1] times [1, ..., features]
    scale = rounded.scale * matrix.scale.reshape((1,) * (inputs.ndim - 1) + (-1,))
    return sums.astype(jnp.float32) * scale


def _product_forward(inputs: Array, matrix: Int8Matrix, axis: int) -> tuple[Array, Any]:
    # Residuals are arrays: an empty one tells the dtype of the inputs.
    return product(inputs, matrix, axis), (matrix, jnp.zeros((0,), inputs.dtype))


def _product_backward(axis: int, residuals: Any, gradient: Array) -> tuple[Array, None]:
    matrix, like_inputs = residuals
    # dL/dx = dL/dy W^T, with the float form of W.
    contracted = (((gradient.ndim - 1,), (1 - axis,)), ((), ()))
    of_inputs = jax.lax.dot_general(gradient, matrix.to_float(), contracted)
    return of_inputs.astype(like_inputs.dtype), None


product.defvjp(_product_forward, _product_backward)


def quantize_params(params: PyTree, shardings: PyTree, partitioner: Partitioner) -> PyTree:
    """Puts parameters, in memory or lazy, on a mesh, matrices in 8 bits.

    Vectors, such as biases and norms, and soft prompts stay as they are. Each parameter is read
    when the one before it is in its place. Shardings are a tree of the same form, or one for all.
    """
    round_matrix = jax.jit(round_to_int8, static_argnums=1)

    def place(path: tuple[Any, ...], array: Any, sharding: Any) -> Any:
        names = [key.key for key in path]
        shared = _SHARED.get(names[-1])
        placed_array = partitioner.put(array, sharding)
        if shared is None or placed_array.ndim < 2 or names[0] in _KEPT:
            return placed_array
        # Waits, so that only one parameter at a time is on the devices in full.
        return jax.block_until_ready(round_matrix(placed_array, shared))

    if isinstance(shardings, jax.sharding.Sharding):
        shardings = jax.tree.map(lambda _: shardings, params)
    return jax.tree_util.tree_map_with_path(place, params, shardings)
