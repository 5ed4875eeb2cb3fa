import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core.types import StepScores
from faith_jax.decoding.beam import beam_search
from tests.decoding import reference
from tests.decoding.toy import chain, config_of, hash_tables, hashed_logits, history_model, table

RULES = [False, True, "never"]


def padded(tokens, length):
    return [*tokens, *[0] * (length - len(tokens))]


def assert_same(result, example, expected, config, atol=2e-5):
    """Compares the n-best list of an example with hypotheses of the reference."""
    shape = (-1, config.num_return)
    tokens = np.asarray(result.tokens).reshape(*shape, config.max_length)[example]
    expected = expected[: config.num_return]
    np.testing.assert_array_equal(
        tokens[: len(expected)], [padded(h.tokens, config.max_length) for h in expected]
    )
    for name in ("score", "log_prob"):
        values = np.asarray(getattr(result, name)).reshape(shape)[example]
        expected_values = [getattr(h, name) for h in expected]
        np.testing.assert_allclose(values[: len(expected)], expected_values, atol=atol, rtol=1e-5)
        assert np.all(values[len(expected) :] == -np.inf)
    lengths = np.asarray(result.length).reshape(shape)[example]
    missing = config.num_return - len(expected)
    np.testing.assert_array_equal(lengths, [len(h.tokens) for h in expected] + [0] * missing)
    assert not tokens[len(expected) :].any()


def exhaustive(logits, config):
    """Returns all hypotheses of a table of logits [positions, vocab, vocab], best first."""
    vocab, hypotheses = logits.shape[-1], []
    for tokens in itertools.product(range(vocab), repeat=config.max_length):
        ends = [i for i, t in enumerate(tokens) if t in config.end_ids]
        tokens = tokens[: ends[0] + 1] if ends else tokens
        previous = (0, *tokens)
        total = sum(reference.log_softmax(logits[i, previous[i]])[t] for i, t in enumerate(tokens))
        if len(tokens) >= config.min_length:
            score = reference.penalised(total, len(tokens), config.length_penalty)
            hypotheses.append(reference.Hypothesis(tokens, score, total))
    return sorted(set(hypotheses), key=lambda h: -h.score)


@functools.partial(jax.jit, static_argnums=(1, 2))
def search_table(logits, rows, config):
    """Compiles once for tables of one shape."""
    return beam_search(table(logits, rows), config)


@pytest.mark.parametrize(("rule", "penalty"), [(False, 1.5), (True, -0.5), ("never", 0.0)])
def test_a_beam_as_wide_as_all_sequences_finds_what_enumeration_finds(rule, penalty):
    vocab, depth = 3, 4
    rng = np.random.default_rng(0)
    width = vocab**depth
    config = config_of(
        max_length=depth,
        num_beams=width,
        num_return=20,
        length_penalty=penalty,
        early_stopping=rule,
        min_length=2,
    )
    logits = rng.normal(size=(2, depth, vocab, vocab)) * 2
    result = search_table(logits, 2 * width, config)
    for example in range(2):
        assert_same(result, example, exhaustive(logits[example], config)[:20], config)


@functools.partial(jax.jit, static_argnums=(1, 2))
def search_random(tables, examples, config):
    """Searches with a model over whole histories whose logits differ between examples."""
    # Examples differ in their first token.
    first = jnp.repeat(jnp.arange(examples, dtype=jnp.int32), config.num_beams)
    return beam_search(history_model(tables, len(first))._replace(first_tokens=first), config)


def assert_random_same(seed, examples, vocab, config):
    """Compares a search of each example with the plain one; returns the search's result."""
    length = config.max_length + 1
    tables = hash_tables(length, vocab, seed)

    @functools.cache
    def scores(example, tokens):
        history = np.full((1, length), -1)
        history[0, : len(tokens) + 1] = (example, *tokens)
        log_probs = reference.log_softmax(hashed_logits(history, tables)[0])
        return log_probs, log_probs

    result = search_random(tables, examples, config)
    for example in range(examples):
        expected = reference.beam_search(functools.partial(scores, example), config)
        assert_same(result, example, expected, config)
    return result


