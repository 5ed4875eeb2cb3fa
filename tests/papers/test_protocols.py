import csv
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from faith_jax.core.errors import InputError
from faith_jax.core.labels import DialFactLabel, verification_label
from faith_jax.papers.dialfact.verifiable import verifiable_table
from faith_jax.papers.dialfact.verification import (
    best_ordered_thresholds,
    confusion_table,
    verification_table,
)
from faith_jax.papers.faithdial.critic_accuracy import AccuracyLayout, accuracy, accuracy_table
from faith_jax.papers.pmi.begin import threshold_table
from faith_jax.papers.push.table3_pronouns import pronoun_table
from faith_jax.statistics.bootstrap import Draws, interval_note
from faith_jax.statistics.classification import best_threshold, call_figures
from faith_jax.statistics.scored_corpora import Corpus
from tests.paths import REAL, needs_shared


def corpus(scores, labels, sources=(), responses=()):
    ids = tuple(map(str, range(len(labels))))
    fields = tuple({"source": source} for source in sources)
    labels = np.array(labels, float)
    return Corpus("begin", ids, labels, {"s": np.array(scores, float)}, tuple(responses), fields)


def test_the_threshold_is_chosen_on_development_and_applied_to_test():
    development = corpus([0.9, 0.6, 0.5, 0.4, 0.1, math.nan], [1, 1, 0, 1, 0, 1])
    # At 0.4 F1 is 6/7, the best; at 0.6 it would be 4/5.
    test = corpus(
        [0.4, 0.39, 0.8, 0.2, math.nan, 0.7],
        [1, 1, 0, 0, 1, math.nan],
        ["wow", "wow", "tc", "tc", "wow", "tc"],
    )
    table = threshold_table(development, test)
    assert table.columns == ("scorer", "threshold", "P", "R", "F1", "Acc", "F1 tc", "F1 wow")
    (row,) = table.rows
    # Of rows 1, 2, 3, 4, 5 the first and third reach 0.4; the undefined one does not.
    assert row[:2] == ("s", 0.4)
    assert row[2:6] == pytest.approx((50, 100 / 3, 40, 40))
    assert row[6:] == pytest.approx((0, 50))


def test_one_class_of_development_has_no_threshold():
    table = threshold_table(corpus([0.1], [1]), corpus([0.1, 0.2], [0, 1]), group_field="")
    assert all(map(math.isnan, table.rows[0][1:]))
    assert math.isnan(best_threshold(np.array([0.1]), [1]))


def test_verifiable_claims_by_the_best_macro_f1_of_development():
    # At 0.3 all five would be class 1: F1 of class 1 is best there, 6/8, but class 0 has none.
    development = corpus([0.9, 0.8, 0.3, 0.4, 0.5], [1, 1, 1, 0, 0])
    test = corpus([0.8, 0.7, 0.9, math.nan, 0.9], [1, 0, 0, 1, math.nan])
    table = verifiable_table(development, test)
    assert table.columns[3:] == ("Acc", "F1 verifiable", "F1 non-verifiable")
    row, random = table.tidy.rows
    # Called 1: the first and third of the four with labels. One hit of two ones, one of two zeros.
    assert row[:3] == ("s", 0.8, "high")
    assert row[3] == pytest.approx(80)  # of development: 4/5 of both classes
    assert row[4::3] == pytest.approx((50, 50, 50))
    assert row[5:7] == (0, 100)
    assert table.rows[1] == ("random", "\u2013", "\u2013", "50.0", "50.0", "50.0")
    # Half of each class is called right: precision 1/2, recall 1/2.
    assert random[4::3] == pytest.approx((50, 50, 50))
    share = verifiable_table(development, corpus([1.0] * 4, [1, 1, 1, 0])).tidy.rows[1]
    # Of 2 calls 1.5 are right, of 3 ones half are found; of the other class 0.5 of 2, and half.
    assert share[7::3] == pytest.approx((100 * 2 * 0.75 * 0.5 / 1.25, 100 * 2 * 0.25 * 0.5 / 0.75))


