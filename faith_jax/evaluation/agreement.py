"""Agreement between annotators: Krippendorff's alpha and Fleiss' kappa.

1 = they always agree, 0 = as often as by chance, below 0 = less often.
"""

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVELS = ("nominal", "ordinal")


def krippendorff_alpha(
    ratings: Sequence[Sequence[Hashable | None]],
    level: str = "nominal",
    order: Sequence[Hashable] | None = None,
) -> float:
    """Returns Krippendorff's alpha of any number of raters, ratings missing or not.

    Args:
      ratings: for each rater the rating of each unit; None = the rater did not see it.
      level: "nominal" or "ordinal".
      order: of the values, for "ordinal"; None = sorted.

    Returns:
      At most 1; NaN where no unit has two ratings, and where all ratings are the same value.

    Raises:
      ValueError: for raters with different numbers of units, an unknown level, and values that are
        not in `order`.

    Reference: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability".
    """
    if level not in LEVELS:
        raise ValueError(f"There is no level {level!r}: choose of {', '.join(LEVELS)}.")
    if len({len(row) for row in ratings}) > 1:
        raise ValueError("Raters have different numbers of units.")
    seen = {value for row in ratings for value in row if value is not None}
    values = list(order) if order is not None else sorted(seen, key=_sort_key)
    if unknown := seen - set(values):
        raise ValueError(f"The rating {next(iter(unknown))!r} is not in the order.")
    coincidences = _coincidences(ratings, values)
    totals = coincidences.sum(axis=1)
    pairs = totals.sum()
    if pairs == 0 or np.count_nonzero(totals) < 2:
        return math.nan
    distances = _distances(totals, level)
    expected = (np.outer(totals, totals) - np.diag(totals)) / (pairs - 1)
    return float(1 - (coincidences * distances).sum() / (expected * distances).sum())


def _sort_key(value: Hashable) -> tuple[str, Hashable]:
    number = isinstance(value, int | float)
    return ("", value) if number else (type(value).__name__, value)


def _coincidences(
    ratings: Sequence[Sequence[Hashable | None]], values: Sequence[Hashable]
) -> NDArray[np.float64]:
    """Returns how often values stand side by side in a unit, each unit counting its ratings."""
    places = {value: place for place, value in enumerate(values)}
    found = np.zeros((len(values),) * 2)
    for unit in zip(*ratings, strict=True):
        given = [places[value] for value in unit if value is not None]
        if len(given) < 2:
            continue
        counts = np.bincount(given, minlength=len(values)).astype(np.float64)
        found += (np.outer(counts, counts) - np.diag(counts)) / (len(given) - 1)
    return found


def _distances(totals: NDArray[np.float64], level: str) -> NDArray[np.float64]:
    """Returns squared distances of values: ordinal ones are as far as there are ratings between."""
    if level == "nominal":
        return 1.0 - np.eye(len(totals))
    middles = np.cumsum(totals) - totals / 2
    return np.square(middles[:, None] - middles[None, :])


def fleiss_kappa(counts: ArrayLike) -> float:
    """Returns Fleiss' kappa of units that all have the same number of ratings.

    Args:
      counts: how many raters put each unit into each category: [units, categories].

    Returns:
      At most 1; NaN where all ratings are of one category.

    Raises:
      ValueError: for another shape, negative counts, units with different numbers of ratings, and
        fewer than two raters.

    Reference: Fleiss 1971.
    """
    table = np.asarray(counts, np.float64)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"Expected [units, categories], got the shape {table.shape}.")
    raters = table.sum(axis=1)
    if (table < 0).any() or (raters != raters[0]).any() or raters[0] < 2:
        raise ValueError("Each unit needs the same number of ratings, two at least.")
    agreement = (np.square(table).sum(axis=1) - raters) / (raters * (raters - 1))
    chance = np.square(table.sum(axis=0) / table.sum()).sum()
    if chance == 1:
        return math.nan
    return float((agreement.mean() - chance) / (1 - chance))
