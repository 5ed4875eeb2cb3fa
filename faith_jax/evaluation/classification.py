"""Figures of predicted classes: confusion, precision, recall, F1, accuracy; and thresholds.

What is undefined (the precision of a class that is never predicted, the recall of one that never
occurs) is NaN, never 0; a macro average leaves out classes that neither occur nor are predicted.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.evaluation.roc import checked


@dataclasses.dataclass(frozen=True)
class ClassReport:
    """How predictions agree with labels.

    Attributes:
      classes: in the order of all that follows.
      confusion: how often each class (row) was predicted as each (column).
    """

    classes: tuple[Any, ...]
    confusion: NDArray[np.int64]

    @property
    def accuracy(self) -> float:
        """Share of right predictions, in [0, 1]."""
        return _share(int(np.trace(self.confusion)), int(self.confusion.sum()))

    def precision(self, name: Hashable) -> float:
        """Share of the predictions of a class that are right."""
        place = self.classes.index(name)
        return _share(self.confusion[place, place], self.confusion[:, place].sum())

    def recall(self, name: Hashable) -> float:
        """Share of a class that is found."""
        place = self.classes.index(name)
        return _share(self.confusion[place, place], self.confusion[place].sum())

    def f1(self, name: Hashable) -> float:
        """Harmonic mean of both; NaN where the class neither occurs nor is predicted."""
        place = self.classes.index(name)
        right = self.confusion[place, place]
        return _share(2 * right, self.confusion[place].sum() + self.confusion[:, place].sum())

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that occur or are predicted."""
        return _mean([self.f1(name) for name in self.classes])

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall of the classes that occur."""
        return _mean([self.recall(name) for name in self.classes])


def class_report(
    labels: Sequence[Hashable], predictions: Sequence[Hashable], classes: Sequence[Hashable]
) -> ClassReport:
    """Counts how often each class was predicted as each.

    Args:
      labels: the true classes.
      predictions: as many.
      classes: all there may be.

    Raises:
      ValueError: for lengths that differ, and for a class that is not among `classes`.
    """
    if len(labels) != len(predictions):
        raise ValueError(f"{len(labels)} labels and {len(predictions)} predictions.")
    places = {name: place for place, name in enumerate(classes)}
    unknown = next((name for name in (*labels, *predictions) if name not in places), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r} is not among the classes {', '.join(map(str, classes))}.")
    confusion = np.zeros((len(places),) * 2, np.int64)
    pairs = [(places[t], places[p]) for t, p in zip(labels, predictions, strict=True)]
    if pairs:
        np.add.at(confusion, tuple(np.array(pairs).T), 1)
    return ClassReport(tuple(classes), confusion)


def thresholded(scores: ArrayLike, labels: ArrayLike, threshold: float) -> ClassReport:
    """Returns the report of taking scores of at least a threshold as faithful (class 1).

    Args:
      scores: [rows].
      labels: [rows], 0 and 1.
      threshold: scores equal to it count as faithful.

    Raises:
      ValueError: see `faith_jax.evaluation.roc.checked`.
    """
    values, positive = checked(scores, labels)
    found = (values >= threshold).astype(int)
    return class_report(positive.astype(int).tolist(), found.tolist(), (1, 0))


# What a threshold may be chosen for: a figure of (true positives, false positives, positives,
# negatives), all arrays or numbers.
_Criterion = Callable[[NDArray, NDArray, int, int], NDArray[np.float64]]


def _f1(hits: NDArray, alarms: NDArray, positives: int, negatives: int) -> NDArray[np.float64]:
    return 2 * hits / (hits + alarms + positives)


def _g_mean(hits: NDArray, alarms: NDArray, positives: int, negatives: int) -> NDArray[np.float64]:
    return np.sqrt((hits / positives) * (1 - alarms / negatives))


def _balanced(
    hits: NDArray, alarms: NDArray, positives: int, negatives: int
) -> NDArray[np.float64]:
    return (hits / positives + 1 - alarms / negatives) / 2


CRITERIA: dict[str, _Criterion] = {
    "f1": _f1,
    "g_mean": _g_mean,
    "balanced_accuracy": _balanced,
}


def best_threshold(scores: ArrayLike, labels: ArrayLike, criterion: str = "f1") -> float:
    """Returns the score that, as a threshold, is best by a criterion; of several the highest.

    Args:
      scores: [rows].
      labels: [rows], 0 and 1.
      criterion: "f1" of class 1 (Nandwani 2023), "g_mean" of both recalls (Honovich 2022), or
        "balanced_accuracy".

    Returns:
      One of the scores: at least this much counts as faithful. NaN where a class is missing.

    Raises:
      ValueError: see `faith_jax.evaluation.roc.checked`; for an unknown criterion.
    """
    if criterion not in CRITERIA:
        raise ValueError(f"There is no criterion {criterion!r}: choose of {', '.join(CRITERIA)}.")
    values, positive = checked(scores, labels)
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return math.nan
    order = np.argsort(-values, kind="stable")
    ordered, hit = values[order], positive[order]
    last = np.append(ordered[1:] != ordered[:-1], True)
    figures = CRITERIA[criterion](np.cumsum(hit)[last], np.cumsum(~hit)[last], positives, negatives)
    best = int(np.argmax(figures >= figures.max() - 1e-12))  # equal but for rounding
    return float(ordered[last][best])


def _share(part: int, whole: int) -> float:
    return float(part) / float(whole) if whole else math.nan


def _mean(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan
