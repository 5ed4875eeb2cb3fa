"""Pairs of a sentence from an encyclopedia and a claim from a dialogue, for `mini_nli`."""

import json
import pathlib
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from faith_jax.core.labels import NliLabel
from faith_jax.core.templates import evidence_text
from faith_jax.datasets.augmentation.dialogue_phrases import PHRASES, with_phrase

_OPENINGS = (
    "Yes,", "Oh yes,", "I heard that", "I read that", "Did you know that", "You know,", "Well,",
    "As far as I know,", "That is interesting.", "Apparently,",
)  # fmt: skip
_TITLED = 0.6  # share of premises that name their article
_OPENED = 0.4  # share of claims with a conversational opening


class Claims(NamedTuple):
    """A sentence and claims about its subject; see docs/mini/claims.jsonl."""

    title: str
    sentence: str
    supported: Sequence[str]
    refuted: Sequence[str]
    unrelated_but_close: Sequence[str]


def read_claims(path: pathlib.Path) -> list[Claims]:
    """Reads sentences with their claims."""
    with path.open(encoding="utf-8") as file:
        return [Claims(**json.loads(line)) for line in file]


def pair(
    claims: Sequence[Claims], opposite: Callable[[str], str | None], rng: random.Random
) -> tuple[str, str, NliLabel]:
    """Returns premise, hypothesis and label.

    Args:
      claims: the claims of one split.
      opposite: returns the contrary of a sentence, or None if it finds none.
      rng: the random generator.
    """
    first_claim = rng.choice(claims)
    draw = rng.random()
    if draw < 0.35:
        claim, label = (
            rng.choice([first_claim.sentence, *first_claim.supported, *first_claim.supported]),
            NliLabel.ENTAILMENT,
        )
    elif draw < 0.6:
        claim, label = rng.choice(first_claim.refuted), NliLabel.CONTRADICTION
    elif draw < 0.7:
        contrary = opposite(rng.choice([first_claim.sentence, *first_claim.supported]))
        claim, label = contrary or rng.choice(first_claim.refuted), NliLabel.CONTRADICTION
    elif draw < 0.8:
        claim, label = rng.choice(first_claim.unrelated_but_close), NliLabel.NEUTRAL
    else:
        near = [c for c in claims if c.title == first_claim.title and c is not first_claim]
        second_claim = rng.choice(near if near and rng.random() < 0.7 else claims)
        if second_claim is first_claim:
            second_claim = rng.choice(claims)
        claim, label = (
            rng.choice([*second_claim.supported, *second_claim.refuted]),
            NliLabel.NEUTRAL,
        )
    premise = first_claim.sentence
    if rng.random() < _TITLED:
        premise = evidence_text(first_claim.title, premise)
    if rng.random() < _OPENED:
        claim = with_phrase(claim, rng.choice((*_OPENINGS, *PHRASES)))
    return premise, claim, label
