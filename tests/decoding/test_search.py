import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import StepScores
from faith_jax.decoding import steps
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.generation import generate, row_keys
from faith_jax.decoding.search import copy_keys, decode, next_tokens
from tests.decoding.toy import chain, config_of, keys
from tests.models import families, tiny

VOCAB = 7


@functools.partial(jax.jit, static_argnums=(1, 2))
def decoded(transition, examples, config):
    """Decodes with a model whose next token depends on the last one only."""
    return decode(chain(transition, examples * config.copies), keys(examples), config)


@functools.partial(jax.jit, static_argnums=2)
def decoded_alone(transition, example, config):
    """Decodes an example without the others."""
    return decode(chain(transition, config.copies), row_keys(0, jnp.asarray(example)[None]), config)


def with_step(model, step, config, row_keys):
    """Decodes with another step function."""
    return jax.jit(lambda: decode(model._replace(step=step), row_keys, config))()


picked = jax.jit(next_tokens, static_argnums=1)


def test_greedy_follows_the_largest_logit_and_pads_behind_the_end():
    # 0 -> 3 -> 5 -> 1 (end)
    transition = np.zeros((VOCAB, VOCAB))
    transition[0, 3] = transition[3, 5] = transition[5, 1] = 2.0
    result = decoded(transition, 2, config_of(max_length=6))
    np.testing.assert_array_equal(result.tokens, [[3, 5, 1, 0, 0, 0]] * 2)
    np.testing.assert_array_equal(result.length, [3, 3])
    # Each step: one logit of 2 among seven, the others 0.
    step = 2.0 - np.log(np.exp(2.0) + VOCAB - 1)
    np.testing.assert_allclose(result.log_prob, [3 * step] * 2, rtol=1e-6)


def test_the_loop_stops_when_every_row_has_ended():
    transition = np.zeros((VOCAB, VOCAB))
    transition[:, 1] = 5.0

    steps = []
    model = chain(transition, 3)

    def step(tokens, cache):
        jax.debug.callback(lambda: steps.append(1))
        return model.step(tokens, cache)

    with_step(model, step, config_of(max_length=50), keys(3)).tokens.block_until_ready()
    jax.effects_barrier()
    assert len(steps) == 1


def test_sampling_has_the_models_distribution():
    logits = np.log(np.float32([0.5, 0.3, 0.2]))
    count = 20_000
    drawn = picked(np.broadcast_to(logits, (count, 3)), config_of(temperature=1.0), keys(count))
    shares = np.bincount(np.asarray(drawn), minlength=3) / count
    # Four standard errors of a share of 0.5 are 0.014.
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.015)


def test_temperature_sharpens_as_division_of_logits():
    logits = np.log(np.float32([0.6, 0.4]))
    count = 20_000
    config = config_of(temperature=0.5)
    drawn = picked(np.broadcast_to(logits, (count, 2)), config, keys(count))
    # Squared and normalised: 0.36 / (0.36 + 0.16).
    np.testing.assert_allclose(np.mean(np.asarray(drawn) == 0), 0.36 / 0.52, atol=0.015)


def test_samples_depend_neither_on_their_batch_nor_on_their_number_nor_on_the_length():
    transition = np.random.default_rng(2).normal(size=(VOCAB, VOCAB))
    options = {"temperature": 1.0, "eos_id": 6}
    config = config_of(max_length=8, num_return=3, **options)
    together = jax.device_get(decoded(transition, 4, config))
    assert together.tokens.shape == (4, 3, 8)
    assert together.log_prob.shape == together.length.shape == together.score.shape == (4, 3)
    assert len({row.tobytes() for row in together.tokens.reshape(12, 8)}) > 10
    for example in range(4):
        alone = decoded_alone(transition, example, config)
        np.testing.assert_array_equal(alone.tokens[0], together.tokens[example])
        np.testing.assert_allclose(alone.log_prob[0], together.log_prob[example], rtol=1e-6)
    one = decoded(transition, 4, config_of(max_length=4, **options))
    np.testing.assert_array_equal(one.tokens, together.tokens[:, 0, :4])


