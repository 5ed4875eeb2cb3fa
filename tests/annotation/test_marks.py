import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.annotation.marks import Marks, _parse_marks, marks_row, read_annotations, read_marks
from faith_jax.annotation.sheets import ERRORS, MARKS, sheet_text
from faith_jax.core.errors import InputError
from faith_jax.core.types import GroundedExample, Grounding

ITEM = GroundedExample(
    "tea",
    Grounding(("Calm.", "Cheap.", "Weak."), ("pro", "pro", "con")),
    ("Tea?",),
    "Some say tea calms. Some say tea cures colds.",
)
CURES = "tea cures colds"


def parsed(example=ITEM, annotator="ada", blank_is_no=False, **marks):
    """The marks of a row whose errors are all "no" except for the given ones."""
    cells = dict.fromkeys(MARKS, "") | dict.fromkeys(ERRORS, "no") | marks
    return _parse_marks(cells, example, annotator, "s.csv:2", blank_is_no)


def test_a_filled_row():
    marks = parsed(
        hallucination="Yes",
        coverage=" y ",
        partial_coverage="TRUE",
        unsupported_spans=CURES,
        missing_arguments="pro 2, partial: con 1",
        note=" Hm. ",
    )
    assert (marks.id, marks.annotator, marks.place, marks.note) == ("tea", "ada", "s.csv:2", "Hm.")
    assert {name for name, answer in marks.answers.items() if answer} == {
        "hallucination",
        "coverage",
        "partial_coverage",
    }
    assert marks.named == {
        "hallucination": ((29, 44),),
        "partial_hallucination": (),
        "coverage": ("pro 2",),
        "partial_coverage": ("con 1",),
    }


@pytest.mark.parametrize("word", ["yes", "Y", "1", True])
@pytest.mark.parametrize("denial", ["no", "0", False])
def test_words_for_yes_and_no(word, denial):
    marks = parsed(repetition=word, coverage=denial)
    assert marks.answers["repetition"] is True
    assert marks.answers["coverage"] is False


def test_what_is_not_said_to_be_partial_is_what_the_row_has():
    partial = parsed(
        partial_hallucination="yes",
        unsupported_spans=CURES,
        partial_coverage="yes",
        missing_arguments="pro 1",
    )
    assert (partial.named["hallucination"], partial.named["coverage"]) == ((), ())
    assert partial.named["partial_hallucination"] == ((29, 44),)
    assert partial.named["partial_coverage"] == ("pro 1",)
    both = parsed(
        hallucination="yes",
        partial_hallucination="yes",
        unsupported_spans=f"{CURES} | partial: tea calms",
    )
    assert both.named["hallucination"] == ((29, 44),)
    assert both.named["partial_hallucination"] == ((9, 18),)
    # A partial error need not be pinned down.
    assert parsed(partial_hallucination="yes").named["partial_hallucination"] == ()


RESPONSE = "Tea calms. Tea cures colds in 12-20 days | really.\nTea is cheap."


def spans(cell, response=RESPONSE):
    example = GroundedExample("x", Grounding(("a",)), (), response)
    full, partial = "hallucination", "partial_hallucination"
    named = parsed(example, hallucination="yes", partial_hallucination="yes",
                   unsupported_spans=cell).named  # fmt: skip
    return [[response[start:end] for start, end in named[kind]] for kind in (full, partial)]


@pytest.mark.parametrize(
    ("cell", "full", "partial"),
    [
        ("cheap", ["cheap"], []),
        ("cheap\r\ncolds\n", ["colds", "cheap"], []),
        ("cheap | colds|cheap", ["colds", "cheap"], []),
        ("days | really.\nTea is", ["days | really.\nTea is"], []),  # as it stands there
        ("12-20", ["12-20"], []),
        ("[12-20]", [RESPONSE[12:20]], []),
        ([[0, 3], "cheap", "[4-9]", ""], ["Tea", "calms", "cheap"], []),
        ("Partial: cheap\ncolds", ["colds"], ["cheap"]),
        ("calms | partial: [0-3]", ["calms"], ["Tea"]),
    ],
)
def test_spans_are_found(cell, full, partial):
    assert spans(cell) == [full, partial]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("Tea", r"has once, .*copy more words, or write \[0-3\] or \[11-14\] or \[51-54\]"),
        ("coffee", r"expected words that the response has once, or offsets .*copy them from there"),
        ("[60-70]", "expected start and end within the response's 69 characters"),
        ([[1, 2, 3]], "expected start and end within"),
        (7, "expected a text or a list, got 7"),
    ],
)
def test_bad_spans_say_what_to_do(cell, message):
    with pytest.raises(InputError, match=rf"^s\.csv:2: field 'unsupported_spans': .*{message}"):
        spans(cell, f"{RESPONSE} lalala" if cell == "lala" else f"{RESPONSE}?????")


