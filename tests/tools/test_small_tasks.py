"""The planted errors of tools/small_tasks.py are at the stated places, and nowhere else."""

import csv
import re

import pytest

from tools import small_tasks
from tools.small_tasks import TASKS, labelled_rows


def words(text):
    return set(re.findall(r"\w+", text.lower()))


@pytest.mark.parametrize("task", TASKS)
def test_half_of_the_responses_have_an_error(task):
    rows = labelled_rows(task, 100, seed=1)
    assert [row["label"] for row in rows] == [1, 0] * 50
    assert len({row["grounding"] for row in rows}) == 100
    assert rows == labelled_rows(task, 100, seed=1) != labelled_rows(task, 100, seed=2)


@pytest.mark.parametrize("task", ["numbers", "names"])
def test_an_error_is_a_word_that_the_grounding_lacks(task):
    names = re.compile(r"\d+|[A-Z][a-z]+")
    for row in labelled_rows(task, 100, seed=0):
        rest = words(row["grounding"])
        facts = {name.lower() for name in names.findall(row["response"])} - {"you", "its"}
        assert (facts <= rest) == bool(row["label"]), row


def test_roles_have_the_words_of_their_grounding():
    for row in labelled_rows("roles", 100, seed=0):
        assert words(row["response"]) - {"the"} <= words(row["grounding"])
        giver, taker = re.match(r"(\w+) sold (\w+) the", row["response"]).groups()
        assert row["grounding"].startswith(f"{giver} sold") == bool(row["label"])
        assert taker != giver


def test_the_table_that_it_writes(tmp_path, monkeypatch):
    output = tmp_path / "labelled.csv"
    monkeypatch.setattr("sys.argv", ["small_tasks", "additions", "20", f"--output={output}"])
    small_tasks.main()
    with output.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{**row, "label": int(row["label"])} for row in rows] == labelled_rows(
        "additions", 20, 0
    )
    lengths = {len(row["response"].split(". ")) for row in rows if row["label"] == "0"}
    assert lengths == {3}  # sentences, of which the last is added
