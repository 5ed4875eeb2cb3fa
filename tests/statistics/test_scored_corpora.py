import math
import tracemalloc

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.statistics.scored_corpora import (
    Corpus,
    Range,
    check_usable,
    chosen_scorers,
    only_fields,
    pool_corpora,
    read_corpora,
    row_notes,
    with_ensembles,
)
from faith_jax.statistics.units import units_of


def row(identifier, scores, label=1, corpus="c", **fields):
    return {
        "id": identifier,
        "corpus": corpus,
        "label": label,
        "scores": scores,
        "generated_text": f"text {identifier}",
        "fields": fields,
    }


FIRST = [row("1", {"a": 0.1}, 1, source="x"), row("2", {"a": None}, 0), row("3", {"a": 0.3}, None)]
SECOND = [row("3", {"b": 3.0}, 0), row("1", {"b": 1.0}, None), row("2", {"b": 2.0}, 0)]


def test_files_are_joined_by_id_in_the_order_of_the_first():
    corpus = read_corpora({"f.jsonl": FIRST, "s.jsonl": SECOND})["c"]
    assert corpus.ids == ("1", "2", "3")
    np.testing.assert_array_equal(corpus.labels, [1, 0, 0])  # what one file knows counts
    np.testing.assert_array_equal(corpus.scores["a"], [0.1, math.nan, 0.3])
    np.testing.assert_array_equal(corpus.scores["b"], [1, 2, 3])
    assert corpus.usable().tolist() == [True, False, True]
    assert corpus.responses == ("text 1", "text 2", "text 3")


def test_corpora_of_one_file_are_told_apart():
    rows = [row("1", {"a": 0.1}), row("1", {"a": 0.2}, corpus="d"), row("2", {"a": 0.3})]
    corpora = read_corpora({"f": iter(rows)})
    assert {name: corpus.ids for name, corpus in corpora.items()} == {"c": ("1", "2"), "d": ("1",)}


def test_parts():
    corpus = read_corpora({"f": FIRST})["c"]
    for rows in ([True, False, True], [0, 2]):
        part = corpus.part(np.array(rows))
        assert part.ids == ("1", "3")
        assert part.scores["a"].tolist() == [0.1, 0.3]
        assert part.responses == ("text 1", "text 3")
    assert corpus.part(np.array([0])).field("source") == ["x"]
    with pytest.raises(InputError, match=r"c: row '2' has no field 'source'; it has: none\."):
        corpus.field("source")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"f": []}, "f: no scored rows"),
        (
            {"f": [FIRST[0], FIRST[0]]},
            "f: corpus 'c' has the id '1' twice. Ids are unique in a corpus: score with another --",
        ),
        (
            {"f": [row("1", {"a": 0}, system=system) for system in "xy"]},
            "'1' twice. The rows are of several systems: .*, or compare them .evaluate --protocol",
        ),
        (
            {"f": FIRST, "s": SECOND[:2]},
            "f and s hold different rows of 'c': s lacks '2', one of 1",
        ),
        ({"f": FIRST, "s": FIRST}, "f and s both have scores of a on 'c'"),
        (
            {"f": FIRST, "s": [*SECOND[:2], row("2", {"b": 1.0}, 1)]},
            "different labels of 'c', row '2'",
        ),
    ],
)
def test_files_that_do_not_match(files, message):
    with pytest.raises(InputError, match=message):
        read_corpora(files)


def test_notes_say_which_rows_are_left_out():
    rows = [row(str(i), {"a": 0.1 * i, "b": None if i < 2 else 1.0}, i % 2) for i in range(30)]
    rows[5]["label"] = None
    corpora = read_corpora({"f": rows})
    assert row_notes(corpora) == ("c: of 30 rows, no label in 1, b undefined in 2.",)
    assert row_notes(chosen_scorers(corpora, ["a"])) == ("c: of 30 rows, no label in 1.",)
    few = corpora["c"].part(np.arange(10, 20))
    assert row_notes({"d": few}) == ("d: 10 rows can say little: figures may change much.",)
    check_usable(corpora)


def test_chosen_scorers_come_in_the_order_given():
    corpora = read_corpora({"f": [row("1", {"a": 0.1, "b": 0.2, "c": 0.3})]})
    assert list(chosen_scorers(corpora, ["c", "a", "c"])["c"].scores) == ["c", "a"]
    assert chosen_scorers(corpora, []) == corpora
    with pytest.raises(InputError, match="c has no scores of 'd', only of a, b, c"):
        chosen_scorers(corpora, ["d"])


def test_texts_that_only_one_file_has_are_no_difference():
    bare = [{**r, "generated_text": None} for r in FIRST]
    corpus = read_corpora({"f": bare, "s": SECOND})["c"]
    assert corpus.responses == ("text 1", "text 2", "text 3")
    other_texts = [{**r, "generated_text": "another"} for r in SECOND]
    with pytest.raises(InputError, match="different responses of 'c', row '1'; compare"):
        read_corpora({"f": FIRST, "s": other_texts})


def test_only_what_is_asked_for_is_kept():
    word = [[0, 1, 0.5, None]]
    rows = [
        row("1", {"a": 0.1}, source="x", turn="3") | {"words": {"a": word}, "grounding": ["g"]},
        row("2", {"a": 0.2}, turn="4") | {"words": {"a": word}, "grounding": ["g"]},
        row("3", {"a": 0.3}, turn="5"),
    ]
    whole = read_corpora({"f": rows})["c"]
    assert whole.groundings == (("g",), ("g",), ())
    assert whole.words == {"a": (word, word, [])}
    corpus = read_corpora({"f": rows}, only_fields("source", ""))["c"]
    assert (corpus.responses, corpus.groundings, corpus.words) == ((), (), {})
    # The first row that lacks the field keeps the others, which its error names.
    assert corpus.fields == ({"source": "x"}, {"turn": "4"}, {})
    for loaded in (whole, corpus):
        with pytest.raises(InputError, match=r"row '2' has no field 'source'; it has: turn\."):
            loaded.field("source")
    np.testing.assert_array_equal(corpus.scores["a"], whole.scores["a"])
    assert read_corpora({"f": rows}, only_fields())["c"].fields == ()


