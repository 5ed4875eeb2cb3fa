import jax
import numpy as np
import pytest

from faith_jax.models.attention import MultiHeadAttention, attend

E = np.e


def one_head(rows):
    """Returns [batch 1, heads 1, length, head_dim] of a list of vectors."""
    return np.asarray(rows, np.float32)[None, None]


def run(query, key, value, **options):
    options = {"mask": None, "bias": None, "float32_logits": False} | options
    return np.asarray(attend(one_head(query), one_head(key), one_head(value), **options))[0, 0]


def test_weights_are_the_softmax_of_unscaled_products():
    # Products 1 and 2; with a division by sqrt(head_dim = 4) they would be 1/2 and 1.
    query = [[1.0, 1.0, 0.0, 0.0]]
    key = [[1.0, 0.0, 5.0, 0.0], [1.0, 1.0, 0.0, 5.0]]
    found = run(query, key, [[1, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_allclose(found[0, :2], [E / (E + E**2), E**2 / (E + E**2)], rtol=1e-6)


def test_bias_adds_and_mask_removes():
    query, key, value = [[0.0]], [[1.0], [1.0], [1.0]], [[1.0], [10.0], [100.0]]
    bias = np.array([[0.0, np.log(3.0), 50.0]])
    mask = np.array([[True, True, False]])
    found = run(query, key, value, bias=bias, mask=mask)
    np.testing.assert_allclose(found, [[(1.0 + 3 * 10.0) / 4]], rtol=1e-6)


def test_a_query_that_may_see_nothing_gives_finite_numbers():
    found = run([[1.0]], [[1.0], [2.0]], [[3.0], [5.0]], mask=np.zeros((1, 2), bool))
    np.testing.assert_allclose(found, [[4.0]])


@pytest.mark.parametrize("float32_logits", [False, True])
def test_bfloat16_products_are_rounded_unless_asked_otherwise(float32_logits):
    # 16 * 16 + 1 * 1 = 257 needs 9 bits; bfloat16 has 8 and rounds it to 256.
    query, key = (one_head(rows).astype("bfloat16") for rows in ([[16, 1]], [[16, 1], [16, 0]]))
    value = one_head([[1, 0], [0, 1]])
    found = attend(query, key, value, mask=None, bias=None, float32_logits=float32_logits)
    expected = E / (E + 1) if float32_logits else 0.5
    np.testing.assert_allclose(found[0, 0, 0, 0], expected, rtol=1e-6)


def test_dropout_drops_keys_for_all_queries_and_scales_the_rest():
    keys = 400
    found = run(
        np.zeros((3, 1)),
        np.zeros((keys, 1)),
        np.eye(keys),
        dropout_rate=0.25,
        dropout_key=jax.random.key(0),
    )
    np.testing.assert_allclose(np.unique(found), [0.0, 1 / (0.75 * keys)], rtol=1e-6)
    np.testing.assert_array_equal(found, found[:1].repeat(3, 0))
    # Binomial: a share of 0.25 within 4 standard deviations.
    assert abs((found[0] == 0).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / keys)


def test_self_attention_equals_attention_over_itself():
    module = MultiHeadAttention(num_heads=2, head_dim=3)
    x = np.random.default_rng(0).normal(size=(2, 4, 5)).astype(np.float32)
    variables = jax.jit(lambda: module.init(jax.random.key(0), x, deterministic=True))()
    apply = jax.jit(lambda *inputs: module.apply(variables, *inputs, deterministic=True))
    np.testing.assert_allclose(apply(x), apply(x, x), rtol=1e-6)
    params = variables["params"]
    kernels = {name: np.asarray(params[name]["kernel"]) for name in params}

    def heads(name):
        return (x @ kernels[name]).reshape(2, 4, 2, 3).transpose(0, 2, 1, 3)

    logits = heads("query") @ heads("key").swapaxes(-1, -2)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    joined = (weights @ heads("value")).transpose(0, 2, 1, 3).reshape(2, 4, 6)
    np.testing.assert_allclose(apply(x), joined @ kernels["out"], rtol=1e-4, atol=1e-6)
