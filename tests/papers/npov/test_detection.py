"""Chang 2024's detection study, on scores with known figures."""

import dataclasses
import json
import math

import numpy as np
import pytest

from faith_jax.core.errors import InputError
from faith_jax.papers.npov.detection import comparisons, detections, select_judged_rows
from faith_jax.papers.npov.protocols import npov_cells
from faith_jax.statistics.auc import roc_auc
from faith_jax.statistics.scored_corpora import Corpus
from tests.statistics.significance_reference import hanley_mcneil_p

# The two labels of each example: hallucination and coverage error.
KINDS = [("0", "0"), ("1", "0"), ("0", "1"), ("1", "1")] * 10


def corpus(name="npov", slices=("plain", "paraphrased"), kinds=KINDS):
    generator = np.random.default_rng(0)
    size = len(kinds)
    names = ("x_hallucination", "x_coverage", "token_f1")
    fields = tuple(
        {"has_hallucination": h, "has_coverage_error": c, "slice": slices[i % len(slices)]}
        for i, (h, c) in enumerate(kinds)
    )
    scores = {scorer: generator.normal(size=size) for scorer in names}
    ids = tuple(map(str, range(size)))
    return Corpus(name, ids, np.full(size, math.nan), scores, ids, fields)


def test_error_free_examples_against_those_with_the_error():
    scored = corpus()
    cells = npov_cells({"npov": scored}, resamples=50)
    assert list(cells) == [
        ("hallucination", "x_hallucination"),
        ("hallucination", "token_f1"),
        ("coverage", "x_coverage"),
        ("coverage", "token_f1"),
    ]
    for place, (error, scorer) in (
        (0, ("hallucination", "token_f1")),
        (1, ("coverage", "x_coverage")),
    ):
        rows = [i for i, k in enumerate(KINDS) if k == ("0", "0") or k[place] == "1"]
        labels = [int(KINDS[i] == ("0", "0")) for i in rows]
        assert len(rows) == 30
        cell = cells[error, scorer]["npov"]
        assert cell.auc == roc_auc(scored.scores[scorer][rows], labels)
        assert cell.interval.low < cell.auc < cell.interval.high


def test_equal_scores_have_no_area():
    scored = corpus()
    scored.scores["x_coverage"][:] = 0.5
    cell = npov_cells({"npov": scored}, resamples=20)["coverage", "x_coverage"]["npov"]
    assert math.isnan(cell.auc)
    assert cell.text() == "all scores equal"


def test_slices():
    scored = corpus(slices=("plain",) * 4 + ("paraphrased",) * 4)
    cells = npov_cells({"npov": scored}, "slice", resamples=20)
    assert list(cells["coverage", "x_coverage"]) == ["plain", "paraphrased"]
    part = scored.part(np.array([f["slice"] == "plain" for f in scored.fields]))
    whole = npov_cells({"plain": part}, resamples=20)
    key = ("coverage", "x_coverage")
    assert cells[key]["plain"] == whole[key]["plain"]


def test_a_slice_without_the_error_and_undefined_scores():
    scored = corpus(kinds=[("0", "0"), ("0", "1")] * 5)
    scored.scores["x_coverage"][0] = math.nan
    cells = npov_cells({"npov": scored}, resamples=20)
    assert math.isnan(cells["hallucination", "x_hallucination"]["npov"].auc)
    defined = cells["coverage", "x_coverage"]["npov"].auc
    assert defined == roc_auc(scored.scores["x_coverage"][1:], [0, 1] * 4 + [0])


def words_corpus(**spans):
    """Two responses; the first adds the second argument, and its characters 4 to 7 are invented."""
    fields = ({"added_argument": "con b", **spans}, {"added_argument": "", **spans})
    coverage = (
        [[0, 3, 1.0, 0], [4, 5, 0.0, 0], [0, 3, 0.0, 1], [4, 5, 0.5, 1]],
        [[0, 3, 1.0, 0], [4, 5, 0.5, 0]],
    )
    hallucination = ([[0, 3, 0.5, None], [4, 7, 0.5, None]], [[0, 3, 1.0, None]])
    return Corpus(
        "npov",
        ("1", "2"),
        np.full(2, math.nan),
        {"x_coverage": np.zeros(2), "x_hallucination": np.zeros(2), "plain": np.zeros(2)},
        ("one two", "one"),
        fields,
        (("pro a", "con b"), ("pro a",)),
        {"x_coverage": coverage, "x_hallucination": hallucination},
    )


def test_words_of_an_added_argument_are_not_covered():
    cells = npov_cells({"npov": words_corpus()}, resamples=20, words=True)
    assert list(cells) == [("coverage", "x_coverage")]
    # Covered words have 1, 0, 1, 0.5; uncovered ones 0 and 0.5.
    expected = roc_auc([1, 0, 1, 0.5, 0, 0.5], [1, 1, 1, 1, 0, 0])
    assert cells["coverage", "x_coverage"]["npov"].auc == expected


