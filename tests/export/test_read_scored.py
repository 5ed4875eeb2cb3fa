"""Tables with a column for each scorer are read as scored rows."""

import decimal
import gzip
import json

import pyarrow.parquet
import pytest

from faith_jax.core.errors import InputError
from faith_jax.export.read_scored import read_scored_rows

GERMAN = (
    "id;question;answer;my_judge;label;team\n"
    "1;What?;It is hot.;0,93;1;a\n"
    '2;Where?;"In Rome; Italy";0,2;hallucinated;b\n'
    "3;Who?;Nobody;;;b\n"
)


def write(path, text):
    path.write_text(text)
    return path


def test_scores_of_another_system_in_a_csv_file(tmp_path):
    path = write(tmp_path / "answers.csv", GERMAN)
    first, second, third = read_scored_rows(path, ["my_judge"])
    assert first == {
        "id": "1",
        "corpus": "answers",
        "grounding": [],
        "perspectives": [],
        "history": ["What?"],
        "generated_text": "It is hot.",
        "label": 1,
        "fields": {"team": "a"},
        "scores": {"my_judge": 0.93},
        "cut_tokens": {},
        "cut": {},
        "undefined": {},
        "words": {},
        "evidence": {},
    }
    assert (second["generated_text"], second["label"]) == ("In Rome; Italy", 0)
    assert second["scores"] == {"my_judge": 0.2}
    assert (third["label"], third["scores"]) == (None, {"my_judge": None})


def test_columns_named_as_scorers_are_scores_and_no_texts_are_needed(tmp_path):
    path = write(tmp_path / "c.tsv", "token_f1\tlabel\tmine\n1\t1\t0.5\nnan\t0\t0.25\n")
    assert [row["scores"] for row in read_scored_rows(path)] == [
        {"token_f1": 1.0},
        {"token_f1": None},
    ]
    rows = list(read_scored_rows(path, ["mine"]))
    assert [row["scores"] for row in rows] == [
        {"token_f1": 1.0, "mine": 0.5},
        {"token_f1": None, "mine": 0.25},
    ]
    assert [(row["id"], row["label"]) for row in rows] == [("1", 1), ("2", 0)]


def test_tables_of_other_forms_have_columns_of_scores_too(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"id": "x", "token_f1": 0.5, "label": 1}\n')
    (row,) = read_scored_rows(path)
    assert row["scores"] == {"token_f1": 0.5}
    for name in ("a.ndjson", "A.JSONL", "a.jsonl.gz"):  # packed or not, as the content says
        (packed := tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
        assert list(read_scored_rows(packed)) == [row | {"corpus": packed.stem}]
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"answer": ["a", "b"], "mine": [0.5, None]})
    parquet.write_table(table, tmp_path / "a.parquet")
    rows = read_scored_rows(tmp_path / "a.parquet", ["mine"])
    assert [(row["generated_text"], row["scores"]["mine"]) for row in rows] == [
        ("a", 0.5),
        ("b", None),
    ]


