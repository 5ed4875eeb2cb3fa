"""Thresholds from which on responses are accepted, with a guarantee on those that are wrong.

Two guarantees, of which neither needs a model of the scores:

* Learn-then-Test: among the accepted responses at most a share `target` is wrong. It holds for all
  draws of the calibration rows but a share `level`.
* Conformal risk control: of all responses, at most a share `target` is accepted and wrong, on
  average over calibrations. It says nothing of the share among the accepted ones.

Both need exchangeable units: the calibration's and the new ones must be as if drawn from one urn. A
unit is a row, or all rows that depend on each other, such as those about one document; every unit
weighs the same, however many rows it has. To reject low scores with a guarantee is the same with
negative scores, and faithful rows as the wrong ones.

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

# One unit in so many chooses which thresholds are tested on the others.
_CHOOSING = 5
# Thresholds that are tested at most: neighbours of a finer grid would accept about the same rows.
_MOST_TESTED = 50
# Sums of shares may end beside the number they stand for.
_ROUNDING = 1e-9


def rows_to_test(target: float, level: float) -> int:
    """Returns how many accepted rows without a single error show that at most `target` are wrong.

    The smallest n with (1 - target)**n <= level.
    """
    return math.ceil(math.log(level) / math.log1p(-target) - _ROUNDING)


def units_to_test(target: float, level: float) -> int:
    """Returns the smallest number of units with which `safe_thresholds` can return any."""
    # Of n units n - n // _CHOOSING are tested.
    tested = rows_to_test(target, level)
    return max(tested + (tested - 1) // (_CHOOSING - 1), _CHOOSING)


def rows_to_control(target: float) -> int:
    """Returns the smallest number of units with which `controlling_threshold` can return one.

    The smallest n with 1 / (n + 1) <= target.
    """
    return math.ceil(1 / target - 1 - _ROUNDING)


def one_row_of_each(units: NDArray[np.intp], seed: int | Sequence[int]) -> NDArray[np.intp]:
    """Returns the number of one row of each unit, drawn uniformly: [units].

    The drawn rows are independent where the units are, as a test that counts rows needs them.
    `units` are [rows], the number of each row's unit, from 0.
    """
    # The first row of each unit in a random order of all rows.
    order = np.random.default_rng(seed).permutation(units.size)
    return order[np.unique(units[order], return_index=True)[1]]


def safe_thresholds(
    scores: Floats, is_wrong: Flags, target: float, level: float, seed: int | Sequence[int] = 0
) -> Floats:
    """Returns thresholds for which Learn-then-Test shows the guarantee, from strict to lenient.

    With a probability of at least 1 - `level`, every one of them has the property that of new rows
    with this score or a higher one, at most a share `target` is wrong. So any of them may be used,
    also one that is chosen by looking at the data. [0] = none could be shown.

    A random fifth of the rows chooses the thresholds and the one to begin with, whose risk has the
    smallest upper bound. The other rows test them one after the other, each at the whole level,
    until the first fails (fixed sequence testing). Given how many of these rows are accepted, the
    wrong ones among them are binomial, which makes each test exact. Thresholds that the tested rows
    themselves chose, such as their own scores, would be chosen by their luck.

    Args:
      scores: [rows], higher = more faithful; of independent rows.
      is_wrong: [rows], whether accepting the row is an error.
      target: the largest share of wrong rows among the accepted, in (0, 1).
      level: the probability that the guarantee fails, in (0, 1).
      seed: of which rows choose.
    """
    from scipy import stats

    order = np.random.default_rng(seed).permutation(scores.size)
    choosing, testing = np.split(order, [scores.size // _CHOOSING])
    # Falling: from strict to lenient.
    candidates = np.unique(scores[choosing])[::-1]
    if not candidates.size:
        return candidates
    places = np.linspace(0, candidates.size - 1, min(candidates.size, _MOST_TESTED)).astype(int)
    candidates = candidates[places]
    rows, wrong = _counts_from(candidates, scores[choosing], is_wrong[choosing])
    # Clopper and Pearson's upper bounds of the risks, if the tested rows were like these. Where it
    # is smallest does not depend on the target, so that a larger target never accepts less.
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
    """Returns how many rows have each threshold's score or a higher one, and how many are wrong."""
    rows, wrong = (
        values.size - np.searchsorted(np.sort(values), thresholds)
        for values in (scores, scores[is_wrong])
    )
    return rows, wrong


def controlling_threshold(
    scores: Floats, is_wrong: Flags, units: NDArray[np.intp], target: float
) -> float:
    """Returns the most lenient threshold of conformal risk control; NaN = there is none.

    The loss of a unit is the share of its rows that are accepted and wrong, which only falls as the
    threshold rises. Of a new unit, it is at most `target` on average over calibrations.

    Args:
      scores: [rows], higher = more faithful.
      is_wrong: [rows], whether accepting the row is an error.
      units: [rows], the number of each row's unit, from 0.
      target: the largest mean loss, in (0, 1).
    """
    weights = unit_weights(units)
    total = int(units.max(initial=-1)) + 1
    values, numbers = np.unique(scores, return_inverse=True)
    # By score, of accepting it and all higher ones: the sum of the units' losses.
    losses = np.cumsum(np.bincount(numbers, is_wrong * weights, values.size)[::-1])[::-1]
    # The new unit counts as one that is lost as a whole. Between two scores the loss is that of the
    # upper one, so the smallest score that fulfils the bound is never more lenient than theorem 1.
    fulfils = (losses + 1) / (total + 1) <= target + _ROUNDING
    return float(values[fulfils.argmax()]) if fulfils.any() else math.nan


def widest_pair(
    accepting: Floats, rejecting: Floats, scores: Floats, weights: Floats
) -> tuple[float, float]:
    """Returns an accepting and a rejecting threshold that together decide about most rows.

    The rejecting one lies below the accepting one, so that no row is both. Of pairs that decide
    about as many rows, it is the one that accepts most. NaN = there is none.

    Args:
      accepting: [thresholds], from each of which on rows may be accepted.
      rejecting: [thresholds], up to each of which rows may be rejected.
      scores: [rows].
      weights: [rows], how much each row counts.
    """
    # Thresholds at which nothing is accepted, or rejected, are candidates too.
    accepts = np.concatenate([accepting, [np.inf]])
    rejects = np.concatenate([[-np.inf], np.sort(rejecting)])
    # Of each accepting threshold, the most lenient rejecting one below it.
    rejects = rejects[np.searchsorted(rejects, accepts) - 1]
    order = np.argsort(scores)
    # [rows + 1]: the weight of the lowest rows, from none to all of them.
    below = np.concatenate([[0.0], np.cumsum(weights[order])])
    accepted = below[-1] - below[np.searchsorted(scores[order], accepts)]
    rejected = below[np.searchsorted(scores[order], rejects, side="right")]
    # The last key counts first: what is decided, rounded so that equal sums tie.
    best = np.lexsort((accepted, np.round(accepted + rejected, 9)))[-1]
    accept, reject = float(accepts[best]), float(rejects[best])
    return accept if accept < math.inf else math.nan, reject if reject > -math.inf else math.nan


def unit_weights(units: NDArray[np.intp]) -> Floats:
    """Returns one over the number of rows in each row's unit: [rows]."""
    return 1 / np.bincount(units)[units]