@pytest.mark.parametrize(
    ("rule", "width", "penalty"), [(False, 3, -1.0), (True, 5, 2.0), ("never", 5, 2.0)]
)
def test_beam_search_equals_the_plain_python_one(rule, width, penalty):
    config = config_of(
        max_length=7,
        num_beams=width,
        num_return=width,
        length_penalty=penalty,
        early_stopping=rule,
        eos_id=(1, 4) if width % 2 else 1,
        min_length=3 if penalty == 2.0 else 0,
    )
    for seed in (width * 7 + int(penalty), 50):
        assert_random_same(seed, 3, 11, config)


def test_the_rules_of_early_stopping_differ():
    outcomes = set()
    for rule in RULES:
        config = config_of(max_length=8, num_beams=2, early_stopping=rule, length_penalty=1.0)
        texts = [np.asarray(assert_random_same(seed, 2, 6, config).tokens) for seed in range(12)]
        outcomes.add(np.stack(texts).tobytes())
    assert len(outcomes) == 3


def test_equal_scores_are_ranked_by_beam_and_token():
    config = config_of(max_length=2, num_beams=4, num_return=4, length_penalty=0.0)
    result = search_table(np.zeros((1, 5, 5)), 4, config)
    # The end token's candidate is second of the first step; then ties go by beam and token.
    np.testing.assert_array_equal(result.tokens, [[[1, 0], [0, 0], [0, 1], [0, 2]]])


def test_other_examples_of_the_batch_change_nothing():
    logits = np.random.default_rng(8).normal(size=(4, 6, 9, 9)) * 2
    config = config_of(max_length=6, num_beams=3, num_return=2)
    together = jax.device_get(search_table(logits, 12, config))
    for example in range(4):
        alone = jax.device_get(search_table(logits[example], 3, config))
        for single, many in zip(alone, together, strict=True):
            np.testing.assert_allclose(single[0], many[example], rtol=1e-6)


def test_impossible_hypotheses_are_none():
    # Only 0 -> 2 -> end and 0 -> 2 -> 2 -> ... exist.
    impossible = np.full((4, 4), -np.inf)
    impossible[0, 2] = impossible[2, 1] = impossible[2, 2] = 0.0
    model = chain(np.zeros((4, 4)), 4)

    def step(tokens, cache):
        scored, cache = model.step(tokens, cache)
        return StepScores(jnp.asarray(impossible, jnp.float32)[tokens], scored.log_probs), cache

    config = config_of(max_length=3, num_beams=4, num_return=4, early_stopping=True)
    result = jax.jit(lambda: beam_search(model._replace(step=step), config))()
    np.testing.assert_array_equal(result.tokens, [[[2, 1, 0], [2, 2, 1], [2, 2, 2], [0, 0, 0]]])
    np.testing.assert_array_equal(result.length, [[2, 3, 3, 0]])
    np.testing.assert_array_equal(result.score, [[0, 0, 0, -np.inf]])
    step_log_prob = -np.log(4)
    np.testing.assert_allclose(
        result.log_prob, [[2 * step_log_prob, 3 * step_log_prob, 3 * step_log_prob, -np.inf]]
    )


def test_the_loop_stops_when_every_example_is_closed():
    probabilities = np.full((6, 6), 0.01)
    probabilities[:, 1] = 0.95
    steps = []
    model = chain(np.log(probabilities), 6)

    def step(tokens, cache):
        jax.debug.callback(lambda: steps.append(1))
        return model.step(tokens, cache)

    config = config_of(max_length=40, num_beams=2, early_stopping=True)
    jax.jit(lambda: beam_search(model._replace(step=step), config))().tokens.block_until_ready()
    jax.effects_barrier()
    assert len(steps) == 2


def test_wide_numbers_change_nothing():
    logits = np.random.default_rng(1).normal(size=(6, 9, 9))
    config = config_of(max_length=6, num_beams=3, num_return=2)
    expected = search_table(logits, 3, config)
    with jax.enable_x64(True):
        results = search_table(logits, 3, config)
    for actual, expected_part in zip(results, expected, strict=True):
        np.testing.assert_allclose(actual, expected_part, rtol=1e-6)
