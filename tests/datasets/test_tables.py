"""Tables as pandas, Spark, Polars and `datasets` write them are read as rows."""

import json
import lzma
import os
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.grounded_rows import Columns, file_examples
from faith_jax.datasets.table_notes import TableNotes
from faith_jax.datasets.tables import TableForm, frame_rows, read_rows, table_files

ROWS = [
    {
        "question": "Is tea hot?",
        "contexts": ["Tea is hot.", "It's a leaf."],
        "answer": "Yes; it is",
    },
    {"question": "What's ink?", "contexts": ['"Blue", she\nsaid.'], "answer": "Blau, für 3 €"},
    {"question": "Who mows?", "contexts": ["A goat mows.", "A cat\tnaps."], "answer": "A goat."},
]


@pytest.fixture
def frame():
    return pytest.importorskip("pandas").DataFrame(ROWS)


def fields_of(path, form="", **options):
    notes = []
    rows = [dict(row.fields) for row in read_rows(path, form, note=notes.append, **options)]
    return rows, [note.removeprefix(f"{path}: ") for note in notes]


def examples_of(path, bad_rows=None, form="", **columns):
    notes = TableNotes()
    rows = file_examples(path, form, Columns(**columns), "c", bad_rows or BadRows(), notes=notes)
    return [row.example for row in rows], notes.report()


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("orient", ["columns", "index", "records", "split", "table"])
def test_json_as_pandas_writes_it(tmp_path, frame, orient, indent):
    path = tmp_path / "rows.json"
    frame.to_json(path, orient=orient, indent=indent)
    rows, notes = fields_of(path)
    expected = [{"index": n, **row} for n, row in enumerate(ROWS)] if orient == "table" else ROWS
    assert rows == expected
    is_array = orient == "records"
    assert notes == ([] if is_array else ["one JSON object by column or row, not lines"])
    assert fields_of(path, first=2)[0] == expected[2:]


@pytest.mark.parametrize("orient", ["columns", "index", "split"])
@pytest.mark.parametrize(
    ("labels", "ids"),
    [
        (["q17", "q23", "a"], ["q17", "q23", "a"]),
        ([7, 3, 5], ["8", "4", "6"]),
        ([1.0, 2.0, 3.0], ["2", "3", "4"]),
        ([0, 2, 3], ["1", "3", "4"]),  # rows of a longer frame, where they have these numbers
    ],
)
def test_labels_of_pandas_index_are_ids(tmp_path, frame, orient, labels, ids):
    path = tmp_path / "rows.json"
    frame.set_index(pytest.importorskip("pandas").Index(labels)).to_json(path, orient=orient)
    examples, report = examples_of(path)
    assert [example.id for example in examples] == ids
    assert [example.response for example in examples] == [row["answer"] for row in ROWS]
    counted = "" if "a" in labels else ", counted from 1 (label 0 is id 1)"
    assert f"{path}: the ids are the index{counted}" in report["lines"]
    frame.assign(id=["a", "b", "c"]).set_index(frame.index + 1).to_json(path, orient=orient)
    rows, notes = fields_of(path, first=1)
    assert [(row["id"], str(row["index"])) for row in rows] == [("b", "2"), ("c", "3")]
    assert notes[0] == "the index is read as the field 'index'"


def test_labels_of_an_index_that_are_no_ids(tmp_path, frame):
    path = tmp_path / "rows.json"
    frame.assign(index=5).set_axis(["a", "b", "a"]).to_json(path, orient="split")
    rows, notes = fields_of(path)
    assert [(row["index 2"], row["index"]) for row in rows] == [("a", 5), ("b", 5), ("a", 5)]
    assert notes[0] == "the index is read as the field 'index 2'"
    # Keys with arbitrary names are row labels only if they are numbers.
    path.write_text('{"a": {"x": 1}, "b": {"x": 2}}')
    assert fields_of(path)[0] == [{"id": "x", "a": 1, "b": 2}]
    path.write_text('{"columns": ["a"], "index": [1, 2], "data": [["b"]]}')
    with pytest.raises(InputError, match=r"index: expected a list of 1 label, got \[1, 2\]"):
        fields_of(path)


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (json.dumps({"question": ["a", "b"], "answer": ["c", "d"]}), "one JSON object by column"),
        (json.dumps({"run": 3, "rows": [{"question": "a", "answer": "c"},
                                        {"question": "b", "answer": "d"}]}), "the array 'rows'"),
    ],
)  # fmt: skip
def test_other_json_objects(tmp_path, content, note):
    path = tmp_path / "rows.json"
    path.write_text(content)
    rows, (message,) = fields_of(path)
    assert rows == [{"question": "a", "answer": "c"}, {"question": "b", "answer": "d"}]
    assert message.startswith(note)