def test_development_chooses_the_direction():
    # Low scores are verifiable but for one row, of development and of test.
    development = corpus([0.1, 0.2, 0.3, 0.7, 0.9], [1, 1, 1, 0, 0])
    test = corpus([0.3, 0.31, 0.9, math.nan], [1, 1, 0, 1])
    table = verifiable_table(development, test)
    assert table.rows[0][1:3] == ("\u2264 0.3", "100.0")
    assert table.tidy.rows[0][:4] == ("s", 0.3, "low", 100)
    # Right: 0.3 and 0.9; an undefined score is no verifiable claim, in this direction neither.
    assert table.tidy.rows[0][4] == pytest.approx(50)
    flipped = verifiable_table(
        corpus(1 - development.scores["s"], development.labels),
        corpus(1 - test.scores["s"], test.labels),
    )
    assert flipped.tidy.rows[0][1:3] == (pytest.approx(0.7), "high")
    assert flipped.tidy.rows[0][3:] == table.tidy.rows[0][3:]
    one_class = verifiable_table(corpus([0.1, 0.2], [1, 1]), test).rows[0]
    assert one_class[1] == one_class[3] == "\u2013"


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=2, max_size=12).filter(
        lambda rows: len({label for _, label in rows}) == 2
    ),
    st.booleans(),
)
def test_no_threshold_is_better(rows, macro):
    scores, labels = (np.array(column, float) for column in zip(*rows, strict=True))

    def f1(threshold):
        average = "macro" if macro else "binary"
        return metrics.f1_score(labels, scores >= threshold, average=average, zero_division=0)

    best = best_threshold(scores, labels, macro)
    values = {score: f1(score) for score in scores.tolist()}
    assert values[best] == pytest.approx(max(values.values()))
    assert best == max(score for score, value in values.items() if value > values[best] - 1e-9)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=10))
def test_no_two_thresholds_are_better(rows):
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))

    def f1(low, high):
        calls = (scores >= low).astype(int) + (scores >= high)
        parts = ((calls == name, labels == name) for name in range(3))
        values = [
            2 * (called & true).sum() / max(called.sum() + true.sum(), 1) for called, true in parts
        ]
        return sum(values) / 3

    low, high = best_ordered_thresholds(scores, labels)
    assert low <= high
    places = [*range(6)]
    best = max(f1(lower, upper) for lower in places for upper in places if lower <= upper)
    assert f1(low, high) == pytest.approx(best)


def test_a_part_without_groups():
    test = corpus([0.1, 0.2], [0, 1], ["a", "b"])
    bare = Corpus("d", ("1",), np.ones(1), {"s": np.ones(1)}, ("r",), ({},))
    with pytest.raises(InputError, match="has no field 'source'"):
        threshold_table(test, bare)


def test_correlations_with_the_pronoun_i():
    responses = ["I think I know.", "It is.", "I'm here.", "My tea, i.e. mine.", "I."]
    scores, labels = [0.1, 0.9, 0.4, 0.8, math.nan], [0, 1, math.nan, 1, 0]
    table = pronoun_table({"begin": corpus(scores, labels, responses=responses)})
    assert table.columns == ("", "begin")
    assert (table.title.count('having "I" or not'), table.notes) == (1, ())
    occurs = [1, 0, 1, 0, 1]  # once or twice
    rows = dict(table.rows)
    assert rows["s"] == pytest.approx(stats.kendalltau(scores[:4], occurs[:4]).statistic)
    defined = [0, 1, 3, 4]
    expected = stats.kendalltau([labels[i] for i in defined], [occurs[i] for i in defined])
    assert rows["label"] == pytest.approx(expected.statistic)


@pytest.mark.parametrize("is_planted", [True, False])
def test_a_planted_distrust_of_the_pronoun_is_found_whatever_its_count(is_planted):
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 7, 400) * rng.integers(0, 2, 400)
    responses = ["I know, " * count + "it is." for count in counts]
    labels = counts == 0  # nobody who speaks of themselves is faithful
    if not is_planted:
        labels = rng.permutation(labels)
    table = pronoun_table({"c": corpus([0.0] * 400, labels, responses=responses)})
    tau = dict(table.rows)["label"]
    assert tau == pytest.approx(-1) if is_planted else abs(tau) < 0.15


