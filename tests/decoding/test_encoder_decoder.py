import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.decoding.encoder_decoder import generate, prefill, row_keys
from faith_jax.decoding.search import DecodingConfig
from tests.models import tiny

T5_1_1 = tiny.TINY.replace(num_encoder_layers=1)
T5_1_0 = T5_1_1.replace(mlp_activations=("relu",), logits_via_embedding=True)
CONFIGS = {
    "1.1": T5_1_1,
    "1.0": T5_1_0,
    "prompts": T5_1_1.replace(encoder_prompt_length=3, decoder_prompt_length=2),
    "scanned": T5_1_0.replace(scan_layers=True, encoder_prompt_length=2),
}
INPUTS = tiny.rows(7, 1, 4, 6, 2, seed=3)
LENGTH = 10


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


generated = jax.jit(generate, static_argnums=(0, 4))


def greedy(module, params, inputs=INPUTS, **options):
    config = DecodingConfig(max_length=LENGTH, **options)
    return generated(module, params, inputs, row_keys(0, jnp.arange(len(inputs))), config)


def prefix_logits(module, params, inputs, tokens):
    """Logits [batch, length, vocab] of each next token, the whole prefix computed, no caches."""
    # Targets tell which positions are padding: none is.
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


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_search_equals_the_search_without_caches(name):
    free, _ = brute_force(*tiny.model_and_params(CONFIGS[name]), INPUTS, eos_id=-1)
    # An end token that some rows reach and others do not.
    eos_id = int(free[0, LENGTH // 2])
    rows, distinct = 0, set()
    for seed in range(4):
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


def test_greedy_search_in_bfloat16_picks_tokens_as_good_as_the_best():
    config = CONFIGS["1.1"].replace(dtype="bfloat16")
    module, params = tiny.model_and_params(config)
    tokens = np.asarray(greedy(module, params, eos_id=-1).tokens)
    logits = np.asarray(prefix_logits(module, params, INPUTS, tokens))
    chosen = np.take_along_axis(logits, tokens[..., None], -1)[..., 0]
    # bfloat16 has 8 bits; logits spread by about 3.
    assert np.all(logits.max(-1) - chosen < 0.1)
    assert np.mean(logits.argmax(-1) == tokens) > 0.9


@pytest.mark.parametrize("name", ["1.1", "prompts"])
def test_the_step_function_gives_teacher_forced_logits(name):
    module, params = tiny.model_and_params(CONFIGS[name])
    tokens = tiny.rows(LENGTH, LENGTH, LENGTH, LENGTH, LENGTH, seed=8)

    @jax.jit
    def stepwise(params, inputs, tokens):
        step, cache = prefill(module, params, inputs, LENGTH)

        def advance(cache, token):
            logits, cache = step(token, cache)
            return cache, logits

        return jax.lax.scan(advance, cache, tokens.T)[1].swapaxes(0, 1)

    found = stepwise(params, INPUTS, jnp.asarray(tiny.shift_right(tokens)))
    expected = prefix_logits(module, params, INPUTS, tokens)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_padding_and_other_rows_change_nothing():
    module, params = tiny.model_and_params(CONFIGS["prompts"])
    alone = greedy(module, params, INPUTS[:2])
    wide = greedy(module, params, np.pad(INPUTS, ((0, 0), (0, 9))))
    assert len(np.unique(alone.tokens)) > 3
    np.testing.assert_array_equal(alone.tokens, wide.tokens[:2])
    np.testing.assert_allclose(alone.log_prob, wide.log_prob[:2], rtol=1e-5)


def test_a_shorter_search_is_the_beginning_of_a_longer_one():
    module, params = tiny.model_and_params(CONFIGS["1.1"])
    options = {"temperature": 1.0, "top_k": 30, "eos_id": -1}
    keys = row_keys(4, jnp.arange(5))
    short, long = (
        generated(module, params, INPUTS, keys, DecodingConfig(max_length=n, **options)).tokens
        for n in (4, LENGTH)
    )
    np.testing.assert_array_equal(short, long[:, :4])


def test_sampling_follows_the_row_number_and_the_seed():
    module, params = tiny.model_and_params(CONFIGS["1.1"])
    config = DecodingConfig(max_length=LENGTH, temperature=1.0, eos_id=-1)
    same = jnp.asarray(np.repeat(INPUTS[:1], 5, axis=0))
    sample = functools.partial(generated, module, params, same)
    first = np.asarray(sample(row_keys(1, jnp.arange(5)), config).tokens)
    assert len({row.tobytes() for row in first}) == 5
    again = np.asarray(sample(row_keys(1, jnp.arange(5) + 2), config).tokens)
    np.testing.assert_array_equal(again[:3], first[2:])
    other = np.asarray(sample(row_keys(2, jnp.arange(5)), config).tokens)
    assert not np.any(np.all(other == first, axis=1))
