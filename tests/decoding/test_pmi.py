import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.decoding.config import PMIConfig
from faith_jax.decoding.pmi import pmi_decode, pmi_scores
from faith_jax.decoding.search import decode
from tests.decoding import reference, toy
from tests.decoding.test_beam import assert_same
from tests.decoding.toy import hash_tables, hashed_logits, history_model

VOCAB, LENGTH, EXAMPLES = 9, 6, 3
# First tokens of the examples with and without the document: they stand for the document.
WITH, WITHOUT = np.arange(EXAMPLES), np.arange(EXAMPLES) + EXAMPLES


def config_of(alpha=0.25, p=0.6, **options):
    return toy.config_of(max_length=LENGTH, pmi=PMIConfig(alpha, p), **options)


def tables_of(seed):
    return hash_tables(LENGTH + 1, VOCAB, seed)


def model_of(tables, first_tokens, copies):
    first = jnp.repeat(jnp.asarray(first_tokens, jnp.int32), copies)
    return history_model(tables, len(first))._replace(first_tokens=first)


@functools.partial(jax.jit, static_argnums=1)
def decode_pairs(tables, config, with_document=WITH, without_document=WITHOUT):
    """Decodes with the PMI-Decode model whose branches are told apart by their first tokens."""
    both = jnp.stack([with_document, without_document], axis=1).reshape(-1)
    model = pmi_decode(model_of(tables, both, config.copies), config.pmi, config.copies)
    return decode(model, toy.keys(EXAMPLES), config)


def reference_model(config, seed, example):
    """(tokens) -> scores and log-probabilities, each computed from the whole history."""

    @functools.cache
    def log_probs(first, tokens):
        history = np.full((1, LENGTH + 1), -1)
        history[0, : len(tokens) + 1] = (first, *tokens)
        return reference.log_softmax(hashed_logits(history, tables_of(seed))[0])

    def banned(tokens):
        banned_ids = set(config.end_ids) if len(tokens) + 1 < config.min_length else set()
        if config.no_repeat_ngram:  # of one token
            banned_ids |= {int(WITH[example]), *tokens}
        return banned_ids

    branches = [functools.partial(log_probs, int(first[example])) for first in (WITH, WITHOUT)]
    return reference.pmi_model(*branches, config.pmi, banned)


scored = jax.jit(pmi_scores, static_argnums=2)


@pytest.mark.parametrize(("alpha", "p"), [(0.25, 0.6), (1.0, 0.3), (0.0, 0.5), (1, 1)])
def test_scores_are_the_papers_formula_over_the_documents_nucleus(alpha, p):
    rng = np.random.default_rng(0)
    branches = [
        np.stack([reference.log_softmax(row) for row in rng.normal(size=(5, 30)) * 2])
        for _ in range(2)
    ]
    scores = scored(*(jnp.asarray(b, jnp.float32) for b in branches), PMIConfig(alpha, p))
    expected = [reference.pmi_scores(a, b, alpha, p) for a, b in zip(*branches, strict=True)]
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_a_token_that_only_the_document_allows_is_best_but_finite():
    with_document = jnp.log(jnp.asarray([[0.5, 0.4, 0.1]]))
    without = jnp.asarray([[0.0, -jnp.inf, -jnp.inf]])
    scores = np.asarray(scored(with_document, without, PMIConfig(0.25, 0.8)))[0]
    assert scores.argmax() == 1
    assert np.isfinite(scores[:2]).all()
    assert scores[2] == -np.inf
    plain = scored(with_document, without, PMIConfig(0.0, 1.0))
    np.testing.assert_array_equal(plain, with_document)


@pytest.mark.parametrize("seed", range(3))
def test_greedy_search_equals_brute_force(seed):
    config = config_of()
    result = decode_pairs(tables_of(seed), config)
    for example in range(EXAMPLES):
        expected = reference.greedy_search(reference_model(config, seed, example), config)
        assert_same(result, example, [expected], config)


def test_the_nucleus_is_of_the_tokens_that_limits_leave():
    """As in the authors' code, where processors of repeated n-grams come first."""
    seed = 0
    config = config_of(0.5, num_beams=3, num_return=3, no_repeat_ngram=1, min_length=4)
    for example in range(EXAMPLES):
        expected = reference.beam_search(reference_model(config, seed, example), config)
        assert_same(decode_pairs(tables_of(seed), config), example, expected, config)
        best = expected[0].tokens
        assert len({*best, int(WITH[example])}) == len(best) + 1


@pytest.mark.parametrize("seed", range(2))
def test_beam_search_equals_brute_force(seed):
    # The nucleus often holds fewer tokens than there are beams.
    config = config_of(num_beams=4, num_return=4)
    result = decode_pairs(tables_of(seed), config)
    for example in range(EXAMPLES):
        expected = reference.beam_search(reference_model(config, seed, example), config)
        assert_same(result, example, expected, config)


def test_with_alpha_0_and_p_1_it_is_the_plain_search():
    seed = 1
    config = config_of(alpha=0.0, p=1.0, num_beams=3, num_return=3)
    results = decode_pairs(tables_of(seed), config)
    for example in range(EXAMPLES):
        model = reference_model(config, seed, example)
        expected = reference.beam_search(lambda tokens, m=model: (m(tokens)[1],) * 2, config)
        assert_same(results, example, expected, config)
