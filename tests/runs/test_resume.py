"""A run that is killed and started again ends where an unbroken one does, bit for bit."""

import json
import os
import random
import signal
import time

import jax
import numpy as np
import pytest

from faith_jax.training.trainer import Trainer
from tests.runs.conftest import TINY, read_item

STEPS = 12


def train_lines(folder):
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue  # being written just now
    return rows


def wait_for_step(process, folder, step):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if any(row["step"] >= step for row in train_lines(folder)):
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    raise AssertionError(f"step {step} was not reached")


def saved(folder, item):
    tree = read_item(folder / "checkpoints" / str(STEPS) / item)
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


@pytest.fixture(scope="module")
def unbroken(succeed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    succeed(*TINY, f"--gin.MODEL_DIR={folder}")
    return folder


def assert_same_run(actual, expected):
    for item in ("params", "opt_state"):
        arrays, expected_arrays = saved(actual, item), saved(expected, item)
        assert arrays.keys() == expected_arrays.keys() != set()
        assert all(array.dtype != object for array in arrays.values())
        for name, array in arrays.items():
            assert array.tobytes() == expected_arrays[name].tobytes(), name
    assert train_lines(actual) == train_lines(expected)
    # Every step once: nothing was lost or written twice.
    steps = [row["step"] for row in train_lines(actual) if row["part"] == "train"]
    assert steps == list(range(1, STEPS + 1))


@pytest.mark.faults
def test_killed_at_random_steps(start, succeed, unbroken, tmp_path):
    rng = random.Random(20)
    for _ in range(2):
        process = start(*TINY, f"--gin.MODEL_DIR={tmp_path}")
        wait_for_step(process, tmp_path, rng.randint(2, STEPS - 1))
        time.sleep(rng.random() * 0.2)
        process.kill()
        process.communicate()
    succeed(*TINY, f"--gin.MODEL_DIR={tmp_path}")
    assert_same_run(tmp_path, unbroken)


@pytest.mark.slow
def test_sigterm_saves_and_stops(command, succeed, unbroken, tmp_path, monkeypatch):
    step = Trainer.train_step

    def asked_to_stop(trainer, state, *args):
        if int(state.step) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(trainer, state, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "train_step", asked_to_stop)
        status, _, err = command(*TINY, f"--gin.MODEL_DIR={tmp_path}")
    assert status == 143, err
    assert (tmp_path / "checkpoints" / "3" / "params").is_dir()
    assert "Stopped at step 3; run the same command to resume." in err
    succeed(*TINY, f"--gin.MODEL_DIR={tmp_path}")
    assert_same_run(tmp_path, unbroken)
