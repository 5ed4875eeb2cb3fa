import dataclasses
import math
import re

import numpy as np
import pytest
import sklearn.metrics
from scipy import stats
from statsmodels.stats.multitest import multipletests

from faith_jax.core.errors import ConfigError
from faith_jax.papers.npov.protocols import npov_rows
from faith_jax.report.table_pages import render_table
from faith_jax.statistics.auc_table import (
    AucCell,
    AucTable,
    Compared,
    auc_figures,
    auc_rows,
    auc_table,
    best_rows,
)
from faith_jax.statistics.bootstrap import NO_INTERVAL, Interval
from faith_jax.statistics.measures import EMPTY
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.units import Units
from tests.statistics import significance_reference as reference


def corpus(name, seed, rows=120, labels=None, missing=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, rows) if labels is None else labels
    noise = generator.normal(size=(3, rows))
    scores = {"good": labels + 0.5 * noise[0], "base": labels + 2 * noise[1], "chance": noise[2]}
    scores["chance"][:missing] = math.nan
    ids = tuple(map(str, range(rows)))
    fields = tuple({"document": str(i // 4)} for i in range(rows))
    return Corpus(name, ids, labels.astype(float), scores, ids, fields)


CORPORA = {"one": corpus("one", 1), "two": corpus("two", 2, missing=10)}


def p_value(cell, baseline="base"):
    return cell.compared[baseline].corrected


def better(cell, baseline="base"):
    return cell.compared[baseline].better if baseline in cell.compared else None


def test_cells_are_areas_with_their_intervals():
    table = auc_table(CORPORA)
    assert (table.rows, table.left_out) == ({"one": 120, "two": 110}, {"one": 0, "two": 10})
    for name, whole in CORPORA.items():
        part = whole.part(whole.usable())
        for scorer in table.cells:
            cell = table.cells[scorer][name]
            area = sklearn.metrics.roc_auc_score(part.labels, part.scores[scorer])
            assert cell.auc == pytest.approx(area)
            nothing = np.zeros(len(part.labels))  # whose area is 1/2 in every sample
            _, error, degrees = reference.area_difference(part.scores[scorer], nothing, part.labels)
            assert cell.interval == pytest.approx(reference.wilson(area, error, degrees))
            assert not cell.compared
        assert table.average[scorer].auc == pytest.approx(
            np.mean([table.cells[scorer][n].auc for n in CORPORA])
        )
    narrow = table.average["base"].interval
    assert narrow.high - narrow.low < max(
        c.interval.high - c.interval.low for c in table.cells["base"].values()
    )


def test_p_values_and_intervals_of_t_are_one_procedure():
    table = auc_table(CORPORA, "base")
    q = CORPORA["one"]
    for scorer in ("good", "chance"):
        value, error, degrees = reference.area_difference(
            q.scores[scorer], q.scores["base"], q.labels
        )
        compared = table.cells[scorer]["one"].compared["base"]
        assert compared.difference == pytest.approx(value)
        assert compared.p_value == pytest.approx(2 * stats.t.sf(abs(value) / error, degrees))
        half = stats.t.ppf(0.975, degrees) * error
        assert compared.interval == pytest.approx((value - half, value + half))
    # The average of two corpora: variances add, degrees are Welch's.
    parts = []
    for whole in CORPORA.values():
        part = whole.part(whole.usable())
        parts.append(
            reference.area_difference(part.scores["good"], part.scores["base"], part.labels)
        )
    variances = [error**2 / 4 for _, error, _ in parts]
    degrees = sum(variances) ** 2 / sum(
        v**2 / d for v, (*_, d) in zip(variances, parts, strict=True)
    )
    value = np.mean([difference for difference, *_ in parts])
    compared = table.average["good"].compared["base"]
    expected = 2 * stats.t.sf(value / math.sqrt(sum(variances)), degrees)
    assert (compared.difference, compared.p_value) == pytest.approx((value, expected))


def test_a_corpus_with_one_class_is_said_so_and_not_averaged():
    corpora = {
        "one": CORPORA["one"],
        "single": corpus("single", 4, rows=20, labels=np.ones(20, int)),
    }
    table = auc_table(corpora, "base", resamples=20)
    assert math.isnan(table.cells["good"]["single"].auc)
    assert table.average == {}  # of one corpus there is none
    warning = (
        "single: Warning: all 20 rows have the label 1, so that there is no AUC, and single is in "
        "no average."
    )
    assert next(note for note in auc_rows(table).notes if note.startswith("single")) == warning
    three = auc_table({**corpora, "two": CORPORA["two"]}, "base", resamples=20)
    areas = [three.cells["good"][name].auc for name in ("one", "two")]
    assert three.average["good"].auc == pytest.approx(np.mean(areas))


@pytest.mark.slow
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
        p_by_scorer = [p_value(table.average[s]) for s in ("good", "chance")]
        np.testing.assert_allclose(p_by_scorer, multipletests(p_values, method="holm")[1])
        assert [better(cell) for cell in table.average.values()] == [True, None, False]


def repeated(whole, times):
    rows = np.tile(np.arange(len(whole.ids)), times)
    documents = tuple({"document": str(row)} for row in rows)
    return dataclasses.replace(whole.part(rows), fields=documents)


@pytest.mark.parametrize("test", ["t", "approximate_randomization", "delong"])
def test_documents_of_many_rows_earn_no_stars(test):
    few = {"one": corpus("one", 7, rows=24), "two": corpus("two", 8, rows=24)}
    many = {name: repeated(whole, 20) for name, whole in few.items()}
    wrong = auc_table(many, "chance", 200, test=test)
    right = auc_table(many, "chance", 200, test=test, cluster_field="document")
    alone = auc_table(few, "chance", 200, test=test)
    assert better(wrong.cells["base"]["two"], "chance")
    assert not better(right.cells["base"]["two"], "chance")
    for name in few:
        expected = p_value(alone.cells["base"][name], "chance")
        assert p_value(right.cells["base"][name], "chance") == pytest.approx(expected, rel=0.5)
    expected = p_value(alone.average["base"], "chance")
    rel = 0.5 if test == "t" else 1e-6
    assert p_value(right.average["base"], "chance") == pytest.approx(expected, rel=rel)


def test_hanley_and_mcneil_know_no_clusters():
    with pytest.raises(ConfigError, match="t, approximate_randomization and delong can"):
        auc_table(CORPORA, "base", test="hanley_mcneil", cluster_field="document")
    groundings = {"grounding": np.arange(len(CORPORA["one"].ids)) // 10 + 1}
    shared = {"one": dataclasses.replace(CORPORA["one"], hashes=groundings)}
    warning = (
        "one: Warning: 12 groups (120 rows) share a grounding, but hanley_mcneil, with the "
        "intervals beside it, takes rows as independent; other tests do not (--test)."
    )
    assert warning in auc_table(shared, "base", test="hanley_mcneil").warnings
    for options in ({"test": "hanley_mcneil", "cluster_field": "none"}, {"test": "delong"}):
        assert warning not in auc_table(shared, "base", **options).warnings


def test_the_family_and_how_many_rounds_it_needs():
    drawn = {"baselines": "base", "test": "approximate_randomization"}
    table = auc_table(CORPORA, resamples=39, **drawn)
    assert table.tested == {"base": ["good", "chance"]}
    assert p_value(table.cells["good"]["one"]) == p_value(table.average["good"]) == 0.05
    few = auc_table(CORPORA, resamples=38, **drawn)
    assert p_value(few.cells["good"]["one"]) > 0.05
    assert auc_table(CORPORA, resamples=20).tested == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baselines": "best"}, "The baseline 'best' is none of good, base, chance"),
        ({"test": "z"}, "There is no test 'z': choose of t, approximate_randomization"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        auc_table(CORPORA, **options)


def test_corpora_with_other_scorers():
    other_corpus = Corpus("o", ("1",), np.ones(1), {"good": np.ones(1)})
    with pytest.raises(
        ValueError, match="corpus 'o' has scores of good, but 'one' of good, base"
    ) as caught:
        auc_table({"one": CORPORA["one"], "o": other_corpus})
    assert 'by "corpus": "one" in each' in str(caught.value)


TESTED = {"t5": ("base", "all"), "base": ("base", "all"), "gone": ("all",)}


def method_corpus(name, size, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size).astype(float)
    scores = {
        "t5": rng.normal(size=size),
        "base": labels + rng.normal(size=size),
        "all": 3 * labels + rng.normal(size=size),
    }
    return Corpus(name, tuple(map(str, range(size))), labels, scores)


@pytest.fixture(scope="module")
def methods():
    sizes = {"q2": 60, "frank": 40, "fever": 30}
    return {n: method_corpus(n, size, seed) for seed, (n, size) in enumerate(sizes.items())}


@pytest.fixture(scope="module")
def table(methods):
    drawn = {"seed": 3, "test": "approximate_randomization"}
    return auc_table(methods, TESTED, 200, averaged=("q2", "frank", "paws"), **drawn)


def test_several_baselines_and_some_corpora_averaged(methods, table):
    both, drawn = {n: methods[n] for n in ("q2", "frank")}, "approximate_randomization"
    alone = auc_table(both, "t5", 200, seed=3, test=drawn)
    assert table.averaged == alone.averaged == ("q2", "frank")
    for method in ("t5", "base", "all"):
        cells = [(table.cells[method][n], alone.cells[method][n]) for n in alone.rows]
        for cell, same in [*cells, (table.average[method], alone.average[method])]:
            assert (cell.auc, cell.interval) == (same.auc, same.interval)
            assert cell.compared.get("t5") == same.compared.get("t5")
    assert "fever" in table.cells["base"]


def test_each_baseline_has_its_tests(methods, table):
    compared = table.cells["all"]["q2"].compared
    assert list(compared) == ["t5", "base"]
    assert list(table.cells["base"]["q2"].compared) == ["t5"]
    assert not table.cells["t5"]["q2"].compared
    q2 = methods["q2"]
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
    assert compared["t5"].better_uncorrected
    corrected = multipletests([base, better], method="holm")[1]
    assert compared["t5"].corrected == pytest.approx(corrected[1])


@pytest.mark.slow
def test_the_best_scorer_is_tested_against_each_other_one():
    q = CORPORA["one"]
    for baseline in ("", "good"):
        table = auc_table(CORPORA, baseline)
        best = table.best["one"]
        assert (best.scorer, list(best.others)) == ("good", ["base", "chance"])
        pairs = [("good", "base"), ("good", "chance"), ("base", "chance")]
        p_values = []
        for pair in pairs:
            scores = (q.scores[name] for name in pair)
            value, error, degrees = reference.area_difference(*scores, q.labels)
            p_values.append(2 * stats.t.sf(abs(value) / error, degrees))
        # The best is chosen by the same rows, so that all pairs count.
        corrected = multipletests(p_values, method="holm")[1]
        tests = [best.others[name] for name in ("base", "chance")]
        assert [test.p_value for test in tests] == pytest.approx(p_values[:2])
        assert [test.corrected for test in tests] == pytest.approx(corrected[:2])
    text = auc_rows(table).notes[0]
    area = 100 * table.cells["good"]["one"].auc
    expected = f"one: Verdict: good has the largest AUC ({area:.1f}): better than base (p < 0.001) "
    expected += "and chance (p < 0.001); corrected over 3 pairs of scorers; 120 rows."
    assert text == expected
    assert [row[:3] for row in best_rows(table).rows] == [
        (column, "good", rival) for column in (*CORPORA, "average") for rival in ("base", "chance")
    ]


def test_why_a_corpus_with_one_faithful_row_has_no_interval():
    labels = np.array([1.0] + 9 * [0.0])
    corpus = Corpus("c", tuple("abcdefghij"), labels, {"a": np.arange(10.0)})
    table = auc_table({"c": corpus})
    assert table.cells["a"]["c"].interval == NO_INTERVAL
    assert any("c: its faithful rows are one unit" in note for note in auc_rows(table).notes)
    assert not any("one unit" in note for note in auc_rows(auc_table(CORPORA)).notes)


def test_empty_answers_are_counted_by_unit():
    """Of ten documents with twenty rows, three have blank answers."""
    labels = np.arange(200) % 2.0
    documents = np.repeat(np.arange(1, 11), 20)
    corpus = Corpus(
        "c",
        tuple(map(str, range(200))),
        labels,
        {"a": np.random.default_rng(0).normal(size=200)},
        is_empty=(documents <= 3) * 1.0,
        hashes={"grounding": documents, "question": documents},
    )
    (cells,) = (row for row in auc_rows(auc_table({"c": corpus})).rows if row[0] == EMPTY)
    share, low, high = map(float, re.findall(r"[\d.]+", cells[1]))
    assert share == 30.0
    assert (low, high) == (pytest.approx(8.7, abs=0.1), pytest.approx(65.8, abs=0.1))


def test_scorers_with_the_same_area_share_the_first_place():
    labels = np.arange(40) % 2.0
    order = np.random.default_rng(0).normal(size=40) + labels
    scores = {"one": order, "worse": -order, "two": 2 * order}
    corpus = Corpus("c", tuple(map(str, range(40))), labels, scores)
    verdict = auc_rows(auc_table({"c": corpus})).notes[0]
    assert verdict.startswith("c: Verdict: one and two have the largest AUC (")
    assert "): better than worse (p < 0.001); corrected" in verdict
    without = auc_rows(auc_table({"c": corpus.only(["one", "two"])})).notes[0]
    assert re.fullmatch(
        r"c: Verdict: one and two have the largest AUC \([\d.]+\); 40 rows.", without
    )


def test_scorers_that_are_silent_on_other_rows_are_compared_where_both_speak():
    """A scorer without scores for the rows it orders wrongly is not better than its twin."""
    generator = np.random.default_rng(1)
    labels = np.arange(60) % 2.0
    twin = labels + generator.normal(size=60)
    wrong = (twin > 0.5) != (labels == 1)
    silent = np.where(wrong, math.nan, twin)
    corpus = Corpus("c", tuple(map(str, range(60))), labels, {"twin": twin, "silent": silent})
    table = auc_table({"c": corpus}, "twin")
    comparison = table.cells["silent"]["c"].compared["twin"]
    assert (comparison.difference, comparison.p_value) == (0, 1)
    assert (table.rows["c"], table.left_out["c"]) == (60 - wrong.sum(), wrong.sum())
    share = 100 * wrong.mean()
    t_test = stats.ttest_1samp(100.0 * wrong, 0)
    low, high = t_test.confidence_interval()
    expected = f"+{share:.1f}* (+{low:.1f} to +{high:.1f}), p < 0.001"
    assert table.missing_shares["silent \u2212 twin: undefined, %"]["c"] == expected
    assert (
        f"silent is undefined in {share:.1f}% of the rows with a label, twin in 0.0% (p < 0."
        in (table.warnings[0])
    )
    counted = auc_table({"c": corpus}, "twin", undefined=0.5)
    assert (counted.rows["c"], counted.warnings) == (60, ())
    expected = sklearn.metrics.roc_auc_score(labels, np.where(wrong, 0.5, twin))
    assert counted.cells["silent"]["c"].auc == pytest.approx(expected)


@pytest.mark.parametrize("test", ["t", "approximate_randomization"])
def test_equal_scores_have_no_area_and_are_compared_with_none(test):
    """Ties count half: a certain 0.5 would look like a measured AUC."""
    corpora = {
        name: dataclasses.replace(
            whole, scores={**whole.scores, "flat": np.full(120, 0.25 if name == "one" else 0.75)}
        )
        for name, whole in CORPORA.items()
    }
    half = {"one": corpora["one"], "two": dataclasses.replace(corpora["two"], scores=dict(
        corpora["two"].scores, flat=corpora["two"].scores["base"]
    ))}  # fmt: skip
    table = auc_table(corpora, "base", 20, test=test)
    without = auc_table(CORPORA, "base", 20, test=test)
    texts = {row[0]: row[1:] for row in auc_rows(table).rows}
    assert texts["flat"] == ("all scores equal", "all scores equal", "undefined")
    assert texts["flat \u2212 base"] == ("", "", "")
    assert auc_figures(table)["corpora"]["flat"]["one"] == {
        "auc": None, "low": None, "high": None, "p_value": None, "better": False
    }  # fmt: skip
    assert table.warnings[len(without.warnings) :] == tuple(
        f"{corpus}: Warning: all scores of flat are {value}, so that its AUC is undefined; check "
        "its model and options."
        for corpus, value in (("one", 0.25), ("two", 0.75))
    )
    # The others have the figures that they have without it.
    for scorer, cells in without.cells.items():
        assert {name: cell.text("base") for name, cell in cells.items()} == {
            name: table.cells[scorer][name].text("base") for name in cells
        }
    assert table.average["good"] == without.average["good"]
    assert best_rows(table).rows == best_rows(without).rows
    assert auc_table(half, "base", 20, test=test).average["flat"].text() == "undefined"
    alone = auc_table({"one": dataclasses.replace(
        corpora["one"], scores={n: corpora["one"].scores[n] for n in ("good", "flat")}
    )})  # fmt: skip
    assert (alone.best, len(alone.warnings)) == ({}, 1)


def test_labels_that_mean_an_error_are_warned_of():
    whole = CORPORA["one"]
    turned = dataclasses.replace(whole, labels=1 - whole.labels)
    good = whole.scores["good"]
    scores = {"good": good, "rounded": good.round(), "flat": np.zeros(120)}
    both = auc_table({"one": dataclasses.replace(turned, scores=scores)})
    assert re.match("one: Warning: rows with the label 0 have higher scores", both.warnings[-1])
    # One that is as good as chance leaves it open.
    assert auc_table({"one": turned}).warnings == ()
    # So do few rows.
    few = turned.part(np.arange(120) < 6)
    assert not [w for w in auc_table({"one": few}).warnings if "label 0" in w]


NONE = AucCell(math.nan, Interval(math.nan, math.nan))
OVER_B = {"b": Compared(0.16, Interval(0.1, 0.2), 0.005, 0.01)}
AUCS = AucTable(
    {"q2": 100, "one": 5},
    {"q2": 2, "one": 0},
    {
        "a": {"q2": AucCell(0.6589, Interval(0.63, 0.6912), OVER_B), "one": NONE},
        "b": {"q2": AucCell(0.5, Interval(0.4, 0.6)), "one": NONE},
    },
    average={"a": AucCell(0.6589, Interval(0.63, 0.6912)), "b": AucCell(0.5, Interval(0.4, 0.6))},
    tested={"b": ("a",)},
)


def test_areas_in_per_cent():
    table = auc_rows(AUCS)
    assert table.columns == ("scorer", "q2", "one", "average")
    assert table.rows == (
        ("a", "65.9* (63.0\u201369.1)", "one class", "65.9 (63.0\u201369.1)"),
        ("a \u2212 b", "+16.0 (+10.0 to +20.0), p = 0.005, corrected 0.010", "", ""),
        ("b", "50.0 (40.0\u201360.0)", "one class", "50.0 (40.0\u201360.0)"),
        ("rows", "100", "5", ""),
        ("rows left out", "2", "0", ""),
    )


def test_notes_state_the_test_and_the_family_of_its_correction():
    assert auc_rows(AUCS).notes == (
        "Intervals and p-values: DeLong's standard error, for groups as Obuchowski 1997, and "
        "Student's t.",
        "Left out: rows without a label, or without a defined score of every scorer.",
        "* significantly better than b on the same rows: two-sided p \u2264 0.05 by Student's t, "
        "with Holm's correction for the 1 comparison of each corpus, and of the average, on its "
        "own.",
    )
    whole = dataclasses.replace(AUCS, average={}, left_out=dict.fromkeys(AUCS.rows, 0))
    units = {"q2": Units(np.repeat(np.arange(20), 5), "doc")}
    alone = dataclasses.replace(whole, units=units, test="delong", resamples=10)
    assert auc_rows(alone).columns == ("scorer", "q2", "one")
    assert auc_rows(alone).notes == (
        "Intervals: DeLong's standard error, for groups as Obuchowski 1997, and Student's t.",
        "q2: rows with the same doc are one unit: 20 groups of 100 rows.",
        "* significantly better than b on the same rows: two-sided p \u2264 0.05 by DeLong's test, "
        "with Holm's correction for the 1 comparison of each corpus on its own.",
        "Marks and p-values are by DeLong's test, as --test asks; they decide where the interval, "
        "which is by another procedure, says otherwise.",
    )
    assert auc_rows(dataclasses.replace(alone, tested={})).notes == auc_rows(alone).notes[:2]


def test_too_few_rounds_for_a_mark_are_told():
    few = dataclasses.replace(AUCS, resamples=18, test="delong")
    assert auc_rows(few).notes[-2:] == (
        "Averages are compared by approximate randomization of 18 rounds.",
        "So few rounds allow no mark, whatever the scores; at least 19 are needed.",
    )
    assert "rounds allow" not in auc_rows(dataclasses.replace(few, resamples=19)).notes[-1]


def test_csv_has_one_figure_in_a_cell():
    lines = render_table(auc_rows(AUCS), "csv").splitlines()
    assert lines == [
        "scorer,corpus,rows,left_out,auc,low,high,p_value,significantly_better",
        "a,q2,100,2,0.6589,0.63,0.6912,0.01,1",
        "a,one,5,0,,,,,",
        "a,average,,,0.6589,0.63,0.6912,,",
        "b,q2,100,2,0.5,0.4,0.6,,",
        "b,one,5,0,,,,,",
        "b,average,,,0.5,0.4,0.6,,",
    ]
    cells = {("coverage", "s"): {"all": AucCell(0.75, Interval(0.5, 1.0))}}
    assert render_table(npov_rows(cells), "csv").splitlines() == [
        "error,scorer,slice,auc,low,high",
        "coverage,s,all,0.75,0.5,1.0",
    ]
