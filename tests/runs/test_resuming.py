"""A MODEL_DIR with a run is resumed, or left unchanged byte for byte."""

import json
import shutil

import numpy as np
import pytest

from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.native import read_model_json, write_model_json
from faith_jax.core.files import working_folder
from faith_jax.runs.resuming import pin_start
from tests.models.tiny import TINY as CONFIG
from tests.runs.conftest import TINY, read_item
from tests.runs.test_bad_input import assert_mistake

# The tests do not depend on trained parameters.
pytestmark = pytest.mark.usefixtures("untrained")

STEPS = ("--gin.TRAIN_STEPS=2", "--gin.WARMUP_STEPS=0", "--gin.CHECKPOINT_PERIOD=1")
RUN = (*TINY, *STEPS)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def resumed(tiny_run, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copytree(tiny_run, tmp_path / "resumed")


@pytest.mark.parametrize(
    ("bindings", "parts"),
    [
        (["LEARNING_RATE=0.5"], ["LEARNING_RATE is 0.001 there, 0.5 here"]),
        (["DROPOUT_RATE=0.0"], ["the model's dropout_rate is 0.1 there, 0.0 here"]),
        (
            ["MIXTURE_OR_TASK_NAME=npov_hallucination_sample", "BATCH_SIZE=2"],
            [
                "MIXTURE_OR_TASK_NAME is 'npov_generate_sample' there, ",
                "BATCH_SIZE is 4 there, 2 here",
            ],
        ),
    ],
)
def test_another_run_is_refused(command, tiny_run, bindings, parts):
    before = contents(tiny_run)
    options = (f"--gin.{binding}" for binding in bindings)
    # Something is left to train in the first case, and nothing in the others.
    steps = 4 if bindings[0].startswith("LEARNING") else 2
    result = command(*RUN, f"--gin.MODEL_DIR={tiny_run}", f"--gin.TRAIN_STEPS={steps}", *options)
    assert_mistake(result, "holds another run: ", "Choose another MODEL_DIR", *parts)
    assert contents(tiny_run) == before


@pytest.mark.slow
def test_another_initial_checkpoint_is_refused(command, tiny_run, tmp_path, caplog):
    caplog.set_level("INFO", logger="faith_jax")
    before = contents(tiny_run)
    options = (f"--gin.MODEL_DIR={tmp_path / 'tuned'}", "--gin.TRAIN_STEPS=1")
    command.succeeds(*RUN, *options, f"--gin.INITIAL_CHECKPOINT_PATH={tiny_run}")
    step = tiny_run / "checkpoints" / "2"
    counted = f"TRAIN_STEPS = 1 counts from 0: the 2 steps of {step} are not among them"
    assert counted in caplog.messages
    origin = read_model_json(tmp_path / "tuned").metadata["initial_checkpoint"]
    assert origin["path"] == str(step)
    # Its content counts, not its path.
    (tmp_path / "link").symlink_to(tiny_run)
    same = (*RUN, *options, f"--gin.INITIAL_CHECKPOINT_PATH={tmp_path / 'link'}")
    assert command(*same)[0] == 0
    assert_mistake(command(*RUN, *options), origin["content_hash"][:12], "random parameters")
    result = command(
        *RUN, f"--gin.MODEL_DIR={tiny_run}", f"--gin.INITIAL_CHECKPOINT_PATH={tmp_path / 'tuned'}"
    )
    assert_mistake(result, "began with random parameters", str(tmp_path / "tuned"))
    assert contents(tiny_run) == before


def write_steps(folder, *steps, base=None):
    """Writes the files that list these steps of a run, without their parameters."""
    for step in steps:
        (folder / "checkpoints" / str(step) / "params").mkdir(parents=True)
    write_model_json(folder, Checkpoint(CONFIG, {}, base=base))
    return folder


def test_a_base_that_is_trained_on_is_the_step_that_a_run_began_with(tmp_path, caplog):
    base = write_steps(tmp_path / "base", 8)
    eighth, twelfth = (str(base / "checkpoints" / step) for step in ("8", "12"))
    assert pin_start(tmp_path / "run", str(base)) == eighth
    run = write_steps(tmp_path / "run", 4, base={"path": eighth, "content_hash": "a" * 64})
    assert pin_start(run, str(base)) == eighth
    write_steps(base, 12)
    assert pin_start(tmp_path / "new", str(base)) == twelfth
    with caplog.at_level("INFO", logger="faith_jax"):
        for start in (base, base / "checkpoints" / "newest", eighth):
            assert pin_start(run, str(start)) == eighth
    assert f"{run} is resumed with {eighth}, which it began with, not {twelfth}" in caplog.messages
    # Another model is told by its content, and so is a step by its own name, or one that is gone.
    assert pin_start(run, twelfth) == twelfth
    assert pin_start(run, "mini") == "mini"
    shutil.rmtree(eighth)
    assert pin_start(run, str(base)) == twelfth


def test_nothing_to_train_writes_nothing(command, tiny_run, caplog):
    before = contents(tiny_run)
    options = (f"--gin.MODEL_DIR={tiny_run}", "--gin.TRAIN_STEPS=1", "--gin.EVAL_PERIOD=1")
    with caplog.at_level("INFO", logger="faith_jax"):
        status, _, err = command(*RUN, *options)
    assert status == 0, err
    message = f"{tiny_run} is already at step 2; TRAIN_STEPS is 1, nothing to train"
    assert message in caplog.messages
    assert not [line for line in caplog.messages if "resumed" in line or "Training " in line]
    assert contents(tiny_run) == before


@pytest.mark.slow
def test_what_decides_nothing_may_change(command, resumed, caplog):
    options = (*RUN, f"--gin.MODEL_DIR={resumed}")
    free = ("LOG_PERIOD=3", "EVAL_PERIOD=2", "KEEP_LAST=1", "NUM_MICROBATCHES=2")
    with caplog.at_level("INFO", logger="faith_jax"):
        status, _, err = command(*options, "--gin.TRAIN_STEPS=3", *(f"--gin.{b}" for b in free))
    assert status == 0, err
    assert "EVAL_PERIOD = 2, which was 6" in caplog.text
    assert "TRAIN_STEPS was 2 and is 3 now: the learning rates from" in caplog.text
    assert "TRAIN_STEPS = 3" in (resumed / "config.gin").read_text()
    rows = [json.loads(line) for line in (resumed / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["part"] == "train"] == [1, 2, 3]


@pytest.mark.slow
def test_a_run_without_a_checkpoint_begins_anew(command, resumed):
    """As after a loss that is not finite, for which a lower learning rate is asked for."""
    (resumed / "checkpoints").rename(resumed / "gone")
    options = (f"--gin.MODEL_DIR={resumed}", "--gin.TRAIN_STEPS=1", "--gin.RANDOM_SEED=1")
    assert command(*RUN, *options)[0] == 0
    assert "RANDOM_SEED = 1" in (resumed / "config.gin").read_text()
    before, after = (
        read_item(resumed / folder / "1" / "params")["token_embedder"]["embedding"]
        for folder in ("gone", "checkpoints")
    )
    assert not np.array_equal(before, after)


def test_a_model_that_no_run_wrote_is_left_alone(command, tiny_run, tmp_path):
    folder = tmp_path / "model"
    command.succeeds("import-checkpoint", tiny_run, folder)
    before = contents(folder)
    result = command(*RUN, f"--gin.MODEL_DIR={folder}", "--gin.TRAIN_STEPS=1")
    assert_mistake(result, str(folder), "which no run wrote")
    assert contents(folder) == before


def test_a_config_that_cannot_be_read_is_warned_of(command, resumed, caplog):
    (resumed / "config.gin").write_text("train.train.x = [")
    assert command(*RUN, f"--gin.MODEL_DIR={resumed}")[0] == 0
    assert "has no readable config.gin" in caplog.text


def test_a_model_dir_has_one_writer(command, resumed):
    before = contents(resumed)
    with working_folder(resumed):
        status, _, err = command(*RUN, f"--gin.MODEL_DIR={resumed}", "--gin.TRAIN_STEPS=3")
    assert status == 2
    assert f"MODEL_DIR: another run is writing {resumed}; wait for it" in err
    assert contents(resumed) == before
