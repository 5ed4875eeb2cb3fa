import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.models.attention.disentangled import DisentangledBias
from faith_jax.models.attention.dot_product import attend, block_sizes
from faith_jax.models.attention.masks import AttentionMask, Tokens, segment_positions
from faith_jax.models.positions import AlibiBias, RelativePositionBias, alibi_bias
from tests.models.tiny import TINY

E = np.e


def one_head(rows):
    """Returns [batch 1, heads 1, length, head_dim] of a list of vectors."""
    return np.asarray(rows, np.float32)[None, None]


PLAIN = {"mask": None, "bias": None, "float32_logits": False}
attended = jax.jit(
    attend,
    static_argnames=(*("float32_logits", "scale", "softcap", "dropout_rate", "block_length"),),
)


def run(query, key, value, **options):
    arrays = (one_head(query), one_head(key), one_head(value))
    return np.asarray(attended(*arrays, **PLAIN | options))[0, 0]


def test_weights_are_the_softmax_of_unscaled_products():
    # Products 1 and 2; with a division by sqrt(head_dim = 4) they would be 1/2 and 1.
    query = [[1.0, 1.0, 0.0, 0.0]]
    key = [[1.0, 0.0, 5.0, 0.0], [1.0, 1.0, 0.0, 5.0]]
    output = run(query, key, [[1, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_allclose(output[0, :2], [E / (E + E**2), E**2 / (E + E**2)], rtol=1e-6)


def test_bias_adds_and_mask_removes():
    query, key, value = [[0.0]], [[1.0], [1.0], [1.0]], [[1.0], [10.0], [100.0]]
    bias = np.array([[[[0.0, np.log(3.0), 50.0]]]])
    mask = np.array([[[[True, True, False]]]])
    output = run(query, key, value, bias=bias, mask=mask)
    np.testing.assert_allclose(output, [[(1.0 + 3 * 10.0) / 4]], rtol=1e-6)


def test_the_backward_pass_keeps_no_weights():
    rng = np.random.default_rng(0)
    # [rows, heads, length, width]: 5 queries and 7 keys.
    query, key, value = (
        jnp.asarray(rng.normal(size=(2, 3, length, 4)), jnp.float32) for length in (5, 7, 7)
    )
    _, pull = jax.eval_shape(
        lambda *arrays: jax.vjp(lambda *x: attend(*x, **PLAIN), *arrays), query, key, value
    )
    kept = [leaf.size for leaf in jax.tree.leaves(pull)]
    assert kept
    assert max(kept) <= key.size  # the weights are 2 * 3 * 5 * 7 numbers, more than a key's
    assert key.size < 2 * 3 * 5 * 7


def test_a_query_that_may_see_nothing_gives_finite_numbers():
    output = run([[1.0]], [[1.0], [2.0]], [[3.0], [5.0]], mask=np.zeros((1, 1, 1, 2), bool))
    np.testing.assert_allclose(output, [[4.0]])


@pytest.mark.parametrize("float32_logits", [False, True])
def test_bfloat16_products_are_rounded_unless_asked_otherwise(float32_logits):
    # 16 * 16 + 1 * 1 = 257 needs 9 bits; bfloat16 has 8 and rounds it to 256.
    query, key = (one_head(rows).astype("bfloat16") for rows in ([[16, 1]], [[16, 1], [16, 0]]))
    value = one_head([[1, 0], [0, 1]])
    output = attended(query, key, value, **PLAIN | {"float32_logits": float32_logits})
    expected = E / (E + 1) if float32_logits else 0.5
    np.testing.assert_allclose(output[0, 0, 0, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("broadcast", [True, False])
def test_dropout_drops_keys_and_scales_the_rest(broadcast):
    keys, rate = 400, 0.25
    arrays = np.zeros((3, 1)), np.zeros((keys, 1)), np.eye(keys)
    draw = jax.random.key(0)
    if broadcast:
        draw = jax.random.bernoulli(draw, 1 - rate, (1, 1, 1, keys))
    output = run(*arrays, dropout_rate=rate, dropout_draw=draw)
    np.testing.assert_allclose(np.unique(output), [0.0, 1 / ((1 - rate) * keys)], rtol=1e-6)
    # The same keys for all queries, or those of each query.
    assert np.array_equal(output, output[:1].repeat(3, 0)) == broadcast
    # Binomial: a share of 0.25 within 4 standard deviations.
    assert abs((output[0] == 0).mean() - rate) < 4 * np.sqrt(rate * (1 - rate) / keys)


def random_heads(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("copies", "group", "length"), [(1, 1, 2), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 2, 2)]
)
def test_few_queries_of_the_same_keys_equal_single_ones(copies, group, length):
    rng = np.random.default_rng(copies + 2 * group + 4 * length)
    key, value = (jnp.asarray(rng.normal(size=(3, 2, 5, 4)), jnp.float32) for _ in range(2))
    query = rng.normal(size=(3 * copies, 2 * group, length, 4)).astype(np.float32)
    together = attended(query, key, value, **PLAIN)
    for row, head, place in np.ndindex(query.shape[:3]):
        keys, values = (np.asarray(x[row // copies, head // group]) for x in (key, value))
        alone = run(query[row, head, place : place + 1], keys, values)
        np.testing.assert_allclose(together[row, head, place], alone[0], rtol=1e-5, atol=1e-6)
    text = attended.lower(query, key, value, **PLAIN).compile().as_text()
    assert "conditional" not in text  # the form is chosen while the program is compiled


@pytest.mark.parametrize(("heads", "kv_heads", "copies"), [(4, 1, 3), (4, 2, 1)])
def test_shared_heads_and_rows_equal_repeated_ones(heads, kv_heads, copies):
    batch, queries, keys, width = 2, 3, 5, 4
    query = random_heads(0, batch * copies, heads, queries, width)
    key, value = (random_heads(i, batch, kv_heads, keys, width) for i in (1, 2))
    mask = np.random.default_rng(3).random((batch * copies, 1, queries, keys)) < 0.8
    options = {"mask": mask, "bias": None, "float32_logits": False, "scale": 0.5}
    output = attended(query, key, value, **options)

    def repeated(x):
        return x.repeat(copies, axis=0).repeat(heads // kv_heads, axis=1)

    expected = attended(query, repeated(key), repeated(value), **options)
    np.testing.assert_allclose(output, expected, atol=1e-6)


@pytest.mark.parametrize("block_length", [0, 2])
def test_weights_of_shared_keys_are_dropped_for_each_row_and_head(block_length):
    rows, heads, queries, keys, width, rate = 6, 4, 3, 5, 4, 0.4
    query = random_heads(0, rows, heads, queries, width)
    # Three rows share keys, and two heads.
    key, value = (random_heads(i, 2, 2, keys, width) for i in (1, 2))
    keep = np.random.default_rng(3).random((rows, heads, 1, keys)) < 1 - rate
    mask = AttentionMask(*(Tokens(np.ones(shape, bool)) for shape in ((rows, queries), (2, keys))))
    output = attended(
        *(query, key, value),
        mask=mask if block_length else mask.whole(),
        bias=None,
        float32_logits=False,
        dropout_rate=rate,
        dropout_draw=keep,
        block_length=block_length,
    )
    key, value = (x.repeat(3, axis=0).repeat(2, axis=1) for x in (key, value))
    weights = np.exp(query @ key.swapaxes(-1, -2))
    weights *= keep / (1 - rate) / weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(output, weights @ value, atol=1e-5)


def test_a_prefix_stands_in_front_of_the_keys():
    batch, copies, heads, kv_heads, width, before, keys = 2, 2, 4, 2, 4, 3, 2
    rows = batch * copies
    query = random_heads(0, rows, heads, 1, width)
    key, value = (random_heads(i, rows, kv_heads, keys, width) for i in (1, 2))
    prefix = tuple(random_heads(i, batch, kv_heads, before, width) for i in (3, 4))
    mask = np.random.default_rng(5).random((rows, 1, 1, before + keys)) < 0.7
    bias = random_heads(6, 1, heads, 1, before + keys)
    options = {"mask": mask, "bias": bias, "float32_logits": False, "scale": 0.5, "softcap": 2.0}
    output = attended(query, key, value, prefix=prefix, **options)
    joined = [
        np.concatenate([p.repeat(copies, axis=0), x], axis=2)
        for p, x in zip(prefix, (key, value), strict=True)
    ]
    np.testing.assert_allclose(output, attended(query, *joined, **options), atol=1e-6)


def test_scale_and_softcap_come_before_bias_and_mask():
    query, key, value = [[2.0]], [[1.0], [4.0]], [[1.0], [0.0]]
    output = run(query, key, value, scale=0.5, softcap=1.5, bias=np.array([[[[0.3, 0.0]]]]))
    logits = 1.5 * np.tanh(np.array([1.0, 4.0]) / 1.5) + [0.3, 0.0]
    expected = np.exp(logits[0]) / np.exp(logits).sum()
    np.testing.assert_allclose(output, [[expected]], rtol=1e-6)


ROWS, HEADS, LENGTH, WIDTH, BLOCK = 2, 4, 13, 4, 5


def tokens(length=LENGTH, packed=False):
    """Returns the second row padded at the end, or both rows packed."""
    index = np.arange(length)
    valid = index[None] < np.array([[length], [length - 4]])
    segments = np.stack([1 + (index > 6), 1 + (index > 2)]) * valid if packed else None
    positions = segment_positions(jnp.asarray(valid), segments)
    return Tokens(jnp.asarray(valid), segments, positions)


def t5_bias(bidirectional):
    return RelativePositionBias(HEADS, bidirectional, num_buckets=8, max_distance=9)


def relative(table, length, bidirectional):
    """Returns T5's bias by blocks and whole."""
    module, variables = t5_bias(bidirectional), {"params": {"rel_embedding": table}}
    index = jnp.arange(LENGTH)
    whole = module.apply(variables, index[None, None] - index[None, :, None])
    return module.apply(variables, jnp.arange(1 - length, length)), whole


def alibi(table, length, mask):
    positions = mask.queries.positions
    return AlibiBias(HEADS), alibi_bias(HEADS, positions, positions)


def disentangled(table, length, query, key):
    """Returns DeBERTa's bias by blocks, and whole from a gather of each pair's distance."""
    rows = table.reshape(2, HEADS, -1, WIDTH)
    by_distance = np.clip(np.arange(length - 1, -length, -1) + 4, 0, 7)
    bias = DisentangledBias(rows[0][:, by_distance], rows[1][:, by_distance], 0.3)
    pairs = np.clip(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH)) + 4, 0, 7)
    to_key = jnp.einsum("bhqd,hqkd->bhqk", query, rows[1][:, pairs])
    to_query = jnp.einsum("bhkd,hqkd->bhqk", key, rows[0][:, pairs])
    return bias, 0.3 * (to_key + to_query)


CASES = {
    "shared heads": {"kv_heads": 2, "options": {"softcap": 1.5, "scale": 0.4}},
    "cross": {"queries": 7, "packed": True},
    "encoder t5": {"bias": "t5", "packed": True},
    "window": {"window": 4, "causal": True, "kv_heads": 1},
    "alibi": {"bias": "alibi", "causal": True, "packed": True},
    "deberta": {"bias": "deberta", "options": {"scale": 0.3}},
    "bfloat16": {"bias": "t5", "causal": True, "dtype": "bfloat16"},
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_give_the_numbers_and_gradients_of_plain_attention(name):
    case = {"queries": LENGTH, "kv_heads": HEADS, "dtype": "float32", "options": {}} | CASES[name]
    queries, kv_heads, dtype, kind = (case.get(k) for k in ("queries", "kv_heads", "dtype", "bias"))
    causal, window, packed = (case.get(k) for k in ("causal", "window", "packed"))
    mask = AttentionMask(
        tokens(queries, packed),
        tokens(packed=packed),
        None if window is None else jnp.int32(window),
        bool(causal),
    )
    arrays = (
        random_heads(0, ROWS, HEADS, queries, WIDTH).astype(dtype),
        random_heads(1, ROWS, kv_heads, LENGTH, WIDTH).astype(dtype),
        random_heads(2, ROWS, kv_heads, LENGTH, WIDTH).astype(dtype),
        random_heads(3, HEADS, 8 * (2 * WIDTH if kind == "deberta" else 1)),
    )
    weights = random_heads(4, ROWS, HEADS, queries, WIDTH)
    padded = math.prod(block_sizes(LENGTH, BLOCK))
    options = {"float32_logits": False} | case["options"]

    @functools.partial(jax.jit, static_argnums=0)
    def computed(by_blocks, arrays):
        def total(arrays):
            query, key, value, table = arrays
            biases = {
                None: lambda: (None, None),
                "t5": lambda: relative(table, padded, not causal),
                "alibi": lambda: alibi(table, padded, mask),
                "deberta": lambda: disentangled(table, padded, query, key),
            }[kind]()
            output = attend(
                query,
                key,
                value,
                mask=mask if by_blocks else mask.whole(),
                bias=biases[0 if by_blocks else 1],
                block_length=BLOCK,
                **options,
            )
            return jnp.sum(output * weights), output

        (_, output), gradients = jax.value_and_grad(total, has_aux=True)(arrays)
        return output, *gradients

    tolerance = 1e-5 if dtype == "float32" else 0.05  # bfloat16 keeps 8 bits of numbers near 4
    for output, expected in zip(computed(True, arrays), computed(False, arrays), strict=True):
        assert output.dtype == expected.dtype
        np.testing.assert_allclose(
            np.asarray(output, np.float32),
            np.asarray(expected, np.float32),
            rtol=tolerance,
            atol=tolerance,
        )
        assert kind is None or np.abs(output).max() > 0.1 or kind == "alibi"


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 600))
def test_blocks_are_even_and_hold_the_whole_length(length, block_length):
    count, size = block_sizes(length, block_length)
    assert 1 <= size <= block_length
    assert (count - 1) * block_length < length <= count * size
    # No more is filled up than multiples of 8 need.
    assert size == block_length or count * size < length + 8 * count


def test_short_inputs_have_plain_attention():
    mask = AttentionMask(tokens(8), tokens(8))

    def of(mask, block_length, **settings):
        config = TINY.replace(attention_block_length=block_length, **settings)
        return jax.eval_shape(lambda: mask.for_attention(config, deterministic=True))

    assert of(mask, 0).shape == of(mask, 8).shape == (2, 1, 8, 8)
    assert of(mask, 7).kernel == "blocks"
    fused = {"attention_kernel": "cudnn", "dtype": "bfloat16", "head_dim": 8, "dropout_rate": 0.0}
    assert of(mask, 8, **fused).kernel == "cudnn"  # whatever the length
    # One query has few scores, for any number of keys.
    assert of(AttentionMask(tokens(1), tokens(40)), 7).shape == (2, 1, 1, 40)


@jax.jit
def plain_gradients(arrays, weights, kept):
    """Returns the outputs of causal attention whose weights are multiplied by `kept`."""

    def total(arrays):
        query, key, value = arrays
        visible = np.tri(key.shape[2], dtype=bool)
        logits = jnp.where(visible, query @ key.swapaxes(-1, -2), -1e10)
        return jnp.sum((jax.nn.softmax(logits) * kept) @ value * weights)

    return jax.grad(total)(arrays)


@pytest.mark.parametrize("broadcast", [True, False])
def test_dropout_of_blocks_is_the_same_forward_and_backward(broadcast):
    rate, length = 0.4, 40
    mask = AttentionMask(*[Tokens(jnp.ones((1, length), bool))] * 2, causal=True)
    query, key = (random_heads(i, 1, 1, length, 3) for i in (0, 1))
    weights = random_heads(2, 1, 1, length, length)

    @jax.jit
    def by_blocks(arrays, draw):
        if broadcast:
            draw = jax.random.bernoulli(draw, 1 - rate, (1, 1, 1, length))

        def total(arrays):
            output = attend(
                *arrays,
                mask=mask,
                bias=None,
                float32_logits=False,
                dropout_rate=rate,
                dropout_draw=draw,
                block_length=16,
            )
            return jnp.sum(output * weights), output

        gradients, output = jax.grad(total, has_aux=True)(arrays)
        return output, gradients

    # The values are unit vectors, so that the outputs are the weights that are kept.
    arrays = (query, key, np.eye(length, dtype=np.float32)[None, None])
    output, gradients = by_blocks(arrays, jax.random.key(0))
    kept = np.asarray(output != 0.0) / (1 - rate)
    visible = np.tri(length, dtype=bool)

    for gradient, plain_gradient in zip(
        gradients, plain_gradients(arrays, weights, kept), strict=True
    ):
        np.testing.assert_allclose(gradient, plain_gradient, atol=1e-5)
    share = 1 - (kept[0, 0][visible] > 0).mean()
    assert abs(share - rate) < 4 * np.sqrt(rate * (1 - rate) / (length if broadcast else 800))
    same_for_all = [len(np.unique(kept[0, 0, k:, k])) == 1 for k in range(length - 1)]
    assert all(same_for_all) if broadcast else not any(same_for_all[:20])
    if broadcast:  # the mask of plain attention
        keep = jax.random.bernoulli(jax.random.key(0), 1 - rate, (1, 1, 1, length))
        options = {"mask": visible, "dropout_rate": rate, "dropout_draw": keep}
        np.testing.assert_allclose(output, attended(*arrays, **PLAIN | options), atol=1e-6)
    # Each block draws its own, and another key others.
    assert not np.array_equal(kept[0, 0, -1, :16], kept[0, 0, -1, 16:32])
    np.testing.assert_array_equal(output, by_blocks(arrays, jax.random.key(0))[0])
    assert np.any(output != by_blocks(arrays, jax.random.key(1))[0])
