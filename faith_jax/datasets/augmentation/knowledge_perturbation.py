"""Knowledge with other entities or other verbs: the first step of perturb-and-generate.

InfoNCE's negatives are generated from knowledge whose meaning was altered (Dziri 2022, section
5.2.1). Substitutes are of the same type (entities) or the same form (verbs) and come from other
knowledge of the same data, so that the result stays fluent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from faith_jax.datasets.augmentation.draws import draw
from faith_jax.datasets.augmentation.tagging import Replacement, TaggedText, replaced

# Substitutes by the type of an entity, or by the Penn tag of a verb, in a fixed order.
Substitutes = Mapping[str, tuple[str, ...]]

# They carry tense and mood more than meaning.
AUXILIARIES = frozenset({"be", "have", "do", "can", "will", "shall", "may", "might", "must"})


class Perturbed(NamedTuple):
    """A text after substitution.

    Attributes:
      text: the new text.
      replacements: what was replaced, in order, with its places in the old text.
    """

    text: str
    replacements: tuple[Replacement, ...]


class _Piece(NamedTuple):
    """Something in a text that can be replaced: its place, its text, its kind, what it equals."""

    start: int
    end: int
    text: str
    kind: str
    identity: str


def collect_entities(texts: Iterable[TaggedText]) -> Substitutes:
    """Returns all entities by type, each once whatever its case, in order of appearance."""
    return _collected(texts, _entities)


def collect_verbs(texts: Iterable[TaggedText]) -> Substitutes:
    """Returns all verbs in lower case by Penn tag, auxiliaries apart, in order of appearance."""
    return _collected(texts, _verbs)


def substitute_entities(
    text: TaggedText, substitutes: Substitutes, example_id: str, seed: int = 0, number: int = 0
) -> Perturbed | None:
    """Replaces every entity by another one of its type.

    Kept are the text around them, the count and the types of entities; one that occurs twice gets
    the same substitute twice. An entity without any other of its type stays.

    Args:
      text: the knowledge.
      substitutes: from `collect_entities`.
      example_id: of the example; draws depend on it and the seed alone.
      seed: another seed is another draw.
      number: of the perturbation, for several of one example.

    Returns:
      None where nothing could be replaced.
    """
    names = ("entity", example_id, number)
    return _substituted(text, _entities, substitutes, lambda piece, new: new, seed, *names)


def substitute_verbs(
    text: TaggedText, substitutes: Substitutes, example_id: str, seed: int = 0, number: int = 0
) -> Perturbed | None:
    """Replaces every verb by another one in the same form (of the same Penn tag).

    Kept are the text around them, tense and number, auxiliaries, and a capital at the start.
    Arguments and result are those of `substitute_entities`, `substitutes` from `collect_verbs`.
    """

    def fitted(piece: _Piece, new: str) -> str:
        return new[:1].upper() + new[1:] if piece.text[:1].isupper() else new

    return _substituted(text, _verbs, substitutes, fitted, seed, "verb", example_id, number)


def _substituted(
    text: TaggedText,
    pieces: Callable[[TaggedText], Iterator[_Piece]],
    substitutes: Substitutes,
    fit: Callable[[_Piece, str], str],
    seed: int,
    *names: str | int,
) -> Perturbed | None:
    found = []
    for piece in pieces(text):
        known = substitutes.get(piece.kind, ())
        others = [s for s in known if s.casefold() != piece.identity]
        if others:
            # Drawn by what it equals: the same entity gets the same substitute.
            new = others[draw(len(others), seed, *names, piece.kind, piece.identity)]
            found.append(Replacement(piece.start, piece.end, piece.text, fit(piece, new)))
    return Perturbed(replaced(text.text, found), tuple(found)) if found else None


def _entities(text: TaggedText) -> Iterator[_Piece]:
    for entity in text.entities:
        yield _Piece(*entity[1:3], entity.text, entity.type, entity.text.casefold())


def _verbs(text: TaggedText) -> Iterator[_Piece]:
    for token in text.tokens:
        verb = token.part == "VERB" and token.tag.startswith("VB")
        named = any(e.start <= token.start < e.end for e in text.entities)  # "Sun Records"
        if verb and not named and token.lemma not in AUXILIARIES:
            yield _Piece(*token[1:3], token.text, token.tag, token.text.casefold())


def _collected(
    texts: Iterable[TaggedText], pieces: Callable[[TaggedText], Iterator[_Piece]]
) -> Substitutes:
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        for piece in pieces(text):
            shown = piece.identity if pieces is _verbs else piece.text
            found.setdefault(piece.kind, {}).setdefault(piece.identity, shown)
    return {kind: tuple(by_identity.values()) for kind, by_identity in found.items()}
