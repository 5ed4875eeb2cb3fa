"""Matrices of a model in 8 bits, by qwix, which an extra installs.

Kernels and embeddings are stored as whole numbers from -128 to 127, with a float32 scale for each
column of a kernel and each row of an embedding: its largest absolute value over 127.5. A layer
computes with the numbers times the scale: what changes is memory, and rounding.
"""

import functools
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Array, PyTree
from faith_jax.models.partitioning import Partitioner

# The axis of a matrix that shares a scale, by its name; stacked layers are an axis in front.
_SHARED = {"kernel": -2, "embedding": -1}
# Soft prompts are few, and trained.
_KEPT = ("encoder_prompt", "decoder_prompt")


def is_quantized(parameter: Any) -> bool:
    """Whether a parameter is stored in 8 bits."""
    return hasattr(parameter, "qvalue")


def dequantized(parameter: Any) -> Array:
    """Returns a parameter in 8 bits as float32."""
    matrix: Array = qwix().dequantize(parameter)
    return matrix


def quantized(params: PyTree, shardings: PyTree, partitioner: Partitioner) -> PyTree:
    """Puts parameters on a mesh, matrices in 8 bits.

    Vectors, such as biases and norms, and soft prompts stay as they are. Each parameter is read
    when the one before it is in its place.

    Args:
      params: of any dtype, in memory or lazy.
      shardings: a tree of the same form, or one for all.
      partitioner: of the mesh.

    Raises:
      ConfigError: qwix is not installed.
    """
    library = qwix()

    @functools.partial(jax.jit, static_argnums=1)
    def quantize(array: Array, shared: int) -> Any:
        # The other axes have a scale for each of their indices.
        axes = [axis for axis in range(array.ndim) if axis != shared % array.ndim]
        return library.quantize(array.astype(jnp.float32), jnp.int8, channelwise_axes=axes)

    def place(path: tuple[Any, ...], array: Any, sharding: Any) -> Any:
        names = [key.key for key in path]
        shared = _SHARED.get(names[-1])
        placed_array = partitioner.put(array, sharding)
        if shared is None or placed_array.ndim < 2 or names[0] in _KEPT:
            return placed_array
        # Waits, so that only one parameter at a time is on the devices in full.
        return jax.block_until_ready(quantize(placed_array, shared))

    if isinstance(shardings, jax.sharding.Sharding):
        shardings = jax.tree.map(lambda _: shardings, params)
    return jax.tree_util.tree_map_with_path(place, params, shardings)


def qwix() -> ModuleType:
    """Returns the library.

    Raises:
      ConfigError: it is not installed.
    """
    try:
        import qwix
    except ImportError:
        raise ConfigError(
            "PARAMS_DTYPE = 'int8' needs qwix: install the extra, pip install 'faith_jax[int8]', "
            "or '.[int8]' in a clone."
        ) from None
    return qwix
