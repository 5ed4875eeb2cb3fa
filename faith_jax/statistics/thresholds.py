"""Thresholds of a score that fulfil a wish, and their performance on held-out rows.

There are two wishes: to find a share of the errors by reading rows with low scores, and to accept
rows with high scores so that few of them are wrong. A threshold chosen on all labelled rows fulfils
its wish on these rows by construction. Its performance on others is estimated by cross-validation:
the units (all rows of a grounding) are split into folds, and the rows of each fold are judged by
the threshold that the others choose. For thresholds with guarantees see `calibration.guarantees`.

Reference: Stone 1974, Cross-validatory choice and assessment of statistical predictions.

>>> scores, labels = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 0.9]), np.array([0, 0, 1, 0, 1, 1])
>>> catching_threshold(scores, labels, 0.6), accepting_threshold(scores, labels, 0.3)
(0.2, 0.4)
"""

import enum
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.statistics.intervals import Estimate, jackknife_sums, unit_sums

_FOLDS = 10  # or one for each unit, if these are fewer
Floats = NDArray[np.float64]


class Wish(enum.Enum):
    """The wish to find a share of the errors, or to accept rows with at most a share of errors."""

    CATCH = enum.auto()
    ACCEPT = enum.auto()


class ThresholdFigures(NamedTuple):
    """A threshold, and its performance on held-out rows.

    Attributes:
      threshold: the threshold that all rows choose; NaN = none fulfils the wish.
      share: share of errors that are found, or of accepted rows that are wrong, on held-out rows;
        NaN if a fold cannot be judged, because the other rows choose no threshold.
      rows: the share of held-out rows that are read, or accepted; NaN as for `share`.
    """

    threshold: float
    share: Estimate
    rows: float


def catching_threshold(scores: ArrayLike, labels: ArrayLike, share: float) -> float:
    """Returns the smallest score such that the rows up to it include a share of the errors.

    Scores (higher = more faithful) and labels (1 = faithful, 0 = an error) are [rows], the share is
    in (0, 1]. NaN if there are no errors.
    """
    errors = np.sort(np.asarray(scores)[np.asarray(labels) == 0])
    if not errors.size:
        return math.nan
    # A share of 0.9 of ten errors is nine, even if 0.9 * 10 is rounded up.
    return float(errors[max(math.ceil(share * errors.size - 1e-9), 1) - 1])


def accepting_threshold(scores: ArrayLike, labels: ArrayLike, risk: float) -> float:
    """Returns the smallest score at or above which at most a share of the rows is wrong.

    Scores and labels are as above; the risk is the largest allowed share of errors among the rows
    with this score or a higher one, in [0, 1). NaN if no score fulfils it.
    """
    # For each distinct score, ascending: the number of rows with it, and of errors among them.
    values, numbers = np.unique(np.asarray(scores), return_inverse=True)
    rows = np.bincount(numbers, minlength=values.size)
    errors = np.bincount(numbers, np.asarray(labels) == 0, values.size)
    # Counts of the rows with each score or a higher one.
    rows, errors = (np.cumsum(counts[::-1])[::-1] for counts in (rows, errors))
    # One row of ten is a share of 0.1, however 0.1 * 10 is rounded.
    fulfils = errors <= risk * rows + 1e-9
    return float(values[fulfils.argmax()]) if fulfils.any() else math.nan


def unit_folds(units: NDArray[np.intp], seed: int = 0) -> NDArray[np.intp]:
    """Returns the fold of each row [rows], from 0; all rows of a unit are in the same fold.

    `units` is the number of each row's unit, [rows], from 0; the seed determines the folds.
    """
    total = int(units.max(initial=-1)) + 1
    # Deal out units in random order, so that fold sizes differ by at most one unit.
    fold_of_unit = np.random.default_rng(seed).permutation(total) % max(min(_FOLDS, total), 1)
    return fold_of_unit[units]


def held_out_figures(
    wish: Wish,
    scores: Floats,
    labels: Floats,
    share: float,
    units: NDArray[np.intp],
    seed: int = 0,
) -> ThresholdFigures:
    """Returns a threshold, and its figures by cross-validation over units.

    Scores and labels are as above; `share` is the share of errors to catch, or the largest allowed
    share of errors among accepted rows. `units` is the number of each row's unit, [rows], from 0.
    """
    choose = catching_threshold if wish is Wish.CATCH else accepting_threshold
    total = int(units.max(initial=-1)) + 1
    fold_of_row = unit_folds(units, seed)
    acts, errors = np.zeros(scores.size, bool), labels == 0  # acts: read, or accepted
    figures = ThresholdFigures(
        choose(scores, labels, share), Estimate(math.nan, math.nan, math.nan, total), math.nan
    )
    # Each fold is judged by the threshold that the other rows choose. If they choose none, for
    # example because all errors are in the fold, it cannot be judged; to count its rows as not
    # read would be arbitrary.
    for fold in range(min(_FOLDS, total)):
        rows, others = fold_of_row == fold, fold_of_row != fold
        threshold = choose(scores[others], labels[others], share)
        if math.isnan(threshold):
            return figures
        held_out = scores[rows]
        acts[rows] = held_out <= threshold if wish is Wish.CATCH else held_out >= threshold
    # Errors that are read among all errors, or errors among accepted rows; [units, 2]: numerator
    # and denominator of the share.
    counts, among = acts & errors, errors if wish is Wish.CATCH else acts
    sums = unit_sums(np.stack([counts, among], axis=1).astype(np.float64), units, total)
    # 0 / 0 if no row is left: NaN, without a standard error.
    with np.errstate(invalid="ignore"):
        estimate = jackknife_sums(lambda s: s[:, 0] / s[:, 1], sums, sums[:, 1])
    return figures._replace(share=estimate, rows=float(acts.mean()) if acts.size else math.nan)
