import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from faith_jax.errors import InputError
from faith_jax.evaluation.verification import verification_table
from faith_jax.labels import DialFactLabel, verification_label

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


def figures(table, group):
    (row,) = [row for row in table.rows if row[1] == group]
    return dict(zip(table.columns[2:], row[2:], strict=True))


def test_figures_by_hand():
    table = verification_table(CLAIMS, {"model": PREDICTIONS})
    found = figures(table, "all")
    # Three labels: rows 0 and 3 are right. F1: SUPPORTS 2/4, REFUTES 0, NOT ENOUGH INFO 2/3.
    assert found["number"] == 5
    assert found["3-way Acc"] == pytest.approx(40)
    assert found["3-way F1"] == pytest.approx(100 * (0.5 + 0 + 2 / 3) / 3)
    # Two: rows 0, 2, 3 are right. SUPPORTS 2/4, NOT SUPPORTED 4/5.
    assert found["2-way Acc"] == pytest.approx(60)
    assert found["2-way F1"] == pytest.approx(100 * (0.5 + 0.8) / 2)
    # Factual claims alone: row 0 of four.
    assert found["factual Acc"] == pytest.approx(25)
    assert found["factual F1"] == pytest.approx(100 * (0.5 + 0 + 0) / 3)
    assert figures(table, "written")["number"] == 3
    assert figures(table, "generated")["3-way Acc"] == pytest.approx(50)


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1))
def test_three_labels_agree_with_scikit_learn(pairs):
    claims = [claim(number, label) for number, (label, _) in enumerate(pairs)]
    said = {str(number): predicted for number, (_, predicted) in enumerate(pairs)}
    found = figures(verification_table(claims, {"m": said}), "all")
    labels, predictions = [pair[0] for pair in pairs], list(said.values())
    there = sorted({*labels, *predictions})
    assert found["3-way Acc"] == pytest.approx(100 * metrics.accuracy_score(labels, predictions))
    macro = metrics.f1_score(labels, predictions, labels=there, average="macro", zero_division=0)
    assert found["3-way F1"] == found["factual F1"] == pytest.approx(100 * macro)
    two = [[verification_label(x, "factual", 2) for x in side] for side in (labels, predictions)]
    assert found["2-way Acc"] == pytest.approx(100 * metrics.accuracy_score(*two))


def test_predictions_of_two_labels():
    said = {"0": "SUPPORTS", "1": "NOT SUPPORTED"}
    found = figures(verification_table(CLAIMS[:2], {"m": said}), "all")
    assert (found["2-way Acc"], found["3-way Acc"]) == (100, 50)


def test_what_is_missing():
    with pytest.raises(InputError, match="m: 1 of 5 claims have no prediction, '4' the first"):
        verification_table(CLAIMS, {"m": {k: v for k, v in PREDICTIONS.items() if k != "4"}})
    with pytest.raises(InputError, match="no claims"):
        verification_table([], {"m": {}})
