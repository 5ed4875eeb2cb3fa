import functools

import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.input.layout import pair_features
from faith_jax.training.label_cross_entropy import LabelCrossEntropy
from tests.models import families, tiny

CONFIG = families.ROBERTA.with_dropout(0.0).replace(num_encoder_layers=1)


@pytest.fixture(scope="module")
def model():
    return tiny.model_and_params(CONFIG)


def batch():
    """Four rows, of which the last has no weight."""
    tokens = tiny.rows(7, 3, 5, 2, width=7, seed=3)
    return {
        "encoder_input_tokens": np.where(tokens == 0, CONFIG.pad_id, tokens),
        "labels": np.asarray([0, 1, 0, 1], np.int32),
        "label_weights": np.asarray([1, 1, 1, 0], np.float32),
    }


def log_probs_of(model):
    module, params = model
    tokens = batch()["encoder_input_tokens"]
    logits = tiny.apply(module, params, tokens, enable_dropout=False, method="classify")
    logits = np.asarray(logits, np.float64)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_equals_the_sum_over_classes(model, smoothing):
    module, params = model
    log_probs = log_probs_of(model)
    classes = log_probs.shape[1]
    q = np.full(log_probs.shape, smoothing / (classes - 1))
    q[np.arange(4), batch()["labels"]] = 1 - smoothing
    entropy = -(q * np.log(np.maximum(q, 1e-300))).sum(1)
    expected = (-(q * log_probs).sum(1) - entropy)[:3].sum()
    metrics, rows = jax.jit(lambda p: LabelCrossEntropy(smoothing)(module, p, batch(), None))(
        params
    )
    np.testing.assert_allclose(metrics["loss"], expected, rtol=1e-5)
    assert rows == {}
    likelihood = -log_probs[np.arange(3), batch()["labels"][:3]].sum()
    np.testing.assert_allclose(metrics["negative_log_likelihood"], likelihood, rtol=1e-5)
    hits = (log_probs.argmax(1) == batch()["labels"])[:3].sum()
    assert (float(metrics["accuracy"]), float(metrics["weight"])) == (hits, 3)


def test_token_types_reach_the_model():
    module, params = tiny.model_and_params(
        families.BERT.with_dropout(0.0).replace(num_encoder_layers=1)
    )
    row = {"inputs": [2, 7, 3, 9, 8, 3], "second": 3, "label": 1}
    rows = pair_features([row], 8, module.config)
    np.testing.assert_array_equal(rows["token_types"], [[0, 0, 0, 1, 1, 1, 1, 1]])
    call = functools.partial(tiny.apply, module, params, method="classify", enable_dropout=False)
    logits = call(rows["encoder_input_tokens"], token_types=rows["token_types"])
    metrics, _ = jax.jit(lambda p: LabelCrossEntropy()(module, p, rows, None))(params)
    expected = -np.asarray(jax.nn.log_softmax(logits))[0, 1]
    np.testing.assert_allclose(metrics["loss"], expected, rtol=1e-5)
    without = call(rows["encoder_input_tokens"])
    assert np.abs(without - logits).max() > 1e-2


def test_wrong_settings():
    with pytest.raises(ConfigError, match=r"label_smoothing: expected a share in \[0, 1\), got 1"):
        LabelCrossEntropy(1.0)
