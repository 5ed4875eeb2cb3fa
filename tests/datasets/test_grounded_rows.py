import csv
import datetime
import decimal
import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from faith_jax.core.errors import ConfigError, InputError, format_value
from faith_jax.core.rows import BadRows, Row
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets import grounded_rows
from faith_jax.datasets.grounded_rows import Columns, example_rows, file_examples
from faith_jax.datasets.table_notes import TableNotes
from faith_jax.datasets.tables import read_rows

TRUE_ROW = {"grounding": "Tea is hot.", "generated_text": "Hot tea.", "label": 1}


def examples(*rows, bad_rows=None, **columns):
    placed = [Row(f"rows.jsonl:{number}", row) for number, row in enumerate(rows, start=1)]
    named = {
        name if name.startswith("label") and name != "label" else f"{name}_column": value
        for name, value in columns.items()
    }
    return list(example_rows(placed, Columns(**named), "here", bad_rows))


def label_of(value, **columns):
    (row,) = examples(TRUE_ROW | {"label": value}, **columns)
    return row.example.label


def test_trues_columns_are_the_usual_ones():
    (row,) = examples(TRUE_ROW)
    assert row.example == GroundedExample(
        "1", Grounding(("Tea is hot.",)), response="Hot tea.", label=1
    )
    assert (row.corpus, row.fields) == ("here", {})


@pytest.mark.parametrize(
    ("fields", "texts", "perspectives", "history"),
    [
        ({"knowledge": "K.", "response": "r", "message": "m"}, ("K.",), (), ("m",)),
        ({"evidence": ["A", " ", "B"], "response": "r", "context": ["c", "d"]},
         ("A", "B"), (), ("c", "d")),
        ({"pro_arguments": ["p"], "con_arguments": ["c", "d"], "response": "r", "query": "q"},
         ("p", "c", "d"), ("pro", "con", "con"), ("q",)),
        ({"grounding": "G", "evidence": "E", "generated_text": "r", "response": "x"},
         ("G",), (), ()),
    ],
)  # fmt: skip
def test_the_names_of_our_data_sets_are_known(fields, texts, perspectives, history):
    (row,) = examples(fields)
    assert row.example.grounding == Grounding(texts, perspectives)
    assert (row.example.response, row.example.history) == ("r", history)


@pytest.mark.parametrize(
    ("turns", "columns", "history"),
    [
        ({"history": ["Hi!", "Hello."], "query": " Why? "}, {}, ("Hi!", "Hello.", "Why?")),
        ({"history": [], "query": "Why?"}, {}, ("Why?",)),
        ({"history": ["Hi!", "Why?"], "query": "Why?"}, {}, ("Hi!", "Why?")),
        ({"history": ["Hi!"], "query": None}, {}, ("Hi!",)),
        ({"history": ["Hi!"], "query": "Why?"}, {"history": "history"}, ("Hi!",)),
        ({"history": ["Hi!"], "query": "Why?"}, {"grounding": "query"}, ("Hi!",)),
        ({"message": "Hi!", "query": "Why?"}, {}, ("Hi!",)),
        ({"history": [["Hi!", "Hello."]], "question": "Why?"}, {}, ("Hi!", "Hello.", "Why?")),
        ({"inputs": {"chat_history": [{"type": "human", "data": {"content": "Hi!"}}],
                     "question": "Why?"}}, {}, ("Hi!", "Why?")),
    ],
)  # fmt: skip
def test_a_query_is_the_last_utterance_of_a_history(turns, columns, history):
    (row,) = examples({"knowledge": "K.", "prediction": "r", **turns}, **columns)
    assert row.example.history == history


def test_columns_that_differ_between_rows_are_all_named():
    notes = TableNotes()
    names = ("response", "answer", "response")
    rows = [Row(f"a:{n}", {"contexts": "c", name: "a", "id": n}) for n, name in enumerate(names)]
    list(example_rows(rows, Columns(), "c", notes=notes))
    (line,) = notes.report()["lines"][:1]
    assert line == "columns: grounding from contexts, response from response or answer, id from id"


