"""Rare words and repeated phrases for the sentences of `mini`'s corpus.

A model that has often read one word, and never a similar one, writes the first in place of the
second. The corpus therefore replaces some words of its sentences by words that occur nowhere:
random pieces of the vocabulary, so that each piece is copied now and then, misspelt words, names,
numbers, abbreviations, accents. Sentences about one subject also share words, and a model that
copies must not jump from one sentence to another at a shared word. So some sentences get words and
phrases of each other.
"""

import random
import re
import string
import unicodedata
from collections.abc import Sequence

_WORD = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)
_VOWELS, _CONSONANTS = "aeiou", "bcdfghjklmnprstvwz"
# A Latin letter with an accent takes two tokens, one per byte. All of these letters are drawn, so
# that a model learns every byte.
_ACCENTED = "".join(c for c in map(chr, range(0xC0, 0x180)) if c.isalpha())
_SHARES = (0.03, 0.1, 0.4, 0.9)  # shares of the words that are replaced


def noisy(sentences: Sequence[str], pieces: Sequence[str], rng: random.Random) -> list[str]:
    """Returns the sentences unchanged in three of ten draws, otherwise with noise.

    Words are replaced, or shared among sentences. Some sentences also get other punctuation or a
    repeated phrase.

    Args:
      sentences: the sentences of an example.
      pieces: pieces of the vocabulary, with "▁" for a space.
      rng: the random generator.
    """
    noisy_sentences = list(sentences)
    kind = rng.random()
    if kind < 0.3:
        return noisy_sentences
    if kind < 0.75:
        share = rng.choice(_SHARES)
        noisy_sentences = [
            _with_rare_words(sentence, share, pieces, rng) for sentence in noisy_sentences
        ]
    if kind > 0.6:
        noisy_sentences = _with_shared_words(noisy_sentences, pieces, rng)
    if rng.random() < 0.4:
        noisy_sentences = [
            _with_punctuation(s, rng) if rng.random() < 0.6 else s for s in noisy_sentences
        ]
    if rng.random() < 0.4:
        noisy_sentences = [
            _with_repeated_words(s, rng) if rng.random() < 0.6 else s for s in noisy_sentences
        ]
    return noisy_sentences


def sentence_of_pieces(pieces: Sequence[str], rng: random.Random) -> str:
    """Returns a sentence of random pieces, many of them rare in texts."""
    words = [_plain_piece(pieces, rng) for _ in range(rng.randint(6, 20))]
    return words[0][:1].upper() + words[0][1:] + " " + " ".join(words[1:]) + "."


def _with_rare_words(sentence: str, share: float, pieces: Sequence[str], rng: random.Random) -> str:
    words = sentence.split()
    return " ".join(
        _replace_word(word, rare_word(word, pieces, rng)) if rng.random() < share else word
        for word in words
    )


def _with_punctuation(sentence: str, rng: random.Random) -> str:
    """Puts a semicolon, a dash, quotation marks or parentheses into a sentence."""
    words = sentence.split()
    place = rng.randrange(max(1, len(words) - 1))
    before, core, after = _match(words[place])
    if not core:
        return sentence
    if rng.random() < 0.5:
        mark = rng.choice(("; ", ": ", " \u2013 ", " \u2014 ", "\u2014", ", ", " - ", ". "))
        return " ".join([*words[:place], core]) + mark + " ".join(words[place + 1 :])
    left, right = rng.choice(('""', "\u201c\u201d", "()", "''"))
    words[place] = f"{before}{left}{core}{right}{after}"
    return " ".join(words)


