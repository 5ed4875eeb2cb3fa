import math

import pytest

from faith_jax.statistics import dataset_statistics as tables
from faith_jax.statistics.dataset_statistics import lexical_bias


def turn(dialogue, history, response, knowledge="k", original=""):
    return {
        "dialogue": dialogue,
        "history": history,
        "response": response,
        "knowledge": knowledge,
        "original_response": original,
    }


def test_faithdials_table_counts_the_utterances_of_each_dialogue():
    examples = [
        turn(0, ["s one"], "w one two", original="x"),
        turn(0, ["s one", "w one two", "s"], "w four words now"),
        turn(1, ["s a b c"], "w"),
    ]
    rows = {row[0]: row[1] for row in tables.faithdial_table({"train": examples}).rows}
    assert rows["turns"] == 4 + 2
    assert rows["conversations"] == 2
    assert rows["turns per conversation"] == 3
    # Wizard: 3, 4, 1 words; Seeker: "s one", "s", "s a b c".
    assert rows["average words of the Wizard"] == pytest.approx((3 + 4 + 1) / 3)
    assert rows["average words of the Seeker"] == pytest.approx((2 + 1 + 4) / 3)
    assert rows["average words of the knowledge"] == 1
    assert rows["edited Wizard turns (%)"] == pytest.approx(100 / 3)


@pytest.mark.parametrize("edits", [0, 3])
def test_edited_seekers_are_those_that_wizard_of_wikipedia_has_not(edits):
    wow = [turn(9, ["s"] * 3 + [f"seeker {n}"], f"w  {n}") for n in range(10)]
    examples = [
        turn(n, [f"seeker {n}" + "!" * (n < edits)], "edited", original=f"w {n}") for n in range(10)
    ]
    examples += [turn(10, ["seeker"], "a response with a corrected typo"), turn(11, [], "w 1")]
    table = tables.faithdial_table({"train": examples}, tables.said_before(wow))
    rows = {row[0]: row[1] for row in table.rows}
    assert rows["compared Seeker turns"] == 10
    assert rows["edited Seeker turns (%)"] == pytest.approx(10 * edits)
    assert "28.1%" in table.notes[0]
    assert "edited Seeker turns (%)" not in {
        row[0] for row in tables.faithdial_table({"train": examples}).rows
    }


def labelled(begin, *modes):
    return {"begin_labels": begin, "vrm_labels": list(modes)}


@pytest.mark.parametrize("is_planted", [True, False])
def test_shares_of_classes_and_of_speech_acts_in_them(is_planted):
    unfaithful = [labelled(["Hallucination"], "Disclosure")] * 8
    faithful = [labelled(["Entailment"], "Edification", "Question")] * 2
    if not is_planted:
        both = [["Disclosure"], ["Edification", "Question"]] * 5
        unfaithful = [labelled(["Hallucination"], *modes) for modes in both[:8]]
        faithful = [labelled(["Entailment"], *modes) for modes in both[8:]]
    examples = [*unfaithful, *faithful, labelled([], "Advisement")]
    table = tables.share_by_class({"gold": examples})
    shares = {row[1]: dict(zip(table.columns[2:], row[2:], strict=True)) for row in table.rows}
    assert list(shares) == ["Hallucination", "Entailment"]
    assert shares["Hallucination"]["%"] == pytest.approx(80)  # of those with labels
    assert shares["Entailment"]["responses"] == 2
    edification = [row["Edification %"] for row in shares.values()]
    assert edification == ([0, 100] if is_planted else [50, 50])
    assert shares["Hallucination"]["Disclosure %"] == (100 if is_planted else 50)


def test_counts_of_combinations_and_their_total():
    splits = {
        "train": [{"a": "x", "b": 1}, {"a": "x", "b": 1}, {"a": "y", "b": 0}],
        "test": [{"a": "y", "b": 1}],
    }
    table = tables.count_table("T", splits, ("a", "b"))
    assert table.columns == ("a", "b", "train", "test")
    assert table.rows == (("x", "1", 2, 0), ("y", "0", 1, 0), ("y", "1", 0, 1), ("all", "", 3, 1))


def test_extractiveness_leaves_out_what_is_undefined():
    examples = [{"r": "a b", "k": "a b"}, {"r": "x", "k": "a b"}, {"r": "?", "k": "a"}]
    splits = {"test": [*examples, {"r": "a", "k": ""}]}
    table = tables.extractiveness_table(splits, lambda e: e["r"], lambda e: e["k"])
    assert table.rows == (
        ("test", "coverage", 0.5, 0.25, 0.5, 0.75),
        ("test", "density", 1.0, 0.5, 1.0, 1.5),
    )
    assert table.notes == ("test: 1 of 4 examples without words of knowledge are left out.",)


def test_bigrams_of_each_label():
    examples = [{"c": "is not", "l": "n"}, {"c": "is not", "l": "n"}, {"c": "is so", "l": "y"}]
    table = tables.bias_table(examples, "c", "l")
    assert [(row[0], row[1], row[4]) for row in table.rows] == [
        ("n", "is not", 2),
        ("y", "is so", 1),
    ]


def test_dialogue_table_counts_turns_and_what_has_no_knowledge():
    examples = [turn("a", ["x y"], "one two"), turn("a", [], "one", ""), turn("b", ["x"], "1 2 3")]
    rows = {
        row[0]: row[1:]
        for row in tables.dialogue_table("T", {"s": examples, "t": examples[:1]}).rows
    }
    assert rows["examples"] == (3, 1)
    assert rows["conversations"] == (2, 1)
    assert rows["average words of the response"] == (2, 2)
    assert rows["average words of the history"] == (1, 2)
    assert rows["average words of the knowledge"] == (1, 1)
    assert rows["without knowledge (%)"] == (pytest.approx(100 / 3), 0)


def test_closed_form():
    texts = ["a a", "a b", "a a", "a c", "a a", "a b"]
    rows = {(r.bigram, r.label): r for r in lexical_bias(texts, list("xxyyyy"))}
    # Six occurrences: "a a" 3, "a b" 2, "a c" 1; label x 2, label y 4.
    figures = rows["a b", "y"]
    assert (figures.occurrences, figures.probability) == (1, 0.5)
    expected = 1 / 6 * math.log(0.5 / (4 / 6))
    assert figures.local_mutual_information == pytest.approx(expected)
    assert rows["a c", "y"].local_mutual_information == pytest.approx(1 / 6 * math.log(1 / (4 / 6)))
    total = sum(row.local_mutual_information for row in rows.values())
    assert total == pytest.approx(mutual_information())


def mutual_information():
    joint = {("a", "x"): 1, ("b", "x"): 1, ("a", "y"): 2, ("b", "y"): 1, ("c", "y"): 1}
    words = {"a": 3, "b": 2, "c": 1}
    labels = {"x": 2, "y": 4}
    return sum(
        n / 6 * math.log((n / 6) / (words[w] / 6 * labels[label] / 6))
        for (w, label), n in joint.items()
    )


def test_bigrams_in_lower_case_highest_first():
    texts = ["It is not hot.", "It is Not cold", "It is hot"]
    rows = lexical_bias(texts, ["REFUTES", "REFUTES", "SUPPORTS"])
    assert rows[0].bigram == "is hot"
    assert rows[0].label == "SUPPORTS"
    assert {row.bigram for row in rows} == {"it is", "is not", "not hot", "not cold", "is hot"}
    values = [row.local_mutual_information for row in rows]
    assert values == sorted(values, reverse=True)
    refuting = [row for row in rows if row.label == "REFUTES"]
    assert (refuting[0].bigram, refuting[0].occurrences) == ("is not", 2)
