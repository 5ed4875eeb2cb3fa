import csv
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.annotation.sheets import (
    ERRORS,
    MARKS,
    arguments_by_label,
    arguments_cell,
    one_line_end,
    parse_arguments,
    read_sheet,
    sheet_text,
)
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.table import guard_formula, unguard_formula
from faith_jax.core.types import GroundedExample, Grounding

# Every character but half surrogates, and often those that mean something to csv and spreadsheets.
CHARACTER = st.sampled_from("'\"=+-@\r\n,;\t|:\0\ufeff\u2028\uff1d ") | st.characters(
    exclude_categories=["Cs"]
)
TEXT = st.text(CHARACTER, max_size=16)
COLUMNS = ("id", "annotator", "query", "arguments", "response", *MARKS)
SIDES = ("pro", "pro", "con")
# Line ends are those that sheets are given.
LINES = TEXT.map(one_line_end)
GROUNDING = st.tuples(LINES, LINES, LINES).map(lambda texts: Grounding(texts, SIDES))
ITEM = st.builds(
    GroundedExample,
    TEXT.filter(str.strip),
    GROUNDING,
    LINES.map(lambda query: (query,) if query else ()),
    LINES,
)
TEA = GroundedExample(
    "tea", Grounding(("Calm.", "Weak."), ("pro", "con")), ("Tea?",), "=Some say so."
)


