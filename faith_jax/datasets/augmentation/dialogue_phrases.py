"""Dialogue phrases in front of NLI hypotheses (Steen 2023, section 3.2 and Table 6).

A response that opens with "I think" is as faithful as without; an NLI model learns this from
hypotheses that carry such a phrase and keep their label.
"""

from collections.abc import Sequence

from faith_jax.datasets.augmentation.draws import draw, shuffled

# The list is part of the protocol, so it stands here word for word.
INTRODUCTIONS = ("Here is what I know:", "yep. Also", "Sure! Here is what I know:")
HEDGES = (
    "I am not sure, but",
    "I am not sure but I do know that",
    "I do not have information on this but",
    "I think",
    "I believe",
)
SENTIMENTS = ("I love that!", "I like that!")
PHRASES = INTRODUCTIONS + HEDGES + SENTIMENTS


def with_phrase(hypothesis: str, phrase: str) -> str:
    """Puts a phrase before a hypothesis, whose first letter becomes a small one.

    >>> with_phrase("The tea is cold.", "I think")
    'I think the tea is cold.'
    """
    return f"{phrase} {hypothesis[:1].lower()}{hypothesis[1:]}"


def with_random_phrase(
    hypothesis: str, example_id: str, seed: int = 0, phrases: Sequence[str] = PHRASES
) -> str:
    """Puts one of the phrases before a hypothesis; which one depends on its id and the seed."""
    return with_phrase(hypothesis, phrases[draw(len(phrases), seed, example_id, "phrase")])


def phrase_draw(number: int, count: int = 5, seed: int = 0) -> tuple[str, ...]:
    """Returns one of the draws of fewer phrases, in Table 6's order (Steen 2023, section 5.4).

    Args:
      number: from 0; the paper makes ten draws.
      count: phrases in a draw.
      seed: another seed makes other draws.
    """
    chosen = shuffled(len(PHRASES), seed, "draw", number)[:count]
    return tuple(PHRASES[i] for i in sorted(chosen))