def test_log_prob_is_the_models_own_whatever_the_sampling():
    transition = np.random.default_rng(1).normal(size=(VOCAB, VOCAB))
    config = config_of(max_length=5, temperature=0.3, top_k=2, eos_id=99)
    result = decoded(transition, 3, config)
    log_probs = scipy.special.log_softmax(transition, axis=-1)
    for tokens, log_prob in zip(np.asarray(result.tokens), result.log_prob, strict=True):
        previous = [0, *tokens[:-1]]
        np.testing.assert_allclose(log_prob, log_probs[previous, tokens].sum(), rtol=1e-5)
    np.testing.assert_array_equal(result.score, result.log_prob)


def test_several_end_tokens_end_a_row():
    # 0 -> 3 -> 5 -> 1; 5 ends, which is neither the first nor the last of those that do.
    transition = np.zeros((VOCAB, VOCAB))
    transition[0, 3] = transition[3, 5] = transition[5, 1] = 2.0
    result = decoded(transition, 1, config_of(max_length=6, eos_id=(1, 5, 6)))
    np.testing.assert_array_equal(result.tokens, [[3, 5, 0, 0, 0, 0]])
    np.testing.assert_array_equal(result.length, [2])


def test_a_row_that_is_padded_with_its_end_token_keeps_its_length():
    transition = np.zeros((VOCAB, VOCAB))
    transition[0, 3] = transition[3, 1] = 2.0
    result = decoded(transition, 1, config_of(max_length=5, pad_id=1))
    # The start token is the model's, not the padding.
    np.testing.assert_array_equal(result.tokens, [[3, 1, 1, 1, 1]])
    np.testing.assert_array_equal(result.length, [2])


@pytest.mark.parametrize(("min_length", "length"), [(1, 1), (4, 4)])
def test_no_row_ends_before_the_minimum_length(min_length, length):
    transition = np.zeros((VOCAB, VOCAB))
    transition[:, 1], transition[:, 4] = 2.0, 1.0
    result = decoded(transition, 1, config_of(max_length=6, min_length=min_length))
    expected = [4] * (length - 1) + [1] + [0] * (6 - length)
    np.testing.assert_array_equal(result.tokens, [expected])
    np.testing.assert_array_equal(result.length, [length])
    log_probs = scipy.special.log_softmax(transition[0])
    expected = (length - 1) * log_probs[4] + log_probs[1]
    np.testing.assert_allclose(result.log_prob, [expected], rtol=1e-5)


def test_where_only_the_end_may_be_chosen_too_early_the_models_next_best_token_is():
    log_probs = np.log(np.float32([0.05, 0.6, 0.05, 0.2, 0.1]))
    only_end = np.where(np.arange(5) == 1, 0.0, -np.inf)
    model = chain(np.tile(log_probs, (5, 1)), 1)
    scores = jnp.asarray(only_end, jnp.float32)[None]

    def step(tokens, cache):
        scored, cache = model.step(tokens, cache)
        return StepScores(scores, scored.log_probs), cache

    result = with_step(model, step, config_of(max_length=4, min_length=3), keys(1))
    np.testing.assert_array_equal(result.tokens, [[3, 3, 1, 0]])
    np.testing.assert_allclose(result.log_prob, [2 * log_probs[3] + log_probs[1]], rtol=1e-6)
    np.testing.assert_allclose(result.score, [2 * log_probs[3]], rtol=1e-6)


def test_nothing_impossible_is_sampled_and_a_row_without_choice_ends():
    # 0 -> 2 or 3; 2 -> 4; 3 -> nothing.
    impossible = np.full((VOCAB, VOCAB), -np.inf)
    impossible[0, [2, 3]] = impossible[2, 4] = impossible[4, 4] = 0.0
    model = chain(impossible, 40)

    def step(tokens, cache):
        scored, cache = model.step(tokens, cache)
        # The softmax of nothing is not a number.
        return jax.tree.map(lambda x: jnp.where(jnp.isnan(x), -jnp.inf, x), scored), cache

    config = config_of(max_length=3, temperature=1.0)
    result = with_step(model, step, config, keys(40))
    responses = {tuple(row) for row in np.asarray(result.tokens).tolist()}
    assert responses == {(2, 4, 4), (3, 0, 0)}
    stuck = np.asarray(result.tokens)[:, 0] == 3
    np.testing.assert_array_equal(result.length, np.where(stuck, 1, 3))
    np.testing.assert_allclose(result.score, np.where(stuck, -np.inf, np.log(0.5)), rtol=1e-6)


