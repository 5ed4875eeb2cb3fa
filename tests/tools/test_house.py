"""The figures of tools/house.py about the package's size and prose."""

import pytest

from tools import house

CODE = '''"""A module."""

import math  # for pi


def area(radius):
    """Returns an area."""
    # Checked here.
    if radius < 0:
        raise ValueError(
            "negative"
        )
    try:
        return math.pi * radius**2
    except TypeError:
        raise ValueError("no number") from None
'''


@pytest.fixture
def package(tmp_path):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes" / "circle.py").write_text(CODE)
    (tmp_path / "empty.py").write_text("")
    return tmp_path


def test_what_counts_as_code_and_as_a_guard(package):
    source_file = house.read_file(package / "shapes" / "circle.py", package)
    assert (source_file.room, source_file.lines) == ("shapes", 16)
    # import, def, if, raise (3 lines), try, return, except, raise
    assert source_file.code == 10
    assert source_file.guards == 4 + 2


def test_the_report_marks_what_is_too_much(package):
    for number in range(16):
        (package / "shapes" / f"square{number}.py").write_text("SIDES = 4\n")
    lines = list(house.report(package))
    assert lines[0] == "32 lines in 18 files; 26 of code"
    assert lines[1] == "guards: 23.1% of the code !"
    assert any(line.endswith("23.1% guards  shapes !") for line in lines)
    assert lines[-1].split() == ["17", "files", "shapes", "!"]


def test_names_and_summaries_that_say_nothing(tmp_path, monkeypatch, capsys):
    room = tmp_path / "faith_jax" / "room"
    room.mkdir(parents=True)
    (room / "cups.py").write_text(
        '''"""Cups."""


def rows(own, count=2):
    """What all cups have."""
    found = [it for it in own]  # two names
    return found


def _told():
    """Counted as they come."""


def read():
    """Returns the cups, counted by colour."""


def tables():
    """Steen 2023, table 5: half of the cups."""


def years():
    """Broken 1000 times."""


def counted():
    return open()


def counted_rows():
    return 1
'''
    )
    lines = list(house.empty_words(room))
    places = [line.split(":")[1:] for line in lines]
    assert places == [
        ["4", " What all cups have."], ["4", " own"], ["6", " found"], ["6", " it"],
        ["10", " Counted as they come."], ["10", " told"], ["22", " Broken 1000 times."],
        ["26", " counted"],
    ]  # fmt: skip
    monkeypatch.setattr(house, "REPOSITORY", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_cups.py").write_text("told = cups = 1\n")
    assert house.run([]) == 1
    *report, beside = capsys.readouterr().out.splitlines()[-5:]
    assert beside == " 50.0% names  tests !"
    assert report[0] == "names that say nothing: 75.0% !"
    assert report[1] == "summaries that say nothing: 60.0% !"
    assert report[2] == "functions that say nothing: 28.6% !"


def test_our_own_names_and_summaries_say_something():
    lines = list(house.words_report(house.REPOSITORY / "faith_jax"))
    assert [line for line in lines if line.endswith("!")] == []
