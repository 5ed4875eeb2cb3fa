"""Replacement of entities or verbs in knowledge: the first step of perturb-and-generate.

InfoNCE's negatives are generated from knowledge with changed meaning (Dziri 2022, section 5.2.1).
Substitutes have the same type (entities) or the same form (verbs) and come from other knowledge of
the same data, so that the result stays fluent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from faith_jax.datasets.augmentation.draws import draw
from faith_jax.datasets.augmentation.tagging import Replacement, TaggedText, replace_pieces

# Substitutes by the type of an entity or the Penn tag of a verb, in a fixed order.
Substitutes = Mapping[str, tuple[str, ...]]

# Auxiliaries carry tense and mood more than meaning, so they are not replaced.
AUXILIARIES = frozenset({"be", "have", "do", "can", "will", "shall", "may", "might", "must"})


class Perturbed(NamedTuple):
    """A new text, and its replacements in order, with their positions in the old text."""

    text: str
    replacements: tuple[Replacement, ...]


class _Piece(NamedTuple):
    """A piece of a text: `kind` is its type or tag, `new` its form as a substitute."""

    start: int
    end: int
    text: str
    kind: str
    new: str


def _find_entities(text: TaggedText) -> Iterator[_Piece]:
    for entity in text.entities:
        yield _Piece(entity.start, entity.end, entity.text, entity.type, entity.text)


def _find_verbs(text: TaggedText) -> Iterator[_Piece]:
    for token in text.tokens:
        verb = token.part == "VERB" and token.tag.startswith("VB")
        named = any(e.start <= token.start < e.end for e in text.entities)  # "Sun Records"
        if verb and not named and token.lemma not in AUXILIARIES:
            yield _Piece(token.start, token.end, token.text, token.tag, token.text.casefold())


def collect_entities(texts: Iterable[TaggedText]) -> Substitutes:
    """Returns all entities by type, each once ignoring case, in order of appearance."""
    return _collect_substitutes(texts, _find_entities)


def collect_verbs(texts: Iterable[TaggedText]) -> Substitutes:
    """Returns all verbs except auxiliaries by Penn tag, in lower case, in order of appearance."""
    return _collect_substitutes(texts, _find_verbs)


def _collect_substitutes(
    texts: Iterable[TaggedText], pieces: Callable[[TaggedText], Iterator[_Piece]]
) -> Substitutes:
    by_kind: dict[str, dict[str, str]] = {}
    for text in texts:
        for piece in pieces(text):
            by_kind.setdefault(piece.kind, {}).setdefault(piece.text.casefold(), piece.new)
    return {kind: tuple(forms.values()) for kind, forms in by_kind.items()}


def substitute_entities(
    text: TaggedText, substitutes: Substitutes, example_id: str, seed: int = 0, number: int = 0
) -> Perturbed | None:
    """Replaces every entity by another of its type, a repeated entity by the same each time.

    An entity is kept if there is no other of its type; None if nothing can be replaced. Substitutes
    are from `collect_entities`. Draws depend on `example_id`, the seed and `number`.
    """
    return _substitute_pieces(
        text, _find_entities(text), substitutes, seed, "entity", example_id, number
    )


def substitute_verbs(
    text: TaggedText, substitutes: Substitutes, example_id: str, seed: int = 0, number: int = 0
) -> Perturbed | None:
    """Replaces every verb except auxiliaries by another with the same Penn tag.

    A capital at the start is kept. Arguments and result are as in `substitute_entities`;
    `substitutes` are from `collect_verbs`.
    """
    return _substitute_pieces(
        text, _find_verbs(text), substitutes, seed, "verb", example_id, number
    )


def _substitute_pieces(
    text: TaggedText,
    pieces: Iterable[_Piece],
    substitutes: Substitutes,
    seed: int,
    purpose: str,
    *names: str | int,
) -> Perturbed | None:
    replacements = []
    for piece in pieces:
        identity = piece.text.casefold()
        candidates = [s for s in substitutes.get(piece.kind, ()) if s.casefold() != identity]
        if candidates:
            new = candidates[draw(len(candidates), seed, purpose, *names, piece.kind, identity)]
            if purpose == "verb" and piece.text[:1].isupper():
                new = new[:1].upper() + new[1:]
            replacements.append(Replacement(piece.start, piece.end, piece.text, new))
    if not replacements:
        return None
    return Perturbed(replace_pieces(text.text, replacements), tuple(replacements))
