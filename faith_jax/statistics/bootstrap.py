"""Percentile bootstrap: how much a figure would vary with another sample of rows.

Rows are drawn with replacement, as many as there are; with `clusters`, which name for each row what
it is drawn together with (such as its source document), whole clusters are. All scorers see the
same draws. The same seed gives the same draws.

A figure is a function of how often each row counts, such as `statistics.auc.auc_of_weights`.

>>> percentile_interval(resampled_counts(4, 200, seed=1)[0] / 4)  # of one row in four
Interval(low=0.0, high=0.75)
"""

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.core.errors import pluralize

RESAMPLES = 1000
# Weights of this many cells are held at a time: [resamples, rows].
_CELLS = 1 << 19


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


class Draws(NamedTuple):
    """How the intervals of `bootstrap` are drawn."""

    resamples: int = RESAMPLES
    confidence: float = 0.95
    seed: int | Sequence[int] = 0


NO_INTERVAL = Interval(math.nan, math.nan)
DRAWS = Draws()


def bootstrap(
    statistic: Callable[[NDArray[np.uint16]], NDArray[np.float64]],
    size: int,
    draws: Draws = DRAWS,
    clusters: Sequence[Hashable] | None = None,
    cells: int = _CELLS,
) -> list[tuple[float, Interval]]:
    """Returns figures of `size` rows with their intervals.

    `statistic` gets how often each row counts, [lines, rows], with at most so many `cells` and a
    line more, and returns the figures of each line, [figures, lines]; NaN = undefined. Rows of a
    single cluster have no intervals.
    """
    parts = drawn_counts(size, draws.resamples, draws.seed, clusters, cells)
    # In the first line each row counts once: the figures themselves.
    first = np.concatenate([np.ones((1, size), np.uint16), next(parts)])
    values = np.concatenate([statistic(part) for part in itertools.chain([first], parts)], axis=1)
    # Of one cluster all draws are the same, which is no certainty.
    is_drawn = len(set(range(size) if clusters is None else clusters)) > 1
    return [
        (
            float(line[0]),
            percentile_interval(line[1:], draws.confidence) if is_drawn else NO_INTERVAL,
        )
        for line in values
    ]


def resampled_counts(
    size: int, resamples: int = RESAMPLES, seed: int | Sequence[int] = 0
) -> NDArray[np.uint16]:
    """Returns how often each of `size` rows is drawn in each resample: [rows, resamples].

    Each column sums to `size`.
    """
    # Parts are [some resamples, rows]; transposed, all of them are [rows, resamples].
    return np.concatenate(list(drawn_counts(size, resamples, seed))).T


def drawn_counts(
    size: int,
    resamples: int = RESAMPLES,
    seed: int | Sequence[int] = 0,
    clusters: Sequence[Hashable] | None = None,
    cells: int = _CELLS,
) -> Iterator[NDArray[np.uint16]]:
    """Yields `resampled_counts` in parts of at most so many cells: [some resamples, rows] each.

    With clusters, each resample holds as many of these as there are.

    Raises:
      ValueError: for no rows.
    """
    if size < 1:
        raise ValueError("There are no rows to draw from.")
    groups = cluster_numbers(size, clusters)
    # Clusters are drawn, not rows: rows of one cluster are alike, and drawn one by one they would
    # make the figure look surer than it is.
    count = int(groups.max()) + 1
    generator = np.random.default_rng(seed)
    step = max(1, cells // size)
    for start in range(0, resamples, step):
        # How often a cluster is drawn is about Poisson with mean 1, far below the end of uint16.
        drawn = np.empty((min(step, resamples - start), count), np.uint16)
        # A resample is kept as counts, which weigh the rows; no row is copied. Lines are drawn one
        # by one, so that draws do not depend on how many of them a part holds.
        for line in drawn:
            line[:] = np.bincount(generator.integers(count, size=count), minlength=count)
        # A row counts as often as its cluster is drawn: [some resamples, rows].
        yield drawn.take(groups, axis=1) if clusters is not None else drawn


def cluster_numbers(size: int, clusters: Sequence[Hashable] | None = None) -> NDArray[np.intp]:
    """Returns for each row the number of its cluster, from 0 in order of appearance: [rows].

    Without clusters, each row is one of its own.

    Raises:
      ValueError: there are not as many clusters as rows.
    """
    if clusters is None:
        return np.arange(size)
    if len(clusters) != size:
        raise ValueError(
            f"There are {pluralize(size, 'row')}, but clusters of {len(clusters):,}; give one for "
            "each row."
        )
    numbers = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
    return np.array([numbers[cluster] for cluster in clusters], np.intp)


def interval_note(confidence: float, resamples: int, over: str = "rows") -> str:
    """Returns the sentence on intervals that stands below a table; `over` is what is drawn."""
    drawn = pluralize(resamples, "resample")
    return f"Intervals: {100 * confidence:g}% percentile bootstrap over {over}, {drawn}."


def percentile_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns the interval that holds the share `confidence` of a statistic's resampled values.

    NaN (resamples in which the statistic is undefined) are left out; the ends are NaN where all
    are.

    Raises:
      ValueError: for a confidence outside of (0, 1).
    """
    if not 0 < confidence < 1:
        raise ValueError(f"A confidence is between 0 and 1, not {confidence}.")
    defined = np.asarray(values, np.float64)
    # A resample without one of the classes, for example, says nothing of the figure's size.
    defined = defined[~np.isnan(defined)]
    if not defined.size:
        return NO_INTERVAL
    # The percentile interval leaves out as much at each end.
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return Interval(float(low), float(high))
