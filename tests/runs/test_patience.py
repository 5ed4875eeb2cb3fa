"""PATIENCE ends a run whose validation loss no longer falls, also if it was resumed."""

import json
import math

import pytest

from faith_jax.training.metrics import losses_until, no_longer_falls
from tests.runs.conftest import TINY

# At a learning rate of 0 no loss is lower than the first.
FLAT = ("--gin.LEARNING_RATE=0.0", "--gin.WARMUP_STEPS=0", "--gin.EVAL_PERIOD=1")


def train(command, caplog, folder, steps, patience):
    """Returns the exit status and the run's log."""
    caplog.clear()
    status, _, err = command(
        *TINY, *FLAT, f"--gin.MODEL_DIR={folder}", f"--gin.TRAIN_STEPS={steps}",
        f"--gin.PATIENCE={patience}", "--gin.CHECKPOINT_PERIOD=5",
    )  # fmt: skip
    return status, err + caplog.text


def steps_of(folder, part):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row["step"] for row in rows if row["part"] == part]


@pytest.mark.slow
@pytest.mark.usefixtures("untrained")
def test_a_run_ends_when_the_loss_no_longer_falls(command, caplog, tmp_path):
    caplog.set_level("INFO", logger="faith_jax")
    folder = tmp_path / "run"
    status, err = train(command, caplog, folder, 20, 2)
    assert status == 0, err
    ending = "step 3  training ends: the validation loss has not fallen in 2 measurements"
    assert ending in err
    assert steps_of(folder, "validation") == [1, 2, 3]
    assert steps_of(folder, "train")[-1] == 3  # though no period ends there
    assert (folder / "checkpoints" / "3" / "params").is_dir()

    status, err = train(command, caplog, folder, 20, 2)
    assert status == 0, err
    assert "is already at step 3; its loss did not fall in 2 measurements" in err
    assert steps_of(folder, "validation") == [1, 2, 3]

    # More patience goes on, and what was measured before counts.
    status, err = train(command, caplog, folder, 4, 5)
    assert (status, "training ends" in err) == (0, False), err
    status, err = train(command, caplog, folder, 20, 5)
    assert (status, "step 6  training ends" in err) == (0, True), err
    assert steps_of(folder, "validation") == [1, 2, 3, 4, 5, 6]
    assert sorted(int(path.name) for path in (folder / "checkpoints").glob("[0-9]*"))[-1] == 6


def test_nothing_measured_is_an_error(command, tmp_path):
    none = "--gin.EVAL_SPLIT=None"
    assert "PATIENCE looks at the loss on EVAL_SPLIT, which is None" in command.refuses(
        *TINY, *FLAT, none, "--gin.PATIENCE=2", f"--gin.MODEL_DIR={tmp_path}"
    )


@pytest.mark.parametrize(
    ("losses", "patience", "expected"),
    [
        ([], 1, False),
        ([1.0], 1, False),
        ([1.0, 1.0], 1, True),
        ([2.0, 1.0, 1.5], 2, False),
        ([2.0, 1.0, 1.5, 1.0], 2, True),
        ([2.0, math.nan, math.nan], 2, True),
        ([math.nan, 2.0, 3.0], 2, False),
        ([3.0, 3.0, 3.0], None, False),
    ],
)
def test_patience(losses, patience, expected):
    assert no_longer_falls(losses, patience) is expected


def test_losses_of_a_stopped_run(tmp_path):
    rows = [
        {"step": 2, "part": "validation", "loss": 2.0},
        {"step": 2, "part": "train", "loss": 8.0},
        {"step": 3, "part": "train", "loss": 9.0, "gradient_norm": 1.0},
        {"step": 4, "part": "validation", "loss": 0.0},
        {"step": 2, "part": "validation", "loss": 1.0},  # measured again after a kill
        {"step": 6, "part": "validation", "loss": 5.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert losses_until(tmp_path, 4, "validation") == [1.0, 0.0]
    # Measured on the rows that are trained on, too: their lines have the same part.
    assert losses_until(tmp_path, 4, "train") == [8.0]
    assert losses_until(tmp_path / "none", 4, "validation") == []
