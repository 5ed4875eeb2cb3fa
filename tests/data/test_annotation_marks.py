import json

import pytest

from faith_jax.data.annotation_marks import parsed_marks, read_annotations
from faith_jax.data.annotation_sheets import ERRORS, MARKS, AnnotationItem, SheetRow, sheet_text
from faith_jax.errors import InputError

ITEM = AnnotationItem(
    "tea",
    "Tea?",
    (("pro 1", "Calm."), ("pro 2", "Cheap."), ("con 1", "Weak.")),
    "Some say tea calms. Some say tea cures colds.",
)
CURES = "tea cures colds"


def row(annotator="ada", item=ITEM, place="s.csv:2", **marks):
    """A row whose errors are all "no" but for what is said."""
    cells = dict.fromkeys(MARKS, "") | dict.fromkeys(ERRORS, "no") | marks
    return SheetRow(place, item, annotator, cells)


def test_a_filled_row():
    marks = parsed_marks(
        row(
            hallucination="Yes",
            coverage=" y ",
            partial_coverage="TRUE",
            unsupported_spans=CURES,
            missing_arguments="pro 2, partial: con 1",
            note=" Hm. ",
        ),
        ITEM.response,
    )
    assert (marks.id, marks.annotator, marks.place, marks.note) == (
        "tea",
        "ada",
        "s.csv:2",
        " Hm. ",
    )
    assert {name for name, answer in marks.answers.items() if answer} == {
        "hallucination",
        "coverage",
        "partial_coverage",
    }
    assert [ITEM.response[start:end] for start, end in marks.unsupported_spans] == [CURES]
    assert (marks.missing_arguments, marks.partly_missing_arguments) == (("pro 2",), ("con 1",))
    assert marks.partial_spans == ()


@pytest.mark.parametrize("word", ["yes", "Y", "1", "true", "TRUE", True, 1])
@pytest.mark.parametrize("denial", ["no", "N", "0", "false", False, 0])
def test_words_for_yes_and_no(word, denial):
    marks = parsed_marks(row(repetition=word, coverage=denial), "")
    assert marks.answers["repetition"] is True
    assert marks.answers["coverage"] is False


def test_a_row_without_marks_is_not_annotated():
    assert parsed_marks(row(**dict.fromkeys(MARKS)), "") is None
    empty = dict.fromkeys(MARKS, " ") | {"unsupported_spans": []}
    assert parsed_marks(row(annotator="", **empty), "") is None


def test_what_is_not_said_to_be_full_or_partial_is_what_the_row_has():
    partial = parsed_marks(
        row(
            partial_hallucination="yes",
            unsupported_spans=CURES,
            partial_coverage="yes",
            missing_arguments="pro 1",
        ),
        ITEM.response,
    )
    assert (partial.unsupported_spans, len(partial.partial_spans)) == ((), 1)
    assert (partial.missing_arguments, partial.partly_missing_arguments) == ((), ("pro 1",))
    both = parsed_marks(
        row(
            hallucination="yes",
            partial_hallucination="yes",
            unsupported_spans=f"{CURES} | partial: tea calms",
        ),
        ITEM.response,
    )
    assert [len(both.unsupported_spans), len(both.partial_spans)] == [1, 1]
    # A partial error need not be pinned down.
    assert parsed_marks(row(partial_hallucination="yes"), ITEM.response).partial_spans == ()


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (
            {"coverage": ""},
            "field 'coverage': expected yes or no, as the row is begun, got \"\"; fin",
        ),
        ({"repetition": None}, "field 'repetition': .*clear its marks, or give --blank-is-no"),
        ({"coverage": "yess"}, "field 'coverage': expected yes or no, got \"yess\"; write one.$"),
        ({"coverage": 0.0}, "field 'coverage': expected yes or no, got 0.0"),
        ({"coverage": "maybe"}, "field 'coverage': expected yes or no, got \"maybe\"; write one.$"),
        (
            {"hallucination": "yes"},
            "'unsupported_spans': expected the words of the hallucination, since hallucination = "
            "yes, got nothing; copy them from the response, or write hallucination = no",
        ),
        (
            {"coverage": "yes"},
            "'missing_arguments': expected an argument, since coverage = yes, got nothing; name",
        ),
        (
            {"unsupported_spans": CURES},
            r"'hallucination' and 'unsupported_spans' contradict each other: hallucination = no, "
            r"but unsupported_spans names \[29-44\]; write hallucination = yes, or clear "
            r"unsupported_spans \(where the error is a partial one",
        ),
        (
            {"missing_arguments": "pro 1, con 1"},
            "coverage = no, but missing_arguments names pro 1 and 1 more; write coverage = yes, or",
        ),
        (
            {"partial_hallucination": "yes", "unsupported_spans": f"full: {CURES}"},
            "hallucination = no, but unsupported_spans names",
        ),
        (
            {"hallucination": "yes", "unsupported_spans": f"partial: {CURES}"},
            "partial_hallucination = no, but unsupported_spans names",
        ),
        (
            {
                "coverage": "yes",
                "partial_coverage": "yes",
                "missing_arguments": "partial: pro 1",
            },
            "since coverage = yes, got only partial ones; name what is left out",
        ),
        ({"hallucination": "yes", "unsupported_spans": "Some say"}, "there 2 times"),
        ({"hallucination": "yes", "unsupported_spans": "coffee"}, "copy it from the response"),
        ({"coverage": "yes", "missing_arguments": "pro 3"}, "arguments of this row .pro 1, pro 2"),
        ({"note": 3}, "field 'note': expected a text, got 3"),
        (
            {"annotator": ""},
            "field 'annotator': expected who marked the row, got \"\"; write a name",
        ),
    ],
)
def test_missing_and_contradictory_marks(marks, message):
    with pytest.raises(InputError, match=rf"^s\.csv:2: .*{message}") as caught:
        parsed_marks(row(**marks), ITEM.response)
    assert len(str(caught.value).splitlines()) == 1