@pytest.mark.parametrize(
    "content",
    [
        {"train": [{"question": "a", "answer": "c"}], "test": [{"answer": "d"}], "version": 3},
        {"train": [{"q": "a"}, {"q": "b"}], "test": [{"q": "d"}]},
    ],
)
def test_several_arrays_of_rows_are_not_one_table(tmp_path, content):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as caught:
        fields_of(path)
    assert str(caught.value) == (
        f"{path}: holds the arrays 'train', 'test', which are not one table; make a file of one: "
        "jq '.[\"train\"]' FILE."
    )
    row = {"contexts": [{"text": "Tea."}], "history": [{"content": "Hot?"}]}
    path.write_text(json.dumps(row))
    assert fields_of(path)[0] == [{"contexts": {"text": "Tea."}, "history": {"content": "Hot?"}}]


def test_json_lines_whatever_the_name(tmp_path):
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    for name in ("rows.json", "rows.jsonl", "rows.ndjson"):
        (tmp_path / name).write_text(lines)
        assert fields_of(tmp_path / name) == (ROWS, [])
        (tmp_path / name).write_text(lines.partition("\n")[0])
        assert fields_of(tmp_path / name) == (ROWS[:1], [])
    documents = {"answer": "Hot.", "contexts": [{"page_content": "Tea is hot."}]}
    (tmp_path / "rows.json").write_text(json.dumps(documents))
    assert fields_of(tmp_path / "rows.json") == ([documents], [])


def test_an_array_is_read_as_one_whatever_is_said(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROWS, indent=1))
    assert fields_of(path) == (ROWS, ["one JSON array, no lines"])
    assert fields_of(path, "json") == (ROWS, [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('["Tea", "Ink"]', r'rows.json: \[0\]: expected a JSON object, got "Tea"'),
        ('{"a": ', "not valid JSON: .*; get the file again"),
        ('{\n"a": 1}\n{\n"a": 2}', "line 3 column 1; write each value on its own line .jq -c"),
        ("3", "rows.json:1: expected a JSON object, got 3"),
        ('{"a": {"0": 1}, "b": {"1": 1}}\n{', "rows.json:2: not valid JSON"),
        ('{"a": \n{"a": 1}', "rows.json:1: not valid JSON"),
        ('{"columns": ["a", "a"], "data": [[1, 2]]}', "rows.json: column 'a' is there twice"),
        ('{"columns": ["a"], "data": [[1], 2]}', r"\[1\]: expected a list of 1 cell, got 2"),
        ('{"schema": {}, "data": [{}, 3]}', r"\[1\]: expected a JSON object, got 3"),
    ],
)
def test_json_that_is_no_table_is_one_line(tmp_path, content, message):
    path = tmp_path / "rows.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        fields_of(path)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "form", "notes"),
    [
        ({}, {}, []),
        ({"sep": ";"}, {}, ["read with a semicolon between its cells; --separator names another"]),
        ({"sep": "\t"}, {}, ["read with a tab between its cells; --separator names another"]),
        ({"sep": "|"}, {"separator": "|"}, []),
        ({"encoding": "utf-8-sig"}, {}, []),
        ({"encoding": "utf-16"}, {}, ["read as utf-16; --encoding names another"]),
        ({"encoding": "utf-32"}, {}, ["read as utf-32; --encoding names another"]),
        ({"encoding": "utf-16-le"}, {}, ["read as utf-16-le; --encoding names another"]),
        ({"encoding": "utf-16-be"}, {}, ["read as utf-16-be; --encoding names another"]),
        ({"encoding": "utf-32-le"}, {}, ["read as utf-32-le; --encoding names another"]),
        ({"encoding": "utf-32-be"}, {}, ["read as utf-32-be; --encoding names another"]),
        ({"encoding": "cp1252"}, {}, ["read as cp1252; --encoding names another"]),
        ({"encoding": "cp1252"}, {"encoding": "cp1252"}, []),
        ({"encoding": "utf-16-le"}, {"encoding": "utf-16-le"}, []),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "csv.zst"])