@needs_shared
def test_the_labels_of_q2_meet_the_papers_correlation():
    with open(REAL / "q2" / "cross_annotation.csv", encoding="utf-8") as file:
        rows = [
            (row[f"{system}_response"], float(row[f"{system}_label"]) == 0)
            for row in csv.DictReader(file)
            for system in ("dodeca", "memnet")
        ]
    responses, labels = zip(*rows, strict=True)
    table = pronoun_table({"q2": corpus([0.0] * len(rows), labels, responses=responses)})
    tau = dict(table.rows)["label"]
    assert (len(rows), tau) == (1088, pytest.approx(-0.031, abs=5e-4))  # -0.03 in table 3


def test_nothing_to_correlate():
    table = pronoun_table({"begin": corpus([0.1, 0.2], [1, 0], responses=["I.", "I."])})
    (note,) = table.notes
    assert note.endswith("all values are equal, or all or no responses have one.")
    assert all(math.isnan(row[1]) for row in table.rows)


LABELS = [label.value for label in DialFactLabel]


def claim(number, label, kind="factual", source="written"):
    return {"id": str(number), "response_label": label, "type_label": kind, "data_type": source}


CLAIMS = [
    claim(0, "SUPPORTS"),
    claim(1, "REFUTES"),
    claim(2, "NOT ENOUGH INFO", source="generated"),
    claim(3, "SUPPORTS", kind="personal", source="generated"),  # counts as NOT ENOUGH INFO
    claim(4, "SUPPORTS"),
]
PREDICTIONS = {"0": "SUPPORTS", "1": "supports ", "2": "Refutes", "3": "NOT  ENOUGH INFO", "4": "I"}


def verified(table, group):
    (row,) = [row for row in table.tidy.rows if row[1] == group]
    return dict(zip(table.tidy.columns[2:], row[2:], strict=True))


def test_figures_by_hand():
    table = verification_table(CLAIMS, {"model": PREDICTIONS})
    figures = verified(table, "all")
    # Three labels: rows 0 and 3 are right. F1: SUPPORTS 2/4, REFUTES 0, NOT ENOUGH INFO 2/3.
    assert figures["number"] == 5
    assert figures["3-way Acc"] == pytest.approx(40)
    assert figures["3-way F1"] == pytest.approx(100 * (0.5 + 0 + 2 / 3) / 3)
    # Two: rows 0, 2, 3 are right. SUPPORTS 2/4, NOT SUPPORTED 4/5.
    assert figures["2-way Acc"] == pytest.approx(60)
    assert figures["2-way F1"] == pytest.approx(100 * (0.5 + 0.8) / 2)
    # Factual claims alone: row 0 of four.
    assert figures["factual Acc"] == pytest.approx(25)
    assert figures["factual F1"] == pytest.approx(100 * (0.5 + 0 + 0) / 3)
    assert verified(table, "written")["number"] == 3
    assert verified(table, "generated")["3-way Acc"] == pytest.approx(50)


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1))
def test_three_labels_agree_with_scikit_learn(pairs):
    claims = [claim(number, label) for number, (label, _) in enumerate(pairs)]
    calls = {str(number): predicted for number, (_, predicted) in enumerate(pairs)}
    figures = verified(verification_table(claims, {"m": calls}, Draws(resamples=2)), "all")
    labels, predictions = [pair[0] for pair in pairs], list(calls.values())
    classes = sorted({*labels, *predictions})
    assert figures["3-way Acc"] == pytest.approx(100 * metrics.accuracy_score(labels, predictions))
    macro = metrics.f1_score(labels, predictions, labels=classes, average="macro", zero_division=0)
    assert figures["3-way F1"] == figures["factual F1"] == pytest.approx(100 * macro)
    two = [[verification_label(x, "factual", 2) for x in side] for side in (labels, predictions)]
    assert figures["2-way Acc"] == pytest.approx(100 * metrics.accuracy_score(*two))


