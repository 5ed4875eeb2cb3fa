"""Only one writer, only its own files, full disks and power cuts: see `faith_jax.core.files`."""

import errno
import fcntl
import importlib.util
import json
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest

from faith_jax.cli import main
from faith_jax.core import files
from faith_jax.core.errors import ConfigError, StorageError, storage_failure
from faith_jax.core.files import (
    ROWS,
    atomic_folder,
    count_whole_rows,
    difference,
    output_lock,
    partial,
    reserve_outputs,
    resumable_output,
    working_folder,
    write_text,
)
from faith_jax.core.files.stores import path_of, versions
from tests.core.files.test_files import RUN, rows_file, score, stopped
from tests.paths import REPOSITORY

_SPEC = importlib.util.spec_from_file_location(
    "disk_faults", REPOSITORY / "tools" / "disk_faults.py"
)
disk_faults = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(disk_faults)


def test_an_output_has_one_writer(tmp_path):
    target = tmp_path / "table.csv"
    with (
        output_lock(target, option="--csv"),
        pytest.raises(ConfigError, match=r"--csv: another run is writing .*table\.csv; wait"),
        output_lock(target, option="--csv"),
    ):
        pass
    (tmp_path / "link").symlink_to(tmp_path)
    with (
        output_lock(target),
        pytest.raises(ConfigError),
        output_lock(tmp_path / "link" / "table.csv"),
    ):
        pass
    with output_lock(target), output_lock(tmp_path / "other.csv"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_command_that_writes_files_holds_all_of_them(tmp_path):
    written = {"--csv": str(tmp_path / "a.csv"), "--json": str(tmp_path / "a.json"), "--html": ""}

    @reserve_outputs(lambda text: ([], written))
    def run(text):
        for path in written.values():
            if path:
                with pytest.raises(ConfigError), output_lock(pathlib.Path(path)):
                    pass
                write_text(path, text)
        return text

    assert run("a") == "a"
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "a.json"}
    with output_lock(tmp_path / "a.json"), pytest.raises(ConfigError, match="--json: another run"):
        run("b")
    assert (tmp_path / "a.csv").read_text() == "a"


@pytest.mark.parametrize(
    ("command", "output"),
    [("evaluate", "--csv"), ("report", "--output"), ("evaluate", "--histograms")],
)
def test_commands_refuse_an_output_that_another_run_writes(capsys, tmp_path, command, output):
    source = rows_file(tmp_path / "rows.jsonl")
    score(capsys, "--scorers=bleu", f"--input={source}", f"--output={tmp_path}/s.jsonl")
    target = tmp_path / "out"
    with output_lock(target):
        assert main([command, f"{tmp_path}/s.jsonl", f"{output}={target}"]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1] == (
        f"faith-jax: {output}: another run is writing {target}; wait for it, or name another "
        "output."
    )


@pytest.mark.parametrize("option", ["--worst", "--costs"])
def test_a_further_output_of_score_has_one_writer(capsys, tmp_path, monkeypatch, option):
    further = tmp_path / "further.jsonl"
    arguments = stopped(tmp_path, monkeypatch, {"bleu": {}})
    arguments = ["--scorers=bleu", *arguments, f"{option}={further}"]
    refused = (
        f"faith-jax: {option}: another run is writing {further}; wait for it, or name another "
        "output."
    )
    with output_lock(further):
        assert score(capsys, *arguments)[::2] == (2, refused)
        with output_lock(tmp_path / "s.jsonl.partial" / "rows.0123.jsonl"):
            assert score(capsys, *arguments)[0] == 0  # shares the outputs of the run it joins
    assert further.exists()
    if option == "--worst":  # written again from a finished output
        with output_lock(further):
            assert score(capsys, *arguments)[::2] == (2, refused)


def refuse_own(output):
    with pytest.raises(ConfigError, match="another run is writing"), output_lock(output):
        pass


def test_without_locks_the_runs_of_a_machine_are_kept_apart(tmp_path, monkeypatch, caplog):
    shared, flock = tmp_path / "shared", fcntl.flock
    shared.mkdir()

    def refuse(file, operation):
        if pathlib.Path(os.readlink(f"/proc/self/fd/{file}")).is_relative_to(shared):
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", refuse)
    for machine in ("one", "two"):
        monkeypatch.setenv("FAITH_JAX_STAGING", str(tmp_path / machine))
        with output_lock(shared / "s.jsonl"):
            refuse_own(shared / "s.jsonl")
            if machine == "one":
                monkeypatch.setenv("FAITH_JAX_STAGING", str(tmp_path / "other"))
                with output_lock(shared / "s.jsonl"):
                    pass
        with output_lock(shared / "s.jsonl"), output_lock(shared / "t.jsonl"):
            assert not list(shared.iterdir())
    assert caplog.text.count(f"{shared}: its file system has no locks") == 1