@pytest.mark.parametrize("name", ["System", " system", "SYSTEM"])
def test_the_column_of_the_system_is_known_in_any_spelling(name):
    row = {"id": "7", "knowledge": "K.", "prediction": "r"}
    notes, rows = TableNotes(), [Row(f"r{i}", row | {name: f"bot {i}"}) for i in range(2)]
    read = list(example_rows(rows, Columns(), "c", notes=notes))
    assert [row.fields for row in read] == [{"system": "bot 0"}, {"system": "bot 1"}]
    assert f"system from {name}" in notes.report()["lines"][-1]
    (other,) = examples(row | {name: "other", "system": "bot"})
    assert other.fields == {name: "other", "system": "bot"}
    message = "r0: the column 'system' may be any of 'SYSTEM_', 'System'; name it exactly."
    with pytest.raises(InputError) as error:
        list(example_rows([Row("r0", row | {"SYSTEM_": "a", "System": "b"})], Columns(), "c"))
    assert str(error.value) == message


def test_what_bytes_print_is_no_text():
    remedy = "decode the column's bytes to texts before you write it"
    for field, value in (
        ("prediction", "b'Tea.'"),
        ("knowledge", b"Tea."),
        ("knowledge", ["b'a'"]),
    ):
        problem = rf"field '{field}': expected a text, got .*; {remedy}\.$"
        with pytest.raises(InputError, match=problem):
            examples({"knowledge": "K.", "prediction": "r", field: value})


@pytest.mark.parametrize("value", [2, 2.0, "2.0", "2,0", 1, "1.0"])
@pytest.mark.parametrize("named", ["1=0,2=1", "1.0=0,2.0=1"])
def test_meanings_of_numbers_hold_however_they_are_written(value, named):
    assert label_of(value, label_values=named) == (0 if str(value)[0] == "1" else 1)


def test_columns_of_ones_own():
    fields = {"doc": "D", "answer": "a", "faithful": "1.0", "key": 7, "set": "mine", "x": True}
    fields |= {"grounding": "g", "skipped": ["list"], "": "index", "none": None}
    fields |= {"spans": [[0, 3], [5, 9]], "nested": {"a": [1.5, None]}, "photo": b"\xff"}
    fields |= {"took": datetime.timedelta(seconds=2)}
    fields |= {"day": datetime.date(2024, 5, 1), "price": decimal.Decimal("1.20"), "nan": math.nan}
    named = {"grounding": "doc", "response": "answer", "label": "faithful", "id": "key"}
    (row,) = examples(fields, corpus="set", **named)
    assert row.example == GroundedExample("7", Grounding(("D",)), response="a", label=1)
    assert row.corpus == "mine"
    assert row.fields == {
        "faithful": "1.0",
        "x": True,
        "grounding": "g",
        "skipped": ["list"],
        "spans": [[0, 3], [5, 9]],
        "nested": {"a": [1.5, None]},
        "day": "2024-05-01",
        "price": "1.20",
        "took": 2.0,
        "": "index",
    }
    assert row.left_out == {"photo": "bytes"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": "lable"}, "column 'lable' is missing. Did you mean 'label'"),
        ({"id": "key"}, "column 'key' is missing"),
        ({"corpus": "set"}, "column 'set' is missing"),
        ({"id": "empty"}, "field 'empty': expected an id, got null; --id-column= takes"),
    ],
)
def test_a_column_that_was_named_is_there(columns, message):
    with pytest.raises(InputError, match=rf"rows\.jsonl:1: {message}"):
        examples(TRUE_ROW | {"empty": None}, **columns)
    (row,) = examples({"grounding": "g", "response": "r"})
    assert (row.example.id, row.example.label, row.corpus) == ("1", None, "here")


def test_columns_may_be_turned_off():
    (row,) = examples(TRUE_ROW | {"id": "a", "corpus": "c"}, id="", label="", corpus="")
    assert (row.example.id, row.example.label, row.corpus) == ("1", None, "here")
    assert row.fields == {"label": 1, "id": "a", "corpus": "c"}


@pytest.mark.parametrize(
    ("value", "label"), [(1, 1), ("1", 1), (True, 1), (None, None), (" ", None)]
)
def test_labels(value, label):
    assert label_of(value) == label
    assert label_of(value, labels_are_errors=True) == (None if label is None else 1 - label)


@pytest.mark.parametrize(
    ("value", "label", "of_errors"),
    [
        ("yes", 1, 0),
        ("No", 0, 1),
        # These say themselves what they mean.
        ("faithful", 1, 1),
        ("not supported", 0, 0),
    ],
)
def test_words_are_labels(value, label, of_errors):
    assert label_of(value) == label
    assert label_of(value, labels_are_errors=True) == of_errors
    assert label_of(value, label_values=f"{value}={1 - label}") == 1 - label


