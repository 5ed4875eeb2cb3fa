"""tools/check_statistics.py: its populations have the true values it compares with."""

import sys

import numpy as np
import pytest

from tests.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools"))
import check_statistics

FIGURES = {figure.name: figure for figure in check_statistics.FIGURES}


@pytest.mark.parametrize("name", FIGURES)
def test_the_truth_is_that_of_a_very_large_sample(name):
    figure = FIGURES[name]
    sample = figure.sample(np.random.default_rng(0), np.arange(50_000), 0.0, **figure.options)
    assert sample.figure.value == pytest.approx(sample.truth, abs=0.01)
    assert sample.null.value == pytest.approx(0, abs=0.01)


def test_a_small_run(capsys, tmp_path):
    check_statistics.main(
        ["--samples=20", "--figure=mean with", f"--markdown={tmp_path / 'table.md'}"]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Coverage of 95% intervals, level and power of tests at 5%, in per cent"
    assert lines[3].startswith("mean with ties  coverage")
    assert (tmp_path / "table.md").read_text().startswith("**Coverage of 95% intervals")
    with pytest.raises(SystemExit, match="expected part of one of mean, "):
        check_statistics.main(["--figure=median"])


def test_what_misses_an_aim_is_marked():
    results = [
        check_statistics.Measured("mean", "20 rows", 0.95, 0.05, 0.8, 4000),
        check_statistics.Measured("mean", "40 rows", 0.9, 0.08, 0.8, 4000),
    ]
    table = check_statistics.table(results)
    assert [row[2:] for row in table.rows] == [("95.0", "90.0 !"), ("5.0", "8.0 !"), ("80", "80")]
