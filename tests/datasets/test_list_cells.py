"""Lists in the cells of tables, in the formats that programs write."""

import csv
import datetime
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import InputError
from faith_jax.datasets.list_cells import (
    JSON,
    NUMPY,
    PYTHON,
    ListColumns,
    document_text,
    is_plain_text,
    read_list,
)
from faith_jax.datasets.table_notes import TableNotes

TEXTS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), max_size=5
)
HARD = ['It\'s "ink".', "a\tb\\t", "first\nsecond", "[x]", "', '", "' '", "é \u2028", "nan, None"]


def written(texts, form):
    if form == JSON:
        return json.dumps(texts)
    return repr(texts) if form == PYTHON else str(np.array(texts, dtype=object))


@pytest.mark.parametrize("form", [JSON, PYTHON, NUMPY])
@given(texts=TEXTS)
def test_what_programs_write_is_read_back(form, texts):
    texts = [text for text in texts if text.strip()]
    cell = read_list(written(texts, form))
    assert cell is not None
    assert cell.texts == texts
    assert form in cell.forms


@pytest.mark.parametrize("form", [JSON, PYTHON, NUMPY])
def test_quotes_escapes_and_line_breaks(form):
    cell = read_list(written(HARD, form))
    assert cell.texts == HARD
    assert form in cell.forms
    assert read_list(json.dumps(written(HARD, form))) == cell  # a text, written as one again


@given(rows=st.lists(TEXTS.filter(bool), min_size=1, max_size=5))
def test_a_column_of_pandas_is_read_back(rows):
    pandas = pytest.importorskip("pandas")
    text = pandas.DataFrame({"contexts": rows}).to_csv(index=False)
    _, *cells = csv.reader(io.StringIO(text, newline=""))
    lists = ListColumns(TableNotes())
    assert [lists.read("contexts", cell, "a:1") for (cell,) in cells] == rows


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ("('Tea', 'Ink')", ["Tea", "Ink"]),
        ("['Tea', None]", ["Tea", None]),
        ("[None 'Tea'\n nan]", [None, "Tea", None]),
        ("[]", []),
        ('["Tea", 3]', ["Tea", 3]),
        ("[{'role': 'user', 'content': 'Tea?'}]", [{"content": "Tea?"}]),
        (
            "[Document(metadata={'page': 1}, page_content='Tea is\\nhot.'), "
            "Document(page_content='Ink.')]",
            [{"page_content": "Tea is\nhot."}, {"page_content": "Ink."}],
        ),
        *((f"[{null}]", []) for null in ("None", "nan", "null", "NaN", "None, nan", "nan nan")),
        (str([np.str_("Tea  {a) "), np.str_("It's ink")]), ["Tea  {a) ", "It's ink"]),
        (str(np.array([np.str_("Tea"), np.str_("Ink")], dtype=object)), ["Tea", "Ink"]),
        *(
            (str(documents), [{"text": "Tea"}, {"text": "Ink"}])
            for value in (
                np.float64(0.5),
                math.nan,
                datetime.datetime(2024, 5, 1),
                {"a": [object()]},
            )
            for rows in ([{"text": "Tea", "score": value}, {"score": value, "text": "Ink"}],)
            for documents in (rows, np.array(rows, dtype=object))
        ),
        (
            "[NodeWithScore(node=TextNode(id_='1', relationships={<Relationship.SOURCE: '1'>: "
            "Related(node_type=<Type.DOCUMENT: '4'>)}, text=\"It's ink\", text_template='{a}'), "
            "score=0.8)]",
            [{"node": {"text": "It's ink"}}],
        ),
        # Of a single one, too.
        ('{"text": "Tea", "page": null}', [{"text": "Tea", "page": None}]),
        ("{'text': 'Tea', 'page': nan}", [{"text": "Tea"}]),
        ("{'page_content': 'Tea', 'metadata': {}}", [{"page_content": "Tea"}]),
        ("Document(metadata={}, page_content='Tea')", [{"page_content": "Tea"}]),
    ],
)
def test_other_lists(cell, texts):
    assert read_list(cell).texts == texts


@pytest.mark.parametrize(
    "cell",
    ["[sic]", "[1] Tea is hot.", "[1, 2]", "(Tea)", "('Tea')", "['Tea', 'In", "['a', 'b' 'c']"]
    + ["{'Tea'}", '{"answer": "Tea"}', "{'page': 'Tea', 'metadata': {}}", "{text: 'Tea'} is it"]
    + ["[", "[" * 5000, "['" + "a' 'b" * 5000, "[open('x')]", "[__import__('os')]", "Tea"],
)
def test_texts_that_are_no_lists(cell):
    assert read_list(cell) is None


