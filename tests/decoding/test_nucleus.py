import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.decoding.nucleus import _Range, _search_best_tokens, keep_most_probable

VOCAB = 7


def brute_force_nucleus(probabilities, top_p):
    kept, total = set(), 0.0
    for token in sorted(range(len(probabilities)), key=lambda t: (-probabilities[t], t)):
        if total >= top_p:
            break
        kept.add(token)
        total += probabilities[token]
    return kept


@functools.partial(jax.jit, static_argnums=(1, 2))
def kept_of(logits, top_k, top_p):
    return keep_most_probable(logits, top_k, top_p)


def kept_tokens(logits, top_k, top_p):
    kept = np.asarray(kept_of(jnp.asarray(logits)[None], top_k, top_p))[0]
    np.testing.assert_array_equal(kept[np.isfinite(kept)], np.asarray(logits)[np.isfinite(kept)])
    return set(np.flatnonzero(np.isfinite(kept)))


@settings(max_examples=60, deadline=None)
@given(
    # Thousandths: logits that differ by less may have equal probabilities, which tie otherwise.
    st.lists(st.integers(-4000, 4000), min_size=VOCAB, max_size=VOCAB),
    # Few, for each is a program to compile, and those of the test of ties.
    st.sampled_from([0.55, 0.75]),
)
def test_nucleus_is_the_smallest_set_that_sums_to_p(logits, top_p):
    logits = np.asarray(logits, np.float32) / 1000
    probabilities = scipy.special.softmax(logits.astype(np.float64))
    sums = np.cumsum(np.sort(probabilities)[::-1])
    if np.any(np.abs(sums - top_p) < 1e-5):
        return  # on the edge float32 and float64 may differ by a token
    assert kept_tokens(logits, 0, top_p) == brute_force_nucleus(probabilities, top_p)


@pytest.mark.parametrize(
    ("spread", "top_p"), [(0.01, 0.6), (1.0, 0.999), (8.0, 0.6), (60.0, 0.999)]
)
def test_nucleus_of_a_large_vocabulary(spread, top_p):
    logits = np.random.default_rng(3).normal(size=(4, 5000)).astype(np.float32) * spread
    kept = np.isfinite(np.asarray(kept_of(logits, 0, top_p)))
    exact = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    exact /= exact.sum(-1, keepdims=True)
    for row, inside in zip(exact, kept, strict=True):
        order = np.argsort(-row, kind="stable")
        count = inside.sum()
        assert inside[order[:count]].all()  # the most probable ones
        # Enough, and none too many, as far as float32 sums of 5,000 tokens are exact.
        assert row[inside].sum() > top_p - 1e-5
        assert row[inside].sum() - row[order[count - 1]] < top_p + 1e-5


@pytest.mark.parametrize(
    "setting", [jax.enable_x64(True), jax.numpy_dtype_promotion("strict")], ids=["x64", "strict"]
)
def test_settings_of_dtypes_change_nothing(setting):
    logits = np.random.default_rng(3).normal(size=(2, 200)).astype(np.float32)
    expected = np.asarray(kept_of(logits, 0, 0.9))
    with setting:
        kept = kept_of(logits, 0, 0.9)
    np.testing.assert_array_equal(kept, expected)


def test_ties_at_the_edge_of_the_nucleus_go_by_id():
    # Probabilities 0.4 and six times 0.1.
    logits = np.log(np.float32([0.1, 0.1, 0.4, 0.1, 0.1, 0.1, 0.1]))
    assert kept_tokens(logits, 0, 0.55) == {0, 1, 2}
    assert kept_tokens(logits, 0, 0.75) == {0, 1, 2, 3, 4}


def test_ties_of_many_tokens_go_by_id():
    # Of 1,000 tokens every second one is impossible.
    logits = np.where(np.arange(1000) % 2, 0.0, -np.inf).astype(np.float32)
    assert kept_tokens(logits, 0, 0.75 - 1e-4) == set(range(1, 750, 2))


def test_ties_of_many_tokens_in_front_of_the_last_one():
    # One token of 0.15, a hundred of 0.008, and ten of 0.005 between them.
    logits = np.log(np.float32([0.008] * 100 + [0.005] * 10 + [0.15]))
    assert kept_tokens(logits, 0, 0.9) == {110, *range(94)}


def test_logits_of_few_bits():
    logits = np.random.default_rng(5).normal(size=(4, 5000)).astype(jnp.bfloat16)
    kept = np.isfinite(np.asarray(kept_of(logits.astype(np.float32), 0, 0.6)))
    for row, inside in zip(logits.astype(np.float64), kept, strict=True):
        probabilities = np.exp(row) / np.exp(row).sum()
        expected = brute_force_nucleus(probabilities, 0.6)
        assert abs(len(expected) - inside.sum()) <= 1  # the sums are of float32
        order = np.argsort(-row, kind="stable")
        assert inside[order[: inside.sum()]].all()


def test_logits_that_are_no_numbers_end_the_search():
    assert kept_of(np.full((4, 5000), np.nan, np.float32), 0, 0.6).shape == (4, 5000)


def test_an_empty_range_ends_at_its_upper_end():
    # If rounding keeps the sums below p, no token is left to look at, and none may be added.
    logits = np.log(np.float32([[0.5, 0.3, *[0.2] * 62]]))
    high = logits[:, 1:2]
    bounds = _Range(high, high, high, np.zeros((1, 1), np.int32), np.zeros((1, 1), bool))
    search = jax.jit(_search_best_tokens, static_argnums=3)
    seen = search(bounds, logits, scipy.special.softmax(logits, axis=-1), 0.999)
    assert bool(seen.is_found[0, 0])
    np.testing.assert_array_equal(seen.last, high)
    assert int(seen.last_id[0, 0]) >= 1


def test_the_nucleus_follows_top_k():
    # Of the three best 0.5, 0.3, 0.1 have 5/9, 3/9 and 1/9; the first alone is enough.
    logits = np.log(np.float32([0.06, 0.1, 0.3, 0.5, 0.04]))
    assert kept_tokens(logits, 3, 0.55) == {3}


def test_impossible_tokens_are_never_kept():
    logits = np.float32([-np.inf, 1.0, -np.inf, 0.0])
    assert kept_tokens(logits, 0, 0.9999999) == {1, 3}
    assert kept_tokens(logits, 3, 1.0) == {1, 3}


@pytest.mark.parametrize("top_k", [1, 3, VOCAB + 5])
def test_top_k_keeps_exactly_k_even_with_ties(top_k):
    kept = np.isfinite(kept_of(np.zeros((2, VOCAB), np.float32), top_k, 1.0))
    expected = np.arange(VOCAB) < top_k
    np.testing.assert_array_equal(kept, [expected, expected])
