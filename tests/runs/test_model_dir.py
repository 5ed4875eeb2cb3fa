"""The files that a run keeps in MODEL_DIR."""

import json

import numpy as np
import pytest
import safetensors.numpy

from faith_jax.core.errors import CheckpointError
from faith_jax.inference.opening import trained_error_labels
from faith_jax.runs.model_dir import (
    PROMPT_START,
    RunLog,
    read_or_write_prompt_starts,
    read_prompt_starts,
    write_prompt_starts,
)
from tests.runs.conftest import TINY
from tests.runs.test_bad_input import assert_mistake

# The tests do not depend on trained parameters.
pytestmark = pytest.mark.usefixtures("untrained")

STEPS = ("--gin.TRAIN_STEPS=2", "--gin.WARMUP_STEPS=0", "--gin.CHECKPOINT_PERIOD=1")
RUN = (*TINY, *STEPS)


STARTS = {"encoder_prompt": np.arange(6, dtype=np.float32).reshape(2, 3)}
ORIGIN = {"initializer": "uniform", "seed": "3"}
OTHER = {"encoder_prompt": np.zeros((2, 3), np.float32)}


def same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, vectors in expected.items():
        np.testing.assert_array_equal(actual[name], vectors)


@pytest.mark.slow
def test_a_run_keeps_the_labels_that_it_teaches(command, tiny_run, tmp_path):
    labels = tmp_path / "labels.gin"
    labels.write_text(
        "from __gin__ import dynamic_registration\nfrom faith_jax.tasks import npov\n"
        "npov.error_labels.no_error = 'NO'\nnpov.error_labels.error = 'YES'\n"
    )
    run = tmp_path / "run"
    task = ("--gin.MIXTURE_OR_TASK_NAME=npov_coverage_sample", "--gin.EVAL_SPLIT=None")
    steps = ("--gin.TRAIN_STEPS=1", "--gin.WARMUP_STEPS=0")
    command.succeeds(*TINY, f"--gin_file={labels}", *task, *steps, f"--gin.MODEL_DIR={run}")
    assert trained_error_labels(str(run)) == {"no_error": "NO", "error": "YES"}
    assert trained_error_labels(str(run / "checkpoints" / "1")) == trained_error_labels(str(run))
    assert trained_error_labels(str(tiny_run)) == trained_error_labels("mini") == {}


def test_a_run_that_goes_on_has_the_start_that_it_kept(tmp_path):
    write_prompt_starts(tmp_path, STARTS, {})
    same(read_or_write_prompt_starts(tmp_path, OTHER, ORIGIN, resumed=True), STARTS)
    kept, origin = read_prompt_starts(tmp_path)
    same(kept, STARTS)
    assert origin == {}


def test_a_start_that_was_not_kept_is_not_made_up(tmp_path):
    assert read_or_write_prompt_starts(tmp_path, OTHER, ORIGIN, resumed=True) == {}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"prompt": STARTS["encoder_prompt"]}, "expected the tensors of encoder_prompt"),
        (None, "cut short"),
    ],
)
def test_a_broken_file_is_named(tmp_path, tensors, message):
    path = tmp_path / PROMPT_START
    safetensors.numpy.save_file(tensors or STARTS, path)
    if tensors is None:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=message) as caught:
        read_prompt_starts(tmp_path)
    assert str(caught.value).startswith(str(path))


ROWS = [
    {"step": 1, "part": "train", "loss": 3.0, "gradient_norm": 1.0, "p_norms": [1.0, 2.0]},
    {"step": 1, "part": "validation", "loss": 4.0},
    {"step": 1, "part": "validation_decoded", "rouge1": 0.5},
    {"step": 2, "part": "train", "loss": float("nan"), "gradient_norm": 1.0, "p_norms": [3, 4]},
    {"step": 3, "part": "train", "loss": 1.0, "gradient_norm": 1.0, "p_norms": [1.0]},
    {"step": 3, "part": "validation", "loss": 2.0},
]


def write(folder, *more):
    lines = [json.dumps(row) for row in ROWS]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, *more]))
    return folder


def test_curves_by_step(tmp_path):
    log = RunLog(write(tmp_path))
    assert log.training("loss").steps.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(log.training("loss").values, [3, np.nan, 1])
    assert log.validation("loss").steps.tolist() == [1, 3]
    assert log.validation("loss").values.tolist() == [4, 2]
    norms = log.vectors("p_norms", 2)
    assert norms.steps.tolist() == [1, 2]  # the third is of another prompt
    assert norms.values.tolist() == [[1, 2], [3, 4]]


def test_a_step_sees_nothing_later(tmp_path):
    log = RunLog(write(tmp_path), last_step=2)
    assert log.training("loss").steps.tolist() == [1, 2]
    assert log.validation("loss").values.tolist() == [4]


def test_a_line_that_a_kill_cut_is_passed_over(tmp_path):
    log = RunLog(write(tmp_path, '{"step": 4, "par', '{"step": 5, "lo\ufffd'))
    assert log.training("loss").steps.tolist() == [1, 2, 3]
    nothing = RunLog(tmp_path / "nowhere")
    assert len(nothing.training("loss").steps) == 0
    assert nothing.vectors("p_norms", 2).values.shape == (0, 2)


def test_a_refused_run_makes_no_folder(command, tmp_path):
    options = ("--gin_file=objectives/loss_truncation.gin", "--gin.PACK=True")
    options += ("--gin.OBJECTIVE=@truncation.LossTruncation()",)
    result = command(*RUN, *options, f"--gin.MODEL_DIR={tmp_path / 'model'}")
    assert_mistake(result, "LossTruncation: packed examples")
    assert not (tmp_path / "model").exists()


def test_a_new_run_keeps_its_start(tmp_path):
    assert read_prompt_starts(tmp_path) == (None, {})
    same(read_or_write_prompt_starts(tmp_path, OTHER, ORIGIN, resumed=False), OTHER)
    same(
        read_or_write_prompt_starts(tmp_path, STARTS, ORIGIN, resumed=False), STARTS
    )  # nothing was trained before
    kept, origin = read_prompt_starts(tmp_path)
    same(kept, STARTS)
    assert origin == ORIGIN
    assert [path.name for path in tmp_path.iterdir()] == [PROMPT_START]
