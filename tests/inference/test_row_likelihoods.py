import functools
import itertools
import logging
import types

import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core import progress
from faith_jax.core.settings import sharing_programs
from faith_jax.inference import CausalModel, EncoderDecoderModel, row_likelihoods
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow
from faith_jax.models.output_layer import OutputLayer
from tests.models import tiny
from tests.quick import slow_except
from tests.scoring.tiny_models import FAMILIES

T5 = tiny.TINY.replace(num_encoder_layers=1, num_decoder_layers=1)
CAUSAL = T5.replace(num_encoder_layers=0)
GPT2, BART = (T5.replace(**FAMILIES[name] | {"max_positions": 128}) for name in ("gpt2", "bart"))
MODELS = {
    "t5": T5.replace(
        encoder_prompt_length=3,
        decoder_prompt_length=2,
        attention_block_length=32,
        scan_layers=True,
    ),
    "bart": BART,
    "gpt2": GPT2.replace(decoder_prompt_length=4),
    "alibi": CAUSAL.replace(positions="alibi", attention_block_length=32),
    "sliding_window": CAUSAL.replace(
        positions="rotary", num_kv_heads=1, sliding_window=8, sliding_window_layers=(0,)
    ),
}


def random_rows(seed=0):
    """Rows that mostly share three inputs; a few have no targets."""
    rng = np.random.default_rng(seed)

    def ids(low, high):
        return rng.integers(3, tiny.VOCAB_SIZE, rng.integers(low, high)).tolist()

    shared = [ids(3, 60) for _ in range(3)]
    alone = [LikelihoodRow(ids(1, 60), ids(0, 40)) for _ in range(8)]
    answers = [LikelihoodRow(shared[n % 3], ids(1, 40)) for n in range(9)]
    return [*alone, LikelihoodRow(shared[0], [7]), *answers, LikelihoodRow(shared[0], [7])]


def opened(name):
    config = MODELS[name]
    _, params = tiny.model_and_params(config)
    return (CausalModel if config.is_decoder_only else EncoderDecoderModel)(config, params)


@functools.cache
def plain(name):
    config = {"gpt2": GPT2, "bart": BART}[name]
    _, params = tiny.model_and_params(config)
    return (CausalModel if config.is_decoder_only else EncoderDecoderModel)(config, params)


@pytest.fixture
def model():
    """A decoder; tests that differ for an encoder-decoder take both."""
    return plain("gpt2")


BOTH = pytest.mark.parametrize("model", [plain("gpt2"), plain("bart")], ids=["gpt2", "bart"])


def filled_up(rows, pad_id):
    longest = max(map(len, rows))
    return np.array([[*row, *[pad_id] * (longest - len(row))] for row in rows])


def one_by_one(model, rows):
    """The log-probabilities of rows' targets computed plainly, with one line per row."""
    if model.config.is_decoder_only:
        scores = model.next_log_probs(filled_up([[*row.inputs, *row.targets] for row in rows], 0))
        starts = [len(row.inputs) - 1 for row in rows]
    else:
        sides = ([row.inputs for row in rows], [[*row.start, *row.targets] for row in rows])
        scores = model.target_log_probs(*(filled_up(side, model.pad_id) for side in sides))
        starts = [len(row.start) for row in rows]
    return [x[s : s + len(r.targets)] for x, s, r in zip(scores, starts, rows, strict=True)]


