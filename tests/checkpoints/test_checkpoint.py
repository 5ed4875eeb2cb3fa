import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.checkpoints.checkpoint import (
    check_params,
    content_hash,
    expected_shapes,
    flatten,
    stack_layers,
    unflatten,
    unstack_layers,
)
from faith_jax.core.errors import CheckpointError
from tests.checkpoints.synthetic import tiny_params
from tests.models.tiny import TINY

PARAMS = tiny_params(TINY)


@given(
    st.dictionaries(
        st.sampled_from(["encoder", "decoder", "deep/encoder"]), st.integers(1, 12), min_size=1
    ),
    st.integers(0, 100),
)
@settings(max_examples=25, deadline=None)
def test_unstack_layers_is_the_inverse_of_stack_layers(stacks, seed):
    rng = np.random.default_rng(seed)
    flat = {"token_embedder/embedding": rng.normal(size=(3, 2))}
    for stack, count in stacks.items():
        flat[f"{stack}/norm/scale"] = rng.normal(size=2)
        for i in range(count):
            flat[f"{stack}/layers_{i}/mlp/kernel"] = rng.normal(size=(2, 3))
            flat[f"{stack}/layers_{i}/scale"] = rng.normal(size=2)
    stacked = flatten(stack_layers(unflatten(flat)))
    for stack, count in stacks.items():
        kernel = stacked[f"{stack}/layers/mlp/kernel"]
        assert kernel.shape == (count, 2, 3)
        # The tenth layer follows the ninth, not the first.
        last = f"{stack}/layers_{count - 1}/mlp/kernel"
        np.testing.assert_array_equal(np.asarray(kernel)[-1], flat[last])
    back = flatten(unstack_layers(unflatten(stacked)))
    assert sorted(back) == sorted(flat)
    for name, array in flat.items():
        np.testing.assert_array_equal(back[name], array)


def test_content_hash_does_not_depend_on_form():
    digest = content_hash(PARAMS)
    assert len(digest) == 64
    assert content_hash(stack_layers(PARAMS)) == digest
    assert content_hash(dict(reversed(PARAMS.items()))) == digest
    assert content_hash(PARAMS | {"encoder_prompt": {"embedding": np.ones((5, 8))}}) == digest
    turned = {n: np.asfortranarray(a) for n, a in flatten(PARAMS).items()}
    assert content_hash(unflatten(turned)) == digest


@pytest.mark.parametrize(
    "change",
    [
        lambda flat, name: {name: np.nextafter(flat[name], np.float32(9))},
        lambda flat, name: {name: flat[name].astype(ml_dtypes.bfloat16)},
        lambda flat, name: {name: flat[name].reshape(-1)},
        lambda flat, name: {"encoder/other": flat[name]},
    ],
)
def test_content_hash_depends_on_every_value_dtype_shape_and_name(change):
    flat = flatten(PARAMS)
    name = "decoder/layers_1/mlp/wo/kernel"
    assert content_hash(unflatten(flat | change(flat, name))) != content_hash(PARAMS)


def test_content_hash_is_that_of_checkpoints_already_written():
    params = {"a": {"b": np.arange(3, dtype=np.float32)}, "c": np.ones((1, 2), ml_dtypes.bfloat16)}
    # SHA-256 of b"a/b float32 (3,)\n" b"\0\0\0\0\0\0\x80?\0\0\0@" b"c bfloat16 (1, 2)\n"
    # b"\x80?\x80?", computed with sha256sum.
    assert content_hash(params) == HASH


HASH = "f0ac389db69447fdd35a1632145619770b004383d804cad3c11ca6a14247e3d1"


@pytest.mark.parametrize("scan", [False, True])
def test_expected_shapes_are_those_of_the_parameters(scan):
    params = stack_layers(PARAMS) if scan else PARAMS
    shapes = expected_shapes(TINY.replace(scan_layers=scan))
    assert shapes == {name: array.shape for name, array in flatten(params).items()}
    check_params(TINY.replace(scan_layers=scan), params)


def test_check_params_names_the_parameter():
    flat = flatten(PARAMS)
    name = "encoder/layers_0/mlp/wi_1/kernel"
    without = {n: a for n, a in flat.items() if n != name}
    with pytest.raises(CheckpointError, match=rf"here: the parameter {name} \(8, 16\) is missing"):
        check_params(TINY, unflatten(without), "here")
    transposed = flat | {name: flat[name].T}
    with pytest.raises(CheckpointError, match=rf"{name} has the shape \(16, 8\) .* \(8, 16\)"):
        check_params(TINY, unflatten(transposed))
    more = flat | {"encoder/bias": np.ones(3)}
    with pytest.raises(CheckpointError, match=r"encoder/bias \(3,\) is not one of the model's"):
        check_params(TINY, unflatten(more))
