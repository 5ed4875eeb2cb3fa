import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.report import panels
from faith_jax.report.panels import bin_edges, histogram_panels, roc_panel
from faith_jax.statistics.scored_corpora import Corpus


def corpus(scores, labels):
    ids = tuple(map(str, range(len(labels))))
    arrays = {name: np.array(values, float) for name, values in scores.items()}
    return Corpus("c", ids, np.array(labels, float), arrays, ids)


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=8))
def test_edges_hold_all_values(values):
    edges = bin_edges(np.array(values))
    assert edges.shape == (21,)
    assert np.all(np.isfinite(edges))
    assert np.all(np.diff(edges) >= 0)
    assert edges[0] <= min(values)
    assert edges[-1] >= max(values)
    assert np.histogram(values, edges)[0].sum() == len(values)


def test_edges_of_shares_and_of_nothing():
    np.testing.assert_allclose(bin_edges(np.array([0.1, 0.9])), np.linspace(0, 1, 21))
    assert bin_edges(np.array([0.1, 0.2]))[-1] == pytest.approx(0.2)
    assert bin_edges(np.zeros(0)).tolist() == np.linspace(0, 1, 21).tolist()
    nearly = bin_edges(np.array([1.0, 0.9999999999999999]))
    assert nearly[-1] - nearly[0] == pytest.approx(1.0)


def test_the_best_curves_over_rows_of_all_scorers(monkeypatch):
    monkeypatch.setattr(panels, "MOST_CURVES", 2)
    nan = np.nan
    scores = {"good": [0, 1, 2, 9], "bad": [2, 1, 0, 0], "gaps": [0, 2, 1, nan]}
    panel = roc_panel(corpus(scores, [0, 1, 1, 0]))
    assert list(panel.curves) == ["good", "gaps"]
    assert panel.areas == {"good": 1.0, "gaps": 1.0}
    assert (panel.left_out, panel.rows) == (1, 3)
    assert list(roc_panel(corpus({"flat": [2, 2], "a": [1, 2]}, [0, 1])).curves) == ["a"]
    one_class = roc_panel(corpus({"a": [1, 2]}, [1, 1]))
    assert (one_class.curves, one_class.rows) == ({}, 2)


def test_shares_of_each_class():
    (panel,) = histogram_panels({"c": corpus({"a": [0, 0, 1, 1]}, [0, 0, 0, 1])})
    assert panel.counts == {"faithful": 1, "not faithful": 3}
    assert panel.shares["faithful"][-1] == 1
    assert panel.shares["not faithful"][[0, -1]] == pytest.approx([2 / 3, 1 / 3])


def test_rows_without_labels_have_one_distribution():
    scores = {"a": [0, 0, 1, np.nan], "b": [0, 1, 1, 1]}
    panel, _ = histogram_panels({"c": corpus(scores, [np.nan] * 4)})
    assert panel.counts == {"no label": 3}
    assert panel.shares["no label"][[0, -1]] == pytest.approx([2 / 3, 1 / 3])


def test_panels_of_a_scorer_share_their_axes():
    first_corpus = corpus({"a": [0.1, 0.2, 0.2, 0.2], "b": [1, 2, 3, 4]}, [np.nan] * 4)
    second_corpus = corpus({"a": [5.1, 5.1, 5.0, 0.15]}, [np.nan] * 4)
    first, second, third = histogram_panels({"c": first_corpus, "d": second_corpus})
    assert [panel.scorer for panel in (first, second, third)] == ["a", "a", "b"]
    assert first.edges.tolist() == second.edges.tolist()
    assert first.edges[[0, -1]].tolist() == [0.1, 5.1]
    assert first.shares["no label"].max() == 1
    assert second.shares["no label"].max() == 0.75
    assert (first.top, second.top, third.top) == (1.0, 1.0, 0.4)
