import jax
import numpy as np

from faith_jax.models.attention.multi_head import MultiHeadAttention
from faith_jax.models.config import TransformerConfig


def random_heads(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_self_attention_equals_attention_over_itself():
    module = MultiHeadAttention(TransformerConfig(9, num_heads=2, head_dim=3))
    x = np.random.default_rng(0).normal(size=(2, 4, 5)).astype(np.float32)
    shapes = {"query": (5, 6), "key": (5, 6), "value": (5, 6), "out": (6, 5)}
    kernels = {
        name: random_heads(i, *shape) * 0.4 for i, (name, shape) in enumerate(shapes.items())
    }
    params = {name: {"kernel": kernel} for name, kernel in kernels.items()}
    apply = jax.jit(lambda *x: module.apply({"params": params}, *x))
    output = apply(x)
    np.testing.assert_allclose(output, apply(x, x), rtol=1e-6)

    def heads(name):
        return (x @ kernels[name]).reshape(2, 4, 2, 3).transpose(0, 2, 1, 3)

    logits = heads("query") @ heads("key").swapaxes(-1, -2)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    joined = (weights @ heads("value")).transpose(0, 2, 1, 3).reshape(2, 4, 6)
    np.testing.assert_allclose(output, joined @ kernels["out"], rtol=1e-4, atol=1e-6)


def test_copies_of_an_example_attend_with_one_dropout_mask():
    config = TransformerConfig(9, num_heads=2, head_dim=3, dropout_rate=0.5)
    module = MultiHeadAttention(config)
    inputs, encoded = random_heads(0, 6, 4, 5), random_heads(1, 2, 7, 5)
    # Three copies of each of two examples; the masks of the second and third copy are not used.
    keep = np.random.default_rng(2).random((6, 2, 1, 7)) < 0.5
    params = jax.jit(module.init)(jax.random.key(0), inputs, encoded)
    apply = jax.jit(lambda x, y, draw: module.apply(params, x, y, dropout_draw=draw))
    expected = apply(inputs, encoded.repeat(3, axis=0), keep[::3].repeat(3, axis=0))
    np.testing.assert_allclose(apply(inputs, encoded, keep), expected, atol=1e-6)


def test_projections_have_biases_where_asked():
    module = MultiHeadAttention(
        TransformerConfig(
            9, num_heads=2, head_dim=3, num_kv_heads=1, attention_bias=True, attention_scale=0.5
        )
    )
    x = random_heads(0, 2, 4, 5)
    shapes = jax.eval_shape(lambda: module.init(jax.random.key(0), x))["params"]
    param_shapes = jax.tree.map(lambda leaf: leaf.shape, shapes)
    assert param_shapes == {
        "query": {"kernel": (5, 6), "bias": (6,)},
        "key": {"kernel": (5, 3), "bias": (3,)},
        "value": {"kernel": (5, 3), "bias": (3,)},
        "out": {"kernel": (6, 5), "bias": (5,)},
    }
