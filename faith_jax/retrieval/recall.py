"""The share of gold evidence for claims that is retrieved.

Gold sentences and the encyclopedia come from different dumps of Wikipedia, so their wording
differs. Gupta 2022 (appendix B) therefore accepts a document if the first or the last half matches.
The authors did not publish this code; here, a text has a sentence if it contains the consecutive
words of the sentence's first or last half, ignoring case and punctuation.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.words import lower_words
from faith_jax.statistics.bootstrap import (
    NO_INTERVAL,
    Interval,
    percentile_interval,
    resampled_counts,
)


def _has_half(text: str, sentence: str) -> bool:
    """Returns whether a text contains the first or the last half of a sentence's words in a row.

    If the number of words is odd, the middle word belongs to both halves.

    >>> _has_half("Tea is a leaf. It grows in China.", "It grows in the hills of Assam")
    False
    >>> _has_half("Tea is a leaf. It grows in China.", "Today, it grows in China!")
    True
    """
    words, within = lower_words(sentence), f" {' '.join(lower_words(text))} "
    half = math.ceil(len(words) / 2)
    return bool(words) and any(
        f" {' '.join(part)} " in within for part in (words[:half], words[-half:])
    )


def gold_share(texts: Sequence[str], gold: Sequence[str]) -> float:
    """Returns the share of a claim's gold sentences that a text contains; see `_has_half`.

    Args:
      texts: texts of documents, or retrieved sentences.
      gold: gold sentences; empty sentences do not count.

    Returns:
      A share in [0, 1]; NaN without gold sentences.
    """
    sentences = [sentence for sentence in gold if lower_words(sentence)]
    hits = [any(_has_half(text, sentence) for text in texts) for sentence in sentences]
    return sum(hits) / len(hits) if hits else math.nan


class Recall(NamedTuple):
    """The mean share of gold sentences that are found, over claims with gold sentences.

    Attributes:
      value: from 0 to 1; NaN if no claim has gold sentences.
      interval: 95% interval by a bootstrap of claims; NaN if all resamples are equal.
      claims: number of claims with gold sentences.
    """

    value: float
    interval: Interval
    claims: int


def recall(shares: Sequence[float]) -> Recall:
    """Returns the mean of `gold_share` of claims; NaN shares do not count."""
    defined = np.asarray([share for share in shares if not math.isnan(share)], np.float64)
    if not defined.size:
        return Recall(math.nan, NO_INTERVAL, 0)
    means = defined @ resampled_counts(defined.size, seed=0) / defined.size
    return Recall(float(defined.mean()), percentile_interval(means), defined.size)