@settings(deadline=None)
@given(st.text(min_size=1, max_size=20), st.data())
def test_offsets_of_any_span_are_read_back(response, data):
    start = data.draw(st.integers(0, len(response) - 1))
    end = data.draw(st.integers(start + 1, len(response)))
    for cell in (f"[{start}-{end}]", [[start, end]]):
        assert spans(cell, response) == [[response[start:end]], []]


@pytest.mark.parametrize(
    ("cell", "full", "partial"),
    [
        ("pro 2, con 1", ("pro 2", "con 1"), ()),
        ("CON 1\nPro 2,pro 2,", ("pro 2", "con 1"), ()),
        (["con 1", "partial: pro 1", "pro 2"], ("pro 2", "con 1"), ("pro 1",)),
    ],
)
def test_arguments_are_found(cell, full, partial):
    named = parsed(coverage="yes", partial_coverage="yes", missing_arguments=cell).named
    if not partial:
        assert named["partial_coverage"] == ()
    assert (named["coverage"], named["partial_coverage"]) == (full, partial)


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (
            {"coverage": ""},
            "field 'coverage': expected yes or no, as the row is begun, got \"\"; fin",
        ),
        ({"coverage": "yess"}, "field 'coverage': expected yes or no, got \"yess\"; write one.$"),
        (
            {"hallucination": "yes"},
            "'unsupported_spans': expected what the error is about, since hallucination = yes, got "
            '""; name it, or write hallucination = no',
        ),
        (
            {"unsupported_spans": CURES},
            "'unsupported_spans': expected nothing that is of a hallucination, since hallucination "
            '= no, got "tea cures colds"; write hallucination = yes, or clear unsupported_spans',
        ),
        (
            {"hallucination": "yes", "unsupported_spans": f"partial: {CURES}"},
            "of a partial hallucination, since partial_hallucination = no",
        ),
        (
            {"coverage": "yes", "partial_coverage": "yes", "missing_arguments": "partial: pro 1"},
            'since coverage = yes, got "partial: pro 1"; name it',
        ),
        ({"coverage": "yes", "missing_arguments": "pro 1 and pro 2"}, "separated by commas"),
        ({"note": 3}, "field 'note': expected a text"),
        (
            {"annotator": ""},
            "field 'annotator': expected who marked the row, got \"\"; write a name",
        ),
    ],
)
def test_missing_and_contradictory_marks(marks, message):
    with pytest.raises(InputError, match=rf"^s\.csv:2: .*{message}") as caught:
        parsed(**marks)
    assert len(str(caught.value).splitlines()) == 1


def test_an_empty_mark_of_an_ambiguous_error_may_be_a_no():
    assert parsed(repetition="", blank_is_no=True).answers["repetition"] is False
    with pytest.raises(InputError, match="field 'hallucination': expected yes or no"):
        parsed(hallucination="", blank_is_no=True)


def sheet(path, *rows):
    """Writes rows of (annotator, changes) as JSON lines."""
    lines = []
    for annotator, changes in rows:
        line = json.loads(sheet_text([ITEM], (annotator,), "jsonl"))
        lines.append(json.dumps(line | changes) + "\n")
    path.write_text("".join(lines))
    return path


FILLED = dict.fromkeys(ERRORS, False)


