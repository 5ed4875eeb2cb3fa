import itertools
import logging
import types

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.inference import load_model, row_likelihoods
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow, Shape, rung
from faith_jax.models.output_layer import OutputLayer
from faith_jax.training import metrics
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
    monkeypatch.setattr(metrics, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
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
    assert len({shape for shape in causal if shape.decoder <= 512}) == 6
    pairs = {
        row_likelihoods.encoder_decoder_shape(LikelihoodRow([0] * i, [0] * t))
        for i in range(1, 513, 7)
        for t in range(1, 513, 7)
    }
    assert len(pairs) == 6
    assert [rung(n, (4, 8)) for n in (1, 4, 5, 8, 9, 12, 13, 17, 25)] == [
        4, 4, 8, 8, 12, 12, 16, 24, 32,
    ]  # fmt: skip


_SHAPES = [Shape(0, 32), Shape(0, 64), Shape(64, 64), Shape(128, 64), Shape(64, 512)]


@given(st.dictionaries(st.sampled_from(_SHAPES), st.integers(1, 40)), st.integers(1, 2000))
def test_rows_fill_up_the_batches_of_longer_shapes(counts, tokens):
    def size(shape):
        return max(1, tokens // sum(shape))

    def batches(rows):
        return sum(-(-len(numbers) // size(shape)) for shape, numbers in rows.items())

    shape_of, rows = [], {}
    for shape, count in counts.items():
        rows[shape] = list(range(len(shape_of), len(shape_of) + count))
        shape_of += [shape] * count
    filled = row_likelihoods.fill_batches(rows, size)
    assert sorted(n for numbers in filled.values() for n in numbers) == list(range(len(shape_of)))
    assert set(filled) <= set(rows)
    assert batches(filled) <= batches(rows)
    for shape, numbers in filled.items():
        for number in numbers:
            assert shape_of[number].encoder <= shape.encoder
            assert shape_of[number].decoder <= shape.decoder


def test_three_rows_find_room_in_the_next_batch():
    rows = {Shape(0, 32): [0, 1, 2], Shape(0, 64): [3, 4, 5, 6, 7]}
    assert row_likelihoods.fill_batches(rows, lambda shape: 256 // shape.decoder) == {
        Shape(0, 64): [3, 4, 5, 6, 7, 0, 1, 2]
    }


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


def test_labels_of_one_token_are_the_softmax_of_their_log_probs(model):
    inputs = [[5, 6, 7], [8], [9, 4] * 9]
    engine = LikelihoodEngine(model, tokens_per_batch=256)
    found = engine.label_probabilities(inputs, [[3], [4], [11]])
    rows = [LikelihoodRow(row, [label]) for row in inputs for label in (3, 4, 11)]
    scores = np.concatenate(engine.log_probs(rows)).reshape(3, 3)
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_labels_behind_a_prefix(model):
    inputs, prefix = [[5, 6, 7], [8], [9, 4] * 9], [12, 5]
    engine = LikelihoodEngine(model, tokens_per_batch=256)
    found = engine.label_probabilities(inputs, [[3], [4]], prefix)
    longer = engine.label_probabilities(inputs, [[3, 9], [4]], prefix)
    for row, short, long in zip(inputs, found, longer, strict=True):
        whole = [one_by_one(model, LikelihoodRow(row, [*prefix, *y])) for y in ([3], [4], [3, 9])]
        yes, no, pair = (scores[len(prefix) :].mean() for scores in whole)
        np.testing.assert_allclose(short[0], 1 / (1 + np.exp(no - yes)), atol=1e-5)
        np.testing.assert_allclose(long[0], 1 / (1 + np.exp(no - pair)), atol=1e-5)


def test_longer_labels_are_compared_by_their_mean(model):
    inputs, labels = [[5, 6, 7], [8]], [[3], [4, 10]]
    engine = LikelihoodEngine(model, tokens_per_batch=256)
    found = engine.label_probabilities(inputs, labels)
    means = np.array(
        [
            [one_by_one(model, LikelihoodRow(row, label)).mean() for label in labels]
            for row in inputs
        ]
    )
    expected = np.exp(means) / np.exp(means).sum(1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)
