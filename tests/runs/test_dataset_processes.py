"""If one process of a run cannot make its rows, the other does not wait for ever."""

import pytest

from tests.runs.conftest import TINY, settings
from tests.training.processes import start_pair, statuses_of

pytestmark = [pytest.mark.faults, pytest.mark.devices]
TASKS = ("bad_rows_long_target", "bad_rows_no_number")


def command(folder, task):
    return [
        *TINY,
        *settings(MIXTURE_OR_TASK_MODULE="'tests.runs.bad_rows'", MIXTURE_OR_TASK_NAME=task),
        *settings(TASK_FEATURE_LENGTHS="{'inputs': 16, 'targets': 16}", MODEL_DIR=folder / task),
    ]


def test_a_row_that_one_process_cannot_read_ends_both(tmp_path):
    """Both report the problem with the row, also if TensorFlow cannot read it."""
    pair = start_pair(tmp_path, "process", [command(tmp_path, task) for task in TASKS])
    assert [process.wait(timeout=600) for process in pair.values()] == [2, 2]
    assert statuses_of(tmp_path, pair) == {"process0": [2, 2], "process1": [2, 2]}
    for name in pair:
        stderr = (tmp_path / f"{name}.err").read_text()
        assert "bad_rows_long_target, split 'train', example 1: the target has 161 tokens" in stderr
        step = "its source FunctionDataSource of _no_number fails after 1 example"
        assert f"t5x: bad_rows_no_number, split 'train': {step}: InvalidArgumentError: " in stderr
        assert "Traceback" not in stderr
    for task in TASKS:
        assert not list(tmp_path.glob(f"{task}/rows/*"))