@pytest.mark.parametrize("name", ["hallucination", "isHallucinated", "has_coverage_error"])
def test_labels_that_are_errors_by_their_column_s_name(name):
    """HaluEval's yes means hallucinated."""
    row = {"grounding": "g", "response": "r", name: "yes"}
    for label in ("yes", "No", 0, True):
        with pytest.raises(InputError, match="by its name, 1 or yes means an error; add --labels"):
            examples(row | {name: label}, label=name)
    for value, label, options in (
        ("yes", 0, {"labels_are_errors": True}),
        ("yes", 1, {"label_values": "yes=1,no=0"}),
        ("hallucinated", 0, {}),
        (None, None, {}),
    ):
        (row_read,) = examples(row | {name: value}, label=name, **options)
        assert row_read.example.label == label
    (row_read,) = examples(row | {"no_hallucination": "yes"}, label="no_hallucination")
    assert row_read.example.label == 1


@pytest.mark.parametrize("empty", ["", None, math.nan])
def test_of_several_label_columns_the_first_that_is_filled_counts(empty):
    rows = [
        {"grounding": "g", "response": "r", "q2": first, "begin": second}
        for first, second in ((1, "no"), (empty, "no"), (empty, empty))
    ]
    labelled = examples(*rows, label="q2,Begin")
    assert [row.example.label for row in labelled] == [1, 0, None]
    with pytest.raises(InputError, match="field 'begin': expected 1 or yes"):
        examples(rows[1] | {"begin": "maybe"}, label="q2,begin")


def test_a_scored_row_keeps_its_perspectives():
    row = TRUE_ROW | {"grounding": ["Tea calms.", "It stains."], "perspectives": ["pro", "con"]}
    (row_read,) = examples(row)
    assert row_read.example.grounding == Grounding(("Tea calms.", "It stains."), ("pro", "con"))
    assert "perspectives" not in row_read.fields
    documents = [{"content": "Tea calms."}, {"content": "It stains."}]
    (with_documents,) = examples(row | {"grounding": documents})
    assert with_documents.example.grounding == row_read.example.grounding
    with pytest.raises(InputError, match="field 'grounding': expected a text"):
        examples(row | {"grounding": ["Tea calms.", 3]})
    (row_read,) = examples(row | {"perspectives": []})
    assert row_read.example.grounding == Grounding(("Tea calms.", "It stains."))
    (row_read,) = examples(row | {"perspectives": "a column of mine"})
    assert row_read.fields["perspectives"] == "a column of mine"
    for sides in (["pro"], ["pro", 3]):
        with pytest.raises(InputError, match=r"'perspectives': expected the side of each of the 2"):
            examples(row | {"perspectives": sides})


def test_sides_of_a_file_are_lists_throughout(tmp_path):
    """A side given as a single text is refused: it is unclear which of the texts belong to it."""
    (tmp_path / "a.csv").write_text(
        'knowledge,perspectives,response\n"[""a"",""b""]","[""pro"",""con""]",r\n"[""a""]",pro,r\n'
    )
    with pytest.raises(InputError, match=r"a.csv:3: field 'perspectives': expected lists through"):
        list(file_examples(tmp_path / "a.csv", "", Columns(), "c", BadRows()))


def test_titles_are_perspectives_where_they_are_asked_for():
    """A blank text is left out, and its title with it."""
    row = {"evidence": ["Tea calms.", " ", "It stains."], "titles": ["Tea", "Ink", ""]}
    row |= {"response": "Tea is good."}
    (row_read,) = examples(row)
    assert row_read.example.grounding == Grounding(("Tea calms.", "It stains."))
    assert row_read.fields["titles"] == ["Tea", "Ink", ""]
    (row_read,) = examples(row, perspective="titles")
    assert row_read.example.grounding == Grounding(("Tea calms.", "It stains."), ("Tea", ""))
    assert "titles" not in row_read.fields
    with pytest.raises(InputError, match=r"'titles': expected the side of each of the 2 texts"):
        examples(row | {"titles": ["Tea"]}, perspective="titles")


