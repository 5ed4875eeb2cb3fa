import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core import jsonl
from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows


def write(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    return path


def test_rows_come_with_their_line_numbers(tmp_path):
    path = write(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \n{"a": "\xc3\xa9"}')
    assert list(jsonl.read_jsonl(path)) == [
        (f"{path}:1", {"a": 1}),
        (f"{path}:4", {"a": "é"}),
    ]


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
    with pytest.raises(InputError, match="expected a file, got a folder"):
        list(jsonl.read_jsonl(tmp_path))


def test_bad_lines_can_be_skipped_and_counted(tmp_path):
    path = write(tmp_path, b'{"a": 1}\n{"a": }\n["a"]\n{"a": "\xe9"}\n{"a": 2}\n')
    bad_rows = BadRows(skip=True)
    assert [row.fields["a"] for row in jsonl.read_jsonl(path, bad_rows)] == [1, 2]
    assert bad_rows.count == 3
    assert [m.removeprefix(f"{path}:")[0] for m in bad_rows.messages] == ["2", "3", "4"]


def test_half_of_a_surrogate_pair_is_no_text(tmp_path):
    path = write(tmp_path, b'{"a": "\\ud83d\\ude00 \\\\ud800"}\n{"a": ["\\uD83D"]}\n')
    bad_rows = BadRows(skip=True)
    assert [row.fields["a"] for row in jsonl.read_jsonl(path, bad_rows)] == ["\U0001f600 \\ud800"]
    assert bad_rows.messages == [f"{path}:2: holds half of a surrogate pair, no character."]


def test_an_error_at_the_end_of_a_line_is_told_of_its_column(tmp_path):
    path = write(tmp_path, b'{"a": 1, "b": 2\n')
    with pytest.raises(InputError, match=r"rows\.jsonl:1: .* at column 16"):
        list(jsonl.read_jsonl(path))
