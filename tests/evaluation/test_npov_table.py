import dataclasses
import json
import math

import numpy as np
import pytest

from faith_jax.errors import InputError
from faith_jax.evaluation.npov_table import npov_cells, npov_word_cells, word_scores
from faith_jax.evaluation.roc import roc_auc
from faith_jax.evaluation.scored_corpora import Corpus

# Each example: which errors it has, and its slice.
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
    given = corpus()
    cells = npov_cells({"npov": given}, resamples=50)
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
        assert cell.auc == roc_auc(given.scores[scorer][rows], labels)
        assert cell.interval.low < cell.auc < cell.interval.high


def test_slices():
    given = corpus(slices=("plain",) * 4 + ("paraphrased",) * 4)
    cells = npov_cells({"npov": given}, "slice", resamples=20)
    assert list(cells["coverage", "x_coverage"]) == ["plain", "paraphrased"]
    part = given.part(np.array([f["slice"] == "plain" for f in given.fields]))
    whole = npov_cells({"plain": part}, resamples=20)
    key = ("coverage", "x_coverage")
    assert cells[key]["plain"] == whole[key]["plain"]


def test_a_slice_without_the_error_and_undefined_scores():
    given = corpus(kinds=[("0", "0"), ("0", "1")] * 5)
    given.scores["x_coverage"][0] = math.nan
    cells = npov_cells({"npov": given}, resamples=20)
    assert math.isnan(cells["hallucination", "x_hallucination"]["npov"].auc)
    defined = cells["coverage", "x_coverage"]["npov"].auc
    assert defined == roc_auc(given.scores["x_coverage"][1:], [0, 1] * 4 + [0])


def words_corpus(**spans):
    """Two responses; of the first the second argument was added, and the word 4-7 is made up."""
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
    cells = npov_word_cells({"npov": words_corpus()}, resamples=20)
    assert list(cells) == [("coverage", "x_coverage")]
    # Covered words have 1, 0, 1, 0.5; uncovered ones 0 and 0.5.
    expected = roc_auc([1, 0, 1, 0.5, 0, 0.5], [1, 1, 1, 1, 0, 0])
    assert cells["coverage", "x_coverage"]["npov"].auc == expected


def test_words_in_spans_are_hallucinated():
    cells = npov_word_cells({"npov": words_corpus(hallucinated_spans="[[5, 6]]")}, resamples=20)
    # In the first response only the word from 4 to 7 meets the span; in the second none does.
    found = cells["hallucination", "x_hallucination"]["npov"].auc
    assert found == roc_auc([0.5, 0.5, 1.0], [1, 0, 1])


@pytest.mark.parametrize("spans", ["5-6", "[[5]]", "3", '[["a", "b"]]'])
def test_spans_that_are_none(spans):
    with pytest.raises(InputError, match="row '1': field 'hallucinated_spans': expected a JSON"):
        npov_word_cells({"npov": words_corpus(hallucinated_spans=spans)})


def test_bad_fields():
    with pytest.raises(InputError, match="row '0': field 'has_hallucination': expected 0 or 1"):
        npov_cells({"npov": corpus(kinds=[("yes", "0")])})
    with pytest.raises(InputError, match="has no field 'kind'"):
        npov_cells({"npov": corpus()}, "kind")
    with pytest.raises(InputError, match="Two corpora have the slice 'plain'"):
        npov_cells({"a": corpus("a"), "b": corpus("b")}, "slice")


def test_several_uncovered_arguments():
    """All four words of the first response's arguments are uncovered, none of the second's."""
    given = words_corpus()
    fields = ({"added_argument": json.dumps(["pro a", "con b"])}, {"added_argument": "[x] y"})
    given = dataclasses.replace(given, fields=fields)
    words = word_scores(given, "x_coverage", "coverage")
    assert [word.wrong for word in words] == [True] * 4 + [False] * 2
    cell = npov_word_cells({"npov": given}, resamples=20)["coverage", "x_coverage"]["npov"]
    # Of 8 pairs: 1.0 is above three of 1, 0, 0, .5 and equal to one; .5 above two, equal to one.
    assert cell.auc == pytest.approx((3.5 + 2.5) / 8)


def test_clusters_are_drawn_whole():
    given = corpus()
    fields = [{**f, "topic": "one"} for f in given.fields]
    one = dataclasses.replace(given, fields=tuple(fields))
    key = ("coverage", "x_coverage")
    cell = npov_cells({"npov": one}, resamples=20, cluster_field="topic")[key]["npov"]
    assert cell.interval == pytest.approx((cell.auc, cell.auc))  # there is one draw only
    own = [{**f, "topic": str(i)} for i, f in enumerate(given.fields)]
    each = dataclasses.replace(given, fields=tuple(own))
    cells = npov_cells({"npov": each}, resamples=20, cluster_field="topic")
    assert cells[key] == npov_cells({"npov": given}, resamples=20)[key]
    with pytest.raises(InputError, match="no field 'topic'"):
        npov_cells({"npov": given}, cluster_field="topic")