def test_csv_as_pandas_and_spreadsheets_write_it(tmp_path, frame, options, form, notes, ending):
    path = tmp_path / f"rows.{ending}"
    frame.to_csv(path, index=False, compression=None, **options)
    if ending.endswith(".zst"):
        path.write_bytes(pa.compress(path.read_bytes(), "zstd", asbytes=True))
    rows, messages = fields_of(path, TableForm(**form))
    assert rows == [row | {"contexts": repr(row["contexts"])} for row in ROWS]
    assert messages == notes
    examples, report = examples_of(path, form=TableForm(**form))
    assert [list(example.grounding.texts) for example in examples] == [r["contexts"] for r in ROWS]
    assert report["lines"][-1] == "contexts: 3 lists of 1 to 2 texts"
    assert [e.response for e in examples] == [row["answer"] for row in ROWS]


def test_tsv_with_quotes_and_without(tmp_path, frame):
    path = tmp_path / "rows.tsv"
    frame.to_csv(path, index=False, sep="\t")
    assert fields_of(path)[0][1]["contexts"] == repr(ROWS[1]["contexts"])
    assert fields_of(path)[0][0]["contexts"] == repr(ROWS[0]["contexts"])
    path.write_text('question\tanswer\n"Hot," she said\t"Yes."\nInk\t5" tall\n')
    assert fields_of(path)[0] == [
        {"question": '"Hot," she said', "answer": '"Yes."'},
        {"question": "Ink", "answer": '5" tall'},
    ]
    path.write_text('"question"\t"answer"\n"Ink"\t"Blue."\n')
    assert fields_of(path)[0] == [{"question": "Ink", "answer": "Blue."}]


def test_commas_in_cells_and_names_hide_no_semicolon(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('id;question, short;answer\n1;"a;b";c, d\n2;e;f, g\n')
    assert fields_of(path)[0][0] == {"id": "1", "question, short": "a;b", "answer": "c, d"}
    path.write_text("a;b,c\n1;2,3\n")  # by both; the usual one counts
    assert fields_of(path) == ([{"a;b": "1;2", "c": "3"}], [])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("mark", "shown"), [(";", "a semicolon"), (",", "a comma"), ("|", "'|'"), ("\t", "a tab")]
)
def test_the_first_line_may_state_the_separator(tmp_path, mark, shown, end):
    path = tmp_path / "rows.csv"
    for first in (f"sep={mark}", f'"sep={mark}"', f"sep={mark}{mark}"):
        lines = [first, mark.join(["question", "answer"]), mark.join(["Hot?", '"a,b"'])]
        path.write_bytes(end.join(lines).encode())
        rows, notes = fields_of(path)
        assert rows == [{"question": "Hot?", "answer": "a,b"}]
        message = f"read with {shown} between its cells, as its first line says; --separator names"
        assert notes == [f"{message} another"]
        assert fields_of(path, TableForm(separator=mark)) == (rows, [])
        path.write_bytes(end.join([*lines, "Ink?"]).encode())
        with pytest.raises(
            InputError, match=r"rows.csv:4: expected 2 columns \(question, answer\)"
        ):
            fields_of(path)
    path = tmp_path / "rows.tsv"
    path.write_bytes(end.join(["sep=\t", '"question"\t"answer"', '"Ink"\t"Blue."']).encode())
    assert fields_of(path)[0] == [{"question": "Ink", "answer": "Blue."}]


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "table.json", "parquet", "arrow"])
@pytest.mark.parametrize(
    ("labels", "ids"),
    [
        ([0, 2, 3], ["1", "3", "4"]),  # rows of a longer frame, where they have these numbers
        ([3, 5, 9], ["4", "6", "10"]),
        ([0, 1, 2], ["1", "2", "3"]),
        ([1, 2, 3], ["2", "3", "4"]),  # only the first row is missing
        ([2, 0, 1], ["3", "1", "2"]),
        ([0, 2, 2], ["1", "2", "3"]),
        (["0", "2", "b"], ["0", "2", "b"]),
    ],
)
def test_rows_keep_the_ids_of_the_whole_frame_in_every_form(tmp_path, frame, labels, ids, form):
    path = tmp_path / f"rows.{form}"

    def write(table):
        if form in ("csv", "tsv"):
            table.to_csv(path, sep="\t" if form == "tsv" else ",")
        elif "json" in form:
            table.to_json(path, orient="table" if "table" in form else "split")
        elif form == "parquet":
            table.to_parquet(path)
        else:
            arrow = pa.Table.from_pandas(table, preserve_index=True)
            with pa.ipc.new_stream(path, arrow.schema) as writer:
                writer.write_table(arrow)

    write(frame.set_axis(labels))
    examples, report = examples_of(path)
    assert [example.id for example in examples] == ids
    counted = ", counted from 1 (label 0 is id 1)" if isinstance(labels[-1], int) else ""
    has_own_ids = ids != ["1", "2", "3"]
    assert (f"{path}: the ids are the index{counted}" in report["lines"]) == has_own_ids
    rows = file_examples(path, "", Columns(), "c", BadRows(), 2)  # wherever reading begins
    assert next(rows).example.id == ids[2]
    examples, report = examples_of(path, id_column="")
    assert [example.id for example in examples] == ["1", "2", "3"]
    assert not any("the ids are" in line for line in report["lines"])
    write(frame.assign(id=["x", "y", "z"]).set_axis(labels))
    assert [example.id for example in examples_of(path)[0]] == ["x", "y", "z"]
    write(frame.assign(key=["x", "y", "z"]).set_axis(labels))
    examples, report = examples_of(path, id_column="key")
    assert [example.id for example in examples] == ["x", "y", "z"]
    assert not any("the ids are" in line for line in report["lines"])


