"""A tiny transformer, its parameters and token batches, for all tests of models."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer, parameter_shapes

VOCAB_SIZE = 50
TINY = TransformerConfig(
    vocab_size=VOCAB_SIZE,
    emb_dim=8,
    num_heads=2,
    num_encoder_layers=2,
    num_decoder_layers=2,
    head_dim=4,
    mlp_dim=16,
    mlp_activations=("gelu", "linear"),
    dropout_rate=0.1,
    relative_attention_num_buckets=8,
    relative_attention_max_distance=12,
)


@functools.cache
def model_and_params(config=TINY, seed=0):
    """Returns the module and parameters, drawn by NumPy to avoid compiling.

    Kernels have the spread that keeps activations near 1; norms and biases differ from their
    initial values.
    """
    module = Transformer(config)
    shapes = parameter_shapes(module)["params"]
    rng = np.random.default_rng(seed)

    def draw(path, leaf):
        noise = rng.normal(size=leaf.shape).astype(np.float32)
        match path[-1].key:
            case "kernel":
                return noise * np.float32(leaf.shape[-2] ** -0.5)
            case "scale":
                return 1 + np.float32(0.3) * noise
            case _:
                return noise

    return module, jax.tree_util.tree_map_with_path(draw, shapes)


def stack_layers(params):
    """Returns the parameters of `layers_0`, `layers_1` … stacked, as `scan_layers` has them."""
    stacked = {}
    for name, part in params.items():
        count = sum(key.startswith("layers_") for key in part)
        stacked[name] = {k: v for k, v in part.items() if not k.startswith("layers_")}
        if count:
            layers = [part[f"layers_{i}"] for i in range(count)]
            stacked[name]["layers"] = jax.tree.map(lambda *x: np.stack(x), *layers)
    return stacked


def rows(*lengths, width=None, seed=0):
    """Returns int32 [len(lengths), width] of random tokens from 2 on, padded with 0."""
    rng = np.random.default_rng(seed)
    tokens = np.zeros((len(lengths), width or max(lengths)), np.int32)
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = rng.integers(2, VOCAB_SIZE, length)
    return tokens


def shift_right(targets):
    """Returns the decoder's inputs for targets [batch, length]."""
    return np.pad(targets[:, :-1], ((0, 0), (1, 0)))


@functools.partial(jax.jit, static_argnums=0, static_argnames=("method", "enable_dropout"))
def apply(module, params, *arguments, method, **options):
    """Calls a method of the module without changing a collection."""
    return module.apply({"params": params}, *arguments, method=method, **options)


@functools.partial(jax.jit, static_argnums=0)
def logits(module, params, inputs, targets, decoder_inputs=None, segments=(None, None)):
    """Returns teacher-forced logits without dropout."""
    if decoder_inputs is None:
        decoder_inputs = jnp.pad(targets[:, :-1], ((0, 0), (1, 0)))
    return module.apply(
        {"params": params}, inputs, decoder_inputs, targets, *segments, enable_dropout=False
    )
