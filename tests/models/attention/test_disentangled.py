import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import ConfigError
from faith_jax.models.attention.disentangled import DisentangledAttention, relative_rows
from faith_jax.models.positions import log_buckets
from tests.models import families

CONFIG = families.DEBERTA


@given(st.integers(1, 40), st.integers(2, 10), st.integers(1, 50))
def test_relative_rows_are_the_buckets_of_each_distance(length, half, beyond):
    buckets, max_distance = 2 * half, half + 1 + beyond
    rows = relative_rows(length, buckets, max_distance)
    positions = log_buckets(
        np.subtract.outer(np.arange(length), np.arange(length)), buckets, max_distance
    )
    assert rows.shape == (2 * length - 1,)
    for i in range(length):
        for j in range(length):
            expected = min(max(positions[i, j] + buckets, 0), 2 * buckets - 1)
            assert rows[length - 1 - (i - j)] == expected


def double_loop(config, x, relative, mask, kernels):
    """Equation 4 of the paper without its position-to-position term, pair by pair."""
    heads, width, separate = config.num_heads, config.head_dim, config.separate_positions
    buckets, distance = (
        config.relative_attention_num_buckets,
        config.relative_attention_max_distance,
    )

    def projected(name, inputs):
        out = inputs @ kernels[name]["kernel"] + kernels[name].get("bias", 0)
        return out.reshape(*out.shape[:-1], heads, width)

    query, key, value = (projected(name, x) for name in ("query", "key", "value"))
    position_query, position_key = (
        projected("position_" * separate + name, relative) for name in ("query", "key")
    )
    length = x.shape[0]
    bucketed = np.subtract.outer(np.arange(length), np.arange(length))
    if not separate:
        bucketed = log_buckets(bucketed, buckets, distance)
    result = np.zeros((length, heads, width))
    for head in range(heads):
        for i in range(length):
            logits = np.full(length, -1e10)
            for j in range(length):
                row = np.clip(bucketed[i, j] + buckets, 0, 2 * buckets - 1)
                content = query[i, head] @ key[j, head]
                to_position = query[i, head] @ position_key[row, head]
                # From the key's side the distance is j - i.
                back = np.clip(buckets - bucketed[j, i], 0, 2 * buckets - 1)
                from_position = key[j, head] @ position_query[back, head]
                if mask[i, j]:
                    logits[j] = (content + to_position + from_position) / np.sqrt(3 * width)
            weights = np.exp(logits - logits.max())
            result[i, head] = weights / weights.sum() @ value[:, head]
    return result.reshape(length, -1) @ kernels["out"]["kernel"] + kernels["out"]["bias"]


@pytest.mark.parametrize("config", [CONFIG, families.DEBERTA_V1], ids=["v3", "v1"])
def test_attention_equals_a_double_loop(config):
    length = 17
    rng = np.random.default_rng(length)
    module = DisentangledAttention(config)
    x = rng.normal(size=(1, length, 8)).astype(np.float32)
    rows = 2 * config.relative_attention_num_buckets
    relative = rng.normal(size=(rows, 8)).astype(np.float32)
    mask = np.tri(length, dtype=bool) | (rng.random((length, length)) < 0.5)
    shapes = jax.eval_shape(
        lambda: module.init(jax.random.key(0), x, relative, mask=None, draws={})
    )["params"]
    separate = {"position_query", "position_key"} if config.separate_positions else set()
    assert shapes.keys() == {"query", "key", "value", "out"} | separate
    assert ("bias" in shapes["key"]) is not config.separate_positions
    params = jax.tree.map(lambda s: rng.normal(size=s.shape).astype(np.float32) * 0.5, shapes)
    output = jax.jit(
        lambda p: module.apply({"params": p}, x, relative, mask=mask[None, None], draws={})
    )(params)
    expected = double_loop(config, x[0], relative, mask, params)
    np.testing.assert_allclose(output[0], expected, atol=2e-4, rtol=1e-4)


def test_a_decoder_has_no_disentangled_attention():
    with pytest.raises(ConfigError, match="another scheme beside a decoder"):
        CONFIG.replace(num_decoder_layers=1)
