"""Claims that evidence refutes, made from supported claims (Gupta 2022, section 4.1.1).

Negation and substitution need no generator; masks are filled by one. `mutated_claims` selects from
the result.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.labels import DialFactLabel
from faith_jax.core.templates import one_space
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.augmentation.draws import draw, draw_order
from faith_jax.datasets.augmentation.tagging import (
    Entity,
    Replacement,
    TaggedText,
    TaggedToken,
    replace_pieces,
)
from faith_jax.papers.dialfact.antonyms import EMOTIONS, Antonyms
from faith_jax.papers.dialfact.negation_rules import negations
from faith_jax.papers.dialfact.senses import Senses
from faith_jax.scoring.claims import ClaimVerifier
from faith_jax.statistics.texts.text_metrics import ENGLISH_STOP_WORDS


class Mutation(NamedTuple):
    """A claim that is refuted by the evidence of the claim it was made from.

    Attributes:
      kind: "negation", "entity", "sense" or "antonym".
      claim: the text.
      detail: the name of the negation rule, or the replacement, as "old → new".
    """

    kind: str
    claim: str
    detail: str


def negate(claim: str) -> Iterator[Mutation]:
    """Yields a refuted claim for each negation rule that matches a claim."""
    for name, negated in negations(claim):
        yield Mutation("negation", negated, name)


def substitute_entity(
    claim: TaggedText,
    evidence: Sequence[str],
    sources: Sequence[TaggedText],
    example_id: str,
    seed: int = 0,
) -> Mutation | None:
    """Replaces an entity of a supported claim by another of the same type; None if impossible.

    The entity must be in the evidence, or the evidence would not refute the new claim. The new
    entity comes from `sources`: utterances of the context, sentences of the knowledge. Draws depend
    only on `example_id` and the seed.
    """
    stated = [entity for entity in claim.entities if _stands_in(entity.text, evidence)]
    for position in draw_order(len(stated), seed, example_id, "entity"):
        entity = stated[position]
        # Entities of the same type that are not in the claim, each once.
        texts = {
            candidate.text.casefold(): candidate.text
            for source in sources
            for candidate in source.entities
            if candidate.type == entity.type and not _stands_in(candidate.text, [claim.text])
        }
        substitutes = [text for key, text in texts.items() if key not in entity.text.casefold()]
        if substitutes:
            drawn = draw(len(substitutes), seed, example_id, "substitute", entity.text)
            new = substitutes[drawn]
            return _replace_in_claim("entity", claim, entity, new)
    return None


def substitute_sense(
    claim: TaggedText, evidence: Sequence[str], senses: Senses, example_id: str, seed: int = 0
) -> Mutation | None:
    """Replaces an entity of a supported claim by a text of similar sense; None if impossible.

    As in `substitute_entity`, the entity must be in the evidence; the new text must be in neither
    evidence nor claim. `senses` are from `senses.load_senses`.
    """
    stated = [
        named
        for named in _find_mentioned_entities(claim, senses)
        if _stands_in(named.text, evidence)
    ]
    for position in draw_order(len(stated), seed, example_id, "sense"):
        named = stated[position]
        candidates = senses(named.text, named.type)
        substitutes = [text for text in candidates if not _stands_in(text, [claim.text, *evidence])]
        if substitutes:
            new = substitutes[draw(len(substitutes), seed, example_id, "similar", named.text)]
            return _replace_in_claim("sense", claim, named, new)
    return None


def similar(claim: TaggedText, senses: Senses) -> list[str]:
    """Returns the texts with a sense similar to an entity of the claim, each once."""
    texts = (
        text
        for named in _find_mentioned_entities(claim, senses)
        for text in senses(named.text, named.type)
    )
    return list(dict.fromkeys(texts))


def _find_mentioned_entities(claim: TaggedText, senses: Senses) -> list[Entity]:
    """Returns the entities of a claim, and its other words that have a known sense.

    Taggers find few of the things that a claim is about: guitars and dogs are not entities.
    """
    inside = [(entity.start, entity.end) for entity in claim.entities]
    words = [
        Entity(token.text, token.start, token.end, token.part)
        for token in claim.tokens
        if token.part in ("", "NOUN", "PROPN")
        and token.text.lower() not in ENGLISH_STOP_WORDS
        and not any(start <= token.start < end for start, end in inside)
        and senses(token.text, token.part)
    ]
    return sorted([*claim.entities, *words], key=lambda entity: entity.start)


def substitute_adjective(
    claim: TaggedText, antonyms: Antonyms, example_id: str, seed: int = 0
) -> Mutation | None:
    """Replaces an adjective of a supported claim by an antonym; None if impossible.

    Adjectives of feelings are not replaced, and a capital at the start is kept. `antonyms` are from
    `antonyms.load_antonyms`; draws are as in `substitute_entity`.
    """
    adjectives = [
        token
        for token in claim.tokens
        if token.part == "ADJ" and not {token.text.lower(), token.lemma} & EMOTIONS
    ]
    for position in draw_order(len(adjectives), seed, example_id, "adjective"):
        token = adjectives[position]
        opposites = antonyms(token.text.lower())
        if opposites:
            new = opposites[draw(len(opposites), seed, example_id, "antonym", token.text.lower())]
            new = new.capitalize() if token.text[:1].isupper() else new
            return _replace_in_claim("antonym", claim, token, new)
    return None


_SENTINEL = "<extra_id_{}>"
_SENTINELS = re.compile(r"<extra_id_(\d+)>")
_SALIENT = frozenset({"NOUN", "PROPN", "VERB", "ADJ", "NUM"})
MOST_MASKS = 3

Span = tuple[int, int]  # start and end (exclusive), in characters


def stated_spans(claim: TaggedText, evidence: Sequence[str]) -> list[Span]:
    """Returns the first three entities, numbers, nouns, verbs and adjectives in the evidence."""
    spans = {(e.start, e.end) for e in claim.entities if _stands_in(e.text, evidence)}
    for token in claim.tokens:
        inside = any(start <= token.start < end for start, end in spans)
        if token.part in _SALIENT and not inside and _stands_in(token.text, evidence):
            spans.add((token.start, token.end))
    return sorted(spans)[:MOST_MASKS]


def content_spans(claim: TaggedText) -> list[Span]:
    """Returns the entities of a claim and its other words except stop words, in order."""
    spans = [(entity.start, entity.end) for entity in claim.entities]
    words = [
        (token.start, token.end)
        for token in claim.tokens
        if token.text.lower() not in ENGLISH_STOP_WORDS
        and token.text[0].isalnum()
        and not any(start <= token.start < end for start, end in spans)
    ]
    return sorted([*spans, *words])


def neutral_spans(
    verifier: ClaimVerifier, claims: Sequence[TaggedText], evidence: Sequence[tuple[str, str]]
) -> list[list[Span]]:
    """Returns the pieces of claims without which a verifier no longer finds them supported.

    Entities and words are ranked by P(neutral) of the claim without them. Of the first three, the
    fewest are masked whose removal changes the verdict to NOT ENOUGH INFO; none if the claim is not
    SUPPORTED, or no removal suffices. `evidence` has the title and the sentence of each claim.

    Gupta 2022 (section 4.1.1) uses Shah 2020's masker, a network that "predicts the tokens which
    upon masking are likely to cause a label flip from SUPPORTED to NEI". Here, a classifier of
    natural language inference directly predicts the label of the masked claim.
    """

    def verdicts(texts: Sequence[tuple[int, str]]) -> list[tuple[DialFactLabel, float]]:
        """Returns labels and P(neutral) of (claim number, text that replaces the claim) pairs."""
        rows = []
        for number, text in texts:
            title, sentence = evidence[number]
            grounding = Grounding((sentence,), (title,))
            rows.append(verifier.read(GroundedExample(str(number), grounding, (), text)))
        return [(verdict.label, verdict.probabilities[2]) for verdict in verifier.verdicts(rows)]

    spans = [content_spans(claim) for claim in claims]
    claim_verdicts = verdicts([(number, claim.text) for number, claim in enumerate(claims)])
    left_out = [
        (number, span)
        for number, (label, _) in enumerate(claim_verdicts)
        if label is DialFactLabel.SUPPORTS
        for span in spans[number]
    ]
    judged = verdicts([(n, without(claims[n].text, [span])) for n, span in left_out])
    neutral: dict[int, list[float]] = {}
    for (number, _), (_, share) in zip(left_out, judged, strict=True):
        neutral.setdefault(number, []).append(share)
    tried: list[tuple[int, list[Span]]] = []
    for number, shares in neutral.items():
        order = np.argsort(-np.array(shares), kind="stable")[:MOST_MASKS]
        best = [spans[number][place] for place in order]
        tried += [(number, sorted(best[:count])) for count in range(1, len(best) + 1)]
    spans_by_claim: list[list[Span]] = [[] for _ in claims]
    flipped = verdicts([(n, without(claims[n].text, pieces)) for n, pieces in tried])
    for (number, pieces), (label, _) in zip(tried, flipped, strict=True):
        if label is DialFactLabel.NOT_ENOUGH_INFO and not spans_by_claim[number]:
            spans_by_claim[number] = pieces
    return spans_by_claim


def without(text: str, spans: Sequence[Span]) -> str:
    """Returns a text without some of its pieces.

    >>> without("It met in Oslo.", [(10, 14)])
    'It met in .'
    """
    return one_space(_with_pieces(text, spans, lambda number: ""))


def mask_spans(text: str, spans: Sequence[Span]) -> str:
    """Replaces pieces of a text by masks, in the form that a T5 fills in.

    >>> mask_spans("It met in Oslo in 1931.", [(3, 6), (10, 14)])
    'It <extra_id_0> in <extra_id_1> in 1931.'
    """
    return _with_pieces(text, spans, _SENTINEL.format)


def _with_pieces(text: str, spans: Sequence[Span], piece: Callable[[int], str]) -> str:
    for number, (start, end) in reversed(list(enumerate(sorted(spans)))):
        text = text[:start] + piece(number) + text[end:]
    return text


def fill_masks(masked_claim: str, answer: str) -> str | None:
    """Fills a masked claim with a T5's answer; None if a mask is missing or filled with nothing.

    An answer without masks that has most of the claim's other words counts as the whole claim, as
    models trained on `wizard_of_wikipedia_infill` write it.

    >>> fill_masks("It <extra_id_0> in <extra_id_1>.", "<extra_id_0> lives <extra_id_1> Rome")
    'It lives in Rome.'
    >>> fill_masks("It <extra_id_0> in <extra_id_1>.", "It lies in Rome.")
    'It lies in Rome.'
    """
    whole_claim, *parts = _SENTINELS.split(answer)
    if not parts:
        words = _SENTINELS.sub(" ", masked_claim).split()
        shares = [word in whole_claim.split() for word in words]
        return whole_claim.strip() if words and sum(shares) > len(words) / 2 else None
    fillings = dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
    sentinels = _SENTINELS.findall(masked_claim)
    if not all(fillings.get(number) for number in sentinels):
        return None
    return _SENTINELS.sub(lambda match: fillings[match.group(1)], masked_claim)


def _replace_in_claim(
    kind: str, claim: TaggedText, old: Entity | TaggedToken, new: str
) -> Mutation:
    text = replace_pieces(claim.text, [Replacement(old.start, old.end, old.text, new)])
    return Mutation(kind, text, f"{old.text} \u2192 {new}")


def _stands_in(text: str, sentences: Sequence[str]) -> bool:
    """Whether one of the sentences contains a text as whole words, ignoring case."""
    words = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)
    return any(words.search(sentence) for sentence in sentences)