def test_nothing_is_executed(tmp_path):
    target = tmp_path / "made"
    for call in (
        f"open({str(target)!r}, 'w')",
        f"Document(page_content=open({str(target)!r}, 'w'))",
        f"np.str_(open({str(target)!r}, 'w'))",
        f"{{'text': open({str(target)!r}, 'w')}}",
    ):
        assert read_list(f"['Tea', {call}]") is None
    assert not target.exists()


def test_a_list_that_was_shortened_is_an_error():
    printed = str(np.array([f"Text {number}." for number in range(2000)]))
    with pytest.raises(InputError, match=r"^a.csv:2: field 'contexts': expected a whole list"):
        ListColumns(TableNotes()).read("contexts", printed, "a.csv:2")


def test_a_list_of_one_and_an_empty_one_are_of_any_form():
    lists = ListColumns(TableNotes())
    cells = ["[]", "['Tea']", "", "['Tea' 'Ink']", "[]"]
    read = [lists.read("c", cell, f"a.csv:{line}") for line, cell in enumerate(cells, 2)]
    assert read == [[], ["Tea"], "", ["Tea", "Ink"], []]
    with pytest.raises(InputError, match=r"a.csv:7: field 'c': expected a list as NumPy writes it"):
        lists.read("c", "['Tea', 'Ink']", "a.csv:7")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("['a', 'b']", '["\\/", 1, null]', "as Python writes it as in a:1, got a list as JSON wr"),
        ("['a', 'b']", "N/A", "a list as Python writes it as in a:1, got a text; write every"),
        ("N/A", "['a', 'b']", "a text as in a:1, got a list as Python writes it; write every"),
        (
            "['a', 'b']",
            "['a', 'b",
            "expected a list of texts as JSON, .*; the cell is cut off, broken",
        ),
    ],
)
def test_mixed_forms_are_one_error(first, second, message):
    lists = ListColumns(TableNotes())
    for column, cell in (("other", "N/A"), ("c", "a text"), ("c", first)):
        lists.read(column, cell, "a:1")
    with pytest.raises(InputError, match=f"^a:2: field 'c': .*{message}"):
        lists.read("c", second, "a:2")


def test_lists_beside_texts_are_read_cell_by_cell():
    notes = TableNotes()
    lists = ListColumns(notes)
    cells = ["Tea is hot.", "['Tea', 'Ink']", "[sic] Ink.", "", "[]", "['Tea']", "(a text)"]
    read = [lists.read("c", cell, "a:1") for cell in cells]
    assert read == ["Tea is hot.", ["Tea", "Ink"], "[sic] Ink.", "", [], ["Tea"], "(a text)"]
    for texts in filter(None, (value for value in read if isinstance(value, list))):
        notes.count_list("c", texts)
    assert notes.report()["lines"] == ["c: 2 lists of 1 to 2 texts; 3 other cells of one text"]
    # A text that begins as a list makes it unclear which cells are lists.
    lists = ListColumns(TableNotes())
    assert [lists.read("c", cell, "a:1") for cell in ("Tea", "['Tea' is hot")] == [
        "Tea",
        "['Tea' is hot",
    ]
    with pytest.raises(InputError, match=r"a:2: field 'c': expected a text as in a:1, got a list"):
        lists.read("c", "['Tea']", "a:2")


def test_a_first_cell_that_is_cut_off_is_an_error():
    with pytest.raises(InputError, match=r"^a:1: field 'c': .* got \"\['a b'\"; the cell is cut"):
        ListColumns(TableNotes()).read("c", "['a b'", "a:1")
    # A shard does not see the earlier plain texts that make this cell a text in the whole table.
    assert ListColumns(TableNotes(), is_checked=True).read("c", "['a b'", "a:1") == "['a b'"
    lists = ListColumns(TableNotes())
    for text in ("[sic] Tea.", "['Tea' is a word.", "[1]"):  # in a column of texts
        assert lists.read("c", text, "a:1") == text


