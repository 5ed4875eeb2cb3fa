import csv

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw.own_files import LABELLED_RESPONSES

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
