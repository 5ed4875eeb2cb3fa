import itertools
import math

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.systems import (
    Column,
    Layout,
    bleu_measure,
    compared,
    mean_measure,
    randomization,
    systems_table,
)
from faith_jax.statistics.text_metrics import corpus_bleu

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
    baselines = {"better": "plain", "noisy": "plain"}
    cells = compared(decodings, baselines, resamples=400, seed=1)
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


def test_differences_from_the_baseline():
    plain = np.random.default_rng(0).normal(size=60)
    systems = {
        "plain": {"a": mean_measure(plain)},
        "better": {"a": mean_measure(plain + 0.25)},
        "same": {"a": mean_measure(plain)},
    }
    cells = compared(systems, {"better": "plain", "same": "plain"}, resamples=400)
    assert cells["plain"]["a"].difference is None
    value, interval = cells["better"]["a"].difference
    # On the same rows, a shift of all is certain, however they vary.
    assert [value, *interval] == pytest.approx([0.25] * 3)
    assert cells["better"]["a"].difference_text(2) == "+0.25* (+0.25 to +0.25), p = 0.005"
    assert cells["same"]["a"].difference_text(2) == "+0.00 (+0.00 to +0.00), p = 1.000"


def test_rows_of_a_cluster_are_drawn_and_exchanged_together():
    generator = np.random.default_rng(3)
    first, second = generator.normal(0.3, 1, (2, 25))
    second -= 0.3
    names = [number // 2 for number in range(25)]
    once = {n: {"a": mean_measure(v)} for n, v in (("first", first), ("second", second))}
    tenfold = {
        n: {"a": mean_measure(np.repeat(v, 10))} for n, v in (("first", first), ("second", second))
    }
    single = compared(once, {"second": "first"}, 400)["second"]["a"]
    clusters = [number // 10 for number in range(250)]
    repeated = compared(tenfold, {"second": "first"}, 400, clusters=clusters)["second"]["a"]
    # Copies of rows tell nothing new.
    assert repeated.interval == pytest.approx(single.interval)
    assert repeated.difference.interval == pytest.approx(single.difference.interval)
    assert repeated.p_value == single.p_value
    blind = compared(tenfold, {"second": "first"}, 400)["second"]["a"]
    assert np.ptp(blind.interval) < np.ptp(single.interval) / 2
    # Against all exchanges of clusters.
    apart = np.bincount(names, weights=first - second)
    signs = np.array(list(itertools.product([1, -1], repeat=len(apart))))
    exact = np.mean(np.abs(signs @ apart) >= abs(apart.sum()) - 1e-12)
    pair = mean_measure(first), mean_measure(second)
    assert randomization(*pair, 20_000, 1, names) == pytest.approx(exact, abs=0.015)


def test_without_a_baseline_nothing_is_tested():
    cells = compared({"pmi": {"a": mean_measure([0.0, 1.0])}}, {}, resamples=100)
    assert math.isnan(cells["pmi"]["a"].p_value)
    assert cells["pmi"]["a"].rows == 2


def corpus(scores, ids=None, targets=()):
    ids = ids or tuple(str(number) for number in range(len(scores)))
    texts = tuple(f"the answer is {i}" for i in ids)
    fields = tuple({"target": target} for target in targets) or ({},) * len(ids)
    given = {"f1": np.array(scores, float)}
    return Corpus("c", tuple(ids), np.full(len(ids), np.nan), given, texts, fields)


def tidy(table):
    rows = (dict(zip(table.tidy.columns, row, strict=True)) for row in table.tidy.rows)
    return {(row["system"], row["column"]): row for row in rows}


def test_a_share_below_a_threshold_leaves_out_what_is_undefined():
    layout = Layout("T", {"bad": Column("f1", below=0.5, high=0.01)})
    table = systems_table({("c", "a"): [corpus([0.2, 0.5, math.nan, 0.4])]}, layout, {})
    assert tidy(table)["a", "bad"]["value"] == pytest.approx(100 * 2 / 3)
    assert any(
        note == "c: undefined scores, which are not in the means: a, bad: 1."
        for note in table.notes
    )


def test_undefined_figures_are_dashes_and_for_machines_nan():
    given = {("c", "a"): [corpus([0.5, 0.5])], ("c", "b"): [corpus([math.nan, math.nan])]}
    table = systems_table(given, Layout(), {"b": "a"}, resamples=100, differences=True)
    assert table.rows[1:] == (("c", "b", "\u2013"), ("c", "b \u2212 a", "\u2013"))
    assert math.isnan(tidy(table)["b", "f1"]["value"])


def test_replicates_count_together_and_have_a_spread():
    given = {("c", "a"): [corpus([0.0, 1.0]), corpus([1.0, 1.0])], ("c", "b"): [corpus([0.5, 0.5])]}
    found = tidy(systems_table(given, Layout(), {"a": "b"}, resamples=100))
    assert found["a", "f1"]["value"] == pytest.approx(0.75)
    assert found["a", "f1"]["rows"] == 4
    assert found["a", "f1"]["spread"] == pytest.approx(math.sqrt(0.125))
    assert math.isnan(found["b", "f1"]["spread"])


def test_rows_are_paired_by_their_ids():
    """In another order the same scores do not differ at all."""
    first, second = corpus([0.1, 0.9, 0.4]), corpus([0.4, 0.1, 0.9], ids=("2", "0", "1"))
    found = tidy(systems_table({("c", "a"): [first], ("c", "b"): [second]}, Layout(), {"b": "a"}))
    assert found["b", "f1"]["p_value"] == 1.0


def test_bleu_and_published_figures():
    layout = Layout(
        "T",
        {"BLEU": Column(reference="target", digits=1), "F1": Column("f1", only=("d",))},
        {"c": {"a": {"BLEU": 12.5}}},
        ("As the paper has it.",),
    )
    ids = ("0", "1")
    one = corpus([0.1, 0.2], ids, ("the answer is 0", "the answer is 1"))
    table = systems_table({("c", "a"): [one]}, layout, {})
    assert table.rows[0][:2] == ("c", "a")
    assert table.rows[0][2].startswith("100.0 (")
    assert table.rows[0][3] == ""  # a column of another corpus
    assert table.rows[1] == ("c", "a (published)", "12.5", "")
    assert tidy(table)["a", "BLEU"]["published"] == 12.5
    assert "As the paper has it." in table.notes


def test_what_does_not_fit_is_an_error():
    one, other = corpus([0.1, 0.2]), corpus([0.1, 0.2], ids=("0", "7"))
    with pytest.raises(InputError, match="c: b has other rows than the first system: '1' is one"):
        systems_table({("c", "a"): [one], ("c", "b"): [other]}, Layout(), {})
    with pytest.raises(ConfigError, match=r"There is no system 'aa'\. Did you mean 'a'"):
        systems_table({("c", "a"): [one], ("c", "b"): [one]}, Layout(), {"b": "aa"})
    with pytest.raises(InputError, match="none of the table's scorers"):
        systems_table({("c", "a"): [one]}, Layout("T", {"x": Column("nli")}), {})
