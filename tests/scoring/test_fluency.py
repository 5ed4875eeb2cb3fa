import math

import numpy as np
import pytest

from faith_jax.inference import load_model
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.scoring.reference import padded

RESPONSES = ["Tea is a leaf.", "It grows on the hill.", " "]


def test_gpt2_predicts_all_tokens_behind_the_one_that_ends_texts(gpt2):
    model, tokenizer = load_model(gpt2), load_vocabulary(gpt2)
    ids = [tokenizer.eos_id, *tokenizer.encode(RESPONSES[0])]
    expected = np.mean(model.next_log_probs(padded(ids))[0, : len(ids) - 1])
    values = [s.value for s in load_scorer("fluency", model=gpt2).score(["x"] * 3, RESPONSES)]
    assert values[0] == pytest.approx(expected, abs=1e-5)
    assert math.isnan(values[2])


def test_neither_grounding_nor_history_counts(t5):
    scorer = load_scorer("fluency", model=t5)
    values = [s.value for s in scorer.score(["x", "y"], RESPONSES[:2])]
    with_history = scorer.score(["Tea.", "Hills."], RESPONSES[:2], [["Hi."], ["Ho."]])
    assert values == pytest.approx([score.value for score in with_history], abs=1e-6)
    assert values[0] != pytest.approx(values[1])
    assert max(values) < 0
