"""How much of the gold evidence of claims is retrieved.

Gold sentences and encyclopedia come from different dumps of Wikipedia, so that wording differs.
Gupta 2022 (appendix B) therefore lets a document match if the first or the last half matches. The
authors did not publish their code; here a text has a sentence if it has the words of the first
half of the sentence, or those of its last half, in a row. Case and punctuation do not count.
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
    """Returns whether a text has the first or the last half of a sentence's words in a row.

    Of an odd number of words, the one in the middle belongs to both halves.

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
    """Returns the share of a claim's gold sentences that one of the texts has; see `_has_half`.

    Args:
      texts: of documents, or retrieved sentences.
      gold: sentences; empty ones do not count.

    Returns:
      NaN without gold sentences.
    """
    sentences = [sentence for sentence in gold if lower_words(sentence)]
    hits = [any(_has_half(text, sentence) for text in texts) for sentence in sentences]
    return sum(hits) / len(hits) if hits else math.nan


class Recall(NamedTuple):
    """The mean share of gold sentences that are found, over the claims that have any.

    Attributes:
      value: from 0 to 1; NaN where no claim has gold sentences.
      interval: of 95%, by a bootstrap of claims; NaN for one claim.
      claims: that have gold sentences.
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
    # Of one claim all draws are the same, which is no certainty.
    interval = percentile_interval(means) if defined.size > 1 else NO_INTERVAL
    return Recall(float(defined.mean()), interval, defined.size)
