"""Words and sentences of texts that are counted and compared without a tokenizer.

NLTK's Punkt splits sentences by punctuation, capitals and our list of abbreviations, without the
models that it usually downloads.
"""

import functools
import re
from collections.abc import Collection
from typing import Any

_WORD = re.compile("\\w+(?:['\u2019]\\w+)*")
_ID_EST = re.compile(r"\bi\.\s?e\b", re.IGNORECASE)
_APOSTROPHE = re.compile("['\u2019]")
# What Steen 2023 counts as the first person (section 5.1, table 3).
STEEN_PRONOUNS = frozenset({"i"})
FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself"})

# Without their last full stop, lower case.
_ABBREVIATIONS = (
    "a.m", "al", "approx", "apr", "aug", "ave", "c", "ca", "capt", "cf", "co", "col", "corp", "dec",
    "dept", "dr", "e.g", "ed", "est", "etc", "feb", "fig", "gen", "gov", "hon", "i.e", "inc", "jan",
    "jr", "jul", "jun", "lt", "ltd", "mar", "messrs", "mr", "mrs", "ms", "mt", "no", "nos", "nov",
    "oct", "p.m", "pp", "prof", "rep", "rev", "sen", "sep", "sept", "sgt", "sr", "st", "u.k", "u.n",
    "u.s", "v", "vol", "vs",
)  # fmt: skip


def lower_words(text: str) -> list[str]:
    """Returns the words of a text in lower case; an apostrophe inside a word belongs to it.

    >>> lower_words("The cat's 2 kittens - asleep!")
    ['the', "cat's", '2', 'kittens', 'asleep']
    """
    return _WORD.findall(text.lower())


def first_person_count(text: str, pronouns: Collection[str] = FIRST_PERSON) -> int:
    """Returns how many of these pronouns a text has, also in "I'm"; "i.e." is none.

    >>> first_person_count("I'm sure that my tea, i.e. mine, is hot.")
    3
    """
    words = lower_words(_ID_EST.sub(" ", text))
    return sum(_APOSTROPHE.split(word)[0] in pronouns for word in words)


@functools.cache
def _splitter() -> Any:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types.update(_ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a text, without white space around them.

    >>> split_sentences("Dr. Lee lives in the U.S. since 1994. She likes it!  Why not?")
    ['Dr. Lee lives in the U.S. since 1994.', 'She likes it!', 'Why not?']
    """
    found = (sentence.strip() for sentence in _splitter().tokenize(text))
    return [sentence for sentence in found if sentence]
