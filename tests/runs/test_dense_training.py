"""Encoders of queries and passages learn to find Wizard of Wikipedia's sentences."""

import json

import numpy as np
import pytest

from faith_jax.retrieval.dense import TextVectors
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


def trained(command, folder, *settings):
    """Trains, and returns the rows of the losses."""
    command.succeeds("train", *SETTINGS, f"--gin.MODEL_DIR={folder}", *settings)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(row["loss"], row["accuracy"]) for row in rows if row["part"] == "train"]


def assert_learnt(losses):
    # Before training, the right one of 7 is found about as often as by chance; the vocabulary is
    # trained for the test, and varies between runs.
    assert losses[0][1] < 4.5 / 7
    assert losses[-1][1] == 1.0
    assert losses[-1][0] < 0.2 * losses[0][0]


def vectors(model, text):
    """Returns the vectors of a text by the encoders of passages and of queries."""
    return [TextVectors.open(str(model), queries=queries)([text])[0] for queries in (False, True)]


@pytest.mark.slow
def test_one_encoder_learns_to_find_the_right_passage(command, bert, tmp_path):
    run, initial = tmp_path / "run", f"--gin.INITIAL_CHECKPOINT_PATH={bert}"
    assert_learnt(trained(command, run, initial, "--gin.QUESTION_ENCODER=False"))
    # The vectors that `faith-jax embed` makes with the run.
    (before, _), (after, of_query) = vectors(bert, "tea"), vectors(run, "tea")
    assert np.abs(before - after).max() > 1e-2
    np.testing.assert_array_equal(after, of_query)


@pytest.mark.slow
def test_two_encoders_learn_to_find_the_right_passage(command, bert, tmp_path):
    question = tiny_models.write_model(tmp_path / "question", "bert", seed=1)
    initial = f"--gin.INITIAL_CHECKPOINT_PATH={bert}"
    run, path = tmp_path / "run", f"--gin.QUESTION_CHECKPOINT_PATH={question}"
    assert_learnt(trained(command, run, initial, path))
    for model, former in zip(vectors(run, "tea"), (bert, question), strict=True):
        assert np.abs(model - vectors(former, "tea")[0]).max() > 1e-2
    # Hugging Face has no form for both.
    assert "question_encoder" in command.refuses(
        "export-checkpoint", str(run), str(tmp_path / "exported")
    )
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("--gin.TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 8}", "needs queries and passages"),
        ("--gin.TRAINABLE=['encoder/.*']", "the new encoder of questions must be trained"),
        (
            "--gin.QUESTION_CHECKPOINT_PATH=mini",
            "QUESTION_CHECKPOINT_PATH: checkpoint: the parameter",
        ),
    ],
)
def test_wrong_settings_are_one_line(command, bert, tmp_path, setting, message):
    arguments = (f"--gin.INITIAL_CHECKPOINT_PATH={bert}", f"--gin.MODEL_DIR={tmp_path / 'run'}")
    assert message in command.refuses("train", *SETTINGS, *arguments, setting)
