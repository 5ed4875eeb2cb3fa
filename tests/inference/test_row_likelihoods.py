import itertools
import logging
import types

import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core import progress
from faith_jax.inference import load_model, row_likelihoods
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow
from faith_jax.models.output_layer import OutputLayer
from tests.scoring import tiny_models

RNG = np.random.default_rng(0)


def random_rows(count, vocab, longest=40):
    def ids(low):
        return RNG.integers(3, vocab, RNG.integers(low, longest)).tolist()

    return [LikelihoodRow(ids(1), ids(0)) for _ in range(count)]


@pytest.fixture(scope="module", params=["gpt2", "bart"])
def model(request, tmp_path_factory):
    return load_model(
        tiny_models.write_model(tmp_path_factory.mktemp("model") / "m", request.param)
    )


def one_by_one(model, row):
    """The log-probabilities of a row's targets, from the whole softmax of that row alone."""
    if model.config.is_decoder_only:
        tokens = np.array([[*row.inputs, *row.targets]])
        return model.next_log_probs(tokens)[0, len(row.inputs) - 1 :]
    return model.target_log_probs(np.array([row.inputs]), np.array([row.targets]))[0]


def test_every_row_as_if_it_were_alone(model):
    rows = random_rows(14, model.config.vocab_size, 24)
    engine = LikelihoodEngine(model, tokens_per_batch=512)
    found = engine.log_probs(rows)
    for row, scores in zip(rows, found, strict=True):
        assert scores.shape == (len(row.targets),)
        if row.targets:
            np.testing.assert_allclose(scores, one_by_one(model, row), atol=2e-5)


def test_long_scoring_tells_how_far_it_is(model, monkeypatch, caplog):
    clock = itertools.count(step=6.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    caplog.set_level(logging.INFO, logger="faith_jax")
    rows = [LikelihoodRow([5, 6, 7], [8] * 40)] * 4 + [LikelihoodRow([5], [])]
    LikelihoodEngine(model, tokens_per_batch=128).log_probs(rows)
    assert caplog.messages[-1].startswith("likelihood of row 4/4  ")


def test_order_batches_and_pieces_change_nothing(model):
    rows = random_rows(12, model.config.vocab_size)
    expected = LikelihoodEngine(model, tokens_per_batch=256).log_probs(rows)
    pieces = 4 * model.config.vocab_size * 5
    engine = LikelihoodEngine(model, tokens_per_batch=600, max_logits_bytes=pieces)
    backwards = engine.log_probs(rows[::-1])[::-1]
    for scores, others in zip(expected, backwards, strict=True):
        np.testing.assert_allclose(scores, others, atol=2e-5)


def test_rows_of_all_lengths_take_at_most_six_shapes():
    lengths = range(1, 513)
    causal = {row_likelihoods.causal_shape(LikelihoodRow([0] * (n // 2), [0] * n)) for n in lengths}
    assert len({shape for shape in causal if shape[1] <= 512}) == 6
    pairs = {
        row_likelihoods.encoder_decoder_shape(LikelihoodRow([0] * i, [0] * t))
        for i in range(1, 513, 7)
        for t in range(1, 513, 7)
    }
    assert len(pairs) == 6


def test_compilations_are_counted(model):
    """As many as JAX has compiled, of which the same rows again need none."""
    row_likelihoods._score.clear_cache()
    engine = LikelihoodEngine(model, tokens_per_batch=512)
    # Whole batches of two shapes, so that no row finds room in a batch of the other.
    rows = [LikelihoodRow([5] * 4, [6] * length) for length in 16 * [3] + 4 * [90]]
    engine.log_probs(rows)
    assert engine.num_compilations == row_likelihoods._score._cache_size() == 2
    engine.log_probs(rows[::-1])
    assert engine.num_compilations == row_likelihoods._score._cache_size() == 2


def test_what_does_not_count_is_not_computed():
    hidden = jnp.full((4, 2), jnp.nan).at[0].set(jnp.array([1.0, 2.0]))
    layer = OutputLayer(jnp.array([[1.0, 0.0, 3.0], [0.5, 1.0, 0.0]]))
    sources, targets = jnp.array([0, 3, 3, 3]), jnp.array([2, 0, 0, 0])
    found = row_likelihoods.token_log_probs(hidden, layer, sources, targets, np.int32(1), 12)
    # Logits 2, 2, 3; the bound of 12 bytes is one token's logits.
    expected = 3 - np.log(2 * np.exp(2) + np.exp(3))
    np.testing.assert_allclose(found, [expected, 0, 0, 0], rtol=1e-6)
