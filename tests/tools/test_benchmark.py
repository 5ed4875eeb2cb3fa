"""The measuring code of tools/benchmark.py, with a tiny shape or without models."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.paths import REPOSITORY

PROGRAM = REPOSITORY / "tools" / "benchmark.py"
sys.path.insert(0, str(PROGRAM.parent))
import benchmark  # noqa: E402


class Sides:
    """Sides whose parts take given numbers of seconds."""

    def __init__(self, **seconds):
        self.told, self.closed = seconds, []

    def __getitem__(self, side):
        self.side = side.replace(" ", "_")
        return self

    def seconds(self, part, end):
        answer = self.told.get(f"{self.side}_{part}", 0.5)
        if isinstance(answer, Exception):
            raise answer
        return answer.pop(0) if isinstance(answer, list) else answer

    def close(self, side):
        self.closed.append(side)


def last(part, sides, monkeypatch, installed=("ours", "hugging face", "t5x"), rounds=2):
    monkeypatch.setattr(benchmark, "is_installed", lambda side: side in installed)
    return list(benchmark.measure(part, sides, benchmark.Limits(60.0, rounds)))


def test_ratios_are_of_medians_and_the_first_turn_does_not_count(monkeypatch):
    sides = Sides(
        ours_train=[9.0, 2.0, 4.0], hugging_face_train=[9.0, 6.0, 6.0], t5x_train=[9.0, 3.0, 3.0]
    )
    *_, result = last("train", sides, monkeypatch)
    assert result["ours_s"] == 3.0
    assert result["ratios"] == {"hugging face": 2.0, "t5x": 1.0}
    assert result["rounds"] == 2
    assert result["notes"] == []
    peak = 2.0 * benchmark.SHAPE.matmul**3 / 0.5
    assert result["matmul_gflops"] == peak / 1e9
    assert result["memory_gb_per_s"] == 8 * benchmark.SHAPE.memory / 0.5 / 1e9
    assert result["share_of_peak"] == pytest.approx(benchmark.part_flops()["train"] / 3.0 / peak)


def test_a_side_that_fails_is_told_and_left_out(monkeypatch):
    sides = Sides(ours_train=2.0, hugging_face_train=RuntimeError("ValueError: no"), t5x_train=4.0)
    *_, result = last("train", sides, monkeypatch)
    assert result["ratios"] == {"t5x": 2.0}
    assert result["notes"] == ["hugging face train: ValueError: no"]
    *_, alone = last("train", Sides(ours_train=2.0), monkeypatch, installed=("ours",))
    assert alone["notes"] == ["hugging face: not installed", "t5x: not installed"]


def test_a_program_that_takes_too_long_leaves_its_lines():
    program = "import time; print('one line'); time.sleep(60)"
    start = time.monotonic()
    result = benchmark.run_program([sys.executable, "-c", program], 3.0)
    assert time.monotonic() - start < 30
    assert result == {"lines": ["one line"], "notes": ["stopped after 3 s"]}
    failing = benchmark.run_program([sys.executable, "-c", "import no_such_module"], 30.0)
    assert failing["notes"] == ["failed: ModuleNotFoundError: No module named 'no_such_module'"]


def test_every_program_is_there():
    for part in benchmark.PROGRAMS:
        for quick in (False, True):
            assert pathlib.Path(benchmark.program_of(part, quick)[1]).exists()


@pytest.mark.slow
def test_a_run_of_a_tiny_shape_that_is_stopped(tmp_path):
    path = tmp_path / "found.json"
    path.write_text(json.dumps({"parts": {"beam": {"notes": ["earlier"]}}}))
    command = [sys.executable, str(PROGRAM), "--shape=tiny", "--parts=score", f"--json={path}"]
    process = subprocess.Popen(
        [*command, "--rounds=1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    end = time.monotonic() + 120
    while time.monotonic() < end and not re.search(r'"matmul_gflops": \d', path.read_text()):
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 143
    parts = json.loads(path.read_text())["parts"]
    assert parts["beam"] == {"notes": ["earlier"]}
    score_part = parts["score"]
    assert score_part["seconds"].keys() >= {"ours score", "ours matmul", "ours memory"}
    # Its rate is of the tiny matrix.
    fastest = min(score_part["seconds"]["ours matmul"])
    assert score_part["matmul_gflops"] == pytest.approx(2 * 64**3 / fastest / 1e9)
    assert "score" in output
