import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import InputError
from faith_jax.datasets.npov import Argument, Topic, synthetic_errors
from faith_jax.datasets.npov.synthetic_errors import synthetic_rows
from faith_jax.papers.npov.error_sets import (
    SplitSets,
    paraphrase_row,
    paraphrases,
    training_sets,
    with_errors_per_response,
)

TEA = Topic("tea", "Tea", "Tea?", "train", (Argument("P1"),) * 2, (Argument("C1"),) * 2)
PRO, CON = "pro_arguments", "con_arguments"
UNUSED = {PRO: ["P3", "P4"], CON: ["C3"]}


def topic(pro, con):
    """A topic with these arguments and the unused ones."""
    sides = [*pro, *UNUSED[PRO]], [*con, *UNUSED[CON]]
    return dataclasses.replace(
        TEA, pro=tuple(map(Argument, sides[0])), con=tuple(map(Argument, sides[1]))
    )


EXAMPLE = {
    "id": "tea-1", "topic": "tea", "query": "Tea?", PRO: ["P1", "P2"], CON: ["C1", "C2"],
    "response": "P1 P2 C1 C2",
}  # fmt: skip
WITH_UNUSED = topic(EXAMPLE[PRO], EXAMPLE[CON])


def errors(example=EXAMPLE, topic=WITH_UNUSED, **options):
    return {row["error"]: row for row in synthetic_rows(example, topic, **options)}


@given(st.integers(0, 1000))
def test_each_kind_changes_the_arguments_and_nothing_else(seed):
    by_kind = errors(seed=seed)
    assert list(by_kind) == ["none", "hallucination", "coverage", "both"]
    given_ = {*EXAMPLE[PRO], *EXAMPLE[CON]}
    for kind, row in by_kind.items():
        assert row["id"] == ("tea-1" if kind == "none" else f"tea-1-{kind}")
        assert row["paraphrased"] == 0
        arguments = [*row[PRO], *row[CON]]
        removed, added = kind in ("hallucination", "both"), kind in ("coverage", "both")
        assert (row["has_hallucination"], row["has_coverage_error"]) == (removed, added)
        assert given_ - set(arguments) == ({row["removed_argument"]} if removed else set())
        assert set(arguments) - given_ == ({row["added_argument"]} if added else set())
        assert len(arguments) == len(set(arguments))
        assert (row["query"], row["response"]) == (EXAMPLE["query"], EXAMPLE["response"])
        assert all(a.startswith("P") for a in row[PRO])
        assert all(a.startswith("C") for a in row[CON])


def test_every_argument_is_removed_or_added_under_some_seed():
    seeds = [errors(seed=seed) for seed in range(100)]
    assert {s["hallucination"]["removed_argument"] for s in seeds} == {"P1", "P2", "C1", "C2"}
    assert {s["coverage"]["added_argument"] for s in seeds} == {"P3", "P4", "C3"}
    covered = [s["coverage"] for s in seeds]
    places = {row[CON].index("C3") for row in covered if row["added_argument"] == "C3"}
    assert places == {0, 1, 2}


def test_errors_that_are_impossible_are_left_out():
    used_only = dataclasses.replace(WITH_UNUSED, pro=WITH_UNUSED.pro[:2], con=WITH_UNUSED.con[:2])
    assert list(errors(topic=used_only)) == ["none", "hallucination"]
    single = EXAMPLE | {PRO: ["P1"], CON: []}
    assert list(errors(single, topic(["P1"], []))) == ["none", "coverage"]


def test_an_added_argument_is_not_the_one_removed():
    for seed in range(20):
        first = synthetic_errors.with_coverage_error(errors()["none"], UNUSED, seed=seed)
        both = synthetic_errors.with_hallucination(first, seed)
        assert both["has_hallucination"] == both["has_coverage_error"] == 1
        assert both["removed_argument"] != both["added_argument"]
        assert both["added_argument"] in both[PRO] + both[CON]
        unused = {PRO: [both["removed_argument"]], CON: []}
        assert synthetic_errors.with_coverage_error(both, unused, seed) is None


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


