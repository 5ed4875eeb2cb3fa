import unicodedata

import numpy as np
import pytest

from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.scoring.registry import load_scorer
from faith_jax.scoring.sentences.groundedness import BIGRAMS, CONTENT, ENTAILMENT

PASSAGES = (
    "The battery of the lamp lasts ten hours. It is charged by a cable in two hours.",
    "The lamp weighs 300 grams. Its glass may be washed in warm water.",
)


FIRST, SECOND = "The battery of the lamp lasts nine hours.", "It weighs 350 grams."
BRIDGE = "The bridge opened in 1932. The bridge has six arches. The bridge was painted green."
ARCHES, FOREIGN = "The bridge has six arches.", "Cats sleep by day. Dogs bark at night."
WEIGHT, WASHED = "The lamp weighs 300 grams.", "You may wash the glass in warm water."
PLANTED = {
    WEIGHT: "The lamp weighs 500 grams.",
    WASHED: "You may wash the glass in the dishwasher.",
}
HOURS, LAMP = ("The battery lasts 1,000 hours.",), "灯的电池可以用十个小时。"
UNDEFINED = [
    ((LAMP,), "电池可以用二十个小时。", "most of the response is in a script"),
    ((LAMP,), "It lasts ten hours.", "most of the grounding is in a script"),
    (("The lamp is hot.",), "!!!", "the response has no words"),
    (("",), "The lamp is hot.", "the grounding has no words"),
]
RESPONSES = (" ", "I do.", f"{FIRST} {SECOND}", "Yes, the lamp weighs 300 grams.", "Yes, sure.")
RESPONSES += (*PLANTED, *PLANTED.values())
CAFE, BREW = (
    "The caf\u00e9 serves cr\u00e8me br\u00fbl\u00e9e.",
    "The caf\u00e9 serves br\u00fbl\u00e9e.",
)
# The same text with separate accents, a soft hyphen and a zero-width space.
MARKED = unicodedata.normalize("NFD", BREW).replace("serves", "ser\u00adv\u200bes")
EXAMPLES = [
    *(((CAFE,), response) for response in (BREW, MARKED)),
    *((PASSAGES, response) for response in RESPONSES),
    *(((BRIDGE,), ARCHES), ((BRIDGE, FOREIGN), ARCHES)),
    *((HOURS, f"The battery lasts {number} hours.") for number in ("1000", "1,500")),
    *((passages, response) for passages, response, _ in UNDEFINED),
]


@pytest.fixture(scope="module")
def score():
    """Returns the score of one of the examples, all of which are scored together."""
    scores = load_scorer("groundedness").score(*map(list, zip(*EXAMPLES, strict=True)))
    found = dict(zip(EXAMPLES, scores, strict=True))
    return lambda response, passages=PASSAGES: found[passages, response]


def test_texts_that_look_the_same_have_the_same_score(score):
    plain, marked = score(BREW, (CAFE,)), score(MARKED, (CAFE,))
    assert marked.value == pytest.approx(plain.value)
    assert [MARKED[word.start : word.end] for word in marked.words] == [
        unicodedata.normalize("NFD", "café"),
        "ser\u00adv\u200bes",
        unicodedata.normalize("NFD", "brûlée"),
    ]


def entailment(pairs):
    classify = pair_classifier("mini_nli")
    probabilities, _ = classify(pairs)
    return probabilities[:, classify.label_names.index("entailment")]


def test_the_score_is_the_weighted_mean_of_its_parts(score):
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
    pairs = [*((passage, FIRST) for passage in of_first), *((p, SECOND) for p in of_second)]
    largest = entailment(pairs).reshape(2, 4).max(axis=1)
    expected = CONTENT * content + ENTAILMENT * np.mean(largest) + BIGRAMS * bigrams
    judged = score(f"{FIRST} {SECOND}")  # the model reads the others' rows with its own
    assert judged.value == pytest.approx(expected, abs=1e-5)  # a number is missing
    values = {word.word: word.score for word in judged.words}
    whole = CONTENT + ENTAILMENT
    assert values["nine"] == pytest.approx(ENTAILMENT * largest[0] / whole, abs=1e-5)
    assert values["lamp"] == pytest.approx((CONTENT + ENTAILMENT * largest[0]) / whole, abs=1e-5)
    assert values["350"] == pytest.approx(ENTAILMENT * largest[1] / whole, abs=1e-5)


def test_a_copy_has_all_but_what_the_model_doubts(score):
    judged = score(WEIGHT)
    assert judged.value > 0.95
    assert min(word.score for word in judged.words) > 0.9


@pytest.mark.parametrize(("right", "word"), zip(PLANTED, ("500", "dishwasher"), strict=True))
def test_planted_errors_score_lower_and_their_words_lowest(score, right, word):
    wrong = score(PLANTED[right])
    assert score(right).value - wrong.value > 0.1
    assert min(wrong.words, key=lambda word: word.score).word == word


def test_unrelated_passages_do_not_matter_where_enough_are_related(score):
    """Three sentences of the first passage share words; sentences on another subject share none."""
    alone, behind = score(ARCHES, (BRIDGE,)), score(ARCHES, (BRIDGE, FOREIGN))
    assert behind.value == pytest.approx(alone.value, abs=1e-6)


@pytest.mark.parametrize("response", [" ", "I do."])
def test_nothing_is_said_of_responses_without_content(score, response):
    judged = score(response)
    assert np.isnan(judged.value)
    assert judged.undefined


def test_answers_count_only_where_there_is_nothing_else(score):
    answered = score("Yes, the lamp weighs 300 grams.")
    assert [word.word for word in answered.words] == ["lamp", "weighs", "300", "grams"]
    assert [word.word for word in score("Yes, sure.").words] == ["Yes", "sure"]


@pytest.mark.parametrize(("passages", "response", "reason"), UNDEFINED)
def test_what_cannot_be_split_into_words_is_undefined(score, passages, response, reason):
    judged = score(response, passages)
    assert np.isnan(judged.value)
    assert judged.undefined.startswith(reason)


def test_a_number_is_the_same_with_and_without_separators(score):
    judged = score("The battery lasts 1000 hours.", HOURS)
    assert min(word.score for word in judged.words) > 0.75
    separated = score("The battery lasts 1,500 hours.", HOURS)
    assert min(word.score for word in separated.words) < 0.25


def test_content_words_have_two_names():
    ours, papers = (
        load_scorer(name).score([PASSAGES], ["The lamp weighs 500 grams."])[0]
        for name in ("content_word_precision", "npov_rouge1_hallucination")
    )
    assert ours == papers
    assert ours.value == 3 / 4
