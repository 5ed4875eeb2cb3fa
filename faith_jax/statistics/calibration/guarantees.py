"""Thresholds for accepting responses, with guarantees on the share of wrong ones.

Neither guarantee needs a model of the scores:

* Learn-then-Test: among the accepted responses, at most a share `target` is wrong. This holds with
  probability 1 - `level` over draws of the calibration rows.
* Conformal risk control: of all responses, at most a share `target` is accepted and wrong, on
  average over calibrations. There is no guarantee on the share among the accepted responses.

Both need exchangeable units: calibration and new units must be as if drawn from one urn. A unit is
a row, or all rows that depend on each other, such as all rows about one document; all units have
the same weight, however many rows they have. To reject low scores with a guarantee, negate the
scores and count faithful rows as wrong.

References: Angelopoulos, Bates, Candès, Jordan & Lei 2022, Learn then Test: calibrating predictive
algorithms to achieve risk control, section 2 and "split fixed sequence testing". Angelopoulos,
Bates, Fisch, Lei & Schuster 2024, Conformal risk control, theorem 1.

>>> rows_to_test(0.05, 0.05), rows_to_control(0.05)
(59, 19)
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# One unit in _CHOOSING chooses the thresholds that are tested on the other units.
_CHOOSING = 5
# Maximum number of tested thresholds: a finer grid would accept about the same rows.
_MOST_TESTED = 50
# Tolerance for rounding in sums of shares.
_ROUNDING = 1e-9


def rows_to_test(target: float, level: float) -> int:
    """Returns how many accepted rows, all correct, show that at most a share `target` is wrong.

    This is the smallest n with (1 - target)**n <= level.
    """
    return math.ceil(math.log(level) / math.log1p(-target) - _ROUNDING)


def units_to_test(target: float, level: float) -> int:
    """Returns the smallest number of units for which `safe_thresholds` can return a threshold."""
    # Of n units n - n // _CHOOSING are tested.
    tested = rows_to_test(target, level)
    return max(tested + (tested - 1) // (_CHOOSING - 1), _CHOOSING)


def rows_to_control(target: float) -> int:
    """Returns the smallest number of units for which `controlling_threshold` can succeed.

    This is the smallest n with 1 / (n + 1) <= target.
    """
    return math.ceil(1 / target - 1 - _ROUNDING)


def one_row_of_each(units: NDArray[np.intp], seed: int | Sequence[int]) -> NDArray[np.intp]:
    """Draws one row of each unit uniformly and returns the rows' numbers: [units].

    If the units are independent, so are the drawn rows, as a test that counts rows requires.
    `units` is the number of each row's unit, [rows], from 0.
    """
    # Take the first row of each unit in a random order of all rows.
    order = np.random.default_rng(seed).permutation(units.size)
    return order[np.unique(units[order], return_index=True)[1]]


def safe_thresholds(
    scores: Floats, is_wrong: Flags, target: float, level: float, seed: int | Sequence[int] = 0
) -> Floats:
    """Returns thresholds for which Learn-then-Test shows the guarantee, from strict to lenient.

    With a probability of at least 1 - `level`, for every one of these thresholds, at most a share
    `target` of new rows with this score or a higher one is wrong. So any of them may be used, even
    one that is chosen by looking at the data. Shape [0] means that none could be shown.

    A random fifth of the rows chooses the candidates and the first one to test, whose risk has the
    smallest upper bound. The other rows test the candidates in order, each at the full level, until
    the first fails (fixed sequence testing). Given the number of accepted rows, the number of wrong
    ones is binomial, so each test is exact. Candidates must not come from the rows that test them,
    such as their own scores, since that would favour lucky ones.

    Args:
      scores: [rows], higher = more faithful; the rows must be independent.
      is_wrong: [rows], whether accepting the row is an error.
      target: the largest share of wrong rows among the accepted, in (0, 1).
      level: the probability that the guarantee fails, in (0, 1).
      seed: seed of the random split of the rows.
    """
    from scipy import stats

    order = np.random.default_rng(seed).permutation(scores.size)
    choosing, testing = np.split(order, [scores.size // _CHOOSING])
    # In descending order: from strict to lenient.
    candidates = np.unique(scores[choosing])[::-1]
    if not candidates.size:
        return candidates
    places = np.linspace(0, candidates.size - 1, min(candidates.size, _MOST_TESTED)).astype(int)
    candidates = candidates[places]
    rows, wrong = _counts_from(candidates, scores[choosing], is_wrong[choosing])
    # Clopper and Pearson's upper bounds of the risks if the test rows were like these. The minimum
    # does not depend on the target, so a larger target never accepts fewer rows.
    right = np.maximum(rows - wrong, _ROUNDING)
    bounds = stats.beta.isf(level, (_CHOOSING - 1) * wrong + 1, (_CHOOSING - 1) * right)
    candidates = candidates[int(np.argmin(bounds)) :]
    rows, wrong = _counts_from(candidates, scores[testing], is_wrong[testing])
    # P(Binomial(rows, target) <= wrong): the p-value of a risk above the target.
    fails = stats.binom.cdf(wrong, rows, target) > level
    return candidates[: int(np.argmax(fails)) if fails.any() else candidates.size]


def _counts_from(
    thresholds: Floats, scores: Floats, is_wrong: Flags
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Returns, for each threshold, how many rows reach it, and how many of these are wrong."""
    rows, wrong = (
        values.size - np.searchsorted(np.sort(values), thresholds)
        for values in (scores, scores[is_wrong])
    )
    return rows, wrong


