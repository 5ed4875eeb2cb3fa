import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.models.transformer import Transformer
from faith_jax.training.in_batch_negatives import InBatchNegatives, in_batch_log_probs
from faith_jax.training.label_cross_entropy import LabelCrossEntropy
from tests.models import families, tiny

CONFIG = families.BERT.with_dropout(0.0).replace(label_names=(), num_encoder_layers=1)
MODULE = Transformer(CONFIG)


def batch():
    """Five queries; passage 3 is a copy of passage 1, and row 4 has no weight."""
    passages = tiny.rows(5, 6, 3, 6, 4, width=6, seed=1)
    passages[3] = passages[1]
    return {
        "encoder_input_tokens": tiny.rows(4, 7, 5, 3, 6, width=7, seed=2),
        "passage_tokens": passages,
        "label_weights": np.array([1, 1, 1, 1, 0], np.float32),
    }


def test_log_probs_by_hand():
    rng = np.random.default_rng(0)
    queries, passages = rng.normal(size=(2, 3, 4)).astype(np.float32)
    is_other = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 1]], bool)
    log_probs = np.asarray(jax.jit(in_batch_log_probs)(queries, passages, is_other))
    products = queries @ passages.T
    for row, kept in enumerate(([0, 1, 2], [1], [0, 2])):
        expected = products[row, kept] - np.log(np.exp(products[row, kept]).sum())
        np.testing.assert_allclose(log_probs[row, kept], expected, rtol=1e-5, atol=1e-6)
        assert np.isneginf(np.delete(log_probs[row], kept)).all()


@pytest.mark.parametrize("two", [False, True])
def test_own_passages_against_those_of_the_batch(two):
    config = CONFIG.replace(question_encoder=two)
    module, params = tiny.model_and_params(config)
    rows = batch()
    encoders = {
        "encoder_input_tokens": params["question_encoder"] if two else params,
        "passage_tokens": {k: v for k, v in params.items() if k != "question_encoder"},
    }
    alone = Transformer(config.without_heads)
    vectors = [
        np.asarray(tiny.apply(alone, tree, rows[name], enable_dropout=False, method="states"))[:, 0]
        for name, tree in encoders.items()
    ]
    products = vectors[0] @ vectors[1].T
    # Neither a copy of the own passage counts against it, nor the row without weight.
    kept = [[0, 1, 2, 3], [0, 1, 2], [0, 1, 2, 3], [0, 2, 3]]
    losses = [
        np.log(np.exp(products[n, cols] - products[n, n]).sum()) for n, cols in enumerate(kept)
    ]
    hits = [n == cols[np.argmax(products[n, cols])] for n, cols in enumerate(kept)]
    metrics, arrays = jax.jit(lambda p: InBatchNegatives()(module, p, rows, None))(params)
    np.testing.assert_allclose(metrics["loss"], sum(losses), rtol=1e-4)
    assert arrays == {}
    assert (float(metrics["accuracy"]), float(metrics["weight"])) == (sum(hits), 4)


def test_each_objective_has_its_own_rows():
    with pytest.raises(ConfigError, match="needs queries and passages"):
        InBatchNegatives().check(MODULE, frozenset())
    with pytest.raises(ConfigError, match="'passages' are of InBatchNegatives"):
        LabelCrossEntropy().check(MODULE, frozenset({"passages"}))
    assert InBatchNegatives().couples_rows
