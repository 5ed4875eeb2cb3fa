"""Picks varied, fluent and hard claims from many candidates (Gupta 2022, section 3.1)."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from faith_jax.core.words import lower_words


def select_varied_claims(claims: Sequence[str], words: int = 3) -> list[int]:
    """Returns the places of claims that differ from all that were kept before them.

    Two claims differ if one has at least `words` words that the other lacks; repeated words count,
    case and punctuation do not.

    >>> select_varied_claims(["Tea is hot.", "Tea is cold.", "Coffee grows on hills."])
    [0, 2]
    """
    kept_counts: list[tuple[int, Counter[str]]] = []
    for place, claim in enumerate(claims):
        counts = Counter(lower_words(claim))
        if all(
            max((counts - earlier).total(), (earlier - counts).total()) >= words
            for _, earlier in kept_counts
        ):
            kept_counts.append((place, counts))
    return [place for place, _ in kept_counts]


def fluent(perplexities: Sequence[float], factor: float = 1.1) -> list[int]:
    """Returns the places of claims whose perplexity is at most `factor` times the average.

    `perplexities` are those of all claims of one context; lower = more fluent.

    >>> fluent([10.0, 12.0, 30.0])
    [0, 1]
    """
    values = np.asarray(perplexities, np.float64)
    return np.flatnonzero(values <= factor * values.mean()).tolist() if values.size else []


def hardest(probabilities: np.ndarray, most: int = 4) -> list[int]:
    """Returns the places of the claims that classifiers are least sure of, hardest first.

    `probabilities` is [claims, classifiers, labels]. The entropies (in nats) of all classifiers are
    summed; of equal claims the earlier comes first.

    >>> hardest(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]), most=1)
    [1]
    """
    rows = np.asarray(probabilities, np.float64)
    logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
    entropies = -(rows * logs).sum(axis=(1, 2))
    return np.argsort(-entropies, kind="stable")[:most].tolist()
