import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import InputError
from faith_jax.datasets.augmentation import npov_errors
from faith_jax.datasets.augmentation.npov_errors import (
    PUBLISHED_ERROR_FREE,
    PUBLISHED_ERRORS,
    ErrorKind,
    NpovErrorExample,
    SplitSets,
    paraphrased_row,
    paraphrases,
    synthetic_rows,
    training_sets,
    with_errors_per_response,
)
from faith_jax.datasets.npov import Argument, Topic

EXAMPLE = NpovErrorExample("tea-1", "tea", "Tea?", ("P1", "P2"), ("C1", "C2"), "P1 P2 C1 C2")
UNUSED = (["P3", "P4"], ["C3"])


def errors(example=EXAMPLE, unused=UNUSED, **options):
    return {e.kind: e for e in npov_errors.synthetic_errors(example, *unused, **options)}


@given(st.integers(0, 1000))
def test_each_kind_changes_the_arguments_and_nothing_else(seed):
    found = errors(seed=seed)
    assert list(found) == list(ErrorKind)
    given_ = {*EXAMPLE.pro_arguments, *EXAMPLE.con_arguments}
    for kind, example in found.items():
        arguments = [*example.pro_arguments, *example.con_arguments]
        removed = kind in (ErrorKind.HALLUCINATION, ErrorKind.BOTH)
        added = kind in (ErrorKind.COVERAGE, ErrorKind.BOTH)
        assert (example.has_hallucination, example.has_coverage_error) == (removed, added)
        assert given_ - set(arguments) == ({example.removed_argument} if removed else set())
        assert set(arguments) - given_ == ({example.added_argument} if added else set())
        assert len(arguments) == len(set(arguments))
        assert (example.query, example.response) == (EXAMPLE.query, EXAMPLE.response)
        assert all(a.startswith("P") for a in example.pro_arguments)
        assert all(a.startswith("C") for a in example.con_arguments)


def test_ids_say_the_kind():
    assert [e.id for e in errors().values()] == [
        "tea-1", "tea-1-hallucination", "tea-1-coverage", "tea-1-both",
    ]  # fmt: skip


def test_every_argument_is_removed_or_added_under_some_seed():
    seeds = [errors(seed=seed) for seed in range(100)]
    assert {s[ErrorKind.HALLUCINATION].removed_argument for s in seeds} == {"P1", "P2", "C1", "C2"}
    assert {s[ErrorKind.COVERAGE].added_argument for s in seeds} == {"P3", "P4", "C3"}
    places = {s[ErrorKind.COVERAGE].con_arguments.index("C3") for s in seeds
              if s[ErrorKind.COVERAGE].added_argument == "C3"}  # fmt: skip
    assert places == {0, 1, 2}


def test_errors_that_are_impossible_are_left_out():
    assert list(errors(unused=([], []))) == [ErrorKind.NONE, ErrorKind.HALLUCINATION]
    single = dataclasses.replace(EXAMPLE, pro_arguments=("P1",), con_arguments=())
    assert list(errors(single)) == [ErrorKind.NONE, ErrorKind.COVERAGE]


@pytest.mark.parametrize("seed", range(20))
def test_an_added_argument_is_not_the_one_removed(seed):
    first = npov_errors.with_coverage_error(EXAMPLE, *UNUSED, seed=seed)
    both = npov_errors.with_hallucination(first, seed)
    assert both.kind is ErrorKind.BOTH
    assert both.removed_argument != both.added_argument
    assert both.added_argument in both.pro_arguments + both.con_arguments


def test_kinds_can_be_chosen():
    assert list(errors(kinds=[ErrorKind.COVERAGE])) == [ErrorKind.COVERAGE]


SIDES = [tuple(Argument(f"{side}{i}.", (f"para {side}{i}.",)) for i in range(3)) for side in "PC"]
TOPIC = Topic("tea", "Tea", "Tea?", "train", *SIDES)
ROW = {
    "id": "tea-01-t0.0",
    "topic": "tea",
    "query": "Tea?",
    "pro_arguments": ["P1.", "P0."],
    "con_arguments": ["C2.", "C0."],
    "pro": [1, 0],
    "con": [2, 0],
    "response": "P1 P0 C2 C0",
}


def whole(response, argument, others):
    """A rule of spans that remembers what it was asked."""
    calls.append((argument, others))
    return [(0, 2)]


calls = []


@pytest.fixture
def rows():
    calls.clear()
    return list(synthetic_rows(ROW, TOPIC, whole, seed=0))


def test_one_row_for_each_error(rows):
    assert [row["error"] for row in rows] == ["none", "hallucination", "coverage", "both"]
    for row in rows:
        given = {*row["pro_arguments"], *row["con_arguments"]}
        removed, added = row["removed_argument"], row["added_argument"]
        expected = ({"P0.", "P1.", "C0.", "C2."} - {removed}) | ({added} - {""})
        assert given == expected
        assert added in ("", "P2.", "C1.")
        assert bool(removed) == row["has_hallucination"] == bool(row["hallucinated_spans"])
        assert bool(added) == row["has_coverage_error"]
        assert (row["response"], row["paraphrased"]) == (ROW["response"], 0)


