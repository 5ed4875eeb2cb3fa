"""Maps from scores to the probability that a response is faithful.

There are three non-decreasing maps: `platt`, a logistic curve of the score; `beta`, a logistic
curve of the logarithms of the score's distances from the ends of its range; and `isotonic`, the
best monotone map of any form, which needs the most rows. The log loss on held-out units decides.

References: Platt 1999, Probabilistic outputs for support vector machines (section 2.2 for the
targets that keep the curve finite). Kull, Silva Filho & Flach 2017, Beta calibration: a
well-founded and easily implemented improvement on logistic calibration for binary classifiers.
Zadrozny & Elkan 2002, Transforming classifier scores into accurate multiclass probability
estimates (isotonic regression).

>>> labels = np.array([0.0, 0.0, 1.0, 0.0, 1.0, 1.0])
>>> fitted = fit_isotonic(np.arange(6.0), labels)
>>> fitted.probabilities(np.array([0.0, 2.5, 9.0])).tolist()
[0.125, 0.5, 0.875]
"""

import math
from collections.abc import Callable
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from faith_jax.statistics.thresholds import unit_folds

Floats = NDArray[np.float64]

# Constraints on maps in files: a decreasing map would reverse the scores' order.
_Slope = Annotated[float, msgspec.Meta(ge=0)]
_Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
# As a share of the range: scores are kept this far from its ends, so that logarithms are finite.
_NEAREST = 1e-6
# The name of the map that ignores the score, to compare the others with.
CONSTANT = "constant"


class Platt(msgspec.Struct, frozen=True, tag_field="form", tag="platt"):
    """The map 1 / (1 + exp(-(slope * score + intercept))), with a slope of at least 0."""

    slope: _Slope
    intercept: float

    def probabilities(self, scores: Floats) -> Floats:
        """Returns the probability of each score: [rows]."""
        return _sigmoid(self.slope * scores + self.intercept)


class Beta(msgspec.Struct, frozen=True, tag_field="form", tag="beta"):
    """The map whose log-odds are a * log(s) - b * log(1 - s) + intercept.

    Attributes:
      low: the score that is mapped to s = 0.
      high: the score that is mapped to s = 1.
      a: at least 0.
      b: at least 0.
      intercept: the constant term of the log-odds.
    """

    low: float
    high: float
    a: _Slope
    b: _Slope
    intercept: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError("low below high")

    def probabilities(self, scores: Floats) -> Floats:
        """Returns the probability of each score: [rows]."""
        logs = _beta_calibration_features(scores, self.low, self.high)
        return _sigmoid(logs @ np.array([self.a, self.b]) + self.intercept)


class Isotonic(msgspec.Struct, frozen=True, tag_field="form", tag="isotonic"):
    """A non-decreasing map, linear between points and constant beyond them."""

    scores: list[float]
    values: list[_Probability]

    def __post_init__(self) -> None:
        if not 0 < len(self.scores) == len(self.values):
            raise ValueError("as many scores as values, at least one")
        if self.scores != sorted(self.scores) or self.values != sorted(self.values):
            raise ValueError("scores and values that rise")

    def probabilities(self, scores: Floats) -> Floats:
        """Returns the probability of each score: [rows]."""
        return np.interp(scores, self.scores, self.values)


Map = Platt | Beta | Isotonic


def fit_platt(scores: Floats, labels: Floats) -> Platt:
    """Returns the logistic curve of scores [rows] with labels [rows], 1 = faithful."""
    (slope,), intercept = _fit_logistic(scores[:, None], labels)
    return Platt(slope, intercept)


def fit_beta(scores: Floats, labels: Floats, low: float, high: float) -> Beta:
    """Returns the beta map of scores [rows] from `low` to `high` with labels [rows]."""
    (a, b), intercept = _fit_logistic(_beta_calibration_features(scores, low, high), labels)
    return Beta(low, high, a, b, intercept)


def fit_isotonic(scores: Floats, labels: Floats) -> Isotonic:
    """Returns the isotonic map of scores [rows] with labels [rows], 1 = faithful.

    Probabilities are kept away from 0 and 1 as if each class had one more row: even if all rows so
    far were faithful, the next one is not certain to be.
    """
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression().fit(scores, labels)
    # Laplace's rule of succession, for rows of one class.
    least = 1 / (labels.size + 2)
    values = np.clip(fitted.y_thresholds_, least, 1 - least)
    return Isotonic(fitted.X_thresholds_.tolist(), values.tolist())