def test_copies_have_keys_of_their_own():
    key_data = jax.random.key_data(copy_keys(keys(6), 4))
    assert len(np.unique(np.asarray(key_data), axis=0)) == 24


def test_end_and_padding_tokens_must_be_known():
    with pytest.raises(ConfigError, match="eos_id: expected token ids: call for_model"):
        decode(chain(np.zeros((3, 3)), 1), keys(1), DecodingConfig(max_length=2, pad_id=0))
    with pytest.raises(ConfigError, match="pad_id: expected a token id: call for_model"):
        decode(chain(np.zeros((3, 3)), 1), keys(1), DecodingConfig(max_length=2, eos_id=1))


SMALL = tiny.TINY.replace(num_encoder_layers=1, num_decoder_layers=1)
GROWING = {
    "prompts": (
        SMALL.replace(scan_layers=True, decoder_prompt_length=2),
        {"temperature": 1.0, "pmi": PMIConfig(p=0.9), "speculation": "ngram", "draft_length": 2},
    ),
    "window": (
        families.MISTRAL.replace(num_decoder_layers=1, sliding_window_layers=(0,)),
        {"num_beams": 3, "num_return": 2},
    ),
}


@pytest.mark.parametrize("case", [pytest.param("prompts", marks=pytest.mark.slow), "window"])
def test_a_cache_that_grows_gives_the_same_responses(case, monkeypatch):
    config, options = GROWING[case]
    module, params = tiny.model_and_params(config)
    decoding = DecodingConfig(max_length=10, eos_id=(4, 9), **options)
    inputs = np.random.default_rng(1).integers(3, 50, (4, 6)).astype(np.int32)
    lengths = np.full(4, 6, np.int32)

    def found():
        if config.is_decoder_only:
            model_inputs = [(inputs, lengths)]
        else:
            model_inputs = [inputs, inputs[:, 2:]] if decoding.pmi else [inputs]
        # A function of its own, so that JAX compiles it again.
        return jax.jit(
            lambda p, model_inputs: generate(module, p, model_inputs, keys(4), decoding)
        )(params, model_inputs)

    expected, seen = found(), []
    monkeypatch.setattr(steps, "cache_lengths", lambda most: [3, 7, most])
    resized = steps.resize_cache

    def resize(cache, length):
        result = resized(cache, length)
        seen.append(steps.cache_capacity(result))
        return result

    monkeypatch.setattr(steps, "resize_cache", resize)
    grown = found()
    prompt = config.decoder_prompt_length
    assert seen == [prompt + length for length in (3, 7, decoding.cache_length)]
    np.testing.assert_array_equal(grown.tokens, expected.tokens)
    np.testing.assert_array_equal(grown.length, expected.length)
    assert np.max(expected.length) > 7
    np.testing.assert_allclose(grown.log_prob, expected.log_prob, rtol=1e-5)
    np.testing.assert_allclose(grown.score, expected.score, rtol=1e-5)


def test_a_shorter_cache_keeps_its_first_tokens():
    leaf = np.arange(24.0, dtype=np.float32).reshape(1, 2, 4, 3)
    cache = {"layer": {"cached_key": leaf, "cached_value": -leaf}, "cache_index": np.int32(2)}
    resized = jax.jit(lambda cache: steps.resize_cache(steps.resize_cache(cache, 2), 3))(cache)
    expected = np.pad(leaf[:, :, :2], ((0, 0), (0, 0), (0, 1), (0, 0)))
    np.testing.assert_array_equal(resized["layer"]["cached_key"], expected)
    np.testing.assert_array_equal(resized["layer"]["cached_value"], -expected)
    assert (int(resized["cache_index"]), steps.cache_capacity(resized)) == (2, 3)
    assert steps.cache_capacity({"other": leaf}) is None
