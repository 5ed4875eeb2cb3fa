"""What a word is where texts are counted and compared without a tokenizer."""

import re

_WORD = re.compile("\\w+(?:['\u2019]\\w+)*")


def lower_words(text: str) -> list[str]:
    """Returns the words of a text in lower case; an apostrophe inside a word belongs to it.

    >>> lower_words("The cat's 2 kittens - asleep!")
    ['the', "cat's", '2', 'kittens', 'asleep']
    """
    return _WORD.findall(text.lower())
