"""Cells and tables of the detection study, on scores whose figures are known."""

import dataclasses
import math

import numpy as np
import pytest

from faith_jax.evaluation.npov_detection import Key, comparisons, detections, salience_name
from faith_jax.evaluation.npov_detection_tables import FORMS, TIDY, detection_tables, joined_tidy
from faith_jax.evaluation.published import PUBLISHED
from faith_jax.evaluation.scored_corpora import Corpus
from tests.evaluation.significance_reference import hanley_mcneil_p

SIZE = 60
SLICES = {"full organic": "not annotated", "unparaphrased synthetic": ""}


def corpus(name="unparaphrased synthetic", **scores):
    """Half of the rows have a hallucination; six topics."""
    fields = tuple(
        {
            "has_hallucination": str(i % 2),
            "has_coverage_error": "0",
            "topic": str(i % 6),
            "added_argument": "",
            "hallucinated_spans": "[[0, 3]]" if i % 2 else "[]",
        }
        for i in range(SIZE)
    )
    words = tuple([[0, 3, float(i % 2 == 0), None], [4, 7, 1.0, None]] for i in range(SIZE))
    return Corpus(
        name,
        tuple(map(str, range(SIZE))),
        np.full(SIZE, math.nan),
        scores,
        ("one two",) * SIZE,
        fields,
        (("a",),) * SIZE,
        {scorer: words for scorer in scores if "rouge1" in scorer or "salience" in scorer},
    )


LABELS = np.array([1.0 - i % 2 for i in range(SIZE)])
NOISE = np.random.default_rng(0).normal(size=SIZE)
GOOD, POOR = LABELS + 0.1 * NOISE, NOISE
NAMES = ("npov_rouge1_hallucination", "salience_hallucination", "npov_hallucination")


def methods():
    return FORMS[0].scorer_names()


def test_the_others_are_compared_with_the_best():
    scores = dict(zip(NAMES, (POOR, GOOD, NOISE[::-1].copy()), strict=True))
    found = detections({"s": corpus("s", **scores)}, methods(), resamples=50)
    assert len(found) == 3
    best = found["s", "hallucination", "salience"]
    assert (best.cell.auc, best.best, best.rows, best.errors) == (1.0, True, 60, 30)
    assert math.isnan(best.p_value)
    assert comparisons(found) == 2
    rouge = found["s", "hallucination", "ROUGE"]
    alone = hanley_mcneil_p(GOOD, POOR, LABELS)
    assert rouge.p_value == pytest.approx(2 * alone)  # Bonferroni, of two
    assert rouge.significant
    assert not rouge.best


def test_undefined_scores_are_left_out_of_the_comparison():
    gap = GOOD.copy()
    gap[0] = math.nan
    scores = {NAMES[0]: POOR, NAMES[1]: gap}
    found = detections({"s": corpus("s", **scores)}, methods(), resamples=50)
    assert {detection.rows for detection in found.values()} == {59}
    rouge = found["s", "hallucination", "ROUGE"]
    assert rouge.p_value == pytest.approx(hanley_mcneil_p(gap[1:], POOR[1:], LABELS[1:]))


def test_a_set_without_the_error():
    scores = {NAMES[0]: POOR, NAMES[1]: GOOD}
    given = corpus("s", **scores)
    fields = tuple({**f, "has_hallucination": "0"} for f in given.fields)
    given = dataclasses.replace(given, fields=fields)
    found = detections({"s": given}, methods(), resamples=50)
    assert comparisons(found) == 0
    assert all(math.isnan(d.cell.auc) and not d.best for d in found.values())
    text = detection_tables({"s": given}, {"s": ""}, resamples=50)[0].rows[0]
    assert text[:3] == ("s", "one class", "one class")


def test_the_form_of_the_tables():
    scores = dict(zip(NAMES, (POOR, GOOD, NOISE[::-1].copy()), strict=True))
    tables = detection_tables({c.name: c for c in [corpus(**scores)]}, SLICES, resamples=50)
    assert [table.title.rpartition("table ")[2] for table in tables] == [
        f"{n}): ROC AUC" for n in (1, 2, 3, 5, 6)
    ]
    first = tables[0]
    assert first.columns[:4] == (
        "test set", "hallucinations: ROUGE", "hallucinations: salience",
        "hallucinations: classifier",
    )  # fmt: skip
    rows = {row[0]: row[1:] for row in first.rows}
    assert rows["full organic"] == ("not annotated",) * 6
    assert rows["full organic (published)"] == (
        "0.840",
        "0.808",
        "0.953",
        "0.795",
        "0.852",
        "0.905",
    )
    ours = rows["unparaphrased synthetic"]
    assert ours[1] == "1.000* (1.000\u20131.000)"
    assert "*" not in ours[0] + ours[2]
    assert ours[3:] == ("not scored",) * 3
    assert list(rows)[2:] == ["unparaphrased synthetic", "unparaphrased synthetic (published)"]
    # Words: those at 0 are wrong where the score is 0; those at 4 never are.
    words = {row[0]: row[1:] for row in tables[2].rows}
    assert words["unparaphrased synthetic"][0].startswith("1.000 (")
    assert tables[4].columns == ("aggregation", "test set", "hallucinations", "coverage errors")
    assert tables[4].rows[0] == ("max", "full organic", "not annotated", "not annotated")
    assert tables[4].rows[1] == ("max", "full organic (published)", "0.808", "0.852")
    assert tables[4].rows[2][:2] == ("max", "unparaphrased synthetic")
    assert "Not scored: +Synth, +Para, +Dev, +Org, of which no classifier" in tables[1].notes[0]
    tidy = joined_tidy(tables)
    assert tidy.columns == TIDY
    line = dict(zip(TIDY, tidy.rows[0], strict=True))
    assert (line["table"], line["method"], line["published"]) == (1, "ROUGE", 0.772)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form.number))
def test_all_published_figures_have_their_cells(form):
    """Each figure of the paper is shown once."""
    errors = ("hallucination", "coverage")
    slices = ("full organic", "unparaphrased synthetic", "paraphrased synthetic")
    keys = [
        Key(s, e, m) for s in (*slices, "ambiguous organic") for e in errors for m in form.methods
    ]
    shown = [form.theirs(key) for key in keys if form.theirs(key) is not None]
    published = [v / 100 for row in PUBLISHED[form.published].rows.values() for v in row.values()]
    assert sorted(shown) == pytest.approx(sorted(published))
    assert len(shown) == {1: 24, 2: 16, 3: 16, 5: 4, 6: 6}[form.number]


def test_names_of_salience():
    assert salience_name("coverage", "max") == "salience_coverage"
    assert salience_name("coverage", "sum") == "salience_coverage_sum"
