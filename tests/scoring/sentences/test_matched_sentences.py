import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from faith_jax.core.labels import NliLabel
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.scoring.nli import nli_label_numbers
from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.scoring.registry import load_scorer
from faith_jax.scoring.sentences.matched_sentences import _match_sentences, _telling_sentences

ARGUMENTS = {
    "pro": ["Tea calms people.", "It is cheap. Poor people can afford it."],
    "con": ["Tea stains teeth."],
}
GIVEN = ["Tea calms people.", "It is cheap.", "Poor people can afford it.", "Tea stains teeth."]
RESPONSE = "Views differ. Supporters say that tea is calming. Opponents, however, note: It stains."
TOLD = ["Tea is calming.", "It stains."]
QUERY = "Should we drink tea?"
MATRICES = st.tuples(st.integers(0, 4), st.integers(0, 4)).flatmap(
    lambda shape: arrays.arrays(np.float64, shape, elements=st.floats(0, 1, width=16))
)


@settings(deadline=None)
@given(MATRICES)
def test_the_matching_has_the_largest_sum(entailment):
    num_rows, num_columns = entailment.shape
    matching = _match_sentences(entailment)
    columns = [*range(num_columns), *[None] * num_rows]
    sums = [
        sum(entailment[row, column] for row, column in enumerate(assignment) if column is not None)
        for assignment in set(itertools.permutations(columns, num_rows))
    ]
    assert matching.shape == (num_rows,)
    assert matching.sum() == pytest.approx(max(sums))


@pytest.mark.parametrize("name", ["npov_nli_hallucination", "npov_nli_coverage"])
def test_the_score_is_that_of_the_worst_pair_within_a_side(nli, name):
    classify = pair_classifier(nli)
    column = nli_label_numbers(classify.label_names)[NliLabel.ENTAILMENT]

    def entails(premise, hypothesis):
        return classify([(premise, hypothesis)])[0][0, column]

    expected = np.zeros((len(TOLD), len(GIVEN)))
    for place in [(0, 0), (0, 1), (0, 2), (1, 3)]:  # pro with pro, con with con
        pair = TOLD[place[0]], GIVEN[place[1]]
        expected[place] = (entails(*pair) + entails(*pair[::-1])) / 2
    coverage = name == "npov_nli_coverage"
    scores = _match_sentences(expected.T if coverage else expected)
    score = load_scorer(name, model=nli).score([ARGUMENTS], [RESPONSE], [[QUERY]])[0]
    assert score.value == pytest.approx(scores.min(), abs=1e-6)
    words = np.repeat(scores, [len(text.split()) for text in (GIVEN if coverage else TOLD)])
    np.testing.assert_allclose([word.score for word in score.words], words, atol=1e-6)


def sides(response, **arguments):
    example = GroundedExample("1", arguments_of(**arguments), ("Q?",), response)
    return [sentence.side for sentence in _telling_sentences(example)]


def arguments_of(**sides):
    texts = [(text, side) for side, texts in sides.items() for text in texts]
    return Grounding(tuple(text for text, _ in texts), tuple(side for _, side in texts))


def test_sides_are_told_by_who_holds_a_view():
    both = {"pro": ["A."], "con": ["B."]}
    response = (
        "Views differ. Critics say that rain is wet. They add that snow is cold. Those in favour "
        "argue: Some sun is warm. Wind blows. On the other hand, opponents note that fog is grey."
    )
    assert sides(response, **both) == ["con", "con", "pro", "pro", "con"]
    response = "Rain is wet. Some say that fog is grey. Others think that snow is cold."
    assert sides(response, **both) == ["", "pro", "con"]
    assert sides("Supporters say that rain is wet. Snow is cold.", **both) == ["", ""]
    assert sides("Critics say that rain is wet. Snow is cold.", **both) == ["con", "con"]
    assert sides("Critics say that rain is wet.", yes=["A."], no=["B."]) == [""]


def test_words_stand_in_the_response_behind_the_link_phrase(nli):
    score = load_scorer("npov_nli_hallucination", model=nli).score([ARGUMENTS], [RESPONSE])[0]
    parts = [RESPONSE[word.start : word.end] for word in score.words]
    assert parts == ["tea", "is", "calming.", "It", "stains."]
    assert {word.text for word in score.words} == {None}
    # Words of left out arguments stand in their texts.
    texts = [text for side in ARGUMENTS.values() for text in side]
    score = load_scorer("npov_nli_coverage", model=nli).score([ARGUMENTS], [RESPONSE])[0]
    assert [texts[word.text][word.start : word.end] for word in score.words] == [
        word for text in texts for word in text.split()
    ]


def test_a_response_of_framing_words_tells_nothing(nli):
    hallucination, coverage = (
        load_scorer(name, model=nli).score([ARGUMENTS], ["Views differ."])[0]
        for name in ("npov_nli_hallucination", "npov_nli_coverage")
    )
    assert math.isnan(hallucination.value)
    assert coverage.value == 0


def test_openings_are_no_arguments_and_more_sentences_than_arguments_score_0(nli):
    scorer = load_scorer("npov_nli_hallucination", model=nli)
    openings = "", "There are two views. ", "Both sides have points. "
    scores = scorer.score([ARGUMENTS] * 3, [f"{opening}{RESPONSE}" for opening in openings])
    assert [score.value for score in scores] == pytest.approx([scores[0].value] * 3, abs=1e-6)
    assert scorer.score([["Tea is hot."]], ["Tea is hot. Tea is cold."])[0].value == 0


def test_clauses_of_one_phrase_are_told_apart():
    def told(response):
        grounding = Grounding(("Tea calms.", "Tea stains teeth."), ("pro", "con"))
        example = GroundedExample("1", grounding, (), response)
        return [
            (part.text, response[part.start : part.start + 5])
            for part in _telling_sentences(example)
        ]

    both = "Critics say that tea stains teeth, and that sleep suffers."
    assert told(both) == [("Tea stains teeth", "tea s"), ("Sleep suffers.", "sleep")]
    for text in (
        "Critics say that the price of tea and that of milk rise.",  # it takes up a noun
        "Critics say: Tea stains teeth and that is bad.",  # of an argument as it was given
        "Tea stains teeth and that is bad.",
    ):
        assert len(told(text)) == 1
