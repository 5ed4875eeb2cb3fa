"""Training with InfoNCE through the command."""

import json

import pytest

from tests.scoring import tiny_models

LENGTHS = {"inputs": 160, "targets": 64, "negatives": (4, 16)}
SETTINGS = (
    "--gin_file=faithdial_generate_infonce.gin",
    "--gin.MIXTURE_OR_TASK_NAME=faithdial_generate_infonce_sample",
    f"--gin.TASK_FEATURE_LENGTHS={LENGTHS}",
    "--gin.TRAIN_STEPS=4",
    "--gin.WARMUP_STEPS=1",
    "--gin.LEARNING_RATE=0.001",
    "--gin.BATCH_SIZE=4",
    "--gin.NUM_MICROBATCHES=2",
    "--gin.INFONCE_WEIGHT=1.0",
    "--gin.LOG_PERIOD=1",
    "--gin.EVAL_PERIOD=4",
    "--gin.DECODE_LENGTH=4",
)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Sets the checkpoint that training begins with."""
    model = tiny_models.write_t5(tmp_path_factory.mktemp("model") / "t5")
    return f"--gin.INITIAL_CHECKPOINT_PATH={model}"


@pytest.mark.slow
def test_a_run(command, start, tmp_path, caplog):
    folder = tmp_path / "run"
    status, _, err = command("train", *SETTINGS, start, f"--gin.MODEL_DIR={folder}")
    assert status == 0, err
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    trained = [row for row in rows if row["part"] == "train"]
    assert len(trained) == 4
    (decoded,) = (row for row in rows if row["part"] == "validation_decoded")
    assert 0 <= decoded["token_f1"] <= 1
    for row in (row for row in rows if row is not decoded):
        assert 0 <= row["hits_at_1"] <= 1
        assert row["infonce"] > 0
        whole = row["negative_log_likelihood"] + row["z_loss"] + row["infonce"]
        if row["part"] == "train":
            assert row["loss"] == pytest.approx(whole, rel=1e-4)
        else:
            assert row["objective"] == pytest.approx(whole, rel=1e-4)
            assert row["loss"] == row["negative_log_likelihood"]
    assert "cut of negatives: " in caplog.text
    assert "infonce.InfoNCE.weight" in (folder / "config.gin").read_text()


@pytest.mark.slow
def test_the_checkpoint_is_kept_by_the_language_models_loss_alone(command, start, tmp_path):
    # So much InfoNCE, and so high a rate, that it falls while the language model gets worse.
    status, _, err = command(
        "train",
        *SETTINGS,
        start,
        "--gin.DECODING=None",
        "--gin.INFONCE_WEIGHT=1000.0",
        "--gin.LEARNING_RATE=0.01",
        "--gin.WARMUP_STEPS=0",
        "--gin.EVAL_PERIOD=1",
        "--gin.CHECKPOINT_PERIOD=1",
        "--gin.KEEP_LAST=1",
        f"--gin.MODEL_DIR={tmp_path / 'run'}",
    )
    assert status == 0, err
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    rows = [row for row in map(json.loads, text.splitlines()) if row["part"] == "validation"]
    best, lowest = (
        min(rows, key=lambda row: row[name])["step"]
        for name in ("negative_log_likelihood", "objective")
    )
    assert best != lowest
    kept = {int(path.name) for path in (tmp_path / "run" / "checkpoints").glob("*")}
    assert kept == {best, 4}
    assert lowest == 4 or lowest not in kept


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("--gin.TASK_FEATURE_LENGTHS={'inputs': 160, 'targets': 64}", "no negatives. Choose a"),
        ("--gin.INFONCE_CONTEXT='end'", "InfoNCE.context: expected one of first, mean, decoder_"),
        ("--gin.IN_BATCH_NEGATIVES=True", "NUM_MICROBATCHES = 2: InfoNCE compares the rows"),
        ("--gin.MIXTURE_OR_TASK_NAME='faithdial_generate_sample'", "have no feature 'negatives'"),
        ("--gin.PACK=True", "examples with negatives cannot be packed"),
    ],
)
def test_wrong_settings_are_one_line(command, start, tmp_path, setting, message):
    run = tmp_path / "run"
    status, _, err = command("train", *SETTINGS, start, setting, f"--gin.MODEL_DIR={run}")
    assert status == 2
    assert message in err
    assert "Traceback" not in err