def test_on_a_store_the_runs_of_a_machine_are_kept_apart(gs, tmp_path):
    output = path_of(f"{gs}/s.jsonl")
    with output_lock(output), output_lock(path_of(f"{gs}/t.jsonl")):
        refuse_own(output)
        assert not versions(path_of(gs))
    with output_lock(output):
        pass
    assert not list((tmp_path / "staging" / "locks").iterdir())


@pytest.mark.parametrize("name", ["u1.partial/thesis.txt", "u1.partial/run.json"])
def test_a_folder_that_no_run_has_made_is_not_touched(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir()
    path.write_text('{"chapter": 1}')
    message = r"u1\.partial is there, and no run has made it; move it away"
    for restart in (False, True):
        with (
            pytest.raises(ConfigError, match=message),
            resumable_output(tmp_path / "u1", RUN, restart),
        ):
            pass
    with pytest.raises(ConfigError, match=message), atomic_folder(tmp_path / "u1", "a checkpoint"):
        pass
    assert path.read_text() == '{"chapter": 1}'
    assert [p.name for p in tmp_path.rglob("*")] == ["u1.partial", path.name]


def stop(folder, rows=""):
    """Ends a run after it has made rows."""
    (folder / ROWS).write_text(rows)
    raise RuntimeError


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ({"a": 1}, {"a": 2}, "another value of a (1, not 2)"),
        (
            {"decoding": {"top_p": 0.9, "beam": 1}},
            {"decoding": {"top_p": 0.8, "beam": 1}},
            "another value of decoding.top_p (0.9, not 0.8)",
        ),
        (
            {"scorers": {"bleu": {}, "q2": {}}},
            {"scorers": {"bleu": {}}},
            'another value of scorers ({"bleu": {}, "q2": {}}, not {"bleu": {}})',
        ),
        (None, {"a": 1}, "other settings, which are not readable"),
    ],
)
def test_the_setting_that_differs_is_named(before, now, told):
    assert difference(before, now) == told


@pytest.mark.parametrize("torn", [b"\0" * 40, b'{"id": "3', b"[1]\n", b'\0\0\0\n{"id": "4"}\n'])
def test_rows_end_before_what_a_power_cut_left(tmp_path, torn):
    whole = b'{"id": "1"}\n{"id": "2"}\n'
    (tmp_path / ROWS).write_bytes(whole + torn)
    assert count_whole_rows(tmp_path / ROWS) == 2
    assert (tmp_path / ROWS).read_bytes() == whole


def test_an_output_that_was_moved_aside_is_put_back(tmp_path):
    """After a kill between the two renames of `atomic_folder`."""
    target = tmp_path / "out"
    with atomic_folder(target, "a checkpoint", True) as output:
        (output.parent / partial._REPLACED).mkdir()
        (output.parent / partial._REPLACED / "model.json").write_text("former")
        shutil.copytree(output.parent, tmp_path / "left")
    (tmp_path / "left").rename(output.parent)
    with atomic_folder(target, "a checkpoint", True):
        pass
    assert (target / "model.json").read_text() == "former"


def test_a_full_disk_is_told_from_other_failures():
    full = OSError(errno.ENOSPC, "No space left on device", "/data/s.jsonl")
    assert storage_failure(full) == "/data/s.jsonl: No space left on device"
    saving = ValueError("cannot save")
    saving.__cause__ = full
    assert storage_failure(saving) == "/data/s.jsonl: No space left on device"
    error = ValueError("RESOURCE_EXHAUSTED: writing failed [No space left on device]")
    assert storage_failure(error) == "No space left on device"
    for error in ("database or disk is full", "disk I/O error"):  # such as of its temporary tables
        assert storage_failure(sqlite3.OperationalError(error)) == error
    assert storage_failure(OSError(errno.EACCES, "Permission denied")) == ""
    with (
        pytest.raises(StorageError, match=r"x: cannot be written \(No space left"),
        files.report_write_errors("x"),
    ):
        raise full


@pytest.fixture
def small_files():
    """Limits the size of files to a number of bytes, like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_score_run_that_fills_the_disk_resumes(capsys, tmp_path, small_files):
    source = rows_file(tmp_path / "rows.jsonl", 40)
    arguments = ["--scorers=bleu", f"--input={source}", "--batch-size=4"]
    score(capsys, *arguments, f"--output={tmp_path}/unbroken.jsonl")
    whole = (tmp_path / "unbroken.jsonl").read_bytes()
    small_files(len(whole) // 2)
    status, _, error = score(capsys, *arguments, f"--output={tmp_path}/s.jsonl")
    kept = files.count_kept_rows(tmp_path / "s.jsonl")
    assert 12 <= kept < 24
    assert status == 1
    assert error.startswith(f"faith-jax: {tmp_path}/s.jsonl.partial/rows.jsonl: ")
    assert error.endswith(
        f"File too large. Free some space; {kept} scored rows are kept; the same command resumes "
        "there."
    )
    small_files(1 << 30)
    assert score(capsys, *arguments, f"--output={tmp_path}/s.jsonl")[0] == 0
    assert (tmp_path / "s.jsonl").read_bytes() == whole


KILLED = """
import os, sys
from faith_jax.runs.scores import score
append, batches = score.append_rows, []
def killed(path, rows):
    append(path, rows)
    batches.append(rows)
    if len(batches) == int(sys.argv[1]):
        os.kill(os.getpid(), 9)
