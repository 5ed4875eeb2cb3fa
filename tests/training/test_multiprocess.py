"""Two processes joined by jax.distributed give the same numbers and files as one."""

import json
import re

import numpy as np
import pytest

from faith_jax import cli
from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.checkpoints.open import open_checkpoint
from tests.training.processes import finish, start_pair

pytestmark = [pytest.mark.faults, pytest.mark.devices]

STEPS = 14
GIN = """
from __gin__ import dynamic_registration
from faith_jax.models import config
include 'models/t5_1_1_mini.gin'
include 'runs/train.gin'
MIXTURE_OR_TASK_NAME = 'npov_generate_sample'
TASK_FEATURE_LENGTHS = {'inputs': 64, 'targets': 224}
TRAIN_STEPS = 14
BATCH_SIZE = 4
LOG_PERIOD = 1
EVAL_PERIOD = 7
CHECKPOINT_PERIOD = 7
config.TransformerConfig:
  emb_dim = 16
  num_heads = 2
  head_dim = 8
  mlp_dim = 16
  num_encoder_layers = 1
  num_decoder_layers = 1
"""


def commands(folder, name):
    """The commands train, infer and eval of a run in folder/name."""
    model_dir = f"--gin.MODEL_DIR={folder / name}"
    checkpoint = f"--gin.CHECKPOINT_PATH={folder / name}"
    task = "--gin.MIXTURE_OR_TASK_NAME=npov_generate_sample"
    lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 224}"
    shared = [checkpoint, task, lengths, "--gin.DECODE_LENGTH=6", "--gin.BATCH_SIZE=8"]
    return [
        ["train", f"--gin_file={folder / 'tiny.gin'}", model_dir],
        ["infer", "--gin_file=runs/infer.gin", *shared, "--gin.FORMATS=('jsonl',)",
         f"--gin.INFER_OUTPUT_DIR={folder / name / 'responses'}"],
        ["eval", "--gin_file=runs/eval.gin", *shared,
         f"--gin.EVAL_OUTPUT_DIR={folder / name / 'evaluation'}"],
    ]  # fmt: skip


def run_all(folder):
    """Runs the commands that the tests compare; JAX takes one SIGTERM of each pair."""
    train, infer, evaluate = commands(folder, "two")
    bad = commands(folder, "bad")[0]
    # After the first stop, commands that differ, and one that cannot be read.
    first = [["terminate", 1, *train], bad, bad]
    second = [first[0], [*bad, "--gin.BATCH_SIZE=8"], [*bad, "--gin.BATCH_SIZ=8"]]
    pair = start_pair(folder, "first", first, second)
    assert [cli.t5x_main(arguments) for arguments in commands(folder, "one")] == [0] * 3
    assert finish(folder, pair) == {"first0": [143, 2, 2], "first1": [143, 2, 2]}
    pair = start_pair(folder, "second", [["terminate", 0, *train], train, infer, evaluate])
    assert finish(folder, pair) == {"second0": [143, 0, 0, 0], "second1": [143, 0, 0, 0]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data_folder):
    """Has `one`, a run of one process, and `two`, of two that were terminated and continued."""
    folder = tmp_path_factory.mktemp("processes")
    (folder / "tiny.gin").write_text(GIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
        run_all(folder)
    return folder


def metrics(folder, part):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["part"] == part]


def test_processes_that_differ_are_found_before_the_first_step(folder):
    errors = [(folder / f"first{index}.err").read_text() for index in (0, 1)]
    assert (
        "t5x: process 1 of this run has other gin files, --gin options or versions of faith_jax, "
        "JAX or Python than process 0; start all processes with the same command, but for "
        "--process_index.\n" in errors[0]
    )
    assert "t5x: process 1 could not read its configuration; see" in errors[0]
    assert "--gin.BATCH_SIZ: no gin file knows this macro" in errors[1]
    assert not (folder / "bad").exists()


def test_sigterm_on_either_process_saves_and_stops_both_at_the_same_step(folder):
    logs = [
        "".join((folder / f"{pair}{index}.err").read_text() for pair in ("first", "second"))
        for index in (0, 1)
    ]
    stopped, other_steps = (
        re.findall(r"^Stopped at step (\d+); run the same command to resume\.$", text, re.M)
        for text in logs
    )
    assert stopped == other_steps
    first, second = map(int, stopped)
    assert 3 <= first <= second - 3
    assert second < STEPS
    resumed = re.findall(r"Resuming from step (\d+) of", logs[0])
    assert resumed == stopped
    # One more checkpoint for each stop, besides one at every seventh step.
    kept = {int(path.name) for path in (folder / "two/checkpoints").iterdir()}
    assert STEPS in kept
    assert kept <= {first, second, 7, STEPS}


def test_two_processes_that_were_stopped_see_the_losses_of_one(folder):
    for part, steps in {"train": range(1, STEPS + 1), "validation": (7, 14)}.items():
        single, pair = metrics(folder / "one", part), metrics(folder / "two", part)
        # Each step occurs once, also after the stop, on the same rows: the targets are the same.
        assert [row["step"] for row in pair] == [row["step"] for row in single] == list(steps)
        assert [row["weight"] for row in pair] == [row["weight"] for row in single]
        losses = [[row["loss"] for row in rows] for rows in (single, pair)]
        assert len(set(losses[0])) == len(losses[0])
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_two_processes_end_with_the_parameters_of_one(folder):
    single, pair = (flatten(open_checkpoint(str(folder / n)).params) for n in ("one", "two"))
    assert single.keys() == pair.keys()
    for name, value in single.items():
        np.testing.assert_allclose(pair[name], value, atol=1e-5, rtol=1e-5, err_msg=name)
    steps = [sorted(int(p.name) for p in (folder / n / "checkpoints").iterdir()) for n in
             ("one", "two")]  # fmt: skip
    assert steps[0] == [7, 14]
    assert steps[1][-1] == 14


def test_two_processes_generate_what_one_generates(folder):
    def rows(name):
        lines = (folder / name / "responses/predictions.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    single, pair = rows("one"), rows("two")
    assert len(single) >= 8
    log_probs = [[row.pop("log_prob") for row in side] for side in (single, pair)]
    assert pair == single
    np.testing.assert_allclose(log_probs[1], log_probs[0], rtol=1e-5)
    assert not list((folder / "two").glob("*.partial"))


def test_two_processes_measure_what_one_measures(folder):
    single, pair = (
        json.loads((folder / n / "evaluation/evaluation.json").read_text())["metrics"]
        for n in ("one", "two")
    )
    assert single.keys() == pair.keys()
    assert single["weight"] > 100
    for name, value in single.items():
        np.testing.assert_allclose(pair[name], value, rtol=1e-5, err_msg=name)
