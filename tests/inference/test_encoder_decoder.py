import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.inference import (
    EncoderDecoderModel,
    base,
    bucket_length,
    encoder_decoder,
    shift_right,
)
from tests.models import tiny

CONFIG = tiny.TINY.replace(
    num_encoder_layers=1, num_decoder_layers=1, encoder_prompt_length=2, decoder_prompt_length=1
)
# Widths of two buckets: up to 16, and up to 24.
INPUTS = tiny.rows(24, 3, 17, 1, seed=1)
TARGETS = tiny.rows(19, 5, 2, 24, seed=2)


@pytest.fixture(scope="module")
def model():
    return EncoderDecoderModel(CONFIG, tiny.model_and_params(CONFIG)[1])


def test_a_model_shows_its_size(model):
    size = sum(leaf.size for leaf in jax.tree.leaves(model.params))
    assert repr(model).startswith(f"EncoderDecoderModel({size:,} parameters: 1+1 layers, emb_dim ")


def test_target_log_probs_are_the_log_softmax_of_the_logits(model):
    logits = model.logits(INPUTS, shift_right(TARGETS))
    assert logits.shape == (4, 24, tiny.VOCAB_SIZE)
    assert logits.dtype == np.float32
    log_softmax = np.asarray(jax.nn.log_softmax(logits))
    expected = np.take_along_axis(log_softmax, TARGETS[..., None], -1)[..., 0]
    log_probs = model.target_log_probs(INPUTS, TARGETS)
    np.testing.assert_allclose(log_probs, np.where(TARGETS > 0, expected, 0), atol=2e-5)
    assert np.all(log_probs[TARGETS > 0] < 0)


def test_padding_and_buckets_change_nothing(model):
    inputs = np.where(np.arange(24) < 3, INPUTS, 0)
    expected = model.target_log_probs(inputs, TARGETS)
    for length in (3, 17):  # filled up to 16, and to 24
        log_probs = model.target_log_probs(inputs[:, :length], TARGETS)
        np.testing.assert_allclose(log_probs, expected, atol=2e-5)


def test_a_likelihood_is_that_of_the_generation(model):
    result = model.decode(INPUTS, max_length=8, temperature=1.0, seed=3)
    tokens = model.generate(INPUTS, max_length=8, temperature=1.0, seed=3)
    assert isinstance(tokens, np.ndarray)
    assert tokens.dtype == np.int32
    np.testing.assert_array_equal(tokens, result.tokens)
    inside = np.arange(8) < np.asarray(result.length)[:, None]
    rows = np.all((tokens > 0) | ~inside, axis=1)  # an untrained model may generate padding
    assert rows.sum() >= 2
    log_probs = model.target_log_probs(INPUTS, tokens).sum(axis=1)
    np.testing.assert_allclose(log_probs[rows], np.asarray(result.log_prob)[rows], rtol=1e-4)


@pytest.mark.slow
def test_one_compilation_a_bucket():
    # No other test compiled for it.
    config = CONFIG.replace(encoder_prompt_length=0, decoder_prompt_length=0)
    model = EncoderDecoderModel(config, tiny.model_and_params(config)[1])
    functions = (encoder_decoder._target_log_probs, base._generate)
    before = [f._cache_size() for f in functions]
    for length in range(1, 25):
        model.target_log_probs(INPUTS[:, :length], TARGETS[:, :1])
        model.generate(INPUTS[:, :length], max_length=2)
    assert [f._cache_size() - n for f, n in zip(functions, before, strict=True)] == [2, 2]


def test_integers_of_any_width_and_lists(model):
    expected = model.target_log_probs(INPUTS, TARGETS)
    for same in (INPUTS.astype(np.uint8), INPUTS.astype(np.int64), jnp.asarray(INPUTS)):
        np.testing.assert_array_equal(model.target_log_probs(same, TARGETS), expected)
    np.testing.assert_array_equal(
        model.target_log_probs(INPUTS.tolist(), TARGETS.tolist()), expected
    )


def test_an_empty_input_is_finite(model):
    empty = np.zeros_like(INPUTS)
    assert np.isfinite(model.target_log_probs(empty, TARGETS)).all()
    assert model.generate(empty, max_length=8, temperature=1.0).shape == (4, 8)


def calls(model, inputs, targets):
    return [
        lambda: model.logits(inputs, targets),
        lambda: model.target_log_probs(inputs, targets),
        lambda: model.generate(inputs),
    ]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.ones(5, np.int32), r"expected an integer array \[batch, length\], got int32 \(5,\)"),
        (np.ones((4, 3), np.float32), r"got float32 \(4, 3\)"),
        (np.ones((0, 3), np.int32), r"got int32 \(0, 3\)"),
        (np.ones((4, 0), np.int32), r"got int32 \(4, 0\)"),
        ([[1, 2], [3]], r"rows of different lengths.*pad them with 0"),
        (None, r"got object \(\)"),
        ([[1], [50], [2], [3]], r"token 50 at row 1, position 0 .* vocabulary of 50"),
        ([[1, 1], [5, -3], [2, 2], [3, 3]], r"token -3 at row 1, position 1"),
        (np.full((4, 1), 2**40), rf"token {2**40} at row 0"),
    ],
)
def test_inputs_that_are_none_are_errors(model, inputs, message):
    for call in calls(model, inputs, TARGETS):
        with pytest.raises(InputError, match=f"encoder_input_tokens: .*{message}"):
            call()


def test_targets_are_checked_too(model):
    for call, name in zip(calls(model, INPUTS, TARGETS + 40), ("input", "target"), strict=False):
        with pytest.raises(InputError, match=f"decoder_{name}_tokens: token .* not in the model"):
            call()
    for call in calls(model, INPUTS[:3], TARGETS)[:2]:
        with pytest.raises(InputError, match="encoder has 3 rows but the decoder 4"):
            call()


def test_options_out_of_range_are_errors(model):
    with pytest.raises(ConfigError, match=r"top_p: expected .*, got 2\.0"):
        model.generate(INPUTS, top_p=2.0)


@given(st.integers(1, 10**6))
def test_buckets_hold_their_length_and_are_few(length):
    bucket = bucket_length(length)
    assert bucket >= max(16, length)
    assert bucket == 16 or bucket < 1.5 * length
    assert bucket_length(bucket) == bucket
    assert bucket & (bucket - 1) == 0 or bucket % 3 == 0


def test_the_buckets():
    assert sorted({bucket_length(n) for n in range(1, 130)}) == [16, 24, 32, 48, 64, 96, 128, 192]
