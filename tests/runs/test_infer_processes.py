"""Inference on two processes, with one model or each with its own, survives a kill of either."""

import json

import numpy as np
import pytest

from tests.runs.conftest import settings
from tests.scoring import tiny_models
from tests.training.processes import end, start_pair

pytestmark = [pytest.mark.faults, pytest.mark.devices]
KILLED = {1: 4, 0: 5}  # the process, and how many whole rows are written: process 0 writes one more
TOGETHER = "--gin.NUM_PARTITIONS=2", "--gin.FORMATS=('jsonl',)"
SHARED = "--gin.SHARDS=4", "--gin.FORMATS=('jsonl', 'tfds')"


def arguments(folder, name, options):
    return [
        "infer",
        "--gin_file=runs/infer_file.gin",
        *settings(CHECKPOINT_PATH=folder / "gpt2", INPUT_FILE=folder / "rows.jsonl"),
        *settings(INFER_OUTPUT_DIR=folder / name, MAX_INPUT_LENGTH=24, DECODE_LENGTH=6),
        *settings(TEMPERATURE=1.0, BATCH_SIZE=4),
        *options,
    ]


def score(folder, name, partitions):
    option = "--scorer-option=pmi_faith_mean"
    return [
        *("score", "--scorers=pmi_faith_mean,token_f1", "--shards=3", "--batch-size=4"),
        *(f"{option}.model={folder / 'gpt2'}", f"{option}.num_partitions={partitions}"),
        *(f"--input={folder / 'rows.jsonl'}", f"--output={folder / name}.jsonl"),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Has the runs `unbroken`, and `killed1` and `killed0`, whose process was killed in batch 2.

    The partial files that the kills left are `left1` and `left0`. In `shared`, each process has its
    own model, and the second was killed.
    """
    folder = tmp_path_factory.mktemp("processes")
    tiny_models.write_model(folder / "gpt2", "gpt2")
    rows = [
        {"inputs": f"Is {word} tea number {i} {{good}}?"}
        | {"grounding": f"Tea {word} is good.", "response": f"Tea {word} is good, number {i}."}
        for i, word in enumerate("abcdefghij")
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    unbroken, first, second = (
        arguments(folder, name, TOGETHER) for name in ("unbroken", "killed1", "killed0")
    )
    shared = arguments(folder, "shared", SHARED)
    runs = [
        [unbroken, ["kill", 1, 2, *first]],
        [first, ["kill", 0, 2, *second]],
        [
            *(second, arguments(folder, "both", SHARED)),
            *(score(folder, name, count) for name, count in (("own", 1), ("split", 2))),
            ["kill", 1, 1, *shared],
        ],
    ]
    for number, lists in enumerate(runs):
        pair = start_pair(folder, f"run{number}_", lists)
        killed = lists[-1][1]
        finished = end(folder, pair, f"run{number}_{killed}")
        if number < 2:
            left = folder / f"killed{killed}.partial" / "rows.jsonl"
            (folder / f"left{killed}").write_bytes(left.read_bytes())
        whole = [0] * (len(lists) - 1)
        assert [statuses[: len(whole)] for statuses in finished.values()] == [whole] * 2
    return folder


def lines(path):
    return path.read_bytes().splitlines(keepends=True)


def test_processes_with_a_model_each_write_shards_of_their_own(folder, command):
    """The rows equal those of a single process, which can also resume a killed run."""
    alone, both, killed = folder / "alone", folder / "both", folder / "shared"
    assert killed.with_name("shared.partial").exists()
    for name in ("alone", "shared"):
        command.succeeds(*arguments(folder, name, SHARED))
    expected = lines(alone / "predictions.jsonl")
    assert [json.loads(line)["id"] for line in expected] == [str(i + 1) for i in range(10)]
    for output in (both, killed):
        assert lines(output / "predictions.jsonl") == expected
        for path in (alone / "tfds").iterdir():
            assert (output / "tfds" / path.name).read_bytes() == path.read_bytes()
    shards = [path.name for path in (both / "tfds").glob("*.tfrecord*")]
    assert sorted(shards) == [
        f"predictions-rows.tfrecord-{number:05d}-of-00004" for number in range(4)
    ]


def test_scores_of_two_processes_are_those_of_one(folder, command):
    """Bit by bit if each process has its own model; up to rounding if one is split over both."""
    command.succeeds(*score(folder, "one", 1))
    assert lines(folder / "own.jsonl") == lines(folder / "one.jsonl")
    single, split = (list(map(json.loads, lines(folder / f"{n}.jsonl"))) for n in ("one", "split"))
    scores = [[row.pop("scores") for row in rows] for rows in (single, split)]
    words = [[row.pop("words")["pmi_faith_mean"] for row in rows] for rows in (single, split)]
    assert split == single
    assert len({scored["pmi_faith_mean"] for scored in scores[0]}) == 10
    for name in scores[0][0]:
        values = [[scored[name] for scored in of] for of in scores]
        np.testing.assert_allclose(values[1], values[0], rtol=1e-5, atol=1e-6)
    for first_words, second_words in zip(*words, strict=True):
        scored = [np.array(of)[:, :3].astype(float) for of in (first_words, second_words)]
        np.testing.assert_allclose(scored[1], scored[0], rtol=1e-5, atol=1e-5)


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