def test_what_is_said_of_each_label_by_hand():
    table = confusion_table(CLAIMS, {"model": PREDICTIONS, "all right": {
        "0": "SUPPORTS", "1": "REFUTES", "2": "NOT ENOUGH INFO", "3": "NOT ENOUGH INFO",
        "4": "SUPPORTS",
    }})  # fmt: skip
    assert table.columns == ("system", "label", "claims", *LABELS, "no label")
    assert table.rows == (
        ("model", "SUPPORTS", 2, "50.0", "0.0", "0.0", "50.0"),
        ("model", "REFUTES", 1, "100.0", "0.0", "0.0", "0.0"),
        ("model", "NOT ENOUGH INFO", 2, "0.0", "50.0", "50.0", "0.0"),
        ("all right", "SUPPORTS", 2, "100.0", "0.0", "0.0", "0.0"),
        ("all right", "REFUTES", 1, "0.0", "100.0", "0.0", "0.0"),
        ("all right", "NOT ENOUGH INFO", 2, "0.0", "0.0", "100.0", "0.0"),
    )
    assert table.tidy.rows[3] == ("model", "SUPPORTS", "no label", 2, 1, 50.0)


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1))
def test_confusion_agrees_with_scikit_learn(pairs):
    claims = [claim(number, label) for number, (label, _) in enumerate(pairs)]
    calls = {str(number): predicted for number, (_, predicted) in enumerate(pairs)}
    counts = metrics.confusion_matrix(*zip(*pairs, strict=True), labels=LABELS)
    for _, label, call, size, count, _ in confusion_table(claims, {"m": calls}).tidy.rows:
        row = counts[LABELS.index(label)]
        assert (size, count) == (row.sum(), row[LABELS.index(call)])


@needs_shared
def test_the_real_sample_has_the_figures_of_scikit_learn():
    """As the authors' run_metrics.py has them: classes SUPPORTS, REFUTES, NOT ENOUGH INFO."""
    path = REAL / "dialfact" / "test_sample.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    order = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
    predictions = {row["id"]: order[int(np.argmax(row["fever_score"]))] for row in rows}
    figures = verified(verification_table(rows, {"m": predictions}), "all")
    factual = [row for row in rows if row["type_label"] == "factual"]
    assert (len(rows), len(factual)) == (150, 124)
    for name, some in (("3-way", rows), ("factual", factual)):
        labels, calls = [r["response_label"] for r in some], [predictions[r["id"]] for r in some]
        assert figures[f"{name} Acc"] == pytest.approx(100 * metrics.accuracy_score(labels, calls))
        macro = metrics.f1_score(labels, calls, average="macro")
        assert figures[f"{name} F1"] == pytest.approx(100 * macro)
    two = [[text == "SUPPORTS" for text in texts] for texts in (
        [row["response_label"] for row in rows], list(predictions.values())
    )]  # fmt: skip
    assert figures["2-way Acc"] == pytest.approx(100 * metrics.accuracy_score(*two))


def test_calls_have_intervals():
    labels, calls = ["a", "b"] * 200, ["a", "b", "a", "a"] * 100
    cells = call_figures(labels, calls, Draws(resamples=2000))
    assert list(cells) == ["Acc", "F1", "a", "b"]
    assert [cell.value for cell in cells.values()] == pytest.approx([75, 220 / 3, 80, 200 / 3])
    # The bootstrap of a share is a binomial's.
    ends = stats.binom(400, 0.75).ppf([0.025, 0.975]) / 4
    assert cells["Acc"].interval == pytest.approx(ends, abs=0.5)
    assert cells["F1"].interval.low < cells["F1"].value < cells["F1"].interval.high
    # Of a class's rows all are drawn or none; of the classes that a resample has, F1 is the mean.
    together = call_figures(labels, calls, Draws(resamples=200), labels)
    assert together["F1"].interval == pytest.approx((100 * 2 / 3 / 2, 100))
    assert together["a"].value == pytest.approx(80)
    single = call_figures(["a"], ["no label"])["F1"]
    assert (single.value, single.text) == (0, "0.0")  # there is one draw only


