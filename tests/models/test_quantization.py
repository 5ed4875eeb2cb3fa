"""Matrices in 8 bits: what is stored, and that layers compute with it."""

import sys

import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.quantization import dequantized, is_quantized, quantized
from tests.models import families
from tests.models.tiny import TINY, VOCAB_SIZE, model_and_params

CASES = {
    "t5": TINY,
    "tied": TINY.replace(logits_via_embedding=True),
    "stacked": TINY.replace(scan_layers=True),
    "gpt2": families.GPT2,
    "bert": families.BERT,
}


def stored(params):
    """Returns parameters in 8 bits, and the same as float32."""
    partitioner = make_partitioner(TINY)
    small = quantized(params, partitioner.replicated, partitioner)

    def as_float(x):
        return dequantized(x) if is_quantized(x) else x

    return small, jax.tree.map(as_float, small, is_leaf=is_quantized)


def test_a_column_or_row_is_rounded_by_its_largest_value():
    kernel = np.array([[1.0, -0.5], [-127.5, 0.25], [63.6, 0.1]], np.float32)
    params = {"layer": {"kernel": kernel, "bias": kernel[0]}, "embedder": {"embedding": kernel.T}}
    small, floats = stored(params)
    np.testing.assert_allclose(small["layer"]["kernel"].scale, [[1, 0.5 / 127.5]], rtol=1e-6)
    np.testing.assert_array_equal(small["layer"]["kernel"].qvalue[:, 0], [1, -128, 64])
    rounded = np.array(floats["layer"]["kernel"])
    assert (np.abs(rounded - kernel) <= np.array([1, 0.5 / 127.5]) / 2 * (1 + 1e-5)).all()
    np.testing.assert_array_equal(floats["embedder"]["embedding"], rounded.T)
    np.testing.assert_array_equal(small["layer"]["bias"], kernel[0])


def test_each_layer_of_a_stack_has_its_own_scales():
    rng = np.random.default_rng(0)
    kernels = rng.normal(size=(2, 5, 3)).astype(np.float32)
    together, _ = stored({"layers": {"kernel": kernels}})
    for number, kernel in enumerate(kernels):
        alone, _ = stored({"layers": {"kernel": kernel}})
        for name in ("qvalue", "scale"):
            part = getattr(together["layers"]["kernel"], name)[number]
            np.testing.assert_array_equal(part, getattr(alone["layers"]["kernel"], name))


def test_soft_prompts_stay_as_they_are():
    _, params = model_and_params(TINY.replace(encoder_prompt_length=3))
    small, _ = stored(params)
    np.testing.assert_array_equal(
        small["encoder_prompt"]["embedding"], params["encoder_prompt"]["embedding"]
    )


@pytest.mark.parametrize("name", CASES)
def test_layers_compute_with_what_is_stored(name):
    config = CASES[name]
    module, params = model_and_params(config)
    small, floats = stored(params)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(small))
    assert size < 0.6 * sum(leaf.nbytes for leaf in jax.tree.leaves(floats))  # scales are many here
    tokens = np.random.default_rng(1).integers(2, VOCAB_SIZE, (2, 6)).astype(np.int32)

    @jax.jit
    def states(params):
        variables = {"params": params}
        if config.is_encoder_only:
            return module.apply(variables, tokens, False, method="states")
        encoded = inputs = None
        if not config.is_decoder_only:
            inputs = tokens
            encoded = module.apply(variables, tokens, None, False, method="encode")
        hidden = module.apply(
            variables, encoded, inputs, tokens, enable_dropout=False, method="decode_hidden"
        )
        return module.apply(variables, hidden, method="logits")

    np.testing.assert_allclose(states(small), states(floats), rtol=1e-5, atol=1e-5)
    assert np.abs(states(small) - states(params)).max() > 1e-3  # it is not the same


def test_without_qwix_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "qwix", None)
    with pytest.raises(ConfigError, match=r"needs qwix: .*faith_jax\[int8\]"):
        quantized({}, None, None)
