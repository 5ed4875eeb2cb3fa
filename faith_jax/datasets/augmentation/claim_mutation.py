"""Claims that evidence refutes, made from supported ones (Gupta 2022, section 4.1.1).

Negation, substitution of entities and antonyms of adjectives need no generator; masks are for one
to fill. `selection` picks from the result.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from faith_jax.datasets.augmentation.antonyms import EMOTIONS, Antonyms
from faith_jax.datasets.augmentation.draws import draw, shuffled
from faith_jax.datasets.augmentation.negation_rules import RuleClass, negations
from faith_jax.datasets.augmentation.tagging import Entity, Replacement, TaggedText, Token, replaced


class Mutation(NamedTuple):
    """A claim that the evidence of another one refutes.

    Attributes:
      kind: "negation", "entity" or "antonym".
      claim: the text.
      detail: the name of the negation rule, or what was replaced, as "old → new".
    """

    kind: str
    claim: str
    detail: str


def negate(claim: str, classes: frozenset[RuleClass] = frozenset(RuleClass)) -> Iterator[Mutation]:
    """Yields a refuted claim for each negation rule of these classes that matches a claim."""
    for name, negated in negations(claim, classes):
        yield Mutation("negation", negated, name)


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
      evidence: its sentences.
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
            return _refuted("entity", claim, entity, new)
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
    claim: TaggedText, antonyms: Antonyms, example_id: str, seed: int = 0
) -> Mutation | None:
    """Replaces one adjective of a supported claim, but none of feelings, by an antonym.

    A capital at the start stays.

    Args:
      claim: the claim.
      antonyms: from `antonyms.load_antonyms`.
      example_id: the draw depends on it and the seed alone.
      seed: of the draw.

    Returns:
      None if no adjective has an antonym.
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
            return _refuted("antonym", claim, token, new)
    return None


_SENTINEL = "<extra_id_{}>"
_SENTINELS = re.compile(r"<extra_id_(\d+)>")
_SALIENT = frozenset({"NOUN", "PROPN", "VERB", "ADJ", "NUM"})
_MOST_MASKS = 3


def masked(claim: TaggedText, evidence: Sequence[str]) -> str | None:
    """Returns a claim without the words that its evidence has too, as a T5 fills them in.

    Of entities, numbers, nouns, verbs and adjectives in the evidence the first three are masked.
    The authors' masker is a model that tells which words make a claim supported.

    >>> from faith_jax.datasets.augmentation.tagging import load_tagger
    >>> (claim,) = load_tagger("rules").tag(["It met in Oslo in 1931."])
    >>> masked(claim, ["The club met in Oslo in 1931."])
    'It <extra_id_0> in <extra_id_1> in <extra_id_2>.'
    """
    spans = {(e.start, e.end) for e in claim.entities if _stands_in(e.text, evidence)}
    for token in claim.tokens:
        inside = any(start <= token.start < end for start, end in spans)
        if token.part in _SALIENT and not inside and _stands_in(token.text, evidence):
            spans.add((token.start, token.end))
    chosen = sorted(spans)[:_MOST_MASKS]
    text = claim.text
    for number, (start, end) in reversed(list(enumerate(chosen))):
        text = text[:start] + _SENTINEL.format(number) + text[end:]
    return text if chosen else None


def filled(masked_claim: str, answer: str) -> str | None:
    """Returns a masked claim with what a T5 puts in; None where it lacks a mask or has nothing.

    >>> filled("It <extra_id_0> in <extra_id_1>.", "<extra_id_0> lives <extra_id_1> Rome")
    'It lives in Rome.'
    """
    _, *parts = _SENTINELS.split(answer)
    told = dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
    wanted = _SENTINELS.findall(masked_claim)
    if not all(told.get(number) for number in wanted):
        return None
    return _SENTINELS.sub(lambda match: told[match.group(1)], masked_claim)


def _refuted(kind: str, claim: TaggedText, old: Entity | Token, new: str) -> Mutation:
    text = replaced(claim.text, [Replacement(old.start, old.end, old.text, new)])
    return Mutation(kind, text, f"{old.text} \u2192 {new}")


def _stands_in(text: str, sentences: Sequence[str]) -> bool:
    """Whether one of the sentences contains a text as whole words, in any case."""
    words = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)
    return any(words.search(sentence) for sentence in sentences)
