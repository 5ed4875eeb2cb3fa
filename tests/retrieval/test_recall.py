import math

import pytest

from faith_jax.retrieval.recall import _has_half, gold_share, recall

SENTENCE = "It led the 1997 broadcast of ESPN's contest, worldwide."  # nine words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SENTENCE, True),
        ("So it led, THE 1997 - broadcast", True),  # the first five words
        ("broadcast of ESPN's contest worldwide", True),  # the last five
        ("It led the 1997", False),
        ("of ESPN's contest, worldwide", False),
        ("It led the whole 1997 broadcast", False),  # not in a row
        ("Profit led the 1997 broadcast", False),  # not at a word's beginning
        ("", False),
    ],
)
def test_a_text_has_the_first_or_the_last_half(text, expected):
    assert _has_half(text, SENTENCE) is expected


@pytest.mark.parametrize("sentence", ["", " ?!"])
def test_nothing_has_a_sentence_without_words(sentence):
    assert not _has_half("anything", sentence)


def test_the_share_of_gold_sentences_that_any_text_has():
    texts = ["Tea is a leaf. It is hot.", "Oslo is a city."]
    assert gold_share(texts, ["Tea is a leaf.", "Oslo is a city.", "Bergen rains a lot."]) == 2 / 3
    assert gold_share([], ["Tea is a leaf."]) == 0
    assert math.isnan(gold_share(texts, ["", "..."]))


def test_recall_is_the_mean_of_claims_with_gold_sentences():
    result = recall([1.0, 0.5, math.nan, 0.0, 0.5])
    assert (result.value, result.claims) == (0.5, 4)
    assert 0 <= result.interval.low < 0.5 < result.interval.high <= 1
    assert all(map(math.isnan, recall([1.0] * 5).interval))  # as 5 hits do not prove a sixth
    assert math.isnan(recall([math.nan]).value)
    assert recall([]).claims == 0
