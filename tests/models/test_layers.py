import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import print_saved_residuals

from faith_jax.models.config import TransformerConfig
from faith_jax.models.dropout import Place, draw_dropout
from faith_jax.models.layers import (
    ACTIVATION_FUNCTIONS,
    Embedding,
    FeedForward,
    LayerNorm,
    Projection,
    RMSNorm,
    project,
)
from faith_jax.models.positions import RelativePositionBias, relative_position_bucket
from faith_jax.models.transformer_layers import EncoderLayer, Surroundings
from tests.models import families

bucket_of = jax.jit(
    relative_position_bucket, static_argnames=("bidirectional", "num_buckets", "max_distance")
)


def applied(module, variables, *arguments, **options):
    """Applies a module in one program."""
    return np.asarray(jax.jit(functools.partial(module.apply, **options))(variables, *arguments))


def bucket_by_reading_the_paper(relative_position, bidirectional, num_buckets, max_distance):
    """One position at a time, in whole numbers: Raffel 2020, section 2.1.

    The nearest distances have a bucket each; from there to `max_distance` the buckets grow
    logarithmically, beyond which all distances share the last one.
    """
    after = 0
    if bidirectional:
        num_buckets //= 2  # half for keys before the query, half for those after
        after = num_buckets if relative_position > 0 else 0
        distance = abs(relative_position)
    else:
        distance = max(-relative_position, 0)  # keys after the query are never seen
    exact = num_buckets // 2
    if distance < exact:
        return after + distance
    coarse = num_buckets - exact
    # The largest k with log(distance/exact) / log(max_distance/exact) * coarse >= k, as powers.
    k = 0
    while k < coarse - 1 and (
        distance**coarse * exact ** (k + 1) >= max_distance ** (k + 1) * exact**coarse
    ):
        k += 1
    return after + exact + k


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (8, 12), (16, 200)])
def test_buckets_are_those_of_the_paper(bidirectional, num_buckets, max_distance):
    positions = np.arange(-300, 301)
    bucket_ids = bucket_of(
        positions,
        bidirectional=bidirectional,
        num_buckets=num_buckets,
        max_distance=max_distance,
    )
    expected = [
        bucket_by_reading_the_paper(int(p), bidirectional, num_buckets, max_distance)
        for p in positions
    ]
    np.testing.assert_array_equal(bucket_ids, expected)


@pytest.mark.parametrize(
    ("bidirectional", "buckets"),
    [
        # 7 is the last distance with a bucket of its own.
        (
            True,
            {0: 0, -1: 1, -7: 7, -8: 8, -127: 15, -128: 15, -100_000: 15, 1: 17, 7: 23, 128: 31},
        ),
        (False, {1: 0, 0: 0, -15: 15, -16: 16, -127: 31, -128: 31}),  # 1 is the future
    ],
)
def test_boundary_values_of_t5s_buckets(bidirectional, buckets):
    bucket_ids = bucket_of(
        np.array(list(buckets)), bidirectional=bidirectional, num_buckets=32, max_distance=128
    )
    assert bucket_ids.tolist() == list(buckets.values())


def test_position_bias_looks_its_bucket_up_for_each_head():
    module = RelativePositionBias(num_heads=2, bidirectional=False, num_buckets=4, max_distance=8)
    table = np.array([[0.0, 1.0, 2.0, 3.0], [10.0, 11.0, 12.0, 13.0]])
    distances = np.arange(4)[None, None] - np.array([[[2], [3]]])
    biases = applied(module, {"params": {"rel_embedding": table}}, distances)
    # Distances 2 1 0 and the future, 3 2 1 0; with 2 exact buckets, 2 and 3 share the next.
    np.testing.assert_array_equal(biases[0, 0], [[2, 1, 0, 0], [2, 2, 1, 0]])
    np.testing.assert_array_equal(biases[0, 1], biases[0, 0] + 10)


@pytest.mark.parametrize("drops", [False, True])
def test_what_attention_adds_may_be_kept_whole_in_training(drops):
    config = families.DISTILBERT.replace(
        dropout_rate=0.5, attention_dropout_rate=0.0, attention_output_dropout=drops
    )
    layer, x = EncoderLayer(config), np.random.default_rng(0).normal(size=(1, 3, 8))
    x, has_window, around = np.float32(x), jnp.bool_(False), Surroundings()
    params = jax.jit(lambda: layer.init(jax.random.key(0), x, has_window, None, around)["params"])()
    # The feed-forward layer, whose dropout stays, adds nothing.
    params = {**params, "mlp": jax.tree.map(jnp.zeros_like, params["mlp"])}
    expected, output = jax.jit(
        lambda params: [
            layer.apply({"params": params}, x, has_window, key, around)[0]
            for key in (None, jax.random.key(1))
        ]
    )(params)
    assert np.array_equal(output, expected) == (not drops)


