"""Model matrices in 8 bits, and products with them.

Kernels and embeddings are stored as integers from -127 to 127, with a float32 scale for each
column of a kernel and each row of an embedding: its largest absolute value divided by 127. A
product rounds its inputs in the same way, with a scale for each position, multiplies integers, and
scales the sums. Results therefore do not depend on which rows are computed together.

Reference: Dettmers 2022 (LLM.int8()), section 3.1 (vector-wise quantization).
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int8, Integer

from faith_jax.core.types import Array, PyTree
from faith_jax.models.partitioning import Partitioner

_LARGEST = 127  # -128 is not used, since +128 does not exist
# By parameter name, the axis along which a matrix shares a scale; stacked layers come before it.
_SHARED = {"kernel": -2, "embedding": -1}
# Soft prompts are small and trained, so they are not quantized.
_KEPT = ("encoder_prompt", "decoder_prompt")


class Int8Matrix(NamedTuple):
    """A matrix in 8 bits: `values` times `scale`.

    Attributes:
      values: integers from -127 to 127.
      scale: float32, of size 1 along the axis that shares a scale.
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
        """Returns some rows (axis 0) or columns (1) as float32; clips invalid indices."""
        parts = []
        for part in self:
            # A scale of size 1 along `axis` applies to all rows or columns.
            shares = part.shape[axis] == 1
            parts.append(part if shares else jnp.take(part, indices, axis=axis, mode="clip"))
        return Int8Matrix(*parts).to_float()


def round_to_int8(matrix: Array, axis: int) -> Int8Matrix:
    """Rounds an array of floats to 8 bits; the numbers along `axis` share a scale."""
    matrix = matrix.astype(jnp.float32)
    largest = jnp.max(jnp.abs(matrix), axis=axis, keepdims=True)
    # If all numbers are 0, the scale is 1, to avoid a division by 0.
    scale = jnp.where(largest > 0, largest, _LARGEST) / _LARGEST
    return Int8Matrix(jnp.round(matrix / scale).astype(jnp.int8), scale)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(
    inputs: Float[Array, "*batch width"], matrix: Int8Matrix, axis: int
) -> Float[Array, "*batch features"]:
    """Returns float32 products of inputs, rounded to 8 bits, with a matrix.

    The inputs' gradient ignores rounding, whose gradient would be 0; the matrix has no gradient.

    Args:
      inputs: of any float dtype.
      matrix: a kernel [width, features], or an embedding [features, width].
      axis: the matrix axis of the width: 0 for a kernel, 1 for an embedding.
    """
    # x_i ~ s_i a_i and w_j ~ t_j b_j, so x_i . w_j ~ s_i t_j (a_i . b_j); the integer sum is exact.
    rounded = round_to_int8(inputs, -1)
    contracted = (((inputs.ndim - 1,), (axis,)), ((), ()))
    sums = jax.lax.dot_general(
        rounded.values, matrix.values, contracted, preferred_element_type=jnp.int32
    )
    # [..., 1] times [1, ..., features]
    scale = rounded.scale * matrix.scale.reshape((1,) * (inputs.ndim - 1) + (-1,))
    return sums.astype(jnp.float32) * scale


def _product_forward(inputs: Array, matrix: Int8Matrix, axis: int) -> tuple[Array, Any]:
    # Residuals must be arrays: an empty one carries the inputs' dtype.
    return product(inputs, matrix, axis), (matrix, jnp.zeros((0,), inputs.dtype))


def _product_backward(axis: int, residuals: Any, gradient: Array) -> tuple[Array, None]:
    matrix, like_inputs = residuals
    # dL/dx = dL/dy W^T, with W as floats.
    contracted = (((gradient.ndim - 1,), (1 - axis,)), ((), ()))
    of_inputs = jax.lax.dot_general(gradient, matrix.to_float(), contracted)
    return of_inputs.astype(like_inputs.dtype), None


product.defvjp(_product_forward, _product_backward)


def quantize_params(params: PyTree, shardings: PyTree, partitioner: Partitioner) -> PyTree:
    """Puts parameters (in memory or lazy) on a mesh, with matrices in 8 bits.

    Vectors, such as biases and norms, and soft prompts are not quantized. Parameters are read one
    after another. `shardings` is a tree of the same form, or one sharding for all.
    """
    round_matrix = jax.jit(round_to_int8, static_argnums=1)

    def place(path: tuple[Any, ...], array: Any, sharding: Any) -> Any:
        names = [key.key for key in path]
        shared = _SHARED.get(names[-1])
        placed_array = partitioner.put(array, sharding)
        if shared is None or placed_array.ndim < 2 or names[0] in _KEPT:
            return placed_array
        # Wait, so that at most one parameter at a time is on the devices as floats.
        return jax.block_until_ready(round_matrix(placed_array, shared))

    if isinstance(shardings, jax.sharding.Sharding):
        shardings = jax.tree.map(lambda _: shardings, params)
    return jax.tree_util.tree_map_with_path(place, params, shardings)
