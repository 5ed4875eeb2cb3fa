"""Dialogue phrases in front of NLI hypotheses (Steen 2023, section 3.2 and Table 6).

A response that opens with "I think" is as faithful as without it. An NLI model learns this from
hypotheses that begin with such a phrase and keep their label.
"""

from collections.abc import Sequence

from faith_jax.datasets.augmentation.draws import draw, draw_order

# Introductions, hedges and sentiments, word for word since they are part of the protocol.
PHRASES = (
    "Here is what I know:",
    "yep. Also",
    "Sure! Here is what I know:",
    "I am not sure, but",
    "I am not sure but I do know that",
    "I do not have information on this but",
    "I think",
    "I believe",
    "I love that!",
    "I like that!",
)


def with_phrase(hypothesis: str, phrase: str) -> str:
    """Puts a phrase before a hypothesis and lowers the hypothesis's first letter.

    >>> with_phrase("The tea is cold.", "I think")
    'I think the tea is cold.'
    """
    return f"{phrase} {hypothesis[:1].lower()}{hypothesis[1:]}"


def with_random_phrase(
    hypothesis: str, example_id: str, seed: int = 0, phrases: Sequence[str] = PHRASES
) -> str:
    """Puts a phrase before a hypothesis; the example's id and the seed determine the phrase."""
    return with_phrase(hypothesis, phrases[draw(len(phrases), seed, example_id, "phrase")])


def phrase_draw(number: int, count: int = 5, seed: int = 0) -> tuple[str, ...]:
    """Returns a random subset of phrases in Table 6's order; `number` is 0 to 9 (section 5.4)."""
    indices = draw_order(len(PHRASES), seed, "draw", number)[:count]
    return tuple(PHRASES[i] for i in sorted(indices))
