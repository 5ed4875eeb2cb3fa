"""Sets of responses with synthetic errors."""

import pytest

from faith_jax.data.augmentation.npov_sets import (
    SplitSets,
    paraphrased_row,
    paraphrases,
    synthetic_rows,
    training_sets,
)
from faith_jax.data.npov import Argument, Topic

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
