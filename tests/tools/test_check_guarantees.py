"""tools/check_guarantees.py: its worlds have the properties in their names."""

import sys

import numpy as np
import pytest

from tests.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools"))
import check_guarantees

WORLDS = {world.name: world for world in check_guarantees.WORLDS}


@pytest.mark.parametrize("name", WORLDS)
def test_calibrations_are_like_new_rows_where_they_should_be(name):
    world, generator = WORLDS[name], np.random.default_rng(0)
    scores, is_wrong, units = world.rows(generator, 50_000)
    new_scores, new_is_wrong = world.new_rows(generator)
    assert units.max() == 49_999
    weights = 1 / np.bincount(units)[units]
    share = np.average(is_wrong, weights=weights)
    mean = np.average(scores, weights=weights)
    assert share == pytest.approx(1 - world.faithful, abs=0.01)
    is_shifted = "new" in name
    assert (abs(new_is_wrong.mean() - share) + abs(new_scores.mean() - mean) > 0.1) == is_shifted


def test_a_small_run(capsys, tmp_path):
    path = tmp_path / "table.md"
    check_guarantees.main(["--draws=20", "--world=400 responses", f"--markdown={path}"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Guarantees in simulation, in per cent"
    assert [line.split("  ")[0] for line in lines[3:6]] == list(WORLDS)[:3]
    assert path.read_text().startswith("**Guarantees in simulation")
    with pytest.raises(SystemExit, match="part of one of 400 responses"):
        check_guarantees.main(["--world=median"])