@pytest.mark.parametrize("name", slow_except(MODELS, ["t5", "gpt2", "sliding_window"]))
def test_every_row_as_if_it_were_alone(name):
    model, rows = opened(name), random_rows()
    if not model.config.is_decoder_only:  # tokens before the targets that are only read
        rows = [row._replace(start=[8, 9][: n % 3]) for n, row in enumerate(rows)]
    log_probs = LikelihoodEngine(model, tokens_per_batch=512).log_probs(rows)
    for scores, expected in zip(log_probs, one_by_one(model, rows), strict=True):
        assert scores.shape == expected.shape
        np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_long_scoring_tells_how_far_it_is(model, monkeypatch, caplog):
    clock = itertools.count(step=6.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    caplog.set_level(logging.INFO, logger="faith_jax")
    rows = [LikelihoodRow([5, 6, 7], [8] * 40)] * 4 + [LikelihoodRow([5], [])]
    LikelihoodEngine(model, tokens_per_batch=128).log_probs(rows)
    messages = [message for message in caplog.messages if message.startswith("likelihood of row")]
    assert messages[-1].startswith("likelihood of row 4/4  ")


def test_order_batches_and_pieces_change_nothing(model, monkeypatch):
    rows = random_rows(1)
    expected = LikelihoodEngine(model, tokens_per_batch=256).log_probs(rows)
    pieces = 4 * model.config.vocab_size * 5
    monkeypatch.setattr(row_likelihoods, "_MAX_LOGITS_BYTES_ON_CPU", pieces)
    engine = LikelihoodEngine(model, tokens_per_batch=600)
    backwards = engine.log_probs(rows[::-1])[::-1]
    for scores, row_scores in zip(expected, backwards, strict=True):
        np.testing.assert_allclose(scores, row_scores, atol=1e-5)


@pytest.mark.parametrize("name", slow_except(["gpt2", "bart"], ["gpt2"]))
def test_windows_change_nothing(name, monkeypatch):
    model = plain(name)
    rows = random_rows(2)
    engine = LikelihoodEngine(model, tokens_per_batch=512)
    expected = engine.log_probs(rows)
    read = []
    monkeypatch.setattr(engine._packer, "window", 7)
    for name in ("_build_line_batches", "_build_block_batches"):
        take = getattr(engine, name)
        monkeypatch.setattr(
            engine, name, lambda rows, window, take=take: read.append(window) or take(rows, window)
        )
    for scores, row_scores in zip(expected, engine.log_probs(rows), strict=True):
        np.testing.assert_allclose(scores, row_scores, atol=1e-5)
    assert [len(window) for window in read] == [7, 7, len(rows) - 14]


@BOTH
def test_an_input_of_many_rows_is_computed_once(model):
    inputs = [5, 6, 7] * 20
    rows = [LikelihoodRow(inputs, [number, 9, number]) for number in range(10, 26)]
    engine = LikelihoodEngine(model, tokens_per_batch=512)
    engine.log_probs(rows)
    own_tokens = 16 * (2 if model.config.is_decoder_only else 3)
    assert engine._tokens == len(inputs) + own_tokens
    assert engine.padding == 1 - engine._tokens / engine._slots


def test_compilations_and_padding_are_told(model, caplog):
    """The count equals JAX's own; the same rows again compile nothing."""
    caplog.set_level(logging.INFO, logger="faith_jax")
    row_likelihoods._score_targets.clear_cache()
    engine = LikelihoodEngine(model, tokens_per_batch=512)
    rows = random_rows(3)
    engine.log_probs(rows)
    compiled = engine.num_compilations
    assert compiled == row_likelihoods._score_targets._cache_size() > 0
    sizes = f"{compiled} size{'s' if compiled > 1 else ''} of batches"
    summary = f"compiled for {sizes}; {engine.padding:.1%} of what it computes is padding"
    assert caplog.messages[-1].endswith(summary)
    engine.log_probs(rows[::-1])
    assert compiled == engine.num_compilations == row_likelihoods._score_targets._cache_size()
    assert sum("compiled" in message for message in caplog.messages) == 1


def test_small_calls_share_programs(model):
    """Calls like those of a service: each has few rows of arbitrary lengths."""
    rows = random_rows(4)
    rows.sort(key=lambda row: -len(row.inputs) - len(row.targets))
    engine = LikelihoodEngine(model)
    calls = [rows[0:3], *(rows[start : start + 2] for start in range(3, len(rows), 2))]
    with sharing_programs():
        scores = [scores for call in calls for scores in engine.log_probs(call)]
    for of_row, expected in zip(scores, one_by_one(model, rows), strict=True):
        np.testing.assert_allclose(of_row, expected, atol=1e-5)
    assert engine.num_compilations <= 3 < len(calls)


def test_what_does_not_count_is_not_computed():
    hidden = jnp.full((4, 2), jnp.nan).at[0].set(jnp.array([1.0, 2.0]))
    layer = OutputLayer(jnp.array([[1.0, 0.0, 3.0], [0.5, 1.0, 0.0]]))
    sources, targets = jnp.array([0, 3, 3, 3]), jnp.array([2, 0, 0, 0])
    log_probs = row_likelihoods.token_log_probs(hidden, layer, sources, targets, np.int32(1), 12)
    # Logits 2, 2, 3; the bound of 12 bytes is one token's logits.
    expected = 3 - np.log(2 * np.exp(2) + np.exp(3))
    np.testing.assert_allclose(log_probs, [expected, 0, 0, 0], rtol=1e-6)
