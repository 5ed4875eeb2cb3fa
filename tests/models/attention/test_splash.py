"""The kernel runs here as plain JAX; its compilation for TPUs is tested if libtpu is installed."""

import importlib.util
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.models.attention import splash as splash_attention
from faith_jax.models.attention.dot_product import attend
from faith_jax.models.attention.masks import NO_WINDOW, AttentionMask, Tokens, segment_positions
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.planning.planner import CompilingProcess
from faith_jax.planning.topologies import parse_topology
from faith_jax.planning.worker import PlanRequest, Recipe
from tests.models.tiny import apply, model_and_params
from tests.paths import REPOSITORY

ROWS, HEADS, KV_HEADS, LENGTH, WIDTH, WINDOW = 2, 4, 2, 300, 8, 37  # three blocks of 128 tokens
OPTIONS = {"bias": None, "float32_logits": False, "scale": 0.4, "softcap": 3.0}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setattr(splash_attention, "INTERPRET", True)


positions_of = jax.jit(segment_positions)


def heads(seed, rows, number, length=LENGTH):
    shape = (rows, number, length, WIDTH)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def tokens(rows=ROWS, length=LENGTH, packed=False):
    """Returns rows; the last one is padded at the end, and packed rows have two segments."""
    index = np.arange(length)
    valid = index[None] < np.where(np.arange(rows) == rows - 1, 250, length)[:, None]
    borders = np.array([[60], [140]])[:rows]
    segments = np.int32(1 + (index > borders)) if packed else None
    return Tokens(valid, segments, positions_of(valid, segments))


@jax.jit
def outputs_and_gradients(arrays, mask, direction):
    """Returns the results of the kernel, and those of plain attention."""

    def of(**options):
        def loss(*arrays):
            output = attend(*arrays, **OPTIONS, **options)
            return (output * direction).sum(), output

        (_, output), gradients = jax.value_and_grad(loss, (0, 1, 2), has_aux=True)(*arrays)
        return output, *gradients

    fused = of(mask=mask.replace(kernel="splash"), window_length=WINDOW)
    return fused, of(mask=mask.whole())


def assert_equal_to_plain(arrays, mask):
    direction = heads(9, *arrays[0].shape[:3])
    splash, plain = jax.device_get(outputs_and_gradients(arrays, mask, direction))
    for actual, reference in zip(splash, plain, strict=True):
        assert np.abs(reference).max() > 0.1
        np.testing.assert_allclose(actual, reference, atol=1e-5)
    return splash[0]


def test_windows_segments_padding_softcap_and_shared_heads_equal_plain_attention():
    arrays = heads(0, ROWS, HEADS), heads(1, ROWS, KV_HEADS), heads(2, ROWS, KV_HEADS)
    packed_tokens = tokens(packed=True)
    mask = AttentionMask(packed_tokens, packed_tokens, causal=True)
    near = assert_equal_to_plain(arrays, mask.replace(window=np.int32(WINDOW)))
    whole = assert_equal_to_plain(arrays, mask.replace(window=np.int32(NO_WINDOW)))
    assert np.abs(near - whole).max() > 0.1


def test_rows_that_share_keys_of_another_length_equal_plain_attention():
    arrays = heads(0, 4, HEADS), heads(1, 2, HEADS, 140), heads(2, 2, HEADS, 140)
    keys = tokens(2, 140)._replace(valid=np.arange(140)[None] < np.array([[140], [0]]))
    outputs = assert_equal_to_plain(arrays, AttentionMask(tokens(4), keys))
    # The keys of the last two rows are all padding, which their queries see alike.
    expected = np.asarray(arrays[2][1]).mean(axis=1)[:, None]
    np.testing.assert_allclose(outputs[2:], np.broadcast_to(expected, outputs[2:].shape), atol=1e-5)


CONFIG = TransformerConfig(
    vocab_size=32, emb_dim=16, num_heads=4, num_kv_heads=2, head_dim=8, mlp_dim=16,
    num_encoder_layers=0, num_decoder_layers=2, positions="rotary", dropout_rate=0.0,
    attention_scale=8**-0.5, sliding_window=WINDOW, sliding_window_layers=(0,), scan_layers=True,
    attention_block_length=100, attention_kernel="splash",
)  # fmt: skip


