import logging

import pytest

import faith_jax.core.progress
from faith_jax.core.errors import ProcessError
from faith_jax.core.progress import Patience, Progress, clock


@pytest.fixture
def now(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="faith_jax")
    time = [100.0]
    monkeypatch.setattr(faith_jax.core.progress.time, "monotonic", lambda: time[0])
    return time


def test_progress_tells_rate_and_time_left_now_and_then(now, caplog):
    progress = Progress("step", total=110, done=10)
    now[0] = 105.0
    progress.update(20, "loss 1.0")
    assert caplog.messages == []  # too soon
    now[0] = 120.0
    progress.update(50, "loss 0.5")
    # 40 steps in 20 seconds: those of an earlier run do not count.
    assert caplog.messages == ["step 50/110  loss 0.5  2.00/s"]
    now[0] = 130.0
    progress.update(60, "loss 0.4")
    # 10 in the last 10 seconds, 50 are left.
    assert caplog.messages[1:] == ["step 60/110  loss 0.4  1.00/s  0:50 left"]
    now[0] = 135.0
    progress.update(110, "loss 0.3", force=True)
    assert caplog.messages[2:] == ["step 110/110  loss 0.3  2.86/s"]  # 100 in 35 seconds


def test_time_left_forgets_the_first_half(now, caplog):
    progress = Progress("row", total=100)
    for now[0], count in ((110, 20), (120, 20), (130, 4), (140, 4), (150, 2)):
        progress.add(count)
    assert caplog.messages == [
        "row 20/100    2.00/s",
        "row 40/100    2.00/s  0:30 left",
        "row 44/100    1.20/s  0:47 left",  # since 10 s
        "row 48/100    0.40/s  2:10 left",  # since 20 s
        "row 50/100    0.33/s  2:30 left",  # since 20 s: 10 rows in 30 s
    ]


def test_time_left_knows_that_the_last_rows_are_long(now, caplog):
    progress = Progress("row", total=8, work=100)
    for now[0], count, work in ((110, 2, 10), (120, 2, 10), (140, 4, 80)):
        progress.add(count, work)
    # 10 in 10 seconds, 80 are left.
    assert caplog.messages == [
        "row 2/8    0.20/s",
        "row 4/8    0.20/s  1:20 left",
        "row 8/8    0.20/s",
    ]


def test_clock():
    texts = [clock(s) for s in (0, 59.6, 61, 3600, 86399)]
    assert texts == ["0:00", "1:00", "1:01", "1:00:00", "23:59:59"]


def test_patience_ends_where_nothing_changes(now, monkeypatch):
    monkeypatch.setattr(
        faith_jax.core.progress.time, "sleep", lambda s: now.__setitem__(0, now[0] + s)
    )
    monkeypatch.setattr(faith_jax.core.progress, "_PATIENCE", 100)
    patience = Patience("the shards of other processes")
    for seen in (1, 2, 2, 3):
        patience.wait({"rows.jsonl": seen}, seconds=60)
    patience.wait({"rows.jsonl": 3}, seconds=60)
    with pytest.raises(ProcessError, match=r"shards of other processes: nothing .* 100 seconds"):
        patience.wait({"rows.jsonl": 3}, seconds=60)
    assert now[0] == 100 + 5 * 60
