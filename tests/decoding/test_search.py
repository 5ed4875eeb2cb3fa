import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.decoding.search import DecodingConfig, decode, keep_most_probable, next_tokens
from faith_jax.errors import ConfigError

VOCAB = 7


def chain_step(transition):
    """A model whose next token depends on the last one only: logits = transition[last]."""
    transition = jnp.asarray(transition, jnp.float32)

    def step(tokens, cache):
        return transition[tokens], cache + 1

    return step


def keys(count, seed=0):
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.key(seed), jnp.arange(count))


def brute_force_nucleus(probabilities, top_p):
    kept, total = set(), 0.0
    for token in sorted(range(len(probabilities)), key=lambda t: (-probabilities[t], t)):
        if total >= top_p:
            break
        kept.add(token)
        total += probabilities[token]
    return kept


def test_greedy_follows_the_largest_logit_and_pads_behind_the_end():
    # 0 -> 3 -> 5 -> 1 (end)
    transition = np.zeros((VOCAB, VOCAB))
    transition[0, 3] = transition[3, 5] = transition[5, 1] = 2.0
    result = decode(chain_step(transition), jnp.int32(0), keys(2), DecodingConfig(max_length=6))
    np.testing.assert_array_equal(result.tokens, [[3, 5, 1, 0, 0, 0]] * 2)
    np.testing.assert_array_equal(result.length, [3, 3])
    # Each step: one logit of 2 among seven, the others 0.
    step = 2.0 - np.log(np.exp(2.0) + VOCAB - 1)
    np.testing.assert_allclose(result.log_prob, [3 * step] * 2, rtol=1e-6)


def test_rows_that_never_end_have_the_full_length():
    transition = np.zeros((VOCAB, VOCAB))
    transition[:, 4] = 1.0
    result = decode(chain_step(transition), jnp.int32(0), keys(1), DecodingConfig(max_length=4))
    np.testing.assert_array_equal(result.tokens, [[4, 4, 4, 4]])
    assert int(result.length[0]) == 4


def test_the_loop_stops_when_every_row_has_ended():
    transition = np.zeros((VOCAB, VOCAB))
    transition[:, 1] = 5.0

    steps = []

    def step(tokens, cache):
        jax.debug.callback(lambda: steps.append(1))
        return jnp.asarray(transition, jnp.float32)[tokens], cache

    decode(step, jnp.int32(0), keys(3), DecodingConfig(max_length=50)).tokens.block_until_ready()
    jax.effects_barrier()
    assert len(steps) == 1


@settings(max_examples=60, deadline=None)
@given(
    # Thousandths: logits that differ by less may have equal probabilities, which tie otherwise.
    st.lists(st.integers(-4000, 4000), min_size=VOCAB, max_size=VOCAB),
    st.floats(0.05, 0.99),
)
def test_nucleus_is_the_smallest_set_that_sums_to_p(logits, top_p):
    logits = np.asarray(logits, np.float32) / 1000
    probabilities = np.asarray(jax.nn.softmax(logits), np.float64)
    sums = np.cumsum(np.sort(probabilities)[::-1])
    if np.any(np.abs(sums - top_p) < 1e-5):
        return  # on the edge float32 and float64 may differ by a token
    kept = np.flatnonzero(np.isfinite(keep_most_probable(jnp.asarray(logits)[None], 0, top_p)[0]))
    assert set(kept) == brute_force_nucleus(probabilities, top_p)


@pytest.mark.parametrize("top_k", [1, 3, VOCAB, VOCAB + 5])
def test_top_k_keeps_exactly_k_even_with_ties(top_k):
    logits = jnp.zeros((2, VOCAB))
    kept = np.isfinite(keep_most_probable(logits, top_k, 1.0))
    expected = np.arange(VOCAB) < top_k
    np.testing.assert_array_equal(kept, [expected, expected])


def test_sampling_has_the_models_distribution():
    logits = jnp.log(jnp.asarray([0.5, 0.3, 0.2]))
    count = 20_000
    drawn = next_tokens(
        jnp.broadcast_to(logits, (count, 3)), DecodingConfig(temperature=1.0), keys(count)
    )
    shares = np.bincount(np.asarray(drawn), minlength=3) / count
    # Four standard errors of a share of 0.5 are 0.014.
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.015)


def test_temperature_sharpens_as_division_of_logits():
    logits = jnp.log(jnp.asarray([0.6, 0.4]))
    count = 20_000
    config = DecodingConfig(temperature=0.5)
    drawn = next_tokens(jnp.broadcast_to(logits, (count, 2)), config, keys(count))
    # Squared and normalised: 0.36 / (0.36 + 0.16).
    np.testing.assert_allclose(np.mean(np.asarray(drawn) == 0), 0.36 / 0.52, atol=0.015)


def test_a_rows_sample_does_not_depend_on_its_batch():
    transition = np.random.default_rng(0).normal(size=(VOCAB, VOCAB))
    config = DecodingConfig(max_length=12, temperature=1.0, top_p=0.9, eos_id=6)
    together = decode(chain_step(transition), jnp.int32(0), keys(5), config)
    for row in range(5):
        alone = decode(chain_step(transition), jnp.int32(0), keys(5)[row : row + 1], config)
        np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])
        np.testing.assert_allclose(alone.log_prob[0], together.log_prob[row], rtol=1e-6)


def test_log_prob_is_the_models_own_whatever_the_sampling():
    transition = np.random.default_rng(1).normal(size=(VOCAB, VOCAB))
    config = DecodingConfig(max_length=5, temperature=0.3, top_k=2, eos_id=99)
    result = decode(chain_step(transition), jnp.int32(0), keys(3), config)
    log_probs = np.asarray(jax.nn.log_softmax(jnp.asarray(transition, jnp.float32)))
    for tokens, found in zip(np.asarray(result.tokens), result.log_prob, strict=True):
        previous = [0, *tokens[:-1]]
        np.testing.assert_allclose(found, log_probs[previous, tokens].sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_length", 0), ("temperature", -1.0), ("top_k", -1), ("top_p", 0.0), ("top_p", 1.5)],
)
def test_settings_out_of_range_are_errors_that_name_them(field, value):
    with pytest.raises(ConfigError, match=rf"{field} = {value}"):
        DecodingConfig(**{field: value})
