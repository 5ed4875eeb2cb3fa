import collections
import random
import re
import sys
import unicodedata

from faith_jax.core.words import lower_words
from faith_jax.statistics.texts.argument_coverage import tell_arguments
from tests.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools"))
import judge_mini
import mini_noise
import mini_responses
import mini_texts

sys.path.remove(str(REPOSITORY / "tools"))

SENTENCES = [
    f"{subject} {verb} the {thing} {where}."
    for subject, verb, thing, where in (
        ("Boats", "leave", "harbour", "early"),
        ("Gulls", "follow", "trawlers", "home"),
        ("Children", "paint", "fences", "green"),
        ("Bakers", "sell", "harbour rolls", "warm"),
        ("Trains", "cross", "valleys", "slowly"),
        ("Poets", "praise", "harbour rivers", "often"),
        ("The pilots", "know", "harbour", "well"),
        ("Sailors", "fear", "the storms", "there"),
    )
] * 3
PIECES = ["\u2581centre", "\u2581ost", "lich", "ard"]
SHARING = mini_texts.sentences_by_word(SENTENCES)
TEXT = mini_texts.Text(
    SENTENCES, SENTENCES, ["Who keeps the keys?"], frozenset({"the"}), (), SHARING, list(SHARING),
    PIECES,
)  # fmt: skip


def fields_of(text):
    return dict(re.findall(r"\{(\w+): (.*?)\}", text))


def test_a_response_tells_all_arguments_once_and_says_whose_they_are():
    for seed in range(60):
        example = mini_responses.respond(TEXT, random.Random(seed))
        fields, told = fields_of(example.inputs), fields_of(example.targets)["response"]
        keys = [key for key in fields if key not in mini_responses.QUERY_KEYS]
        assert len(keys) == 2
        arguments = [fields[key] for key in keys if fields[key]]
        assert tell_arguments(told, arguments).precision(0.95) == 1, (arguments, told)
        given, words = (
            collections.Counter(lower_words(text)) for text in (" ".join(arguments), told)
        )
        assert given <= words
        assert not judge_mini.NUMBERS & (set(words) - set(lower_words(example.inputs)))
        if len(arguments) == 2:
            assert judge_mini._PRO.search(told).start() < judge_mini._CON.search(told).start()


def test_every_piece_and_kind_of_rare_word_comes_up():
    rng = random.Random(0)
    words = [mini_noise.rare_word("Harbour,", PIECES, rng) for _ in range(3000)]
    assert {"centre", "ostlich"} <= set(words)
    assert any(re.fullmatch(r"H?.?arb.*r?", word) and word != "Harbour" for word in words)
    assert any(re.fullmatch(r"[A-Z]{2,5}-\d+", word) for word in words)
    assert any(word.startswith(("£", "$", "€")) for word in words)
    assert any(set(word) & set("áàâäãåúùûüóòôöõø") for word in words)
    assert all(word and not word.isspace() and " " not in word for word in words)


def test_accents_are_mostly_those_of_the_letter():
    rng = random.Random(0)
    found = [mini_noise._accented("n", rng) for _ in range(500)]
    assert all(letter.isalpha() and ord(letter) > 127 for letter in found)
    assert {"ñ", "ń"} <= set(found)
    own = [letter for letter in found if unicodedata.normalize("NFD", letter)[0] == "n"]
    assert 350 < len(own) < 470  # 80%, and a few of the others
    assert mini_noise._accented("q", rng)  # there is none of its kind


def test_sentences_of_pieces_have_nothing_else():
    rng = random.Random(0)
    pieces = [piece.replace("\N{LOWER ONE EIGHTH BLOCK}", "") for piece in PIECES]
    for _ in range(20):
        sentence = mini_noise.sentence_of_pieces(PIECES, rng)
        words = sentence.removesuffix(".").split(" ")
        assert 6 <= len(words) <= 20
        assert set(words[1:]) <= set(pieces)
        assert not sentence[0].islower()


def test_noise_keeps_what_holds_sentences_together():
    rng = random.Random(0)
    found = [mini_noise.noisy(SENTENCES[:4], PIECES, rng) for _ in range(300)]
    assert all(len(told) == 4 for told in found)
    assert any(told == SENTENCES[:4] for told in found)
    assert any(told != SENTENCES[:4] for told in found)
    rare = [mini_noise._with_rare_words(text, 1.0, PIECES, rng) for text in SENTENCES]
    assert all(text[0].isupper() or not text[0].islower() for text in rare)
    assert all(text.endswith(".") for text in rare)


def test_words_of_some_sentences_but_not_of_many():
    assert SHARING["harbour"] == [0, 3, 5, 6, 8, 11, 13, 14, 16, 19, 21, 22]
    assert "leave" not in SHARING  # in three
