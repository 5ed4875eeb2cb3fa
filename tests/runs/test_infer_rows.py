"""What infer reads of rows, and what it carries over to the output."""

import json

import pytest

from faith_jax.errors import InputError
from faith_jax.runs import infer_rows
from faith_jax.runs.infer_rows import InputRow


def read(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return infer_rows.read_input_file(str(path), "procon_npov", 1, 0)


def test_texts_that_all_rows_have_are_carried():
    given = [
        {"query": "Why?", "knowledge": ["a", "b"], "turn": 3, "note": "x", "response": "gold"},
        {"query": "How?", "knowledge": [], "turn": 4, "note": ["x"], "response": "gold"},
    ]
    rows = [InputRow(str(n), "text", fields=fields) for n, fields in enumerate(given)]
    found = infer_rows.with_common_fields(rows)
    assert [dict(row.fields) for row in found] == [
        {"query": "Why?", "knowledge": ["a", "b"]},
        {"query": "How?", "knowledge": []},
    ]
    assert infer_rows.with_common_fields([]) == []


def test_rows_with_arguments_and_rows_whose_arguments_are_found(tmp_path):
    given = {
        "query": "Should it be?",
        "pro_arguments": ["It helps."],
        "con_arguments": ["It costs."],
    }
    asked = {"id": "voting", "query": "Should voting be compulsory?", "response": "Yes and no."}
    first, second = read(tmp_path, given, asked)
    assert first.inputs == "{query: Should it be?} {pro: It helps.} {con: It costs.}"
    assert (first.id, first.target, dict(first.fields)) == ("1", "", given)
    assert (second.id, second.target) == ("voting", "Yes and no.")
    assert list(second.fields) == ["query", "pro_arguments", "con_arguments"]
    assert f"{{pro: {second.fields['pro_arguments'][0]}}}" in second.inputs


def test_whole_inputs_keep_their_knowledge(tmp_path):
    row = {"inputs": "Say it: tea is hot.", "knowledge": "Tea is hot.", "label": "SUPPORTS"}
    (found,) = read(tmp_path, row)
    assert (found.inputs, found.second_inputs) == (row["inputs"], row["knowledge"])
    assert dict(found.fields) == {"knowledge": "Tea is hot."}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "?"}, r"rows.jsonl:1: expected a field 'query' or 'inputs', got \['text'\]"),
        ({"query": "Q?", "pro_arguments": ["A."]}, r"field 'con_arguments': expected a list"),
        ({"query": " "}, r"field 'query': expected a text, got ' '"),
    ],
)
def test_bad_rows(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, row)
