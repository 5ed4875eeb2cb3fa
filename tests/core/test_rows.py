import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core import rows
from faith_jax.core.errors import CheckpointError, ConfigError, InputError
from faith_jax.core.rows import (
    BadRows,
    Row,
    decode_line,
    parse_rows,
    read_json,
    read_jsonl,
    read_lines,
)


def parse(fields, place):
    if fields["n"] < 0:
        raise InputError(f"{place}: field 'n': expected 0 or more.")
    return fields["n"]


ROWS = [Row(f"f:{i}", {"n": n}) for i, n in enumerate([3, -1, 4, -2], start=1)]


def test_reading_stops_at_the_first_bad_row():
    parsed = []
    with pytest.raises(InputError, match=r"^f:2: field 'n'"):
        parsed.extend(parse_rows(ROWS, parse, BadRows()))


def test_bad_rows_are_skipped_counted_and_listed():
    bad_rows = BadRows(skip=True)
    assert list(parse_rows(ROWS, parse, bad_rows)) == [3, 4]
    assert bad_rows.count == 2
    assert [message[:4] for message in bad_rows.messages] == ["f:2:", "f:4:"]
    bad_rows.take(3, ["b, test: row 1: no text", "f:5: no text", "b, test: row 12: no text"])
    *_, first, second = bad_rows.describe_skipped()
    assert first == "  b, test: row 1: no text (the same: 12)"
    assert second == "  f:5: no text"


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbfa\x0b\x85\r\nb\rc\n\nd")
    assert list(read_lines(path)) == [b"a\x0b\x85\r\n", b"b\rc\n", b"\n", b"d"]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="nothing: no such file"):
        list(read_lines(tmp_path / "nothing"))
    with pytest.raises(InputError, match="expected a file, got a folder"):
        list(read_lines(tmp_path))
    (tmp_path / "wide").write_bytes("a".encode("utf-16"))
    with pytest.raises(InputError, match="wide: expected UTF-8, got UTF-16"):
        list(read_lines(tmp_path / "wide"))


def test_bytes_that_are_not_utf8_are_named():
    assert decode_line("ä".encode(), "f:1") == "ä"
    with pytest.raises(InputError, match="f:3: expected UTF-8, got byte 0xe4 at byte 2"):
        decode_line(b"a\xe4", "f:3")


