"""The figures agree with each other as far as the paper's roundings do."""

import statistics

import pytest

from faith_jax.datasets.raw.true_benchmark import AVERAGED
from faith_jax.reproduce import nli_methods, published_nli
from faith_jax.reproduce.published_nli import AVERAGE

METHODS, DIFFERENCES = published_nli.METHODS.rows, published_nli.DIFFERENCES.rows


def test_averages_are_those_of_the_corpora():
    for rows in (METHODS, DIFFERENCES):
        for figures in rows.values():
            assert set(figures) == {*AVERAGED, AVERAGE}
            mean = statistics.fmean(figures[name] for name in AVERAGED)
            assert figures[AVERAGE] == pytest.approx(mean, abs=0.11)
    for field in ("average", "difference", "no_augmentation"):
        mean = statistics.fmean(getattr(published_nli.PHRASES[name], field) for name in AVERAGED)
        assert getattr(published_nli.PHRASES[AVERAGE], field) == pytest.approx(mean, abs=0.11)


def test_tables_agree_with_each_other():
    for name, draws in published_nli.PHRASES.items():
        original = METHODS[("all",)][name]
        assert draws.difference == pytest.approx(draws.average - original, abs=0.01)
        assert draws.lowest <= draws.average <= draws.highest
    for name in ("no_mc", "all", "t5_anli"):
        assert published_nli.COSTS[name].auc == METHODS[(name,)][AVERAGE]
    # The paper has these two the other way round in its tables 1 and 4.
    assert published_nli.COSTS["q2"].auc == METHODS[("summac_zs",)][AVERAGE]
    assert published_nli.COSTS["summac_zs"].auc == METHODS[("q2",)][AVERAGE]


def test_names_are_ours():
    known = {*nli_methods.METHODS, *nli_methods.ENSEMBLES}
    assert {name for (name,) in METHODS} <= known
    assert {name for (name,) in DIFFERENCES} == set(nli_methods.MODIFICATIONS)
    assert METHODS[("all",)]["dialfact"] == 92.5
    assert DIFFERENCES[("augmented",)]["qags_c"] == 3.5
    assert published_nli.PHRASES["mnbm"].no_augmentation == 75.1