def test_words_in_spans_are_hallucinated():
    cells = npov_cells(
        {"npov": words_corpus(hallucinated_spans="[[5, 6]]")}, resamples=20, words=True
    )
    # In the first response only the word from 4 to 7 meets the span; in the second none does.
    area = cells["hallucination", "x_hallucination"]["npov"].auc
    assert area == roc_auc([0.5, 0.5, 1.0], [1, 0, 1])


@pytest.mark.parametrize("spans", ["5-6", "[[5]]"])
def test_spans_that_are_none(spans):
    with pytest.raises(InputError, match="row '1': field 'hallucinated_spans': expected a JSON"):
        npov_cells({"npov": words_corpus(hallucinated_spans=spans)}, words=True)


def test_bad_fields():
    with pytest.raises(InputError, match="row '0': field 'has_hallucination': expected 0 or 1"):
        npov_cells({"npov": corpus(kinds=[("yes", "0")])})
    with pytest.raises(InputError, match="has no field 'kind'"):
        npov_cells({"npov": corpus()}, "kind")
    with pytest.raises(InputError, match="Two corpora have the slice 'plain'"):
        npov_cells({"a": corpus("a"), "b": corpus("b")}, "slice")


def test_several_uncovered_arguments():
    """All four words of the first response's arguments are uncovered, none of the second's."""
    scored = words_corpus()
    fields = ({"added_argument": json.dumps(["pro a", "con b"])}, {"added_argument": "[x] y"})
    scored = dataclasses.replace(scored, fields=fields)
    words = select_judged_rows(scored, "x_coverage", "coverage", words=True).values()
    assert [word.label for word in words] == [0] * 4 + [1] * 2
    cell = npov_cells({"npov": scored}, resamples=20, words=True)["coverage", "x_coverage"]["npov"]
    # Of 8 pairs: 1.0 is above three of 1, 0, 0, .5 and equal to one; .5 above two, equal to one.
    assert cell.auc == pytest.approx((3.5 + 2.5) / 8)


def test_clusters_are_drawn_whole():
    scored, methods = corpus(), {"f1": dict.fromkeys(("hallucination", "coverage"), "token_f1")}

    def cell(topics, cluster_field="topic"):
        fields = [{**f, "topic": t} for f, t in zip(scored.fields, topics, strict=True)]
        rows = {"npov": dataclasses.replace(scored, fields=tuple(fields))}
        detected = detections(rows, methods, resamples=20, cluster_field=cluster_field)
        return detected["npov", "coverage", "f1"].cell

    one_cluster = cell(["one"] * len(scored.ids))
    assert all(map(math.isnan, one_cluster.interval))  # there is one draw only
    alone = npov_cells({"npov": scored}, resamples=20)["coverage", "token_f1"]["npov"]
    assert cell(scored.ids) == cell(scored.ids, "") == alone
    with pytest.raises(InputError, match="no field 'kind'"):
        cell(scored.ids, "kind")


SIZE = 60


def hallucinated(name="unparaphrased synthetic", **scores):
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


METHODS = {
    name: {error: f"{scorer}_{error}" for error in ("hallucination", "coverage")}
    for name, scorer in (("ROUGE", "npov_rouge1"), ("salience", "salience"), ("classifier", "npov"))
}


def test_the_others_are_compared_with_the_best():
    scores = dict(zip(NAMES, (POOR, GOOD, NOISE[::-1].copy()), strict=True))
    detected = detections({"s": hallucinated("s", **scores)}, METHODS, resamples=50)
    assert len(detected) == 3
    best = detected["s", "hallucination", "salience"]
    assert (best.cell.auc, best.best, best.rows, best.errors) == (1.0, True, 60, 30)
    assert math.isnan(best.p_value)
    assert comparisons(detected) == 2
    rouge = detected["s", "hallucination", "ROUGE"]
    alone = hanley_mcneil_p(GOOD, POOR, LABELS)
    assert rouge.p_value == pytest.approx(2 * alone)  # Bonferroni, of two
    assert rouge.significant
    assert not rouge.best


def test_undefined_scores_are_left_out_of_the_comparison():
    gap = GOOD.copy()
    gap[0] = math.nan
    scores = {NAMES[0]: POOR, NAMES[1]: gap}
    detected = detections({"s": hallucinated("s", **scores)}, METHODS, resamples=50)
    assert {detection.rows for detection in detected.values()} == {59}
    rouge = detected["s", "hallucination", "ROUGE"]
    assert rouge.p_value == pytest.approx(hanley_mcneil_p(gap[1:], POOR[1:], LABELS[1:]))


def test_a_set_without_the_error():
    scores = {NAMES[0]: POOR, NAMES[1]: GOOD}
    scored = hallucinated("s", **scores)
    fields = tuple({**f, "has_hallucination": "0"} for f in scored.fields)
    scored = dataclasses.replace(scored, fields=fields)
    detected = detections({"s": scored}, METHODS, resamples=50)
    assert comparisons(detected) == 0
    assert all(math.isnan(d.cell.auc) and not d.best for d in detected.values())
