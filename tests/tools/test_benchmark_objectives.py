import json
import statistics
import sys

import pytest

from tests.models.tiny import TINY
from tools import benchmark_objectives as benchmark


@pytest.mark.slow
def test_ratios_are_of_medians_of_one_run(tmp_path, capsys, monkeypatch):
    one_layer = TINY.replace(num_encoder_layers=1, num_decoder_layers=1)
    monkeypatch.setitem(benchmark.SHAPES, "mini", one_layer)
    path = tmp_path / "figures.json"
    sizes = "--inputs=5", "--targets=3", "--negatives=2"
    monkeypatch.setattr(sys, "argv", ["tool", "--rounds=2", *sizes, f"--json={path}"])
    benchmark.main()
    content = json.loads(path.read_text())
    rows = {row["objective"]: row for row in content["rows"]}
    assert list(rows) == ["cross_entropy", "ctrl", "loss_truncation", "infonce"]
    for name, row in rows.items():
        assert len(content["seconds"][name]) == 2 * benchmark.STEPS_A_TURN
        assert row["seconds"] == statistics.median(content["seconds"][name]) > 0
        assert row["time"] == row["seconds"] / rows["cross_entropy"]["seconds"]
    # Three texts a row are decoded in place of one, of one token more each.
    assert 1.5 < rows["infonce"]["operations"] < 4
    assert 1 < rows["ctrl"]["operations"] < 2
    assert rows["loss_truncation"]["operations"] == pytest.approx(1, abs=0.05)
    assert capsys.readouterr().out.count("\n") == 5
