import dataclasses
import math

import numpy as np
import pytest
import sklearn.metrics
from statsmodels.stats.multitest import multipletests

from faith_jax.errors import ConfigError
from faith_jax.evaluation.auc_table import auc_table
from faith_jax.evaluation.bootstrap import bootstrap_auc
from faith_jax.evaluation.scored_corpora import Corpus
from tests.evaluation import significance_reference as reference


def corpus(name, seed, rows=120, labels=None, missing=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, rows) if labels is None else labels
    noise = generator.normal(size=(3, rows))
    scores = {
        "good": labels + 0.5 * noise[0],
        "base": labels + 2 * noise[1],
        "chance": noise[2],
    }
    scores["chance"][:missing] = math.nan
    ids = tuple(map(str, range(rows)))
    fields = tuple({"document": str(i // 4)} for i in range(rows))
    return Corpus(name, ids, labels.astype(float), scores, ids, fields)


CORPORA = {"one": corpus("one", 1), "two": corpus("two", 2, missing=10)}


def test_cells_are_areas_with_their_intervals():
    table = auc_table(CORPORA, resamples=200, seed=3)
    assert (table.rows, table.left_out) == ({"one": 120, "two": 110}, {"one": 0, "two": 10})
    for number, (name, whole) in enumerate(CORPORA.items()):
        part = whole.part(whole.usable())
        for scorer in table.scorers:
            cell = table.cells[scorer][name]
            area = sklearn.metrics.roc_auc_score(part.labels, part.scores[scorer])
            assert cell.auc == pytest.approx(area)
            areas = bootstrap_auc(part.scores[scorer][None], part.labels, 200, (3, number))
            assert cell.interval == pytest.approx(np.percentile(areas[0], [2.5, 97.5]))
            assert math.isnan(cell.p_value)
        assert table.average[scorer].auc == pytest.approx(
            np.mean([table.cells[scorer][n].auc for n in CORPORA])
        )
    narrow = table.average["base"].interval
    assert narrow.high - narrow.low < max(
        c.interval.high - c.interval.low for c in table.cells["base"].values()
    )


def test_comparisons_with_the_baseline_are_corrected_and_marked():
    table = auc_table(CORPORA, "base", resamples=50, test="delong")
    for name, whole in CORPORA.items():
        part = whole.part(whole.usable())
        p_values = [
            reference.delong_p(part.scores[s], part.scores["base"], part.labels)
            for s in ("good", "chance")
        ]
        found = [table.cells[s][name].p_value for s in ("good", "chance")]
        np.testing.assert_allclose(found, multipletests(p_values, method="holm")[1])
        assert [table.cells[s][name].better for s in table.scorers] == [True, False, False]
    assert auc_table(CORPORA, "base", resamples=99).cells["good"]["one"].p_value == 0.02


def test_a_corpus_with_one_class_is_said_so_and_not_averaged():
    corpora = {
        "one": CORPORA["one"],
        "single": corpus("single", 4, rows=20, labels=np.ones(20, int)),
    }
    table = auc_table(corpora, "base", resamples=20)
    assert math.isnan(table.cells["good"]["single"].auc)
    assert table.average == {}  # of one corpus there is none
    three = auc_table({**corpora, "two": CORPORA["two"]}, "base", resamples=20)
    areas = [three.cells["good"][name].auc for name in ("one", "two")]
    assert three.average["good"].auc == pytest.approx(np.mean(areas))


def test_averages_are_compared_by_exchanges_within_each_corpus():
    for test in ("approximate_randomization", "delong"):
        table = auc_table(CORPORA, "base", 200, seed=5, test=test)
        p_values = []
        for scorer in ("good", "chance"):
            parts = []
            for number, whole in enumerate(CORPORA.values()):
                part = whole.part(whole.usable())
                pair = part.scores[scorer], part.scores["base"], part.labels
                parts.append(reference.exchanged_differences(*pair, 200, (5, number)))
            p_values.append(reference.randomization_p(parts))
        found = [table.average[s].p_value for s in ("good", "chance")]
        np.testing.assert_allclose(found, multipletests(p_values, method="holm")[1])
        assert [table.average[s].better for s in table.scorers] == [True, False, False]
        assert math.isnan(table.average["base"].p_value)


def repeated(whole, times):
    rows = np.tile(np.arange(len(whole.ids)), times)
    documents = tuple({"document": str(row)} for row in rows)
    return dataclasses.replace(whole.part(rows), fields=documents)


@pytest.mark.parametrize("test", ["approximate_randomization", "delong"])
def test_documents_of_many_rows_earn_no_stars(test):
    few = {"one": corpus("one", 7, rows=24), "two": corpus("two", 8, rows=24)}
    many = {name: repeated(whole, 20) for name, whole in few.items()}
    wrong = auc_table(many, "chance", 200, test=test)
    right = auc_table(many, "chance", 200, test=test, cluster_field="document")
    alone = auc_table(few, "chance", 200, test=test)
    assert wrong.cells["base"]["two"].better
    assert not right.cells["base"]["two"].better
    for name in few:
        assert right.cells["base"][name].p_value == pytest.approx(
            alone.cells["base"][name].p_value, rel=0.5
        )
    assert right.average["base"].p_value == pytest.approx(alone.average["base"].p_value)


def test_hanley_and_mcneil_know_no_clusters():
    with pytest.raises(ConfigError, match="approximate_randomization and delong can"):
        auc_table(CORPORA, "base", test="hanley_mcneil", cluster_field="document")


def test_the_family_and_how_many_rounds_it_needs():
    table = auc_table(CORPORA, "base", resamples=39)
    assert (table.comparisons(), table.least_resamples()) == (2, 39)
    assert table.cells["good"]["one"].p_value == table.average["good"].p_value == 0.05
    assert auc_table(CORPORA, "base", resamples=38).cells["good"]["one"].p_value > 0.05
    assert auc_table(CORPORA, resamples=20).comparisons() == 0


def test_documents_are_resampled_whole():
    rows = auc_table(CORPORA, resamples=300).cells["base"]["one"].interval
    clusters = auc_table(CORPORA, resamples=300, cluster_field="document")
    assert clusters.cells["base"]["one"].interval != rows


def test_corpora_of_one_size_are_resampled_independently():
    twins = {"a": CORPORA["one"], "b": CORPORA["one"]}
    table = auc_table(twins, resamples=400)
    assert table.cells["base"]["a"].interval != table.cells["base"]["b"].interval


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": "best"}, "The baseline 'best' is none of good, base, chance"),
        ({"test": "t"}, "There is no test 't': choose of approximate_randomization"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        auc_table(CORPORA, **options)


def test_corpora_with_other_scorers():
    other = Corpus("o", ("1",), np.ones(1), {"good": np.ones(1)})
    with pytest.raises(
        ValueError, match="corpus 'o' has scores of good, but 'one' of good, base"
    ) as found:
        auc_table({"one": CORPORA["one"], "o": other})
    assert 'by "corpus": "one" in each' in str(found.value)