def test_queries_of_two_segments_do_not_use_the_kernel():
    """The kernel would hide the input that several responses of a line share."""
    packed = tokens(packed=True)
    shared = packed._replace(shared=np.ones_like(packed.segments))
    config = CONFIG.replace(attention_kernel="splash", attention_block_length=128)
    for queries, kernel in ((packed, "splash"), (shared, "blocks")):
        mask = AttentionMask(queries, packed, causal=True).for_attention(config, True)
        assert mask.kernel == kernel


@pytest.mark.slow
def test_a_model_with_scanned_windows_has_the_same_outputs():
    config = CONFIG.replace(attention_kernel="blocks", attention_block_length=0)
    _, params = model_and_params(config)
    ids = np.random.default_rng(0).integers(1, 32, (2, 140)).astype(np.int32)

    states, expected = (
        apply(
            Transformer(cfg), params, None, None, ids, enable_dropout=False, method="decode_hidden"
        )
        for cfg in (CONFIG, config)
    )
    np.testing.assert_allclose(states, expected, atol=1e-5)


ON_A_MESH = """
import jax, numpy as np
from faith_jax.models.attention.masks import AttentionMask
from faith_jax.models.partitioning import Partitioner, make_partitioner
from tests.models.attention.test_splash import *

splash_attention.INTERPRET = True
mask = AttentionMask(tokens(4), tokens(4), causal=True)
partitioner = make_partitioner(CONFIG.replace(attention_kernel="blocks", num_heads=8), 4)
assert dict(partitioner.mesh.shape) == {"data": 2, "model": 4}
with partitioner.active():
    for kv_heads in (2, 8):  # which do not, and do, divide over 4 devices
        arrays = heads(0, 4, 8), heads(1, 4, kv_heads), heads(2, 4, kv_heads)
        assert_equal_to_plain(arrays, mask)
        text = outputs_and_gradients.lower(arrays, mask, arrays[0]).as_text()
        assert "manual_computation" in text
"""


@pytest.mark.slow
@pytest.mark.devices
def test_rows_and_heads_are_split_over_the_mesh():
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", ON_A_MESH],
        cwd=REPOSITORY,
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "alibi"}, "'blocks' for a model with position biases"),
        ({"positions": "relative_bias"}, "'blocks' for a model with position biases"),
        (
            {"dropout_rate": 0.1, "broadcast_dropout": False},
            "'blocks', or attention_dropout_rate = 0 in place of 0.1",
        ),
    ],
)
def test_what_the_kernel_lacks_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        CONFIG.replace(**changes)
    CONFIG.replace(dropout_rate=0.1)
    CONFIG.replace(dropout_rate=0.1, broadcast_dropout=False, attention_dropout_rate=0.0)


def test_other_devices_than_tpus_are_refused():
    with pytest.raises(ConfigError, match="runs on TPUs only, and these devices are cpus"):
        make_partitioner(CONFIG)


@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs libtpu: the extra tpu-plan"
)
def test_it_compiles_for_tpus_and_takes_less_memory_traffic():
    sizes = {"num_decoder_layers": 2, "emb_dim": 256, "num_heads": 4, "mlp_dim": 512}
    bindings = [f"config.TransformerConfig.{name}={size}" for name, size in sizes.items()]
    bindings += ["MODEL=@transformer.Transformer()", "NUM_PARTITIONS=2", "BATCH_SIZE=4"]
    bindings += ["TASK_FEATURE_LENGTHS={'inputs': 1024, 'targets': 1024}", "DECODING=None"]
    files = ("models/llama_65b.gin", "npov_generate_prompt_tune.gin")
    plans = {}
    for kernel in ("blocks", "splash"):
        recipe = Recipe(files, [*bindings, f"ATTENTION_KERNEL='{kernel}'"])
        with CompilingProcess(recipe, parse_topology("v5e:2x2")) as ask:
            plans[kernel] = ask(PlanRequest(evaluations=False))
    blocks, splash = (plans[kernel]["work"]["step"]["bytes_moved"] for kernel in plans)
    assert splash < blocks
