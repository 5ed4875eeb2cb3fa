import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from faith_jax.models.chunked_logits import summed_losses, target_statistics
from faith_jax.models.output_layer import OutputLayer

BATCH, LENGTH, EMBED, VOCAB = 3, 11, 5, 13


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(BATCH, LENGTH, EMBED)).astype(np.float32)
    kernel = rng.normal(size=(EMBED, VOCAB)).astype(np.float32)
    targets = rng.integers(0, VOCAB, (BATCH, LENGTH)).astype(np.int32)
    return hidden, kernel, targets


def test_two_tokens_by_hand():
    # Logits are (1, 3) and the target is the second token.
    statistics = jax.jit(
        lambda kernel: target_statistics(
            jnp.ones((1, 1, 1)), OutputLayer(kernel), jnp.asarray([[1]])
        )
    )(np.float32([[1.0, 3.0]]))
    assert float(statistics.logit[0, 0]) == 3.0
    np.testing.assert_allclose(statistics.log_z, [[np.log(np.exp(1) + np.exp(3))]], rtol=1e-6)
    np.testing.assert_allclose(statistics.mean_logit, [[2.0]])
    np.testing.assert_allclose(statistics.log_prob, [[-np.log(1 + np.exp(-2))]], rtol=1e-6)


def test_equals_the_whole_softmax(arrays):
    hidden, kernel, targets = arrays
    expected = scipy.special.log_softmax(hidden @ kernel, axis=-1)
    expected = np.take_along_axis(expected, targets[..., None], -1)[..., 0]
    stats = jax.jit(lambda *x: target_statistics(x[0], OutputLayer(x[1]), targets))(hidden, kernel)
    np.testing.assert_allclose(stats.log_prob, expected, atol=1e-5)


def test_pieces_change_neither_values_nor_gradients(arrays):
    hidden, kernel, targets = arrays
    bound = 4 * BATCH * VOCAB * 4  # the last piece of four positions is not full

    def total(hidden, kernel, max_logits_bytes):
        stats = target_statistics(hidden, OutputLayer(kernel), targets, max_logits_bytes)
        return jnp.sum(stats.log_prob**2 + stats.log_z + 0.5 * stats.mean_logit)

    graded = jax.jit(jax.value_and_grad(total, (0, 1)), static_argnums=2)
    whole, pieces = graded(hidden, kernel, 2**30), graded(hidden, kernel, bound)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5), whole, pieces)


def test_no_array_of_all_logits_is_made(arrays):
    """At a bound of one position, no intermediate is as large as [batch, length, vocab]."""
    hidden, kernel, targets = arrays
    bound = 4 * BATCH * VOCAB
    jaxpr = jax.make_jaxpr(lambda h, k: target_statistics(h, OutputLayer(k), targets, bound))(
        hidden, kernel
    )
    assert f"{BATCH},{LENGTH},{VOCAB}" not in str(jaxpr)
    # The pieces are present: with another print format of shapes, the check above would be empty.
    assert f"{BATCH},1,{VOCAB}" in str(jaxpr)


@pytest.mark.parametrize(
    ("positions", "layer"),
    [(4, "kernel"), (LENGTH, "kernel"), (1, "embedding"), (4, "softcap and bias")],
)
def test_summed_losses_have_the_plain_values_and_gradients(arrays, positions, layer):
    hidden, kernel, targets = arrays
    weights = np.random.default_rng(1).uniform(size=targets.shape).astype(np.float32)
    bias = np.linspace(-1, 1, VOCAB, dtype=np.float32)

    def made(kernel, bias):
        if layer == "kernel":
            return OutputLayer(kernel)
        if layer == "embedding":
            return OutputLayer(kernel.T, is_embedding=True, scale=0.5)
        return OutputLayer(kernel, bias=bias, softcap=3.0)

    def measure(statistics, weights):
        losses = statistics.log_z + 0.1 * statistics.log_z**2 - statistics.logit
        smoothed = losses - 0.2 * statistics.mean_logit
        return {"loss": jnp.sum(weights * smoothed), "plain": jnp.sum(weights * losses)}

    def summed(hidden, kernel, bias):
        bound = 4 * BATCH * VOCAB * positions
        sums = summed_losses(measure, hidden, made(kernel, bias), targets, weights, bound)
        return 3.0 * sums["loss"] + sums["plain"], sums

    def plain(hidden, kernel, bias):
        sums = measure(target_statistics(hidden, made(kernel, bias), targets), weights)
        return 3.0 * sums["loss"], sums

    @jax.jit
    def computed(*arguments):
        gradients, expected = (
            jax.grad(function, (0, 1, 2), has_aux=True)(*arguments) for function in (summed, plain)
        )
        return gradients, expected, summed(*arguments)[1]

    gradients, expected, values = computed(hidden, kernel, bias)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-5)
    jax.tree.map(close, gradients, expected)
    jax.tree.map(close, values, expected[1])


@pytest.mark.parametrize("is_trained", [True, False])
def test_summed_losses_compute_logits_once(arrays, is_trained):
    """Besides the logits, a trained layer's kernel is in two products, a frozen layer's in one."""
    hidden, kernel, targets = arrays
    bound = 4 * BATCH * VOCAB

    def loss(hidden, kernel):
        def measure(statistics, weights):
            return {"loss": -jnp.sum(weights * statistics.log_prob)}

        weights = jnp.ones(targets.shape)
        return summed_losses(measure, hidden, OutputLayer(kernel), targets, weights, bound)["loss"]

    gradient = jax.jit(jax.grad(loss, (0, 1) if is_trained else 0))
    compiled = gradient.lower(hidden, kernel).compile().as_text()
    assert compiled.count(" dot(") == (3 if is_trained else 2)
    assert f"{BATCH},{LENGTH},{VOCAB}" not in compiled
    assert f"{BATCH},{VOCAB}]" in compiled or f"{BATCH},1,{VOCAB}" in compiled


def test_sums_other_than_the_loss_alone_have_no_gradient(arrays):
    hidden, kernel, targets = arrays

    def other(hidden):
        def measure(statistics, weights):
            return {"loss": jnp.sum(statistics.log_z), "other": jnp.sum(statistics.logit)}

        weights = jnp.ones(targets.shape)
        return summed_losses(measure, hidden, OutputLayer(kernel), targets, weights)["other"]

    np.testing.assert_array_equal(jax.jit(jax.grad(other))(hidden), np.zeros(hidden.shape))


@pytest.mark.parametrize(("device", "positions"), [("cpu", 65), ("TPU v4", 261), (None, 261)])
def test_bound_is_that_of_the_mesh(device, positions):
    """64 MiB on CPUs, else 256 MiB, regardless of where it is traced."""
    own_device = jax.sharding.Mesh(jax.devices()[:1], ("data",)).abstract_mesh.abstract_device
    kind = device and dataclasses.replace(own_device, device_kind=device)
    mesh = jax.sharding.AbstractMesh((1,), ("data",), abstract_device=kind)
    hidden, kernel = (jax.ShapeDtypeStruct(s, jnp.float32) for s in ((8, 512, 4), (4, 32128)))
    targets = jnp.zeros((8, 512), jnp.int32)
    with jax.sharding.use_abstract_mesh(mesh):
        jaxpr = jax.make_jaxpr(lambda h, k: target_statistics(h, OutputLayer(k), targets))(
            hidden, kernel
        )
    assert f"8,{positions},32128]" in str(jaxpr)