def test_a_range_that_parquet_only_notes_gives_the_ids(tmp_path, frame):
    path = tmp_path / "rows.parquet"
    frame.iloc[1:].to_parquet(path)
    assert "__index_level_0__" not in pq.read_schema(path).names
    assert [example.id for example in examples_of(path)[0]] == ["2", "3"]
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)  # keeps the range of the whole table
    assert [example.id for example in examples_of(path)[0]] == ["1"]


@pytest.mark.parametrize(
    ("labels", "ids"),
    [("123", ["1", "2", "3"]), ("135", ["1", "3", "5"]), ("031", ["1", "4", "2"])],
)
def test_quoted_row_names_count_from_1_as_r_writes_them(tmp_path, labels, ids):
    path = tmp_path / "rows.csv"
    lines = [f'"{label}","Tea is hot.","Yes."' for label in labels]
    path.write_text("\n".join(['"","contexts","answer"', *lines]))
    assert [example.id for example in examples_of(path)[0]] == ids


def test_an_index_that_was_read_and_written_again_gives_the_ids(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("Unnamed: 0,contexts,answer\n4,Tea is hot.,Yes.\n2,Ink is blue.,No.\n")
    examples, report = examples_of(path)
    assert [example.id for example in examples] == ["5", "3"]
    assert report["lines"][0] == f"{path}: the ids are the index, counted from 1 (label 0 is id 1)"


def test_labels_of_parts_are_ids_only_as_texts(tmp_path, frame):
    for labels, ids in (([0, 5, 7], [*map(str, range(1, 7))]), (["a", "b", "c"], [*"abcdef"])):
        frame.set_axis(labels).to_csv(tmp_path / "1.csv")
        more = [*"def"] if labels[0] == "a" else labels
        frame.set_axis(more).to_csv(tmp_path / "2.csv")
        assert [example.id for example in examples_of(tmp_path)[0]] == ids


def test_a_column_without_a_name_is_kept(tmp_path, frame):
    path = tmp_path / "rows.csv"
    frame.set_axis(["q17", "q23", "q4"]).to_csv(path)
    rows, notes = fields_of(path, first=1)
    assert [row["index"] for row in rows] == ["q23", "q4"]
    assert notes == ["the ids are the index"]
    frame.set_axis(["a", "b", "a"]).to_csv(path)
    assert fields_of(path)[1] == ["the column without a name is read as 'index'"]
    path.write_text("question,,answer\nHot?,x,Yes.\n")
    assert fields_of(path)[0] == [{"question": "Hot?", "Unnamed: 1": "x", "answer": "Yes."}]
    path.write_text("question,answer,,\nHot?,Yes., ,\nInk?,No.,,\n")
    rows, notes = fields_of(path)
    assert rows == [{"question": "Hot?", "answer": "Yes."}, {"question": "Ink?", "answer": "No."}]
    assert {*notes} == {"the column without a name has no cells and is left out"}
    path.write_text("question,answer,,\nHot?,Yes.,,\nInk?,No.,x,\n")
    rows, notes = fields_of(path)
    assert [row["Unnamed: 2"] for row in rows] == ["", "x"]
    assert "Unnamed: 3" not in rows[0]


def test_empty_ids_of_parts_are_those_of_their_own_lines(tmp_path):
    for name in ("a.csv", "b.csv"):
        number = 10 if name == "a.csv" else 20
        (tmp_path / name).write_text(f"id,response\n{number}.0,Yes.\n,No.\n")
    rows = read_rows(tmp_path, id_column_of=lambda _: "id")
    assert [row.fields["id"] for row in rows] == ["10", "line 3", "20", "b.csv line 3"]


@pytest.mark.parametrize(
    ("cells", "ids"),
    [
        (["7.0", "", "3.0"], ["7", "line 3", "3"]),
        (["0.0", "", "2.0"], ["0", "line 3", "2"]),  # the number of the row is an id
        (["7.0", "1.1", "3.0"], ["7.0", "1.1", "3.0"]),
        (["7.0", "2", "3.0"], ["7.0", "2", "3.0"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_ids_of_a_column_that_lacks_one_are_whole_numbers(tmp_path, frame, cells, ids, ending):
    separator = "\t" if ending == "tsv" else ","
    for name, part in (("a", cells), ("b", ["1.x", "2.x", "3.x"])):  # each part by itself
        frame.assign(id=part).to_csv(tmp_path / f"{name}.{ending}", index=False, sep=separator)
    examples, report = examples_of(tmp_path)
    assert [example.id for example in examples] == [*ids, "1.x", "2.x", "3.x"]
    note = f"{tmp_path}/a.{ending}: id: ids such as 1.0 are read as 1, an empty one as its line"
    assert (f"{note} ('line 3')" in report["lines"]) == ("line 3" in ids)
    rows = file_examples(tmp_path, "", Columns(), "c", BadRows(), 2)  # wherever reading begins
    assert next(rows).example.id == ids[2]


def test_decimal_commas(tmp_path, frame):
    path = tmp_path / "rows.csv"
    frame = frame.assign(label=[1.0, 0.0, None], share=[0.5, 2, 1e-7], note=["1,5", "x", "2"])
    frame["answer"] = ["1,5", "2,5", "3"]
    frame.to_csv(path, index=False, sep=";", decimal=",")
    notes = TableNotes()
    rows = list(file_examples(path, "", Columns(), "c", BadRows(), notes=notes))
    assert [row.example.label for row in rows] == [1, 0, None]
    assert [row.fields["share"] for row in rows] == ["0.5", "2.0", "1e-07"]
    assert [row.fields["note"] for row in rows] == ["1,5", "x", "2"]
    assert [row.example.response for row in rows] == ["1,5", "2,5", "3"]  # texts stay as they are
    assert "share: decimal commas are read as points" in notes.report()["lines"]


@pytest.mark.parametrize("content", [b"a,b\n1,\xff\x00\n", "a,b\né,".encode() + b"\xe9\n"])
def test_bytes_of_a_damaged_file_are_no_other_encoding(tmp_path, content):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match="expected UTF-8, got byte 0x"):
        fields_of(path)


def write_parts(folder, form, frame):
    for number in range(3):
        part = frame.iloc[[number]]
        path = folder / f"part-{number:05d}-c000.{form}"
        if form == "csv":
            part.to_csv(path, index=False)
        elif form == "json":
            part.to_json(path, orient="records", lines=True)
        else:
            part.to_parquet(path.with_suffix(".snappy.parquet"))
        (folder / f".{path.name}.crc").write_bytes(b"\x00\x01")
    (folder / "_SUCCESS").touch()
    (folder / f"part-00003-c000.{form}").touch()


def test_keys_of_one_name_are_an_error(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"answer": "the \\"answer\\"", "n": {"answer": 1}}\n')
    assert fields_of(path)[0][0]["n"] == {"answer": 1}
    for fields in (
        '"n": 1, "answer" : "b"',
        '"\\u0061nswer": "b"',
        '"n": {"answer": "a", "answer": "b"}',
        '"n": [1, {"x": {"answer": 1, "answer"\t: 2}}]',
    ):
        path.write_text(f'{{"answer": "a", {fields}}}\n')
        with pytest.raises(InputError, match=r'rows\.jsonl:1: the key "answer" is there twice; re'):
            fields_of(path)
        bad_rows = BadRows(skip=True)
        assert fields_of(path, bad_rows=bad_rows)[0] == []
        assert bad_rows.count == 1
        for content in (f'[{{"answer": "a", {fields}}}]', f'[\n{{}}, {{"answer": "a", {fields}}}]'):
            json_path = tmp_path / "rows.json"
            json_path.write_text(content)
            with pytest.raises(InputError, match=r': \[[01]\]: the key "answer" is there twice'):
                fields_of(json_path)
            bad_rows = BadRows(skip=True)
            assert fields_of(json_path, bad_rows=bad_rows)[0] == [{}] * content.count("{}")


def test_nulls_in_lists_and_ids_of_whole_numbers(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1.0, "contexts": ["Tea.", null, null], "answer": "a"}\n')
    (example,), report = examples_of(path)
    assert example.id == "1"
    assert example.grounding.texts == ("Tea.",)
    assert report["warnings"] == ["contexts: 2 nulls in lists of texts left out."]
    path.write_text(path.read_text() + '{"id": 1, "contexts": ["Tea."], "answer": "a"}\n')
    with pytest.raises(InputError, match="'1' occurs twice"):
        examples_of(path)


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_folders_of_parts(tmp_path, frame, form):
    folder = tmp_path / "answers"
    folder.mkdir()
    write_parts(folder, form, frame)
    rows, (note,) = fields_of(folder)
    assert [row["question"] for row in rows] == [row["question"] for row in ROWS]
    assert note.startswith("3 parts from part-00000-c000.")
    for first in range(4):
        left = list(read_rows(folder, first=first))
        assert [row.fields["question"] for row in left] == [r["question"] for r in ROWS[first:]]
    assert "part-00002-c000" in left[-1].place if left else True
    examples, _ = examples_of(folder)
    assert [example.id for example in examples] == ["1", "2", "3"]
    assert [list(e.grounding.texts) for e in examples] == [row["contexts"] for row in ROWS]


def test_partitions_are_columns_and_bad_rows_count(tmp_path):
    folder = tmp_path / "answers"
    for system, lines in {"a": ['{"x": 1}', "{", '{"x": 2}'], "b": ['{"x": 3}']}.items():
        (folder / f"system={system}").mkdir(parents=True)
        (folder / f"system={system}/part-0.json").write_text("\n".join(lines) + "\n")
    expected = [{"system": s, "x": x} for s, x in (("a", 1), ("a", 2), ("b", 3))]
    bad_rows = BadRows(skip=True)
    assert fields_of(folder, bad_rows=bad_rows)[0] == expected
    assert bad_rows.count == 1
    assert fields_of(folder, first=3)[0] == expected[2:]
    with pytest.raises(InputError, match=r"part-0.json:2: not valid JSON"):
        fields_of(folder)


def test_a_files_existence_comes_before_its_format(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, problem in (("rows", "no such file"), ("pipe", "a pipe cannot be read, because")):
        with pytest.raises(InputError, match=rf"{name}: {problem}"):
            read_rows(tmp_path / name)


def test_folders_of_infer(tmp_path):
    for place in ("one", "several/a"):  # of one checkpoint, of systems by name
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "summary.json").write_text("{}")
    for folder in (tmp_path / "one", tmp_path / "several"):
        (folder / "predictions.jsonl").write_text('{"id": "1"}\n')
        assert fields_of(folder)[0] == [{"id": "1"}]
    records = tmp_path / "only" / "tfds"
    records.mkdir(parents=True)
    (records / "features.json").write_text("{}")
    (records / "dataset_info.json").write_text('{"splits": [{"name": "rows"}]}')
    for folder in (records, records.parent):
        problem = "a TFDS data set; score and evidence read it with"
        remedy = f"--tfds={records} --split=rows in place of --input"
        with pytest.raises(InputError, match=f"{folder}: {problem} {remedy}"):
            table_files(folder)


def test_splits_of_a_hub_folder_are_not_one_table(tmp_path):
    for name in ("test-00000-of-00001", "train-00000-of-00002", "train-00001-of-00002"):
        (tmp_path / f"{name}.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(InputError, match=r"holds parts of test, train, .*/test-00000-of-00001\.j"):
        list(read_rows(tmp_path))
    (tmp_path / "test-00000-of-00001.jsonl").unlink()
    assert len(list(read_rows(tmp_path))) == 2


def test_folders_of_datasets(tmp_path):
    def save(folder, rows):
        folder.mkdir(parents=True)
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as writer:
            writer.write_table(table)
        (folder / "cache-1f.arrow").write_bytes(b"something else")
        (folder / "dataset_info.json").write_text("{}")
        files = [{"filename": "data-00000-of-00001.arrow"}]
        (folder / "state.json").write_text(json.dumps({"_data_files": files, "_split": None}))

    save(tmp_path / "one", ROWS)
    assert fields_of(tmp_path / "one")[0] == ROWS
    for splits in (["test"], ["test", "train"]):
        folder = tmp_path / "-".join(["all", *splits])
        for split in splits:
            save(folder / split, ROWS[:2])
        (folder / "dataset_dict.json").write_text(json.dumps({"splits": splits}))
    assert fields_of(tmp_path / "all-test")[0] == ROWS[:2]
    for name, content, message in (
        ("dataset_dict.json", {"splits": 3}, "field 'splits': expected a list, got 3"),
        ("state.json", {"_data_files": [{}]}, r"field '_data_files\[0\]\.filename' is missing"),
    ):
        folder = tmp_path / "damaged"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
        with pytest.raises(InputError, match=rf"damaged/{name}: {message}"):
            table_files(folder)
        (folder / name).unlink()
    with pytest.raises(
        InputError, match=r"holds 2 splits; give one: .*all-test-train/test, .*n\.$"
    ):
        table_files(tmp_path / "all-test-train")


def test_folders_that_are_no_tables(tmp_path):
    with pytest.raises(InputError, match="the folder has no files to read"):
        read_rows(tmp_path)
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"parts of one form, got a.csv and b.jsonl; give one of"):
        read_rows(tmp_path)
    (tmp_path / "b.jsonl").rename(tmp_path / "notes.txt")
    with pytest.raises(InputError, match=r"notes.txt: the ending says no format"):
        read_rows(tmp_path)
    (tmp_path / "notes.txt").rename(tmp_path / "b.xlsx")
    with pytest.raises(InputError, match=r"b.xlsx: workbooks of spreadsheets are not read; save"):
        read_rows(tmp_path)


@pytest.mark.parametrize("form", ["", "csv", "jsonl", "parquet"])
def test_archives_and_tables_that_are_not_read_name_the_remedy(tmp_path, form):
    packed = {
        "a.csv.zip": b"PK\3\4\x14\0",
        "a.csv.xz": lzma.compress(b"a,b"),
        "a.csv": b"7z\xbc\xaf",
    }
    tables = {"a.orc": b"ORC\n\6\x12", "a.feather": b"FEA1\0\0\0", "a.avro": b"Obj\1\4"}
    for name, content in {**packed, **tables}.items():
        path = tmp_path / name
        path.write_bytes(content)
        problem = "an archive, which is not read; unpack it first."
        if name in tables:
            problem = "ORC, Avro and Feather V1 are not read; write it as Parquet, CSV or JSONL."
        with pytest.raises(InputError) as caught:
            read_rows(path, form)
        assert str(caught.value) == f"{path}: {problem}"
    (tmp_path / "a.tar.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"a.tar.gz: an archive, which is not read; unpack it"):
        read_rows(tmp_path / "a.tar.gz")
    (tmp_path / "a.csv").write_bytes(b"ORC\n1\n")
    assert fields_of(tmp_path / "a.csv")[0] == [{"ORC": "1"}]


def test_mixed_lists_are_an_error_also_where_bad_rows_are_skipped(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("contexts,answer\n\"['Tea.', 'Ink.']\",Tea\n['Tea.'  'Ink.'],Ink\n")
    message = (
        r"rows.csv:3: field 'contexts': expected a list as Python writes it as in .*rows.csv:2, "
        r"got a list as NumPy writes it; write every cell of the column as a JSON list"
    )
    with pytest.raises(InputError, match=message):
        examples_of(path, BadRows(skip=True))


def test_groundings_are_split_where_it_is_asked_for(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('contexts,answer\n"Tea is hot.\n\nInk is blue.",Tea\nOne.,Two\n')
    examples, report = examples_of(path, split_grounding="\n\n")
    assert [e.grounding.texts for e in examples] == [("Tea is hot.", "Ink is blue."), ("One.",)]
    assert report["lines"] == [
        "columns: grounding from contexts, response from answer",
        "contexts: 2 lists of 1 to 2 texts",
    ]
    assert len(examples_of(path)[0][0].grounding.texts) == 1


def test_empty_and_missing_answers_are_told_apart(tmp_path):
    path = tmp_path / "rows.jsonl"
    answers = ["Hot.", "", None, " ", float("nan"), "N/A", "n/a", "N/A", None]
    lines = [json.dumps({"contexts": ["Tea is hot."], "answer": answer}) for answer in answers]
    path.write_text("\n".join(lines))
    examples, report = examples_of(path)
    assert [e.response for e in examples] == ["Hot.", "", "", "", "", "N/A", "n/a", "N/A", ""]
    (answers,) = report["lines"][1:]
    assert answers == "answer: 9 answers, of which 2 empty, 3 missing, 2 'N/A', 1 'n/a'"
    assert report["warnings"] == [
        "answer: 'N/A', 'n/a' is scored as the text of an answer; leave the cell empty where "
        "there is none."
    ]  # fmt: skip


def test_frames(frame):
    arrays = frame.assign(contexts=[np.array(row["contexts"]) for row in ROWS])
    for table in (frame, arrays, pa.Table.from_pylist(ROWS), ROWS, {k: [r[k] for r in ROWS]
                                                                    for k in ROWS[0]}):  # fmt: skip
        assert [row.fields for row in frame_rows(table)] == ROWS
    nested = frame.assign(inputs=[{"documents": np.array(row["contexts"])} for row in ROWS])
    for row, expected in zip(frame_rows(nested), ROWS, strict=True):
        assert row.fields["inputs"] == {"documents": expected["contexts"]}
    twice = frame.rename(columns={"question": "answer"})
    for table in (twice, pa.Table.from_arrays([pa.array(["a"])] * 2, ["answer", "answer"])):
        with pytest.raises(InputError, match=r"^frame: column 'answer' is there twice; rename or"):
            frame_rows(table)
    for wrong, message in (
        (
            "Tea",
            r'^frame: expected a table, got "Tea"; read a file first, as by pandas.read_csv\.$',
        ),
        (
            pathlib.Path("tea.csv"),
            r'^frame: expected a table, got "tea.csv"; read a file first, as',
        ),
        (3, r"^frame: expected a table, got 3\.$"),
        (
            {"answer": "Tea"},
            r"^frame: column 'answer': expected a list, as a mapping is of columns, got "
            r'"Tea"; give a single row as a list, \[{…}\]\.$',
        ),
        (["Tea"], r"frame\[0\]: expected a r"),
    ):
        with pytest.raises(TypeError, match=message):
            frame_rows(wrong)
    with pytest.raises(ValueError, match=r"^frame: .* lengths: 2 of 'contexts', 1 of 'answer'\.$"):
        frame_rows({"contexts": ["Tea", "Ink"], "answer": ["Tea"]})
