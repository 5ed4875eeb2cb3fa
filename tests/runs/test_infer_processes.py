"""Inference on two processes goes on where a kill of either left it."""

import json

import pytest

from tests.scoring import tiny_models
from tests.training.processes import end, finish, start_pair

pytestmark = [pytest.mark.slow, pytest.mark.devices]
KILLED = {1: 4, 0: 5}  # the process, and how many whole rows are written: process 0 writes one more


def command(folder, name):
    return [
        "infer",
        "--gin_file=runs/infer_file.gin",
        f"--gin.CHECKPOINT_PATH={folder / 'gpt2'}",
        f"--gin.INPUT_FILE={folder / 'rows.jsonl'}",
        f"--gin.INFER_OUTPUT_DIR={folder / name}",
        "--gin.MAX_INPUT_LENGTH=24",
        "--gin.DECODE_LENGTH=6",
        "--gin.TEMPERATURE=1.0",
        "--gin.BATCH_SIZE=4",
        "--gin.FORMATS=('jsonl',)",
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds `unbroken` and `killed1`, `killed0`: runs in which that process was killed in batch 2.

    Their partial files, as the kills left them, are `left1` and `left0`.
    """
    folder = tmp_path_factory.mktemp("processes")
    tiny_models.write_model(folder / "gpt2", "gpt2")
    rows = [
        {"inputs": f"Is {word} tea number {i} {{good}}?"} for i, word in enumerate("abcdefghij")
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = [
        [command(folder, "unbroken"), ["kill", 1, 2, *command(folder, "killed1")]],
        [command(folder, "killed1"), ["kill", 0, 2, *command(folder, "killed0")]],
        [command(folder, "killed0")],
    ]
    for number, lists in enumerate(runs):
        pair = start_pair(folder, f"run{number}_", lists)
        if len(lists) == 1:
            finished = finish(folder, pair)
        else:
            killed = lists[1][1]
            finished = end(folder, pair, f"run{number}_{killed}")
            left = folder / f"killed{killed}.partial" / "rows.jsonl"
            (folder / f"left{killed}").write_bytes(left.read_bytes())
        assert [statuses[:1] for statuses in finished.values()] == [[0], [0]]
    return folder


def lines(path):
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("killed", KILLED)
def test_a_run_goes_on_behind_a_kill_of_either(folder, killed):
    unbroken = lines(folder / "unbroken" / "predictions.jsonl")
    assert [json.loads(line)["id"] for line in unbroken] == [str(i + 1) for i in range(10)]
    left = lines(folder / f"left{killed}")
    assert left[: KILLED[killed]] == unbroken[: KILLED[killed]]
    assert left[KILLED[killed] :] == ([] if killed else [b'{"id": "cut'])
    assert lines(folder / f"killed{killed}" / "predictions.jsonl") == unbroken
    assert not (folder / f"killed{killed}.partial").exists()
    # Both processes leave out the first batch, and make again the one that was written in part.
    for process in (0, 1):
        log = (folder / f"run{2 - killed}_{process}.err").read_text()
        assert "Resuming from row 4 of" in log
