"""Rows in shards: how they are split, taken, finished and joined, by several processes."""

import contextlib
import dataclasses
import json
import shutil

import pytest

from faith_jax.core import progress
from faith_jax.core.errors import ConfigError, InputError, ProcessError
from faith_jax.core.files import append_rows
from faith_jax.runs import shards
from faith_jax.runs.shards import Job, split


@dataclasses.dataclass(frozen=True)
class Line:
    text: str
    place: tuple[int, int] = dataclasses.field(default=(0, 0), repr=False)


def lines(count, place=(0, 0), text="row"):
    """Rows of two parts, of which the first has 10."""
    for number in range(place[1] + 10 * place[0], count):
        yield Line(f"{text} {number}", (0, number) if number < 10 else (1, number - 10))


@pytest.mark.parametrize("wanted", [1, 3, 50])
@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("most", [4096, 4])
def test_rows_are_split_evenly_and_read_from_any_place(tmp_path, monkeypatch, wanted, count, most):
    """With few blocks too, which are then joined in pairs."""
    monkeypatch.setattr(shards, "MOST_SHARDS", most)
    split_shards = split(lines(count), wanted)
    assert len(split_shards) == min(wanted, count, most)
    sizes = [shard["count"] for shard in split_shards]
    assert sum(sizes) == count
    block = 1 if count < 2 * most else 2 ** (count // most).bit_length()
    assert max(sizes) - min(sizes) <= block
    texts = []
    for number, fields in enumerate(split_shards):
        shard = shards.Shard(tmp_path, number, len(split_shards), **fields)
        assert shard.first == len(texts)
        texts += [row.text for row in shard.read(lambda place: lines(count, place), "rows")]
    assert texts == [f"row {number}" for number in range(count)]
    assert shards.digest_of(split_shards) == shards.digest_of(split(lines(count), 1))


def test_few_blocks_are_kept_of_many_rows(monkeypatch):
    """The rows of an input are not kept in memory: at most two are alive at once."""
    alive = set()

    class Counted:
        place = (0, 0)

        def __init__(self):
            alive.add(id(self))
            most.append(len(alive))

        def __del__(self):
            alive.discard(id(self))

        def __repr__(self):
            return "row"

    most = []
    monkeypatch.setattr(shards, "MOST_SHARDS", 8)
    assert sum(shard["count"] for shard in split((Counted() for _ in range(1000)), 8)) == 1000
    assert (max(most), len(alive)) == (2, 0)


def test_the_usual_number_of_shards(monkeypatch):
    monkeypatch.setattr(shards, "_USUAL_ROWS", 4)
    assert [shard["count"] for shard in split(lines(9))] == [3, 3, 3]
    assert len(split(lines(4))) == 1
    assert split(lines(0)) == []


def begin(target, count=6, wanted=3, text="row", stamp=(), **options):
    return Job(
        target,
        {"seed": 0},
        lambda: {"shards": split(lines(count, text=text), wanted), "more": "x"},
        stamp,
        **options,
    )


def compute(shard):
    append_rows(shard.rows, [{"n": shard.first + n} for n in range(shard.count)])
    shard.finish({"rows": shard.count})


def join(job):
    with job.joining() as counts:
        if counts is not None:
            job.write_jsonl(job.folder / "made")
            (job.folder / "made").rename(job.target)
    return counts


def numbers(target):
    return [json.loads(line)["n"] for line in target.open()]


def test_two_processes_share_the_shards(tmp_path):
    target = tmp_path / "out.jsonl"
    with begin(target) as first_job, begin(target) as second_job:
        first, second = first_job.take_shards(), second_job.take_shards()
        first_shard, other_shard = next(first), next(second)
        assert (first_shard.number, other_shard.number) == (0, 1)
        assert first_shard.rows.name == "rows-00000-of-00003.jsonl"
        compute(first_shard)
        last = next(first)
        assert last.number == 2
        compute(last)
        assert next(first, None) is None  # the other one still computes
        assert join(first_job) is None
        assert not target.exists()
        compute(other_shard)
        assert next(second, None) is None
        assert [entry["rows"] for entry in join(second_job)] == [2, 2, 2]
        assert join(first_job) is None
    assert numbers(target) == list(range(6))
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_shard_of_a_killed_process_is_free_again(tmp_path):
    target = tmp_path / "out.jsonl"
    killed = begin(target).take_shards()
    shard = next(killed)
    append_rows(shard.rows, [{"n": 0}])
    with shard.rows.open("a") as file:
        file.write('{"n": ')
    killed.close()  # and its lock is the operating system's
    del killed
    with begin(target) as job:
        for shard in job.take_shards():
            done = shard.done_rows()
            assert done == (1 if shard.number == 0 else 0)
            append_rows(shard.rows, [{"n": shard.first + n} for n in range(done, shard.count)])
            shard.finish({})
        join(job)
    assert numbers(target) == list(range(6))


def test_the_only_shard_has_one_writer(tmp_path):
    target = tmp_path / "out.jsonl"
    with begin(target, wanted=1) as first_job:
        assert next(first_job.take_shards()).rows.name == "rows.jsonl"
        with (
            pytest.raises(ConfigError, match=r"^--output: another run is writing .*out\.jsonl; w"),
            begin(target, wanted=1) as second_job,
        ):
            next(second_job.take_shards(), None)
        assert first_job.folder.is_dir()
        with pytest.raises(ConfigError, match="another run is writing"):
            begin(target, wanted=1, restart=True)


def test_processes_that_began_together_have_shares(tmp_path, monkeypatch):
    """Each waits for the others' shards at the end."""
    with begin(tmp_path / "out.jsonl", count=10, wanted=5) as first, begin(first.target) as second:
        queue = second.take_shards((1, 2))
        monkeypatch.setattr(progress.time, "sleep", lambda _: compute(next(queue)))
        order = []
        for shard in first.take_shards((0, 2)):
            order.append(shard.number)
            compute(shard)
        assert order == [0, 2, 4]
        assert join(first) is not None
    assert numbers(first.target) == list(range(10))


def test_waiting_ends_where_the_others_do_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    with begin(tmp_path / "out.jsonl") as job:
        own_shards = job.take_shards((0, 2))
        compute(next(own_shards))
        compute(next(own_shards))
        with pytest.raises(ProcessError, match=r"out.jsonl: the shards of other .*: nothing has"):
            next(own_shards)


def test_a_shard_that_is_missing_is_named(tmp_path):
    target = tmp_path / "out.jsonl"
    with pytest.raises(ConfigError, match=r"out\.jsonl: there are no shards of it to join"):
        begin(target, joins_only=True)
    assert list(tmp_path.iterdir()) == []
    with begin(target) as job:
        for shard in job.take_shards():
            compute(shard)
        job.shards[1].rows.unlink()
        message = r"1 of 3 shards are not done: .*rows-00001-of-00003\.jsonl; run the same command "
        with pytest.raises(ConfigError, match=message), begin(target, joins_only=True) as late:
            late.check_done()
        assert join(job) is None
        again = next(job.take_shards())
        assert again.number == 1
        append_rows(again.rows, [{"n": 2}])
        with pytest.raises(InputError, match=r"has 1 row, the input 2: it changed while"):
            again.finish({})


def test_an_input_that_changed_is_found(tmp_path):
    target = tmp_path / "out.jsonl"
    with begin(target) as job:
        compute(next(job.take_shards()))
    with pytest.raises(ConfigError, match=r"keeps 2 rows of another run \(other rows: the input"):
        begin(target, text="other", stamp=[1])
    with begin(target, text="other") as job:  # of which nothing says that it changed
        shard = next(job.take_shards())
        message = "rows has changed since this run began, or the version of faith_jax"
        with pytest.raises(InputError, match=message):
            list(shard.read(lambda place: lines(6, place, "other"), "rows"))
    with begin(target, wanted=3, stamp=[2]) as job:  # with another time, but the same rows
        assert len(job.undone()) == 2


def test_a_process_that_fails_leaves_the_folder_to_the_others(tmp_path):
    target = tmp_path / "out.jsonl"
    with begin(target) as job:
        with pytest.raises(ZeroDivisionError), begin(target):
            _ = 1 / 0
        for shard in job.take_shards():
            compute(shard)
        assert join(job) is not None
    assert numbers(target) == list(range(6))
    assert not job.folder.exists()


def other_run(target, restart=False):
    return Job(target, {"seed": 1}, lambda: {"shards": split(lines(6), 3)}, restart=restart)


@pytest.mark.parametrize("restart", [False, True])
def test_another_run_waits_for_all_processes_of_one_that_has_made_nothing(tmp_path, restart):
    """No lock of a shard is held between the plan and the first shard."""
    target = tmp_path / "out.jsonl"
    with begin(target) as job:
        with pytest.raises(ConfigError, match="another run is writing"):
            other_run(target, restart)
        for shard in job.take_shards():
            compute(shard)
            with pytest.raises(ConfigError, match="another run is writing"):
                other_run(target, restart)
        assert join(job) is not None
    assert numbers(target) == list(range(6))


def test_a_run_whose_folder_became_anothers_stops(tmp_path):
    """As if somebody had removed it and started another run."""
    target = tmp_path / "out.jsonl"
    with begin(target) as job:
        shutil.rmtree(job.folder)
        with pytest.raises(ConfigError, match="has been removed while this run was writing"):
            next(job.take_shards())
        with other_run(target) as other_job:
            with pytest.raises(ConfigError, match="another run is writing"):
                next(job.take_shards())
            for shard in other_job.take_shards():
                compute(shard)
            with pytest.raises(ConfigError, match="another run is writing"):
                join(job)
            assert join(other_job) is not None


def test_what_a_kill_leaves_of_the_folder_is_removed_by_the_next_run(tmp_path, monkeypatch):
    target = tmp_path / "out.jsonl"

    class Killed(BaseException):
        pass

    def kill(*_, **__):
        raise Killed

    with monkeypatch.context() as patched, contextlib.suppress(Killed), begin(target) as job:
        for shard in job.take_shards():
            compute(shard)
        patched.setattr(shutil, "rmtree", kill)
        join(job)
    assert not job.folder.exists()
    assert len(list(tmp_path.glob(".out.jsonl.????????.partial/out.jsonl/rows-*"))) > 1
    target.unlink()
    for restart in (True, False):
        with begin(target, restart=restart) as job:
            for shard in job.take_shards():
                if not shard.done_rows():
                    compute(shard)
                shard.finish({"rows": shard.count})
            assert join(job) is not None
        assert numbers(target) == list(range(6))
        assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
        target.unlink()