def test_claims_of_a_dialogue_are_drawn_together():
    claims = [claim(n, LABELS[n % 3]) | {"context_id": f"dialogue {n % 2}"} for n in range(60)]
    predictions = {"m": {str(n): "SUPPORTS" if n % 2 else "I" for n in range(60)}}
    alone, together = (
        verification_table(claims, predictions, cluster_field=field) for field in ("none", "auto")
    )
    low, high = (f"3-way Acc {end}" for end in ("low", "high"))
    assert verified(together, "all")[low] == 0 < verified(alone, "all")[low]
    assert verified(together, "all")[high] > verified(alone, "all")[high]
    assert together.notes == (
        interval_note(0.95, 1000, "groups"),
        "The claims: rows with the same context_id are one unit: 2 groups of 60 rows.",
        "The claims: with only 2 groups, intervals, resampled from so few, are too narrow; "
        "--cluster-field names another unit.",
    )
    assert alone.notes == (interval_note(0.95, 1000, "claims"),)
    # Claims without a dialogue, as FEVER's, depend on no other.
    without = [c | {"context_id": ""} for c in claims]
    assert verification_table(without, predictions).rows == alone.rows
    with pytest.raises(InputError, match="the claim '0' has no topic, like 60 of 60 claims"):
        verification_table(claims, predictions, cluster_field="topic")
    shared = [c | {"evidence": ["Tea is hot."]} for c in claims]
    notes = verification_table(shared, predictions, cluster_field="evidence").notes
    assert "all 60 rows have the same evidence: one group" in notes[1]


def test_predictions_of_two_labels_and_missing_ones():
    predictions = {"0": "SUPPORTS", "1": "NOT SUPPORTED"}
    figures = verified(verification_table(CLAIMS[:2], {"m": predictions}), "all")
    assert (figures["2-way Acc"], figures["3-way Acc"]) == (100, 50)
    with pytest.raises(InputError, match="m: 1 of 5 claims have no prediction, '4' the first"):
        verification_table(CLAIMS, {"m": {k: v for k, v in PREDICTIONS.items() if k != "4"}})
    with pytest.raises(InputError, match="no claims"):
        verification_table([], {"m": {}})


def test_accuracy_and_its_interval():
    labels = np.arange(400) % 2
    calls = np.where(np.arange(400) < 300, labels, 1 - labels)
    estimate = accuracy(calls, labels, resamples=2000)
    assert (estimate.value, estimate.rows) == (0.75, 400)
    # The bootstrap of a share is a binomial's.
    for end, quantile in zip(estimate.interval, (0.025, 0.975), strict=True):
        assert end == pytest.approx(stats.binom(400, 0.75).ppf(quantile) / 400, abs=0.005)
    assert accuracy(calls, labels, resamples=2000) == estimate
    # 12 calls that are all right do not show how many of others would be.
    perfect = accuracy(labels[:12], labels[:12])
    assert (perfect.value, perfect.interval) == (1, pytest.approx((math.nan,) * 2, nan_ok=True))
    grouped = accuracy(
        calls[[0, 1, 2, 300] * 3], labels[[0, 1, 2, 300] * 3], units=np.arange(12) // 4
    )
    assert (grouped.value, math.isnan(grouped.interval.low)) == (0.75, True)
    unknown = accuracy([*calls, math.nan, 1], [*labels, 1, math.nan], resamples=2000)
    assert unknown == estimate


def test_the_table_of_accuracies():
    rows = corpus([0.9, 0.5, 0.4, 0.1], [1, 1, 1, math.nan])
    layout = AccuracyLayout(
        "Calls",
        ("critic", "data"),
        corpora={"other": "Other", "begin": "BEGIN"},
        marks={"a": {"BEGIN": "!"}},
        published={"a": {"BEGIN": 61.1, "Other": 50.0}},
    )
    unlabelled = corpus([0.9], [math.nan])
    accuracies = accuracy_table({"a": {"begin": rows}, "b": {"begin": unlabelled}}, layout, 100)
    assert accuracies.columns == ("critic", "BEGIN")
    assert accuracies.rows[0][1].startswith("66.7! (")
    assert accuracies.rows[1:] == (("a (published)", "61.1!"), ("b", "no labels"))
    assert accuracies.tidy.rows[0][:4] == ("a", "BEGIN", 3, pytest.approx(2 / 3))
    assert accuracies.tidy.rows[0][-1] == 0.611
