import collections
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw import dialfact
from tests.datasets.raw.files import read
from tests.paths import REAL, needs_shared

CLAIM = {
    "id": "1___2--0",
    "context_id": "1___2",
    "context": ["Hi. ", "Hello."],
    "response": "Tea is a leaf.",
    "evidence_list": [["Tea", "u", "Tea is a leaf.", "0"], ["Tea", "u", "", "1"]],
    "response_label": "SUPPORTS",
    "type_label": "factual",
    "data_type": "written",
}
ADDED = CLAIM | {
    "response": "Tea is hot.",
    "evidence_list": [["Tea", "u", "Tea is a leaf.", "0", "gt_evidence_added"]],
}


def test_fields_of_a_claim(tmp_path):
    (row,) = read(dialfact.DIALFACT, "validation", tmp_path, [CLAIM])
    assert row == {
        "id": "1___2--0",
        "context_id": "1___2",
        "context": ["Hi.", "Hello."],
        "response": "Tea is a leaf.",
        "evidence_titles": ["Tea", "Tea"],
        "evidence_urls": ["u", "u"],
        "evidence": ["Tea is a leaf.", ""],
        "evidence_ids": ["0", "1"],
        "evidence_added": 0,
        "response_label": "SUPPORTS",
        "type_label": "factual",
        "data_type": "written",
        "label": 1,
    }
    assert row.keys() == dialfact.DIALFACT.features.keys()


def test_evidence_that_was_added(tmp_path):
    claim = ADDED | {"response_label": "NOT ENOUGH INFO"}
    (row,) = read(dialfact.DIALFACT, "validation", tmp_path, [claim])
    assert (row["evidence_added"], row["label"]) == (1, 0)


@needs_shared
def test_the_real_sample():
    rows = list(dialfact.read_claims(REAL / "dialfact" / "test_sample.jsonl", BadRows()))
    assert len(rows) == len({row["id"] for row in rows}) == 150
    assert {row["response_label"] for row in rows} == {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}


TURN = {
    "id": "train-0-1",
    "dialogue": 0,
    "history": ["What is tea?"],
    "response": "A leaf.",
    "knowledge": "Tea is a leaf.",
    "knowledge_title": "Tea",
    "passage_titles": ["Tea", "Tea", "Cup"],
    "passage_sentences": ["Tea is a leaf.", "It is hot.", "A cup is round."],
}
POOL = [(0, "Tea", "Tea is a leaf."), (1, "Kite", "A kite flies."), (2, "Tea", "Tea is a leaf.")]


def test_a_turn_has_one_relevant_and_two_irrelevant_sentences():
    used, displayed, random = dialfact.evidence_pairs(TURN, POOL)
    assert used == {
        "id": "train-0-1-used",
        "context": ["What is tea?"],
        "response": "A leaf.",
        "evidence_title": "Tea",
        "evidence": "Tea is a leaf.",
        "kind": "used",
        "label": 1,
    }
    assert (displayed["kind"], displayed["label"]) == ("shown", 0)
    assert (displayed["evidence_title"], displayed["evidence"]) in [
        ("Tea", "It is hot."),
        ("Cup", "A cup is round."),
    ]
    # Of the pool, one entry is the turn's own dialogue, another holds the sentence used.
    assert (random["evidence_title"], random["evidence"]) == ("Kite", "A kite flies.")
    assert used.keys() == dialfact.DIALFACT_EVIDENCE.features.keys()


def test_all_sentences_shown_are_drawn_equally_often():
    counts = collections.Counter(
        row["evidence"]
        for seed in range(400)
        for row in dialfact.evidence_pairs(TURN, POOL, seed)
        if row["kind"] == "shown"
    )
    assert set(counts) == {"It is hot.", "A cup is round."}
    assert abs(counts["It is hot."] - 200) < 4 * math.sqrt(400) / 2  # four standard deviations


@pytest.mark.parametrize(
    ("change", "pool", "kinds"),
    [
        ({}, [], ["used", "shown"]),
        ({}, POOL[:1], ["used", "shown"]),
        ({"passage_titles": [], "passage_sentences": []}, POOL, ["used", "random"]),
        ({"passage_titles": ["Tea"], "passage_sentences": ["Tea is a leaf."]}, [], ["used"]),
    ],
)
def test_what_there_is_not_is_left_out(change, pool, kinds):
    assert [row["kind"] for row in dialfact.evidence_pairs(TURN | change, pool)] == kinds


SCORES = st.lists(st.floats(-1, 1), max_size=12)


@given(SCORES, st.integers(1, 6))
def test_selection_against_its_definition(scores, most):
    candidates = [dialfact.Evidence("T", "u", f"s{i}", score) for i, score in enumerate(scores)]
    selected = dialfact.select_evidence(candidates, most)
    ranks = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:most]
    assert [e.sentence for e in selected] == [f"s{i}" for i in ranks if scores[i] > 0]


def read_retrieved(tmp_path, *retrieved, bad_rows=None):
    contents = [ADDED], retrieved
    return read(dialfact.DIALFACT_RETRIEVED, "validation", tmp_path, *contents, bad_rows=bad_rows)


def test_retrieved_evidence_takes_the_annotators_place(tmp_path):
    evidence = [["A", "u1", "One.", "0", 0.2], ["B", "u2", "Two.", 0.9], ["C", "u3", "No.", -0.1]]
    evidence.append(["D", "u4", " ", 1])
    (row,) = read_retrieved(tmp_path, {"id": "1___2--0", "evidence": evidence})
    assert row["evidence_titles"] == ["B", "A"]
    assert row["evidence_urls"] == ["u2", "u1"]
    assert row["evidence"] == ["Two.", "One."]
    assert (row["evidence_ids"], row["evidence_added"]) == (["0", "1"], 0)
    assert row["response"] == "Tea is hot."
    # A retriever may write a line for each sentence.
    lines = ({"id": "1___2--0", "evidence": [sentence]} for sentence in evidence)
    assert read_retrieved(tmp_path, *lines) == [row]


def test_a_claim_without_evidence(tmp_path):
    (row,) = read_retrieved(tmp_path, {"id": "1___2--0", "evidence": []})
    assert row["evidence"] == []
    unsupported = {"id": "1___2--1", "evidence": []}
    with pytest.raises(InputError, match=r"valid_evidence\.jsonl: has no evidence of .*1___2--0"):
        read_retrieved(tmp_path, unsupported)
    bad_rows = BadRows(skip=True)
    assert read_retrieved(tmp_path, unsupported, bad_rows=bad_rows) == []
    assert bad_rows.count == 1


@pytest.mark.parametrize("entry", [["T", "u", 3, 0.5], ["T", "u", "s", math.nan]])
def test_bad_evidence(tmp_path, entry):
    message = r"evidence\.jsonl:1: field 'evidence\[0\]': expected three texts first and a number"
    with pytest.raises(InputError, match=message):
        read_retrieved(tmp_path, {"id": "1___2--0", "evidence": [entry]})
