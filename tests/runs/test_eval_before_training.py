"""EVAL_BEFORE_TRAINING measures the validation loss before the first step, and only then."""

import json

import pytest

from tests.runs.conftest import TINY

# At a learning rate of 0 the loss stays that of the first parameters.
FLAT = ("--gin.LEARNING_RATE=0.0", "--gin.WARMUP_STEPS=0", "--gin.EVAL_PERIOD=1")
BEFORE = "--gin.EVAL_BEFORE_TRAINING=True"


@pytest.mark.slow
@pytest.mark.usefixtures("untrained")
def test_the_loss_before_the_first_step(succeed, tmp_path):
    metrics = tmp_path / "metrics.jsonl"

    def train(steps):
        succeed(*TINY, *FLAT, BEFORE, f"--gin.MODEL_DIR={tmp_path}", f"--gin.TRAIN_STEPS={steps}")
        rows = map(json.loads, metrics.read_text().splitlines())
        return [(row["step"], row["loss"]) for row in rows if row["part"] == "validation"]

    # As if the run was killed before saving its first state.
    metrics.write_text(json.dumps({"step": 0, "part": "validation", "loss": -1.0}) + "\n")
    (start, first), (end, last) = train(1)
    assert (start, end) == (0, 1)
    assert first == last > 0
    assert train(2) == [(0, first), (1, first), (2, first)]