def _with_repeated_words(sentence: str, rng: random.Random) -> str:
    """Replaces words of a sentence by one to three words from elsewhere in it."""
    words = sentence.split()
    if len(words) < 4:
        return sentence
    length = rng.randint(1, min(3, len(words) // 2))
    start, place = (rng.randrange(len(words) - length) for _ in range(2))
    words[place : place + length] = words[start : start + length]
    return " ".join(words)


def _replace_word(word: str, replacement: str) -> str:
    """Replaces a word but keeps its punctuation and its capital."""
    before, core, after = _match(word)
    return (
        before
        + (replacement[:1].upper() + replacement[1:] if core[:1].isupper() else replacement)
        + after
    )


def _match(word: str) -> tuple[str, str, str]:
    match = _WORD.match(word)
    assert match is not None  # it matches every text
    return match[1], match[2], match[3]


def rare_word(word: str, pieces: Sequence[str], rng: random.Random) -> str:
    """Draws a rare word, which may be made from the given one."""
    core = _match(word)[1]
    kind = rng.randrange(20)
    if kind < 2 or kind >= 12:
        return _plain_piece(pieces, rng)
    if kind < 5:
        return "".join(_plain_piece(pieces, rng) for _ in range(rng.randint(2, 3)))
    if kind < 7 and len(core) > 3:
        return _misspelt(core, rng)
    if kind == 7:
        return _syllables(rng).capitalize() + rng.choice(("", "", "'s", "\u2019s"))
    if kind == 8:
        return _number(rng)
    if kind == 9:
        letters = "".join(rng.choices(string.ascii_uppercase, k=rng.randint(2, 5)))
        return letters + rng.choice(("", "", "s", f"-{rng.randint(1, 99)}"))
    if kind == 10:
        text = core if len(core) > 3 else _syllables(rng)
        return "".join(_accented(c, rng) if rng.random() < 0.25 else c for c in text)
    return rng.choice((f"{core}-{_syllables(rng)}", f"{_syllables(rng)}-{core}", _syllables(rng)))


def _plain_piece(pieces: Sequence[str], rng: random.Random) -> str:
    return rng.choice(pieces).replace("\N{LOWER ONE EIGHTH BLOCK}", "")


def _accented(letter: str, rng: random.Random) -> str:
    """Returns a letter with an accent, most often the same letter if it has accented forms."""
    accented_letters = [c for c in _ACCENTED if unicodedata.normalize("NFD", c)[0] == letter]
    return rng.choice(accented_letters if accented_letters and rng.random() < 0.8 else _ACCENTED)


def _syllables(rng: random.Random) -> str:
    count = rng.randint(2, 4)
    return "".join(
        rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(count)
    ) + rng.choice(("", *_CONSONANTS))


def _misspelt(word: str, rng: random.Random) -> str:
    place = rng.randrange(1, len(word) - 1)
    letter = rng.choice(string.ascii_lowercase)
    return rng.choice(
        (
            word[:place] + letter + word[place:],
            word[:place] + letter + word[place + 1 :],
            word[:place] + word[place + 1 :],
            word[:place] + word[place + 1] + word[place] + word[place + 2 :],
        )
    )


def _number(rng: random.Random) -> str:
    number = rng.choice((rng.randint(2, 99), rng.randint(100, 9999), rng.randint(1900, 2030)))
    return rng.choice(
        (
            f"{number}", f"{number:,}", f"{number}%", f"£{number}", f"€{number}",
            f"${number}.{rng.randint(0, 99):02}", f"{number}.{rng.randint(0, 9)}",
            f"{number}th", f"{number}-year",
        )
    )  # fmt: skip


def _with_shared_words(
    sentences: Sequence[str], pieces: Sequence[str], rng: random.Random
) -> list[str]:
    """Puts one to three rare words into several sentences, or a phrase of one into others."""
    words = [sentence.split() for sentence in sentences]
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 3)):
            shared = rare_word(rng.choice(rng.choice(words)), pieces, rng)
            for sentence in words:
                if rng.random() < 0.7:
                    place = rng.randrange(len(sentence))
                    sentence[place] = _replace_word(sentence[place], shared)
    else:
        source = rng.choice(words)
        length = rng.randint(1, 4)
        start = rng.randrange(max(1, len(source) - length))
        phrase = source[start : start + length]
        for sentence in words:
            if sentence is not source and rng.random() < 0.6:
                place = rng.randrange(max(1, len(sentence) - 1))
                end = place + rng.randint(0, min(length, len(sentence) - 1 - place))
                sentence[place:end] = phrase
    return [" ".join(sentence) for sentence in words]
