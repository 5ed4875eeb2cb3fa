"""The file of the worst rows."""

import csv
import json

from faith_jax.cli import main
from faith_jax.export.worst_rows import write_worst

COLUMNS = {"id": "", "corpus": "", "grounding": "contexts", "response": "answer", "history": "",
           "label": ""}  # fmt: skip


def scored(number, value, **changes):
    return {
        "id": str(number), "corpus": "c", "grounding": [f"Text {number}."], "perspectives": [],
        "history": [], "generated_text": f"Answer {number}.", "label": None, "fields": {},
        "scores": {"a": value, "b": None}, **changes,
    }  # fmt: skip


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_lowest_scores_come_first_and_undefined_ones_not_at_all(tmp_path):
    path = str(tmp_path / "worst.csv")
    rows = [scored(n, value) for n, value in enumerate([0.5, 0.25, None, 0.75, 0.25, 1.0])]
    assert write_worst(path, iter(rows), ["a", "b"], COLUMNS, 4) == 4
    worst_rows = read(path)
    assert [row["id"] for row in worst_rows] == ["1", "4", "0", "3"]
    assert [row["a"] for row in worst_rows] == ["0.25", "0.25", "0.5", "0.75"]
    assert worst_rows[0] == {
        "id": "1", "corpus": "c", "contexts": "Text 1.", "answer": "Answer 1.", "label": "",
        "a": "0.25", "b": "",
    }  # fmt: skip


def test_further_columns_lists_and_formulas(tmp_path):
    path = str(tmp_path / "worst.csv")
    fields = {"=run": 3, "note": "=1+1", "tags": ["x"]}
    rows = [scored(0, 0.5, fields=fields, grounding=["Tea.", "Ink."]), scored(1, 0.75)]
    write_worst(path, rows, ["a"], COLUMNS, 9)
    first, second = read(path)
    assert (first["'=run"], first["note"], first["tags"]) == ("3", "'=1+1", '["x"]')
    assert [json.loads(row["contexts"]) for row in (first, second)] == [
        ["Tea.", "Ink."], ["Text 1."]
    ]  # fmt: skip
    assert second["note"] == ""


def test_numbers_are_no_formulas(tmp_path):
    path = str(tmp_path / "worst.csv")
    plain = ["-0.5", "+3", "-1,5", "-1e-07", "-2.5E+3"]
    guarded = ["-0.5+1", "-.5", "-1-2", "'-0.5", "-0.5\n", "+a", "- 5"]
    fields = {f"c{number}": text for number, text in enumerate([*plain, *guarded])}
    write_worst(path, [scored(0, -0.5, fields=fields)], ["a"], COLUMNS, 9)
    (row,) = read(path)
    assert row["a"] == "-0.5"
    assert [row[name] for name in fields] == [*plain, *(f"'{text}" for text in guarded)]


def test_worst_rows_can_be_scored_again_with_the_same_options(tmp_path):
    grounding = ["Tea calms people.", "Tea keeps people awake."]
    row = {"id": "1", "grounding": grounding, "side": ["pro", "con"], "response": "Tea calms."}
    source, worst = tmp_path / "rows.jsonl", tmp_path / "worst.jsonl"
    source.write_text(json.dumps(row))
    options = ["--scorers=npov_rouge1_coverage", "--perspective-column=side"]
    command = ["score", *options, f"--worst={worst}", "--worst-rows=1"]
    assert main([*command, f"--input={source}", f"--output={tmp_path}/a.jsonl"]) == 0
    written = json.loads(worst.read_text())
    assert written["side"] == row["side"]
    command = ["score", *options, f"--input={worst}", f"--output={tmp_path}/b.jsonl"]
    assert main(command) == 0
    again = json.loads((tmp_path / "b.jsonl").read_text())
    assert again["perspectives"] == row["side"]
    assert again["scores"] == {"npov_rouge1_coverage": written["npov_rouge1_coverage"]}
