import dataclasses
import math

import numpy as np
import pytest
import sacrebleu
from scipy import stats
from statsmodels.stats.multitest import multipletests

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.statistics.measures import bleu_measure, compare_measures, mean_measure
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.systems import Column, Layout, systems_table

RESPONSES = ["the cat sat on the mat today", "it rains in the north", "", "a dog"]
GOLD = ["the cat sat on a mat today", "it rains a lot in the north", "no", "a dog barks at night"]


def value(measure):
    return float(measure.value(measure.summands.sum(axis=0, keepdims=True))[0])


def test_means_leave_out_what_is_undefined():
    measure = mean_measure([1.0, math.nan, 4.0], low=-2.1, high=6.4)
    assert measure.defined == 2
    assert value(measure) == pytest.approx((2.5 + 2.1) / 8.5)
    assert math.isnan(value(mean_measure([math.nan])))


def corpus_bleu(responses, references):
    return sacrebleu.corpus_bleu(responses, [references]).score


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


def test_differences_of_means_are_paired_t_tests():
    first, second = np.array([0.9, 0.4, 0.8, 0.7, 0.6]), np.array([0.1, 0.5, 0.3, 0.2, 0.6])
    diff = mean_measure(first).difference(mean_measure(second))
    expected = stats.ttest_rel(first, second)
    assert (diff.value, diff.p_value()) == pytest.approx((np.mean(first - second), expected.pvalue))
    assert diff.interval(0.9) == pytest.approx(tuple(expected.confidence_interval(0.9)))


