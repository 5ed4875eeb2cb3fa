import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.annotation.labels import Slice, Ties, combine_marks, label_row, slice_rows
from faith_jax.annotation.marks import ARGUMENTS, SPANS, Marks
from faith_jax.annotation.sheets import ERRORS
from faith_jax.core.errors import InputError
from faith_jax.core.types import GroundedExample, Grounding

SIDED = Grounding(("Calm.", "Weak.", "Wet."), ("pro", "con", "con"))
ITEM = GroundedExample("tea", SIDED, ("Tea?",), "Tea cures colds.")
FIELDS = {field: error for error, field in {**SPANS, **ARGUMENTS}.items()}


def marks(name, *errors, **named):
    answers = {error: error in errors for error in ERRORS}
    details = {error: named.get(field, ()) for field, error in FIELDS.items()}
    return Marks("tea", name, f"s.csv:{name}", answers, details)


def yes(label):
    return {error for error, answer in label.answers.items() if answer}


def test_the_majority_decides():
    first = marks("a", "hallucination", "repetition", unsupported_spans=((0, 3),))
    second = marks("b", "hallucination", unsupported_spans=((0, 9),))
    label = combine_marks(ITEM, [first, second, marks("c", "coverage")])
    assert yes(label) == {"hallucination"}
    assert (label.annotators, label.ties, label.named["coverage"]) == (3, (), ())


@pytest.mark.parametrize(
    ("ties", "expected"),
    [(Ties.ERROR, {"hallucination"}), (Ties.NO_ERROR, set()), (Ties.DROP, None)],
)
def test_ties(ties, expected):
    both = [marks("a", "hallucination", unsupported_spans=((0, 3),)), marks("b")]
    label = combine_marks(ITEM, both, ties)
    if expected is None:
        assert label is None
    else:
        assert yes(label) == expected
        assert label.ties == ("hallucination",)
        assert label.named["hallucination"] == (((0, 3),) if expected else ())


def test_a_tie_may_be_refused():
    both = [marks("a", "coverage", missing_arguments=("con 1",)), marks("b")]
    with pytest.raises(InputError, match=r"s.csv:a: field 'coverage': .*'tea'.*1 yes of 2.*settle"):
        combine_marks(ITEM, both, Ties.REFUSE)
    assert combine_marks(ITEM, [both[0]], Ties.REFUSE).named["coverage"] == ("con 1",)


def test_at_least_half_of_those_who_say_yes_name_what_counts():
    # Characters 4 to 9 have three of four votes, 0 to 4 one, 9 to 15 two, which are half.
    spans = [((4, 9),), ((0, 15),), ((4, 15),), ((15, 16),)]
    group = [marks(str(i), "hallucination", unsupported_spans=span) for i, span in enumerate(spans)]
    assert combine_marks(ITEM, group).named["hallucination"] == ((4, 15),)
    named = [("con 1",), ("con 1", "con 2"), ("pro 1",)]
    group = [marks(str(i), "coverage", missing_arguments=names) for i, names in enumerate(named)]
    assert combine_marks(ITEM, group).named["coverage"] == ("con 1",)
    # Nothing has half of the votes: all count.
    named = [("con 1",), ("con 2",), ("pro 1",)]
    group = [marks(str(i), "coverage", missing_arguments=names) for i, names in enumerate(named)]
    assert combine_marks(ITEM, group).named["coverage"] == ("pro 1", "con 1", "con 2")


SPANS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 6)).map(lambda s: (s[0], s[0] + s[1])), min_size=1
).map(tuple)


@given(st.lists(SPANS, min_size=1, max_size=4))
def test_shared_spans_are_the_characters_with_half_of_the_votes(named):
    group = [
        marks(str(i), "hallucination", unsupported_spans=spans) for i, spans in enumerate(named)
    ]
    merged = combine_marks(ITEM, group).named["hallucination"]
    votes = [sum(any(s <= i < e for s, e in spans) for spans in named) for i in range(20)]
    expected = {i for i, count in enumerate(votes) if count and 2 * count >= len(named)}
    expected = expected or {i for i, count in enumerate(votes) if count}
    assert [i for s, e in merged for i in range(s, e)] == sorted(expected)
    assert all(earlier[1] < later[0] for earlier, later in itertools.pairwise(merged))


