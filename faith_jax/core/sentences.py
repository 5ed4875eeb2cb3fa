"""Splitting texts into sentences, with NLTK's Punkt and abbreviations of our own list.

Punkt usually comes with models that are downloaded; without one it goes by punctuation, capitals
and a list of abbreviations, which is all that is needed here.
"""

import functools
from typing import Any

# Without their last full stop, lower case.
_ABBREVIATIONS = (
    "a.m", "al", "approx", "apr", "aug", "ave", "c", "ca", "capt", "cf", "co", "col", "corp", "dec",
    "dept", "dr", "e.g", "ed", "est", "etc", "feb", "fig", "gen", "gov", "hon", "i.e", "inc", "jan",
    "jr", "jul", "jun", "lt", "ltd", "mar", "messrs", "mr", "mrs", "ms", "mt", "no", "nos", "nov",
    "oct", "p.m", "pp", "prof", "rep", "rev", "sen", "sep", "sept", "sgt", "sr", "st", "u.k", "u.n",
    "u.s", "v", "vol", "vs",
)  # fmt: skip


@functools.cache
def _splitter() -> Any:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types.update(_ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a text, without white space around them; none of an empty one.

    >>> split_sentences("Dr. Lee lives in the U.S. since 1994. She likes it!  Why not?")
    ['Dr. Lee lives in the U.S. since 1994.', 'She likes it!', 'Why not?']
    """
    found = (sentence.strip() for sentence in _splitter().tokenize(text))
    return [sentence for sentence in found if sentence]
