"""An encoder of queries and passages learns to find Wizard of Wikipedia's sentences."""

import json

import numpy as np
import pytest

from faith_jax.retrieval.dense import Passage, TextVectors
from tests.scoring import tiny_models

SETTINGS = (
    "--gin_file=dialfact_dense_finetune.gin",
    "--gin.MIXTURE_OR_TASK_NAME=dialfact_dense_claim_only_sample",
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 64, 'passages': 64, 'targets': 64}",
    "--gin.BATCH_SIZE=7",  # all there are
    "--gin.TRAIN_STEPS=60",
    "--gin.WARMUP_STEPS=2",
    "--gin.LEARNING_RATE=0.01",
    "--gin.DROPOUT_RATE=0.0",
    "--gin.LOG_PERIOD=1",
    "--gin.EVAL_PERIOD=60",
    "--gin.CHECKPOINT_PERIOD=60",
)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_models.write_model(tmp_path_factory.mktemp("bert") / "m", "bert")


def test_the_right_passage_is_found_after_training(command, bert, tmp_path):
    run = tmp_path / "run"
    arguments = (f"--gin.INITIAL_CHECKPOINT_PATH={bert}", f"--gin.MODEL_DIR={run}")
    status, _, err = command("train", *SETTINGS, *arguments)
    assert status == 0, err
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [(row["loss"], row["accuracy"]) for row in rows if row["part"] == "train"]
    # Before training, the right one of 7 is found no more often than at random.
    assert losses[0][1] <= 3 / 7
    assert losses[-1][1] == 1.0
    assert losses[-1][0] < 0.2 * losses[0][0]
    # What `faith-jax embed` makes of the run.
    before, after = TextVectors.open(bert), TextVectors.open(str(run))
    texts = ["tea", Passage("Tea", "It is hot.")]
    assert np.abs(before(texts) - after(texts)).max() > 1e-2


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("--gin.TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 8}", "needs queries and passages"),
        ("--gin.MIXTURE_OR_TASK_NAME=dialfact_evidence_sample", "no passages with a title"),
        ("--gin.NUM_MICROBATCHES=7", "InBatchNegatives compares the rows of a batch"),
    ],
)
def test_wrong_settings_are_one_line(command, bert, tmp_path, setting, message):
    arguments = (f"--gin.INITIAL_CHECKPOINT_PATH={bert}", f"--gin.MODEL_DIR={tmp_path / 'run'}")
    status, _, err = command("train", *SETTINGS, *arguments, setting)
    assert status == 2
    assert message in err
    assert "Traceback" not in err
