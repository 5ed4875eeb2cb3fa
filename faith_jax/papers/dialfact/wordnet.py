"""WordNet, read by NLTK: its own copy, or a folder with WordNet's database."""

import functools
import pathlib
from typing import Any

from faith_jax.core.errors import ConfigError

WORDNET = "wordnet"
_INSTALL = "Install it: python -m nltk.downloader wordnet; or name a folder with its database"


def is_wordnet(name: str) -> bool:
    """Whether a name is that of WordNet: "wordnet", or "wordnet:FOLDER"."""
    return name.partition(":")[0] == WORDNET


@functools.lru_cache(maxsize=4)
def open_wordnet(name: str = WORDNET) -> Any:
    """Returns NLTK's reader of WordNet.

    Args:
      name: "wordnet", which NLTK finds, or "wordnet:FOLDER", of `data.noun`, `index.noun`,
        `noun.exc` and the other files of the database, as NLTK's package has them.

    Raises:
      ConfigError: there is none, or a file is missing or broken.
    """
    import nltk.data
    from nltk.corpus import wordnet
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):  # type: ignore[misc]  # NLTK has no types
        def map_wn(self, version: str = "") -> None:
            """Makes no map to the WordNet that NLTK has, which only other languages need."""

    folder = name.partition(":")[2]
    try:
        if folder:
            root = str(pathlib.Path(folder).expanduser().absolute())
            nltk.data.path.append(root)  # NLTK opens no files elsewhere
            reader = Reader(root, wordnet)
            for part in ("noun", "adj"):  # which NLTK opens later
                reader.open(f"data.{part}").close()
            return reader
        wordnet.ensure_loaded()
    except Exception as error:  # whatever NLTK stumbles over in files that are not WordNet's
        problem = (str(error).strip().splitlines() or [type(error).__name__])[0]
        where = f"{folder}: no complete WordNet ({problem})" if folder else "no complete WordNet"
        raise ConfigError(f"{where}. {_INSTALL}.") from None
    return wordnet
