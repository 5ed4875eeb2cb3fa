import sys

import pytest

from tools import benchmark_retrieval


def test_it_measures_what_it_builds(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark", "--articles=60", "--queries=5"])
    benchmark_retrieval.main()
    out = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert out[0] == ["articles", "60"]
    assert ["bm25", "100.0%"] in [line[:2] for line in out]


def test_indexes_are_compared_with_exact_search(monkeypatch, capsys):
    pytest.importorskip("faiss", reason="the extra `faiss` is not installed")
    flags = ("--vectors=1500", "--width=16", "--queries=4", "--index=Flat", "--index=IVF4,Flat")
    monkeypatch.setattr(sys, "argv", ["benchmark", *flags, "--index=IVF4,Flat:nprobe=4"])
    benchmark_retrieval.main()
    exact, flat, lists, full = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert (exact[0], exact[3]) == ("exact", "100.0")
    assert flat[0] == "Flat"
    assert "100.0" in flat
    assert "100.0" not in lists
    assert full[:2] == ["IVF4,Flat:nprobe=4", "100.0"]
