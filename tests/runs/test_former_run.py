"""A MODEL_DIR with a run in it: gone on with, or left byte for byte as it was."""

import json

import numpy as np
import pytest

from faith_jax.checkpoints.native import read_model_json
from tests.runs.conftest import TINY, read_item
from tests.runs.test_bad_input import assert_mistake

pytestmark = pytest.mark.usefixtures("quick_compilation")

STEPS = ("--gin.TRAIN_STEPS=2", "--gin.WARMUP_STEPS=0", "--gin.CHECKPOINT_PERIOD=1")
RUN = (*TINY, *STEPS)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def former(start, tmp_path_factory):
    """MODEL_DIR of a run of two steps, from random parameters."""
    folder = tmp_path_factory.mktemp("former")
    process = start(*RUN, f"--gin.MODEL_DIR={folder}")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return folder


@pytest.mark.parametrize("steps", ["2", "4"])  # nothing to train, and something
@pytest.mark.parametrize(
    ("bindings", "parts"),
    [
        (["BATCH_SIZE=8"], ["BATCH_SIZE is 4 there, 8 here"]),
        (["LEARNING_RATE=0.5"], ["LEARNING_RATE is 0.001 there, 0.5 here"]),
        (["RANDOM_SEED=1"], ["RANDOM_SEED is 0 there, 1 here"]),
        (["LABEL_SMOOTHING=0.1"], ["LABEL_SMOOTHING is 0.0 there, 0.1 here"]),
        (["DROPOUT_RATE=0.0"], ["the model's dropout_rate is 0.1 there, 0.0 here"]),
        (["OPTIMIZER=@optimizers.adamw()"], ["OPTIMIZER is ", "optimizers.adamw here"]),
        (
            ["TASK_FEATURE_LENGTHS={'inputs': 200, 'targets': 224}"],
            ["TASK_FEATURE_LENGTHS is {'inputs': 224,"],
        ),
        (
            ["MIXTURE_OR_TASK_NAME=npov_hallucination_sample", "BATCH_SIZE=2"],
            [
                "MIXTURE_OR_TASK_NAME is 'npov_generate_sample' there, ",
                "BATCH_SIZE is 4 there, 2 here",
            ],
        ),
    ],
)
def test_another_run_is_refused(command, former, steps, bindings, parts):
    before = contents(former)
    given = (f"--gin.{binding}" for binding in bindings)
    result = command(*RUN, f"--gin.MODEL_DIR={former}", f"--gin.TRAIN_STEPS={steps}", *given)
    assert_mistake(result, "holds another run: ", "Choose another MODEL_DIR", *parts)
    assert contents(former) == before


def test_another_initial_checkpoint_is_refused(command, former, tmp_path):
    before = contents(former)
    given = (f"--gin.MODEL_DIR={tmp_path / 'tuned'}", "--gin.TRAIN_STEPS=1")
    status, _, err = command(*RUN, *given, f"--gin.INITIAL_CHECKPOINT_PATH={former}")
    assert status == 0, err
    told = read_model_json(tmp_path / "tuned").metadata["initial_checkpoint"]
    assert told["path"] == str(former)
    # Its content counts, not its path.
    (tmp_path / "link").symlink_to(former)
    same = (*RUN, *given, f"--gin.INITIAL_CHECKPOINT_PATH={tmp_path / 'link'}")
    assert command(*same)[0] == 0
    assert_mistake(command(*RUN, *given), told["content_hash"][:12], "random parameters")
    result = command(
        *RUN, f"--gin.MODEL_DIR={former}", f"--gin.INITIAL_CHECKPOINT_PATH={tmp_path / 'tuned'}"
    )
    assert_mistake(result, "began with random parameters", str(tmp_path / "tuned"))
    assert contents(former) == before


