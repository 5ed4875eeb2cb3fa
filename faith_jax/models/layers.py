"""The transformer's layers: norm, projections, embedding, position bias, feed-forward.

Parameter names and logical axes are T5X's, so that its checkpoints load without renaming.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen import partitioning as nn_partitioning

from faith_jax.types import Array

Initializer = Callable[..., Array]

param_with_axes = nn_partitioning.param_with_axes
with_sharding_constraint = nn_partitioning.with_sharding_constraint

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: nn.gelu(x, approximate=True),
    "relu": nn.relu,
    "silu": nn.silu,
    "linear": lambda x: x,
}


@jax.custom_vjp
def project(inputs: Array, kernel: Array) -> Array:
    """Returns inputs [..., in] times kernel [in, out], with a gradient that is not transposed.

    JAX derives the kernel's gradient as [out, in] and then transposes it, which on CPU costs as
    much as the product itself. The rule here is the same product in the kernel's own order.
    """
    return jnp.dot(inputs, kernel)


def _project_forward(inputs: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return jnp.dot(inputs, kernel), (inputs, kernel)


def _project_backward(residuals: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    inputs, kernel = residuals
    rows = tuple(range(inputs.ndim - 1))
    to_inputs = jax.lax.dot_general(gradient, kernel, (((inputs.ndim - 1,), (1,)), ((), ())))
    to_kernel = jax.lax.dot_general(inputs, gradient, ((rows, rows), ((), ())))
    return to_inputs, to_kernel


project.defvjp(_project_forward, _project_backward)


class RMSNorm(nn.Module):
    """T5's layer norm: no mean is subtracted and no bias added. Computed in float32."""

    epsilon: float = 1e-6
    dtype: str = "float32"

    @nn.compact
    def __call__(self, inputs: Array) -> Array:
        """Normalises [..., embed] to root mean square 1 and scales it."""
        x = inputs.astype(jnp.float32)
        scale = param_with_axes(
            "scale", nn.initializers.ones, (x.shape[-1],), jnp.float32, axes=("embed",)
        )
        inverse = jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + self.epsilon)
        return (x * inverse).astype(self.dtype) * scale.astype(self.dtype)


class Projection(nn.Module):
    """A linear map of the last axis, without bias.

    Attributes:
      features: width of the output.
      axes: logical names of the kernel's two axes.
      dtype: of inputs, kernel and output in the product.
      kernel_init: initializer of the [inputs, features] kernel.
    """

    features: int
    axes: tuple[str, str]
    dtype: str = "float32"
    kernel_init: Initializer = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal")

    @nn.compact
    def __call__(self, inputs: Array) -> Array:
        """Maps [..., inputs] to [..., features]."""
        shape = (inputs.shape[-1], self.features)
        kernel = param_with_axes("kernel", self.kernel_init, shape, jnp.float32, axes=self.axes)
        return project(inputs.astype(self.dtype), kernel.astype(self.dtype))


class OutputKernel(nn.Module):
    """The kernel of the output layer, float32 [embed, vocab], for whoever projects with it.

    It stays in float32 under bfloat16 too, for stable log-probabilities.
    """

    emb_dim: int
    vocab_size: int

    def setup(self):
        self.kernel = param_with_axes(
            "kernel",
            nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal"),
            (self.emb_dim, self.vocab_size),
            jnp.float32,
            axes=("embed", "vocab"),
        )


class Embedding(nn.Module):
    """The token embedding, shared by encoder and decoder.

    Attributes:
      num_embeddings: rows, the vocabulary's size.
      features: width.
      dtype: of the looked-up vectors.
    """

    num_embeddings: int
    features: int
    dtype: str = "float32"

    def setup(self):
        self.embedding = param_with_axes(
            "embedding",
            nn.initializers.normal(stddev=1.0),
            (self.num_embeddings, self.features),
            jnp.float32,
            axes=("vocab", "embed"),
        )

    def __call__(self, tokens: Array) -> Array:
        """Looks up int [batch, length] and returns [batch, length, embed]."""
        tokens = tokens.astype(jnp.int32)  # T5X may initialise its models with float tokens.
        return jnp.take(self.embedding, tokens, axis=0, mode="clip").astype(self.dtype)