@pytest.mark.parametrize(
    ("change", "columns", "message"),
    [
        ({"label": "good"}, {}, r"expected 1 or yes .*, got .good.; .* --label-values=LABEL=1"),
        ({"grounding": ""}, {}, "field 'grounding': expected a text that is not empty, or several"),
        ({"grounding": [3]}, {}, "field 'grounding': expected a text, got 3"),
        ({"label": datetime.date(2024, 5, 1)}, {}, "field 'label': .* got .datetime.date"),
        ({}, {"response": "text"}, "column 'text' is missing. Did you mean 'generated_text'"),
        *(
            ({"id": value}, {}, "field 'id': expected a text or a number, got .*; --id-column= tak")
            for value in (math.inf, True, b"a", [1], {"a": 1})
        ),
        *(
            ({"corpus": value}, {}, "field 'corpus': expected a text or a number, got .*; --corp")
            for value in (-math.inf, False, b"a", ["a", None], {})
        ),
        ({"id": "a"}, {}, "field 'id': 'a' occurs twice; choose another --id-column; --id-col"),
    ],
)
def test_bad_rows(change, columns, message):
    rows = TRUE_ROW | {"id": "a", **change}, TRUE_ROW | {"id": "a", **change}
    with pytest.raises(InputError, match=rf"rows\.jsonl:[12]: .*{message}"):
        examples(*rows, **columns)


@pytest.mark.parametrize(
    ("value", "identifier"),
    [
        *((missing, "1") for missing in (None, math.nan, "", " ")),
        *((1.0, "1"), (1, "1"), ("1.0", "1.0"), (1.5, "1.5"), (2**70, str(2**70))),
        (1e20, f"1{0:020}"),
        (decimal.Decimal("1.50"), "1.50"),
        (datetime.datetime(1850, 1, 2), "1850-01-02 00:00:00"),
    ],
)
def test_ids_and_corpora_of_any_type(value, identifier):
    (row,) = examples(TRUE_ROW | {"id": value, "corpus": value})
    assert row.example.id == identifier
    is_missing = value in (None, "", " ") or value != value
    assert row.corpus == ("here" if is_missing else identifier)


def test_columns_that_nobody_knows():
    message = (
        "none of the columns source, target is known to hold the grounding or the response; name "
        "it with --grounding-column=NAME --response-column=NAME. Known names: of the grounding "
    )
    with pytest.raises(InputError, match=message):
        examples({"source": "a", "target": "b"})
    named = r"the grounding; name it with --grounding-column=pro=pro_args,con=con\. Known"
    with pytest.raises(InputError, match=named):
        examples({"context": "c", "pro_args": "a", "con": "b", "response": "r"})
    with pytest.raises(InputError, match=r"name it with --grounding-column=NAME\. Known"):
        examples({"page": "c", "pro_args": "a", "response": "r"})
    with pytest.raises(InputError, match=r"name it with --grounding-column=context\. Known"):
        examples({"context": "c", "response": "r"})
    with pytest.raises(InputError, match=r"--grounding-column=doc --response-column=claim\. Known"):
        examples({"doc": "d", "claim": "c", "label": 1})


def test_ids_do_not_move_when_a_bad_row_is_skipped():
    bad_rows = BadRows(skip=True)
    rows = examples(TRUE_ROW, TRUE_ROW | {"label": "?"}, TRUE_ROW, bad_rows=bad_rows)
    assert [row.example.id for row in rows] == ["1", "3"]
    assert bad_rows.count == 1
    ids = [row.example.id for row in examples(*[TRUE_ROW | {"id": "same"}] * 2, id="")]
    assert ids == ["1", "2"]


NAMES = ["grounding", "knowledge", "evidence", "pro_arguments", "con_arguments"]
NAMES += ["generated_text", "response", "history", "label", "id", "corpus", "other"]
VALUES = st.sampled_from(
    [None, True, 0, 1, 2, 1.5, "", " ", "x", "0", "{}", [], ["x"], ["x", ""], [None], [["x"]], {}]
)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES), max_size=3), st.booleans())
def test_whatever_a_row_holds_it_is_read_or_refused(rows, skip):
    bad_rows, parsed, refusal = BadRows(skip=skip), [], "one line"
    try:
        parsed = examples(*rows, bad_rows=bad_rows)
    except InputError as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == 1
    assert len({row.example.id for row in parsed}) == len(parsed)
    for row in parsed:
        example = row.example
        assert example.grounding.texts
        assert all(text.strip() for text in example.grounding.texts)
        assert example.label in (None, 0, 1)
        assert isinstance(example.response, str)
        json.dumps([example.grounding.texts, example.history, dict(row.fields)])


