"""Whether a score that claims to be a probability is one."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from faith_jax.evaluation.roc import checked


class Bin(NamedTuple):
    """Rows of similar scores.

    Attributes:
      low: the smallest score that falls in it; the last bin also has scores equal to `high`.
      high: the bound to the next one.
      rows: how many.
      confidence: their mean score; NaN without rows.
      frequency: the share of them that is faithful; NaN without rows.
    """

    low: float
    high: float
    rows: int
    confidence: float
    frequency: float


def reliability(probabilities: ArrayLike, labels: ArrayLike, bins: int = 10) -> list[Bin]:
    """Returns what a reliability diagram draws: bins of equal width over [0, 1].

    Args:
      probabilities: [rows], of being faithful.
      labels: [rows], 0 and 1.
      bins: how many.

    Raises:
      ValueError: for probabilities outside of [0, 1] and fewer than one bin; see also
        `faith_jax.evaluation.roc.checked`.
    """
    values, positive = checked(probabilities, labels)
    if bins < 1:
        raise ValueError(f"At least one bin is needed, not {bins}.")
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise ValueError("Probabilities are from 0 to 1; this scorer is not calibrated.")
    edges = np.linspace(0, 1, bins + 1)
    places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    found = []
    for place in range(bins):
        inside = places == place
        count = int(inside.sum())
        confidence = float(values[inside].mean()) if count else math.nan
        frequency = float(positive[inside].mean()) if count else math.nan
        found.append(
            Bin(float(edges[place]), float(edges[place + 1]), count, confidence, frequency)
        )
    return found


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 10
) -> float:
    """Returns the mean distance of score and frequency over bins, weighted by rows; 0 is best.

    Arguments and errors are those of `reliability`; NaN without rows (Guo 2017, equation 3).
    """
    found = [b for b in reliability(probabilities, labels, bins) if b.rows]
    total = sum(b.rows for b in found)
    if not total:
        return math.nan
    return sum(b.rows * abs(b.confidence - b.frequency) for b in found) / total


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Returns the mean squared distance of score and label, in [0, 1]; 0 is best.

    Arguments and errors are those of `reliability`; NaN without rows.
    """
    reliability(probabilities, labels, 1)  # checks
    values, positive = checked(probabilities, labels)
    return float(((values - positive) ** 2).mean()) if values.size else math.nan