def controlling_threshold(
    scores: Floats, is_wrong: Flags, units: NDArray[np.intp], target: float
) -> float:
    """Returns the most lenient threshold of conformal risk control; NaN = there is none.

    A unit's loss is the share of its rows that are accepted and wrong, which cannot increase with
    the threshold. A new unit's loss is at most `target` on average over calibrations.

    Args:
      scores: [rows], higher = more faithful.
      is_wrong: [rows], whether accepting the row is an error.
      units: [rows], the number of each row's unit, from 0.
      target: the largest mean loss, in (0, 1).
    """
    weights = unit_weights(units)
    total = int(units.max(initial=-1)) + 1
    values, numbers = np.unique(scores, return_inverse=True)
    # For each score, the sum of the units' losses if it and all higher scores are accepted.
    losses = np.cumsum(np.bincount(numbers, is_wrong * weights, values.size)[::-1])[::-1]
    # The new unit counts with the maximum loss, 1. Between two scores the loss is that of the upper
    # one, so the smallest score that fulfils the bound is never more lenient than theorem 1.
    fulfils = (losses + 1) / (total + 1) <= target + _ROUNDING
    return float(values[fulfils.argmax()]) if fulfils.any() else math.nan


def widest_pair(
    accepting: Floats, rejecting: Floats, scores: Floats, weights: Floats
) -> tuple[float, float]:
    """Returns the accepting and the rejecting threshold that together decide most rows.

    The rejecting threshold is below the accepting one, so no row is both accepted and rejected. If
    several pairs decide equally many rows, the one that accepts most is returned. NaN = none.

    Args:
      accepting: [thresholds]; rows with this score or a higher one may be accepted.
      rejecting: [thresholds]; rows with this score or a lower one may be rejected.
      scores: [rows].
      weights: [rows], the weight of each row.
    """
    # Candidates include a threshold that accepts nothing, and one that rejects nothing.
    accepts = np.concatenate([accepting, [np.inf]])
    rejects = np.concatenate([[-np.inf], np.sort(rejecting)])
    # For each accepting threshold, take the most lenient rejecting one below it.
    rejects = rejects[np.searchsorted(rejects, accepts) - 1]
    order = np.argsort(scores)
    # [rows + 1]: the weight of the lowest rows, from none to all of them.
    below = np.concatenate([[0.0], np.cumsum(weights[order])])
    accepted = below[-1] - below[np.searchsorted(scores[order], accepts)]
    rejected = below[np.searchsorted(scores[order], rejects, side="right")]
    # The last key is the primary one: the decided weight, rounded so that equal sums tie.
    best = np.lexsort((accepted, np.round(accepted + rejected, 9)))[-1]
    accept, reject = float(accepts[best]), float(rejects[best])
    return accept if accept < math.inf else math.nan, reject if reject > -math.inf else math.nan


def unit_weights(units: NDArray[np.intp]) -> Floats:
    """Returns, for each row, 1 over the number of rows in its unit: [rows]."""
    return 1 / np.bincount(units)[units]