@pytest.mark.parametrize(
    "cell",
    [
        "[['Tea', 'Ink']]",
        "[b'Tea', b'Ink']",
        "[{'name': 'Tea'}]",
        "[{'text': 'Te",
        "[NodeWithScore(node=TextNode(id_='1', text='Te",
        "[list(['Tea', 'Ink']) list(['Ale'])]",
        "[Document(page_content=x) Document(page_content=y)]",
    ],
)
def test_lists_of_anything_else_are_errors(cell):
    message = r"^a:1: field 'c': .*; the cell is cut off, .*, give the rows as JSON lines\.$"
    with pytest.raises(InputError, match=message):
        ListColumns(TableNotes()).read("c", cell, "a:1")
    with pytest.raises(InputError, match=r"or, if it is one text, list it: \[text\]\.$"):
        ListColumns(TableNotes(), tuple).read("c", cell, "a:1")


@pytest.mark.parametrize(
    "values",
    [
        ["Tea is hot.", '["red", "green"]'],
        ["['a', 'b'] - what is item 0?", "Tea?", '["red"]', "['red', 'green']"],
        ["Tea", str(np.array(["red"] * 2000))],
    ],
)
def test_texts_that_look_like_lists_stay_beside_others(values):
    """Also in a table with real lists."""
    notes = TableNotes()
    lists = ListColumns(notes, lambda: ["c"] if any(map(is_plain_text, values)) else [])
    assert [lists.read("c", value, f"a:{n}") for n, value in enumerate(values)] == values
    (warning,) = notes.report()["warnings"]
    assert warning.startswith("c: texts that look like lists, as in a:")
    assert lists.read("c", "[]", "a:9") == []


def test_lists_of_one_form_are_read_everywhere():
    values = ["['red', 'green']", None, "", "[nan]", "['red']"]
    notes = TableNotes()
    lists = ListColumns(notes, lambda: ["c"] if any(map(is_plain_text, values)) else [])
    read = [lists.read("c", value, "a:1") for value in values]
    assert read == [["red", "green"], None, "", [], ["red"]]
    assert not notes.report()["warnings"]
    for value in ("nan", '["red", null]'):
        assert not is_plain_text(value)
        with pytest.raises(InputError, match=r"^a:2: field 'c': expected a list as Python"):
            lists.read("c", value, "a:2")


@pytest.mark.parametrize(
    "text",
    ["[Note(type=x) said", "[Note(type='a (b)', of=3): Tea.]", "[Note(type=x)] Tea", "[Note (a) x"],
)
def test_a_call_with_words_behind_it_is_a_text(text):
    assert ListColumns(TableNotes()).read("c", text, "a:1") == text


def test_a_chat_turn_may_have_its_content_in_parts_or_none():
    thought = {"type": "thinking", "thinking": "Hm"}
    parts = [thought, {"type": "text", "text": "Tea."}, {"type": "text", "text": "Ink."}]
    assert document_text({"role": "assistant", "content": parts}) == "Tea. Ink."
    assert document_text({"type": "ai", "data": {"content": parts}}) == "Tea. Ink."
    assert document_text({"role": "user", "content": 3}) is None
    for no_text in (None, [thought]):
        assert document_text({"role": "assistant", "content": no_text, "tool_calls": [{}]}) == ""
        assert document_text({"content": no_text}) is None
    assert read_list(f"[{{'role': 'user', 'content': {parts}}}]") is not None


def test_columns_of_lists_without_quotes_are_warned_of():
    for cells, count in ((["[Tea, Ink]", "[Snow]"], 1), (["[sic] Tea", "[Snow]"], 0)):
        notes = TableNotes()
        lists = ListColumns(notes)
        assert [lists.read("c", cell, "a:1") for cell in cells] == cells
        assert len(notes.report()["warnings"]) == count


def test_a_text_of_as_much_as_a_spreadsheet_keeps_is_warned_of():
    for size, count in ((32_767, 1), (32_768, 0)):
        notes = TableNotes()
        ListColumns(notes).read("c", "x" * size, "a:1")
        assert len(notes.report()["warnings"]) == count


def test_texts_that_deepeval_joined_are_warned_of():
    for column, count in (("retrieval_context", 1), ("context", 0)):
        notes = TableNotes()
        assert ListColumns(notes).read(column, "Tea|Ink", "a:1") == "Tea|Ink"
        assert len(notes.report()["warnings"]) == count


def test_a_document_whose_inner_text_is_blank_is_one():
    assert document_text({"node": {"text": ""}, "score": 0.1}) == ""
    assert document_text({"kwargs": {"content": "Hi!"}}) == "Hi!"
