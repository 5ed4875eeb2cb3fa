"""Two processes, joined by jax.distributed, beside one: the same numbers and the same files."""

import json

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
    """Runs what the tests compare."""
    train, infer, evaluate = commands(folder, "two")
    bad = commands(folder, "bad")[0]
    others = [[*bad, "--gin.BATCH_SIZE=8"], [*bad, "--gin.BATCH_SIZ=8"]]
    stops = {}
    for process in (1, 0):
        name, stopped = f"stopped{process}_", ["terminate", process, *train]
        # The first pair then tries commands that differ.
        lists = [stopped, bad, bad] if process else [stopped]
        second = [stopped, *others] if process else None
        statuses = finish(folder, start_pair(folder, name, lists, second))
        steps = sorted(int(p.name) for p in (folder / "two/checkpoints").iterdir())
        last = json.loads((folder / "two/metrics.jsonl").read_text().splitlines()[-1])["step"]
        stops[process] = {"statuses": statuses, "steps": steps, "last": last}
    (folder / "stopped.json").write_text(json.dumps(stops))
    pair = start_pair(folder, "whole", [train, infer, evaluate])
    assert [cli.t5x_main(arguments) for arguments in commands(folder, "one")] == [0] * 3
    assert finish(folder, pair) == {"whole0": [0] * 3, "whole1": [0] * 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data_folder):
    """Holds `one`, a run of one process, and `two`, of two that were terminated and went on."""
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
    errors = [(folder / f"stopped1_{index}.err").read_text() for index in (0, 1)]
    assert (
        "t5x: process 1 of this run has other gin files and --gin options than process 0; "
        "start all processes with the same command, but for --process_index.\n" in errors[0]
    )
    assert "t5x: process 1 could not read its configuration; see" in errors[0]
    assert "--gin.BATCH_SIZ: no gin file knows this macro" in errors[1]
    assert not (folder / "bad").exists()


def test_sigterm_on_either_process_saves_and_stops_both_at_the_same_step(folder):
    stopped = json.loads((folder / "stopped.json").read_text())
    last = [0, stopped["1"]["last"], stopped["0"]["last"], STEPS]
    assert last[1] >= 3
    assert last[2] >= last[1] + 3
    assert last[2] < STEPS
    for number, process in enumerate("10", 1):
        name, stop = f"stopped{process}_", stopped[process]
        statuses = [143, 2, 2] if process == "1" else [143]
        assert stop["statuses"] == {f"{name}0": statuses, f"{name}1": statuses}
        # One checkpoint more, beside that of every seventh step.
        others = [step for step in (last[number - 1], 7) if 0 < step < last[number]]
        assert set(stop["steps"]) <= {*others, last[number]}
        assert stop["steps"][-1] == last[number]
        for index in (0, 1):
            told = (folder / f"{name}{index}.err").read_text().splitlines()
            assert f"Stopped at step {last[number]}; run the same command to resume." in told
        then = folder / ("stopped0_0.err" if process == "1" else "whole0.err")
        assert f"Resuming from step {last[number]} of" in then.read_text()


def test_two_processes_that_were_stopped_see_the_losses_of_one(folder):
    for part, steps in {"train": range(1, STEPS + 1), "validation": (7, 14)}.items():
        one, two = metrics(folder / "one", part), metrics(folder / "two", part)
        # Each step once, also those behind the stop, and on the same rows: the same targets.
        assert [row["step"] for row in two] == [row["step"] for row in one] == list(steps)
        assert [row["weight"] for row in two] == [row["weight"] for row in one]
        losses = [[row["loss"] for row in rows] for rows in (one, two)]
        assert len(set(losses[0])) == len(losses[0])
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_two_processes_end_with_the_parameters_of_one(folder):
    one, two = (flatten(open_checkpoint(str(folder / n)).params) for n in ("one", "two"))
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, atol=1e-5, rtol=1e-5, err_msg=name)
    steps = [sorted(int(p.name) for p in (folder / n / "checkpoints").iterdir()) for n in
             ("one", "two")]  # fmt: skip
    assert steps[0] == [7, 14]
    assert steps[1][-1] == 14


def test_two_processes_generate_what_one_generates(folder):
    def rows(name):
        lines = (folder / name / "responses/predictions.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    one, two = rows("one"), rows("two")
    assert len(one) >= 8
    log_probs = [[row.pop("log_prob") for row in found] for found in (one, two)]
    assert two == one
    np.testing.assert_allclose(log_probs[1], log_probs[0], rtol=1e-5)
    assert not list((folder / "two").glob("*.partial"))


def test_two_processes_measure_what_one_measures(folder):
    one, two = (
        json.loads((folder / n / "evaluation/evaluation.json").read_text())["metrics"]
        for n in ("one", "two")
    )
    assert one.keys() == two.keys()
    assert one["weight"] > 100
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-5, err_msg=name)
