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
CONFIGS = {
    "1.1": SMALL,
    "prompts": SMALL.replace(encoder_prompt_length=3, decoder_prompt_length=2),
    "scanned": SMALL.replace(
        num_decoder_layers=2, scan_layers=True, encoder_prompt_length=2, **T5_1_0
    ),
}
INPUTS = tiny.rows(7, 1, 4, 6, 2, seed=3)
LENGTH = 10
ENDS = {"eos_id": (1, 7, 20), "pad_id": 0}


generated = jax.jit(generate, static_argnums=(0, 4))


def greedy(module, params, inputs=INPUTS, **options):
    config = DecodingConfig(max_length=LENGTH, **options)
    return generated(module, params, [inputs], row_keys(0, jnp.arange(len(inputs))), config)


def prefix_logits(module, params, inputs, tokens):
    """Logits [batch, length, vocab] of each next token, the whole prefix computed, no caches."""
    # Targets tell which positions are padding; here there is no padding.
    return tiny.logits(
        module, params, inputs, np.ones_like(tokens), decoder_inputs=tiny.shift_right(tokens)
    )


def brute_force(module, params, inputs, eos_id):
    """Greedy search that computes the whole prefix again for every token."""
    tokens = np.zeros((len(inputs), LENGTH), np.int32)
    ended = np.zeros(len(inputs), bool)
    log_prob = np.zeros(len(inputs))
    for position in range(LENGTH):
        logits = np.asarray(prefix_logits(module, params, inputs, tokens))[:, position]
        log_probs = np.asarray(jax.nn.log_softmax(logits))
        chosen = logits.argmax(-1)
        log_prob += np.where(ended, 0, np.take_along_axis(log_probs, chosen[:, None], -1)[:, 0])
        tokens[:, position] = np.where(ended, 0, chosen)
        ended |= tokens[:, position] == eos_id
    return tokens, log_prob


def test_greedy_search_equals_the_search_without_caches():
    name = "prompts"
    free, _ = brute_force(*tiny.model_and_params(CONFIGS[name]), INPUTS, eos_id=-1)
    # An end token that some rows reach and others do not.
    eos_id = int(free[0, LENGTH // 2])
    rows, distinct = 0, set()
    for seed in range(2):
        module, params = tiny.model_and_params(CONFIGS[name], seed=seed)
        tokens, log_prob = brute_force(module, params, INPUTS, eos_id)
        found = greedy(module, params, eos_id=eos_id)
        np.testing.assert_array_equal(found.tokens, tokens)
        np.testing.assert_allclose(found.log_prob, log_prob, rtol=1e-4)
        ends = [np.flatnonzero(row == eos_id) for row in tokens]
        np.testing.assert_array_equal(
            found.length, [end[0] + 1 if end.size else LENGTH for end in ends]
        )
        rows += len(tokens)
        distinct |= {row.tobytes() for row in tokens}
    assert len(distinct) > rows // 3  # the inputs and the model matter
    # Padding and other rows change nothing.
    wide = greedy(module, params, np.pad(INPUTS[:2], ((0, 0), (0, 9))), eos_id=eos_id)
    np.testing.assert_array_equal(wide.tokens, found.tokens[:2])
    np.testing.assert_allclose(wide.log_prob, found.log_prob[:2], rtol=1e-5)


def test_greedy_search_in_bfloat16_picks_tokens_as_good_as_the_best():
    config = CONFIGS["1.1"].replace(dtype="bfloat16")
    module, params = tiny.model_and_params(config)
    tokens = np.asarray(greedy(module, params, eos_id=-1).tokens)
    logits = np.asarray(prefix_logits(module, params, INPUTS, tokens))
    chosen = np.take_along_axis(logits, tokens[..., None], -1)[..., 0]
    # bfloat16 has 8 bits; logits spread by about 3.
    assert np.all(logits.max(-1) - chosen < 0.1)
    assert np.mean(logits.argmax(-1) == tokens) > 0.9


def test_sampling_follows_the_row_number_and_the_seed():
    module, params = tiny.model_and_params(CONFIGS["1.1"])
    config = DecodingConfig(max_length=LENGTH, temperature=1.0, eos_id=-1)
    same = jnp.asarray(np.repeat(INPUTS[:1], 5, axis=0))
    sample = functools.partial(generated, module, params, [same])
    first = np.asarray(sample(row_keys(1, jnp.arange(5)), config).tokens)
    assert len({row.tobytes() for row in first}) == 5
    again = np.asarray(sample(row_keys(1, jnp.arange(5) + 2), config).tokens)
    np.testing.assert_array_equal(again[:3], first[2:])
    other = np.asarray(sample(row_keys(2, jnp.arange(5)), config).tokens)
    assert not np.any(np.all(other == first, axis=1))


# Beams, copies and PMI-Decode: every prefix computed again, without caches, in plain Python.

WITHOUT = tiny.rows(3, 1, 2, 9, 2, seed=5)


def log_probs_of(module, params, inputs, example):
    """(tokens so far) -> log-probabilities [vocab] of the next token, without caches."""

    @functools.cache
    def log_probs(tokens):
        padded = np.zeros((1, LENGTH), np.int32)
        padded[0, : len(tokens)] = tokens
        logits = prefix_logits(module, params, inputs[example : example + 1], padded)
        return reference.log_softmax(np.asarray(logits)[0, len(tokens)])

    return log_probs


def plain_model(module, params, example):
    return reference.plain_model(log_probs_of(module, params, INPUTS, example))


def pmi_model(module, params, example):
    branches = (log_probs_of(module, params, x, example) for x in (INPUTS, WITHOUT))
    return reference.pmi_model(*branches, PMI)


def pmi(module, params, config, seed=0):
    keys = row_keys(seed, jnp.arange(len(INPUTS)))
    return generated(module, params, [INPUTS, WITHOUT], keys, config)


PMI = PMIConfig(alpha=0.4, p=0.7)


@pytest.mark.parametrize(
    ("name", "options"), [("scanned", {}), ("prompts", {"num_beams": 3, "num_return": 3})]
)
def test_pmi_search_equals_brute_force(name, options):
    config = DecodingConfig(max_length=LENGTH, pmi=PMI, **ENDS, **options)
    search = reference.beam_search if options else greedy_list
    for seed in range(2):
        module, params = tiny.model_and_params(CONFIGS[name], seed=seed)
        result = pmi(module, params, config)
        for example in range(0, 5, 2):
            model = pmi_model(module, params, example)
            assert_same(result, example, search(model, config), config, 1e-4)


def greedy_list(model, config):
    return [reference.greedy_search(model, config)]


def test_only_the_decoders_cache_is_repeated():
    module, params = tiny.model_and_params(CONFIGS["scanned"])
    _, cache = jax.eval_shape(lambda: read(module, params, [INPUTS], LENGTH, 3))
    rows = {leaf.shape[-4] for leaf in jax.tree.leaves(cache) if leaf.ndim >= 4}
    assert rows == {15}


def test_pmi_decode_needs_both_inputs_and_its_config():
    module, params = tiny.model_and_params(CONFIGS["1.1"])
    keys = row_keys(0, jnp.arange(len(INPUTS)))
    with pytest.raises(ConfigError, match="pmi: expected None"):
        generated(module, params, [INPUTS], keys, DecodingConfig(pmi=PMI))
    with pytest.raises(ConfigError, match="pmi: expected a PMIConfig"):
        generated(module, params, [INPUTS, WITHOUT], keys, DecodingConfig())
