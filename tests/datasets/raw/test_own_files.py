import csv
import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.input_rows import input_row
from faith_jax.datasets.raw.own_files import LABELLED_RESPONSES, TEXT_TO_TEXT

SPLITS = ("train", "validation", "test")


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("passages", "answer", "label"), *rows])
    return {path.name: path}


def read(paths, bad_rows=None):
    return {split: list(LABELLED_RESPONSES.examples(paths, split, bad_rows)) for split in SPLITS}


def test_rows_are_split_by_their_groundings(tmp_path):
    rows = [
        (f"Room {n} is free.", f"It is {n} {kind}.", kind) for n in range(400) for kind in (0, 1)
    ]
    by_split = read(write(tmp_path / "labelled.csv", rows))
    groundings = {split: {row["knowledge"] for row in rows} for split, rows in by_split.items()}
    assert sum(map(len, by_split.values())) == 800
    assert sum(map(len, groundings.values())) == 400  # none is in two splits
    # 70%, 15% and 15% of 400, within three standard deviations.
    assert len(groundings["train"]) == pytest.approx(280, abs=28)
    assert len(groundings["validation"]) == pytest.approx(60, abs=22)
    assert by_split["train"][0].keys() == {"id", "knowledge", "response", "label"}
    assert {row["label"] for row in by_split["train"]} == {0, 1}


def test_a_split_depends_on_the_grounding_alone(tmp_path):
    rows = [(f"Room {n} is free.", "It is.", "faithful") for n in range(50)]
    whole = read(write(tmp_path / "labelled.csv", rows))
    half = read(write(tmp_path / "labelled.csv", rows[::-2]))
    for split in SPLITS:
        places = {row["knowledge"] for row in whole[split]}
        assert {row["knowledge"] for row in half[split]} <= places


def test_columns_of_other_names_are_to_be_renamed(tmp_path):
    path = tmp_path / "labelled.csv"
    path.write_text("source,answer,label\nTea.,Tea.,1\n")
    with pytest.raises(
        InputError, match=r"is known to hold the grounding; rename it\. Known names"
    ):
        read({path.name: path})


def test_rows_without_a_label_are_errors(tmp_path):
    paths = write(tmp_path / "labelled.csv", [("Tea is hot.", "It is.", 1), ("Tea.", "No.", "")])
    with pytest.raises(InputError, match=r"labelled.csv: row 2: field 'label': expected 1"):
        read(paths)
    bad_rows = BadRows(skip=True)
    assert sum(map(len, read(paths, bad_rows).values())) == 1
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
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(TEXT_TO_TEXT.examples({path.name: path}, "train", bad_rows))


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
