"""Parts of speech and entities of texts, behind one small interface.

>>> tagger = load_tagger("rules")
>>> [(entity.text, entity.type) for entity in tagger.tag(["It met in Oslo in 1931."])[0].entities]
[('Oslo', 'MISC'), ('1931', 'DATE')]
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from faith_jax.core.errors import ConfigError

SPACY = "spacy:"
RULES = "rules"
DEFAULT_TAGGER = "spacy:en_core_web_sm"


class Token(NamedTuple):
    """A word with its grammar.

    Attributes:
      text: as it stands.
      start: its first character's place in the text.
      end: behind its last one.
      part: of speech, in Universal POS tags ("VERB", "ADJ"); "" = unknown.
      tag: the finer tag of the Penn Treebank ("VBZ", "JJR"); "" = unknown.
      lemma: the word's base form.
    """

    text: str
    start: int
    end: int
    part: str
    tag: str
    lemma: str


class Entity(NamedTuple):
    """A named entity; places are of characters, `type` is the tagger's ("PERSON", "DATE")."""

    text: str
    start: int
    end: int
    type: str


class NounChunk(NamedTuple):
    """A noun with what describes it ("the old harbour"); places are of characters."""

    text: str
    start: int
    end: int


class TaggedText(NamedTuple):
    """A text with its tokens, entities and noun chunks, each in order and without overlaps.

    The tagger of rules finds no noun chunks.
    """

    text: str
    tokens: tuple[Token, ...]
    entities: tuple[Entity, ...]
    noun_chunks: tuple[NounChunk, ...] = ()


class Tagger(Protocol):
    """What finds tokens and entities."""

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """Returns each text with its tokens and entities."""
        ...


def load_tagger(name: str = DEFAULT_TAGGER) -> Tagger:
    """Returns a tagger by its name.

    Args:
      name: "spacy:" and the name of an installed spaCy pipeline or a folder that holds one; or
        "rules", which needs no model: it knows numbers, dates, capitalised names (all of type
        MISC), and a few hundred verbs and adjectives, and misses the rest.

    Raises:
      ConfigError: for an unknown name, and where spaCy or its pipeline is not installed.
    """
    if name == RULES:
        from faith_jax.datasets.augmentation.rule_tagger import RuleTagger

        return RuleTagger()
    if name.startswith(SPACY):
        from faith_jax.datasets.augmentation.spacy_tagger import SpacyTagger

        return SpacyTagger(name.removeprefix(SPACY))
    raise ConfigError(
        f"There is no tagger {name!r}: expected {SPACY}PIPELINE, such as {DEFAULT_TAGGER}, or "
        f"{RULES}."
    )


class Replacement(NamedTuple):
    """A piece of a text and what takes its place."""

    start: int
    end: int
    old: str
    new: str


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """Returns the text with pieces replaced; what lies between them stays as it is.

    Where "a" or "an" stands before a piece, it agrees with what takes the piece's place.

    Args:
      text: the text.
      replacements: in order, none overlapping another.

    >>> replaced("She ate an apple.", [Replacement(11, 16, "apple", "pear")])
    'She ate a pear.'
    """
    parts, last = [], 0
    for replacement in replacements:
        between = _with_article(text[last : replacement.start], replacement.new)
        parts += [between, replacement.new]
        last = replacement.end
    return "".join([*parts, text[last:]])


_ARTICLE = re.compile(r"\b([Aa])n?(\s+)$")


def _with_article(before: str, following: str) -> str:
    """Returns the text before a word, its article at the end agreeing with the word."""
    vowel = following[:1].lower() in tuple("aeiou")
    return _ARTICLE.sub(r"\1n\2" if vowel else r"\1\2", before)
