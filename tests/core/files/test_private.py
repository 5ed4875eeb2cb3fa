"""Links that other users put where a command writes, and leftovers of killed commands."""

import signal
import stat
import subprocess
import sys
import tempfile

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import (
    ROWS,
    atomic_file,
    is_finished,
    output_lock,
    resumable_output,
    working_folder,
    write_json,
    write_text,
)
from faith_jax.core.files.staging import make_once
from faith_jax.report.page import write_page
from tests.core.files.test_files import RUN


@pytest.fixture
def foreign(tmp_path):
    """Yields another user's folder, in which nothing may change."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "thesis.txt").write_text("not ours")
    yield folder
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"thesis.txt": "not ours"}


def write_table(target):
    write_text(target, "ours")


def write_folder(target):
    make_once(target, lambda folder: (folder.mkdir(), (folder / "thesis.txt").write_text("ours")))


def write_rows_of_a_page(target):
    write_page(target, lambda files: files.write("thesis", "1") or "ours")


@pytest.mark.parametrize("write", [write_table, write_folder, write_rows_of_a_page])
@pytest.mark.parametrize("place", ["thesis.txt", "."])
def test_a_link_under_the_name_that_is_drawn(tmp_path, monkeypatch, foreign, write, place):
    out = tmp_path / "out"
    out.mkdir()
    (out / ".table.md.attacker.partial").symlink_to(foreign / place)
    draws = ["attacker", "attacker", "ourdraw1", "ourdraw2"]
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: iter(draws))
    write(out / "table.md")
    output = out / "table.md" if write is not write_folder else out / "table.md" / "thesis.txt"
    assert output.read_text() == "ours"
    assert not list(out.glob(".table.md.ourdraw?.partial"))


@pytest.mark.parametrize("name", [".table.md.partial", ".table.md.rows.partial"])
def test_a_link_under_a_name_that_can_be_guessed(tmp_path, foreign, name):
    with atomic_file(tmp_path / "table.md") as beside:
        (tmp_path / name).symlink_to(foreign / "thesis.txt")
        beside.write_text("ours")
        assert stat.S_IMODE(beside.parent.stat().st_mode) == 0o700
    assert (tmp_path / "table.md").read_text() == "ours"
    assert not (tmp_path / "table.md").is_symlink()


@pytest.mark.parametrize("place", ["thesis.txt", "new.txt"])
def test_a_link_under_the_name_of_a_lock(tmp_path, foreign, place):
    out = tmp_path / "out"
    out.mkdir()
    for lock, hold in ((tmp_path / ".out.lock", output_lock), (out / ".lock", working_folder)):
        lock.symlink_to(foreign / place)
        with pytest.raises(ConfigError, match=r"lock is a link, and no run has made it"), hold(out):
            pass
        assert lock.is_symlink()


def test_a_link_under_the_name_of_a_partial_folder(tmp_path, foreign):
    (tmp_path / "s.jsonl.partial").symlink_to(foreign)
    text = r"^--output: .*s\.jsonl\.partial is a link, and no run has made it; remove it, or name"
    with pytest.raises(ConfigError, match=text), resumable_output(tmp_path / "s.jsonl", RUN):
        pass


def test_a_link_in_a_partial_folder(tmp_path, foreign):
    folder = tmp_path / "s.jsonl.partial"
    folder.mkdir()
    write_json(folder / "run.json", {"made_by": "faith_jax", **RUN})
    (folder / ROWS).symlink_to(foreign / "thesis.txt")
    for restart in (False, True):
        with (
            pytest.raises(ConfigError, match=r"partial/rows\.jsonl is a link, and no run has made"),
            resumable_output(tmp_path / "s.jsonl", RUN, restart),
        ):
            pass


KILLED = """
import os, pathlib, signal, sys
from faith_jax.core.files.whole import private_place
places = [private_place(pathlib.Path(target)) for target in sys.argv[1:]]
for place in places:
    place.__enter__().write_text("half")
os.kill(os.getpid(), signal.SIGKILL)
"""


def hold_lock(target):
    with output_lock(target):
        pass


@pytest.mark.parametrize("write", [write_table, hold_lock])
def test_the_next_writer_removes_what_a_kill_has_left(tmp_path, write):
    target = tmp_path / "[a].txt"
    killed = subprocess.run([sys.executable, "-c", KILLED, target, tmp_path / "other"])
    assert killed.returncode == -signal.SIGKILL
    (tmp_path / ".[a].txt.01234567.partial").mkdir()  # of a process that had made no more
    (_, mine, remaining) = sorted(path.name for path in tmp_path.iterdir())
    assert mine.startswith(".[a].txt.")
    assert remaining.startswith(".other.")
    write(target)
    assert [p.name for p in tmp_path.glob(".*.partial")] == [remaining]


def test_nothing_of_others_is_taken_for_what_a_kill_has_left(tmp_path, foreign):
    target = tmp_path / "a.txt"
    mine = tmp_path / ".a.txt.01234567.partial"
    mine.mkdir()
    (mine / "a.txt").write_text("mine")
    (tmp_path / ".a.txt.76543210.partial").symlink_to(foreign)
    with atomic_file(target) as beside:
        beside.write_text("first")
        with atomic_file(target) as second:
            assert beside.exists()  # its process lives
            second.write_text("second")
        assert target.read_text() == "second"
    assert target.read_text() == "first"
    assert (mine / "a.txt").read_text() == "mine"
    left = sorted(path.name for path in tmp_path.iterdir() if path != foreign)
    assert left == [".a.txt.01234567.partial", ".a.txt.76543210.partial", "a.txt"]


def test_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    write_text(tmp_path / "a.txt", "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "whole"


KILLED_AT_THE_END = """
import os, pathlib, signal, sys
from faith_jax.core.files import resumable_output, write_text
with resumable_output(pathlib.Path(sys.argv[1]), {}) as folder:
    (folder / "rows.jsonl").write_text(sys.argv[2])
    write_text(sys.argv[1], "whole")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("rows", ["", "{}\n"])
def test_what_a_kill_leaves_beside_an_output(tmp_path, rows):
    target = tmp_path / "s.jsonl"
    killed = subprocess.run([sys.executable, "-c", KILLED_AT_THE_END, target, rows])
    assert killed.returncode == -signal.SIGKILL
    before = {path.name for path in tmp_path.iterdir()}
    assert before >= {".s.jsonl.lock", "s.jsonl", "s.jsonl.partial"}
    with output_lock(target):  # of a run that lives
        assert is_finished(target)
        assert {path.name for path in tmp_path.iterdir()} >= {".s.jsonl.lock", "s.jsonl.partial"}
    assert is_finished(target)
    kept = {"s.jsonl.partial"} if rows else set()
    assert {path.name for path in tmp_path.iterdir()} == {"s.jsonl", *kept}
    assert not is_finished(tmp_path / "another")
