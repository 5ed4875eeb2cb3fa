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
    bias = np.array([[[[0.0, np.log(3.0), 50.0]]]])
    mask = np.array([[[[True, True, False]]]])
    found = run(query, key, value, bias=bias, mask=mask)
    np.testing.assert_allclose(found, [[(1.0 + 3 * 10.0) / 4]], rtol=1e-6)


def test_a_query_that_may_see_nothing_gives_finite_numbers():
    found = run([[1.0]], [[1.0], [2.0]], [[3.0], [5.0]], mask=np.zeros((1, 1, 1, 2), bool))
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


def random_heads(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 1), (4, 2), (6, 3), (4, 4)])
@pytest.mark.parametrize("copies", [1, 3])
def test_shared_heads_and_rows_equal_repeated_ones(heads, kv_heads, copies):
    batch, queries, keys, width = 2, 3, 5, 4
    query = random_heads(0, batch * copies, heads, queries, width)
    key, value = (random_heads(i, batch, kv_heads, keys, width) for i in (1, 2))
    mask = np.random.default_rng(3).random((batch * copies, 1, queries, keys)) < 0.8
    options = {"mask": mask, "bias": None, "float32_logits": False, "scale": 0.5}
    found = attend(query, key, value, **options)

    def repeated(x):
        return x.repeat(copies, axis=0).repeat(heads // kv_heads, axis=1)

    expected = attend(query, repeated(key), repeated(value), **options)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_prefix_stands_in_front_of_the_keys(copies):
    batch, heads, kv_heads, width, before, keys = 2, 4, 2, 4, 3, 2
    rows = batch * copies
    query = random_heads(0, rows, heads, 1, width)
    key, value = (random_heads(i, rows, kv_heads, keys, width) for i in (1, 2))
    prefix = tuple(random_heads(i, batch, kv_heads, before, width) for i in (3, 4))
    mask = np.random.default_rng(5).random((rows, 1, 1, before + keys)) < 0.7
    bias = random_heads(6, 1, heads, 1, before + keys)
    options = {"mask": mask, "bias": bias, "float32_logits": False, "scale": 0.5, "softcap": 2.0}
    found = attend(query, key, value, prefix=prefix, **options)
    joined = [
        np.concatenate([p.repeat(copies, axis=0), x], axis=2)
        for p, x in zip(prefix, (key, value), strict=True)
    ]
    np.testing.assert_allclose(found, attend(query, *joined, **options), atol=1e-6)


def test_scale_and_softcap_come_before_bias_and_mask():
    query, key, value = [[2.0]], [[1.0], [4.0]], [[1.0], [0.0]]
    found = run(query, key, value, scale=0.5, softcap=1.5, bias=np.array([[[[0.3, 0.0]]]]))
    logits = 1.5 * np.tanh(np.array([1.0, 4.0]) / 1.5) + [0.3, 0.0]
    expected = np.exp(logits[0]) / np.exp(logits).sum()
    np.testing.assert_allclose(found, [[expected]], rtol=1e-6)


def test_dropout_of_each_query_where_it_is_not_broadcast():
    found = run(
        np.zeros((3, 1)),
        np.zeros((50, 1)),
        np.eye(50),
        dropout_rate=0.5,
        dropout_key=jax.random.key(0),
        broadcast_dropout=False,
    )
    assert not np.array_equal(found[0], found[1])
    np.testing.assert_allclose(np.unique(found), [0.0, 1 / 25], rtol=1e-6)


def test_projections_have_biases_where_asked():
    module = MultiHeadAttention(num_heads=2, head_dim=3, num_kv_heads=1, use_bias=True, scale=0.5)
    x = random_heads(0, 2, 4, 5)
    shapes = jax.eval_shape(lambda: module.init(jax.random.key(0), x, deterministic=True))["params"]
    found = jax.tree.map(lambda leaf: leaf.shape, shapes)
    assert found == {
        "query": {"kernel": (5, 6), "bias": (6,)},
        "key": {"kernel": (5, 3), "bias": (3,)},
        "value": {"kernel": (5, 3), "bias": (3,)},
        "out": {"kernel": (6, 5), "bias": (5,)},
    }
