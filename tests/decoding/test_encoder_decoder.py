import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.generation import generate, read, row_keys
from tests.decoding import reference
from tests.decoding.test_beam import assert_same
from tests.models import tiny

SMALL = tiny.TINY.replace(num_encoder_layers=1, num_decoder_layers=1)
T5_1_0 = {"mlp_activations": ("relu",), "logits_via_embedding": True}
PROMPTS = SMALL.replace(encoder_prompt_length=3, decoder_prompt_length=2)
SCANNED = PROMPTS.replace(num_decoder_layers=2, scan_layers=True, **T5_1_0)
# All as wide as the longest of both, so that prefixes share a program.
INPUTS = tiny.rows(7, 1, 4, 6, 2, width=9, seed=3)
WITHOUT = tiny.rows(3, 1, 2, 9, 2, seed=5)
LENGTH = 10
KEYS = row_keys(0, jnp.arange(len(INPUTS)))
PMI = PMIConfig(alpha=0.4, p=0.7)


generated = jax.jit(generate, static_argnums=(0, 4))


def config_of(**options):
    return DecodingConfig(max_length=LENGTH, eos_id=(1, 7, 20), pad_id=0, **options)


def prefix_logits(module, params, inputs, tokens):
    """Logits [batch, length, vocab] of each next token, the whole prefix computed, no caches."""
    # Targets tell which positions are padding; here there is no padding.
    return tiny.logits(
        module, params, inputs, np.ones_like(tokens), decoder_inputs=tiny.shift_right(tokens)
    )


def log_probs_of(module, params, inputs, example):
    """(tokens so far) -> log-probabilities [vocab] of the next token, without caches."""

    @functools.cache
    def log_probs(tokens):
        padded = np.zeros((1, LENGTH), np.int32)
        padded[0, : len(tokens)] = tokens
        logits = prefix_logits(module, params, inputs[example : example + 1], padded)
        return reference.log_softmax(np.asarray(logits)[0, len(tokens)])

    return log_probs


def test_greedy_search_equals_the_search_without_caches():
    config, distinct = config_of(), set()
    wide = np.pad(INPUTS, ((0, 0), (0, 7)))  # padding changes nothing
    for seed in range(2):
        module, params = tiny.model_and_params(PROMPTS, seed=seed)
        greedy_result = generated(module, params, [wide], KEYS, config)
        for example in range(len(INPUTS)):
            model = reference.plain_model(log_probs_of(module, params, INPUTS, example))
            expected = reference.greedy_search(model, config)
            assert_same(greedy_result, example, [expected], config, 1e-4)
            distinct.add(expected.tokens)
    assert len(distinct) > 2 * len(INPUTS) // 3  # the inputs and the model matter
    assert len({len(tokens) for tokens in distinct}) > 2


def test_pmi_beam_search_equals_brute_force():
    config = config_of(pmi=PMI, num_beams=3, num_return=3)
    for seed in range(2):
        module, params = tiny.model_and_params(SCANNED, seed=seed)
        result = generated(module, params, [INPUTS, WITHOUT], KEYS, config)
        for example in range(0, 5, 2):
            branches = (log_probs_of(module, params, x, example) for x in (INPUTS, WITHOUT))
            model = reference.pmi_model(*branches, PMI)
            assert_same(result, example, reference.beam_search(model, config), config, 1e-4)


@pytest.mark.slow
def test_greedy_search_in_bfloat16_picks_tokens_as_good_as_the_best():
    module, params = tiny.model_and_params(SMALL.replace(dtype="bfloat16"))
    config = DecodingConfig(max_length=LENGTH, eos_id=-1)
    tokens = np.asarray(generated(module, params, [INPUTS], KEYS, config).tokens)
    logits = np.asarray(prefix_logits(module, params, INPUTS, tokens))
    chosen_logits = np.take_along_axis(logits, tokens[..., None], -1)[..., 0]
    # bfloat16 has 8 bits; logits spread by about 3.
    assert np.all(logits.max(-1) - chosen_logits < 0.1)
    assert np.mean(logits.argmax(-1) == tokens) > 0.9


def test_only_the_decoders_cache_is_repeated():
    module, params = tiny.model_and_params(SCANNED)
    _, cache = jax.eval_shape(lambda: read(module, params, [INPUTS], LENGTH, 3))
    rows = {leaf.shape[-4] for leaf in jax.tree.leaves(cache) if leaf.ndim >= 4}
    assert rows == {15}


def test_a_step_of_pmi_decode_reads_no_padding_between_the_inputs_of_its_branches():
    module, params = tiny.model_and_params(SCANNED)
    short = WITHOUT[:, :4]
    memory, _ = jax.jit(lambda: read(module, params, [INPUTS, short], LENGTH))()
    layers = memory["encoder_cache"]["decoder"]["layers"]["encoder_decoder_attention"]
    # A soft prompt of 3 vectors is before each input: 3 + 9 and 3 + 4 keys.
    assert layers["key"].shape == layers["value"].shape == (2, 5, 2, 12 + 7, 4)
    (valid,) = memory["encoder_cache"]["valid"]
    expected = np.zeros((5, 2, 19), bool)
    expected[:, 0, :12] = np.pad(INPUTS != 0, ((0, 0), (3, 0)), constant_values=True)
    expected[:, 1, 12:] = np.pad(short != 0, ((0, 0), (3, 0)), constant_values=True)
    np.testing.assert_array_equal(valid, expected.reshape(10, 19))


def test_pmi_decode_needs_both_inputs_and_its_config():
    module, params = tiny.model_and_params(SMALL)
    with pytest.raises(ConfigError, match="pmi: expected None"):
        generated(module, params, [INPUTS], KEYS, DecodingConfig(pmi=PMI))
    with pytest.raises(ConfigError, match="pmi: expected a PMIConfig"):
        generated(module, params, [INPUTS, WITHOUT], KEYS, DecodingConfig())
