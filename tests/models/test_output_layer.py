import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.models.output_layer import OutputLayer

RNG = np.random.default_rng(0)
HIDDEN = RNG.normal(size=(2, 3, 4)).astype(np.float32)
KERNEL = RNG.normal(size=(4, 7)).astype(np.float32)
BIAS = RNG.normal(size=7).astype(np.float32)


def layer(is_embedding, **options):
    return OutputLayer(jnp.asarray(KERNEL.T if is_embedding else KERNEL), is_embedding, **options)


@pytest.mark.parametrize("is_embedding", [False, True])
@pytest.mark.parametrize(("scale", "bias", "softcap"), [(0.5, None, 0), (2, BIAS, 3)])
def test_logits_by_hand(is_embedding, scale, bias, softcap):
    output = layer(is_embedding, scale=float(scale), bias=bias, softcap=float(softcap))
    expected = scale * HIDDEN.astype(np.float64) @ KERNEL + (0 if bias is None else bias)
    if softcap:
        expected = softcap * np.tanh(expected / softcap)
    assert output.vocab_size == 7
    logits = output.logits(jnp.asarray(HIDDEN))
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    some = jnp.asarray([6, 0, 6])
    np.testing.assert_allclose(
        output.logits_of(jnp.asarray(HIDDEN), some), expected[..., [6, 0, 6]], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("is_embedding", [False, True])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_bfloat16_states_are_projected_in_float32(is_embedding, dtype):
    # 16 * 16 + 1 = 257 needs 9 bits; bfloat16 has 8. So does the scaled 3 * 257 = 771.
    weights = jnp.asarray([[16.0], [1.0]], dtype)
    for scale in (1.0, 3.0):
        output = OutputLayer(weights.T if is_embedding else weights, is_embedding, scale)
        assert output.logits(jnp.asarray([[16.0, 1.0]], jnp.bfloat16))[0, 0] == 257 * scale


@pytest.mark.parametrize("is_embedding", [False, True])
def test_bfloat16_weights_are_not_converted(is_embedding):
    weights = layer(is_embedding).weights.astype(jnp.bfloat16)
    hidden = jnp.asarray(HIDDEN, jnp.bfloat16)
    output = OutputLayer(weights, is_embedding, scale=0.5)

    lowered = jax.jit(output.logits).lower(hidden).as_text()
    assert "convert" not in lowered

    def loss(hidden, output):
        return jnp.sum(output.logits(hidden) ** 2)

    # The gradient is that of the same numbers in float32, rounded at the end.
    exact = output._replace(weights=weights.astype(jnp.float32))
    expected = jax.grad(loss)(hidden.astype(jnp.float32), exact).astype(jnp.bfloat16)
    np.testing.assert_array_equal(jax.grad(loss)(hidden, output), expected)