def choose_map(
    scores: Floats,
    labels: Floats,
    units: NDArray[np.intp],
    low: float,
    high: float,
    seed: int = 0,
) -> tuple[Map, dict[str, float]]:
    """Returns the map with the smallest log loss on held-out units, fitted on all rows.

    Args:
      scores: [rows], higher = more faithful.
      labels: [rows], 1 = faithful, 0 = not; both occur.
      units: [rows], the number of each row's unit, from 0.
      low: the smallest possible score; unless both ends are finite, there is no beta map.
      high: the largest possible score.
      seed: seed of the folds.

    Returns:
      The map, and each map's mean log loss in nats on held-out rows by name, the smallest first;
      `CONSTANT` predicts the share of faithful rows and ignores the score.
    """
    fits: dict[str, Callable[[Floats, Floats], Map]] = {"platt": fit_platt}
    if math.isfinite(high - low):
        fits["beta"] = lambda scores, labels: fit_beta(scores, labels, low, high)
    fits["isotonic"] = fit_isotonic
    # Every row is judged by maps that were fitted without its unit.
    folds = unit_folds(units, seed)
    held_out = {name: np.empty(scores.size) for name in (*fits, CONSTANT)}
    for fold in range(int(folds.max(initial=-1)) + 1):
        rows, others = folds == fold, folds != fold
        for name, fit in fits.items():
            fitted = fit(scores[others], labels[others])
            held_out[name][rows] = fitted.probabilities(scores[rows])
        # Laplace's rule again: with 0 or 1, a single other label would make the loss infinite.
        held_out[CONSTANT][rows] = (labels[others].sum() + 1) / (others.sum() + 2)
    losses = {name: log_loss(values, labels) for name, values in held_out.items()}
    best = min(fits, key=lambda name: losses[name])
    return fits[best](scores, labels), dict(sorted(losses.items(), key=lambda item: item[1]))


def log_loss(probabilities: Floats, labels: Floats) -> float:
    """Returns the mean of -log(probability of the label) in nats; lower is better."""
    return float(-np.mean(np.log(np.where(labels == 1, probabilities, 1 - probabilities))))


def _sigmoid(logits: Floats) -> Floats:
    from scipy import special

    # Beyond this, 1 - p rounds to 0, and the log loss of a wrong row would be infinite.
    return special.expit(np.clip(logits, -30, 30))


def _beta_calibration_features(scores: Floats, low: float, high: float) -> Floats:
    """Returns log(s) and -log(1 - s) of scores mapped to 0 to 1: [rows, 2]."""
    shares = np.clip((scores - low) / (high - low), _NEAREST, 1 - _NEAREST)
    return np.stack([np.log(shares), -np.log1p(-shares)], axis=1)


def _fit_logistic(features: Floats, labels: Floats) -> tuple[list[float], float]:
    """Returns non-negative slopes and the intercept of the maximum likelihood logistic curve.

    Features are [rows, features], labels [rows], 1 = faithful.
    """
    from scipy import optimize

    # Platt's targets: with 0 and 1, the slope would be infinite if a threshold separates classes.
    faithful = labels.sum()
    high, low = (faithful + 1) / (faithful + 2), 1 / (labels.size - faithful + 2)
    targets = np.where(labels == 1, high, low)
    # Standardise, so that the search converges for scores of any scale; undone below.
    middle, spread = features.mean(axis=0), features.std(axis=0)
    # A feature that is constant except for rounding gets slope 0.
    least = 4 * np.finfo(np.float64).eps * np.abs(features).max(axis=0)
    spread = np.where(np.ptp(features, axis=0) > least, spread, np.inf)
    scaled = (features - middle) / spread

    def loss(weights: Floats) -> tuple[float, Floats]:
        # Cross-entropy of a target t at the logit x: log(1 + exp(x)) - t x; its slope is p - t.
        logits = scaled @ weights[1:] + weights[0]
        errors = (_sigmoid(logits) - targets) / labels.size
        value = float(np.mean(np.logaddexp(0, logits) - targets * logits))
        return value, np.concatenate([[errors.sum()], scaled.T @ errors])

    count = features.shape[1]
    # The intercept is free; slopes are at least 0, so that no map decreases.
    start, bounds = np.zeros(count + 1), [(None, None), *[(0, None)] * count]
    weights = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = weights[1:] / spread
    return slopes.tolist(), float(weights[0] - slopes @ middle)