def whole(response, argument, other_arguments):
    """A rule of spans that remembers what it was asked."""
    calls.append((argument, other_arguments))
    return [(0, 2)]


calls = []


@pytest.fixture
def rows():
    calls.clear()
    return list(synthetic_rows(ROW, TOPIC, whole, seed=0))


def test_the_rule_of_spans_sees_what_the_response_tells(rows):
    """The rule does not get the added argument, since the response does not tell it."""
    assert len(calls) == 2
    for (argument, other_arguments), row in zip(calls, (rows[1], rows[3]), strict=True):
        assert argument == row["removed_argument"]
        assert set(other_arguments) == {"Tea?", "P0.", "P1.", "C0.", "C2."} - {argument}


def test_paraphrases_replace_every_argument(rows):
    written = paraphrases([TOPIC])
    both = paraphrase_row(rows[3], written)
    for name in ("pro_arguments", "con_arguments"):
        assert both[name] == [f"para {text}" for text in rows[3][name]]
    for name in ("removed_argument", "added_argument"):
        assert both[name] == f"para {rows[3][name]}"
    assert (both["id"], both["paraphrased"]) == (f"{rows[3]['id']}-paraphrased", 1)
    assert (both["response"], both["hallucinated_spans"]) == (ROW["response"], [[0, 2]])
    none = paraphrase_row(rows[0], written)
    assert (none["removed_argument"], none["added_argument"]) == ("", "")


def test_an_argument_without_a_paraphrase(rows):
    written = paraphrases([TOPIC])
    del written["tea", rows[2]["added_argument"]]
    assert paraphrase_row(rows[0], written) is not None
    assert paraphrase_row(rows[2], written) is None


@pytest.mark.parametrize("text", ["P1.", "C0."])
def test_a_given_argument_without_a_paraphrase(rows, text):
    written = paraphrases([TOPIC])
    del written["tea", text]
    assert paraphrase_row(rows[0], written) is None


def test_training_sets_nest():
    train = SplitSets([{"id": 1}], [{"id": 2}], [{"id": 3}])
    validation = SplitSets([{"id": 4}], [{"id": 5}], [{"id": 6}])
    ids = {n: [row["id"] for row in s] for n, s in training_sets(train, validation).items()}
    assert ids == {"synth": [1], "para": [1, 2], "dev": [1, 2, 4, 5], "org": [1, 2, 4, 5, 3, 6]}
    assert training_sets(train, SplitSets([{"id": 4}]))["org"] is None


def many(count):
    """Rows made from `count` error-free responses, each with all kinds of errors."""
    return [
        row
        for number in range(count)
        for row in synthetic_rows(ROW | {"id": f"tea-{number}"}, TOPIC, whole)
    ]


def test_the_papers_share_of_errors():
    """312 error-free rows and 667 with an error, of all kinds (Chang 2024, section 4.2)."""
    rows = many(312)
    share = 667 / 312
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
    paraphrased = [paraphrase_row(row, written) for row in rows]
    plain = with_errors_per_response(rows, 1.5, "test")
    assert len(plain) == 20 + 30
    with_errors = with_errors_per_response(paraphrased, 1.5, "test")
    assert [row["id"] for row in with_errors] == [f"{row['id']}-paraphrased" for row in plain]


def test_a_share_that_the_data_cannot_give():
    full = Topic("tea", "Tea", "Tea?", "train", SIDES[0][:2], SIDES[1][:2])
    all_used = ROW | {"con_arguments": ["C0.", "C1."], "con": [0, 1]}
    rows = [r for i in range(4) for r in synthetic_rows(all_used | {"id": str(i)}, full, whole)]
    assert [row["error"] for row in rows] == ["none", "hallucination"] * 4  # none is unused
    assert len(with_errors_per_response(rows, 1, "test")) == 8
    message = r"test: 2\.138 rows .* 4 error-free rows make 9, but only 4 can be made \(1 to each\)"
    with pytest.raises(InputError, match=message):
        with_errors_per_response(rows, 667 / 312, "test")
    assert with_errors_per_response([], 2, "test") == []
