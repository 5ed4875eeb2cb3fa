import types

import numpy as np
import pytest

from faith_jax.core.errors import DivergenceError
from faith_jax.core.progress import Progress
from faith_jax.runs import train
from tests.runs.conftest import TINY

EVALUATION = train.Evaluation(period=4, decoded_period=6)


def test_decoded_metrics_are_logged_as_losses_are(monkeypatch, caplog):
    written = []
    writer = types.SimpleNamespace(write=lambda *line: written.append(line))
    rows = types.SimpleNamespace(config=types.SimpleNamespace(split="validation"))
    metrics = {"rouge1": 0.25, "a_task/token_f1": 1 / 3}
    decoded = types.SimpleNamespace(evaluate=lambda params: metrics)
    monkeypatch.setattr(train, "dataset_loss", lambda *_: {"loss": 1.5})
    progress = Progress("step", 10)
    watcher = train._Watcher(
        writer, progress, "train", {}, None, {}, EVALUATION, rows, decoded, 10, None, [],
    )  # fmt: skip
    with caplog.at_level("INFO", logger="faith_jax"):
        for step in (4, 5, 6, 7):
            watcher.write_losses(step, {}, final=step == 7)
            watcher.write_decoded_metrics(step, {}, final=step == 7)
    of_decoded = "validation decoded  rouge1 0.2500  a_task/token_f1 0.3333"
    assert caplog.messages == [
        "step 4  validation loss 1.5000",
        f"step 6  {of_decoded}",
        "step 7  validation loss 1.5000",
        f"step 7  {of_decoded}",
    ]
    assert written == [
        (4, "validation", {"loss": 1.5}),
        (6, "validation_decoded", metrics),
        (7, "validation", {"loss": 1.5}),
        (7, "validation_decoded", metrics),
    ]
    assert watcher.last == {"loss": 1.5} | metrics


@pytest.mark.parametrize(
    ("rate", "logged"), [(lambda step: step / 8, 0.25), (0.5, 0.5), (None, None)]
)
def test_the_learning_rate_is_that_of_the_logged_update(rate, logged):
    written = []
    writer = types.SimpleNamespace(write=lambda *line: written.append(line))
    watcher = train._Watcher(
        writer, Progress("step", 10), "train", {}, None, {}, EVALUATION, None, None,
        10, rate, [],
    )  # fmt: skip
    watcher.write_training_metrics(3, {"loss": 1.5}, {}, False)
    rates = {} if logged is None else {"learning_rate": logged}  # after two updates
    assert written == [(3, "train", {"loss": 1.5} | rates)]


@pytest.mark.parametrize(("step", "final", "told"), [(1, False, 0), (1, True, 1), (2, False, 1)])
def test_a_warm_up_may_begin_without_moving_the_prompt(caplog, step, final, told):
    start = np.ones((2, 3), np.float32)
    writer = types.SimpleNamespace(write=lambda *_: None)
    watcher = train._Watcher(
        writer, Progress("step", 10), "train", {"prompt": start}, None, {}, EVALUATION,
        None, None, 10, None, [],
    )  # fmt: skip
    watcher.write_training_metrics(step, {"loss": 1.5}, {"prompt": {"embedding": start}}, final)
    assert sum("has not moved" in message for message in caplog.messages) == told


def test_a_loss_that_is_not_finite_is_one_line(command, monkeypatch, tmp_path):
    def diverge(*_):
        raise DivergenceError("Step 4 is not saved.")

    monkeypatch.setattr(train, "_check_datasets", diverge)
    status, _, err = command(*TINY, f"--gin.MODEL_DIR={tmp_path / 'run'}")
    assert (status, err.splitlines()[-1]) == (1, "faith-jax: Step 4 is not saved.")
    assert "Traceback" not in err
