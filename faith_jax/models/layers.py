"""The transformer's layers: norms, projections, embedding, feed-forward.

Parameter names and logical axes are T5X's, so its checkpoints load without renaming.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen import partitioning as nn_partitioning

from faith_jax.core.types import Array
from faith_jax.models.config import TransformerConfig
from faith_jax.models.dropout import draw_mask, drop
from faith_jax.models.partitioning import SLICE_AXIS, with_sharding_constraint
from faith_jax.models.quantization import Int8Matrix, product

Initializer = Callable[..., Array]

# At most this many tokens of a row are read in a step of decoding, also with speculation.
_FEW_TOKENS = 16


def param_with_axes(
    name: str,
    init: Initializer,
    shape: tuple[int, ...],
    axes: tuple[str, ...],
    module: nn.Module | None = None,
) -> Array:
    """Returns a float32 parameter with logical axes; `module` defaults to the one being called.

    The initializer is compiled separately and shared by all parameters of this shape, because XLA
    takes a tenth of a second or more to compile each matrix of random numbers.
    """
    param: Array = nn_partitioning.param_with_axes(
        name, _compile_initializer(init), shape, jnp.float32, axes=axes, module=module
    )
    return param


@functools.lru_cache(maxsize=64)
def _compile_initializer(init: Initializer) -> Initializer:
    return jax.jit(init, static_argnums=(1, 2))  # the shape, the dtype


fan_in_normal = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
fan_in_truncated_normal = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal")
fan_avg_uniform = nn.initializers.variance_scaling(1.0, "fan_avg", "uniform")
# Cached, because `_compile_initializer` would compile a new function again for each layer.
normal = functools.cache(nn.initializers.normal)


def _matrix_with_axes(
    name: str, init: Initializer, shape: tuple[int, int], axes: tuple[str, str], module: nn.Module
) -> Array | Int8Matrix:
    """Returns a module's matrix, in float32 or 8 bits (`models.quantization`)."""
    if module.has_variable("params", name):
        stored: Any = module.get_variable("params", name)
        if isinstance(stored, Int8Matrix):
            return stored._replace(values=_gather_on_slices(stored.values, axes))
    return _gather_on_slices(param_with_axes(name, init, shape, axes, module), axes)


def _gather_on_slices(matrix: Array, axes: tuple[str, str]) -> Array:
    """Gathers a matrix whose width is split over "data", if the devices form several slices.

    Without this, XLA (JAX 0.10.2 and 0.12) swaps the rows of slices in a product of few tokens, if
    the states are split by width too; see tests/training/mesh_driver.py.
    """
    if SLICE_AXIS not in jax.sharding.get_abstract_mesh().axis_names:
        return matrix
    gathered = tuple(None if axis == "embed" else axis for axis in axes)
    return with_sharding_constraint(matrix, gathered)


ACTIVATION_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    # The tanh approximation (GPT-2, Gemma, T5 1.1), and the exact error function (BERT, BART).
    "gelu": lambda x: nn.gelu(x, approximate=True),
    "gelu_exact": lambda x: nn.gelu(x, approximate=False),
    "relu": nn.relu,
    "silu": nn.silu,
    "tanh": jnp.tanh,
    "linear": lambda x: x,
}


@jax.custom_vjp
def project(inputs: Array, kernel: Array) -> Array:
    """Returns inputs [..., in] times kernel [in, out], with a gradient that needs no transpose.

    JAX computes the kernel's gradient as [out, in] and then transposes it, which takes as long as
    the product itself on CPU. This rule computes the gradient directly in the kernel's own order.
    """
    return jnp.dot(inputs, kernel)