def write(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    return path


def test_rows_come_with_their_line_numbers(tmp_path):
    path = write(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \n{"a": "\xc3\xa9"}')
    assert list(read_jsonl(path)) == [(f"{path}:1", {"a": 1}), (f"{path}:4", {"a": "é"})]


def test_reading_begins_at_any_row(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "_STEP", 2)
    path = tmp_path / "a.jsonl"
    lines = ["\ufeff", *(f'{{"n": {n}}}\n' + "\n" * (n % 3) for n in range(7))]
    path.write_text("".join(lines), encoding="utf-8")
    whole = list(read_jsonl(path))
    for first in (6, 0, 5, 1, 3, 7, 9):
        assert list(read_jsonl(path, first=first)) == whole[first:]
    path.write_text('{"n": 10}\n' * 9)  # has other places
    assert [row.fields["n"] for row in read_jsonl(path, first=7)] == [10, 10]


def test_what_was_seen_is_known_in_memory_and_on_disk(monkeypatch):
    monkeypatch.setattr(rows, "_MOST_SEEN", 3)
    seen = rows.Seen()
    assert [seen.add(value) for value in (1, 2, 1, 3, 4, 2, 3, 4, 5)] == [
        *(True, True, False, True),
        *(True, False, False, False, True),
    ]


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
    assert [row for _, row in read_jsonl(path)] == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": }\n', "rows.jsonl:2: not valid JSON: Expecting value at column 7"),
        (b'{"a": 1}\n{"a": "b', "each line must be one whole JSON object. The file ends here."),
        (b'\n["a"]\n', 'rows.jsonl:2: expected a JSON object, got ["a"].'),
        (b'{"a": "\xe9"}\n', "rows.jsonl:1: expected UTF-8, got byte 0xe9 at byte 8"),
        (
            b'{"a": ' + b"9" * 5000 + b"}\n",
            "rows.jsonl:1: not valid JSON: a number of more than 4,300",
        ),
        (b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}", "rows.jsonl:1: not valid JSON: nested too"),
    ],
)
def test_a_bad_line_is_named(tmp_path, content, message):
    with pytest.raises(InputError) as caught:
        list(read_jsonl(write(tmp_path, content)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_lines_can_be_skipped_and_counted(tmp_path):
    path = write(tmp_path, b'{"a": 1}\n{"a": }\n["a"]\n{"a": "\xe9"}\n{"a": 2}\n')
    bad_rows = BadRows(skip=True)
    assert [row.fields["a"] for row in read_jsonl(path, bad_rows)] == [1, 2]
    assert bad_rows.count == 3
    assert [m.removeprefix(f"{path}:")[0] for m in bad_rows.messages] == ["2", "3", "4"]


def test_half_of_a_surrogate_pair_is_no_text(tmp_path):
    path = write(tmp_path, b'{"a": "\\ud83d\\ude00 \\\\ud800"}\n{"a": ["\\uD83D"]}\n')
    bad_rows = BadRows(skip=True)
    assert [row.fields["a"] for row in read_jsonl(path, bad_rows)] == ["\U0001f600 \\ud800"]
    assert bad_rows.messages == [f"{path}:2: holds half of a surrogate pair, no character."]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "no such file"),
        (b'{"a":', "not valid JSON: Expecting value at column 6"),
        (b"[1]", "expected a JSON object, got \\[1\\]"),
    ],
)
def test_what_is_no_json_object(tmp_path, content, problem):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    for error in (ConfigError, CheckpointError):
        with pytest.raises(error, match=rf"a\.json: {problem}"):
            read_json(path, error)
    path.write_text('{"a": null}')
    assert read_json(path) == {"a": None}


_TEXT = st.text(max_size=4) | st.sampled_from(["\ud800", "\udc00", "\x00", "\u2028", "\x7f"])
_ODD = [
    "-0",
    "-0.0",
    "1E400",
    "NaN",
    "-Infinity",
    "1" * 40,
    "1" * 5000,
    "01",
    "1.",
    "1e-400",
    "true",
]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
        max_leaves=5,
    ),
    st.sampled_from(_ODD),
    st.booleans(),
)
def test_lines_are_read_as_json_reads_them(value, odd, is_ascii):
    line = json.dumps({"a": value, "": 0}, ensure_ascii=is_ascii)[:-1] + f', "b": {odd}}}'
    try:
        encoded = f" {line}\r\n".encode("utf-8", "surrogatepass")
        expected = rows._json_object(rows.decode_line(encoded, "it"), "it")
    except InputError:
        return
    decoded = rows._decode_or_none(encoded, rows._OBJECT)
    assert decoded is None or repr(decoded) == repr(expected)


@pytest.mark.parametrize(
    "line", [b'{"a": "\\ud800"}', b'{"a": 1E400}', b'{"a": NaN}', b'{"a": "\xff"}']
)
def test_only_json_judges_what_msgspec_does_not_read(line):
    assert rows._decode_or_none(line, rows._OBJECT) is None
    assert rows._decode_or_none(b'{"a": [1, "b"]}', rows._OBJECT) == {"a": [1, "b"]}
    assert rows._decode_or_none(b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", rows._OBJECT) is None


def test_a_row_that_is_read_again_counts_once():
    bad_rows = BadRows(skip=True)
    for _ in range(2):
        assert list(parse_rows(ROWS, parse, bad_rows)) == [3, 4]
    assert (bad_rows.count, len(bad_rows.messages)) == (2, 2)
