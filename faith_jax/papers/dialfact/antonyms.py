"""Antonyms of adjectives: WordNet's through NLTK, or a short list, each chosen by its name."""

from collections.abc import Callable

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.adjectives import ANTONYM_PAIRS
from faith_jax.papers.dialfact.wordnet import is_wordnet, open_wordnet

# A word in lower case -> its antonyms, none where it has none.
Antonyms = Callable[[str], tuple[str, ...]]

# Adjectives of feelings are not substituted (Gupta 2022, section 3.1).
_EMOTIONS = """
    afraid amazed angry annoyed anxious ashamed bored calm cheerful content curious delighted
    depressed disappointed eager embarrassed excited exciting fond frightened glad grateful
    guilty happier happiest happy hopeful jealous joyful lonely mad nervous pleased proud
    relieved sad sadder scared shocked sorry stressed surprised thrilled tired unhappy upset
    worried
"""
EMOTIONS = frozenset(_EMOTIONS.split())


def load_antonyms(name: str = "wordnet") -> Antonyms:
    """Returns a function from a word to its antonyms.

    Args:
      name: "wordnet" or "wordnet:FOLDER" (adjectives, see `open_wordnet`), or "list", the short one
        of this module.

    Raises:
      ConfigError: another name, or there is no WordNet.

    >>> load_antonyms("list")("cold")
    ('hot',)
    """
    if is_wordnet(name):
        try:
            wordnet = open_wordnet(name)
        except ConfigError as error:
            raise ConfigError(f"{error} Or choose the antonyms 'list', which are fewer.") from None

        def antonyms(word: str) -> tuple[str, ...]:
            names = [
                antonym.name().replace("_", " ")
                for synset in wordnet.synsets(word, pos=wordnet.ADJ)
                for lemma in synset.lemmas()
                if lemma.name() == word
                for antonym in lemma.antonyms()
            ]
            return tuple(dict.fromkeys(names))

        return antonyms
    if name != "list":
        raise ConfigError(
            f"There are no antonyms {name!r}: expected wordnet, wordnet:FOLDER or list."
        )
    listed: dict[str, tuple[str, ...]] = {}
    for first, second in ANTONYM_PAIRS:
        listed[first] = (*listed.get(first, ()), second)
        listed[second] = (*listed.get(second, ()), first)
    return lambda word: listed.get(word, ())
