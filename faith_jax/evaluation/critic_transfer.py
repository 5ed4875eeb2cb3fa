"""Accuracy of critics on pairs that they were or were not trained for (Dziri 2022, table 4).

All classifiers are asked one question: is the pair faithful? A call is faithful where the most
probable class is the one that means it (entailment, faithful, not_contradiction).

>>> calls = faithful_calls([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], 2)
>>> accuracy(calls, [True, True], resamples=100).value
0.5
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.evaluation.bootstrap import (
    RESAMPLES,
    Interval,
    percentile_interval,
    resampled_counts,
)


class Accuracy(NamedTuple):
    """How often a critic is right.

    Attributes:
      value: share of right calls, in [0, 1]; higher = better.
      interval: its percentile bootstrap over rows.
      rows: how many there are.
    """

    value: float
    interval: Interval
    rows: int


def faithful_calls(probabilities: ArrayLike, faithful_class: int) -> NDArray[np.bool_]:
    """Returns whether the most probable class is the faithful one, [rows]; of equal ones the first.

    Args:
      probabilities: [rows, classes].
      faithful_class: its number.

    Raises:
      ValueError: for another shape, and a class that there is not.
    """
    found = np.asarray(probabilities, np.float64)
    if found.ndim != 2 or not 0 <= faithful_class < found.shape[1]:
        raise ValueError(
            f"Expected probabilities [rows, classes] with a class {faithful_class}, got the shape "
            f"{found.shape}."
        )
    return found.argmax(axis=1) == faithful_class


def accuracy(
    calls: ArrayLike,
    labels: ArrayLike,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Accuracy:
    """Returns the share of calls that are as the labels.

    Args:
      calls: [rows], whether each pair is found faithful.
      labels: [rows], whether it is.
      resamples: of the bootstrap.
      seed: likewise.
      confidence: of the interval.

    Raises:
      ValueError: for no rows, and for lengths that differ.
    """
    found, known = np.asarray(calls, bool), np.asarray(labels, bool)
    if found.shape != known.shape or found.ndim != 1 or not found.size:
        raise ValueError(f"Expected as many calls as labels, got {found.shape} and {known.shape}.")
    hits = (found == known).astype(np.float64)
    drawn = resampled_counts(hits.size, resamples, seed)
    interval = percentile_interval(hits @ drawn / hits.size, confidence)
    return Accuracy(float(hits.mean()), interval, int(hits.size))
