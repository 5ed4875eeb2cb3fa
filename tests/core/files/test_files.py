import contextlib
import json
import math
import multiprocessing
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.cli import main
from faith_jax.core.errors import ConfigError
from faith_jax.core.files import (
    ROWS,
    append_rows,
    atomic_file,
    atomic_folder,
    check_outputs,
    check_settings,
    count_kept_rows,
    count_whole_rows,
    difference,
    is_moved,
    move_output,
    output_lock,
    partial_folder,
    resumable_output,
    truncate_rows,
    write_json,
    write_jsonl,
    write_text,
)
from faith_jax.core.rows import read_jsonl
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.input.score_input import ScoreInput
from faith_jax.runs.options import ScoreOptions
from faith_jax.runs.scores import score as run

RUN = {"scorers": {"bleu": {}}, "input": {"file": "rows.jsonl"}}


def rows_file(path, count=6, words="Tea is hot."):
    rows = [{"grounding": words, "generated_text": f"{words} {i}"} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def score(capsys, *arguments):
    status = main(["score", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return status, output, (errors.strip().splitlines() or [""])[-1]


def hold(target, held, release):
    with resumable_output(pathlib.Path(target), RUN) as folder:
        (folder / ROWS).write_text("{}\n")
        held.set()
        release.wait(60)


def hold_rows(target, held, release):
    """Makes the state of a `score` run that has begun to write its only shard."""
    folder = partial_folder(pathlib.Path(target))
    folder.mkdir()
    with output_lock(folder / ROWS):
        (folder / ROWS).write_text("{}\n")
        (folder / "run.json").write_text('{"made_by": "faith_jax"}')
        held.set()
        release.wait(60)


def test_a_second_run_with_the_same_output_is_refused(capsys, tmp_path):
    target, context = tmp_path / "s.jsonl", multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    second = context.Process(target=hold_rows, args=(str(target), held, release))
    second.start()
    try:
        assert held.wait(300)
        source = rows_file(tmp_path / "rows.jsonl")
        arguments = ("--scorers=bleu", f"--input={source}", f"--output={target}")
        for restart in ((), ("--restart",)):
            status, output, error = score(capsys, *arguments, *restart)
            assert (status, output) == (2, "")
            assert f"another run is writing {target}" in error
        assert (partial_folder(target) / ROWS).read_text() == "{}\n"
    finally:
        release.set()
        second.join()


def test_the_lock_goes_with_a_killed_process(tmp_path):
    target, context = tmp_path / "s.jsonl", multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    holder = context.Process(target=hold, args=(str(target), held, release))
    holder.start()
    assert held.wait(300)
    holder.kill()
    holder.join()
    with resumable_output(target, RUN) as folder:
        assert (folder / ROWS).read_text() == "{}\n"
    assert not folder.exists()


def stopped(tmp_path, monkeypatch, scorers, name="rows.jsonl"):
    """Leaves the rows of a run that was stopped at its end; returns the arguments."""
    source, target = rows_file(tmp_path / name), tmp_path / "s.jsonl"

    def stop(*_):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(run, "_write_output", stop)
        with pytest.raises(RuntimeError):
            run.score(ScoreInput(input=(str(source),)), scorers, ScoreOptions(output=str(target)))
    return f"--input={source}", f"--output={target}"


def test_rows_of_another_run_are_not_discarded(capsys, tmp_path, monkeypatch):
    arguments = stopped(tmp_path, monkeypatch, {"token_f1": {}, "bleu": {}})
    before = (tmp_path / "s.jsonl.partial" / ROWS).read_bytes()
    status, _, error = score(capsys, "--scorers=token_f1,blue", *arguments)
    assert (status, "There is no scorer 'blue'" in error) == (2, True)
    status, _, error = score(capsys, "--scorers=token_f1", *arguments)
    assert status == 2
    assert "keeps 6 rows of another run (another value of scorers" in error
    assert "finish it with its own command" in error
    option = "--scorer-option=token_f1.normalization=squad"
    status, _, error = score(capsys, "--scorers=token_f1,bleu", option, *arguments)
    assert (status, "(another value of scorers" in error) == (2, True)
    second = rows_file(tmp_path / "other.jsonl")
    status, _, error = score(
        capsys, "--scorers=token_f1,bleu", f"--input={second}", f"--output={tmp_path}/s.jsonl"
    )
    assert (status, "(another value of input" in error) == (2, True)
    status, _, error = score(capsys, "--scorers=token_f1,bleu", "--corpus=x", *arguments)
    assert (status, "(another value of input" in error) == (2, True)
    assert (tmp_path / "s.jsonl.partial" / ROWS).read_bytes() == before
    assert score(capsys, "--scorers=rougeL_f1", "--restart", *arguments)[0] == 0
    rows = read_scored_rows(tmp_path / "s.jsonl")
    assert [set(row["scores"]) for row in rows] == [{"rougeL_f1"}] * 6
    assert not (tmp_path / "s.jsonl.partial").exists()


def test_a_run_that_scored_nothing_is_in_nobodys_way(tmp_path):
    target = tmp_path / "s.jsonl"
    partial_folder(target).mkdir()
    (partial_folder(target) / "run.json").write_text('{"made_by": "faith_jax"}')
    with resumable_output(target, RUN):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.faults
def test_a_run_that_is_asked_to_end_says_what_is_kept(tmp_path):
    source = rows_file(tmp_path / "rows.jsonl", 1500, " ".join(f"word{i}" for i in range(400)))
    target = tmp_path / "s.jsonl"
    command = [sys.executable, "-m", "faith_jax", "score", "--scorers=rouge2_f1", "--batch-size=5"]
    command += [f"--input={source}", f"--output={target}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines, deadline = partial_folder(target) / ROWS, time.monotonic() + 60
    while count_kept_rows(target) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    kept = sum(1 for line in lines.open() if line.endswith("\n"))
    assert errors.splitlines()[-1] == (
        f"faith-jax: terminated; {kept:,} scored rows are kept; the same command resumes there."
    )


def test_counting_what_is_kept_touches_nothing(tmp_path):
    """Another run may be in the middle of a line."""
    target = tmp_path / "s.jsonl"
    assert count_kept_rows(target) == 0
    rows = partial_folder(target) / ROWS
    rows.parent.mkdir()
    rows.write_text('{"a": 1}\n{"a"')
    assert count_kept_rows(target) == 1
    assert rows.read_text().endswith('{"a"')


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "ä")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_text(encoding="utf-8") == "ä"
    with atomic_file(path):
        pass  # nothing was written
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    with pytest.raises(ConfigError, match=r"a\.txt/b: cannot be written \(Not a directory\)"):
        write_text(path / "b", "")


def test_a_folder_replaces_another(tmp_path):
    folder = tmp_path / "made"
    for text in ("first", "second"):
        with atomic_folder(folder, "texts", replaces=True) as beside:
            beside.mkdir()
            (beside / text).write_text(text)
    with pytest.raises(FileNotFoundError), atomic_folder(folder, "texts", True) as beside:
        (beside / "no such folder").mkdir()
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] == ["made", "made/second"]


def test_settings_are_read_as_they_were_written(tmp_path):
    settings = {"seeds": (0, 1), "folder": tmp_path, "scorers": {"näher": {}}}
    write_json(tmp_path / "settings.json", settings)
    kept = json.loads((tmp_path / "settings.json").read_text())
    assert kept == {"seeds": [0, 1], "folder": str(tmp_path), "scorers": {"näher": {}}}
    check_settings(tmp_path / "settings.json", settings, "draws")


LINES = [{"id": "1", "text": "a\nb \u2028 c"}, {"id": "2", "text": "\u00e9"}]


def test_rows_are_read_as_they_were_appended(tmp_path):
    path = tmp_path / "rows.jsonl"
    append_rows(path, LINES)
    append_rows(path, [{"n": np.int64(3), "x": np.float32(0.5), "nan": math.nan, "inf": -math.inf}])
    (*rows, numbers) = [row.fields for row in read_jsonl(path)]
    assert rows == LINES
    assert numbers == {"n": 3, "x": 0.5, "nan": None, "inf": None}
    assert isinstance(numbers["n"], int)


@given(cut=st.integers(1, 40))
def test_a_line_that_a_kill_cut_is_dropped(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "rows.jsonl"
    assert count_whole_rows(path) == 0
    append_rows(path, LINES)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    count = count_whole_rows(path)
    assert count == whole[:-cut].count(b"\n")
    # What is left in the file is whole lines, to which more can be appended.
    assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == LINES[:count]
    assert count_whole_rows(path) == count


def test_rows_behind_the_first_ones_are_dropped(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert truncate_rows(path, 0) == 0  # of no file
    append_rows(path, [*LINES, *LINES])
    assert truncate_rows(path, 3) == 3
    assert [row.fields for row in read_jsonl(path)] == [*LINES, LINES[0]]
    assert truncate_rows(path, 0) == 0
    assert path.read_bytes() == b""


def test_an_input_that_changed_is_another_run(capsys, tmp_path, monkeypatch):
    arguments = stopped(tmp_path, monkeypatch, {"bleu": {}})
    source = tmp_path / "rows.jsonl"
    whole = source.read_text()
    source.write_text(whole.replace("Tea is hot. 5", "Tea is hot. 6"))
    status, _, error = score(capsys, "--scorers=bleu", *arguments)
    assert (status, "keeps 6 rows of another run (other rows: the input, or" in error) == (2, True)
    source.write_text(whole)  # with another time of change
    assert score(capsys, "--scorers=bleu", *arguments)[0] == 0


def test_what_is_no_regular_file_is_written_to_and_not_replaced(tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link"):
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        write_text(path, "tea\n")
        assert os.read(reader, 100) == b"tea\n"
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link", "pipe"]
    write_text(os.devnull, "tea\n")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    write_text("-", "tea\n")
    assert capsys.readouterr().out == "tea\n"


def test_links_to_what_is_open_are_written_to(tmp_path):
    """As /dev/stdout is one, also where standard output is a file."""
    link, further, file = tmp_path / "link", tmp_path / "further", tmp_path / "out.txt"
    with open(file, "w", encoding="utf-8") as out:
        link.symlink_to(f"/proc/self/fd/{out.fileno()}")
        further.symlink_to(link)
        out.write("tea, ")
        out.flush()
        write_text(link, "ink, ")
        write_text(further, "ale")
    assert file.read_text(encoding="utf-8") == "tea, ink, ale"
    assert link.is_symlink()
    assert further.is_symlink()


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        ("-", "standard output"),
        ("/proc/self/fd/1", "standard output"),
        (os.devnull, "a device"),
        ("pipe", "a pipe"),
    ],
)
def test_parts_of_an_output_are_not_kept_for_a_stream(tmp_path, monkeypatch, stream, kind):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    text = f"{stream}: {kind} is no place for an output that is made in parts; name a file or fol"
    with pytest.raises(ConfigError, match=text), resumable_output(pathlib.Path(stream), RUN):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_kept_and_what_it_leads_to_is_written(tmp_path, is_there):
    far, link, further = tmp_path / "far", tmp_path / "link.txt", tmp_path / "further.txt"
    far.mkdir()
    link.symlink_to("far/real.txt")
    further.symlink_to(link)
    if is_there:
        (far / "real.txt").write_text("old")
    with (
        output_lock(further),
        pytest.raises(ConfigError, match="another run is writing"),
        output_lock(far / "real.txt"),
    ):
        pass
    with atomic_file(further) as beside:
        assert beside.parent.parent == far
        beside.write_text("new")
    assert (far / "real.txt").read_text() == "new"
    assert link.is_symlink()
    assert further.is_symlink()
    assert [path.name for path in far.iterdir()] == ["real.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "further.txt", "link.txt"]


def test_parts_of_an_output_are_kept_beside_what_a_link_leads_to(tmp_path):
    far, link = tmp_path / "far", tmp_path / "s.jsonl"
    far.mkdir()
    link.symlink_to(far / "real.jsonl")
    with resumable_output(link, RUN) as folder:
        assert folder == far / "real.jsonl.partial"
        write_text(folder / "made", "rows")
        move_output(folder / "made", link)
    assert (far / "real.jsonl").read_text() == "rows"
    assert link.is_symlink()
    assert [path.name for path in far.iterdir()] == ["real.jsonl"]


def test_a_folder_is_replaced_behind_its_link(tmp_path):
    far, link = tmp_path / "far", tmp_path / "link"
    link.symlink_to(far)
    for contents in ("old", "new"):  # at first the link leads to nothing
        with atomic_folder(link, "a checkpoint", replaces=True) as folder:
            folder.mkdir()
            (folder / "model.json").write_text(contents)
    assert (far / "model.json").read_text() == "new"
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "link"]


def test_a_link_to_itself_is_one_error(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    text = f"^--json: {loop}: cannot be written .*Too many levels of symbolic links"
    with pytest.raises(ConfigError, match=text):
        check_outputs([], {"--json": str(loop)})
    with pytest.raises(ConfigError, match=text), output_lock(loop, option="--json"):
        pass


def test_two_outputs_do_not_share_a_stream(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for first, second in (("-", "-"), ("-", "/proc/self/fd/1"), (str(pipe), str(pipe))):
        text = f"--csv: {second} is the output of --json too."
        with pytest.raises(ConfigError, match=text):
            check_outputs([], {"--json": first, "--csv": second})
    check_outputs([], {"--json": os.devnull, "--csv": os.devnull, "--latex": "-", "--html": ""})


def test_json_has_no_control_characters(tmp_path):
    value = {"a\x9b\n": ["\u202eab\x7f", "\u00e9\u65e5"]}
    for write, parsed in ((write_json, value), (write_jsonl, [value])):
        write(tmp_path / "a.json", parsed)
        text = (tmp_path / "a.json").read_text(encoding="utf-8")
        assert r"a\u009b\n" in text
        assert r"\u202eab\u007f" in text
        assert "\u00e9\u65e5" in text
        assert json.loads(text) == value


def test_an_output_that_another_run_finished_meanwhile(tmp_path):
    target = tmp_path / "s.jsonl"
    target.write_text("")
    with pytest.raises(ConfigError, match="exists already"), resumable_output(target, RUN):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_run_that_is_killed_behind_its_output_is_ended(tmp_path):
    target = tmp_path / "kb"
    with contextlib.suppress(KeyboardInterrupt), resumable_output(target, RUN) as folder:
        output = folder / "made"
        output.mkdir()
        for path in (folder / ROWS, output / "rows"):
            path.write_text("{}\n")
        move_output(output, target)
        raise KeyboardInterrupt
    foreign = target.rename(tmp_path / "foreign")
    target.mkdir()
    with pytest.raises(ConfigError, match="exists already"), resumable_output(target, RUN):
        pass
    target.rmdir()
    foreign.rename(target)
    with resumable_output(target, RUN):
        assert is_moved(target)
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]


def test_another_value_is_named(tmp_path):
    path = tmp_path / "settings.json"
    write_json(path, {"seed": 0, "model": "a", "former": 1})
    check_settings(path, {"seed": 0}, "draws")
    with pytest.raises(ConfigError, match=r"keeps draws with another value of model \(a, not b\)"):
        check_settings(path, {"seed": 0, "model": "b"}, "draws")
    before, now = ({"models": {"a.model": {"digest": text * 64, "step": 1}}} for text in "de")
    assert difference(before, now) == "other contents of models.a.model"
    with pytest.raises(ConfigError, match=r"another value of later \(None, not 2\)"):
        check_settings(path, {"later": 2}, "draws")
