"""What a word is where texts are counted and compared without a tokenizer."""

import re
from collections.abc import Collection

_WORD = re.compile("\\w+(?:['\u2019]\\w+)*")
_ID_EST = re.compile(r"\bi\.\s?e\b", re.IGNORECASE)
_APOSTROPHE = re.compile("['\u2019]")
# What Steen 2023 counts as the first person (section 5.1, table 3).
STEEN_PRONOUNS = frozenset({"i"})
FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself"})


def lower_words(text: str) -> list[str]:
    """Returns the words of a text in lower case; an apostrophe inside a word belongs to it.

    >>> lower_words("The cat's 2 kittens - asleep!")
    ['the', "cat's", '2', 'kittens', 'asleep']
    """
    return _WORD.findall(text.lower())


def first_person_count(text: str, pronouns: Collection[str] = FIRST_PERSON) -> int:
    """Returns how many first-person singular pronouns a text holds, also in "I'm"; "i.e." is none.

    Args:
      text: the text.
      pronouns: in lower case; {"i"} counts as Steen 2023 does.

    >>> first_person_count("I'm sure that my tea, i.e. mine, is hot.")
    3
    """
    words = lower_words(_ID_EST.sub(" ", text))
    return sum(_APOSTROPHE.split(word)[0] in pronouns for word in words)