@pytest.mark.parametrize(("offset", "scale"), [(0.0, [1.0, 10.0]), (1.0, [0.0, 9.0])])
def test_norm_divides_by_the_root_mean_square_and_subtracts_no_mean(offset, scale):
    """Gemma stores scales less 1."""
    rows = np.array([[3.0, 4.0], [0.0, 0.0]])
    output = applied(RMSNorm(offset=offset), {"params": {"scale": np.array(scale)}}, rows)
    root_mean_square = math.sqrt((9 + 16) / 2)
    expected = [[3 / root_mean_square, 40 / root_mean_square], [0, 0]]
    np.testing.assert_allclose(output, expected, rtol=1e-6)


def test_norm_of_bfloat16_is_computed_in_float32():
    # Summed in bfloat16, ones stop counting at 256 and the mean square would not be 1.
    module = RMSNorm(dtype="bfloat16")
    output = applied(module, {"params": {"scale": np.ones(2000)}}, np.ones(2000, jnp.bfloat16))
    assert output.dtype == jnp.bfloat16
    np.testing.assert_array_equal(output.astype(np.float32), np.ones(2000))


def test_layer_norm_by_hand():
    params = {"scale": np.array([1.0, 2.0, -1.0]), "bias": np.array([0.0, 10.0, 0.5])}
    rows = np.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])
    output = applied(LayerNorm(epsilon=0.25), {"params": params}, rows)
    # Means 3 and 1, variances (4 + 1 + 9) / 3 and (1 + 1 + 4) / 3.
    first = np.array([-2.0, -1.0, 3.0]) / math.sqrt(14 / 3 + 0.25)
    second = np.array([-1.0, -1.0, 2.0]) / math.sqrt(2 + 0.25)
    expected = np.stack([first, second]) * params["scale"] + params["bias"]
    np.testing.assert_allclose(output, expected, rtol=1e-6)


def test_layer_norm_of_large_and_bfloat16_inputs():
    params = {"params": {"scale": np.ones(2), "bias": np.zeros(2)}}
    # E[x²] - E[x]² would lose the variance to rounding.
    output = applied(LayerNorm(epsilon=1e-12), params, np.array([10_000.0, 10_002.0]))
    np.testing.assert_allclose(output, [-1, 1], rtol=1e-4)
    half = applied(LayerNorm(dtype="bfloat16"), params, np.array([1.0, 3.0], jnp.bfloat16))
    assert half.dtype == jnp.bfloat16


def test_activations_by_hand():
    x = 0.7
    expected = {
        "gelu": gelu(x),
        "gelu_exact": 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
        "relu": x,
        "silu": x / (1 + math.exp(-x)),
        "tanh": math.tanh(x),
        "linear": x,
    }
    assert expected.keys() == ACTIVATION_FUNCTIONS.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(ACTIVATION_FUNCTIONS[name](jnp.float32(x)), value, rtol=1e-5)
    assert ACTIVATION_FUNCTIONS["relu"](jnp.float32(-1.0)) == 0


def test_projection_has_a_bias_where_asked():
    kernel, inputs = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]), np.array([[2.0, 1.0]])
    output = applied(Projection(3, ("embed", "mlp")), {"params": {"kernel": kernel}}, inputs)
    np.testing.assert_array_equal(output, [[12.0, 24.0, 36.0]])
    params = {"kernel": kernel, "bias": np.array([100.0, 200.0, 300.0])}
    output = applied(Projection(3, ("embed", "mlp"), use_bias=True), {"params": params}, inputs)
    np.testing.assert_array_equal(output, [[112.0, 224.0, 336.0]])


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4)])
def test_project_has_the_gradients_of_a_matrix_product(shape):
    rng = np.random.default_rng(0)
    inputs, kernel = rng.normal(size=shape), rng.normal(size=(4, 5))
    cotangent = rng.normal(size=(*shape[:-1], 5))
    product, pullback = jax.vjp(project, *map(jnp.float32, (inputs, kernel)))
    np.testing.assert_allclose(product, inputs @ kernel, rtol=1e-5, atol=1e-6)
    to_inputs, to_kernel = pullback(jnp.float32(cotangent))
    np.testing.assert_allclose(to_inputs, cotangent @ kernel.T, rtol=1e-5, atol=1e-6)
    expected = inputs.reshape(-1, 4).T @ cotangent.reshape(-1, 5)
    np.testing.assert_allclose(to_kernel, expected, rtol=1e-5, atol=1e-6)


