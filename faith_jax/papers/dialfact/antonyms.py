"""WordNet through NLTK, and antonyms of adjectives, from WordNet or from a short list."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.adjectives import ANTONYM_PAIRS

_WORDNET = "wordnet"
_INSTALL = "Install it: python -m nltk.downloader wordnet; or name a folder with its database"
# Maps a word in lower case to its antonyms, if any.
Antonyms = Callable[[str], tuple[str, ...]]

# Adjectives of feelings are not substituted (Gupta 2022, section 4.1.1).
_EMOTIONS = """
    afraid amazed angry annoyed anxious ashamed bored calm cheerful content curious delighted
    depressed disappointed eager embarrassed excited exciting fond frightened glad grateful
    guilty happier happiest happy hopeful jealous joyful lonely mad nervous pleased proud
    relieved sad sadder scared shocked sorry stressed surprised thrilled tired unhappy upset
    worried
"""
EMOTIONS = frozenset(_EMOTIONS.split())


def is_wordnet(name: str) -> bool:
    """Whether a name means WordNet: "wordnet" or "wordnet:FOLDER"."""
    return name.partition(":")[0] == _WORDNET


@functools.lru_cache(maxsize=4)
def open_wordnet(name: str = _WORDNET) -> Any:
    """Returns NLTK's reader of WordNet.

    Args:
      name: "wordnet", which NLTK finds, or "wordnet:FOLDER", a folder with `data.noun`,
        `index.noun`, `noun.exc` and the database's other files, as in NLTK's package.

    Raises:
      ConfigError: if there is no WordNet, or a file is missing or broken.
    """
    import nltk.data
    from nltk.corpus import wordnet
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):  # type: ignore[misc]  # NLTK has no types
        def map_wn(self, version: str = "") -> None:
            """Skips mapping to NLTK's own WordNet, which only other languages need."""

    folder = name.partition(":")[2]
    try:
        if folder:
            root = str(pathlib.Path(folder).expanduser().absolute())
            nltk.data.path.append(root)  # NLTK opens no files elsewhere
            reader = Reader(root, wordnet)
            for part in ("noun", "adj"):  # NLTK itself opens these only later
                reader.open(f"data.{part}").close()
            return reader
        wordnet.ensure_loaded()
    except Exception as error:  # NLTK may raise anything on files that are not WordNet's
        problem = (str(error).strip().splitlines() or [type(error).__name__])[0]
        where = f"{folder}: no complete WordNet ({problem})" if folder else "no complete WordNet"
        raise ConfigError(f"{where}. {_INSTALL}.") from None
    return wordnet


def load_antonyms(name: str = "wordnet") -> Antonyms:
    """Returns a function from a word to its antonyms.

    Args:
      name: "wordnet" or "wordnet:FOLDER" (adjectives, see `open_wordnet`), or "list", the short
        list of `augmentation.adjectives`.

    Raises:
      ConfigError: on another name, and if there is no WordNet.

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
