"""Limits of what may come next, against plain Python and against enumeration."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import StepScores
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.limits import repeating
from faith_jax.decoding.search import decode
from tests.decoding import reference
from tests.decoding.toy import chain, config_of, hash_tables, hashed_logits, history_model, keys

VOCAB = 5


def banned_by_hugging_face(history, size):
    """The tokens that NoRepeatNGramLogitsProcessor forbids after a list of tokens."""
    if len(history) + 1 < size:
        return set()
    followed = {}
    for start in range(len(history) - size + 1):
        *begins, ends = history[start : start + size]
        followed.setdefault(tuple(begins), set()).add(ends)
    return followed.get(tuple(history[len(history) + 1 - size :]), set())


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_what_is_forbidden_is_what_hugging_face_forbids(size):
    rng = np.random.default_rng(size)
    responses = rng.integers(0, 3, (40, 7))
    prompt = rng.integers(0, 3, (40, 6))
    lengths = rng.integers(1, 7, 40)
    prompt[np.arange(6) < 6 - lengths[:, None]] = -1
    find = jax.jit(repeating, static_argnums=(3, 4))
    positions = np.arange(40, dtype=np.int32) % 8
    forbidden = np.asarray(find(prompt, responses, positions, size, VOCAB))
    for row in range(40):
        history = [*prompt[row][prompt[row] >= 0], *responses[row, : positions[row]]]
        expected = banned_by_hugging_face([int(t) for t in history], size)
        assert set(np.flatnonzero(forbidden[row])) == expected


def decoded(model, count, config):
    """Decodes in one program."""
    return jax.device_get(jax.jit(lambda: decode(model, keys(count), config))())


def model_of(prompt, rows, length, seed=0):
    """A model over whole histories with a prompt, and its scores as the reference takes them."""
    tables = hash_tables(length + 1, VOCAB, seed)
    model = history_model(tables, rows)
    first = np.full(rows, prompt[-1], np.int32)
    model = model._replace(first_tokens=first, prompt=np.tile(np.int32(prompt), (rows, 1)))

    @functools.cache
    def log_probs(tokens):
        history = np.full((1, length + 1), -1)
        history[0, : len(tokens) + 1] = (prompt[-1], *tokens)
        return reference.log_softmax(hashed_logits(history, tables)[0])

    return model, log_probs


def scores_of(log_probs, prompt, config):
    """The scores after some tokens, with all limits applied in order."""

    def scores(tokens):
        masked_scores = log_probs(tokens).copy()
        size, position = config.no_repeat_ngram, len(tokens)
        read = [t for t in (*prompt, *tokens) if t >= 0]
        if size:
            masked_scores[list(banned_by_hugging_face(read, size))] = -np.inf
        if position + 1 < config.min_length:
            masked_scores[1] = -np.inf
        for token, applies in (
            (config.forced_bos_id, position == 0),
            (config.forced_eos_id, position + 1 == config.max_length),
        ):
            if applies and token is not None:
                masked_scores[:] = -np.inf
                masked_scores[token] = 0.0
        return masked_scores, log_probs(tokens)

    return scores


LIMITS = [
    {"no_repeat_ngram": 1},
    {"no_repeat_ngram": 2, "min_length": 3, "forced_bos_id": 4, "forced_eos_id": 1},
]


PROMPTS = [(0,), (-1, 2, 3, 2, 3, 4)]


@pytest.mark.parametrize(("limits", "prompt"), [(LIMITS[0], PROMPTS[1]), (LIMITS[1], PROMPTS[0])])
def test_greedy_search_keeps_them(limits, prompt):
    config = config_of(max_length=7, **limits)
    model, log_probs = model_of(prompt, 1, 7)
    expected = reference.greedy_search(scores_of(log_probs, prompt, config), bare(config))
    result = decoded(model, 1, config)
    length = len(expected.tokens)
    if not np.isfinite(expected.score):  # nothing may be chosen any more: the row ends
        length -= 1
    assert result.tokens[0, :length].tolist() == list(expected.tokens[:length])
    np.testing.assert_allclose(result.score[0], expected.score, rtol=1e-4)
    assert int(result.length[0]) == length


@pytest.mark.parametrize(
    ("limits", "prompt", "width"),
    [(LIMITS[1], PROMPTS[1], 4), (LIMITS[0], PROMPTS[0], 2)],
)
def test_beam_search_keeps_them(limits, prompt, width):
    config = config_of(max_length=6, num_beams=width, num_return=width, **limits)
    model, log_probs = model_of(prompt, width, 6, seed=3)
    expected = reference.beam_search(scores_of(log_probs, prompt, config), bare(config))
    result = decoded(model, 1, config)
    tokens = np.asarray(result.tokens).reshape(width, -1)
    for row, hypothesis in zip(tokens, expected, strict=False):
        assert row[: len(hypothesis.tokens)].tolist() == list(hypothesis.tokens)
    scores = np.asarray(result.score).reshape(-1)[: len(expected)]
    np.testing.assert_allclose(scores, [h.score for h in expected], rtol=1e-4)
    log_prob = np.asarray(result.log_prob).reshape(-1)[: len(expected)]
    # Forced tokens have the model's own log-probability still.
    np.testing.assert_allclose(log_prob, [h.log_prob for h in expected], rtol=1e-4)


def bare(config):
    """The config without the limits that `scores_of` applies."""
    return config_of(
        max_length=config.max_length, num_beams=config.num_beams, num_return=config.num_return
    )


def test_no_sample_breaks_them():
    prompt, length = (-1, 2, 3), 8
    config = config_of(
        max_length=length, temperature=1.5, no_repeat_ngram=2, forced_bos_id=2, forced_eos_id=1
    )
    model, _ = model_of(prompt, 200, length)
    result = decoded(model, 200, config)
    tokens, lengths = np.asarray(result.tokens), np.asarray(result.length)
    assert len({row.tobytes() for row in tokens}) > 30
    for row, count in zip(tokens, lengths, strict=True):
        assert row[0] == 2
        assert row[count - 1] == 1  # by itself, or forced
        # The forced end may repeat an n-gram; nothing else does.
        pairs = list(itertools.pairwise([2, 3, *row[: min(count, length - 1)]]))
        assert len(set(pairs)) == len(pairs)


def test_where_only_a_repetition_may_be_chosen_the_models_next_best_token_is():
    log_probs = np.log(np.float32([0.05, 0.1, 0.25, 0.6]))
    only_three = np.where(np.arange(4) == 3, 0.0, -np.inf)
    model = chain(np.tile(log_probs, (4, 1)), 1)

    def step(tokens, cache):
        scored, cache = model.step(tokens, cache)
        return StepScores(jnp.asarray(only_three, jnp.float32)[None], scored.log_probs), cache

    config = config_of(max_length=3, no_repeat_ngram=1)
    result = decoded(model._replace(step=step), 1, config)
    np.testing.assert_array_equal(result.tokens, [[3, 2, 1]])
    np.testing.assert_allclose(result.score, [log_probs[2] + log_probs[1]], rtol=1e-6)


def test_several_last_tokens_leave_the_best_of_them():
    transition = np.zeros((VOCAB, VOCAB))
    transition[:, 2] = 3.0
    config = config_of(max_length=3, eos_id=(1, 4), forced_eos_id=[4, 1])
    result = decoded(chain(transition, 1), 1, config)
    # Both have the score 0; of equal ones the smaller is taken.
    np.testing.assert_array_equal(result.tokens, [[2, 2, 1]])
    np.testing.assert_allclose(result.score, 2 * reference.log_softmax(transition[0])[2], rtol=1e-5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("no_repeat_ngram", -1),
        ("forced_bos_id", -1),
        ("forced_bos_id", "<s>"),
        ("forced_eos_id", ()),
        ("forced_eos_id", (1, -2)),
    ],
)
def test_settings_out_of_range_are_errors_that_name_them(field, value):
    with pytest.raises(ConfigError, match=rf"^DecodingConfig\.{field}: expected "):
        DecodingConfig(**{field: value})


@pytest.mark.parametrize("field", ["forced_bos_id", "forced_eos_id"])
def test_forced_tokens_must_be_in_the_vocabulary(field):
    with pytest.raises(ConfigError, match=rf"{field}: expected .* vocabulary size of 9, got 9"):
        DecodingConfig(**{field: 9}).check_vocabulary(9)
