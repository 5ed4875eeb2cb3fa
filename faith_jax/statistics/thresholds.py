"""Thresholds of scores, chosen on a development part by F1."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from faith_jax.core.table import DASH


class DirectedThreshold(NamedTuple):
    """Where scores call a row 1, and what development says of it.

    Attributes:
      threshold: of the score; NaN = none.
      direction: "high", if the scores of 1 are at or above the threshold; "low", at or below.
      macro_f1: the mean F1 of both classes on development, in per cent.
    """

    threshold: float
    direction: str
    macro_f1: float

    @property
    def texts(self) -> tuple[str, str]:
        """The threshold and the macro F1, as a table shows them."""
        if math.isnan(self.threshold):
            return DASH, DASH
        sign = "≥" if self.direction == "high" else "≤"
        return f"{sign} {self.threshold:.4g}", f"{self.macro_f1:.1f}"

    def calls(self, scores: np.ndarray) -> np.ndarray:
        """Returns bool [rows]; no undefined score is a 1."""
        return scores >= self.threshold if self.direction == "high" else scores <= self.threshold


NO_THRESHOLD = DirectedThreshold(math.nan, "", math.nan)


def directed_threshold(scores: ArrayLike, labels: ArrayLike) -> DirectedThreshold:
    """Returns the threshold and direction with the best macro F1; of equal ones "high".

    Scores are [rows], labels [rows], 1 or 0; rows where one of them is NaN do not count.
    """
    from sklearn import metrics  # takes a second to import

    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    defined = ~np.isnan(values + truth)
    values, truth = values[defined], truth[defined]
    best = NO_THRESHOLD
    for direction, sign in (("high", 1), ("low", -1)):
        threshold = sign * best_threshold(sign * values, truth, macro=True)
        if math.isnan(threshold):
            return NO_THRESHOLD
        candidate = DirectedThreshold(threshold, direction, 0.0)
        f1 = metrics.f1_score(truth, candidate.calls(values), average="macro", zero_division=0)
        if direction == "high" or 100 * f1 > best.macro_f1 + 1e-9:
            best = candidate._replace(macro_f1=100 * float(f1))
    return best


def best_threshold(scores: ArrayLike, labels: ArrayLike, macro: bool = False) -> float:
    """Returns the score at or above which F1 is best; of several the highest.

    Args:
      scores: [rows], finite.
      labels: [rows], 1 or 0; NaN is returned where a class is missing.
      macro: the mean F1 of both classes instead of class 1's.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    if len(np.unique(truth)) < 2:
        return math.nan
    order = np.argsort(-values, kind="stable")
    falling = values[order]
    ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    calls, hits = ends + 1, np.cumsum(truth[order])[ends]
    ones, zeros = truth.sum(), truth.size - truth.sum()
    f1 = 2 * hits / (calls + ones)
    if macro:
        zero_calls = truth.size - calls
        f1 = (f1 + 2 * (zero_calls - (ones - hits)) / (zero_calls + zeros)) / 2
    return float(falling[ends][f1 >= f1.max() - 1e-12][0])  # equal but for rounding


def best_ordered_thresholds(scores: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Returns the two scores that part three classes in rising order with the best macro F1.

    Args:
      scores: [rows], finite.
      labels: [rows], 0, 1 or 2, the class of the highest scores.

    Returns:
      [2]: at or above the first begins class 1, at or above the second class 2.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels)
    places = np.append(np.unique(values), np.inf)
    # By threshold and class the rows at or above it: [thresholds, 3].
    parts = [np.sort(values[truth == label]) for label in range(3)]
    above = np.stack([part.size - np.searchsorted(part, places) for part in parts], axis=1)
    total = np.bincount(truth, minlength=3)
    low, high = above[:, None], above[None]
    counts = (total - low, low - high, high + 0 * low)  # of each class that is called 0, 1 and 2
    f1 = sum(
        2 * called[..., label] / np.maximum(called.sum(axis=-1) + total[label], 1)
        for label, called in enumerate(counts)
    )
    f1 = np.where(places[:, None] <= places[None], f1, -1.0)
    best = np.unravel_index(int(np.argmax(f1)), f1.shape)
    return places[list(best)]
