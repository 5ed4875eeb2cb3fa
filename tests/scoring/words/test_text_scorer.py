"""Texts of all scripts, invisible characters and empty texts, by every scorer of texts."""

import math
import unicodedata

import pytest
import sacrebleu

from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.core.words import visible
from faith_jax.scoring.registry import load_scorer, scorer_card, scorer_names, scorer_options
from faith_jax.scoring.words.text_scorer import ALL_SCRIPTS, ASCII, SPACED_SCRIPTS
from faith_jax.statistics.texts.text_metrics import has_spacy

NAMES = [
    name
    for name in scorer_names()
    if not scorer_card(name).needs_model and (has_spacy() or name != "q2_baseline_token_f1")
]
COMPARE = [name for name in NAMES if name != "first_person_count"]
UNICODE = [name for name in NAMES if "normalization" in scorer_options(name)]
# Each response only has words of its grounding.
UNSPACED = {
    "Japanese": ("猫が座った。", "猫がマットの上に座った。"),
    "Thai": ("แมวนั่ง", "แมวนั่งบนเสื่อ"),
    "Tibetan": ("ཞི་མི་", "ཞི་མི་འདུག་གོ"),
}
SPACED = {
    "Russian": ("Кошка спит", "Кошка спит дома"),
    "Korean": ("고양이가 잔다", "고양이가 집에서 잔다"),
}


def scored(name, response, grounding, **options):
    (score,) = load_scorer(name, **options).score([grounding], [response])
    return score


@pytest.mark.parametrize("script", UNSPACED)
def test_scripts_without_spaces_are_undefined_as_published_and_scored_by_unicode(script):
    response, grounding = UNSPACED[script]
    for name in NAMES:
        score = scored(name, response, grounding)
        assert math.isnan(score.value), name
        expected = "most of the response is in a script that it cannot split into words"
        hint = "; normalization=unicode can" if name in UNICODE else ""
        assert score.undefined == expected + hint
        if name in COMPARE:
            (mixed,) = load_scorer(name).score([grounding], ["The cat sat."])
            assert mixed.undefined == expected.replace("response", "grounding") + hint, name
    for name in UNICODE:
        few = {"threshold": 0.2} if name.startswith("argument") else {}
        score = scored(name, response, grounding, normalization="unicode", **few)
        assert score.value > 0, name
        if name.endswith("precision") and name != "rouge2_precision":
            assert score.value == 1, name
        assert scored(name, response, "The cat sat.", normalization="unicode").value == 0


@pytest.mark.parametrize("script", SPACED)
def test_scripts_with_spaces_are_undefined_by_rouge_alone(script):
    response, grounding = SPACED[script]
    for name in COMPARE:
        score = scored(name, response, f"{grounding} 2024")
        assert math.isnan(score.value) == name.startswith("rouge"), name
    assert scored("token_precision", response, grounding).value == 1
    assert scored("coverage", response, grounding).value == 1
    assert scored("rouge1_precision", response, grounding, normalization="unicode").value == 1


def test_words_of_all_scripts_by_hand():
    texts = UNSPACED["Japanese"]  # five words in nine: マット is one
    bleu = sacrebleu.sentence_bleu("猫 が 座 っ た", ["猫 が マット の 上 に 座 っ た"]).score
    for name, expected in {
        "token_precision": 1,
        "token_recall": 5 / 9,
        "token_f1": 10 / 14,
        "rouge1_f1": 10 / 14,
        "rouge2_precision": 3 / 4,
        "rougeL_f1_stemmed": 10 / 14,
        "coverage": 1,
        "density": (2 * 2 + 3 * 3) / 5,
        "lexical_overlap": 1,
        "npov_rouge1_hallucination": 1,
        "npov_rouge1_coverage": 5 / 9,
        "bleu": bleu,
    }.items():
        value = scored(name, *texts, normalization="unicode").value
        assert value == pytest.approx(expected), name


def test_unicode_folds_width_and_case_and_drops_no_word():
    assert (
        scored("token_f1", "\uff34\uff25\uff21 the", "tea", normalization="unicode").value == 2 / 3
    )
    assert (
        scored("token_f1", "the cafe\u0301s", "a caf\u00e9s", normalization="unicode").value == 0.5
    )


def test_what_most_letters_are_decides():
    assert SPACED_SCRIPTS.problem("The 東京 tower", "response") == ""
    assert ASCII.problem("Crème brûlée", "response") == ""
    assert ASCII.problem("Кошка 24", "response") != "" == SPACED_SCRIPTS.problem("Кошка 24", "")
    assert ALL_SCRIPTS.problem("?! \u2615", "response") == "the response has no words"
    assert (
        SPACED_SCRIPTS.problem("\uff21\uff22 \u3131", "response") == ""
    )  # full width, single jamo


@pytest.mark.parametrize("response", ["", " \n\t\u3000", "\u200b\ufeff\u2067\u00ad\u3164"])
def test_an_empty_response_is_undefined(response):
    example = GroundedExample("a", Grounding(("Tea.",)), (), response)
    for name in NAMES:
        score = scored(name, response, "Tea.")
        assert math.isnan(score.value), name
        assert score.undefined == "the response is empty", name
        assert load_scorer(name).seen(example) is None, name


def test_invisible_characters_change_no_score():
    plain = "The cat sat, a cat!", "A cat sat on our mat; \u0645\u06cc\u0631\u0648\u0645 sat."
    marked = (
        "\ufeffThe c\u200ba\u200dt sa\u00adt, \u202ba c\u2060at\u202c!",
        "A cat\u200e sat on our mat; \u0645\u06cc\u200c\u0631\u0648\u0645 s\ufe0fat.",
    )
    assert tuple(map(visible, marked)) == plain
    for name in NAMES:
        expected, marked_score = scored(name, *plain), scored(name, *marked)
        assert marked_score.value == expected.value, name
        for word, expected_word in zip(marked_score.words, expected.words, strict=True):
            text = marked[0] if word.text is None else marked[1]
            assert text[word.start : word.end] == word.word
            assert (visible(word.word), word.score) == (expected_word.word, expected_word.score)


def test_separate_accents_change_no_score():
    plain = "Le café sert une crème brûlée, 각.", "Le café est bon; une crème brûlée, 각."
    for name in NAMES:
        expected = scored(name, *plain)
        for forms in (("NFD", "NFC"), ("NFC", "NFD"), ("NFD", "NFD")):
            texts = tuple(map(unicodedata.normalize, forms, plain))
            score = scored(name, *texts)
            assert score.value == expected.value, name
            for word, expected_word in zip(score.words, expected.words, strict=True):
                text = texts[0] if word.text is None else texts[1]
                assert text[word.start : word.end] == word.word
                assert unicodedata.normalize("NFC", word.word) == expected_word.word