def test_the_rule_of_spans_sees_what_the_response_tells(rows):
    """Not the added argument, which it does not tell."""
    assert len(calls) == 2
    for (argument, others), row in zip(calls, (rows[1], rows[3]), strict=True):
        assert argument == row["removed_argument"]
        assert set(others) == {"Tea?", "P0.", "P1.", "C0.", "C2."} - {argument}


def test_paraphrases_replace_every_argument(rows):
    written = paraphrases([TOPIC])
    both = paraphrased_row(rows[3], written)
    for name in ("pro_arguments", "con_arguments"):
        assert both[name] == [f"para {text}" for text in rows[3][name]]
    for name in ("removed_argument", "added_argument"):
        assert both[name] == f"para {rows[3][name]}"
    assert (both["id"], both["paraphrased"]) == (f"{rows[3]['id']}-paraphrased", 1)
    assert (both["response"], both["hallucinated_spans"]) == (ROW["response"], [[0, 2]])
    none = paraphrased_row(rows[0], written)
    assert (none["removed_argument"], none["added_argument"]) == ("", "")


def test_an_argument_without_a_paraphrase(rows):
    written = paraphrases([TOPIC])
    del written["tea", rows[2]["added_argument"]]
    assert paraphrased_row(rows[0], written) is not None
    assert paraphrased_row(rows[2], written) is None


@pytest.mark.parametrize("text", ["P1.", "C0."])
def test_a_given_argument_without_a_paraphrase(rows, text):
    written = paraphrases([TOPIC])
    del written["tea", text]
    assert paraphrased_row(rows[0], written) is None


def test_training_sets_nest():
    train = SplitSets([{"id": 1}], [{"id": 2}], [{"id": 3}])
    validation = SplitSets([{"id": 4}], [{"id": 5}], [{"id": 6}])
    found = {n: [row["id"] for row in s] for n, s in training_sets(train, validation).items()}
    assert found == {"synth": [1], "para": [1, 2], "dev": [1, 2, 4, 5], "org": [1, 2, 4, 5, 3, 6]}
    assert training_sets(train, SplitSets([{"id": 4}]))["org"] is None


def many(count):
    """Rows of so many error-free responses, each with all errors."""
    return [
        row
        for number in range(count)
        for row in synthetic_rows(ROW | {"id": f"tea-{number}"}, TOPIC, whole)
    ]


def test_the_papers_share_of_errors():
    """312 error-free rows and 667 with an error, of all kinds (Chang 2024, section 4.2)."""
    rows = many(PUBLISHED_ERROR_FREE)
    share = PUBLISHED_ERRORS / PUBLISHED_ERROR_FREE
    kept = with_errors_per_response(rows, share, "test")
    kinds = [row["error"] for row in kept]
    assert (kinds.count("none"), len(kept)) == (312, 312 + 667)
    # A draw of 667 of 936, without regard to the kind: each within five standard deviations.
    for kind in ("hallucination", "coverage", "both"):
        assert abs(kinds.count(kind) - 667 / 3) < 5 * (312 * (667 / 936) * (269 / 936)) ** 0.5
    assert [row for row in rows if row in kept] == kept  # in their order
    assert with_errors_per_response(rows, share, "test") == kept
    assert with_errors_per_response(rows, share, "test", seed=1) != kept
    assert with_errors_per_response(rows, 3, "test") == rows


def test_paraphrased_rows_are_drawn_as_they_were_before():
    rows, written = many(20), paraphrases([TOPIC])
    other = [paraphrased_row(row, written) for row in rows]
    plain = with_errors_per_response(rows, 1.5, "test")
    assert len(plain) == 20 + 30
    found = with_errors_per_response(other, 1.5, "test")
    assert [row["id"] for row in found] == [f"{row['id']}-paraphrased" for row in plain]


def test_a_share_that_the_data_cannot_give():
    full = Topic("tea", "Tea", "Tea?", "train", SIDES[0][:2], SIDES[1][:2])
    told = ROW | {"con_arguments": ["C0.", "C1."], "con": [0, 1]}
    rows = [r for i in range(4) for r in synthetic_rows(told | {"id": str(i)}, full, whole)]
    assert [row["error"] for row in rows] == ["none", "hallucination"] * 4  # none is unused
    assert len(with_errors_per_response(rows, 1, "test")) == 8
    message = r"test: 2\.138 rows .* 4 error-free rows make 9, but only 4 can be made \(1 to each\)"
    with pytest.raises(InputError, match=message):
        with_errors_per_response(rows, 667 / 312, "test")
    assert with_errors_per_response([], 2, "test") == []