def test_an_empty_mark_of_an_ambiguous_error_may_be_a_no():
    assert parsed_marks(row(repetition=""), "", blank_is_no=True).answers["repetition"] is False
    with pytest.raises(InputError, match="field 'hallucination': expected yes or no"):
        parsed_marks(row(hallucination=""), "", blank_is_no=True)


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
    one = sheet(tmp_path / "1.jsonl", ("ada", FILLED), ("ben", {}), ("", {}))
    two = sheet(tmp_path / "2.jsonl", ("ada", {}), ("ben", FILLED), ("eve", {}))
    found = read_annotations([one, two])
    assert [(marks.id, marks.annotator) for marks in found.marks] == [
        ("tea", "ada"),
        ("tea", "ben"),
    ]
    assert found.items == {"tea": ITEM}
    assert found.annotators() == ("ada", "ben")
    assert found.empty == (f"{two}:3",)
    with pytest.raises(InputError, match=r"2\.jsonl:3: not annotated yet, .*of 1 such row; fill"):
        read_annotations([one, two], complete=True)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            ("ada", FILLED),
            r"2\.jsonl:1: field 'annotator': expected one row for each id \('tea'\) ",
        ),
        (("Ada", FILLED), r"one way to write a name \('ada' in .*1\.jsonl:1\), got \"Ada\"; write"),
        (
            ("ben", {"response": ITEM.response + "!"}),
            r"2\.jsonl:1: field 'response': expected the text of .*1\.jsonl:1, got another, from "
            r"character 46 on \"!\" instead of \"\"; what is to be judged must stay",
        ),
        (
            ("ben", {"arguments": dict(ITEM.arguments) | {"pro 2": "Dear."}}),
            'field \'arguments: pro 2\': expected the text of .* on "Dear." instead of "Cheap."',
        ),
        (("ben", {"arguments": {"pro 1": "Calm."}}), "expected the arguments pro 1, pro 2, con 1"),
        (("ben", {"query": "Coffee?"}), "field 'query': expected the text of"),
    ],
)
def test_sheets_that_do_not_match(tmp_path, second, message):
    one = sheet(tmp_path / "1.jsonl", ("ada", FILLED))
    two = sheet(tmp_path / "2.jsonl", second)
    with pytest.raises(InputError, match=message):
        read_annotations([one, two])


def test_sheets_must_be_of_the_input(tmp_path):
    path = sheet(tmp_path / "1.jsonl", ("ada", FILLED))
    other = AnnotationItem("tea", "Tea?", ITEM.arguments, "Another text.")
    with pytest.raises(InputError, match="field 'response': expected the text of --input, got ano"):
        read_annotations([path], {"tea": other})
    with pytest.raises(InputError, match=r"'tea' is not in --input. Did you mean 'tee'?.*as text"):
        read_annotations([path], {"tee": other})


def test_line_ends_that_a_program_changed_are_no_other_text(tmp_path):
    original = AnnotationItem("tea", "Tea?", ITEM.arguments, "Calm.\r\nIt cures colds.\r\n(So?)")
    changed = {
        "response": "Calm.\nIt cures colds.\n(So?)",
        "unsupported_spans": ["cures colds.\n("],
    }
    path = sheet(tmp_path / "1.jsonl", ("ada", FILLED | {"hallucination": True} | changed))
    found = read_annotations([path], {"tea": original})
    ((start, end),) = found.marks[0].unsupported_spans
    assert original.response[start:end] == "cures colds.\r\n("
    assert found.items["tea"] is original
