"""Processes share a job with output on Google Cloud Storage, emulated on this machine."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from faith_jax.core import files
from faith_jax.core.errors import ConfigError
from faith_jax.core.files import append_rows, atomic_file, growing_rows
from faith_jax.core.files.stores import path_of, versions
from faith_jax.runs import shards
from tests.runs.test_shards import begin, compute, other_run

ROWS = 40


def arguments(source, output, *more):
    paths = f"--input={source}", f"--output={output}"
    return ["score", "--scorers=token_f1", "--shards=4", *paths, *more]


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
    argv = arguments(f"{gs}/rows.jsonl", f"{gs}/{name}")
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "faith_jax", *argv], stderr=subprocess.PIPE, text=True
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
    assert not any(".partial" in key or ".lock" in key for key in versions(path_of(gs)))


@pytest.fixture
def on_machine(monkeypatch, tmp_path):
    """Simulates another machine, with its own locks and local copies."""
    copies = {}

    def go(name):
        monkeypatch.setenv("FAITH_JAX_STAGING", str(tmp_path / name))
        monkeypatch.setattr(growing_rows, "_OPEN", copies.setdefault(name, {}))

    go("one")
    return go


def test_machines_compute_each_shard_and_the_first_one_makes_it(gs, on_machine, monkeypatch):
    shuffles = iter([list, lambda order: order.append(order.pop(0))])
    monkeypatch.setattr(
        shards.secrets, "SystemRandom", lambda: SimpleNamespace(shuffle=next(shuffles))
    )
    target = path_of(f"{gs}/out.jsonl")
    with begin(target) as first_job, begin(target) as second_job:
        first = first_job.take_shards()
        shard = next(first)
        append_rows(shard.rows, [{"n": 0}])
        on_machine("other")
        order = []
        for taken_shard in second_job.take_shards():
            order.append(taken_shard.number)
            compute(taken_shard)
        assert order == [1, 2, 0]  # the last one is computed twice
        on_machine("one")
        append_rows(shard.rows, [{"n": -1}])
        shard.finish({})  # too late
        assert next(first, None) is None
        assert join_on_a_store(first_job) == 6
        on_machine("other")
        assert join_on_a_store(second_job) is None
    assert [json.loads(line)["n"] for line in target.read_text().splitlines()] == list(range(6))
    assert list(versions(path_of(gs))) == ["out.jsonl"]


def join_on_a_store(job):
    with job.joining() as counts, atomic_file(job.target) as output:
        if counts is None:
            return None
        job.write_jsonl(output)
        return sum(shard["rows"] for shard in counts)


def test_what_is_uploaded_behind_the_join_is_removed(gs, on_machine):
    target = path_of(f"{gs}/out.jsonl")
    with begin(target) as job, begin(target) as late:
        late_shards = late.take_shards()
        append_rows(next(late_shards).rows, [{"n": 0}])
        on_machine("other")
        for shard in job.take_shards():
            compute(shard)
        assert join_on_a_store(job) == 6
        on_machine("one")
        assert next(late_shards, None) is None
    assert list(versions(path_of(gs))) == ["out.jsonl"]


def read_while_joining(job, join=None):
    with job.joining():
        if join is not None:
            join()
        job.shards[0].rows.with_name("gone").read_bytes()


def test_a_join_that_another_machine_has_ended_is_none(gs, on_machine):
    target = path_of(f"{gs}/out.jsonl")
    with begin(target) as first_job, begin(target) as second_job:
        for shard in first_job.take_shards():
            compute(shard)

        def join_elsewhere():
            on_machine("other")
            assert join_on_a_store(second_job) == 6

        with pytest.raises(FileNotFoundError):
            read_while_joining(first_job)
        assert not target.exists()
        read_while_joining(first_job, join_elsewhere)
        assert target.exists()


def test_a_process_that_fails_leaves_the_plan_to_other_machines(gs, on_machine):
    target = path_of(f"{gs}/out.jsonl")
    with begin(target) as job:
        on_machine("other")
        with pytest.raises(ZeroDivisionError), begin(target):
            _ = 1 / 0
        on_machine("one")
        for shard in job.take_shards():
            compute(shard)
        assert join_on_a_store(job) == 6


def test_another_run_takes_what_has_made_nothing(gs, on_machine):
    target = path_of(f"{gs}/out.jsonl")
    with begin(target) as job:
        job_shards = job.take_shards()
        shard = next(job_shards)
        append_rows(shard.rows, [{"n": 0}])
        on_machine("other")
        with other_run(target) as other_job:
            on_machine("one")
            append_rows(shard.rows, [{"n": 1}])
            with pytest.raises(ConfigError, match="another run is writing here; this one stops"):
                shard.finish({})
            with pytest.raises(ConfigError, match="another run is writing"):
                next(job_shards)
            on_machine("other")
            for shard in other_job.take_shards():
                compute(shard)
            assert join_on_a_store(other_job) == 6


def test_another_input_is_found_by_its_version(command, gs):
    path = path_of(f"{gs}/rows.jsonl")
    seen = []
    for text in ("a", "bc", "bc"):
        path.write_text(text)
        seen.append(files.stamp([str(path)]))
    assert seen[0] != seen[1] != seen[2]
    assert files.stamp([str(path)]) == seen[2]