score.append_rows = killed
from faith_jax.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.faults
def test_a_power_cut_loses_no_output_and_no_order(capsys, tmp_path):
    if not disk_faults.is_possible(tmp_path):
        pytest.skip("there is no C compiler, or the file system keeps no attributes")
    library = disk_faults.shim(tmp_path)
    source = rows_file(tmp_path / "rows.jsonl", 12)
    command = ["score", "--scorers=bleu", f"--input={source}", "--batch-size=2"]
    folder = tmp_path / "out"
    folder.mkdir()
    environment = disk_faults.environment(library, folder)

    def run(batches):
        program = [sys.executable, "-c", KILLED, str(batches), *command]
        return subprocess.run([*program, f"--output={folder}/s.jsonl"], env=environment).returncode

    assert run(4) == -signal.SIGKILL
    partial = folder / "s.jsonl.partial"
    assert files.count_kept_rows(folder / "s.jsonl") == 8
    assert disk_faults.cut(folder) == [partial / ROWS]  # but the note of the run is on disk
    assert json.loads((partial / "run.json").read_text())["made_by"] == "faith_jax"
    assert run(99) == 0
    # Once it has its name, all of it is on disk, and so is the name.
    assert disk_faults.unsynced(folder) == {}
    assert int(os.getxattr(folder, "user.synced").split()[1]) > 0
    whole = (folder / "s.jsonl").read_bytes()
    score(capsys, *command[1:], f"--output={tmp_path}/unbroken.jsonl")
    assert whole == (tmp_path / "unbroken.jsonl").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_a_write(number):
    done = []
    before = signal.signal(number, lambda *_: done.append("signal"))
    try:
        with files.defer_interrupts():
            signal.raise_signal(number)
            done.append("written")
        assert done == ["written", "signal"]
        assert signal.getsignal(number) is not before
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("stream", "kind"), [("-", "standard output"), ("/dev/null", "a device")])
def test_a_stream_is_no_folder(stream, kind):
    text = f"^OUTPUT: {stream}: {kind} is no place for a folder; name a folder.$"
    with pytest.raises(ConfigError, match=text), working_folder(stream, "OUTPUT"):
        pass


def test_room_on_the_disk_is_checked(tmp_path):
    files.check_space(tmp_path / "new" / "checkpoint", 1000)
    text = r"checkpoint: No space left on device: 1,000,000,000,000\.0 MB are needed, .* are free"
    with pytest.raises(StorageError, match=text):
        files.check_space(tmp_path / "new" / "checkpoint", 10**18)


def test_a_failure_leaves_no_empty_folder(tmp_path):
    for make in (lambda p: working_folder(p / "out"), lambda p: atomic_folder(p / "set", "data")):
        with pytest.raises(ZeroDivisionError), make(tmp_path / "a" / "b"):
            _ = 1 / 0
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(ZeroDivisionError), working_folder(tmp_path / "mine") as (folder, _):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == [folder]
    with pytest.raises(TypeError), working_folder(tmp_path / "new") as (folder, _):
        (folder / "kept.txt").open("w").write(1)
    assert (tmp_path / "new" / "kept.txt").exists()


def test_what_another_kind_of_run_has_made_is_kept(tmp_path):
    with pytest.raises(RuntimeError), resumable_output(tmp_path / "u1", RUN) as folder:
        stop(folder, '{"id": "1"}\n')
    with (
        pytest.raises(ConfigError, match="keeps 1 row of another run"),
        atomic_folder(tmp_path / "u1", "a checkpoint"),
    ):
        pass
    assert (folder / ROWS).read_text() == '{"id": "1"}\n'


def test_a_note_that_a_kill_cut_is_nobodys(tmp_path):
    folder = tmp_path / "u1.partial"
    folder.mkdir()
    (folder / ".run.json.a_b_c_d_.partial").mkdir()
    (folder / ".run.json.a_b_c_d_.partial" / "run.json").write_text('{"made_')
    with resumable_output(tmp_path / "u1", RUN):
        pass
    assert not list(tmp_path.iterdir())
