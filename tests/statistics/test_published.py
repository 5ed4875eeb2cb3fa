import pytest

from faith_jax.core.table import Table
from faith_jax.statistics.published import PUBLISHED, Published, with_published

PAPER = Published("From a paper.", {("a", "s"): {"old": 12.0, "new": 34.5}})


def test_rows_of_a_paper_stand_below_ours_and_bring_their_columns():
    tidy = Table("", ("error", "scorer", "slice", "auc", "low"), (("a", "s", "old", 0.1, 0.0),))
    ours = Table("T", ("error", "scorer", "old"), (("a", "s", "10.0 (0-20)"), ("b", "s", "1")))
    found = with_published(ours._replace(notes=("First.",), tidy=tidy), PAPER)
    assert found.columns == ("error", "scorer", "old", "new")
    assert found.rows == (
        ("a", "s", "10.0 (0-20)", None),
        ("a", "s (published)", "12.0", "34.5"),
        ("b", "s", "1", None),
    )
    assert found.notes == ("First.", "From a paper.")
    assert found.tidy.rows[1:] == (
        ("a", "s (published)", "old", pytest.approx(0.12), None),
        ("a", "s (published)", "new", pytest.approx(0.345), None),
    )


def test_numbers_stay_numbers():
    ours = Table("T", ("", "q2"), (("label", 0.1), ("s", 0.2)))
    found = with_published(ours, PUBLISHED["pronouns"])
    assert found.columns == ("", "q2", "begin", "dialfact")
    assert found.rows[1] == ("label (published)", -0.03, -0.35, 0.05)
    assert len(found.rows) == 3


def test_a_table_without_published_rows_has_a_note():
    ours = Table("T", ("scorer", "q2"), (("s", "1"),))
    found = with_published(ours, PUBLISHED["true"])
    assert found.rows == ours.rows
    assert "scorers with models only" in found.notes[0]


def test_f1_is_that_of_precision_and_recall():
    """A check of the copy: F1 follows from P and R, but for their rounding."""
    for values in PUBLISHED["begin"].rows.values():
        expected = 2 * values["P"] * values["R"] / (values["P"] + values["R"])
        assert values["F1"] == pytest.approx(expected, abs=0.1)
