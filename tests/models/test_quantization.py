"""Matrices in 8 bits: their stored form, their products, and layers that compute with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.quantization import Int8Matrix, product, quantize_params, round_to_int8
from tests.models import families
from tests.models.tiny import TINY, VOCAB_SIZE, model_and_params
from tests.quick import slow_except

rounded_to_8_bits = jax.jit(round_to_int8, static_argnums=1)
multiplied = jax.jit(product, static_argnums=2)
CASES = {
    "t5": TINY.replace(num_encoder_layers=1, num_decoder_layers=1),
    "gpt2": families.GPT2.replace(num_decoder_layers=1),  # its output layer is the embedding
    "stacked": families.GPT2.replace(scan_layers=True),
    "bert": families.BERT.replace(num_encoder_layers=1),
}


def place_in_8_bits(params):
    partitioner = make_partitioner(TINY)
    return quantize_params(params, partitioner.replicated, partitioner)


def test_a_column_or_row_is_rounded_by_its_largest_value():
    kernel = np.array([[1.0, -0.5], [-127.0, 0.25], [63.6, 0.1]], np.float32)
    params = {"layer": {"kernel": kernel, "bias": kernel[0]}, "embedder": {"embedding": kernel.T}}
    small = place_in_8_bits(params)
    stored = small["layer"]["kernel"]
    np.testing.assert_allclose(stored.scale, [[1, 0.5 / 127]], rtol=1e-6)
    np.testing.assert_array_equal(stored.values[:, 0], [1, -127, 64])
    rounded = np.array(stored.to_float())
    assert (np.abs(rounded - kernel) <= np.array([1, 0.5 / 127]) / 2 * (1 + 1e-5)).all()
    np.testing.assert_array_equal(small["embedder"]["embedding"].to_float(), rounded.T)
    np.testing.assert_array_equal(small["layer"]["bias"], kernel[0])


def test_each_layer_of_a_stack_has_its_own_scales():
    rng = np.random.default_rng(0)
    kernels = rng.normal(size=(2, 5, 3)).astype(np.float32)
    together = place_in_8_bits({"layers": {"kernel": kernels}})
    for number, kernel in enumerate(kernels):
        alone = place_in_8_bits({"layers": {"kernel": kernel}})
        for name in ("values", "scale"):
            part = getattr(together["layers"]["kernel"], name)[number]
            np.testing.assert_array_equal(part, getattr(alone["layers"]["kernel"], name))


def test_soft_prompts_stay_as_they_are():
    _, params = model_and_params(TINY.replace(encoder_prompt_length=3))
    small = place_in_8_bits(params)
    np.testing.assert_array_equal(
        small["encoder_prompt"]["embedding"], params["encoder_prompt"]["embedding"]
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_a_product_is_of_whole_numbers_and_scales(axis):
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(2, 3, 300)).astype(np.float32) * [[[1], [100], [0]]]
    floats = rng.normal(size=(300, 7) if axis == 0 else (7, 300)).astype(np.float32)
    matrix = rounded_to_8_bits(floats, axis)
    scale = np.abs(inputs).max(-1, keepdims=True) / 127
    whole = np.round(inputs / np.where(scale, scale, 1)).astype(np.int64)
    columns = np.asarray(matrix.values, np.int64)
    columns = columns if axis == 0 else columns.T
    expected = (whole @ columns) * scale * np.asarray(matrix.scale).reshape(-1)
    inputs = inputs.astype(np.float32)
    result = np.asarray(multiplied(inputs, matrix, axis))
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    assert (result[:, 2] == 0).all()  # zeros, and no division by zero
    # A position's result does not depend on what is computed beside it.
    alone = multiplied(inputs[1:, :1], matrix, axis)
    np.testing.assert_array_equal(alone, result[1:, :1])


@pytest.mark.parametrize("axis", [0, 1])
def test_the_gradient_is_that_of_the_product_without_rounding(axis):
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(4, 6)).astype(np.float32)
    floats = rng.normal(size=(6, 5) if axis == 0 else (5, 6)).astype(np.float32)
    matrix = rounded_to_8_bits(floats, axis)
    factors = rng.normal(size=(4, 5)).astype(np.float32)
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(product(x, matrix, axis) * factors)))(inputs)
    kernel = np.asarray(matrix.to_float())
    kernel = kernel if axis == 0 else kernel.T
    np.testing.assert_allclose(gradient, factors @ kernel.T, rtol=1e-5)


def test_logits_of_a_few_tokens_are_those_of_their_rows():
    rng = np.random.default_rng(4)
    embedding = rounded_to_8_bits(rng.normal(size=(9, 4)).astype(np.float32), 1)
    hidden = rng.normal(size=(3, 4)).astype(np.float32)

    @jax.jit
    def found(embedding):
        few = OutputLayer(embedding, True).logits_of(hidden, np.array([7, 0]))
        return few, embedding.take(np.array([-1, 20]), 0), embedding.to_float()

    few, embedded, whole = map(np.asarray, found(embedding))
    np.testing.assert_allclose(few, hidden @ whole[[7, 0]].T, rtol=1e-5)
    np.testing.assert_array_equal(embedded, whole[[0, 8]])


@pytest.mark.parametrize("name", slow_except(CASES, ["gpt2"]))
def test_layers_compute_with_what_is_stored(name):
    config = CASES[name]
    module, params = model_and_params(config)
    small = place_in_8_bits(params)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(small))
    assert size < 0.6 * sum(leaf.nbytes for leaf in jax.tree.leaves(params))  # scales are many here
    floats = jax.tree.map(
        lambda x: x.to_float() if isinstance(x, Int8Matrix) else x,
        small,
        is_leaf=lambda x: isinstance(x, Int8Matrix),
    )
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

    computed, exact = np.array(states(small)), np.array(states(floats))
    # Inputs of products are rounded, too: to half of 1/127 of the largest of each position.
    assert 0 < np.abs(computed - exact).mean() < 0.03 * exact.std()
    correlation = np.corrcoef(computed.ravel(), np.array(states(params)).ravel())[0, 1]
    assert 0.995 < correlation < 1
