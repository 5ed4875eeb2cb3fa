"""JAX's plain version of the function replaces cuDNN's kernel here, which needs a GPU."""

import functools
import types

import jax
import numpy as np
import pytest
from jax.sharding import AbstractDevice, AbstractMesh

from faith_jax.core.errors import ConfigError
from faith_jax.models.attention import cudnn
from faith_jax.models.attention.dot_product import attend
from faith_jax.models.attention.masks import (
    AttentionMask,
    Tokens,
    kernel_platform,
    segment_positions,
)
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.positions import DistanceBias
from faith_jax.models.transformer import Transformer
from tests.models.tiny import TINY, VOCAB_SIZE, model_and_params

ROWS, HEADS, KV_HEADS, LENGTH, WIDTH = 3, 4, 2, 20, 8


@pytest.fixture(autouse=True)
def plain_form(monkeypatch):
    monkeypatch.setattr(cudnn, "IMPLEMENTATION", "xla")


positions_of = jax.jit(segment_positions)


def heads(seed, rows, number, length=LENGTH):
    shape = (rows, number, length, WIDTH)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def tokens(lengths, length=LENGTH, packed=False):
    index = np.arange(length)
    valid = index[None] < np.asarray(lengths)[:, None]
    segments = np.tile(np.int32(1 + (index > 7)), (len(valid), 1)) if packed else None
    return Tokens(valid, segments, positions_of(valid, segments))


OWN = tokens([20, 9, 0])  # the last row is all padding
PACKED = tokens([20, 12, 15], packed=True)
MASKS = {
    "packed": AttentionMask(PACKED, PACKED, causal=True),
    "window": AttentionMask(OWN, OWN, window=np.int32(5), causal=True),
}


def assert_equal_to_plain(arrays, mask, bias=None, keep=None):
    """Compares gradients, and outputs of queries that see keys, with those of attention by blocks.

    `keep`: the mask of dropout, boolean [rows, heads, 1, keys].
    """
    sees = np.asarray(jax.jit(lambda: mask.whole())())[:, 0].any(-1)  # [rows, queries]
    rng = np.random.default_rng(9)
    direction = np.float32(rng.normal(size=arrays[0].shape) * sees[:, None, :, None])

    def loss(arrays, values, kernel):
        added = None if values is None else DistanceBias(values)
        options = {"mask": mask.replace(kernel=kernel), "bias": added, "block_length": 1000}
        options |= {"dropout_rate": 0.3, "dropout_draw": keep}
        outputs = attend(*arrays, float32_logits=True, scale=0.4, **options)
        return (outputs * direction).sum(), outputs

    @jax.jit
    def of(arrays, values):
        graded = jax.value_and_grad(loss, (0, 1), has_aux=True)
        return [graded(arrays, values, kernel) for kernel in ("cudnn", "blocks")]

    ((_, fused), of_fused), ((_, plain), of_plain) = jax.device_get(of(arrays, bias))
    assert np.isfinite(fused).all()
    visible = np.broadcast_to(sees[:, None, :, None], fused.shape)
    np.testing.assert_allclose(fused[visible], plain[visible], atol=1e-5)
    for gradient, expected in zip(
        jax.tree.leaves(of_fused), jax.tree.leaves(of_plain), strict=True
    ):
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(gradient, expected, atol=1e-5)


@pytest.mark.parametrize(("name", "has_bias"), [("packed", True), ("window", False)])
def test_outputs_and_gradients_equal_plain_attention(name, has_bias):
    arrays = heads(0, ROWS, HEADS), heads(1, ROWS, KV_HEADS), heads(2, ROWS, KV_HEADS)
    # Of a block of 24 tokens, a multiple of 8.
    values = np.random.default_rng(3).normal(size=(HEADS, 2 * 24 - 1))
    bias = np.asarray(values, np.float32) if has_bias else None
    keep = np.random.default_rng(4).random((ROWS, HEADS, 1, LENGTH)) < 0.7
    assert_equal_to_plain(arrays, MASKS[name], bias, keep)