@pytest.mark.parametrize("what", ["generated_text", "grounding"])
def test_other_texts_are_found_where_no_text_is_kept(what):
    first_rows = [{**r, "grounding": ["g"]} for r in FIRST]
    same = [{**r, "grounding": ["g"]} for r in SECOND]
    changed = [{**r, what: ["other"] if what == "grounding" else ""} for r in same]
    corpora = read_corpora({"f": first_rows, "s": same, "bare": _named(FIRST, "d")}, only_fields())
    assert list(corpora["c"].scores) == ["a", "b", "d"]
    with pytest.raises(InputError, match=r"f and s have different .* of 'c', row '1'; compare"):
        read_corpora({"f": first_rows, "s": changed}, only_fields())
    bare = [{**r, "generated_text": None} for r in _named(FIRST, "d")]
    with pytest.raises(InputError, match="have different"):
        read_corpora({"f": first_rows, "bare": bare, "s": changed}, only_fields())


def _named(rows, scorer):
    return [{**r, "scores": {scorer: 0.5}} for r in rows]


def test_texts_that_are_not_kept_take_no_memory():
    def peak(count):
        rows = (row(str(i), {"a": 0.5}, source="x" * 999, turn="y" * 999) for i in range(count))
        stream = ({**r, "generated_text": "z" * 10_000, "grounding": ["g" * 9_999]} for r in rows)
        tracemalloc.start()
        try:
            read_corpora({"f": stream}, only_fields("source"))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert (peak(3000) - peak(1000)) / 2000 < 1500  # bytes a row, of 22,000


RANGES = {"probability": Range(0.0, 1.0), "e_minus_c": Range(-1.0, 1.0)}
MEMBERS = {"probability": [0.9, 0.2, 0.4, math.nan], "e_minus_c": [0.5, -1.0, 1.0, 0.0]}


def members(**scores):
    arrays = {name: np.array(values) for name, values in (scores or MEMBERS).items()}
    ids = ("a", "b", "c", "d")
    return {"q2": Corpus("q2", ids, np.array([1.0, 0.0, 1.0, 0.0]), arrays)}


def test_ensembles_are_means_after_mapping_each_range_to_0_to_1():
    joint = with_ensembles(members(), {"both": ("probability", "e_minus_c")}, RANGES.get)["q2"]
    assert list(joint.scores) == ["probability", "e_minus_c", "both"]
    expected = [(0.9 + 0.75) / 2, (0.2 + 0.0) / 2, (0.4 + 1.0) / 2, math.nan]
    np.testing.assert_allclose(joint.scores["both"], expected)
    assert joint.usable().tolist() == [True, True, True, False]
    assert with_ensembles(members(), {}, RANGES.get).keys() == {"q2"}


def test_a_member_whose_low_scores_are_meant():
    names = ("probability", "-e_minus_c")
    joint = with_ensembles(members(), {"both": names}, lambda name: RANGES[name.lstrip("-")])["q2"]
    e_minus_c = (joint.scores["e_minus_c"] + 1) / 2
    expected = (joint.scores["probability"] + 1 - e_minus_c) / 2
    np.testing.assert_allclose(joint.scores["both"], expected)


@pytest.mark.parametrize(
    ("scores", "name", "scale", "error", "message"),
    [
        ({}, "x", Range(-math.inf, 0), ConfigError, "finite range .*-inf to 0"),
        ({}, "e_minus_c", Range(-1, 1), InputError, "is a scorer's name; give the ensemble an"),
        (
            {"e_minus": [0.0] * 4},
            "x",
            Range(-1, 1),
            InputError,
            "q2: ensemble x: there are no scores of 'e_minus_c', only .* Did you mean 'e_minus'",
        ),
        (
            {"e_minus_c": [3.0] * 4},
            "x",
            Range(-1, 1),
            InputError,
            "q2: ensemble x: e_minus_c: the score 3 is outside of its range, -1 to 1",
        ),
    ],
)
def test_ensembles_that_cannot_be(scores, name, scale, error, message):
    with pytest.raises(error, match=message):
        with_ensembles(members(**scores), {name: ("e_minus_c",)}, lambda _: scale)


def test_pooled_corpora_keep_what_their_rows_share():
    """A page or a field that rows of two corpora share makes them depend on each other."""
    rows = [
        row("1", {"a": 0.1}, source="x") | {"grounding": ["page 1"]},
        row("2", {"a": None}, source="x") | {"grounding": ["page 2"]},
        row("1", {"a": 0.2}, 0, "d", source="y") | {"grounding": ["page 1"]},
        row("3", {"a": 0.3}, 0, "d", source="x") | {"grounding": ["page 3"]},
    ]
    together = pool_corpora("both", list(read_corpora({"f": iter(rows)}).values()))
    assert together.ids == ("c/1", "d/1", "d/3")
    assert together.labels.tolist() == [1, 0, 0]
    assert units_of([together]).numbers.tolist() == [0, 0, 1]
    assert units_of([together], "source").numbers.tolist() == [0, 1, 0]