def test_sheets_are_joined(tmp_path):
    # Each annotator filled their own copy of a sheet for both, and a third row has no name.
    sheet_1 = sheet(tmp_path / "1.jsonl", ("ada", FILLED), ("ben", {}), ("", {}))
    sheet_2 = sheet(tmp_path / "2.jsonl", ("ada", {}), ("ben", FILLED), ("eve", {"note": " "}))
    annotations = read_annotations([sheet_1, sheet_2])
    assert [(marks.id, marks.annotator) for marks in annotations.marks] == [
        ("tea", "ada"),
        ("tea", "ben"),
    ]
    assert annotations.examples == {"tea": ITEM}
    assert annotations.annotators() == ("ada", "ben")
    assert annotations.empty == (f"{sheet_2}:3",)
    with pytest.raises(InputError, match=r"2\.jsonl:3: not annotated yet, .*of 1 such row; fill"):
        read_annotations([sheet_1, sheet_2], complete=True)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            ("ada", FILLED),
            r"2\.jsonl:1: field 'annotator': expected one row for each id \('tea'\).*1\.jsonl:1 is",
        ),
        (("Ada", FILLED), r"'annotator': expected 'ada', as in .*1\.jsonl:1, got \"Ada\"; write"),
        (
            ("ben", {"response": ITEM.response + "!"}),
            r"2\.jsonl:1: field 'response': expected \"\" from character 46 on, as in .*1\.jsonl:1"
            r", got \"!\"; restore",
        ),
        (
            ("ben", {"arguments": {"pro 1": "Calm.", "pro 2": "Dear.", "con 1": "Weak."}}),
            'field \'arguments: pro 2\': expected "Cheap." from character 1 on, .*got "Dear."',
        ),
        (("ben", {"query": "Coffee?"}), "field 'query': expected \"Tea"),
    ],
)
def test_sheets_that_do_not_match(tmp_path, second, message):
    sheet_1 = sheet(tmp_path / "1.jsonl", ("ada", FILLED))
    sheet_2 = sheet(tmp_path / "2.jsonl", second)
    with pytest.raises(InputError, match=message):
        read_annotations([sheet_1, sheet_2])


def test_sheets_must_be_of_the_input(tmp_path):
    path = sheet(tmp_path / "1.jsonl", ("ada", FILLED))
    other_item = GroundedExample("tea", ITEM.grounding, ITEM.history, "Another text.")
    with pytest.raises(InputError, match=r"field 'response': expected .*as in --input, got"):
        read_annotations([path], {"tea": other_item})
    with pytest.raises(InputError, match=r"'tea' is not in --input. Did you mean 'tee'?.*as text"):
        read_annotations([path], {"tee": other_item})


def test_line_ends_that_a_program_changed_are_no_other_text(tmp_path):
    original = GroundedExample("tea", ITEM.grounding, ITEM.history, "Calm.\nIt cures colds.\n(So?)")
    changed = {
        "response": "Calm.\r\nIt cures colds.\r\n(So?)",
        "unsupported_spans": ["cures colds.\r\n("],
    }
    path = sheet(tmp_path / "1.jsonl", ("ada", FILLED | {"hallucination": True} | changed))
    annotations = read_annotations([path], {"tea": original})
    ((start, end),) = annotations.marks[0].named["hallucination"]
    assert original.response[start:end] == "cures colds.\n("


def test_marks_are_read_back(tmp_path):
    named = {"hallucination": ((0, 4),), "partial_hallucination": ((5, 8), (9, 12))}
    named |= {"coverage": ("pro 2",), "partial_coverage": ("con 1",)}
    answers = {error: error in named for error in ERRORS}
    marks = Marks("tea", "ada", "s.csv:2", answers, named, "So.")
    path = tmp_path / "marks.jsonl"
    path.write_text(json.dumps(marks_row(marks)))
    (read_back,) = read_marks(path, {"tea": ITEM}).marks
    assert read_back == Marks("tea", "ada", f"{path}:1", answers, named, "So.")
    assert marks_row(marks)["place"] == "s.csv:2"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "tee"}, "'id': 'tee' is no response of this run. Did you mean 'tea'"),
        ({"annotators": 2}, "name the file of `annotate read --output`"),
        ({"unsupported_spans": [[0, 99]]}, "'unsupported_spans': expected start and end within"),
        ({"coverage": 2}, "field 'coverage': expected yes or no"),
    ],
)
def test_marks_of_something_else(tmp_path, row, message):
    path = tmp_path / "marks.jsonl"
    name = {} if "annotators" in row else {"annotator": "ada"}
    path.write_text(json.dumps({"id": "tea"} | name | FILLED | row))
    with pytest.raises(InputError, match=rf"marks\.jsonl:1: .*{message}"):
        read_marks(path, {"tea": ITEM})
