"""Words and sentences of texts, for counting and comparing without a tokenizer.

Words by Unicode's rules (UAX #29) cover all scripts. In scripts without spaces between words, each
letter with its marks is a word (Chinese, Japanese, Thai, Khmer, ...); Katakana words stay whole.

NLTK's Punkt splits sentences by punctuation, capitals and our list of abbreviations, without the
models that it usually downloads.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterator
from string import ascii_lowercase
from typing import Any, NamedTuple

import regex

from faith_jax.core.heavy_imports import light_module

# Includes marks (accents, vowel signs), which belong to a word; \w of `re` excludes them.
WORD_CHARACTER = r"\p{L}\p{M}\p{N}"
_WORD = regex.compile(f"[{WORD_CHARACTER}_]+(?:['\u2019][{WORD_CHARACTER}_]+)*")
# Zero-width spaces and joiners, direction marks, the byte order mark, soft hyphens, ... but not
# the marks in the category Cf that are written above a number.
_INVISIBLE = regex.compile(
    r"[[\p{Default_Ignorable_Code_Point}\p{Cf}]--\p{Prepended_Concatenation_Mark}]", regex.V1
)
_SEGMENT = regex.compile(r"\b.+?\b", regex.V1 | regex.WORD | regex.DOTALL)
LETTER = regex.compile(r"[\p{L}\p{N}]")
_ID_EST = re.compile(r"\bi\.\s?e\b", re.IGNORECASE)
_APOSTROPHE = re.compile("['\u2019]")
# The words that Steen 2023 counts as the first person (section 5.1, table 3).
STEEN_PRONOUNS = frozenset({"i"})
FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself"})

# In lower case, without the last full stop.
_ABBREVIATIONS = (
    "a.m", "al", "approx", "apr", "aug", "ave", "c", "ca", "capt", "cf", "co", "col", "corp", "dec",
    "dept", "dr", "e.g", "ed", "est", "etc", "feb", "fig", "gen", "gov", "hon", "i.e", "inc", "jan",
    "jr", "jul", "jun", "lt", "ltd", "mar", "messrs", "mr", "mrs", "ms", "mt", "no", "nos", "nov",
    "oct", "op", "p.m", "pp", "prof", "rep", "rev", "sen", "sep", "sept", "sgt", "sr", "st",
    "u.k", "u.n", "u.s", "v", "vol", "vs", "a.k.a", "adm", "c.i.a", "f.b.i", "j.r.r", "maj",
    "m.i.t", "n.a.s.a", "ph.d", "u.s.a", "u.s.s.r",
    *(".".join(pair) for pair in itertools.product(ascii_lowercase, repeat=2)),
)  # fmt: skip
# Abbreviations that may end a sentence, and words that may begin the next one ("6 p.m. Eastern"
# continues the sentence).
_LAST = r"co|corp|etc|inc|jr|ltd|sr|ph\.d|(?!e\.g|i\.e)\w\.\w"
_FIRST = (
    "A|After|All|Also|An|And|As|At|Before|But|By|For|From|He|Her|His|How|However|I|If|In|It|Its|"
    "Most|My|No|On|Our|She|Since|So|Some|That|The|Their|Then|There|These|They|This|Those|Today|"
    "We|What|When|Where|Which|While|Who|Why|With|You|Your"
)
# Full stops of scripts without spaces between sentences (except at the end of a quotation), and of
# scripts with spaces but other full stops (Hindi, Urdu, Arabic).
_PIECE = r".+?(?:[。！？｡]+(?![。！？｡」』”’）])|[।॥۔؟]+(?=\s)|\Z)"  # noqa: RUF001
# For other code that must split sentences in the same way without this module.
SENTENCE_RULES = {
    "abbreviations": _ABBREVIATIONS,
    "last": _LAST,
    "first": _FIRST,
    "piece": _PIECE,
}
_END = regex.compile(rf"(?<=(?<!\p{{L}})(?i:{_LAST})\.)\s+(?=(?:{_FIRST})\b)")


def lower_words(text: str) -> list[str]:
    """Returns the words of a text in lower case; an apostrophe within a word belongs to the word.

    >>> lower_words("The cat's 2 kittens - asleep!")
    ['the', "cat's", '2', 'kittens', 'asleep']
    """
    return _WORD.findall(text.lower())


class Piece(NamedTuple):
    """A word or sentence, in its original or normalised form, and its offsets in the text."""

    text: str
    start: int
    end: int


def unicode_words(text: str) -> Iterator[Piece]:
    """Yields the words of a text in any script, in NFKC with case folding.

    Reference: UAX #29, section 4.1 (default word boundaries).

    >>> [word.text for word in unicode_words("The cat's 2,000 \uff4dats: \u732b\u3060\u3002")]
    ['the', "cat's", '2,000', 'mats', '\u732b', '\u3060']
    """
    for segment in _SEGMENT.finditer(text):
        if LETTER.search(segment.group()):
            word = unicodedata.normalize("NFKC", segment.group()).casefold()
            yield Piece(word, segment.start(), segment.end())


def visible(text: str) -> str:
    """Returns a text without invisible characters, such as zero-width spaces.

    Zero-width joiners and non-joiners, which shape letters in some scripts, are dropped too; this
    does not matter if both of two compared texts lose them.

    >>> visible("fai\u200bth\u00adful")
    'faithful'
    """
    return text if text.isascii() else _INVISIBLE.sub("", text)


def comparable(text: str) -> str:
    """Returns the visible text in NFC, in which texts that look the same are the same.

    >>> comparable("cafe\u0301s") == comparable("caf\u00e9\u200bs") == "caf\u00e9s"
    True
    """
    return text if text.isascii() else unicodedata.normalize("NFC", visible(text))


def comparable_places(text: str) -> list[tuple[int, int]]:
    """Returns, for each character of `comparable(text)`, its start and end in the text.

    >>> comparable_places("e\u0301\u200bs")
    [(0, 2), (3, 4)]
    """
    shown = [place for place, character in enumerate(text) if visible(character)]
    places: list[tuple[int, int]] = []
    # NFC composes letters with their marks, but no letters that stand side by side.
    for cluster in regex.finditer(r"\X", visible(text)):
        composed = unicodedata.normalize("NFC", cluster.group())
        spans = [(place, place + 1) for place in shown[cluster.start() : cluster.end()]]
        if composed != cluster.group():
            spans = [(spans[0][0], spans[-1][1])] * len(composed)
        places += spans
    return places


def is_blank(text: str) -> bool:
    """Returns whether a text has only white space and invisible characters."""
    return not visible(text).strip()


def first_person_count(text: str, pronouns: Collection[str] = FIRST_PERSON) -> int:
    """Returns the number of pronouns in a text, including "I'm" but not "i.e.".

    >>> first_person_count("I'm sure that my tea, i.e. mine, is hot.")
    3
    """
    words = lower_words(_ID_EST.sub(" ", text))
    return sum(_APOSTROPHE.split(word)[0] in pronouns for word in words)


@functools.cache
def _build_sentence_splitter() -> Any:
    punkt = light_module("nltk.tokenize.punkt")
    parameters = punkt.PunktParameters()
    parameters.abbrev_types.update(_ABBREVIATIONS)
    return punkt.PunktSentenceTokenizer(parameters)


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a text, without white space around them.

    >>> split_sentences("Dr. Lee lives in the U.S. since 1994. She likes it!  Why not?")
    ['Dr. Lee lives in the U.S. since 1994.', 'She likes it!', 'Why not?']
    >>> split_sentences("It shuts at 6 p.m. The bar is open until 2 a.m. on Mondays.")
    ['It shuts at 6 p.m.', 'The bar is open until 2 a.m. on Mondays.']
    >>> split_sentences("J.K. Rowling, a Ph.D., went to Washington, D.C. by bus. She sat.")
    ['J.K. Rowling, a Ph.D., went to Washington, D.C. by bus.', 'She sat.']
    >>> split_sentences("\u732b\u304c\u3044\u308b\u3002\u72ac\u3082\u3044\u308b\u3002")
    ['\u732b\u304c\u3044\u308b\u3002', '\u72ac\u3082\u3044\u308b\u3002']
    """
    parts = (
        part
        for piece in re.findall(_PIECE, text, re.DOTALL)
        for sentence in _build_sentence_splitter().tokenize(piece)
        for part in _END.split(sentence)
    )
    return [sentence for part in parts if (sentence := part.strip())]


def locate_sentences(text: str) -> Iterator[Piece]:
    """Yields the sentences of a text with their offsets."""
    end = 0
    for sentence in split_sentences(text):
        # Search after the previous sentence, since a sentence may occur twice.
        start = text.index(sentence, end)
        end = start + len(sentence)
        yield Piece(sentence, start, end)
