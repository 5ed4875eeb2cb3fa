"""Accuracy and F1 of calls, with bootstrap intervals, and thresholds that make scores calls."""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from faith_jax.core.table import DASH, figure_text
from faith_jax.statistics.bootstrap import RESAMPLES, Interval, drawn_counts, percentile_interval
from faith_jax.statistics.estimates import NO_INTERVAL


class Figure(NamedTuple):
    """A figure in per cent and its bootstrap interval; NaN = undefined."""

    value: float
    interval: Interval

    @property
    def text(self) -> str:
        """As a table shows it."""
        return DASH if math.isnan(self.value) else figure_text(self.value, self.interval, 1)


class Draws(NamedTuple):
    """How intervals are drawn: see `faith_jax.statistics.bootstrap`."""

    resamples: int = RESAMPLES
    confidence: float = 0.95
    seed: int = 0


DRAWS = Draws()
UNDEFINED = Figure(math.nan, NO_INTERVAL)
ACCURACY, MACRO_F1 = "Acc", "F1"
NO_LABEL = "no label"  # what a model says that is none of the labels


def call_figures(
    labels: Sequence[str],
    calls: Sequence[str],
    draws: Draws = DRAWS,
    clusters: Sequence[Hashable] | None = None,
) -> dict[str, Figure]:
    """Returns in per cent accuracy ("Acc"), macro F1 ("F1"), and the F1 of each class by its name.

    Args:
      labels: [rows], the class of each.
      calls: [rows], the class that each is called; "no label" is wrong, and no class.
      draws: of the intervals.
      clusters: [rows], what each is drawn together with; None = alone.

    Macro F1 is over the classes that rows have or are called, in a resample over its own.
    """
    names = sorted({*labels, *calls} - {NO_LABEL})
    places = {name: place for place, name in enumerate((*names, NO_LABEL))}
    # One-hot by label and call, [rows, classes, classes + 1]: summed over rows it is the confusion
    # matrix.
    cells = np.zeros((len(labels), len(names), len(names) + 1), np.float32)
    pairs = [(places[label], places[call]) for label, call in zip(labels, calls, strict=True)]
    cells[np.arange(len(labels)), *np.transpose(pairs)] = 1
    rows = cells.reshape(len(labels), -1)
    drawn = drawn_counts(len(labels), draws.resamples, draws.seed, clusters)
    # The confusion matrices of resamples are weighted sums of these: a product of matrices, which
    # is fast in floats, and exact, as float32 has all whole numbers up to 2**24.
    tables = [weights.astype(np.float32) @ rows for weights in drawn]
    # The first table is of the rows as they are, those of the resamples follow.
    counts = np.concatenate([rows.sum(axis=0)[None], *tables]).astype(np.float64)
    confusions = counts.reshape(-1, *cells.shape[1:])  # [tables, classes, classes + 1]
    # The last column, of no class, is off the diagonal of all classes: [tables, classes].
    hits = np.diagonal(confusions, axis1=1, axis2=2)
    # F1 = 2 TP / (2 TP + FN + FP): rows with the label, and rows that are called it.
    sizes = confusions.sum(axis=2) + confusions.sum(axis=1)[:, : len(names)]
    f1 = np.divide(2 * hits, sizes, out=np.full_like(hits, np.nan), where=sizes > 0)
    accuracy = hits.sum(axis=1) / confusions.sum(axis=(1, 2))
    # A class that no row has or is called is NaN, and no part of the mean.
    figures = np.stack([accuracy, np.nanmean(f1, axis=1), *f1.T])
    # Of one group all draws are the same, which is no certainty.
    is_drawn = len(set(range(len(labels)) if clusters is None else clusters)) > 1
    return {
        figure: Figure(
            float(values[0]),
            percentile_interval(values[1:], draws.confidence) if is_drawn else NO_INTERVAL,
        )
        for figure, values in zip((ACCURACY, MACRO_F1, *names), 100 * figures, strict=True)
    }


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
    # Scores at or below a threshold are negated scores at or above the negated one.
    for direction, sign in (("high", 1), ("low", -1)):
        threshold = sign * best_threshold(sign * values, truth, macro=True)
        if math.isnan(threshold):
            return NO_THRESHOLD
        candidate = DirectedThreshold(threshold, direction, 0.0)
        f1 = metrics.f1_score(truth, candidate.calls(values), average="macro", zero_division=0)
        # Only by more than rounding is "low" better.
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
    # A threshold calls all rows of one score alike, so that it can lie only behind the last of
    # them.
    ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    calls, hits = ends + 1, np.cumsum(truth[order])[ends]
    num_ones, num_zeros = truth.sum(), truth.size - truth.sum()
    # F1 = 2 TP / (called + true), by threshold: [distinct scores].
    f1 = 2 * hits / (calls + num_ones)
    if macro:
        # Of the rows that are called 0, those that are not missed ones are right.
        zero_calls = truth.size - calls
        f1 = (f1 + 2 * (zero_calls - (num_ones - hits)) / (zero_calls + num_zeros)) / 2
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
    # No row reaches infinity: a class may remain without calls.
    places = np.append(np.unique(values), np.inf)
    # By threshold and class the rows at or above it: [thresholds, 3].
    parts = [np.sort(values[truth == label]) for label in range(3)]
    above = np.stack([part.size - np.searchsorted(part, places) for part in parts], axis=1)
    total = np.bincount(truth, minlength=3)
    # All pairs of a first and a second threshold: [thresholds, thresholds, 3].
    low, high = above[:, None], above[None]
    counts = (total - low, low - high, high + 0 * low)  # of each class that is called 0, 1 and 2
    # The sum over classes is largest where the mean is. A class that is neither there nor called
    # has no hits: divided by 1, it adds 0.
    f1 = sum(
        2 * called[..., label] / np.maximum(called.sum(axis=-1) + total[label], 1)
        for label, called in enumerate(counts)
    )
    # Below any F1, so that no pair in the wrong order is best.
    f1 = np.where(places[:, None] <= places[None], f1, -1.0)
    best = np.unravel_index(int(np.argmax(f1)), f1.shape)
    return places[list(best)]
