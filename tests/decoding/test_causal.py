"""Decoder-only models, compared with a search that recomputes the whole sequence at each step."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.generation import generate, read, row_keys
from faith_jax.decoding.search import copy_keys, next_tokens
from tests.decoding import reference
from tests.decoding.test_beam import assert_same
from tests.decoding.test_limits import banned_by_hugging_face
from tests.models import families, tiny

ONE_LAYER = {"num_decoder_layers": 1}  # where more would only compile for longer
# Every position scheme, grouped heads, windows shorter than the inputs.
CONFIGS = {
    "learned": families.GPT2.replace(**ONE_LAYER),
    "learned, prompt, scanned": families.GPT2.replace(decoder_prompt_length=2, scan_layers=True),
    "alibi, prompt": families.BLOOM.replace(decoder_prompt_length=3, **ONE_LAYER),
    "rotary, grouped": families.LLAMA.replace(**ONE_LAYER),
    "window, scanned": families.MISTRAL.replace(scan_layers=True),
    "windows, prompt": families.GEMMA2.replace(decoder_prompt_length=2),
    "relative bias": families.LLAMA.replace(
        positions="relative_bias", attention_scale=1.0, **ONE_LAYER
    ),
}
LENGTHS = np.array([6, 1, 4, 9])
WITHOUT_LENGTHS = np.array([3, 2, 7, 1])
ROWS = len(LENGTHS)
LENGTH = 7
INPUTS = tiny.rows(*LENGTHS, seed=3)
WITHOUT = tiny.rows(*WITHOUT_LENGTHS, seed=5)
# The last token of a row may be one that ends, as DialoGPT's turns do.
INPUTS[2, 3] = 1
WIDTH = INPUTS.shape[1] + LENGTH
ENDS = (1, 7, 20)
KEYS = row_keys(0, jnp.arange(ROWS))
PMI = PMIConfig(alpha=0.8, p=0.9)

generated = jax.jit(generate, static_argnums=(0, 4))


@functools.partial(jax.jit, static_argnums=1)
def picked(scores, config, keys, place, position):
    """The token that a row's key of a position selects."""
    key = jax.random.fold_in(keys[place], position)[None]
    return next_tokens(scores[None], config, key)[0]


@functools.cache
def model_of(name, seed=0):
    module, params = tiny.model_and_params(CONFIGS[name], seed=seed)
    # Larger kernels make the tokens depend on more than the last one.
    return module, jax.tree.map(lambda x: x * np.float32(1.5), params)


@functools.partial(jax.jit, static_argnums=0)
def all_log_probs(module, params, tokens):
    """Log-probabilities [rows, length, vocab] of the token after each one, without caches."""
    variables = {"params": params}
    hidden = module.apply(
        variables, None, None, tokens, enable_dropout=False, method="decode_hidden"
    )
    return jax.nn.log_softmax(module.apply(variables, hidden, method="logits"))


def log_probs_of(module, params, inputs, lengths, row):
    """(tokens so far) -> log-probabilities [vocab] of the next token, without caches."""
    start = inputs[row, : lengths[row]]

    @functools.cache
    def log_probs(tokens):
        whole = np.zeros((1, WIDTH), np.int32)
        whole[0, : len(start) + len(tokens)] = [*start, *tokens]
        last = len(start) + len(tokens) - 1
        return np.asarray(all_log_probs(module, params, whole), np.float64)[0, last]

    return log_probs


def plain_model(module, params, row):
    return reference.plain_model(log_probs_of(module, params, INPUTS, LENGTHS, row))


def pmi_model(module, params, row, pmi, banned=lambda tokens: ()):
    both = ((INPUTS, LENGTHS), (WITHOUT, WITHOUT_LENGTHS))
    branches = (log_probs_of(module, params, *branch, row) for branch in both)
    return reference.pmi_model(*branches, pmi, banned)


def config_of(**options):
    return DecodingConfig(max_length=LENGTH, eos_id=ENDS, pad_id=0, **options)


def pmi_result(module, params, config):
    branches = [(INPUTS, LENGTHS), (WITHOUT, WITHOUT_LENGTHS)]
    return generated(module, params, branches, KEYS, config)


@pytest.mark.parametrize("name", ["relative bias", "window, scanned"])
def test_greedy_search_equals_the_search_without_caches(name):
    config = config_of()
    distinct, rows = set(), 0
    for seed in range(2):
        module, params = model_of(name, seed)
        result = generated(module, params, [(INPUTS, LENGTHS)], KEYS, config)
        for row in range(ROWS):
            expected = reference.greedy_search(plain_model(module, params, row), config)
            assert_same(result, row, [expected], config, 1e-4)
            distinct.add(expected.tokens)
            rows += 1
    assert len(distinct) > rows // 2  # the inputs and the model matter