def test_rows_without_ids_have_their_number_in_every_format(tmp_path):
    """Blank lines, line breaks in cells and unreadable rows do not shift row numbers."""
    good, bad = json.dumps(TRUE_ROW), "{"
    (tmp_path / "r.jsonl").write_text(f"{good}\n\n{bad}\n{good}\n")
    (tmp_path / "r.csv").write_text('grounding,response\n"a\nb",c\nd\ne,f\n')
    (tmp_path / "r.tsv").write_text("grounding\tresponse\n\na\tb\nc\nd\te\n")
    for name in ("r.jsonl", "r.csv", "r.tsv"):
        bad_rows = BadRows(skip=True)
        for _ in range(2):  # as `score` reads a file twice
            rows = file_examples(tmp_path / name, "", Columns(), "c", bad_rows)
            assert [row.example.id for row in rows] == ["1", "3"], name
        assert bad_rows.count == 1


def test_a_cell_of_csv_may_hold_several_turns(tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["history", "knowledge", "perspectives", "response"])
        for cell in ('["Hi!", "Is tea hot?"]', '["[sic] Hi!"]', "[]", ""):
            table.writerow([cell, '["Tea is hot.", "Tea."]', '["Tea", "Drink"]', "Yes."])
    rows = [csv_row.example for csv_row in file_examples(path, "", Columns(), "c", BadRows())]
    assert [row.history for row in rows] == [("Hi!", "Is tea hot?"), ("[sic] Hi!",), (), ()]
    assert {row.grounding for row in rows} == {Grounding(("Tea is hot.", "Tea."), ("Tea", "Drink"))}


def test_a_column_is_one_thing_only():
    with pytest.raises(ConfigError, match="--history-column: the column 'q' is that of --response"):
        Columns(response_column="q", history_column="q")
    row = {"grounding": "Tea is hot.", "question": "Hot tea.", "response": "Hot."}
    (row_read,) = examples(row, response="question")
    assert (row_read.example.response, row_read.example.history) == ("Hot tea.", ())
    with pytest.raises(InputError, match="is known to hold the response"):
        examples(row, history="response")


def test_a_text_of_json_that_looks_like_a_list_is_one_beside_others(tmp_path):
    rows = [
        {"question": "['a', 'b'] - what is item 0?", "context": "It prints red."},
        {"question": "What is listed?", "context": '["red", "green"]'},
    ]
    rows = [{**row, "answer": "Red."} for row in rows]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        for first in (0, 1):
            notes = TableNotes()
            read = file_examples(tmp_path / name, "", Columns(), "c", BadRows(), first, notes)
            texts = [(row.example.history, row.example.grounding.texts) for row in read]
            assert texts == [((row["question"],), (row["context"],)) for row in rows[first:]]
        assert [warning[:30] for warning in notes.report()["warnings"]] == [
            "context: texts that look like "
        ]
    # CSV has no other lists.
    (tmp_path / "a.csv").write_text('context,answer\nRed.,Red.\n"[""red"", ""green""]",Red.\n')
    notes, columns = TableNotes(), Columns(grounding_column="context")
    read = file_examples(tmp_path / "a.csv", "", columns, "c", BadRows(), notes=notes)
    assert [row.example.grounding.texts for row in read] == [("Red.",), ("red", "green")]
    assert notes.report()["lines"][-1] == "context: 1 list of 2 texts; 1 other cell of one text"


