import numpy as np
import pytest

from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.scoring.registry import load_scorer
from faith_jax.scoring.sentences.groundedness import BIGRAMS, CONTENT, ENTAILMENT

PASSAGES = (
    "The battery of the lamp lasts ten hours. It is charged by a cable in two hours.",
    "The lamp weighs 300 grams. Its glass may be washed in warm water.",
)


@pytest.fixture(scope="module")
def scorer():
    return load_scorer("groundedness")


def score(scorer, response, passages=PASSAGES):
    return scorer.score([passages], [response])[0]


def entailment(pairs):
    classify = pair_classifier("mini_nli")
    probabilities, _ = classify(pairs)
    return probabilities[:, classify.label_names.index("entailment")]


def test_the_score_is_the_weighted_mean_of_its_parts(scorer):
    first = "The battery of the lamp lasts nine hours."
    second = "It weighs 350 grams."
    # Of battery, lamp, lasts, nine, hours, weighs, 350, grams the grounding lacks two.
    content = 6 / 8
    # Of eleven pairs of words: the battery, battery of, of the, the lamp, lamp lasts (no: "lamp
    # lasts" stands there), lasts nine, nine hours, hours it, it weighs, weighs 350, 350 grams.
    bigrams = 6 / 11
    sentences = [
        "The battery of the lamp lasts ten hours.",
        "It is charged by a cable in two hours.",
        "The lamp weighs 300 grams.",
        "Its glass may be washed in warm water.",
    ]
    of_first = [sentences[0], sentences[1], sentences[2], " ".join(sentences[:2])]
    of_second = [sentences[2], sentences[0], sentences[1], " ".join(sentences[1:])]
    largest = [
        max(entailment([(passage, sentence) for passage in passages]))
        for passages, sentence in ((of_first, first), (of_second, second))
    ]
    expected = CONTENT * content + ENTAILMENT * np.mean(largest) + BIGRAMS * bigrams
    # Among others, whose rows the model reads with its own.
    responses = ["It is blue. The glass is hot.", f"{first} {second}", "I do."]
    judged = scorer.score([PASSAGES] * 3, responses)[1]
    assert judged.value == pytest.approx(expected, abs=1e-5)  # a number is missing
    values = {word.word: word.score for word in judged.words}
    whole = CONTENT + ENTAILMENT
    assert values["nine"] == pytest.approx(ENTAILMENT * largest[0] / whole, abs=1e-5)
    assert values["lamp"] == pytest.approx((CONTENT + ENTAILMENT * largest[0]) / whole, abs=1e-5)
    assert values["350"] == pytest.approx(ENTAILMENT * largest[1] / whole, abs=1e-5)


def test_a_copy_has_all_but_what_the_model_doubts(scorer):
    judged = score(scorer, "The lamp weighs 300 grams.")
    assert judged.value > 0.95
    assert min(word.score for word in judged.words) > 0.9


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("The lamp weighs 300 grams.", "The lamp weighs 500 grams."),
        ("You may wash the glass in warm water.", "You may wash the glass in the dishwasher."),
    ],
)
def test_planted_errors_score_lower_and_their_words_lowest(scorer, right, wrong):
    assert score(scorer, right).value - score(scorer, wrong).value > 0.1
    lowest = min(score(scorer, wrong).words, key=lambda word: word.score)
    assert lowest.word in {"500", "dishwasher"}


def test_unrelated_passages_do_not_matter_where_enough_are_related(scorer):
    """Three sentences of the first passage share words; sentences on another subject share none."""
    own = "The bridge opened in 1932. The bridge has six arches. The bridge was painted green."
    alone = score(scorer, "The bridge has six arches.", (own,))
    foreign = "Cats sleep by day. Dogs bark at night."
    behind = score(scorer, "The bridge has six arches.", (own, foreign))
    assert behind.value == pytest.approx(alone.value, abs=1e-6)


@pytest.mark.parametrize("response", [" ", "I do."])
def test_nothing_is_said_of_responses_without_content(scorer, response):
    judged = score(scorer, response)
    assert np.isnan(judged.value)
    assert judged.undefined


def test_answers_count_only_where_there_is_nothing_else(scorer):
    answered = score(scorer, "Yes, the lamp weighs 300 grams.")
    assert [word.word for word in answered.words] == ["lamp", "weighs", "300", "grams"]
    assert [word.word for word in score(scorer, "Yes, sure.").words] == ["Yes", "sure"]


LAMP = "灯的电池可以用十个小时。"


@pytest.mark.parametrize(
    ("passage", "response", "reason"),
    [
        (LAMP, "电池可以用二十个小时。", "most of the response is in a script"),
        (LAMP, "It lasts ten hours.", "most of the grounding is in a script"),
        ("The lamp is hot.", "!!!", "the response has no words"),
        ("", "The lamp is hot.", "the grounding has no words"),
    ],
)
def test_what_cannot_be_split_into_words_is_undefined(scorer, passage, response, reason):
    judged = score(scorer, response, (passage,))
    assert np.isnan(judged.value)
    assert judged.undefined.startswith(reason)


def test_a_number_is_the_same_with_and_without_separators(scorer):
    passages = ("The battery lasts 1,000 hours.",)
    judged = score(scorer, "The battery lasts 1000 hours.", passages)
    assert min(word.score for word in judged.words) > 0.75
    other = score(scorer, "The battery lasts 1,500 hours.", passages)
    assert min(word.score for word in other.words) < 0.25


def test_content_words_have_two_names():
    ours, papers = (
        load_scorer(name).score([PASSAGES], ["The lamp weighs 500 grams."])[0]
        for name in ("content_word_precision", "npov_rouge1_hallucination")
    )
    assert ours == papers
    assert ours.value == 3 / 4
