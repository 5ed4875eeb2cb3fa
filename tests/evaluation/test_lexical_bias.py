import math

import pytest

from faith_jax.evaluation.lexical_bias import lexical_bias


def test_closed_form():
    rows = {(r.ngram, r.label): r for r in lexical_bias(["a b", "a c", "a b"], ["x", "y", "y"], 1)}
    # Six occurrences: a 3, b 2, c 1; label x 2, label y 4.
    found = rows["b", "y"]
    assert (found.occurrences, found.probability) == (1, 0.5)
    expected = 1 / 6 * math.log(0.5 / (4 / 6))
    assert found.local_mutual_information == pytest.approx(expected)
    assert rows["c", "y"].local_mutual_information == pytest.approx(1 / 6 * math.log(1 / (4 / 6)))
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
    assert rows[0].ngram == "is hot"
    assert rows[0].label == "SUPPORTS"
    assert {row.ngram for row in rows} == {"it is", "is not", "not hot", "not cold", "is hot"}
    values = [row.local_mutual_information for row in rows]
    assert values == sorted(values, reverse=True)
    refuting = [row for row in rows if row.label == "REFUTES"]
    assert (refuting[0].ngram, refuting[0].occurrences) == ("is not", 2)


def test_texts_too_short_for_an_ngram():
    assert lexical_bias(["a", ""], ["x", "y"]) == []
    with pytest.raises(ValueError, match=r"shorter|longer"):
        lexical_bias(["a"], [])
