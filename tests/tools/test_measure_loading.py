import re

import pytest

from tools import measure_loading


@pytest.mark.slow
@pytest.mark.devices
def test_memory_rises_by_the_shards_and_the_largest_tensor(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr(measure_loading, "LAYOUTS", ((1, 8), (2, 4)))
    assert measure_loading.main(["--gigabytes=0.3", f"--folder={tmp_path}"]) == 0
    lines = capfd.readouterr().out.splitlines()
    figures = [re.findall(r"(held|largest|rise) (\d+) MiB", line) for line in lines]
    first, *rest = [{name: int(size) for name, size in line} for line in figures]
    assert len(rest) == 2
    for process in rest:
        assert process["held"] == pytest.approx(first["held"] / 2, abs=2)
        # Less than all that the checkpoint has.
        assert process["held"] <= process["rise"] < first["held"]
    assert not list(tmp_path.iterdir())
