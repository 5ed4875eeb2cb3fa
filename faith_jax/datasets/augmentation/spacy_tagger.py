"""The tagger that runs a spaCy pipeline."""

from collections.abc import Sequence
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.tagging import Entity, NounChunk, TaggedText, Token


class SpacyTagger:
    """Tags with a spaCy pipeline.

    Args:
      name: of an installed pipeline package, or a folder that holds a pipeline.

    Raises:
      ConfigError: where spaCy or the pipeline is not installed.
    """

    def __init__(self, name: str):
        self._pipeline = _loaded(name)

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """Returns each text with its tokens and entities."""
        return [_tagged(document) for document in self._pipeline.pipe(texts)]


def _loaded(name: str) -> Any:
    try:
        import spacy
    except ImportError:
        raise ConfigError(
            "spaCy is not installed; install the extra (pip install 'faith_jax[augmentation]', or "
            f"'.[augmentation]' in a clone) and python -m spacy download {name}, or choose the "
            "tagger 'rules', which needs neither."
        ) from None
    try:
        return spacy.load(name)
    except OSError as error:
        problem = str(error).split("\n")[0]
        raise ConfigError(
            f"The spaCy pipeline {name!r} cannot be loaded ({problem}). Install it: python -m "
            f"spacy download {name}; or name a folder that holds a pipeline; or choose the tagger "
            "'rules', which needs none."
        ) from None


def _tagged(document: Any) -> TaggedText:
    tokens = tuple(
        Token(t.text, t.idx, t.idx + len(t.text), t.pos_, t.tag_, t.lemma_ or t.lower_)
        for t in document
        if not t.is_space
    )
    entities = tuple(Entity(e.text, e.start_char, e.end_char, e.label_) for e in document.ents)
    chunks: tuple[NounChunk, ...] = ()
    if document.has_annotation("DEP"):  # a pipeline may have no parser
        chunks = tuple(NounChunk(c.text, c.start_char, c.end_char) for c in document.noun_chunks)
    return TaggedText(document.text, tokens, entities, chunks)
