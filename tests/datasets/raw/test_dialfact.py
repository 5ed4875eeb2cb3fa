import collections
import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw import dialfact
from faith_jax.datasets.raw_files import sample_files
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


def read(tmp_path, *claims, bad_rows=None):
    path = tmp_path / "valid_split.jsonl"
    path.write_text("".join(json.dumps(claim) + "\n" for claim in claims), encoding="utf-8")
    return list(dialfact.DIALFACT.examples({path.name: path}, "validation", bad_rows))


def test_fields_of_a_claim(tmp_path):
    (row,) = read(tmp_path, CLAIM)
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
    added = [["Tea", "u", "Tea is a leaf.", "0", "gt_evidence_added"]]
    (row,) = read(tmp_path, CLAIM | {"evidence_list": added, "response_label": "NOT ENOUGH INFO"})
    assert (row["evidence_added"], row["label"]) == (1, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"response_label": "SUPPORTED"}, "Did you mean 'SUPPORTS'"),
        ({"type_label": "private"}, "expected one of factual, personal"),
        ({"response": " "}, "field 'response': expected a text"),
        ({"context": ["Hi.", 3]}, r"field 'context\[1\]'"),
        ({"evidence_list": [["Tea", "u", "x"]]}, r"field 'evidence_list\[0\]'"),
        ({"evidence_list": [["Tea", "u", None, "0"]]}, r"evidence_list\[0\]': expected four texts"),
    ],
)
def test_bad_claims(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, CLAIM, CLAIM | change)
    bad_rows = BadRows(skip=True)
    assert len(read(tmp_path, CLAIM, CLAIM | change, CLAIM, bad_rows=bad_rows)) == 2
    assert bad_rows.count == 1
    assert "valid_split.jsonl:2" in bad_rows.messages[0]


@needs_shared
def test_the_real_sample():
    rows = list(dialfact.read_claims(REAL / "dialfact" / "test_sample.jsonl", BadRows()))
    assert len(rows) == len({row["id"] for row in rows}) == 150
    assert {row["response_label"] for row in rows} == {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}


def test_the_sample_has_all_labels_and_types():
    paths = sample_files(dialfact.DIALFACT)
    for split in dialfact.DIALFACT.splits:
        rows = list(dialfact.DIALFACT.examples(paths, split))
        kinds = collections.Counter((row["response_label"], row["type_label"]) for row in rows)
        assert set(kinds) == {
            ("SUPPORTS", "factual"),
            ("REFUTES", "factual"),
            ("NOT ENOUGH INFO", "factual"),
            ("NOT ENOUGH INFO", "personal"),
        }
