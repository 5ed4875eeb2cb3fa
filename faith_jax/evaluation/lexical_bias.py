"""Local mutual information of n-grams and labels: what a label can be guessed from (Gupta 2022).

>>> rows = lexical_bias(["it is not hot", "it is hot", "it is warm"], ["no", "yes", "yes"], n=1)
>>> [(row.ngram, row.label) for row in rows[:2]]
[('not', 'no'), ('warm', 'yes')]
"""

import collections
import math
from collections.abc import Sequence
from typing import NamedTuple

from faith_jax.words import lower_words


class Bias(NamedTuple):
    """How an n-gram and a label go together.

    Attributes:
      ngram: its words, joined by spaces.
      label: the label.
      local_mutual_information: p(w, l) * log(p(l | w) / p(l)), in nats; higher = the n-gram
        gives the label away more often.
      probability: p(l | w).
      occurrences: how often the n-gram occurs with the label.
    """

    ngram: str
    label: str
    local_mutual_information: float
    probability: float
    occurrences: int


def lexical_bias(texts: Sequence[str], labels: Sequence[str], n: int = 2) -> list[Bias]:
    """Returns every n-gram with every label it occurs with, the highest first.

    Args:
      texts: the claims.
      labels: one for each.
      n: words in an n-gram, which are compared in lower case.

    Returns:
      Ties are in the order of n-gram and label.

    Reference: Gupta 2022, section 4.3, after Schuster 2019; probabilities are of n-gram
    occurrences.
    """
    pairs: collections.Counter[tuple[str, str]] = collections.Counter()
    for text, label in zip(texts, labels, strict=True):
        words = lower_words(text)
        grams = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
        pairs.update((gram, label) for gram in grams)
    total = sum(pairs.values())
    by_gram: collections.Counter[str] = collections.Counter()
    by_label: collections.Counter[str] = collections.Counter()
    for (gram, label), count in pairs.items():
        by_gram[gram] += count
        by_label[label] += count
    found = []
    for (gram, label), count in pairs.items():
        probability = count / by_gram[gram]
        value = count / total * math.log(probability / (by_label[label] / total))
        found.append(Bias(gram, label, value, probability, count))
    return sorted(found, key=lambda b: (-b.local_mutual_information, b.ngram, b.label))
