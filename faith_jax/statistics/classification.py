"""Accuracy and F1 of calls, with bootstrap intervals, and thresholds for making calls."""

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.core.table import DASH, figure_text
from faith_jax.statistics.bootstrap import DRAWS, NO_INTERVAL, Draws, Interval, bootstrap


class Figure(NamedTuple):
    """A figure in per cent and its bootstrap interval; NaN = undefined."""

    value: float
    interval: Interval

    @property
    def text(self) -> str:
        """The text for a table."""
        return DASH if math.isnan(self.value) else figure_text(self.value, self.interval, 1)


UNDEFINED = Figure(math.nan, NO_INTERVAL)
ACCURACY, MACRO_F1 = "Acc", "F1"
NO_LABEL = "no label"  # the call if a model's output is none of the labels


def call_figures(
    labels: Sequence[str],
    calls: Sequence[str],
    draws: Draws = DRAWS,
    clusters: Sequence[Hashable] | None = None,
) -> dict[str, Figure]:
    """Returns accuracy ("Acc"), macro F1 ("F1"), and the F1 of each class by name, in per cent.

    Labels and calls are [rows], each row's true and called class; the call "no label" is always
    wrong and not a class. `clusters` has each row's cluster; None = each row is drawn alone.

    Macro F1 is over the classes that occur as labels or calls, in a resample over those in it.
    """
    names = sorted({*labels, *calls} - {NO_LABEL})
    places = {name: place for place, name in enumerate((*names, NO_LABEL))}
    # One-hot by label and call, [rows, classes, classes + 1]: the sum over rows is the confusion
    # matrix.
    cells = np.zeros((len(labels), len(names), len(names) + 1), np.float32)
    pairs = [(places[label], places[call]) for label, call in zip(labels, calls, strict=True)]
    cells[np.arange(len(labels)), *np.transpose(pairs)] = 1
    rows = cells.reshape(len(labels), -1)

    def figures_of(weights: NDArray[np.uint16]) -> NDArray[np.float64]:
        # Resamples' confusion matrices are weighted sums of rows: a matrix product, which is fast
        # in floats, and exact, as float32 represents all integers up to 2**24.
        counts = (weights.astype(np.float32) @ rows).astype(np.float64)
        confusions = counts.reshape(-1, *cells.shape[1:])  # [lines, classes, classes + 1]
        # The last column, "no label", is not on the diagonal: [lines, classes].
        hits = np.diagonal(confusions, axis1=1, axis2=2)
        # F1 = 2 TP / (2 TP + FN + FP); the denominator is rows with the label plus rows called so.
        sizes = confusions.sum(axis=2) + confusions.sum(axis=1)[:, : len(names)]
        f1 = np.divide(2 * hits, sizes, out=np.full_like(hits, np.nan), where=sizes > 0)
        accuracy = hits.sum(axis=1) / confusions.sum(axis=(1, 2))
        # A class without labels and calls is NaN and left out of the mean.
        return 100 * np.stack([accuracy, np.nanmean(f1, axis=1), *f1.T])

    figures = itertools.starmap(Figure, bootstrap(figures_of, len(labels), draws, clusters))
    return dict(zip((ACCURACY, MACRO_F1, *names), figures, strict=True))


def best_threshold(scores: ArrayLike, labels: ArrayLike, macro: bool = False) -> float:
    """Returns the threshold with the best F1, the highest in a tie; NaN if a class is missing.

    Rows at or above it are called 1. Scores [rows] are finite, labels [rows] 1 or 0. F1 is class
    1's, or with `macro` the mean over both classes.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    if len(np.unique(truth)) < 2:
        return math.nan
    order = np.argsort(-values, kind="stable")
    falling = values[order]
    # A threshold calls all rows with the same score alike, so it can only lie after the last one.
    ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    calls, hits = ends + 1, np.cumsum(truth[order])[ends]
    num_ones, num_zeros = truth.sum(), truth.size - truth.sum()
    # F1 = 2 TP / (called + true), by threshold: [distinct scores].
    f1 = 2 * hits / (calls + num_ones)
    if macro:
        # Of the rows called 0, all except the missed ones are correct.
        zero_calls = truth.size - calls
        f1 = (f1 + 2 * (zero_calls - (num_ones - hits)) / (zero_calls + num_zeros)) / 2
    return float(falling[ends][f1 >= f1.max() - 1e-12][0])  # equal except for rounding
