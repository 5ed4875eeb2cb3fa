import itertools
import math

import numpy as np
import pytest

from faith_jax.evaluation.decodings import bleu_measure, compared, mean_measure, randomization
from faith_jax.evaluation.text_metrics import corpus_bleu

RESPONSES = ["the cat sat on the mat today", "it rains in the north", "", "a dog"]
GOLD = ["the cat sat on a mat today", "it rains a lot in the north", "no", "a dog barks at night"]


def value(measure):
    return float(measure.value(measure.summands.sum(axis=0, keepdims=True))[0])


def test_means_leave_out_what_is_undefined():
    measure = mean_measure([1.0, math.nan, 4.0], low=-2.1, high=6.4)
    assert measure.defined == 2
    assert value(measure) == pytest.approx((2.5 + 2.1) / 8.5)
    assert math.isnan(value(mean_measure([math.nan])))


def test_normalised_means_are_not_clipped():
    assert value(mean_measure([-10.6], low=-2.1, high=6.4)) == pytest.approx(-1.0)


@pytest.mark.parametrize("rows", [(0, 1, 2, 3), (0,), (1, 1, 3), (2,)])
def test_bleu_is_the_corpus_bleu_of_the_chosen_rows(rows):
    measure = bleu_measure(RESPONSES, GOLD)
    totals = measure.summands[list(rows)].sum(axis=0, keepdims=True)
    expected = corpus_bleu([RESPONSES[i] for i in rows], [GOLD[i] for i in rows])
    assert measure.value(totals)[0] == pytest.approx(expected)


def test_bleu_in_lower_case():
    shouted = [text.upper() for text in RESPONSES]
    assert value(bleu_measure(shouted, GOLD, lowercase=True)) == pytest.approx(
        corpus_bleu(RESPONSES, GOLD)
    )
    assert value(bleu_measure(shouted, GOLD)) == 0


def test_randomization_against_all_exchanges():
    first, second = [0.9, 0.4, 0.8, 0.7, 0.6], [0.1, 0.5, 0.3, 0.2, 0.6]
    apart = np.array(first) - second
    signs = np.array(list(itertools.product([1, -1], repeat=5)))
    exact = np.mean(np.abs(signs @ apart) >= abs(apart.sum()) - 1e-12)
    found = randomization(mean_measure(first), mean_measure(second), rounds=20_000, seed=3)
    assert found == pytest.approx(exact, abs=0.01)


def test_equal_decodings_do_not_differ():
    measure = mean_measure([0.1, 0.5, 0.9])
    assert randomization(measure, measure) == 1.0


def test_randomization_exchanges_whole_rows_of_bleu():
    """With one row there are two states only, both as far apart as what was found."""
    pair = bleu_measure(RESPONSES[:1], GOLD[:1]), bleu_measure(["no"], GOLD[:1])
    assert randomization(*pair) == 1.0


def test_compared():
    generator = np.random.default_rng(0)
    plain = generator.normal(size=60)
    decodings = {
        "plain": {"a": mean_measure(plain), "b": mean_measure(plain)},
        "better": {"a": mean_measure(plain + 1), "b": mean_measure(plain)},
        "noisy": {"a": mean_measure(plain + generator.normal(size=60)), "b": mean_measure(plain)},
    }
    cells = compared(decodings, "plain", resamples=400, seed=1)
    assert math.isnan(cells["plain"]["a"].p_value)
    assert not cells["plain"]["a"].significant
    better = cells["better"]["a"]
    assert better.value == pytest.approx(plain.mean() + 1)
    assert (better.p_value, better.significant) == (pytest.approx(1 / 401), True)
    assert cells["better"]["b"].p_value == 1.0
    # A mean's bootstrap interval is about two standard errors to both sides.
    error = plain.std() / math.sqrt(60)
    low, high = cells["plain"]["a"].interval
    assert low == pytest.approx(plain.mean() - 1.96 * error, abs=0.3 * error)
    assert high == pytest.approx(plain.mean() + 1.96 * error, abs=0.3 * error)
    # All decodings see the same draws.
    assert np.subtract(better.interval, (low, high)).tolist() == pytest.approx([1, 1])


def test_without_a_baseline_nothing_is_tested():
    cells = compared({"pmi": {"a": mean_measure([0.0, 1.0])}}, "plain", resamples=100)
    assert math.isnan(cells["pmi"]["a"].p_value)
    assert cells["pmi"]["a"].rows == 2