def _project_forward(inputs: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return jnp.dot(inputs, kernel), (inputs, kernel)


def _project_backward(residuals: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    inputs, kernel = residuals
    # All axes except the features.
    rows = tuple(range(inputs.ndim - 1))
    # dL/dinputs = dL/doutputs kernel^T; dL/dkernel = inputs^T dL/doutputs, over all rows.
    to_inputs = jax.lax.dot_general(gradient, kernel, (((inputs.ndim - 1,), (1,)), ((), ())))
    # [in, out], the kernel's own memory layout.
    to_kernel = jax.lax.dot_general(inputs, gradient, ((rows, rows), ((), ())))
    return to_inputs, to_kernel


project.defvjp(_project_forward, _project_backward)


def expand_rank(vector: Array, inputs: Array) -> Array:
    """Reshapes a vector [embed] to [1, …, embed], with the rank of inputs [..., embed]."""
    return jax.lax.expand_dims(vector, range(inputs.ndim - 1))


def _recompute_in_backward(function: Callable[..., Array]) -> Callable[..., Array]:
    """Returns a function of arrays that keeps only its arguments for the backward pass.

    Intermediate arrays are computed again. For elementwise functions this costs next to nothing,
    while keeping several arrays for each output would fill the memory of a training step wherever
    the compiler cannot see all layers at once.
    """
    return jax.checkpoint(function)


class RMSNorm(nn.Module):
    """T5's layer norm, without mean and bias, computed in float32.

    Attributes:
      epsilon: added to the mean square.
      dtype: dtype of the output.
      offset: added to the scale, which then multiplies in float32 (Gemma stores scale - 1).
      axis: the logical name of the scale's axis.
    """

    epsilon: float = 1e-6
    dtype: str = "float32"
    offset: float = 0.0
    axis: str = "embed"

    @nn.compact
    def __call__(self, inputs: Array) -> Array:
        """Normalises [..., embed] to root mean square 1 and scales it."""
        scale = param_with_axes("scale", nn.initializers.ones, inputs.shape[-1:], (self.axis,))

        @_recompute_in_backward
        def normalise(inputs: Array, scale: Array) -> Array:
            # In bfloat16 the mean of many squares would be coarse, and so would every output.
            x = inputs.astype(jnp.float32)
            inverse = jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + self.epsilon)
            # Gemma scales before rounding to the dtype, T5 after rounding.
            if self.offset:
                return (x * inverse * (expand_rank(scale, x) + self.offset)).astype(self.dtype)
            return (x * inverse).astype(self.dtype) * expand_rank(scale, x).astype(self.dtype)

        return normalise(inputs, scale)


class LayerNorm(nn.Module):
    """The layer norm with mean, variance, scale and optionally a bias, computed in float32."""

    epsilon: float = 1e-5
    dtype: str = "float32"
    use_bias: bool = True

    @nn.compact
    def __call__(self, inputs: Array) -> Array:
        """Normalises [..., embed] to mean 0 and variance 1, scales it and adds a bias."""
        scale = param_with_axes("scale", nn.initializers.ones, inputs.shape[-1:], ("embed",))
        bias = None
        if self.use_bias:
            bias = param_with_axes("bias", nn.initializers.zeros, inputs.shape[-1:], ("embed",))

        @_recompute_in_backward
        def normalise(inputs: Array, scale: Array, bias: Array | None) -> Array:
            # scale (x - mean) / sqrt(variance + epsilon) + bias
            x = inputs.astype(jnp.float32)
            # Subtract the mean before squaring: mean(x^2) - mean(x)^2 would cancel if it is large.
            x -= jnp.mean(x, axis=-1, keepdims=True)
            inverse = jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + self.epsilon)
            x = x * inverse * expand_rank(scale, x)
            return (x if bias is None else x + expand_rank(bias, x)).astype(self.dtype)

        return normalise(inputs, scale, bias)


class Projection(nn.Module):
    """A linear map of the last axis; `axes` are the logical names of the kernel's axes.

    Inputs and the kernel [inputs, features] are cast to `dtype`, which the output has too.
    """

    features: int
    axes: tuple[str, str]
    dtype: str = "float32"
    kernel_init: Initializer = fan_in_truncated_normal
    use_bias: bool = False

    @nn.compact
    def __call__(self, inputs: Array) -> Array:
        """Maps [..., inputs] to [..., features]."""
        shape = (inputs.shape[-1], self.features)
        kernel = _matrix_with_axes("kernel", self.kernel_init, shape, self.axes, self)
        if isinstance(kernel, Int8Matrix):
            outputs = product(inputs, kernel, 0).astype(self.dtype)
        else:
            # Parameters are kept in float32, and cast for the product.
            outputs = project(inputs.astype(self.dtype), kernel.astype(self.dtype))
        if not self.use_bias:
            return outputs
        bias = param_with_axes("bias", nn.initializers.zeros, (self.features,), self.axes[1:])
        return outputs + expand_rank(bias, outputs).astype(self.dtype)