def test_embedding_looks_rows_up_as_integers():
    module = Embedding(3, 2, dtype="bfloat16")
    params = {"params": {"embedding": np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])}}
    vectors = applied(module, params, np.array([[2, 0]]))
    assert vectors.dtype == jnp.bfloat16
    np.testing.assert_array_equal(vectors.astype(np.float32), [[[4, 5], [0, 1]]])
    np.testing.assert_array_equal(applied(module, params, np.array([[2.0, 0.0]])), vectors)


def feed_forward(width, activations, **options):
    return FeedForward(TransformerConfig(9, mlp_dim=width, mlp_activations=activations, **options))


def gelu(x):
    """The tanh form that T5 1.1 uses."""
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("activations", "names", "expected"),
    [
        (("relu",), ("wi",), 2.0 * 5.0 + 0.0 * 7.0),
        (("linear",), ("wi",), 2.0 * 5.0 - 3.0 * 7.0),
        (("gelu", "linear"), ("wi_0", "wi_1"), gelu(2.0) * 0.5 * 5.0 + gelu(-3.0) * 4.0 * 7.0),
    ],
)
def test_feed_forward_by_hand(activations, names, expected):
    module = feed_forward(2, activations)
    kernels = [np.array([[2.0, -3.0]]), np.array([[0.5, 4.0]])]
    params = {name: {"kernel": k} for name, k in zip(names, kernels, strict=False)}
    params["wo"] = {"kernel": np.array([[5.0], [7.0]])}
    output = applied(module, {"params": params}, np.ones((1, 1, 1)))
    np.testing.assert_allclose(output[0, 0], [expected], rtol=1e-6)


def test_feed_forward_with_biases_by_hand():
    module = feed_forward(2, ("relu",), mlp_bias=True)
    params = {
        "wi": {"kernel": np.array([[2.0, -3.0]]), "bias": np.array([1.0, 4.0])},
        "wo": {"kernel": np.array([[5.0], [7.0]]), "bias": np.array([0.5])},
    }
    output = applied(module, {"params": params}, np.ones((1, 1, 1)))
    np.testing.assert_allclose(output[0, 0], [3.0 * 5.0 + 1.0 * 7.0 + 0.5], rtol=1e-6)


@pytest.mark.parametrize("broadcast", [True, False])
def test_feed_forward_drops_inner_units_for_the_whole_length_or_a_position(broadcast):
    module = feed_forward(64, ("linear",), dropout_rate=0.5)
    params = {"wi": {"kernel": np.ones((1, 64))}, "wo": {"kernel": np.ones((64, 1))}}
    draws = draw_dropout(
        jax.random.key(0), 1, {"mlp": Place(0.5, (1, 64), (None, "mlp"))}, broadcast
    )
    output = applied(module, {"params": params}, np.ones((1, 8, 1)), draws["mlp"])
    kept = output[0, :, 0] / 2  # each kept unit counts 1 / (1 - 0.5)
    assert np.all((kept > 16) & (kept < 48))
    assert len(np.unique(kept)) == 1 if broadcast else len(np.unique(kept)) > 3


@pytest.mark.parametrize(
    ("module", "kept"),
    [
        # Both projections, and the product of which the output's kernel has its gradient.
        (feed_forward(8, ("gelu", "linear")), [(2, 20, 8)] * 3),
        (feed_forward(8, ("gelu_exact",)), [(2, 20, 8)] * 2),
        (RMSNorm(), []),
        (LayerNorm(), []),
    ],
)
def test_the_backward_pass_keeps_no_intermediate_arrays(module, kept, capsys):
    inputs = np.ones((2, 20, 4), np.float32)
    params = jax.jit(module.init)(jax.random.key(0), inputs)["params"]

    def total(params, inputs):
        return jnp.sin(module.apply({"params": params}, inputs)).sum()

    print_saved_residuals(total, params, inputs)
    saved = [line for line in capsys.readouterr().out.splitlines() if "argument" not in line]
    inner = [line for line in saved if "[2,20," in line and "cos" not in line]
    assert [line.split("[")[1].split("]")[0] for line in inner] == [
        ",".join(map(str, shape)) for shape in kept
    ]


@pytest.mark.parametrize(("length", "barriers"), [(1, 1), (17, 0)])
def test_products_of_a_decoding_step_are_not_made_one(length, barriers):
    """XLA for GPUs would concatenate their kernels in every step."""
    module = feed_forward(8, ("gelu", "linear"))
    inputs = np.ones((2, length, 4), np.float32)
    params = jax.eval_shape(module.init, jax.random.key(0), inputs)
    text = jax.jit(module.apply).lower(params, inputs).as_text()
    assert text.count("optimization_barrier") == barriers