@pytest.mark.parametrize("name", ["learned, prompt, scanned", "alibi, prompt"])
def test_beam_search_equals_the_search_without_caches(name):
    config = config_of(num_beams=4, num_return=3)
    for seed in range(2):
        module, params = model_of(name, seed)
        result = generated(module, params, [(INPUTS, LENGTHS)], KEYS, config)
        assert result.tokens.shape == (ROWS, 3, LENGTH)
        for row in range(seed, ROWS, 2):
            expected = reference.beam_search(plain_model(module, params, row), config)
            assert_same(result, row, expected, config, 1e-4)


def assert_samples(results, models, config, copies):
    """Compares samples [rows, copies, length] with those drawn without caches."""
    keys = copy_keys(KEYS, copies)
    for row, model in enumerate(models):
        for copy in range(copies):
            tokens = ()
            while len(tokens) < LENGTH and not set(tokens) & set(ENDS):
                scores = np.asarray(model(tokens)[0], np.float32)
                place = row * copies + copy
                tokens += (int(picked(scores, config, keys, place, len(tokens))),)
            sample = np.asarray(results)[row, copy]
            np.testing.assert_array_equal(sample[: len(tokens)], tokens)
            assert not sample[len(tokens) :].any()


def test_samples_equal_those_drawn_without_caches():
    config = config_of(temperature=0.9, top_k=20, num_return=2)
    module, params = model_of("windows, prompt")
    result = generated(module, params, [(INPUTS, LENGTHS)], KEYS, config)
    models = [plain_model(module, params, row) for row in range(ROWS)]
    assert_samples(result.tokens, models, config, copies=2)
    # Neither what stands behind a row's length nor other rows change it.
    inputs, lengths = np.where(INPUTS == 0, 9, INPUTS), LENGTHS.copy()
    inputs[2:], lengths[2:] = inputs[1::-1], LENGTHS[1::-1]
    beside = generated(module, params, [(inputs, lengths)], KEYS, config)
    for found, expected in zip(beside, result, strict=True):
        np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-5)


def test_pmi_beam_search_equals_brute_force():
    config = config_of(pmi=PMI, num_beams=4, num_return=4, length_penalty=0.5)
    module, params = model_of("windows, prompt")
    result = pmi_result(module, params, config)
    for row in range(ROWS):
        model = pmi_model(module, params, row, PMI)
        assert_same(result, row, reference.beam_search(model, config), config, 1e-4)


def test_pmi_samples_equal_those_drawn_without_caches():
    config = config_of(pmi=PMI, temperature=0.9, num_return=2)
    module, params = model_of("rotary, grouped")
    result = pmi_result(module, params, config)
    models = [pmi_model(module, params, row, PMI) for row in range(ROWS)]
    assert_samples(result.tokens, models, config, copies=2)


def test_the_prefix_is_held_once_for_all_beams():
    module, params = model_of("windows, prompt")
    model = jax.eval_shape(lambda: read(module, params, [(INPUTS, LENGTHS)], LENGTH, copies=4))
    # Rows, heads, positions, features: only the tokens that will be decoded are repeated.
    shapes = {leaf.shape for leaf in jax.tree.leaves(model[1]) if leaf.ndim == 4}
    assert shapes == {(4 * ROWS, 1, LENGTH, 4)}


def repeating(prompt, size):
    """Returns the tokens that would repeat an n-gram of the prompt or of the response so far."""
    return lambda tokens: banned_by_hugging_face([int(t) for t in (*prompt, *tokens)], size)


def test_n_grams_of_each_rows_own_prompt_are_not_repeated():
    module, params = model_of("learned")
    pmi = PMIConfig(alpha=0.8, p=1.0)
    config = config_of(no_repeat_ngram=1, pmi=pmi)
    free = dataclasses.replace(config, no_repeat_ngram=0)
    result = pmi_result(module, params, config)
    repeats = 0
    for row in range(ROWS):
        banned = repeating(INPUTS[row, : LENGTHS[row]], 1)
        plain = plain_model(module, params, row)
        repeats += len(banned(()) & set(reference.greedy_search(plain, free).tokens))
        model = pmi_model(module, params, row, pmi, banned)
        assert_same(result, row, [reference.greedy_search(model, free)], config, atol=1e-4)
    assert repeats > 0