class OutputKernel(nn.Module):
    """The kernel of the output layer [embed, vocab], in float32 or 8 bits.

    It is not bfloat16 even if activations are, for stable log-probabilities.
    """

    emb_dim: int
    vocab_size: int

    def setup(self):
        self.kernel = _matrix_with_axes(
            "kernel",
            fan_in_truncated_normal,
            (self.emb_dim, self.vocab_size),
            ("embed", "vocab"),
            self,
        )


def dropout(rate: float, broadcast: bool) -> nn.Dropout:
    """Returns a dropout of features; `broadcast` uses the same mask for all positions."""
    # Axis -2 has the positions.
    return nn.Dropout(rate, broadcast_dims=(-2,) if broadcast else ())


class Embedding(nn.Module):
    """An embedding of tokens (shared by encoder and decoder), positions or token types.

    `axis` is the logical name of the row axis; `stddev` is that of the initial values.
    """

    num_embeddings: int
    features: int
    dtype: str = "float32"
    axis: str = "vocab"
    stddev: float = 1.0

    def setup(self):
        self.embedding = _matrix_with_axes(
            "embedding",
            normal(self.stddev),
            (self.num_embeddings, self.features),
            (self.axis, "embed"),
            self,
        )

    def __call__(self, tokens: Array) -> Array:
        """Looks up the embeddings [batch, length, embed] of int tokens [batch, length]."""
        tokens = tokens.astype(jnp.int32)  # T5X may initialise its models with float tokens.
        # Ids outside the table, such as a padding id of -1, are clipped.
        if isinstance(self.embedding, Int8Matrix):
            return self.embedding.take(tokens, 0).astype(self.dtype)
        return jnp.take(self.embedding, tokens, axis=0, mode="clip").astype(self.dtype)


def separate_inputs(x: Array, count: int) -> tuple[Array, ...]:
    """Returns states [rows, length, embed] for each of several products with them.

    XLA for GPUs makes one product of several with the same states, and so concatenates their
    kernels. In a loop of decoding it does so in every step: a quarter of the bytes that a step of
    T5 XXL moves. Barriers between the states prevent this where rows have few tokens.
    """
    if x.shape[-2] > _FEW_TOKENS:
        return (x,) * count
    separated: tuple[Array, ...] = jax.lax.optimization_barrier((x,) * count)
    return separated


class FeedForward(nn.Module):
    """The feed-forward layer: the product of its activations, projected back."""

    config: TransformerConfig

    @nn.compact
    def __call__(self, inputs: Array, dropout_draw: Array | None = None) -> Array:
        """Maps [batch, length, embed] to the same shape; `dropout_draw` is of the activations."""
        cfg = self.config

        def projection(width: int, axes: tuple[str, str], name: str) -> Projection:
            return Projection(width, axes, cfg.dtype, use_bias=cfg.mlp_bias, name=name)

        names = cfg.mlp_kernels
        projected = [
            projection(cfg.mlp_dim, ("embed", "mlp"), name)(x)
            for name, x in zip(names, separate_inputs(inputs, len(names)), strict=True)
        ]

        rate = cfg.activations_dropout

        # With one activation the layer is plain; with two it is gated, and their outputs are
        # multiplied: ("gelu", "linear") computes gelu(x W_0) (x W_1).
        @_recompute_in_backward
        def activate(keep: Array | None, *projected: Array) -> Array:
            functions = [ACTIVATION_FUNCTIONS[name] for name in cfg.mlp_activations]
            parts = [function(part) for function, part in zip(functions, projected, strict=True)]
            return drop(math.prod(parts[1:], start=parts[0]), rate, keep)

        x = activate(draw_mask(dropout_draw, projected[0].shape, rate), *projected)
        # Split over "model" between the two products, so that devices only exchange the sums of the
        # second one.
        x = with_sharding_constraint(x, ("batch", "length", "mlp"))
        return projection(inputs.shape[-1], ("mlp", "embed"), "wo")(x)
