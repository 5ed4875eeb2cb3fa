import collections

import pytest

from faith_jax.core import templates
from faith_jax.core.labels import verification_label
from tests.tasks.examples import examples, strings


@pytest.mark.parametrize(
    ("split", "source", "suffix", "ways"),
    [("validation", "oracle", "", 3), ("test", "retrieved", "_2way", 2)],
)
def test_verification_with_evidence(split, source, suffix, ways):
    for row in examples(f"dialfact_verify_{source}{suffix}_sample", split):
        expected = templates.dialfact_inputs(
            strings(row["context"]),
            row["response"].decode(),
            strings(row["evidence_titles"]),
            strings(row["evidence"]),
        )
        assert row["inputs_pretokenized"].decode() == expected
        label = verification_label(row["response_label"].decode(), row["type_label"].decode(), ways)
        assert row["targets_pretokenized"].decode() == label


@pytest.mark.parametrize(
    ("name", "suffix", "ways"),
    [("fever", "_2way", 2), ("colloquial_claims", "", 3)],
)
def test_claims_without_a_dialogue_are_in_the_same_form(name, suffix, ways):
    rows = examples(f"{name}_verify{suffix}_sample", "train")
    for row in rows:
        evidence = (strings(row["evidence_titles"]), strings(row["evidence"]))
        expected = templates.dialfact_inputs([], row["response"].decode(), *evidence)
        assert row["inputs_pretokenized"].decode() == expected
        assert row["hypothesis"] == row["response"]
        label = verification_label(row["response_label"].decode(), "factual", ways)
        assert row["targets_pretokenized"].decode() == label
    assert {row["response_label"] for row in rows} == {b"SUPPORTS", b"REFUTES", b"NOT ENOUGH INFO"}


def test_claim_only_shows_no_evidence():
    for row in examples("dialfact_verify_augmented_claim_only_sample", "validation"):
        assert row["premise"] == b""
        expected = templates.dialfact_claim_inputs(
            strings(row["context"]), row["response"].decode()
        )
        assert row["inputs_pretokenized"].decode() == expected


def test_without_context_the_claim_stands_beside_its_evidence():
    rows = examples("dialfact_verify_augmented_no_context_sample", "validation")
    assert any(len(row["context"]) for row in rows)
    for row in rows:
        evidence = (strings(row["evidence_titles"]), strings(row["evidence"]))
        expected = templates.dialfact_inputs([], row["response"].decode(), *evidence)
        assert row["inputs_pretokenized"].decode() == expected
        assert row["hypothesis"] == row["response"]


def test_verifiable_claims_are_the_factual_ones():
    targets = collections.Counter(
        row["targets_pretokenized"] for row in examples("dialfact_verifiable_sample", "validation")
    )
    assert targets == {b"factual": 92, b"personal": 9}


def test_personal_claims_lack_information():
    assert verification_label("SUPPORTS", "personal") == "NOT ENOUGH INFO"
    assert verification_label("SUPPORTS", "personal", ways=2) == "NOT SUPPORTED"


def test_at_most_five_sentences_and_two_utterances_are_shown():
    text = templates.dialfact_inputs(list("abc"), "x", list("TTTTTTT"), list("1234567"))
    assert "{context: b [EOT] c}" in text
    assert text.count("content:") == 5
    assert "content: 6" not in text
    without = templates.dialfact_inputs([], "x", ["T", "T"], ["", "2"])
    assert without == "{context: } {claim: x} {evidence: title: T content: 2}"


@pytest.mark.parametrize(("suffix", "shows_context"), [("", True), ("_claim_only", False)])
def test_queries_with_the_sentence_that_was_used(suffix, shows_context):
    rows = examples(f"dialfact_dense{suffix}_sample", "train")
    assert len(rows) == 7
    for row in rows:
        assert row["kind"] == b"used"
        turns = strings(row["context"])[-2:] if shows_context else []
        query = templates.dense_query(turns, row["response"].decode())
        assert row["inputs_pretokenized"].decode() == query
        assert (" [SEP] " in query) == bool(turns)
        assert row["targets_pretokenized"] == row["evidence"]
        assert row["title"] == row["evidence_title"]


@pytest.mark.parametrize(("suffix", "shows_context"), [("", True), ("_claim_only", False)])
def test_sentence_selection(suffix, shows_context):
    rows = examples(f"dialfact_evidence{suffix}_sample", "train")
    assert len(rows) == 21
    for row in rows:
        expected = templates.dialfact_inputs(
            strings(row["context"]) if shows_context else [],
            row["response"].decode(),
            [row["evidence_title"].decode()],
            [row["evidence"].decode()],
        )
        assert row["inputs_pretokenized"].decode() == expected
        turns = strings(row["context"])[-2:] if shows_context else []
        assert row["claim"].decode() == " [EOT] ".join([*turns, row["response"].decode()])
        assert row["sentence"] == row["evidence"]
        target = b"relevant" if row["kind"] == b"used" else b"irrelevant"
        assert row["targets_pretokenized"] == target