def write(folder, text, name="sheet.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@settings(deadline=None)
@given(st.lists(ITEM, min_size=1, max_size=3), st.sampled_from(["csv", "jsonl"]))
def test_a_sheet_is_read_back_with_exactly_its_texts(tmp_path_factory, items, form):
    folder = tmp_path_factory.mktemp("sheet")
    path = write(folder, sheet_text(items, ("ada", "ben"), form), f"sheet.{form}")
    rows = list(read_sheet(path))
    assert [row.example for row in rows] == items * 2
    assert [row.annotator for row in rows] == ["ada"] * len(items) + ["ben"] * len(items)
    assert all(not row.marks[name] for row in rows for name in MARKS)


@settings(deadline=None)
@given(TEXT)
def test_guards_are_taken_off_again_and_no_cell_is_a_formula(text):
    cell = guard_formula(text)
    assert unguard_formula(cell) == text
    assert not re.match(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]", cell)


@pytest.mark.parametrize("start", [*"=+-@\t\r\n\uff1d\uff0b\uff0d\uff20", " =", "\u3000@"])
def test_each_start_of_a_formula_is_guarded(start):
    assert guard_formula(f"{start}1") == f"'{start}1"
    assert guard_formula(f"'{start}1") == f"''{start}1"


@settings(deadline=None)
@given(GROUNDING)
def test_arguments_are_told_apart_whatever_they_hold(grounding):
    assert (
        parse_arguments(arguments_cell(arguments_by_label(grounding)), "sheet.csv:2") == grounding
    )
    # A line of an argument that looks like the next one.
    grounding = Grounding(("a\npro 2: b\n\n    con 1: c", "\n"), ("pro", "con"))
    assert (
        parse_arguments(arguments_cell(arguments_by_label(grounding)), "sheet.csv:2") == grounding
    )


def test_csv_is_what_spreadsheet_programs_open(tmp_path):
    text = sheet_text([TEA], ("ada",))
    assert text.startswith('\ufeff"id","annotator"')
    assert text.count("\r\n") == 2
    header, row = csv.reader(text.removeprefix("\ufeff").splitlines(keepends=True))
    assert tuple(header) == COLUMNS
    assert row == ["tea", "ada", "Tea?", "pro 1: Calm.\ncon 1: Weak.", "'=Some say so."] + [""] * 9


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_other_separators_and_blank_rows_are_read(tmp_path, delimiter):
    with open(tmp_path / "sheet.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        marks = ["yes", *["no"] * 5, "Some; say, so", "", ""]
        cells = ["tea", "ada", "Tea?", "pro 1: Calm.\ncon 1: Weak.", "'=Some say so."]
        writer.writerows([COLUMNS, cells + marks, [""] * len(COLUMNS)])
    (row,) = read_sheet(tmp_path / "sheet.csv")
    assert row.example == TEA
    assert row.marks["unsupported_spans"] == "Some; say, so"
    assert row.place.endswith("sheet.csv:2")


def test_json_lines_hold_typed_cells(tmp_path):
    (line,) = sheet_text([TEA], form="jsonl").splitlines()
    row = json.loads(line)
    assert tuple(row) == COLUMNS
    assert row["arguments"] == {"pro 1": "Calm.", "con 1": "Weak."}
    assert {row[error] for error in ERRORS} == {None}
    assert (row["annotator"], row["unsupported_spans"]) == ("", [])


HEADER = ",".join(COLUMNS)
BAD = [
    (
        HEADER.replace("hallucination,", "halucination,", 1),
        "sheet.csv:1: expected the columns id, .*; missing: hallucination; unknown: halucination; ",
    ),
    (HEADER.replace(",note", ""), "missing: note; rename, add or remove"),
    (HEADER + ",remarks", r"; unknown: remarks; .*\(remarks belong into 'note'\)"),
    (HEADER.replace(",note", ",coverage"), "missing: note"),
    (HEADER + ",note\n" + "x," * 14 + "x", "column 'note' is there twice"),
    ("id,response\n1,x", "sheet.csv:1: expected the columns id, .*annotate write"),
    (HEADER, "sheet.csv: has no rows; .*annotate write"),
    ("", "empty; its first line should name the columns"),
    (HEADER + "\na,b", "sheet.csv:2: expected 14 columns .*got 2; quote cells that hold a comma"),
    (HEADER.replace(",", ";") + "\na;b", "got 2; quote cells that hold a semicolon"),
    (HEADER + "\n" + "x," * 13 + "x", "sheet.csv:2: field 'arguments': expected a line such as"),
    (HEADER + '\n1,a,q,"pro 1: x\npro 1: y",r' + "," * 9, "sheet.csv:2: field 'arguments'"),
    (
        HEADER + "\n,a,q,pro 1: x,r" + "," * 9,
        "sheet.csv:2: field 'id': expected a text that is not empty",
    ),
    (HEADER.encode() + b"\n\xe4" + b"," * 13, "got byte 0xe4; save the file as UTF-8"),
    (b"\xff\xfei\0d\0", "expected UTF-8, got UTF-16; save the file as UTF-8"),
    (b"PK\x03\x04", "expected the columns id"),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_a_bad_sheet_is_one_line_that_says_what_to_do(tmp_path, content, message):
    with pytest.raises(InputError, match=message) as caught:
        list(read_sheet(write(tmp_path, content)))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arguments": {"pro": "x"}}, "field 'arguments': expected a line such as 'pro 1: ...'"),
        ({"arguments": ["x"]}, "field 'arguments': expected a line such as 'pro 1: ...'"),
        ({"arguments": {"pro 1": 3}}, "field 'arguments': expected a line such as"),
        ({"response": 3}, "field 'response': expected a text, got 3"),
        ({"notes": ""}, "expected the columns .*; unknown: notes"),
    ],
)
def test_bad_rows_of_json_lines(tmp_path, change, message):
    row = json.loads(sheet_text([TEA], form="jsonl")) | change
    with pytest.raises(InputError, match=f"sheet.jsonl:1: {message}"):
        list(read_sheet(write(tmp_path, json.dumps(row), "sheet.jsonl")))


def test_a_field_may_not_be_missing(tmp_path):
    row = json.loads(sheet_text([TEA], form="jsonl"))
    del row["coverage"]
    with pytest.raises(InputError, match=r"sheet.jsonl:1: .*missing: coverage"):
        list(read_sheet(write(tmp_path, json.dumps(row), "sheet.jsonl")))


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"a\.xlsx: a sheet is a \.csv or \.jsonl file; .*save"):
        list(read_sheet(tmp_path / "a.xlsx"))
    with pytest.raises(InputError, match="no such file"):
        list(read_sheet(tmp_path / "a.csv"))