def test_texts_that_look_like_lists_are_sought_once(tmp_path, monkeypatch):
    """All columns are looked at in one further reading of the file."""
    row = {"question": "['a']", "context": "['b', 'c']", "answer": "d"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    readings = []
    monkeypatch.setattr(
        grounded_rows, "read_rows", lambda *args: readings.append(args) or read_rows(*args)
    )
    for _ in range(2):
        (read,) = file_examples(tmp_path / "a.jsonl", "", Columns(), "c", BadRows())
        assert (read.example.history, read.example.grounding.texts) == (("a",), ("b", "c"))
    assert len(readings) == 3


@pytest.mark.parametrize("as_text", [False, True])
def test_objects_of_langfuse(as_text):
    row = {"input": {"question": "q"}, "output": {"answer": "a", "model": "m"}, "context": "c"}
    if as_text:
        row = {name: json.dumps(v) if isinstance(v, dict) else v for name, v in row.items()}
    # A text may be an answer that is JSON: an option says that it is not.
    named = {"history": "input.question", "response": "output.answer", "grounding": "context"}
    (read,) = examples(row, **(named if as_text else {}))
    assert read.example == GroundedExample("1", Grounding(("c",)), ("q",), "a")
    assert read.fields == {"output.model": "m"}
    turn = {"role": "assistant", "content": "a"}
    (read,) = examples({**row, "output": turn}, response="output.content")
    assert read.example.response == "a"


def test_objects_and_texts_for_none_are_counted():
    def warnings(*rows, **columns):
        notes = TableNotes()
        placed = [Row(f"a:{number}", row) for number, row in enumerate(rows)]
        list(example_rows(placed, Columns(**columns), "c", notes=notes))
        return notes.report()["warnings"]

    turn = json.dumps({"role": "assistant", "content": "a"})
    row = {"input": "q", "output": turn, "context": "c"}
    as_answer = "scored as the text of an answer, with braces and keys"
    assert warnings(row, row) == [
        f"output: 2 JSON objects {as_answer}; --response-column=output.KEY takes what a key has: "
        "role, content."
    ]
    assert warnings({"grounding": "g", "answer": turn}) == [
        f"answer: 1 JSON object {as_answer}; write the answer alone."
    ]
    printed = "[AnswerPart(text='Tea.', citations=[]), AnswerPart(text='Ink.', citations=['[1]'])]"
    assert warnings({"grounding": "g", "answer": printed}) == [
        f"answer: 1 printed object (such as {format_value(printed)}) {as_answer}; "
        "write the answer alone."
    ]
    thoughts = ("<think>Hm.</think> Tea.", "Hm.</think>Tea.", "I think <b>tea</b>.")
    assert warnings(*({"grounding": "g", "answer": text} for text in thoughts)) == [
        "answer: 2 answers scored with the model's reasoning, as in <think>...</think>; "
        "write what stands behind it alone."
    ]
    cited = (
        "Tea. [1]",
        "Tea[2][3], ink [^4].",
        "Tea\u30105\u2020source\u3011",
        "Tea [1, 2]",
        "x[0] = 3 [A1]",
    )
    groundings = ("Tea.", "[2] Tea. [3] Ink.", "g", "[1, 2] Tea", "x[0] is 3")
    rows = ({"grounding": g, "answer": a} for g, a in zip(groundings, cited, strict=True))
    assert warnings(*rows) == [
        "answer: 3 answers scored with marks of citations as words and numbers, such as [1], which "
        "the grounding lacks; write the answer without them."
    ]
    message = "content='Tea' additional_kwargs={} response_metadata={'finish_reason': 'stop'}"
    for printed in (message, "{'answer': 'Tea'}", "['Tea']", "[{'type': 'text', 'text': 'Tea'}]"):
        assert len(warnings({"grounding": "g", "answer": printed})) == 1
    for text in ("[1]", "[sic] 'tea'", "Type f(x='a').", "[Tea] or ['ink'] it is", "{x: x > 3}"):
        assert warnings({"grounding": "g", "answer": text}) == []
    for text in ("{'a b', 'c'}", '{"it\'s"}', "{'page': 'a: b', 'n': nan}"):
        for part, noun in (("grounding", "a grounding"), ("history", "a history")):
            assert warnings({"grounding": "g", "answer": "a", part: text}) == [
                f"{part}: 1 printed object (such as {format_value(text)}) scored as the text of "
                f"{noun}, with braces and keys; write the {part} alone."
            ]
    texts = {"grounding": '{"text": "g"}', "answer": "a", "history": "{'content': 'q', 'n': nan}"}
    assert warnings(texts) == []
    assert warnings(row, response_column="output.content") == []
    question = json.dumps({"question": "q", "k": 3})
    (warning,) = warnings({**row, "input": question}, response_column="output.content")
    assert warning == (
        "input: 1 JSON object scored as the text of a history, with braces and keys; "
        "--history-column=input.KEY takes what a key has: question, k."
    )
    with pytest.raises(
        InputError,
        match=r"--grounding-column=NAME\. --grounding-column=input\.KEY takes what a key has: "
        r"question, k\. --grounding-column=output\.KEY .*: role, content\. Known names",
    ):
        warnings({"input": question, "output": turn})
    with pytest.raises(InputError, match=r"a:0: .*; --response-column=output\.KEY .*: text\.$"):
        warnings({"output": {"text": "a"}, "context": "c", "input": "q"})
    rows = [{"grounding": text, "answer": "a"} for text in ("nan", "N/A", "nan", "Tea", "nano")]
    rows.append({"grounding": ["nan", "Tea"], "answer": "a"})
    assert warnings(*rows) == [
        "grounding: 2 'nan', 1 'N/A' scored as the text of a grounding; leave the cell empty where "
        "there is none."
    ]