@pytest.mark.parametrize(
    ("errors", "part", "faithful"),
    [
        ((), Slice.ERROR_FREE, 1),
        (("coverage", "repetition"), Slice.FULL_ORGANIC, 0),
        (("repetition",), Slice.AMBIGUOUS_ORGANIC, None),
    ],
)
def test_slices_and_labels(errors, part, faithful):
    label = combine_marks(ITEM, [marks("a", *errors)])
    assert (label.slice, label_row(label)["label"]) == (part, faithful)


def test_rows():
    annotation = marks("a", "hallucination", "coverage")
    row = label_row(combine_marks(ITEM, [annotation]), {"topic": "t", "slice": "x"})
    assert (row["topic"], row["slice"], row["label"]) == ("t", "full_organic", 0)
    assert (row["pro_arguments"], row["con_arguments"]) == (["Calm."], ["Weak.", "Wet."])
    assert (row["has_hallucination"], row["has_coverage_error"], row["repetition"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ((), {"added_argument": ""}),
        (("con 2",), {"added_argument": "Wet."}),
        (("pro 1", "con 2"), {"added_argument": ["Calm.", "Wet."]}),
    ],
)
def test_uncovered_arguments_are_told_as_the_synthetic_ones_are(missing, expected):
    errors = ("coverage",) if missing else ()
    row = label_row(combine_marks(ITEM, [marks("a", *errors, missing_arguments=missing)]))
    assert {name: value for name, value in row.items() if name == "added_argument"} == expected


def test_groundings_without_sides_stay_so():
    plain = GroundedExample("x", Grounding(("a", "b")), (), "r")
    row = label_row(combine_marks(plain, [marks("a")]))
    assert row["grounding"] == ["a", "b"]
    assert not {"pro_arguments", "perspectives"} & set(row)
    sides = GroundedExample("x", Grounding(("a", "b"), ("left", "right")), (), "r")
    assert label_row(combine_marks(sides, [marks("a")]))["perspectives"] == ["left", "right"]


def test_the_rows_of_slices():
    group = {
        "free": (),
        "full": ("hallucination", "partial_coverage"),
        "half": ("partial_coverage",),
        "twice": ("repetition",),
        "turned": ("perspective_confusion", "partial_hallucination"),
    }
    labels = [
        combine_marks(GroundedExample(name, SIDED, (), ITEM.response), [marks("a", *errors)])
        for name, errors in group.items()
    ]
    full = list(slice_rows(labels, Slice.FULL_ORGANIC, {"full": {"corpus": "c", "topic": "t"}}))
    assert [(row["id"], row["label"]) for row in full] == [("free", 1), ("full", 0)]
    assert full[1]["topic"] == "t"
    assert "corpus" not in full[1]
    rows = slice_rows(labels, Slice.AMBIGUOUS_ORGANIC)
    assert [
        (row["id"], row["label"], row["has_hallucination"], row["has_coverage_error"])
        for row in rows
    ] == [("free", 1, 0, 0), ("half", 0, 0, 1), ("twice", 0, 1, 1), ("turned", 0, 1, 1)]


def test_the_ambiguous_slice_has_the_partial_spans_and_arguments():
    annotation = marks(
        "a",
        "partial_hallucination",
        "partial_coverage",
        partial_spans=((4, 9),),
        partly_missing_arguments=("con 1",),
    )
    (row,) = slice_rows([combine_marks(ITEM, [annotation])], Slice.AMBIGUOUS_ORGANIC)
    assert (row["hallucinated_spans"], row["added_argument"]) == (((4, 9),), "Weak.")
