"""Several processes share a run of `score`; one is killed, and the same command continues it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import tensorflow_datasets as tfds

from faith_jax.core.files import count_kept_rows
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.runs.scores import score as run

ROWS = 400
WORDS = " ".join(f"word{i}" for i in range(40))


def arguments(folder, name, *more):
    return [
        *("score", "--scorers=rouge2_f1", "--batch-size=5", "--shards=8", *more),
        f"--input={folder / 'rows.jsonl'}",
        f"--output={folder / name}",
    ]


def write_rows(folder):
    with open(folder / "rows.jsonl", "w") as file:
        for number in range(ROWS):
            text = f"{WORDS} {number}"
            file.write(json.dumps({"grounding": WORDS, "generated_text": text}) + "\n")


def start(command):
    return subprocess.Popen(
        [sys.executable, "-m", "faith_jax", *command], stderr=subprocess.PIPE, text=True
    )


@pytest.mark.faults
def test_two_processes_share_the_rows_and_one_is_killed(command, tmp_path):
    write_rows(tmp_path)
    output = tmp_path / "scores.jsonl"
    killed, survivor = (start(arguments(tmp_path, "scores.jsonl")) for _ in range(2))
    deadline = time.monotonic() + 60
    folder = tmp_path / "scores.jsonl.partial"
    while len(list(folder.glob(".rows*.lock"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    before = set(folder.glob("rows-*.json"))
    _, errors = survivor.communicate(timeout=120)
    assert survivor.returncode == 0, errors
    assert len(before) < 8
    # The other process has taken over the killed one's shard, and joined all shards.
    command.succeeds(*arguments(tmp_path, "alone.jsonl"))
    assert output.read_bytes() == (tmp_path / "alone.jsonl").read_bytes()
    assert [row["id"] for row in read_scored_rows(output)] == [str(n + 1) for n in range(ROWS)]
    assert not folder.exists()


def test_whatever_is_done_is_not_done_again(command, tmp_path, monkeypatch):
    """A run with several shards is stopped twice: within a shard and between two."""
    write_rows(tmp_path)
    append, left = run.append_rows, [33]  # batches of 5 rows: 3 shards, and 3 batches of the next
    scored = []

    def stopping(path, rows):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        scored.extend(row["id"] for row in rows)
        append(path, rows)

    monkeypatch.setattr(run, "append_rows", stopping)
    argv = arguments(tmp_path, "scores", "--format=tfds")
    for batches, kept in ((33, 165), (7, 200), (99, 0)):
        left[0] = batches
        status, _, err = command(*argv)
        assert status == (130 if kept else 0), err
        assert count_kept_rows(tmp_path / "scores") == kept
    assert sorted(scored, key=int) == [str(n + 1) for n in range(ROWS)]
    info = tfds.builder_from_directory(tmp_path / "scores").info
    assert info.splits["rows"].shard_lengths == [50] * 8
    assert [row["id"] for row in read_scored_rows(tmp_path / "scores")] == scored


def test_a_missing_shard_is_named_at_the_join(command, tmp_path, monkeypatch):
    write_rows(tmp_path)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_write_output", stop)
    argv = arguments(tmp_path, "scores.jsonl")
    assert command(*argv)[0] == 130
    monkeypatch.undo()
    lost = tmp_path / "scores.jsonl.partial" / "rows-00005-of-00008.jsonl"
    kept = lost.rename(tmp_path / "kept.jsonl")
    status, _, err = command(*argv, "--join")
    assert status == 2
    assert err.splitlines()[-1] == (
        f"faith-jax: {tmp_path / 'scores.jsonl'}: 1 of 8 shards are not done: {lost}; run the same "
        "command without --join to compute them."
    )
    kept.rename(lost)
    out = command.succeeds(*argv, "--join")
    assert out.startswith(f"{tmp_path / 'scores.jsonl'}: 400 rows, 1 scorer")
    assert len((tmp_path / "scores.jsonl").read_text().splitlines()) == ROWS