def test_an_odd_length_is_filled_up():
    arrays = tuple(heads(seed, ROWS, HEADS, 19) for seed in range(3))
    query_tokens = tokens([19, 9, 3], 19)
    values = np.random.default_rng(3).normal(size=(HEADS, 2 * 24 - 1))
    mask = AttentionMask(query_tokens, query_tokens, causal=True)
    assert_equal_to_plain(arrays, mask, np.asarray(values, np.float32))


def test_rows_that_share_keys_of_another_length():
    arrays = heads(0, 4, HEADS), heads(1, 2, HEADS, 11), heads(2, 2, HEADS, 11)
    assert_equal_to_plain(arrays, AttentionMask(tokens([20] * 4), tokens([11, 6], 11)))


def test_a_model_has_the_same_logits(monkeypatch):
    config = TINY.replace(
        dtype="bfloat16", dropout_rate=0.0, float32_attention_logits=True, head_dim=8,
        num_encoder_layers=1, num_decoder_layers=1,
    )  # fmt: skip
    _, params = model_and_params(config)
    rng = np.random.default_rng(0)
    inputs, targets = (rng.integers(2, VOCAB_SIZE, (2, n)).astype(np.int32) for n in (7, 5))
    inputs[1, 4:] = config.pad_id

    called, attend = [], cudnn.cudnn_attend
    counted = lambda *x, **options: called.append(1) or attend(*x, **options)  # noqa: E731
    monkeypatch.setattr(cudnn, "cudnn_attend", counted)

    def logits(config):
        call = functools.partial(Transformer(config).apply, {"params": params})
        encoded = call(inputs, None, False, method="encode")
        hidden = call(encoded, inputs, targets, enable_dropout=False, method="decode_hidden")
        return call(hidden, method="logits")

    plain, fused = jax.jit(
        lambda: [logits(config), logits(config.replace(attention_kernel="cudnn"))]
    )()
    np.testing.assert_allclose(fused, plain, atol=0.03 * np.abs(plain).max())
    assert len(called) == 3  # attention of the encoder, of the decoder, and across


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float32"}, "'blocks' for dtype = float32, not bfloat16"),
        ({"attention_softcap": 3.0}, "'blocks' for a softcap"),
        ({"head_dim": 12}, "'blocks' for head_dim = 12"),
        (
            {"dropout_rate": 0.1, "broadcast_dropout": False},
            "attention_dropout_rate = 0 in place of 0.1",
        ),
    ],
)
def test_what_the_kernel_cannot_do_is_an_error(settings, message):
    allowed = {"dtype": "bfloat16", "dropout_rate": 0.0, "head_dim": 8}
    with pytest.raises(ConfigError, match=message):
        TINY.replace(attention_kernel="cudnn", **allowed | settings)


def test_other_devices_are_an_error():
    config = TINY.replace(attention_kernel="cudnn", dtype="bfloat16", dropout_rate=0.0, head_dim=8)
    with pytest.raises(ConfigError, match="'cudnn' runs on GPUs only, and these devices are cpus"):
        make_partitioner(config)


@pytest.mark.parametrize(
    ("platform", "generation", "expected"),
    [("gpu", "7.5", "cpu"), ("gpu", "8.0", "gpu"), ("gpu", "12.0", "gpu"), ("cpu", None, "cpu")],
)
def test_gpus_before_ampere_have_no_fused_attention(platform, generation, expected):
    capability = {} if generation is None else {"compute_capability": generation}
    device = types.SimpleNamespace(platform=platform, **capability)
    assert kernel_platform(device) == expected


@pytest.mark.parametrize(("platform", "kernel"), [("gpu", "cudnn"), ("cpu", None)])
def test_the_platform_is_that_of_the_active_mesh(platform, kernel):
    device = AbstractDevice(device_kind="any", num_cores=None, platform=platform)
    mesh = AbstractMesh((1, 1), ("data", "model"), abstract_device=device)
    config = TINY.replace(dtype="bfloat16", head_dim=8)
    with jax.sharding.use_abstract_mesh(mesh):
        mask = jax.eval_shape(
            lambda: AttentionMask(OWN, OWN).for_attention(config, deterministic=True)
        )
    assert getattr(mask, "kernel", None) == kernel  # a whole mask has none
