import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.models.chunked_logits import target_statistics
from faith_jax.models.output_layer import OutputLayer
from faith_jax.training.objectives import CrossEntropy, cross_entropy
from tests.models import tiny

CONFIG = tiny.TINY.replace(num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.0)
MODULE, PARAMS = tiny.model_and_params(CONFIG)


@functools.partial(jax.jit, static_argnums=0)
def measured(objective, batch):
    return objective(MODULE, PARAMS, batch, None)[0]


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    targets = rng.integers(2, 24, (4, 6)).astype(np.int32)
    targets[1, 3:] = 0
    targets[3, :] = 0
    return {
        "encoder_input_tokens": rng.integers(2, 24, (4, 5)).astype(np.int32),
        "decoder_input_tokens": np.pad(targets[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": targets,
    }


def logits_of(batch):
    names = ("encoder_input_tokens", "decoder_target_tokens", "decoder_input_tokens")
    return np.asarray(tiny.logits(MODULE, PARAMS, *(batch[name] for name in names)), np.float64)


@pytest.mark.parametrize(("smoothing", "z_loss"), [(0.0, 0.0), (0.2, 0.1)])
def test_equals_the_sum_over_the_vocabulary(batch, smoothing, z_loss):
    logits = logits_of(batch)
    log_z = np.log(np.exp(logits).sum(-1))
    log_p = logits - log_z[..., None]
    q = np.full(logits.shape, smoothing / (CONFIG.vocab_size - 1))
    targets = batch["decoder_target_tokens"]
    np.put_along_axis(q, targets[..., None], 1 - smoothing, -1)
    entropy = -(q * np.log(np.maximum(q, 1e-300))).sum(-1)
    expected = -(q * log_p).sum(-1) - entropy + z_loss * log_z**2
    metrics = measured(CrossEntropy(smoothing, z_loss), batch)
    weights = targets > 0
    np.testing.assert_allclose(metrics["loss"], (expected * weights).sum(), rtol=1e-5)
    assert float(metrics["weight"]) == weights.sum() == 15
    likelihood = -(np.take_along_axis(log_p, targets[..., None], -1)[..., 0] * weights).sum()
    np.testing.assert_allclose(metrics["negative_log_likelihood"], likelihood, rtol=1e-5)


def test_a_perfect_model_has_no_smoothed_loss():
    # p equals q: log-odds of log(0.9 / (0.1 / 2)) for the target among three tokens.
    odds = np.log(0.9 / 0.05)

    @jax.jit
    def loss(kernel):
        layer, target = OutputLayer(kernel), jnp.asarray([[0]])
        return cross_entropy(target_statistics(jnp.ones((1, 1, 1)), layer, target), 3, 0.1)

    np.testing.assert_allclose(loss(np.float32([[odds, 0.0, 0.0]])), [[0.0]], atol=1e-6)


def test_loss_weights_replace_the_mask(batch):
    weights = np.zeros((4, 6), np.float32)
    weights[0, 2] = 2.0
    metrics = measured(CrossEntropy(), batch | {"decoder_loss_weights": weights})
    logits, target = logits_of(batch)[0, 2], batch["decoder_target_tokens"][0, 2]
    expected = -2.0 * (logits[target] - np.log(np.exp(logits).sum()))
    np.testing.assert_allclose(metrics["loss"], expected, rtol=1e-5)
    assert float(metrics["weight"]) == 2.0
