import numpy as np
import pytest

from faith_jax.core.errors import InputError
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.units import Units, units_of


def corpus(groundings=(), name="c", questions=(), **fields):
    size = max(len(groundings), len(questions), *map(len, fields.values()), 0)
    rows = tuple({key: column[i] for key, column in fields.items()} for i in range(size))
    hashes = {"grounding": groundings or [0] * size, "question": questions or [0] * size}
    return Corpus(
        name,
        tuple(map(str, range(size))),
        np.full(size, np.nan),
        {"s": np.zeros(size)},
        fields=rows,
        hashes={key: np.array(column, np.int64) for key, column in hashes.items()},
    )


def test_rows_with_the_same_grounding_are_one_unit():
    units = units_of([corpus([7, 8, 7, 0, 0])])
    assert (units.numbers.tolist(), units.field, units.total) == ([0, 1, 0, 2, 3], "grounding", 4)
    assert units.text() == "only 4 groups (5 rows)"
    assert units_of([corpus([*range(1, 11), 1])]).text() == "10 groups (11 rows)"
    alone = units_of([corpus([7, 8, 9])])
    assert (alone.field, alone.total, alone.text()) == ("", 3, "only 3 rows")


def test_rows_with_the_same_grounding_in_any_system_are_one_unit():
    """Rows 0 and 1 share a grounding in one system, rows 1 and 3 in the other; row 4 has none."""
    systems = corpus([7, 7, 8, 9, 0], name="one"), corpus([1, 2, 3, 2, 0], name="two")
    for pair in (systems, systems[::-1]):
        units = units_of(pair)
        assert units == (pytest.approx([0, 0, 1, 0, 2]), "grounding", True)
        assert units.notes("c")[0] == (
            "c: rows with the same grounding in any of the systems are one unit: 3 groups of 5 "
            "rows."
        )
    # A system without groundings adds no links, and equal groups need no explanation.
    known, unknown = corpus([7, 8, 7]), corpus([0, 0, 0])
    assert units_of([known, unknown])[1:] == units_of([unknown, known])[1:] == ("grounding", True)
    assert units_of([known, corpus([4, 5, 4])]) == (pytest.approx([0, 1, 0]), "grounding", False)
    (note,) = units_of([corpus([1, 1, 2]), corpus([1, 2, 2])]).notes("c")
    assert note.startswith(
        "c: all 3 rows share a grounding in any of the systems: one group, of which there is"
    )


@pytest.mark.parametrize(
    ("field", "numbers"),
    [
        ("none", [0, 1, 2, 3]),
        ("", [0, 1, 2, 3]),
        ("id", [0, 1, 2, 3]),
        ("grounding", [0, 0, 1, 1]),
        ("question", [0, 1, 0, 1]),
        ("corpus", [0, 0, 0, 0]),
        ("topic", [0, 1, 1, 0]),
    ],
)
def test_any_field_names_the_unit(field, numbers):
    scored = corpus([5, 5, 6, 6], questions=[1, 2, 1, 2], topic=["a", "b", "b", "a"])
    units = units_of([scored], field)
    assert units.numbers.tolist() == numbers
    assert units.field == ("" if numbers == [0, 1, 2, 3] else field)


def test_a_column_of_the_rows_comes_before_what_is_named_like_it():
    assert units_of([corpus([5, 5], grounding=["a", "b"])], "grounding").total == 2


def test_two_systems_must_agree_on_a_rows_unit():
    first, second = corpus(topic=["a", "b"], name="one"), corpus(topic=["a", "c"], name="two")
    message = "--cluster-field=topic: row '1' has another topic in two than in one ('b' and 'c')"
    with pytest.raises(InputError) as error:
        units_of([first, second], "topic")
    assert message in str(error.value)
    assert units_of([corpus(topic=["a"], name="x"), corpus(topic=["a"], name="y")], "corpus")


def test_a_field_that_is_not_there_is_an_error():
    with pytest.raises(
        InputError, match=r"'0' has no field 'doc'; it has: topic\. --cluster-field "
    ):
        units_of([corpus(topic=["a"])], "doc")
    with pytest.raises(InputError, match="row '1' has no grounding, like 1 of 2 rows; give"):
        units_of([corpus([4, 0])], "grounding")
    with pytest.raises(InputError, match="row '0' has no topic, like 2 of 3 rows; give each"):
        units_of([corpus(topic=["", "a", ""])], "topic")


def test_notes_say_what_few_units_mean():
    assert Units(np.arange(30)).notes("c") == ()
    assert Units(np.arange(30) // 2, "topic").notes("c") == (
        "c: rows with the same topic are one unit: 15 groups of 30 rows.",
    )
    _, few = Units(np.arange(30) // 10, "topic").notes("c")
    assert few.startswith(
        "c: with only 3 groups, intervals and p-values rest on their values being"
    )
    assert "allows no p-value below 2/2^3 = 0.25; --cluster-field names another unit." in few
    (single,) = Units(np.zeros(9, int), "topic").notes("c")
    assert single.startswith("c: all 9 rows have the same topic: one group, of which there is neit")
    assert "--cluster-field=id" in single
    (rows,) = Units(np.arange(4)).notes("c")
    assert "with only 4 rows" in rows
    assert "2/2^4 = 0.12" in rows