def relative_position_bucket(
    relative_position: Array, *, bidirectional: bool, num_buckets: int, max_distance: int
) -> Array:
    """Maps key position minus query position to T5's buckets.

    Half of the buckets hold one small distance each, the others grow logarithmically up to
    `max_distance`; beyond it all share the last one. A bidirectional map spends half of all
    buckets on keys after the query.

    Args:
      relative_position: int32 array of any shape.
      bidirectional: True in the encoder, False in the causal decoder.
      num_buckets: number of buckets.
      max_distance: see above.

    Returns:
      int32 in [0, num_buckets), of the same shape.

    Reference: Raffel 2020, section 2.1.
    """
    bucket = jnp.zeros_like(relative_position)
    distance = -relative_position
    if bidirectional:
        num_buckets //= 2
        bucket = jnp.where(distance < 0, num_buckets, 0)
        distance = jnp.abs(distance)
    else:
        distance = jnp.maximum(distance, 0)
    exact = num_buckets // 2
    # The small constant keeps log(0) out of the branch that is not taken.
    ratio = jnp.log(distance.astype(jnp.float32) / exact + jnp.finfo(jnp.float32).eps)
    coarse = exact + (ratio / jnp.log(max_distance / exact) * (num_buckets - exact)).astype(
        jnp.int32
    )
    coarse = jnp.minimum(coarse, num_buckets - 1)
    return bucket + jnp.where(distance < exact, distance, coarse)


class RelativePositionBias(nn.Module):
    """T5's learned bias of attention logits, by bucketed distance, for each head."""

    num_heads: int
    bidirectional: bool
    num_buckets: int = 32
    max_distance: int = 128
    dtype: str = "float32"

    @nn.compact
    def __call__(self, query_positions: Array, key_positions: Array) -> Array:
        """Returns the bias [1, heads, query_length, key_length] for int32 positions."""
        embedding = param_with_axes(
            "rel_embedding",
            nn.initializers.variance_scaling(1.0, "fan_avg", "uniform"),
            (self.num_heads, self.num_buckets),
            jnp.float32,
            axes=("heads", "relpos_buckets"),
        )
        buckets = relative_position_bucket(
            key_positions[None, :] - query_positions[:, None],
            bidirectional=self.bidirectional,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
        )
        return jnp.take(embedding, buckets, axis=1)[None].astype(self.dtype)


class FeedForward(nn.Module):
    """The feed-forward layer: the product of its activations, projected back.

    Attributes:
      mlp_dim: inner width.
      activations: one for each input kernel; ("gelu", "linear") is a gated GELU.
      kernel_names: parameter names of the input kernels.
      dropout_rate: of the inner activations, shared along the length.
      dtype: of activations.
    """

    mlp_dim: int
    activations: tuple[str, ...]
    kernel_names: tuple[str, ...]
    dropout_rate: float = 0.0
    dtype: str = "float32"

    @nn.compact
    def __call__(self, inputs: Array, *, deterministic: bool) -> Array:
        """Maps [batch, length, embed] to the same shape."""
        x = jnp.ones((), self.dtype)
        for activation, name in zip(self.activations, self.kernel_names, strict=True):
            project = Projection(self.mlp_dim, ("embed", "mlp"), self.dtype, name=name)
            x = x * _ACTIVATIONS[activation](project(inputs))
        x = nn.Dropout(self.dropout_rate, broadcast_dims=(-2,))(x, deterministic=deterministic)
        x = with_sharding_constraint(x, ("batch", "length", "mlp"))
        return Projection(inputs.shape[-1], ("mlp", "embed"), self.dtype, name="wo")(x)
