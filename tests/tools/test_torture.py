"""A short run of the checks of docs/reliability.md, and tests that they notice problems."""

import argparse
import os
import shutil
import signal
import sys

import pytest

from tools import torture


@pytest.mark.faults
def test_kills_power_cuts_and_pairs_of_score(tmp_path):
    if not torture.disk_faults.is_possible(tmp_path):
        pytest.skip("there is no C compiler, or the file system keeps no attributes")
    options = argparse.Namespace(
        jobs=["score"], kills=4, pairs=1, rivals=1, paths=1, disks=0, flips=0, seed=0, parallel=2
    )
    trials = torture.run(options, tmp_path)
    assert [trial for trial in trials if trial.problem] == []
    assert torture.table(trials) == (
        "| trial | command | tried | as promised |\n"
        "| --- | --- | --- | --- |\n"
        "| concurrent pair | score | 1 | 1 |\n"
        "| kill | score | 3 | 3 |\n"
        "| odd path | score | 1 | 1 |\n"
        "| pair with other settings | score | 1 | 1 |\n"
        "| power cut | score | 1 | 1 |\n"
        "| all | | 7 | 7 |\n"
    )


@pytest.fixture
def setting(tmp_path):
    """A job that immediately writes a line."""
    source = tmp_path / "rows.jsonl"
    source.write_text('{"grounding": "Tea is hot.", "generated_text": "Tea is cold."}\n')
    arguments = ("score", "--scorers=token_f1", f"--input={source}", "--output={OUT}")
    jobs = {"score": torture.Job(arguments, torture.content_digest)}
    return torture.Setting(tmp_path, tmp_path / "none", jobs, {"score": "of another output"})


@pytest.mark.faults
def test_another_output_is_a_problem(setting, tmp_path):
    (tmp_path / "run").mkdir()
    assert torture.finished(setting, "score", tmp_path / "run") == "another output"
    setting.digests["score"] = torture.content_digest(tmp_path / "run" / "out.jsonl")
    (tmp_path / "run" / "out.jsonl").unlink()
    assert torture.finished(setting, "score", tmp_path / "run") == ""
    assert torture.finished(setting, "score", tmp_path / "run") == ""  # it is finished
    (tmp_path / "run" / "out.jsonl").write_text("{}\n")
    problem = torture.finished(setting, "score", tmp_path / "run")
    assert problem.startswith("the next run: exit status [2]: ['faith-jax: ")


@pytest.mark.parametrize(
    ("statuses", "text", "told"),
    [
        ([0], "", ""),
        ([143], "faith-jax: terminated\n", ""),
        ([None], "", "hangs"),
        ([1], "faith-jax: no\n", "exit status [1]: ['faith-jax: no']"),
        ([0], "Traceback (most recent call last):\n", "traceback"),
        ([143], "Traceback:\n  File x, in <module>\n    import y\nKeyboardInterrupt\n", ""),
        ([143], "Traceback:\n  File x, in main\nKeyboardInterrupt\n", "traceback"),
    ],
)
def test_how_a_command_ends(tmp_path, statuses, text, told):
    (tmp_path / "run.err").write_text(text)
    assert torture.complaint(tmp_path / "run", statuses, {0, 143}) == told


def test_a_hang_is_killed(tmp_path):
    process = torture.subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert torture.ended([process], 0.2) == [None]
    assert process.returncode == -signal.SIGKILL


def test_a_process_is_killed_in_the_middle_of_a_write(tmp_path):
    if not torture.disk_faults.is_possible(tmp_path):
        pytest.skip("there is no C compiler, or the file system keeps no attributes")
    faults, folder = torture.disk_faults, tmp_path / "out"
    folder.mkdir()
    library = faults.shim(tmp_path)
    code = (
        "import os, shutil\n"
        f"with open({str(folder / 'a')!r}, 'wb') as a:\n"
        "    for part in (b'1234', b'5678'):\n"
        "        a.write(part)\n"
        "        a.flush()\n"
        "        os.fsync(a.fileno())\n"
        f"os.rename({str(folder / 'a')!r}, {str(folder / 'b')!r})\n"
        f"os.chdir({str(folder)!r})\n"
        "os.mkdir('c')\n"
        "os.symlink('x', 'c/link')\n"
        "shutil.rmtree('c')\n"
    )

    def run(kill_at=None):
        count = tmp_path / "count"
        count.unlink(missing_ok=True)
        environment = faults.environment(library, folder, count, kill_at)
        command = [sys.executable, "-c", code]
        status = torture.subprocess.run(command, env=environment).returncode
        files = {
            path.name: path.read_bytes() if path.is_file() else sorted(map(str, path.iterdir()))
            for path in folder.iterdir()
        }
        shutil.rmtree(folder)
        folder.mkdir()
        return status, faults.writes(count), files

    assert run() == (0, 9, {"b": b"12345678"})
    assert run(3) == (-signal.SIGKILL, 3, {"a": b"123456"})
    assert run(5) == (-signal.SIGKILL, 5, {"a": b"12345678"})
    assert run(6) == (-signal.SIGKILL, 6, {"b": b"12345678"})
    assert run(8) == (-signal.SIGKILL, 8, {"b": b"12345678", "c": [str(folder / "c" / "link")]})
    assert run(9) == (-signal.SIGKILL, 9, {"b": b"12345678", "c": []})


def test_what_a_power_cut_loses(tmp_path):
    faults = torture.disk_faults
    if not faults.is_possible(tmp_path):
        pytest.skip("the file system keeps no attributes")
    for name, size in (("synced", 6), ("longer", 3), ("never", None)):
        path = tmp_path / name
        path.write_bytes(b"abcdef")
        if size is not None:
            time = path.stat().st_mtime_ns - (size < 6)
            os.setxattr(path, "user.synced", f"{size} {time}".encode())
    lost = faults.cut(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "synced": b"abcdef",
        "longer": b"abc\0\0\0",
        "never": b"",
    }
    assert {path.name for path in lost} == {"longer", "never"}
