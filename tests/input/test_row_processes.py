"""One and four processes on rows in five parts, sorted by label."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from tests.input import row_processes
from tests.paths import REPOSITORY
from tests.training.processes import free_port

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("own_seqio_tasks")]

ROWS, PARTS = 9 * row_processes.EXAMPLES // 2, 5
COUNT = 4  # of processes
LONG = ROWS * 11 // 18  # the number of the first long row, in the fourth part
STARTS = (0, 7, ROWS // row_processes.BATCH_SIZE + 20)  # the last one is in the second epoch


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder, for these tests and the processes that they start."""
    folder = tmp_path_factory.mktemp("sorted_rows")
    (folder / "raw").mkdir()
    for split in ("train", "validation", "test"):
        with (folder / f"raw/{split}.jsonl").open("w") as file:
            for number in range(ROWS if split == "train" else 3):
                label = "yes" if number < ROWS // 2 else "no"
                # Long targets in the last two parts.
                targets = f"{label} " * (3 + 27 * (number in (LONG, LONG + 50, LONG + 360)))
                row = {"id": f"{number}", "inputs": f"is tea {number} hot?", "targets": targets}
                file.write(json.dumps(row) + "\n")
    prepare_builder(BUILDERS["text_to_text"], "full", folder / "data", folder / "raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAITH_JAX_DATA_DIR", str(folder / "data"))
        yield folder / "data"


def start(folder, jobs):
    """Starts processes that run these jobs."""
    path = folder / "jobs.json"
    path.write_text(json.dumps(jobs))
    address = f"127.0.0.1:{free_port()}"
    return [
        subprocess.Popen(
            [sys.executable, "-m", "tests.input.row_processes", address, str(COUNT), str(index),
             str(path)],
            cwd=REPOSITORY,
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
            stderr=(folder / f"{index}.err").open("w"),
        )
        for index in range(COUNT)
    ]  # fmt: skip


def ended(processes):
    try:
        return [process.wait(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()


def told(folder, count):
    return [json.loads((folder / f"{index}.json").read_text()) for index in range(count)]


def batches(folder, count, first):
    """The global batches of two steps, put together from each process's share."""
    pieces = [dict(np.load(folder / f"{index}-{first}.npz")) for index in range(count)]
    return {n: np.concatenate([piece[n] for piece in pieces], axis=1) for n in pieces[0]}


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """The results of one process and of four."""
    folder = tmp_path_factory.mktemp("found")

    def job(name, rows, **more):
        return {"output": str(folder / name), "folder": str(folder / rows)} | more

    jobs = [
        job("four", "rows_of_four", starts=STARTS),
        job("again", "rows_of_four", starts=STARTS[1:]),
        job("bad4", "bad_of_four", targets=20),
        job("dead_told", "dead", dies=3),
    ]
    assert ended(start(folder, jobs)) == [1, 1, 1, -signal.SIGKILL]
    row_processes.run(**job("one", "rows_of_one", starts=STARTS))
    row_processes.run(**job("other", "rows_of_four", starts=STARTS[1:]))
    row_processes.run(**job("bad1", "bad_of_one", targets=20))
    (folder / "found_dead.json").write_text(json.dumps(sorted(os.listdir(folder / "dead"))))
    row_processes.run(**job("revived", "dead", starts=STARTS[1:]))
    return folder


def test_each_process_makes_the_rows_of_its_own_parts(folder):
    bounds = [ROWS * number // PARTS for number in range(PARTS + 1)]
    parts = [[str(n) for n in range(*bounds[k : k + 2])] for k in range(PARTS)]
    for name, count in (("one", 1), ("four", COUNT)):
        rows_made = [report["made"] for report in told(folder / name, count)]
        own_parts = [parts[index::count] for index in range(count)]
        assert rows_made == [[row for part in some for row in part] for some in own_parts]
        files = sorted(os.listdir(folder / f"rows_of_{name}"))
        assert files == [f"text_to_text-train-{n:05d}-of-00005.arrow" for n in range(PARTS)]


@pytest.mark.parametrize(("name", "count"), [("four", COUNT), ("again", COUNT), ("other", 1)])
def test_the_global_batches_are_those_of_one_process(folder, name, count):
    """Also if rows exist already, with the same number of processes or fewer."""
    is_again = name in ("again", "other")
    for first in STARTS[1:] if is_again else STARTS:
        single, result = batches(folder / "one", 1, first), batches(folder / name, count, first)
        assert result.keys() == single.keys()
        for feature, array in single.items():
            np.testing.assert_array_equal(result[feature], array)
    if is_again:
        assert not any(result["made"] for result in told(folder / name, count))


def test_each_process_reads_its_own_rows_of_each_batch(folder):
    (single,) = told(folder / "one", 1)
    share = row_processes.BATCH_SIZE // COUNT
    for index, report in enumerate(told(folder / "four", COUNT)):
        for read, all_read in zip(report["read"], single["read"], strict=True):
            whole = np.reshape(all_read, (2, row_processes.BATCH_SIZE))
            assert read == whole[:, index * share :][:, :share].ravel().tolist()
    assert len({number for read in single["read"] for number in read}) > 90
    # Of rows that are sorted by label, the first two batches have both labels.
    assert 6 <= sum(number < ROWS // 2 for number in single["read"][0]) <= 26


def test_the_first_bad_row_is_the_error_of_all_processes(folder):
    errors = {
        report["error"]
        for name, n in (("bad1", 1), ("bad4", COUNT))
        for report in told(folder / name, n)
    }
    (error,) = errors
    assert error.startswith(
        f"InputError: text_to_text, split 'train', part 4 of 5, example {LONG}: the target has "
    )
    assert not (folder / "bad_of_one").exists()
    assert not (folder / "bad_of_four").exists()


def test_a_process_that_dies_leaves_no_other_hanging_and_no_half_part(folder):
    """Process 3 was killed in its only part; the others have made theirs, which are reused."""
    for index in range(3):
        error = json.loads((folder / f"dead_told/{index}.json").read_text())["error"]
        assert error == (
            "ProcessError: process 3 of this run did not come within 10 seconds to where all have "
            "tried to make the rows of text_to_text, split 'train'; see what it says. The same "
            "command resumes."
        )
    files = json.loads((folder / "found_dead.json").read_text())
    whole = [f"text_to_text-train-{n:05d}-of-00005.arrow" for n in (0, 1, 2, 4)]
    assert [name for name in files if name.endswith(".arrow")] == whole
    (revived,) = told(folder / "revived", 1)
    bounds = [ROWS * number // PARTS for number in (3, 4)]
    assert revived["made"] == [str(n) for n in range(*bounds)]
    for first in STARTS[1:]:
        arrays = batches(folder / "revived", 1, first)
        for feature, array in batches(folder / "one", 1, first).items():
            np.testing.assert_array_equal(arrays[feature], array)