def test_nothing_to_train_writes_nothing(command, former, caplog):
    before = contents(former)
    with caplog.at_level("INFO", logger="faith_jax"):
        status, _, err = command(*RUN, f"--gin.MODEL_DIR={former}", "--gin.EVAL_PERIOD=1")
    assert status == 0, err
    assert "Nothing to train: " in caplog.text
    assert "Training " not in caplog.text
    assert contents(former) == before


def test_what_decides_nothing_may_change(command, tmp_path, caplog):
    given = (*RUN, f"--gin.MODEL_DIR={tmp_path}")
    assert command(*given)[0] == 0
    free = ("LOG_PERIOD=3", "EVAL_PERIOD=2", "KEEP_LAST=1", "NUM_MICROBATCHES=2")
    with caplog.at_level("INFO", logger="faith_jax"):
        status, _, err = command(*given, "--gin.TRAIN_STEPS=3", *(f"--gin.{b}" for b in free))
    assert status == 0, err
    assert "EVAL_PERIOD = 2, which was 6" in caplog.text
    assert "TRAIN_STEPS was 2 and is 3 now: the steps from here on" in caplog.text
    assert "TRAIN_STEPS = 3" in (tmp_path / "config.gin").read_text()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["part"] == "train"] == [1, 2, 3]


def test_a_run_without_a_checkpoint_begins_anew(command, former, tmp_path):
    """As after a loss that is not finite, for which a lower learning rate is asked for."""
    given = (*RUN, "--gin.TRAIN_STEPS=1", f"--gin.MODEL_DIR={tmp_path}")
    assert command(*given)[0] == 0
    params = read_item(tmp_path / "checkpoints" / "1" / "params")
    (tmp_path / "checkpoints").rename(tmp_path / "gone")
    assert command(*given, "--gin.RANDOM_SEED=1")[0] == 0
    assert "RANDOM_SEED = 1" in (tmp_path / "config.gin").read_text()
    other = read_item(tmp_path / "checkpoints" / "1" / "params")
    table = ("token_embedder", "embedding")
    assert not np.array_equal(params[table[0]][table[1]], other[table[0]][table[1]])


def test_a_model_that_no_run_wrote_is_left_alone(command, former, tmp_path):
    folder = tmp_path / "model"
    status, _, err = command("import-checkpoint", former, folder)
    assert status == 0, err
    before = contents(folder)
    result = command(*RUN, f"--gin.MODEL_DIR={folder}", "--gin.TRAIN_STEPS=1")
    assert_mistake(result, str(folder), "which no run wrote")
    assert contents(folder) == before


def test_a_config_that_cannot_be_read_is_warned_of(command, tmp_path, caplog):
    given = (*RUN, f"--gin.MODEL_DIR={tmp_path}")
    assert command(*given, "--gin.TRAIN_STEPS=1")[0] == 0
    (tmp_path / "config.gin").write_text("train.train.x = [")
    assert command(*given)[0] == 0
    assert "has no readable config.gin" in caplog.text


@pytest.mark.parametrize(
    ("bindings", "parts"),
    [
        (["KEEP_LAST=0"], ["KEEP_LAST = 0"]),
        (
            [
                "OBJECTIVE=@contrastive.InfoNCE()",
                "MIXTURE_OR_TASK_NAME=faithdial_generate_infonce_sample",
            ],
            ["InfoNCE: the batches have no negatives", "'negatives': (8, 64)"],
        ),
        (
            ["OBJECTIVE=@truncation.LossTruncation()", "PACK=True"],
            ["LossTruncation: packed examples"],
        ),
    ],
)
def test_a_refused_run_makes_no_folder(command, tmp_path, bindings, parts):
    files = ("infonce", "loss_truncation")
    given = [f"--gin_file=objectives/{name}.gin" for name in files]
    given += [f"--gin.{binding}" for binding in bindings]
    result = command(*RUN, *given, f"--gin.MODEL_DIR={tmp_path / 'model'}")
    assert_mistake(result, *parts)
    assert not (tmp_path / "model").exists()
