import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.words import (
    SENTENCE_RULES,
    first_person_count,
    is_blank,
    lower_words,
    split_sentences,
    unicode_words,
    visible,
)
from faith_jax.runs.judges import standalone_score


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat's 2 kittens - asleep!", ["the", "cat's", "2", "kittens", "asleep"]),
        ("I\u2019m here; 'quoted'", ["i\u2019m", "here", "quoted"]),
        ("Äpfel\nund Öl", ["äpfel", "und", "öl"]),
        ("... !", []),
    ],
)
def test_words(text, words):
    assert lower_words(text) == words


@given(st.text(st.characters(exclude_categories=["M", "Cn"])))
def test_only_marks_make_other_words_than_re(text):
    assert lower_words(text) == re.findall("\\w+(?:['\u2019]\\w+)*", text.lower())


def test_marks_belong_to_their_words():
    assert lower_words("cafe\u0301 \u0939\u093f\u0928\u094d\u0926\u0940") == [
        "cafe\u0301", "\u0939\u093f\u0928\u094d\u0926\u0940",
    ]  # fmt: skip


def test_unicode_words_with_offsets():
    text = "Don't pay 2,000.5 \u732b\u304c\u30de\u30c3\u30c8\u3002 \u0e41\u0e21\u0e27 ok."
    words = list(unicode_words(text))
    assert [word.text for word in words] == [
        "don't", "pay", "2,000.5", "\u732b", "\u304c", "\u30de\u30c3\u30c8",
        "\u0e41", "\u0e21", "\u0e27", "ok",
    ]  # fmt: skip
    assert [text[word.start : word.end].lower() for word in words] == [word.text for word in words]
    assert [word.text for word in unicode_words("\ufb01ne Stra\u00dfe \uff11\uff12")] == [
        "fine", "strasse", "12",
    ]  # fmt: skip
    assert not list(unicode_words("?! \u2615"))


def test_what_is_not_seen():
    assert visible("a\u200bb\u200c\u200d\u202e\u2069\ufeff\u00ad\ufe0f\u034fc") == "abc"
    assert visible("\u0601\u0661 caf\u00e9\u0301") == "\u0601\u0661 caf\u00e9\u0301"
    assert all(map(is_blank, ["", " \n\u00a0", "\u200b \u2067"]))
    assert not is_blank("\u200b.")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("I do.", 1),
        ("so do i", 1),
        ("I'm, i\u2019ve", 2),
        ("It is MINE! By myself (me).", 3),
        ("my-my", 2),
        ("", 0),
        ("It is mined, i.e. dug; I.E. found, i. e. ours.", 0),
        ("we, us, our, Mimi's", 0),
    ],
)
def test_first_person_pronouns(text, count):
    assert first_person_count(text) == count


def test_abbreviations_with_dots_inside_do_not_end_sentences():
    text = "J.K. Rowling, e.g. The U.S.A. and Ph.D.'s in Washington, D.C. on Monday, a.k.a. work."
    assert split_sentences(text) == [text]
    assert len(split_sentences("It shut in D.C. The end. He has a B.A. He left.")) == 4
    assert len(split_sentences("N.A.S.A. flew it to Op. 27 in Bonn. She sat.")) == 2


# Full stops of Chinese, Japanese (a quotation that goes on), Hindi and Arabic.
SENTENCES = [
    ["\u732b\u5728\u8fd9\u3002", "\u72d7\uff1f\uff01", "\u662f\u3002"],
    ["\u732b\u3067\u3059\u3002", "\u300c\u306f\u3044\u3002\u300d\u3068\u8a00\u3063\u305f\u3002"],
    ["\u092f\u0939 \u090f\u0915 \u0939\u0948\u0964 ", "\u0935\u0939 3.5 \u0939\u0948\u0964"],
    ["\u0647\u0644 \u0647\u0630\u0627\u061f ", "\u0646\u0639\u0645."],
]


@pytest.mark.parametrize("sentences", SENTENCES)
def test_full_stops_of_other_scripts(sentences):
    expected = [sentence.strip() for sentence in sentences]
    assert split_sentences("".join(sentences)) == expected
    exported = object.__new__(standalone_score.Scorer)
    exported.manifest = {"sentences": SENTENCE_RULES}
    assert exported._split_sentences("".join(sentences)) == expected
