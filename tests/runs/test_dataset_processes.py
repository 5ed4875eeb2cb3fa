"""Where one process cannot make its rows of a run, the other one does not wait for ever."""

import pytest

from tests.runs.conftest import TINY
from tests.training.processes import start_pair, statuses_of

pytestmark = [pytest.mark.slow, pytest.mark.devices]
TASKS = ("bad_rows_long_target", "bad_rows_no_number")


def command(folder, task):
    return [
        *TINY,
        "--gin.MIXTURE_OR_TASK_MODULE='tests.runs.bad_rows'",
        f"--gin.MIXTURE_OR_TASK_NAME={task}",
        "--gin.TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 16}",
        f"--gin.MODEL_DIR={folder / task}",
    ]


def test_a_row_that_one_process_cannot_read_ends_both(tmp_path):
    """A mistake that has a message of its own is told by both, any other by a traceback of one."""
    pair = start_pair(tmp_path, "process", [command(tmp_path, task) for task in TASKS])
    assert [process.wait(timeout=600) for process in pair.values()] == [1, 2]
    # Process 0 ends in the second command by its own error.
    assert statuses_of(tmp_path, pair) == {"process0": [2], "process1": [2, 2]}
    zero, one = ((tmp_path / f"{name}.err").read_text() for name in pair)
    told = "t5x: bad_rows_long_target, split 'train', example 1: the target has 161 tokens"
    assert told in zero
    assert told in one
    assert "Traceback" in zero
    assert "StringToNumberOp could not correctly convert string: two" in zero
    assert "Traceback" not in one
    what = "the rows of bad_rows_no_number, split 'train'"
    assert f"t5x: process 0 could not make {what}; see what it says." in one
    for task in TASKS:
        assert not list(tmp_path.glob(f"{task}/rows/*"))
