"""PMI-Decode seen with PMI-Faith: what it finds depends more on the document."""

import numpy as np
import pytest

from faith_jax.inference import load_model
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow
from tests.scoring import tiny_models

ROWS, LENGTH = 24, 6


@pytest.fixture(scope="module", params=["gpt2", "bart"])
def model(request, tmp_path_factory):
    return load_model(
        tiny_models.write_model(tmp_path_factory.mktemp("model") / "m", request.param)
    )


def pmi_faith(model, inputs, others, result):
    """The mean over rows of log P(response | document, history) - log P(response | history)."""
    tokens, lengths = np.asarray(result.tokens), np.asarray(result.length)
    responses = [row[:length].tolist() for row, length in zip(tokens, lengths, strict=True)]
    sides = []
    for side in (inputs, others):
        rows = [LikelihoodRow(i.tolist(), r) for i, r in zip(side, responses, strict=True)]
        sides.append([x.sum() for x in LikelihoodEngine(model).log_probs(rows)])
    return float(np.mean(np.subtract(*sides))), sides[0]


@pytest.mark.slow
def test_responses_have_more_pmi_with_their_documents(model):
    rng = np.random.default_rng(0)
    history = rng.integers(5, model.config.vocab_size, (ROWS, 5))
    document = rng.integers(5, model.config.vocab_size, (ROWS, 8))
    inputs = np.concatenate([document, history], axis=1)
    greedy = model.decode(inputs, max_length=LENGTH)
    plain, log_probs = pmi_faith(model, inputs, history, greedy)
    np.testing.assert_allclose(greedy.log_prob, log_probs, atol=1e-3)
    for options in ({}, {"num_beams": 3}):
        found = model.decode_pmi(inputs, history, max_length=LENGTH, **options)
        more, log_probs = pmi_faith(model, inputs, history, found)
        assert more > plain
        np.testing.assert_allclose(found.log_prob, log_probs, atol=1e-3)
