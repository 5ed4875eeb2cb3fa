"""Processes share a job whose output is on Google Cloud Storage, on a server of this machine."""

import json
import subprocess
import sys
import time

import pytest

from faith_jax.core import files
from faith_jax.core.files import append_rows, count_kept_rows, locks
from faith_jax.core.files.stores import path_of, versions
from faith_jax.runs import shards
from tests.runs.test_shards import begin, compute

ROWS = 40


def arguments(source, output, *more):
    given = f"--input={source}", f"--output={output}"
    return ["score", "--scorers=token_f1", "--shards=4", *given, *more]


@pytest.fixture
def short_leases(monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(shards, "_SECONDS", 0.05)


@pytest.mark.faults
def test_two_processes_make_what_one_makes_on_a_disk(command, gs, tmp_path):
    rows = [
        {"id": str(n), "grounding": "Tea is a leaf.", "generated_text": f"Tea {n}."}
        for n in range(ROWS)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path_of(f"{gs}/rows.jsonl").write_text(text)
    (tmp_path / "rows.jsonl").write_text(text)
    name = "scores"
    given = arguments(f"{gs}/rows.jsonl", f"{gs}/{name}")
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "faith_jax", *given], stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in started:
        _, err = process.communicate(timeout=300)
        # Who begins when the other one has joined all finds the output.
        assert process.returncode == 0 or "exists already" in err, err
    assert 0 in [process.returncode for process in started]
    command.succeeds(*arguments(tmp_path / "rows.jsonl", tmp_path / name))
    for path in (tmp_path / name).iterdir():
        assert path_of(f"{gs}/{name}/{path.name}").read_bytes() == path.read_bytes(), path.name
    assert len(list((tmp_path / name).glob("*.tfrecord-*-of-00004"))) == 4
    assert not any(".partial" in found or ".lock" in found for found in versions(path_of(gs)))


def test_a_process_that_waits_while_another_joins_is_not_interrupted(gs, short_leases, caplog):
    target = path_of(f"{gs}/out.jsonl")
    with begin(target) as one, begin(target) as waiting:
        for shard in one.take_shards():
            compute(shard)
        with one.joining():
            target.write_text("joined")
        time.sleep(locks.LEASE_SECONDS)  # the folder is gone, with the lease of `waiting`
        assert next(waiting.take_shards(waits=True), None) is None
        with waiting.joining() as counts:
            assert counts is None
    assert "taken it over" not in caplog.text
    assert list(versions(path_of(gs))) == ["out.jsonl"]


def test_a_shard_of_a_killed_process_is_free_when_its_lease_has_expired(gs, short_leases):
    target = path_of(f"{gs}/out.jsonl")
    with begin(target) as job:
        shard = next(job.take_shards())
        append_rows(shard.rows, [{"n": 0}])
    assert count_kept_rows(target) == 1
    lease = shard.rows.with_name(f".{shard.rows.name}.lock")
    lease.write_bytes(b'{"token": "of a killed process"}')
    with begin(target) as job:
        start, order = time.monotonic(), []
        for taken in job.take_shards():
            order.append(taken.number)
            if taken.number == 0:
                assert time.monotonic() - start >= 0.6
                assert taken.done_rows() == 1
                append_rows(taken.rows, [{"n": 1}])
                taken.finish({})
            else:
                compute(taken)
        assert order == [1, 2, 0]
        with job.joining() as found:
            assert found is not None


def test_another_input_is_found_by_its_version(command, gs):
    path = path_of(f"{gs}/rows.jsonl")
    seen = []
    for text in ("a", "bc", "bc"):
        path.write_text(text)
        seen.append(files.stamp([str(path)]))
    assert seen[0] != seen[1] != seen[2]
    assert files.stamp([str(path)]) == seen[2]
