import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.models.chunked_logits import target_statistics
from faith_jax.models.config import TransformerConfig
from faith_jax.models.output_layer import OutputLayer
from faith_jax.models.transformer import Transformer
from faith_jax.training.objectives import CrossEntropy, cross_entropy

CONFIG = TransformerConfig(
    vocab_size=24, emb_dim=8, num_heads=2, head_dim=4, mlp_dim=16, num_encoder_layers=1,
    num_decoder_layers=1, mlp_activations=("gelu", "linear"), dropout_rate=0.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    module = Transformer(CONFIG)
    tokens = jnp.ones((1, 4), jnp.int32)
    variables = module.init(jax.random.key(0), tokens, tokens, tokens, enable_dropout=False)
    return module, variables["params"]


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


def logits_of(module, params, batch):
    return module.apply(
        {"params": params},
        batch["encoder_input_tokens"],
        batch["decoder_input_tokens"],
        batch["decoder_target_tokens"],
        enable_dropout=False,
    )


@pytest.mark.parametrize(("smoothing", "z_loss"), [(0.0, 0.0), (0.2, 0.1)])
def test_equals_the_sum_over_the_vocabulary(model, batch, smoothing, z_loss):
    module, params = model
    logits = np.asarray(logits_of(module, params, batch), np.float64)
    log_z = np.log(np.exp(logits).sum(-1))
    log_p = logits - log_z[..., None]
    q = np.full(logits.shape, smoothing / (CONFIG.vocab_size - 1))
    targets = batch["decoder_target_tokens"]
    np.put_along_axis(q, targets[..., None], 1 - smoothing, -1)
    entropy = -(q * np.log(np.maximum(q, 1e-300))).sum(-1)
    expected = -(q * log_p).sum(-1) - entropy + z_loss * log_z**2
    loss, metrics, _ = CrossEntropy(smoothing, z_loss)(module, params, batch, None)
    weights = targets > 0
    np.testing.assert_allclose(loss, (expected * weights).sum(), rtol=1e-5)
    assert float(metrics["weight"]) == weights.sum() == 15
    likelihood = -(np.take_along_axis(log_p, targets[..., None], -1)[..., 0] * weights).sum()
    np.testing.assert_allclose(metrics["negative_log_likelihood"], likelihood, rtol=1e-5)


def test_a_perfect_model_has_no_smoothed_loss():
    # p equals q: log-odds of log(0.9 / (0.1 / 2)) for the target among three tokens.
    odds = np.log(0.9 / 0.05)
    layer = OutputLayer(jnp.asarray([[odds, 0.0, 0.0]], jnp.float32))
    statistics = target_statistics(jnp.ones((1, 1, 1)), layer, jnp.asarray([[0]]))
    np.testing.assert_allclose(cross_entropy(statistics, 3, 0.1), [[0.0]], atol=1e-6)


def test_rows_of_padding_add_nothing(model, batch):
    module, params = model
    alone = {k: v[:3] for k, v in batch.items()}
    with_row = CrossEntropy(z_loss=0.1)(module, params, batch, None)[0]
    without = CrossEntropy(z_loss=0.1)(module, params, alone, None)[0]
    np.testing.assert_allclose(with_row, without, rtol=1e-6)


def test_loss_weights_replace_the_mask(model, batch):
    module, params = model
    weights = np.zeros((4, 6), np.float32)
    weights[0, 2] = 2.0
    weighted = batch | {"decoder_loss_weights": weights}
    loss, metrics, _ = CrossEntropy()(module, params, weighted, None)
    logits = logits_of(module, params, batch)
    expected = -2.0 * jax.nn.log_softmax(logits)[0, 2, batch["decoder_target_tokens"][0, 2]]
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert float(metrics["weight"]) == 2.0
