import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.input_rows import input_row
from faith_jax.datasets.raw.own_files import LABELLED_RESPONSES, TEXT_TO_TEXT
from tests.datasets.raw import files

SPLITS = ("train", "validation", "test")


def read(tmp_path, rows, bad_rows=None, columns="passages,answer,label"):
    table = "\n".join([columns, *(",".join(map(str, row)) for row in rows)])
    return {
        split: files.read(LABELLED_RESPONSES, split, tmp_path, table, bad_rows=bad_rows)
        for split in SPLITS
    }


def test_rows_are_split_by_their_groundings(tmp_path):
    rows = [
        (f"Room {n} is free.", f"It is {n} {kind}.", kind) for n in range(400) for kind in (0, 1)
    ]
    by_split = read(tmp_path, rows)
    groundings = {split: {row["knowledge"] for row in rows} for split, rows in by_split.items()}
    assert sum(map(len, by_split.values())) == 800
    assert sum(map(len, groundings.values())) == 400  # none is in two splits
    # 70%, 15% and 15% of 400, within three standard deviations.
    assert len(groundings["train"]) == pytest.approx(280, abs=28)
    assert len(groundings["validation"]) == pytest.approx(60, abs=22)
    assert by_split["train"][0].keys() == {"id", "knowledge", "response", "label"}
    assert {row["label"] for row in by_split["train"]} == {0, 1}
    # A split depends on the grounding alone.
    for split, some in read(tmp_path, rows[::-3]).items():
        assert {row["knowledge"] for row in some} <= groundings[split]


def test_columns_of_other_names_and_rows_without_a_label_are_errors(tmp_path):
    with pytest.raises(InputError, match=r"to hold the grounding; rename it\. Known names"):
        read(tmp_path, [("Tea.", "Tea.", 1)], columns="source,answer,label")
    rows = [("Tea is hot.", "It is.", 1), ("Tea.", "No.", "")]
    with pytest.raises(InputError, match=r"labelled.csv: row 2: field 'label': expected 1"):
        read(tmp_path, rows)
    bad_rows = BadRows(skip=True)
    assert sum(map(len, read(tmp_path, rows, bad_rows).values())) == 1
    assert bad_rows.count == 1


ROWS = [
    {"history": ["Hi!", "What is tea?"], "knowledge": ["Tea is a leaf.", "It grows."],
     "response": "A leaf."},
    {"id": "b", "query": "Is it free?", "pro": "It helps.", "con": ["It costs."],
     "response": "Yes."},
    {"inputs": "copy: tea", "response": "tea"},
    {"id": 7, "inputs": "read this", "targets": "write that", "response": None},
]  # fmt: skip


def read_texts(tmp_path, rows, bad_rows=None):
    return files.read(TEXT_TO_TEXT, "train", tmp_path, rows, bad_rows=bad_rows)


def test_rows_to_respond_to_are_texts_to_train_on(tmp_path):
    examples = read_texts(tmp_path, ROWS)
    assert [tuple(example.values()) for example in examples] == [
        (
            "1",
            "<knowledge> Tea is a leaf. It grows. <wizard> Hi! <seeker> What is tea?",
            "A leaf.",
        ),
        ("b", "{query: Is it free?} {pro: It helps.} {con: It costs.}", "{response: Yes.}"),
        ("3", "copy: tea", "tea"),
        ("7", "read this", "write that"),
    ]
    # As `infer` reads them.
    assert examples[1]["inputs"] == input_row(ROWS[1], "", "b").inputs


def test_rows_without_a_response_are_errors(tmp_path):
    rows = [*ROWS, {**ROWS[0], "response": " "}, {"inputs": "a"}, {"query": "Is it?"}]
    with pytest.raises(InputError, match=r"train.jsonl:5: field 'response': expected a text"):
        read_texts(tmp_path, rows)
    bad_rows = BadRows(skip=True)
    assert len(read_texts(tmp_path, rows, bad_rows)) == 4
    assert bad_rows.count == 3