def test_students_hours_of_sleep():
    """Student 1908, The probable error of a mean: two drugs on ten patients, p = 0.00283."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    diff = mean_measure(second).difference(mean_measure(first))
    assert (diff.value, diff.value / diff.error) == pytest.approx((1.58, 4.0621), abs=1e-4)
    assert diff.p_value() == pytest.approx(0.002833, abs=1e-6)
    assert diff.interval() == pytest.approx((0.7001142, 2.4598858), abs=1e-6)


def test_bleu_without_each_row():
    """The standard error of BLEU comes from the figures that leave out one row each."""
    texts, gold = [*RESPONSES, "it is a dog"], [*GOLD, "it is a big dog"]
    estimate = bleu_measure(texts, gold).estimate()
    rows = range(5)
    left = [
        corpus_bleu([texts[i] for i in rows if i != out], [gold[i] for i in rows if i != out])
        for out in rows
    ]
    whole = corpus_bleu(texts, gold)
    expected = math.sqrt(4 / 5 * sum((figure - whole) ** 2 for figure in left))
    assert (estimate.value, estimate.error, estimate.degrees) == pytest.approx((whole, expected, 4))


def test_compared():
    generator = np.random.default_rng(0)
    plain, noise = generator.normal(size=(2, 60))
    decodings = {
        "plain": {"a": mean_measure(plain), "b": mean_measure(plain)},
        "better": {"a": mean_measure(plain + 1 + noise / 9), "b": mean_measure(plain)},
        "noisy": {"a": mean_measure(plain + noise), "b": mean_measure(plain)},
    }
    baselines = {"better": "plain", "noisy": "plain"}
    cells = compare_measures(decodings, baselines)
    assert math.isnan(cells["plain"]["a"].p_value)
    assert not cells["plain"]["a"].significant
    better, noisy = (cells[name]["a"] for name in ("better", "noisy"))
    assert better.value == pytest.approx(np.mean(plain + 1 + noise / 9))
    p_values = [stats.ttest_1samp(sample, 0).pvalue for sample in (1 + noise / 9, noise)]
    assert [better.p_value, noisy.p_value] == pytest.approx(p_values)
    assert [better.corrected, noisy.corrected] == pytest.approx(
        multipletests(p_values, method="holm")[1]
    )
    assert (better.significant, cells["better"]["b"].p_value) == (True, 1.0)
    expected = stats.ttest_1samp(plain, 0).confidence_interval()
    assert cells["plain"]["a"].interval == pytest.approx(tuple(expected))


def test_means_are_corrected_together():
    generator = np.random.default_rng(2)
    noise = generator.normal(0.3, 1, (3, 40))
    zero = mean_measure(np.zeros(40))
    systems = {
        "old": dict.fromkeys("abc", zero),
        "new": {name: mean_measure(row) for name, row in zip("abc", noise, strict=True)},
    }
    p_values = [stats.ttest_1samp(row, 0).pvalue for row in noise]
    comparisons = compare_measures(systems, {"new": "old"}, together="ab")["new"]
    expected = [*multipletests(p_values[:2], method="holm")[1], p_values[2]]
    assert [comparisons[name].corrected for name in "abc"] == pytest.approx(expected)


def test_differences_from_the_baseline():
    generator = np.random.default_rng(0)
    plain, noise = generator.normal(size=(2, 60))
    systems = {
        "plain": {"a": mean_measure(plain)},
        "better": {"a": mean_measure(plain + 0.25)},
        "same": {"a": mean_measure(plain)},
        "varied": {"a": mean_measure(plain + 0.25 + noise / 5)},
    }
    cells = compare_measures(systems, dict.fromkeys(("better", "same", "varied"), "plain"))
    assert cells["plain"]["a"].difference is None
    # A constant shift does not show how rows vary: no interval, and p of the exchange test.
    better = cells["better"]["a"]
    assert better.difference.value == pytest.approx(0.25)
    assert all(map(math.isnan, better.difference.interval))
    assert better.p_value == 2 / 2**60
    assert better.difference_text(2) == "+0.25*, p < 0.001, corrected < 0.001"
    assert cells["same"]["a"].difference_text(2) == "+0.00, p = 1.000"
    expected = stats.ttest_1samp(0.25 + noise / 5, 0)
    low, high = expected.confidence_interval()
    assert cells["varied"]["a"].difference_text(2) == (
        f"+{np.mean(0.25 + noise / 5):.2f}* (+{low:.2f} to +{high:.2f}), p < 0.001, corrected "
        "< 0.001"
    )


def test_differences_are_of_the_rows_that_both_have():
    """A system gains nothing by having no scores in rows where it would be wrong."""
    right = np.repeat([1.0, 0.0], 15)
    silent = np.where(right == 0, math.nan, right)
    defined, undefined = corpus(right), corpus(silent)
    rows = {("c", "p"): [defined], ("c", "q"): [undefined]}
    table = systems_table(rows, Layout(), {"q": "p"}, differences=True)
    cells = {row[1]: row[2] for row in table.rows}
    assert cells["q \u2212 p"] == "+0.000, p = 1.000, 15 of 30 rows"
    t_test = stats.ttest_1samp(np.repeat([0.0, 100.0], 15), 0)
    low, high = t_test.confidence_interval()
    assert cells["q \u2212 p: undefined, %"] == f"+50.0* (+{low:.1f} to +{high:.1f}), p < 0.001"
    assert cells["p: undefined, %"].startswith("0.0 (0.0\u2013")
    warning = "c: Warning: 50.0% of q's scores of f1 are undefined, 0.0% of p's (p < 0.001)"
    assert any(note.startswith(warning) for note in table.notes)
    tidy_rows = tidy(table)
    assert (tidy_rows["q", "f1"]["rows"], tidy_rows["q", "f1"]["difference_rows"]) == (15, 15)
    assert tidy_rows["q", "f1: undefined, %"]["value"] == 50
    # Counted as 0, both are the same.
    table = systems_table(rows, Layout(), {"q": "p"}, differences=True, undefined=0.0)
    assert tidy(table)["q", "f1"]["rows"] == 30
    assert {row[1]: row[2] for row in table.rows}["q \u2212 p"] == "+0.000, p = 1.000"
    assert "Undefined scores count as 0." in table.notes


def test_empty_answers_have_a_row():
    answered = corpus(np.linspace(0, 1, 20))
    blank = dataclasses.replace(answered, is_empty=np.repeat([1.0, 0.0], [5, 15]))
    full = dataclasses.replace(answered, is_empty=np.zeros(20))
    rows = {("c", "a"): [full], ("c", "b"): [blank]}
    table = systems_table(rows, Layout(), {"b": "a"}, differences=True)
    cells = {row[1]: row[2] for row in table.rows}
    expected = stats.ttest_1samp(np.repeat([100.0, 0.0], [5, 15]), 0)
    low, high = expected.confidence_interval()
    text = f"+25.0* (+{low:.1f} to +{high:.1f}), p = {expected.pvalue:.3f}"
    assert cells["b \u2212 a: empty answers, %"] == text
    assert any("25.0% of b's answers are empty, 0.0% of a's" in note for note in table.notes)


def test_verdicts_say_which_system_is_better_by_what():
    generator = np.random.default_rng(4)
    old, gain, noise = generator.normal(size=(3, 40))
    scores = {
        "old": {"nli": old, "words": old},
        "new": {"nli": old + 0.6 + gain, "words": old + 0.1 + noise},
    }
    rows = {
        ("c", name): [Corpus("c", tuple(map(str, range(40))), np.full(40, np.nan), values)]
        for name, values in scores.items()
    }
    table = systems_table(rows, Layout(), {"new": "old"}, differences=True)
    p_values = [stats.ttest_1samp(x, 0).pvalue for x in (0.6 + gain, 0.1 + noise)]
    nli, words = multipletests(p_values, method="holm")[1]
    # Guenther 1981, at the level 0.05 / 2 with a power of 0.8.
    tail = stats.norm.isf(0.0125)
    ratio = np.var(noise, ddof=1) / np.mean(0.1 + noise) ** 2
    needed = math.ceil((tail + stats.norm.isf(0.2)) ** 2 * ratio + tail**2 / 2)
    p_text = "p < 0.001" if nli < 0.001 else f"p = {nli:.3f}"
    assert table.notes[0] == (
        f"c: Verdict: new is better by nli ({p_text}), undecided by words (p = {words:.3f}; a "
        f"difference of this size needs about {needed:,} rows); corrected over 2 scorers; 40 rows."
    )
    table = systems_table(rows, Layout(), {"old": "new"}, differences=True)
    assert table.notes[0].startswith(f"c: Verdict: new is better by nli ({p_text}), undecided by")


def test_a_verdict_counts_the_rows_of_groups_that_both_systems_have():
    scores = np.arange(60.0)
    fields = tuple({"doc": str(i // 4)} for i in range(60))
    rows = {}
    for name in ("old", "new"):
        values = np.where(scores % 9 == 8, np.nan, scores) if name == "new" else scores + 1
        corpus = Corpus("c", tuple(map(str, range(60))), np.full(60, np.nan), {"a": values})
        rows["c", name] = [dataclasses.replace(corpus, fields=fields)]
    table = systems_table(rows, Layout(), {"new": "old"}, cluster_field="doc", differences=True)
    assert table.notes[0].endswith("; 15 groups (54 of 60 rows).")


def test_rows_of_a_unit_are_left_out_together():
    generator = np.random.default_rng(3)
    first, second = generator.normal(0.3, 1, (2, 25))
    second -= 0.3
    once = {n: {"a": mean_measure(v)} for n, v in (("first", first), ("second", second))}
    tenfold = {
        n: {"a": mean_measure(np.repeat(v, 10))} for n, v in (("first", first), ("second", second))
    }
    single = compare_measures(once, {"second": "first"})["second"]["a"]
    units = np.arange(250) // 10
    repeated = compare_measures(tenfold, {"second": "first"}, units=units)["second"]["a"]
    # Copies of rows tell nothing new.
    assert repeated.interval == pytest.approx(single.interval)
    assert repeated.difference.interval == pytest.approx(single.difference.interval)
    assert repeated.p_value == pytest.approx(single.p_value)
    blind = compare_measures(tenfold, {"second": "first"})["second"]["a"]
    assert np.ptp(blind.interval) < np.ptp(single.interval) / 2


def corpus(scores, ids=None, targets=()):
    ids = ids or tuple(str(number) for number in range(len(scores)))
    texts = tuple(f"the answer is {i}" for i in ids)
    fields = tuple({"target": target} for target in targets) or ({},) * len(ids)
    by_scorer = {"f1": np.array(scores, float)}
    return Corpus("c", tuple(ids), np.full(len(ids), np.nan), by_scorer, texts, fields)


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


def test_replicates_count_together_and_have_a_spread():
    runs = {("c", "a"): [corpus([0.0, 1.0]), corpus([1.0, 1.0])], ("c", "b"): [corpus([0.5, 0.5])]}
    cells = tidy(systems_table(runs, Layout(), {"a": "b"}))
    assert cells["a", "f1"]["value"] == pytest.approx(0.75)
    assert cells["a", "f1"]["rows"] == 4
    assert cells["a", "f1"]["spread"] == pytest.approx(math.sqrt(0.125))
    assert math.isnan(cells["b", "f1"]["spread"])
    many = [corpus([0.0, 1.0])] * 20  # replicates add no rows
    notes = systems_table({("c", "a"): many, ("c", "b"): many}, Layout(), {}).notes
    assert "c: 2 rows can say little: figures may change much." in notes


def test_all_systems_of_a_corpus_have_the_first_ones_scorers():
    other = dataclasses.replace(corpus([0.5]), scores={"g1": np.array([0.5])})
    with pytest.raises(InputError, match="c: b has no scores of f1, which the first system has"):
        systems_table({("c", "a"): [corpus([0.1])], ("c", "b"): [other]}, Layout(), {})


def test_rows_are_paired_by_their_ids():
    """In another order the same scores do not differ at all."""
    first, second = corpus([0.1, 0.9, 0.4]), corpus([0.4, 0.1, 0.9], ids=("2", "0", "1"))
    cells = tidy(systems_table({("c", "a"): [first], ("c", "b"): [second]}, Layout(), {"b": "a"}))
    assert cells["b", "f1"]["p_value"] == 1.0


def test_bleu_and_published_figures():
    layout = Layout(
        "T",
        {"BLEU": Column(reference="target", digits=1), "F1": Column("f1", only=("d",))},
        {"c": {"a": {"BLEU": 12.5}}},
        ("As the paper has it.",),
    )
    ids = ("0", "1")
    answers = corpus([0.1, 0.2], ids, ("the answer is 0", "the answer is 1"))
    table = systems_table({("c", "a"): [answers]}, layout, {})
    assert table.rows[0][:2] == ("c", "a")
    assert table.rows[0][2].startswith("100.0 (")
    assert table.rows[0][3] == ""  # a column of another corpus
    assert table.rows[1] == ("c", "a (published)", "12.5", "")
    assert tidy(table)["a", "BLEU"]["published"] == 12.5
    assert "As the paper has it." in table.notes


def test_what_does_not_fit_is_an_error():
    first, second = corpus([0.1, 0.2]), corpus([0.1, 0.2], ids=("0", "7"))
    with pytest.raises(InputError, match="c: b has other rows than the first system: '1' is one"):
        systems_table({("c", "a"): [first], ("c", "b"): [second]}, Layout(), {})
    with pytest.raises(ConfigError, match=r"There is no system 'aa'\. Did you mean 'a'"):
        systems_table({("c", "a"): [first], ("c", "b"): [first]}, Layout(), {"b": "aa"})
    with pytest.raises(InputError, match="none of the table's scorers"):
        systems_table({("c", "a"): [first]}, Layout("T", {"x": Column("nli")}), {})


def test_rows_without_any_score_are_an_error():
    nothing = corpus([math.nan, math.nan])
    with pytest.raises(InputError, match="All scores of f1 are undefined in all rows; the field"):
        systems_table({("c", "a"): [nothing]}, Layout(), {})
    counted = systems_table({("c", "a"): [nothing]}, Layout(), {}, undefined=0.0)
    assert tidy(counted)["a", "f1"]["value"] == 0
