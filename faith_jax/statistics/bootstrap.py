"""Percentile bootstrap: how much a figure would vary with another sample of rows.

A resample draws as many rows as there are, with replacement; with `clusters`, each row's cluster
(such as its source document), it draws whole clusters. All scorers see the same draws. The same
seed gives the same draws.

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
# Maximum size of the weights [resamples, rows] that are held at a time.
_CELLS = 1 << 19
_ROUNDING = 1e-9  # a smaller relative difference is none


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


class Draws(NamedTuple):
    """Settings of the intervals of `bootstrap`."""

    resamples: int = RESAMPLES
    confidence: float = 0.95
    seed: int | Sequence[int] = 0


NO_INTERVAL = Interval(math.nan, math.nan)
EQUAL_RESAMPLES = "Figures that are the same in all resamples have no interval."
DRAWS = Draws()


def bootstrap(
    statistic: Callable[[NDArray[np.uint16]], NDArray[np.float64]],
    size: int,
    draws: Draws = DRAWS,
    clusters: Sequence[Hashable] | None = None,
    cells: int = _CELLS,
) -> list[tuple[float, Interval]]:
    """Returns figures of `size` rows with their intervals.

    `statistic` maps how often each row counts, [lines, rows], with at most `cells` cells plus one
    line, to the figures of each line, [figures, lines]; NaN = undefined.
    """
    parts = drawn_counts(size, draws.resamples, draws.seed, clusters, cells)
    # In the first line, each row counts once, which gives the figures themselves.
    first = np.concatenate([np.ones((1, size), np.uint16), next(parts)])
    values = np.concatenate([statistic(part) for part in itertools.chain([first], parts)], axis=1)
    return [(float(line[0]), percentile_interval(line[1:], draws.confidence)) for line in values]


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
    """Yields `resampled_counts` in parts of at most `cells` cells: [some resamples, rows] each.

    With clusters, each resample draws as many clusters as there are.

    Raises:
      ValueError: if there are no rows.
    """
    if size < 1:
        raise ValueError("There are no rows to draw from.")
    groups = cluster_numbers(size, clusters)
    # Draw clusters, not rows: rows of a cluster are alike, and drawing them one by one would make
    # the figure look more certain than it is.
    count = int(groups.max()) + 1
    generator = np.random.default_rng(seed)
    step = max(1, cells // size)
    for start in range(0, resamples, step):
        # The number of draws of a cluster is about Poisson with mean 1, far below uint16's maximum.
        drawn = np.empty((min(step, resamples - start), count), np.uint16)
        # A resample is stored as the rows' counts, without copying rows. Lines are drawn one by
        # one, so that draws do not depend on the number of lines in a part.
        for line in drawn:
            line[:] = np.bincount(generator.integers(count, size=count), minlength=count)
        # A row counts as often as its cluster is drawn: [some resamples, rows].
        yield drawn.take(groups, axis=1) if clusters is not None else drawn


def cluster_numbers(size: int, clusters: Sequence[Hashable] | None = None) -> NDArray[np.intp]:
    """Returns the number of each row's cluster, from 0 in order of appearance: [rows].

    Without clusters, each row is a cluster of its own.

    Raises:
      ValueError: if there are not as many clusters as rows.
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
    """Returns a table's note on its intervals; `over` names the drawn items."""
    drawn = pluralize(resamples, "resample")
    method = f"{100 * confidence:g}% percentile bootstrap over {over}, {drawn}"
    return f"Intervals: {method}. {EQUAL_RESAMPLES}"


def percentile_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns the interval that holds the share `confidence` of a statistic's resampled values.

    NaN (resamples in which the statistic is undefined) are left out; the ends are NaN if all values
    are, or if all others are equal: that the rows at hand agree, or are one cluster, does not show
    how others would vary.

    Raises:
      ValueError: on a confidence outside (0, 1).
    """
    if not 0 < confidence < 1:
        raise ValueError(f"A confidence is between 0 and 1, not {confidence}.")
    defined = np.asarray(values, np.float64)
    # For example, a resample that lacks a class has no figure.
    defined = defined[~np.isnan(defined)]
    if not defined.size:
        return NO_INTERVAL
    # The percentile interval leaves out equal shares at both ends.
    tail = (1 - confidence) / 2
    low, high = map(float, np.quantile(defined, [tail, 1 - tail]))
    # Sums of resamples of equal values differ by rounding.
    is_constant = math.isclose(low, high, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return NO_INTERVAL if is_constant else Interval(low, high)
