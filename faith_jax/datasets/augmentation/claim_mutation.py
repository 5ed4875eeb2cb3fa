"""Claims that evidence no longer supports, made from supported ones (Gupta 2022, section 3.1).

The part of DialFact's weak supervision (Aug-WoW) that needs no generator: negation, substitution of
entities, antonyms of adjectives, and evidence of something else. `selection` picks from the result.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from faith_jax.core.labels import DialFactLabel
from faith_jax.datasets.augmentation.antonyms import EMOTIONS, Antonyms
from faith_jax.datasets.augmentation.draws import draw, shuffled
from faith_jax.datasets.augmentation.negation_rules import RuleClass, negations
from faith_jax.datasets.augmentation.tagging import Entity, Replacement, TaggedText, Token, replaced


class Mutation(NamedTuple):
    """A claim and its evidence after a mutation of one of the two.

    Attributes:
      kind: "negation", "entity", "antonym" or "evidence".
      claim: the text.
      evidence: the sentences.
      label: what the evidence says of the claim now.
      detail: the name of the negation rule, or what was replaced, as "old → new".
    """

    kind: str
    claim: str
    evidence: tuple[str, ...]
    label: DialFactLabel
    detail: str


def negate(
    claim: str, evidence: Sequence[str], classes: frozenset[RuleClass] = frozenset(RuleClass)
) -> Iterator[Mutation]:
    """Yields a refuted claim for each negation rule of these classes that matches a claim."""
    for name, negated in negations(claim, classes):
        yield Mutation("negation", negated, tuple(evidence), DialFactLabel.REFUTES, name)


def substitute_entity(
    claim: TaggedText,
    evidence: Sequence[str],
    sources: Sequence[TaggedText],
    example_id: str,
    seed: int = 0,
) -> Mutation | None:
    """Replaces one entity of a supported claim by one of the same type.

    The entity must be in the evidence, or the evidence would not refute the new claim.

    Args:
      claim: the claim.
      evidence: its sentences, which stay.
      sources: have the other entities: utterances of the context, sentences of the knowledge.
      example_id: the draw depends on it and the seed alone.
      seed: of the draw.

    Returns:
      None if no entity can be replaced.
    """
    stated = [entity for entity in claim.entities if _stands_in(entity.text, evidence)]
    for position in shuffled(len(stated), seed, example_id, "entity"):
        entity = stated[position]
        others = _others(entity, claim, sources)
        if others:
            new = others[draw(len(others), seed, example_id, "substitute", entity.text)]
            return _refuted("entity", claim, evidence, entity, new)
    return None


def _others(entity: Entity, claim: TaggedText, sources: Sequence[TaggedText]) -> list[str]:
    """Returns entities of the same type that the claim does not name, each once."""
    found = {
        other.text.casefold(): other.text
        for source in sources
        for other in source.entities
        if other.type == entity.type and not _stands_in(other.text, [claim.text])
    }
    return [text for key, text in found.items() if key not in entity.text.casefold()]


def substitute_adjective(
    claim: TaggedText, evidence: Sequence[str], antonyms: Antonyms, example_id: str, seed: int = 0
) -> Mutation | None:
    """Replaces one adjective of a supported claim, but none of feelings, by an antonym.

    A capital at the start stays. Arguments and result are those of `substitute_entity`, and
    `antonyms` comes from `antonyms.load_antonyms`.
    """
    adjectives = [
        token
        for token in claim.tokens
        if token.part == "ADJ" and not {token.text.lower(), token.lemma} & EMOTIONS
    ]
    for position in shuffled(len(adjectives), seed, example_id, "adjective"):
        token = adjectives[position]
        known = antonyms(token.text.lower())
        if known:
            new = known[draw(len(known), seed, example_id, "antonym", token.text.lower())]
            new = new.capitalize() if token.text[:1].isupper() else new
            return _refuted("antonym", claim, evidence, token, new)
    return None


def swap_evidence(
    claim: str,
    evidence: Sequence[str],
    pool: Sequence[Sequence[str]],
    example_id: str,
    seed: int = 0,
) -> Mutation | None:
    """Replaces the evidence by another claim's that shares no sentence with it.

    Args:
      claim: stays.
      evidence: its sentences.
      pool: evidence of claims about other things.
      example_id: the draw depends on it and the seed alone.
      seed: of the draw.

    Returns:
      None if the pool has no other evidence.
    """
    others = [other for other in pool if other and set(evidence).isdisjoint(other)]
    if not others:
        return None
    new = tuple(others[draw(len(others), seed, example_id, "evidence")])
    detail = f"{' '.join(evidence)} \u2192 {' '.join(new)}"
    return Mutation("evidence", claim, new, DialFactLabel.NOT_ENOUGH_INFO, detail)


def _refuted(
    kind: str, claim: TaggedText, evidence: Sequence[str], old: Entity | Token, new: str
) -> Mutation:
    text = replaced(claim.text, [Replacement(old.start, old.end, old.text, new)])
    detail = f"{old.text} \u2192 {new}"
    return Mutation(kind, text, tuple(evidence), DialFactLabel.REFUTES, detail)


def _stands_in(text: str, sentences: Sequence[str]) -> bool:
    """Whether one of the sentences contains a text as whole words, in any case."""
    words = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)
    return any(words.search(sentence) for sentence in sentences)
