import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.data.annotation_spans import (
    line_end_offsets,
    moved_span,
    one_line_end,
    parsed_arguments,
    parsed_spans,
)
from faith_jax.errors import InputError

RESPONSE = "Tea calms. Tea cures colds in 12-20 days | really.\nTea is cheap."
LABELS = ("pro 1", "pro 2", "con 1")


def pairs(cell, response=RESPONSE):
    return [(kind, response[start:end]) for kind, start, end in parsed_spans(cell, response, "s:2")]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (None, []),
        ("  ", []),
        ([], []),
        ("cheap", [("", "cheap")]),
        ("cheap\ncolds", [("", "colds"), ("", "cheap")]),
        ("cheap | colds|cheap", [("", "colds"), ("", "cheap")]),
        ("days | really.\nTea is", [("", "days | really.\nTea is")]),  # as it stands there
        ("'cheap", None),
        ('"cheap"', [("", "cheap")]),
        ("\u201ccheap\u201d", [("", "cheap")]),
        ('"12-20"', [("", "12-20")]),
        ("[12-20]", [("", RESPONSE[12:20])]),
        ("0-3", [("", "Tea")]),
        ([[0, 3], "cheap", "[4-9]"], [("", "Tea"), ("", "calms"), ("", "cheap")]),
        ("partial: cheap\nFull: colds", [("full", "colds"), ("partial", "cheap")]),
        ("partial: [0-3]", [("partial", "Tea")]),
    ],
)
def test_spans_are_found(cell, expected):
    if expected is None:
        with pytest.raises(InputError):
            pairs(cell)
    else:
        assert pairs(cell) == expected


def test_words_of_the_response_are_no_kind():
    assert pairs("partial: truth", "A partial: truth.") == [("", "partial: truth")]


def test_a_copied_guard_is_taken_off():
    assert pairs("'=cheap", "Tea is\n=cheap.") == [("", "=cheap")]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("Tea", r"there 3 times: copy more words, .*offsets, \[0-3\] or \[11-14\] or \[51-54\]"),
        ("coffee", "expected text of the response.*copy it from the response"),
        ("TEA CALMS", 'the response has "Tea calms"'),
        ("12-20", r'write \[12-20\] for offsets, or "12-20" for a text'),
        ("60-70", "offsets go from 0 to 64, the first before the second"),
        ("5-5", "the first before the second"),
        ([[1, 2, 3]], r"write a text, or offsets as \[start, end\]"),
        ([[True, 3]], "write a text, or offsets"),
        (7, "write it as a text"),
        ("12. Nov", r"made a date of offsets, write them in brackets: \[12-20\]"),
        ("Dec-20", "made a date of offsets"),
    ],
)
def test_bad_spans_say_what_to_do(cell, message):
    with pytest.raises(InputError, match=rf"^s:2: field 'unsupported_spans': .*{message}"):
        parsed_spans(cell, RESPONSE, "s:2")


@settings(deadline=None)
@given(st.text(max_size=20), st.data())
def test_offsets_of_any_span_are_read_back(response, data):
    if not response:
        return
    start = data.draw(st.integers(0, len(response) - 1))
    end = data.draw(st.integers(start + 1, len(response)))
    for cell in (f"[{start}-{end}]", [[start, end]]):
        assert [s[1:] for s in parsed_spans(cell, response, "s:2")] == [(start, end)]


@settings(deadline=None)
@given(st.text(st.sampled_from("a\r\nb"), max_size=12))
def test_line_ends_move_spans_to_the_same_text(text):
    plain = one_line_end(text)
    assert len(line_end_offsets(text)) == len(plain) + 1
    for start in range(len(plain)):
        for end in range(start + 1, len(plain) + 1):
            low, high = moved_span(start, end, plain, text)
            assert one_line_end(text[low:high]) == plain[start:end]
            assert moved_span(low, high, text, plain) == (start, end)


def test_spans_of_texts_with_other_line_ends():
    assert pairs("cures\ncolds", "Tea cures\r\ncolds.") == [("", "cures\r\ncolds")]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("", []),
        ("pro 2, con 1", [("", "pro 2"), ("", "con 1")]),
        ("CON1;Pro  2\npro 2", [("", "pro 2"), ("", "con 1")]),
        (["con 1", "partial: pro 1, pro 2"], [("partial", "pro 1"), ("", "pro 2"), ("", "con 1")]),
    ],
)
def test_arguments_are_found(cell, expected):
    assert parsed_arguments(cell, LABELS, "s:2") == expected


def test_numbers_do_where_there_is_one_side():
    assert parsed_arguments("2", ["text 1", "text 2"], "s:2") == [("", "text 2")]
    assert parsed_arguments(2, ["text 1", "text 2"], "s:2") == [("", "text 2")]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("pro 3", r"arguments of this row \(pro 1, pro 2, con 1\), got \"pro 3\"; name them"),
        ("2", "arguments of this row"),
        ("pro 1 and pro 2", "arguments of this row"),
        ("pro 1, partial: pro 1", "pro 1 is named with and without 'partial:'"),
    ],
)
def test_bad_arguments_say_what_to_do(cell, message):
    with pytest.raises(InputError, match=rf"^s:2: field 'missing_arguments': .*{message}"):
        parsed_arguments(cell, LABELS, "s:2")
