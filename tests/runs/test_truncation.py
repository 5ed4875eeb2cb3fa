"""Training with loss truncation through the command."""

import json

import jax
import numpy as np
import pytest

from tests.runs.conftest import read_item, settings
from tests.scoring import tiny_models

SETTINGS = (
    "--gin_file=faithdial_generate_loss_truncation.gin",
    *settings(MIXTURE_OR_TASK_NAME="faithdial_generate_wow_sample"),
    *settings(TASK_FEATURE_LENGTHS="{'inputs': 96, 'targets': 48}", WARMUP_STEPS=1),
    *settings(LEARNING_RATE=0.001, BATCH_SIZE=4, NUM_MICROBATCHES=2, TRUNCATION_WARMUP_STEPS=2),
    *settings(LEARNING_RATE_SCHEDULE="0.00001", TRUNCATION_WINDOW=16, LOG_PERIOD=1, EVAL_PERIOD=6),
    *settings(DECODING=None),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_models.write_t5(tmp_path_factory.mktemp("model") / "t5")


@pytest.fixture
def train(command, model):
    def run(folder, steps, *more):
        start = f"--gin.INITIAL_CHECKPOINT_PATH={model}"
        given = (*more, f"--gin.TRAIN_STEPS={steps}", f"--gin.MODEL_DIR={folder}")
        status, _, err = command("train", *SETTINGS, start, *given)
        return status, err

    return run


def rows_of(folder, part="train"):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["part"] == part]


def assert_drops_after_the_warm_up(rows):
    assert [row["examples_dropped"] for row in rows[:2]] == [0, 0]
    assert any(row["examples_dropped"] > 0 for row in rows[2:])
    for row in rows:
        kept = row["loss"] - row["z_loss"]
        if row["examples_dropped"]:
            assert kept < row["negative_log_likelihood"]
        else:
            assert kept == pytest.approx(row["negative_log_likelihood"], rel=1e-5)


@pytest.mark.slow
def test_a_run_in_two_parts_drops_the_same(train, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, steps in ((whole, 6), (parts, 3), (parts, 6)):
        status, err = train(folder, steps)
        assert status == 0, err
    assert_drops_after_the_warm_up(rows_of(whole))
    assert rows_of(parts) == rows_of(whole)
    # Checkpoints are kept by the loss of all validation examples.
    (validation,) = rows_of(whole, "validation")
    assert validation["loss"] == validation["negative_log_likelihood"]
    assert "examples_dropped" not in validation
    found, expected = (
        [read_item(f / "checkpoints" / "6" / item) for item in ("params", "objective")]
        for f in (parts, whole)
    )
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert found[1]["losses"].shape == (16,)
    assert np.all(np.asarray(found[1]["losses"]) > 0)


def test_packed_examples_are_refused(train, tmp_path):
    status, err = train(tmp_path / "run", 2, "--gin.PACK=True")
    assert status == 2
    assert "LossTruncation: packed examples have no losses of their own" in err
    assert "Traceback" not in err
