"""Picking from many candidate claims (Gupta 2022, section 3.1): varied, fluent, hard ones."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from faith_jax.core.words import lower_words


def varied(claims: Sequence[str], words: int = 3) -> list[int]:
    """Returns the places of claims that differ from all that were kept before them.

    Args:
      claims: the candidates, in order of preference.
      words: how many words one of two claims must have that the other lacks, counted with
        repetition, case and punctuation apart.

    >>> varied(["Tea is hot.", "Tea is cold.", "Coffee grows on hills."])
    [0, 2]
    """
    kept: list[tuple[int, Counter[str]]] = []
    for place, claim in enumerate(claims):
        counts = Counter(lower_words(claim))
        if all(_difference(counts, other) >= words for _, other in kept):
            kept.append((place, counts))
    return [place for place, _ in kept]


def _difference(first: Counter[str], second: Counter[str]) -> int:
    return max((first - second).total(), (second - first).total())


def fluent(perplexities: Sequence[float], factor: float = 1.1) -> list[int]:
    """Returns the places of claims whose perplexity is at most `factor` times the average.

    Args:
      perplexities: of all claims of one context, by a language model; positive, lower = more
        fluent.
      factor: the paper's is 1.1.

    Raises:
      ValueError: for a perplexity that is not a positive number.

    >>> fluent([10.0, 12.0, 30.0])
    [0, 1]
    """
    values = np.asarray(perplexities, np.float64)
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("Perplexities are positive numbers.")
    if not values.size:
        return []
    return np.flatnonzero(values <= factor * values.mean()).tolist()


def hardest(probabilities: np.ndarray, most: int = 4) -> list[int]:
    """Returns the places of the claims that classifiers are least sure of, hardest first.

    Args:
      probabilities: of each label by each classifier, [claims, classifiers, labels], each row
        summing to 1; the entropies of a claim's rows (in nats) are summed.
      most: how many claims are kept; of equal ones the earlier come first.

    Raises:
      ValueError: for another shape, and for rows that are no distributions.

    >>> hardest(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]), most=1)
    [1]
    """
    rows = np.asarray(probabilities, np.float64)
    if rows.ndim != 3:
        raise ValueError(f"Expected [claims, classifiers, labels], got the shape {rows.shape}.")
    if (rows < 0).any() or not np.allclose(rows.sum(axis=-1), 1, atol=1e-4):
        raise ValueError("The labels' probabilities of a classifier sum to 1.")
    logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
    entropies = -(rows * logs).sum(axis=(1, 2))
    return np.argsort(-entropies, kind="stable")[:most].tolist()
