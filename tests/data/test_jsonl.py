import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.data import jsonl
from faith_jax.errors import InputError


def write(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    return path


def test_rows_come_with_their_line_numbers(tmp_path):
    path = write(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \n{"a": "\xc3\xa9"}')
    assert list(jsonl.read_jsonl(path)) == [(1, {"a": 1}), (4, {"a": "é"})]


def test_an_empty_file_has_no_rows(tmp_path):
    assert list(jsonl.read_jsonl(write(tmp_path, b""))) == []


@given(
    st.lists(
        st.dictionaries(
            st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"))
        )
    )
)
def test_whatever_json_writes_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("jsonl") / "rows.jsonl"
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_bytes(text.encode("utf-8"))
    assert [row for _, row in jsonl.read_jsonl(path)] == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": }\n', "rows.jsonl:2: not valid JSON: Expecting value at column 7"),
        (b'{"a": 1} {"a": 2}\n', "rows.jsonl:1: not valid JSON: Extra data at column 10"),
        (b'\n["a"]\n', 'rows.jsonl:2: expected a JSON object, got ["a"].'),
        (b'{"a": "\xe9"}\n', "rows.jsonl:1: expected UTF-8, got byte 0xe9 at byte 8"),
        ('{"a": 1}\n'.encode("utf-16"), "rows.jsonl:1: expected UTF-8, got UTF-16"),
        (b'{"a": ' + b"9" * 5000 + b"}\n", "rows.jsonl:1: not valid JSON: Exceeds the limit"),
        (b"[" * 100_000, "rows.jsonl:1: not valid JSON: maximum recursion depth"),
    ],
)
def test_a_bad_line_is_named(tmp_path, content, message):
    with pytest.raises(InputError) as caught:
        list(jsonl.read_jsonl(write(tmp_path, content)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.jsonl: no such file\."):
        list(jsonl.read_jsonl(tmp_path / "nothing.jsonl"))
    with pytest.raises(InputError, match="expected a JSON lines file, got a folder"):
        list(jsonl.read_jsonl(tmp_path))


def test_field_errors_name_place_field_expected_got_and_remedy():
    with pytest.raises(InputError) as caught:
        jsonl.list_field(
            {"pro": []}, "pro", "topics.jsonl:12", "argument", "add an argument or drop the topic"
        )
    assert str(caught.value) == (
        "topics.jsonl:12: field 'pro': expected a list of at least one argument, got []; "
        "add an argument or drop the topic."
    )


def test_text_fields():
    row = {"a": " text\n", "b": None}
    assert jsonl.text_field(row, "a", "f:1") == "text"
    assert jsonl.text_field(row, "b", "f:1", default="none") == "none"
    for value in ("", "  ", 3, None, ["text"], "\ud800"):
        with pytest.raises(InputError, match="f:1: field 'a': expected a text"):
            jsonl.text_field({"a": value}, "a", "f:1")


def test_a_missing_field_names_the_nearest():
    with pytest.raises(InputError, match=r"field 'question' is missing\. Did you mean 'queston'"):
        jsonl.text_field({"queston": "Why?"}, "question", "f:1")


def test_list_fields():
    assert jsonl.list_field({}, "a", "f:1", minimum=0) == []
    assert jsonl.list_field({"a": None}, "a", "f:1", minimum=0) == []
    with pytest.raises(InputError, match='expected a list with an item each, got "text"'):
        jsonl.list_field({"a": "text"}, "a", "f:1")


def test_index_lists():
    assert jsonl.index_list_field({"a": [2, 0]}, "a", "f:1", 3) == (2, 0)
    for values in ([3], [-1], [True], [1.0], ["1"]):
        with pytest.raises(InputError, match=r"field 'a\[0\]': expected an index from 0 to 2"):
            jsonl.index_list_field({"a": values}, "a", "f:1", 3)
    with pytest.raises(InputError, match=r"expected distinct indices, got \[1, 1\]"):
        jsonl.index_list_field({"a": [1, 1]}, "a", "f:1", 3)


def test_long_values_are_cut_in_messages():
    assert jsonl.shown("x" * 100) == '"' + "x" * 56 + "..."
