import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.models.attention.masks import segment_positions
from faith_jax.models.config import TransformerConfig
from faith_jax.models.positions import (
    RelativePositionBias,
    alibi_bias,
    alibi_slopes,
    log_buckets,
    rotary_frequencies,
    rotate,
    rotation,
    skew,
)


def rotary(**changes):
    return TransformerConfig(vocab_size=8, positions="rotary", **changes)


def test_frequencies_are_powers_of_the_base():
    frequencies = rotary_frequencies(rotary(head_dim=6, rope_theta=1000.0))
    np.testing.assert_allclose(frequencies, [1, 1000 ** (-1 / 3), 1000 ** (-2 / 3)], rtol=1e-6)
    linear = rotary_frequencies(
        rotary(head_dim=6, rope_theta=1000.0, rope_type="linear", rope_factor=4.0)
    )
    np.testing.assert_allclose(linear, frequencies / 4, rtol=1e-6)


def test_llama3_stretches_long_waves_only():
    config = rotary(
        head_dim=32,
        rope_theta=1e4,
        rope_type="llama3",
        rope_factor=8.0,
        rope_low_freq_factor=1.0,
        rope_high_freq_factor=4.0,
        rope_original_max_positions=64,
    )
    plain = rotary_frequencies(config.replace(rope_type="default"))
    frequencies = rotary_frequencies(config)
    blended = 0
    for before, after in zip(plain, frequencies, strict=True):
        turns = 64 * before / (2 * math.pi)  # over the positions of the first training
        if turns > 4:
            assert after == before
        elif turns < 1:
            np.testing.assert_allclose(after, before / 8, rtol=1e-6)
        else:
            share = (turns - 1) / (4 - 1)
            expected = share * before + (1 - share) * before / 8
            np.testing.assert_allclose(after, expected, rtol=1e-5)
            blended += 1
    assert blended >= 2


def test_rotation_by_hand():
    config = rotary(head_dim=4, rope_theta=16.0)  # angles 1 and 1/4 per position
    x = jnp.asarray([[[[1.0, 0.0, 0.0, 2.0]]]])
    rotated = rotate(x, rotation(config, jnp.asarray([[3]])))[0, 0, 0]
    # Pairs (1, 0) by 3 and (0, 2) by 3/4; features 0 and 2, 1 and 3 are pairs.
    expected = [math.cos(3), -2 * math.sin(0.75), math.sin(3), 2 * math.cos(0.75)]
    np.testing.assert_allclose(rotated, expected, rtol=1e-6)
    half = jax.eval_shape(
        lambda: rotate(x.astype(jnp.bfloat16), rotation(config, jnp.array([[3]])))
    )
    assert half.dtype == jnp.bfloat16


@settings(max_examples=15)
@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 1000))
def test_products_of_turned_vectors_depend_on_the_distance_only(first, second, shift):
    config = rotary(head_dim=8, rope_theta=100.0)
    rng = np.random.default_rng(first)
    x, y = (jnp.asarray(rng.normal(size=(1, 1, 1, 8)), jnp.float32) for _ in range(2))

    def product(i, j):
        turned = [rotate(v, rotation(config, jnp.asarray([[p]]))) for v, p in ((x, i), (y, j))]
        return float(jnp.vdot(*turned))

    np.testing.assert_allclose(
        product(first, second), product(first + shift, second + shift), atol=2e-3
    )
    np.testing.assert_allclose(
        np.linalg.norm(rotate(x, rotation(config, jnp.asarray([[shift]])))),
        np.linalg.norm(x),
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (2, [4, 8]),
        # The four of 4 heads, then every other one of 8 heads.
        (6, [2, 4, 6, 8, 1, 3]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_slopes_of_alibi(heads, exponents):
    np.testing.assert_allclose(alibi_slopes(heads), 2.0 ** -np.array(exponents), rtol=1e-6)


def test_alibi_falls_with_the_distance_from_each_rows_own_positions():
    queries, keys = jnp.asarray([[2], [5]]), jnp.asarray([[0, 1, 2], [3, 4, 5]])
    biases = alibi_bias(2, queries, keys)
    assert biases.shape == (2, 2, 1, 3)
    slopes = np.array([[2**-4], [2**-8]])
    np.testing.assert_allclose(biases[0, :, 0], -slopes * [[2, 1, 0]])
    np.testing.assert_allclose(biases[1], biases[0])


def test_t5s_bias_of_rows_at_different_positions():
    module = RelativePositionBias(num_heads=2, bidirectional=False, num_buckets=4, max_distance=8)
    params = {"params": {"rel_embedding": np.arange(8.0).reshape(2, 4)}}
    queries, keys = np.array([[2, 3], [7, 8]]), np.array([[0, 1, 2], [7, 8, 9]])
    bias = jax.jit(functools.partial(module.apply, params))
    distances = keys[:, None] - queries[..., None]
    biases = np.asarray(bias(distances))
    assert biases.shape == (2, 2, 2, 3)
    for row in range(2):
        alone = np.asarray(bias(distances[row : row + 1]))
        np.testing.assert_array_equal(biases[row], alone[0])


@pytest.mark.parametrize(("queries", "keys"), [(1, 7), (7, 1), (4, 9)])
def test_skew_is_a_gather_by_distance(queries, keys):
    products = np.random.default_rng(0).normal(size=(2, 1, queries, queries + keys - 1))
    skewed = np.asarray(jax.jit(skew, static_argnums=1)(products.astype(np.float32), queries))
    assert skewed.shape == (2, 1, queries, keys)
    for i in range(queries):
        for j in range(keys):
            column = queries - 1 - (i - j)
            np.testing.assert_array_equal(
                skewed[:, :, i, j], products[:, :, i, column].astype(np.float32)
            )


def distances(length):
    """Returns query minus key, [length, length]."""
    return np.subtract.outer(np.arange(length), np.arange(length))


def deberta_bucket(distance, buckets, max_distance):
    """One distance at a time."""
    middle = buckets // 2
    if abs(distance) <= middle:
        return distance
    ratio = math.log(abs(distance) / middle) / math.log((max_distance - 1) / middle)
    return int(math.copysign(math.ceil(ratio * (middle - 1)) + middle, distance))


@pytest.mark.parametrize(("buckets", "max_distance"), [(8, 20), (256, 512), (6, 500)])
def test_debertas_buckets_one_by_one(buckets, max_distance):
    length = 70
    bucket_ids = log_buckets(distances(length), buckets, max_distance)
    assert bucket_ids.shape == (length, length)
    for i in (0, 1, 13, 69):
        for j in range(length):
            assert bucket_ids[i, j] == deberta_bucket(i - j, buckets, max_distance), (i, j)


def test_no_buckets_leave_distances_as_they_are():
    np.testing.assert_array_equal(log_buckets(distances(3), 0, 0), distances(3))


def test_positions_are_counted_over_tokens_and_within_segments():
    valid = jnp.asarray([[True, True, False, True], [False, True, True, False]])
    np.testing.assert_array_equal(segment_positions(valid, None), [[0, 1, -1, 2], [-1, 0, 1, -1]])
    segments = jnp.asarray([[1, 1, 2, 2], [1, 2, 2, 0]])
    whole = jnp.asarray([[True] * 4, [True, True, True, False]])
    np.testing.assert_array_equal(segment_positions(whole, segments), [[0, 1, 0, 1], [0, 0, 1, -1]])
