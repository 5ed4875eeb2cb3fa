import csv

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw.faithdial_audit import FAITHDIAL_AUDIT, read_audit
from faith_jax.statistics.dataset_statistics import share_by_class
from tests.paths import REAL, needs_shared

COLUMNS = {
    "gold_cmu": ("evidence", "history", "response", "BEGIN", "VRM"),
    "gpt2_wow": ("knowledge", "history", "gpt2", "begin_label", "vrm_label"),
}


def read(tmp_path, name, *rows, bad_rows=None):
    path = tmp_path / f"{name}.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS[name], *rows])
    return list(read_audit(path, bad_rows or BadRows()))


def test_fields_of_both_kinds_of_files(tmp_path):
    cells = ("Tea is a leaf.", " Tea? ", "A leaf.", "Partial Hallucination", "Ack.,Edification")
    (row,) = read(tmp_path, "gold_cmu", cells)
    assert row == {
        "id": "gold_cmu-2",
        "speaker": "gold",
        "source": "cmu",
        "history": "Tea?",
        "knowledge": "Tea is a leaf.",
        "response": "A leaf.",
        "begin_labels": ["Entailment", "Hallucination"],
        "vrm_labels": ["Ack.", "Edification"],
        "label": 0,
    }
    assert row.keys() == FAITHDIAL_AUDIT.features.keys()
    (example,) = read(tmp_path, "gpt2_wow", (*cells[:3], "entailment,hallucination", cells[4]))
    assert example == row | {"id": "gpt2_wow-2", "speaker": "gpt2", "source": "wow"}


@pytest.mark.parametrize(
    ("begin", "modes", "labels", "expected"),
    [
        ("Entailment", "confirmation,\nacknowledgment", ["Entailment"], ["Confirmation", "Ack."]),
        (
            "entailmentt. uncooperative",
            "question disclosure",
            ["Entailment", "Uncooperative"],
            ["Question", "Disclosure"],
        ),
        ("hallucinated", "edificaiton,advice", ["Hallucination"], ["Edification", "Advisement"]),
        ("generic", "e, d, i, f, i, c, a, t, i, o, n", ["Generic"], ["Edification"]),
        ("generic", "ack.,Ack.,entailment", ["Generic"], ["Ack."]),
    ],
)
def test_labels_and_modes_however_they_are_spelt(tmp_path, begin, modes, labels, expected):
    (row,) = read(tmp_path, "gpt2_wow", ("k", "h", "r", begin, modes))
    assert (row["begin_labels"], row["vrm_labels"]) == (labels, expected)
    assert row["label"] == ("Entailment" in labels)


def test_empty_cells_of_the_authors_files(tmp_path):
    rows = read(tmp_path, "gpt2_wow", ("", "[]", "", "generic", ""), ("", "", "", "", ""))
    assert [(row["knowledge"], row["history"], row["response"]) for row in rows] == [("", "", "")]


@pytest.mark.parametrize(
    ("begin", "vrm", "message"),
    [
        ("supported", "question", "field 'BEGIN': expected labels among Entailment, Hallu"),
        ("generic", "answer", "field 'VRM': expected labels among Disclosure, Edification, Ack"),
    ],
)
def test_unknown_labels(tmp_path, begin, vrm, message):
    rows = [("k", "h", "r", "generic", "question"), ("k", "h", "r", begin, vrm)]
    with pytest.raises(InputError, match=rf"gpt2_wow\.csv:3: {message}"):
        read(tmp_path, "gpt2_wow", *rows)
    bad_rows = BadRows(skip=True)
    assert len(read(tmp_path, "gpt2_wow", *rows, bad_rows=bad_rows)) == 1
    assert bad_rows.count == 1


@needs_shared
@pytest.mark.parametrize(
    ("name", "faithful", "hallucinated"), [("gold_wow", 57, 122), ("gpt2_wow", 30, 163)]
)
def test_the_real_files(name, faithful, hallucinated):
    rows = list(read_audit(REAL / "faithdial_audit" / f"{name}.csv", BadRows()))
    assert len(rows) == 200
    assert sum(row["label"] for row in rows) == faithful
    assert sum("Hallucination" in row["begin_labels"] for row in rows) == hallucinated


@needs_shared
def test_classes_of_the_real_file_come_near_the_published():
    rows = list(read_audit(REAL / "faithdial_audit" / "gold_wow.csv", BadRows()))
    shares = {row[1]: row[3] for row in share_by_class({"gold_wow": rows}).rows}
    assert shares == pytest.approx({
        "Partial Hallucination": 41.5, "Entailment": 28.5, "Hallucination": 19.5,
        "Uncooperative": 5.5, "Generic": 5.0,
    })  # fmt: skip
    published = {"Partial Hallucination": 42.3, "Hallucination": 19.7, "Generic": 5.3}
    for name, share in published.items():
        assert shares[name] == pytest.approx(share, abs=1)
