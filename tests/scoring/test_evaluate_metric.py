import math

import pytest

from faith_jax.scoring.evaluate_metric import EvaluateMetric
from faith_jax.scoring.registry import load_scorer


def test_batches_are_scored_together_and_forgotten():
    metric = EvaluateMetric(load_scorer("token_precision"))
    metric.add(prediction="Hot tea", reference=["Tea is", "hot."])
    metric.add_batch(predictions=["Cold tea", "!"], references=["Tea.", "Tea."])
    found = metric.compute(predictions=["Milk"], references=["Tea."])
    assert found == {"token_precision": 0.5, "scores": [1.0, 0.5, None, 0.0]}
    with pytest.raises(ValueError, match="no predictions to score"):
        metric.compute()


def test_all_undefined():
    metric = EvaluateMetric(load_scorer("token_precision"))
    found = metric.compute(predictions=[""], references=["Tea."])
    assert found == {"token_precision": None, "scores": [None]}
    assert not math.isnan(metric.compute(predictions=["a b"], references=["b"])["token_precision"])


def test_lengths_that_differ_add_nothing():
    metric = EvaluateMetric(load_scorer("bleu"))
    with pytest.raises(ValueError, match="2 predictions, 1 references"):
        metric.add_batch(predictions=["a", "b"], references=["c"])
    with pytest.raises(ValueError, match="no predictions"):
        metric.compute()
