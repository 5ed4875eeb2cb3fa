import math

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from faith_jax.evaluation.auc_table import auc_table
from faith_jax.evaluation.bootstrap import bootstrap_auc, percentile_interval
from faith_jax.evaluation.method_table import AVERAGE, method_table
from faith_jax.evaluation.scored_corpora import Corpus
from tests.evaluation import significance_reference as reference

TESTED = {"t5": ("base", "all"), "base": ("base", "all"), "gone": ("all",)}


def corpus(name, size, seed, labels=None):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size).astype(float) if labels is None else labels
    scores = {
        "t5": rng.normal(size=size),
        "base": labels + rng.normal(size=size),
        "all": 3 * labels + rng.normal(size=size),
    }
    return Corpus(name, tuple(map(str, range(size))), labels, scores)


@pytest.fixture(scope="module")
def corpora():
    return {"q2": corpus("q2", 60, 0), "frank": corpus("frank", 40, 1), "fever": corpus("f", 30, 2)}


@pytest.fixture(scope="module")
def table(corpora):
    return method_table(corpora, TESTED, ("q2", "frank", "paws"), resamples=200, seed=3)


def test_cells_are_those_of_the_auc_table(corpora, table):
    expected = auc_table({n: corpora[n] for n in ("q2", "frank")}, "t5", 200, seed=3)
    for method in ("t5", "base", "all"):
        for name in ("q2", "frank"):
            cell, same = table.cells[method][name], expected.cells[method][name]
            assert (cell.auc, cell.interval) == (same.auc, same.interval)
            if method != "t5":
                assert cell.compared["t5"].corrected == same.p_value
        average = table.cells[method][AVERAGE]
        assert average.auc == pytest.approx(expected.average[method].auc)
        assert average.interval == pytest.approx(expected.average[method].interval)
    assert table.averaged == ("q2", "frank")
    assert "fever" in table.cells["base"]


def test_differences_are_of_the_same_resamples(corpora, table):
    q2 = corpora["q2"]
    scores = [q2.scores["all"], q2.scores["base"]]
    drawn = bootstrap_auc(scores, q2.labels, 200, (3, 0))
    found = table.cells["all"]["q2"].compared["base"]
    assert found.difference == pytest.approx(
        table.cells["all"]["q2"].auc - table.cells["base"]["q2"].auc
    )
    assert found.interval == pytest.approx(percentile_interval(drawn[0] - drawn[1]))
    # Paired, it is narrower than the methods' intervals together.
    widths = [
        c.interval.high - c.interval.low for c in (table.cells[m]["q2"] for m in ("all", "base"))
    ]
    assert found.interval.high - found.interval.low < sum(widths)


def test_each_baseline_has_its_tests(corpora, table):
    compared = table.cells["all"]["q2"].compared
    assert list(compared) == ["t5", "base"]
    assert list(table.cells["base"]["q2"].compared) == ["t5"]
    assert not table.cells["t5"]["q2"].compared
    q2 = corpora["q2"]
    base, better = (
        reference.randomization_p(
            [
                reference.exchanged_differences(
                    q2.scores[method], q2.scores["t5"], q2.labels, 200, (3, 0)
                )
            ]
        )
        for method in ("base", "all")
    )
    assert compared["t5"].p_value == better
    assert compared["t5"].better
    corrected = multipletests([base, better], method="holm")[1]
    assert compared["t5"].corrected == pytest.approx(corrected[1])


def test_one_class_has_no_auc_and_does_not_count():
    ones = corpus("frank", 20, 1, np.ones(20))
    given = {"q2": corpus("q2", 30, 0), "frank": ones, "paws": corpus("paws", 30, 4)}
    found = method_table(given, TESTED, tuple(given), resamples=100)
    assert math.isnan(found.cells["all"]["frank"].auc)
    assert not found.cells["all"]["frank"].compared
    assert found.averaged == ("q2", "paws")
    alone = method_table({"q2": given["q2"]}, TESTED, ("q2",), resamples=100)
    assert AVERAGE not in alone.cells["all"]


def test_rows_without_a_score_are_left_out():
    given = corpus("q2", 30, 0)
    given.scores["base"][:4] = math.nan
    found = method_table({"q2": given}, {}, ("q2",), resamples=100)
    assert (found.rows, found.left_out) == ({"q2": 26}, {"q2": 4})


def test_methods_must_be_the_same(corpora):
    other = {"q2": corpora["q2"], "frank": corpora["frank"].only(["all"])}
    with pytest.raises(ValueError, match="other methods"):
        method_table(other, {}, ())
    with pytest.raises(ValueError, match="no corpora"):
        method_table({}, {}, ())
