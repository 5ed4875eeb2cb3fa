"""Correlation between scores: Pearson, Spearman, Kendall, and with systems held constant."""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


class Correlation(NamedTuple):
    """A coefficient in [-1, 1] and its two-sided p-value; both NaN where one side is constant."""

    coefficient: float
    p_value: float


METHODS = ("pearson", "spearman", "kendall")


def correlation(x: ArrayLike, y: ArrayLike, method: str = "pearson") -> Correlation:
    """Returns the correlation of two scores of the same rows.

    Args:
      x: [rows].
      y: [rows].
      method: "pearson", "spearman", or "kendall" (tau-b).

    Raises:
      ValueError: for an unknown method, lengths that differ, and values that are not finite.
    """
    first, second = _checked(x, y)
    if method not in METHODS:
        raise ValueError(f"There is no method {method!r}: choose of {', '.join(METHODS)}.")
    if first.size < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Correlation(math.nan, math.nan)
    tests = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
    found = tests[method](first, second)
    return Correlation(float(found.statistic), float(found.pvalue))


def partial_correlation(
    x: ArrayLike, y: ArrayLike, systems: Sequence[Hashable], method: str = "pearson"
) -> Correlation:
    """Returns the correlation of two scores with the systems' differences taken out.

    Systems that are good on average would otherwise make any two scores agree. Each score (of
    ranks, for "spearman") loses its system's mean; what is left is correlated, with as many degrees
    of freedom fewer as there are systems beyond the first (Pagnoni 2021).

    Args:
      x: [rows].
      y: [rows].
      systems: for each row which system wrote it.
      method: "pearson" or "spearman".

    Raises:
      ValueError: for another method, lengths that differ, and values that are not finite.
    """
    first, second = _checked(x, y)
    if method not in METHODS[:2]:
        raise ValueError(f"There is no partial {method!r}: choose pearson or spearman.")
    if len(systems) != first.size:
        raise ValueError(f"{len(systems)} systems of {first.size} rows.")
    if method == "spearman":
        first, second = stats.rankdata(first), stats.rankdata(second)
    names = list(dict.fromkeys(systems))
    groups = np.array([names.index(system) for system in systems])
    residuals = [_without_means(values, groups, len(names)) for values in (first, second)]
    freedom = first.size - 1 - len(names)
    norms = [float(np.linalg.norm(values)) for values in residuals]
    scale = 1e-12 * first.size
    if freedom < 1 or min(norms) <= scale:
        return Correlation(math.nan, math.nan)
    coefficient = float(np.clip(residuals[0] @ residuals[1] / (norms[0] * norms[1]), -1, 1))
    if abs(coefficient) == 1:
        return Correlation(coefficient, 0.0)
    statistic = coefficient * math.sqrt(freedom / (1 - coefficient**2))
    return Correlation(coefficient, float(2 * stats.t.sf(abs(statistic), freedom)))


def _without_means(values: NDArray, groups: NDArray[np.intp], count: int) -> NDArray:
    means = np.bincount(groups, values, count) / np.bincount(groups, minlength=count)
    return values - means[groups]


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[NDArray, NDArray]:
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"Scores of the shapes {first.shape} and {second.shape}.")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("Scores must be finite.")
    return first, second
