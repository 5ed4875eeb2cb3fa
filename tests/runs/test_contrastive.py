"""Training with InfoNCE through the command."""

import json

import pytest

from tests.runs.conftest import settings
from tests.scoring import tiny_models

LENGTHS = {"inputs": 160, "targets": 64, "negatives": (4, 16)}
SETTINGS = (
    "--gin_file=faithdial_generate_infonce.gin",
    *settings(MIXTURE_OR_TASK_NAME="faithdial_generate_infonce_sample"),
    *settings(TASK_FEATURE_LENGTHS=LENGTHS, TRAIN_STEPS=4, WARMUP_STEPS=1, LEARNING_RATE=0.001),
    *settings(BATCH_SIZE=4, NUM_MICROBATCHES=2, LOG_PERIOD=1),
)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Sets the checkpoint that training begins with."""
    model = tiny_models.write_t5(tmp_path_factory.mktemp("model") / "t5")
    return f"--gin.INITIAL_CHECKPOINT_PATH={model}"


@pytest.mark.slow
def test_the_checkpoint_is_kept_by_the_language_models_loss_alone(command, start, tmp_path, caplog):
    # With this weight of InfoNCE and this rate, the objective is lowest after the first step, while
    # the language model gets better to the end.
    folder = tmp_path / "run"
    command.succeeds(
        "train",
        *SETTINGS,
        start,
        *settings(DECODING=None, INFONCE_WEIGHT=1000.0, LEARNING_RATE=0.1, WARMUP_STEPS=0),
        *settings(DROPOUT_RATE=0.0),
        *settings(EVAL_PERIOD=1, CHECKPOINT_PERIOD=1, KEEP_LAST=1, MODEL_DIR=folder),
    )
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in lines if row["part"] == "validation"]
    assert len(lines) == 2 * len(rows) == 8
    for row in lines:
        assert 0 <= row["hits_at_1"] <= 1
        whole = row["negative_log_likelihood"] + row["z_loss"] + 1000 * row["infonce"]
        if row["part"] == "train":
            assert row["loss"] == pytest.approx(whole, rel=1e-4)
        else:
            assert row["objective"] == pytest.approx(whole, rel=1e-4)
            assert row["loss"] == row["negative_log_likelihood"]
    assert "cut of negatives: " in caplog.text
    best, lowest = (
        min(rows, key=lambda row: row[name])["step"]
        for name in ("negative_log_likelihood", "objective")
    )
    assert best != lowest
    kept = {int(path.name) for path in (folder / "checkpoints").glob("*")}
    assert kept == {best, 4}
    assert lowest == 4 or lowest not in kept


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("--gin.TASK_FEATURE_LENGTHS={'inputs': 160, 'targets': 64}", "no negatives. Choose a"),
        ("--gin.IN_BATCH_NEGATIVES=True", "NUM_MICROBATCHES = 2: InfoNCE compares the rows"),
        ("--gin.MIXTURE_OR_TASK_NAME='faithdial_generate_sample'", "have no feature 'negatives'"),
        ("--gin.PACK=True", "examples with negatives cannot be packed"),
    ],
)
def test_wrong_settings_are_one_line(command, start, tmp_path, setting, message):
    run = tmp_path / "run"
    assert message in command.refuses("train", *SETTINGS, start, setting, f"--gin.MODEL_DIR={run}")
