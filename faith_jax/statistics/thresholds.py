"""Thresholds of a score that fulfil a wish, and what they do on rows that did not choose them.

Two wishes: to find a share of the errors by reading the rows with low scores, and to accept the
rows with high scores so that few of them are wrong. A threshold that all labelled rows choose
fulfils its wish on these rows by construction; what it does on others is told by cross-validation:
the units (all rows of a grounding) are cut into folds, and the rows of each fold are judged by the
threshold that the others choose. Thresholds with a guarantee are in `calibration.guarantees`.

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

from faith_jax.statistics.estimates import Estimate, jackknife_sums, unit_sums

_FOLDS = 10  # or one for each unit, if these are fewer
Floats = NDArray[np.float64]


class Wish(enum.Enum):
    """To read a share of the errors, or to accept rows of which at most a share is wrong."""

    CATCH = enum.auto()
    ACCEPT = enum.auto()


class ThresholdFigures(NamedTuple):
    """A threshold, and what it does on rows that did not choose it.

    Attributes:
      threshold: that all rows choose; NaN = none fulfils the wish.
      share: of the wish, estimated on held-out rows; NaN where a fold cannot be judged, because the
        other rows choose no threshold.
      rows: the share of the rows that are read, or accepted, likewise.
    """

    threshold: float
    share: Estimate
    rows: float


def catching_threshold(scores: ArrayLike, labels: ArrayLike, share: float) -> float:
    """Returns the smallest score that, with all below it, has a share of the errors; NaN: no error.

    Scores (higher = more faithful) and labels (1 = faithful, 0 = an error) are [rows], the share is
    in (0, 1].
    """
    errors = np.sort(np.asarray(scores)[np.asarray(labels) == 0])
    if not errors.size:
        return math.nan
    # A share of 0.9 of ten errors is nine, whatever 0.9 * 10 is in binary.
    return float(errors[max(math.ceil(share * errors.size - 1e-9), 1) - 1])


def accepting_threshold(scores: ArrayLike, labels: ArrayLike, risk: float) -> float:
    """Returns the smallest score from which on at most a share of the rows is wrong; NaN = none is.

    Scores and labels are as above; the risk is the largest share of errors among the rows with this
    score or a higher one, in [0, 1).
    """
    # By distinct score, rising: how many rows have it, and how many of these are errors.
    values, numbers = np.unique(np.asarray(scores), return_inverse=True)
    rows = np.bincount(numbers, minlength=values.size)
    errors = np.bincount(numbers, np.asarray(labels) == 0, values.size)
    # Counts of the rows with each score or a higher one.
    rows, errors = (np.cumsum(counts[::-1])[::-1] for counts in (rows, errors))
    # One row of ten is a share of 0.1, whatever 0.1 * 10 is in binary.
    fulfils = errors <= risk * rows + 1e-9
    return float(values[fulfils.argmax()]) if fulfils.any() else math.nan


def unit_folds(units: NDArray[np.intp], seed: int = 0) -> NDArray[np.intp]:
    """Returns the fold of each row [rows], from 0; the rows of a unit are in the same one.

    `units` are [rows], the number of each row's unit, from 0; the seed says which are together.
    """
    total = int(units.max(initial=-1)) + 1
    # Units are dealt out in random order, so that folds differ by one unit at most.
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

    Scores and labels are as above; the share is of the errors to catch, or the largest one of
    errors among accepted rows. `units` are [rows], the number of each row's unit, from 0.
    """
    choose = catching_threshold if wish is Wish.CATCH else accepting_threshold
    total = int(units.max(initial=-1)) + 1
    fold_of_row = unit_folds(units, seed)
    acts, errors = np.zeros(scores.size, bool), labels == 0  # acts: read, or accepted
    figures = ThresholdFigures(
        choose(scores, labels, share), Estimate(math.nan, math.nan, math.nan, total), math.nan
    )
    # Each fold is judged by the threshold that the other rows choose. Where they choose none, as
    # those of other documents if all errors are in one, the fold is not judged at all; that its
    # rows are "not read" would be invented.
    for fold in range(min(_FOLDS, total)):
        rows, others = fold_of_row == fold, fold_of_row != fold
        threshold = choose(scores[others], labels[others], share)
        if math.isnan(threshold):
            return figures
        held_out = scores[rows]
        acts[rows] = held_out <= threshold if wish is Wish.CATCH else held_out >= threshold
    # Of the errors those that are read, or of the accepted rows those that are errors. [units, 2]:
    # the numerator and the denominator of the share.
    counts, among = acts & errors, errors if wish is Wish.CATCH else acts
    sums = unit_sums(np.stack([counts, among], axis=1).astype(np.float64), units, total)
    # 0 / 0 where no row is left: NaN, and then there is no standard error.
    with np.errstate(invalid="ignore"):
        estimate = jackknife_sums(lambda s: s[:, 0] / s[:, 1], sums, sums[:, 1])
    return figures._replace(share=estimate, rows=float(acts.mean()) if acts.size else math.nan)
