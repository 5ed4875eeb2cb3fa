"""EVAL_BEFORE_TRAINING measures the validation loss before the first step, and only then."""

import json
import shutil

from tests.runs.conftest import TINY

# At a learning rate of 0 the loss stays that of the first parameters.
FLAT = ("--gin.LEARNING_RATE=0.0", "--gin.WARMUP_STEPS=0", "--gin.EVAL_PERIOD=2")
BEFORE = "--gin.EVAL_BEFORE_TRAINING=True"


def losses(folder):
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [(row["step"], row["loss"]) for row in rows if row["part"] == "validation"]


def test_the_loss_before_the_first_step(succeed, tmp_path):
    folder = tmp_path / "run"
    run = (*TINY, *FLAT, BEFORE, f"--gin.MODEL_DIR={folder}")
    succeed(*run, "--gin.TRAIN_STEPS=2")
    (start, first), (end, last) = losses(folder)
    assert (start, end) == (0, 2)
    assert first == last

    # A run that goes on has been measured; one that is killed before its first state measures again.
    succeed(*run, "--gin.TRAIN_STEPS=3")
    assert losses(folder) == [(0, first), (2, first), (3, first)]
    shutil.rmtree(folder / "checkpoints")
    succeed(*run, "--gin.TRAIN_STEPS=2")
    assert losses(folder) == [(0, first), (2, first)]
