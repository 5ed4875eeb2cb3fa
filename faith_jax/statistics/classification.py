"""Accuracy and F1 of classes that rows are called, with bootstrap intervals."""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

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
        if math.isnan(self.value):
            return DASH
        return figure_text(self.value, self.interval, 1)


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
    cells = np.zeros((len(labels), len(names), len(names) + 1), np.float32)
    pairs = [(places[label], places[call]) for label, call in zip(labels, calls, strict=True)]
    cells[np.arange(len(labels)), *np.transpose(pairs)] = 1
    rows = cells.reshape(len(labels), -1)
    drawn = drawn_counts(len(labels), draws.resamples, draws.seed, clusters)
    tables = [counts.astype(np.float32) @ rows for counts in drawn]
    figures = _of_confusions(np.concatenate([rows.sum(axis=0)[None], *tables]), len(names))
    # Of one group all draws are the same, which is no certainty.
    is_drawn = len(set(range(len(labels)) if clusters is None else clusters)) > 1
    return {
        figure: Figure(
            float(values[0]),
            percentile_interval(values[1:], draws.confidence) if is_drawn else NO_INTERVAL,
        )
        for figure, values in zip((ACCURACY, MACRO_F1, *names), 100 * figures, strict=True)
    }


def _of_confusions(counts: np.ndarray, classes: int) -> np.ndarray:
    """Returns accuracy, macro F1, and F1 by class, [2 + classes, tables], NaN = undefined.

    Counts are [tables, classes * (classes + 1)], by the label and by what is said, last no class.
    """
    tables = counts.astype(np.float64).reshape(-1, classes, classes + 1)
    hits = np.diagonal(tables, axis1=1, axis2=2)
    sizes = tables.sum(axis=2) + tables.sum(axis=1)[:, :classes]
    f1 = np.divide(2 * hits, sizes, out=np.full_like(hits, np.nan), where=sizes > 0)
    accuracy = hits.sum(axis=1) / tables.sum(axis=(1, 2))
    return np.stack([accuracy, np.nanmean(f1, axis=1), *f1.T])