def test_verdicts_are_scores_and_decimal_labels_are_labels(tmp_path):
    text = "id,right,label\n1,True,1.00\n2,false,0\n3,,0.0\n"
    rows = list(read_scored_rows(write(tmp_path / "a.csv", text), ["right"]))
    assert [row["scores"]["right"] for row in rows] == [1.0, 0.0, None]
    assert [row["label"] for row in rows] == [1, 0, 0]
    table = pyarrow.table({"right": [True, False], "label": [decimal.Decimal("1.00"), None]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    rows = list(read_scored_rows(tmp_path / "a.parquet", ["right"]))
    assert [(row["scores"]["right"], row["label"]) for row in rows] == [(1.0, 1), (0.0, None)]
    table = pyarrow.table({"mine": [decimal.Decimal("0.25"), None]})
    pyarrow.parquet.write_table(table, tmp_path / "b.parquet")
    rows = list(read_scored_rows(tmp_path / "b.parquet", ["mine"]))
    assert [row["scores"]["mine"] for row in rows] == [0.25, None]


@pytest.mark.parametrize("separator", [",", ";"])
def test_cells_for_missing_values_are_undefined(tmp_path, separator):
    cells = ["0.5", "", "None", "N/A", "na", " nan ", "<NA>", "-", "-1"]
    lines = ["id,mine", *(f"{number},{cell}" for number, cell in enumerate(cells))]
    text = "\n".join(lines).replace(",", separator)
    text = text.replace("0.5", "0,5") if separator == ";" else text
    rows = list(read_scored_rows(write(tmp_path / "a.csv", text + "\n"), ["mine"]))
    assert [row["scores"]["mine"] for row in rows] == [0.5, *[None] * 7, -1.0]


def test_nan_is_undefined_and_whole_ids_are_texts_in_scored_rows(tmp_path):
    """Python's json writes NaN, and pandas 1.0 for the id 1 if another id is missing."""
    text = '{"id": 1.0, "scores": {"m": NaN}}\n{"id": 2, "scores": {"m": 0.5}}\n'
    rows = list(read_scored_rows(write(tmp_path / "a.jsonl", text)))
    assert [(row["id"], row["scores"]) for row in rows] == [("1", {"m": None}), ("2", {"m": 0.5})]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('{"id": 1, "scores": {"": 0.5}}', "field 'scores': a scorer has no name; give it one."),
        (
            '{"id": 1, "scores": null}',
            "field 'scores': expected an object of scores by scorer, got null; write null for each "
            "scorer without a score.",
        ),
        ('{"id": NaN, "scores": {"m": 1}}', "field 'id': expected a text or a number, got NaN."),
    ],
)
def test_bad_scored_rows_say_what_is_wrong(tmp_path, row, problem):
    path = write(tmp_path / "a.jsonl", row + "\n")
    with pytest.raises(InputError) as raised:
        list(read_scored_rows(path))
    assert str(raised.value) == f"{path}:1: {problem}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "id,mine\n1,1\n1,0\n",
            "a.csv:3: field 'id': '1' occurs twice; give each row an id of its own; without the "
            "column, ids are the rows' numbers. If several systems answered, a column 'system' "
            "says which.",
        ),
        (
            "id,mine\n2,1\n,0\n",
            "a.csv:3: field 'id': '2' occurs twice; an empty id is the row's number, so fill it "
            "in; without the column, ids are the rows' numbers. If",
        ),
        (
            "id,mine\n1,1_0\n",
            "a.csv:2: field 'mine': expected a number, true, false, or nothing, got \"1_0\"",
        ),
        (
            "id,mine\n1,high\n",
            "a.csv:2: field 'mine': expected a number, true, false, or nothing, got \"high\"",
        ),
        ("id,mine\n1,1e200\n", "a.csv:2: field 'scores.mine': expected a finite number or null"),
        ("id,mine,label\n1,1,maybe\n", 'got "maybe"; write one of these in the table.'),
        ("response,output,mine\na,b,1\n", "may both hold the response; rename one of them."),
        (
            "id,context,answer\n1,a,b\n",
            "none of the columns id, context, answer is mine; give the column with "
            "these scores this name. Or score its responses first: "
            "faith-jax score",
        ),
    ],
)
def test_bad_tables_are_one_line(tmp_path, text, problem):
    path = write(tmp_path / "a.csv", text)
    with pytest.raises(InputError) as raised:
        list(read_scored_rows(path, ["mine"]))
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_figures_of_a_csv_file_are_those_of_the_scored_rows(tmp_path, command):
    scores = [(n, n % 3 / 2, int(n % 7 != 0)) for n in range(120)]
    lines = [f"{number},{score},{label}\n" for number, score, label in scores]
    write(tmp_path / "a.csv", "id,mine,label\n" + "".join(lines))
    rows = [{"id": str(n), "label": label, "scores": {"mine": s}} for n, s, label in scores]
    (tmp_path / "b").mkdir()
    write(tmp_path / "b" / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    outputs = []
    for path in (tmp_path / "a.csv", tmp_path / "b" / "a.jsonl"):
        status, out, err = command("evaluate", path, "--scorers=mine")
        assert (status, err) == (0, "")
        outputs.append(out)
    assert outputs[0] == outputs[1]
    assert "mine" in outputs[0]
    command.succeeds(
        "calibrate", tmp_path / "a.csv", "--scorer=mine", f"--output={tmp_path / 'c.json'}"
    )
    assert json.loads((tmp_path / "c.json").read_text())["scorer"] == "mine"


def test_members_of_an_ensemble_are_columns_of_scores(tmp_path, command):
    path = write(tmp_path / "a.csv", "id,one,two,label\n1,0,1,1\n2,0,0,0\n3,1,1,1\n4,0,0,0\n")
    status, out, _ = command("evaluate", path, "--ensemble=both=one:0:1,two:0:1")
    assert status == 0
    assert {"one", "two", "both"} <= {line.split(" ")[0] for line in out.splitlines()}


def test_a_text_of_json_that_looks_like_a_list_is_no_error(tmp_path):
    texts = ["It prints red.", '["red", "green"]']
    rows = [{"contexts": text, "answer": "Red.", "token_f1": 0.5} for text in texts]
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(rows))
    assert [row["grounding"] for row in read_scored_rows(path)] == [[text] for text in texts]


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet"])
def test_columns_beside_the_scores_are_fields(tmp_path, ending):
    path = tmp_path / f"mine{ending}"
    row = {"id": "1", "system": "ours", "turn": 2, "scores": {"m": 0.5}, "fields": {"topic": "tea"}}
    if ending == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    else:
        path.write_text(json.dumps(row) + "\n")
    (read,) = read_scored_rows(path)
    assert read["fields"] == {"system": "ours", "turn": "2", "topic": "tea"}
