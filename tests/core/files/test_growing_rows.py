"""A run with output on a store resumes from the rows it has kept there."""

import contextlib

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import (
    ROWS,
    append_rows,
    count_kept_rows,
    count_whole_rows,
    move_into_place,
    note_later,
    output_lock,
    partial_note,
    resumable_output,
    sync,
    truncate_rows,
)
from faith_jax.core.files import growing_rows as kept
from faith_jax.core.files.staging import local_copy
from faith_jax.core.files.stores import path_of, versions
from faith_jax.core.files.whole import is_complete
from faith_jax.core.rows import read_jsonl

RUN = {"scorers": {"bleu": {}}}


class Stopped(BaseException):
    pass


def stop(target, numbers, keep=None, run=RUN, **options):
    """Starts or resumes a run, appends rows one by one, and stops it."""
    with contextlib.suppress(Stopped), resumable_output(target, run, **options) as folder:
        if keep is not None:
            truncate_rows(folder / ROWS, keep)
        for number in numbers:
            append_rows(folder / ROWS, [{"id": number}])
        raise Stopped


def ids(target, run=RUN):
    row_ids = []
    with contextlib.suppress(Stopped), resumable_output(target, run) as folder:
        if count_whole_rows(folder / ROWS):
            row_ids = [row.fields["id"] for row in read_jsonl(folder / ROWS)]
        raise Stopped
    return row_ids


@pytest.mark.faults
@pytest.mark.parametrize("seconds", [0.0, 100.0])  # of each row, or once for all
def test_a_stopped_run_resumes_on_another_machine(gs, monkeypatch, tmp_path, seconds):
    monkeypatch.setattr(kept, "SECONDS", seconds)
    target = path_of(f"{gs}/s.jsonl")
    stop(target, range(4))
    monkeypatch.setenv("FAITH_JAX_STAGING", str(tmp_path / "elsewhere"))
    assert partial_note(target)["scorers"] == {"bleu": {}}
    assert count_kept_rows(target) == 4
    stop(target, range(10, 13))
    assert ids(target) == [0, 1, 2, 3, 10, 11, 12]
    # Rows that a resumed run drops, within what was kept as one object and at its end.
    for keep in (5, 3, 3, 0):
        stop(target, [90, 91], keep=keep)
        assert ids(target)[keep:] == [90, 91]
    assert ids(target) == [90, 91]
    with resumable_output(target, RUN) as folder:
        assert count_whole_rows(folder / ROWS) == 2
        append_rows(folder / ROWS, [{"id": 1}])
        sync(folder / ROWS)
        move_into_place(folder / ROWS, target)
    assert [row.fields["id"] for row in read_jsonl(target)] == [90, 91, 1]
    assert list(versions(path_of(gs))) == ["s.jsonl"]


def test_a_killed_run_has_kept_its_rows(gs, monkeypatch):
    monkeypatch.setattr(kept, "SECONDS", 0.0)
    target = path_of(f"{gs}/s.jsonl")
    held = resumable_output(target, RUN)
    folder = held.__enter__()
    append_rows(folder / ROWS, [{"id": 1}])
    append_rows(folder / ROWS, [{"id": 2}])
    assert count_kept_rows(target) >= 1  # and nothing more of this process matters
    with contextlib.suppress(GeneratorExit):
        held.gen.throw(GeneratorExit)
    assert ids(target) == [1, 2]


def test_another_run_is_not_resumed(gs):
    target = path_of(f"{gs}/s.jsonl")
    other_run = {"scorers": {"rouge": {}}}
    stop(target, range(3))
    message = rf"--output: {gs}/s\.jsonl\.partial keeps 3 rows of another run \("
    with pytest.raises(ConfigError, match=message), resumable_output(target, other_run):
        pass
    assert count_kept_rows(target) == 3
    stop(target, [7], run=other_run, restart=True)
    assert ids(target, other_run) == [7]


def test_a_note_is_completed_and_compared(gs):
    target = path_of(f"{gs}/s.jsonl")
    for _ in range(2):
        with contextlib.suppress(Stopped), resumable_output(target, RUN) as folder:
            note_later(folder, {"rows": "a digest"})
            append_rows(folder / ROWS, [{"id": 1}])
            raise Stopped
    assert partial_note(target)["rows"] == "a digest"
    message = "other rows: the input, or a setting that makes its rows, has changed"
    with pytest.raises(ConfigError, match=message), resumable_output(target, RUN) as folder:
        note_later(folder, {"rows": "another"})


def test_a_run_that_has_made_nothing_leaves_nothing(gs):
    target = path_of(f"{gs}/s.jsonl")
    stop(target, [])
    assert not versions(path_of(gs))


def test_objects_that_no_run_has_made_are_not_touched(gs):
    target = path_of(f"{gs}/s.jsonl")
    path_of(f"{gs}/s.jsonl.partial/thesis.txt").write_text("mine")
    message = r"s\.jsonl\.partial is there, and no run has made it; move it away"
    for restart in (False, True):
        with pytest.raises(ConfigError, match=message), resumable_output(target, RUN, restart):
            pass
    assert list(versions(path_of(gs))) == ["s.jsonl.partial/thesis.txt"]


def test_a_finished_file_is_one_object(store):
    path = path_of(f"{store}/s.jsonl.partial/rows-00000-of-00002.jsonl")
    for number in range(3):
        with output_lock(path):
            append_rows(path, [{"id": number}])
            append_rows(path, [{"id": -number}])
    assert list(versions(path.parent)) == [f"{path.name}.part"]
    with output_lock(path):
        assert count_whole_rows(path) == 6
        sync(path)
        assert list(versions(path.parent)) == [path.name]
        assert count_whole_rows(path) == 6
    text = path.read_bytes()
    with output_lock(path):
        assert count_whole_rows(path) == 6
    assert path.read_bytes() == text
    assert list(versions(path.parent)) == [path.name]


def test_a_file_or_folder_is_moved_within_its_store(store):
    folder = path_of(f"{store}/s.jsonl.partial")
    (folder / "made").write_text("one")
    move_into_place(folder / "made", path_of(f"{store}/s.jsonl"))
    assert path_of(f"{store}/s.jsonl").read_text() == "one"
    for name in ("a", "b/c"):
        (folder / "set" / name).write_text(name)
    move_into_place(folder / "set", path_of(f"{store}/set"))
    copy = local_copy(f"{store}/set")
    assert [(copy / name).read_text() for name in ("a", "b/c")] == ["a", "b/c"]
    assert is_complete(path_of(f"{store}/set"))


def test_of_a_folder_that_is_made_again_no_file_is_missing(store, tmp_path, monkeypatch):
    """Another machine may have just made it and marked it as complete."""
    target, source = path_of(f"{store}/set"), tmp_path / "set"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_text(name)
    move_into_place(source, target)
    (source / "b").unlink()
    removed = []
    monkeypatch.setattr(target.fs, "rm", lambda paths: removed.extend(paths))
    move_into_place(source, target)
    assert removed == [(target / "b").path]
