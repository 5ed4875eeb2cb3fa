"""Contents of pictures, for PNG files and for pages.

ROC curves and histograms use the same rows as the table of AUCs, those with a label and a defined
score of every scorer, so that a figure beside a curve agrees with the table.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.statistics.auc import roc_auc
from faith_jax.statistics.prompt_health import Curve
from faith_jax.statistics.scored_corpora import Corpus

# More curves in one panel cannot be told apart.
MOST_CURVES = 10
# Points of a curve over steps; no screen shows more.
_POINTS = 400
_BINS = 20
# Colours that people with any colour vision tell apart (Okabe 2008), on light and dark pages.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
# Lengths of dashes and gaps, in line widths; the next pattern is used when colours run out.
_DASHES: tuple[tuple[float, ...], ...] = ((), (4, 2), (1, 1.5), (6, 2, 1, 2))
CLASSES = ("faithful", "not faithful")
_UNLABELLED = "no label"
CLASS_COLOURS = dict(zip((*CLASSES, _UNLABELLED), (*COLOURS[:2], COLOURS[2]), strict=True))


class Line(NamedTuple):
    """The style of a scorer's line, the same in all panels."""

    colour: str
    dashes: tuple[float, ...]


class RocPanel(NamedTuple):
    """The ROC curves of a corpus by scorer, the best first; no curves if a class is missing.

    Curves are false and true positive rates [points], one for each threshold, from 0 to 1. Areas
    are in [0, 1]; `left_out` counts scorers with smaller areas, which have no curve.
    """

    corpus: str
    curves: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    areas: Mapping[str, float]
    left_out: int
    rows: int


class HistogramPanel(NamedTuple):
    """The distribution of a scorer's values in a corpus; all panels of a scorer share axes.

    Attributes:
      edges: of the bins: [bins + 1].
      top: the end of the axis of shares.
      shares: the share of rows in each bin, for each of `CLASSES`, or `_UNLABELLED` alone: [bins].
      counts: the number of rows, by the same classes.
    """

    corpus: str
    scorer: str
    edges: NDArray[np.float64]
    top: float
    shares: Mapping[str, NDArray[np.float64]]
    counts: Mapping[str, int]


def scorers_of(corpora: Mapping[str, Corpus]) -> list[str]:
    """Returns the scorers of all corpora, each once."""
    return list(dict.fromkeys(name for corpus in corpora.values() for name in corpus.scores))


def lines_of(scorers: Sequence[str]) -> dict[str, Line]:
    """Returns a line style for each scorer, different for the first 28."""
    shapes = [(colour, dashes) for dashes in _DASHES for colour in COLOURS]
    return {name: Line(*shapes[number % len(shapes)]) for number, name in enumerate(scorers)}


def roc_panel(corpus: Corpus) -> RocPanel:
    """Returns the curves of the scorers with the largest areas; constant scores have no curve."""
    from sklearn.metrics import roc_curve  # takes a second to import

    part = corpus.part(corpus.usable())
    if len(set(part.labels.tolist())) < 2:
        return RocPanel(corpus.name, {}, {}, 0, len(part.ids))
    areas = {
        name: roc_auc(values, part.labels)
        for name, values in part.scores.items()
        if np.ptp(values) > 0
    }
    best = sorted(areas, key=areas.__getitem__, reverse=True)[:MOST_CURVES]
    curves = {}
    for name in best:
        x, y, _ = roc_curve(part.labels, part.scores[name], drop_intermediate=False)
        curves[name] = x, y
    best_areas = {name: areas[name] for name in best}
    return RocPanel(corpus.name, curves, best_areas, len(areas) - len(best), len(part.ids))


def histogram_panels(corpora: Mapping[str, Corpus]) -> list[HistogramPanel]:
    """Returns the shares of each class's rows by bin, for each scorer and corpus that has it.

    In a corpus without labels, all rows with a score count as one class.
    """
    panels = []
    for scorer in scorers_of(corpora):
        scores = {}
        for name, corpus in corpora.items():
            if scorer not in corpus.scores:
                continue
            if corpus.ids and np.isnan(corpus.labels).all():
                values = corpus.scores[scorer]
                scores[name] = {_UNLABELLED: values[~np.isnan(values)]}
            else:
                part = corpus.part(corpus.usable())
                values = part.scores[scorer]
                scores[name] = {c: values[part.labels == 1 - i] for i, c in enumerate(CLASSES)}
        edges = bin_edges(
            np.concatenate([v for by_class in scores.values() for v in by_class.values()])
        )
        shares = {
            name: {c: np.histogram(v, edges)[0] / max(1, len(v)) for c, v in by_class.items()}
            for name, by_class in scores.items()
        }
        top = axis_top(
            {(n, c): share for n, by_class in shares.items() for c, share in by_class.items()}
        )
        for name, by_class in scores.items():
            counts = {c: len(v) for c, v in by_class.items()}
            panel = HistogramPanel(corpora[name].name, scorer, edges, top, shares[name], counts)
            panels.append(panel)
    return panels


def bin_edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns rising edges [21] around all values, even if these are equal or there are none.

    If values lie in [0, 1] and span at least 0.3, the edges span [0, 1], so that panels compare.
    """
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if low >= 0 and high <= 1 and high - low >= 0.3:
        return np.linspace(0, 1, _BINS + 1)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        around = max(0.5, abs(low) / 1000)
        low, high = low - around, high + around
    steps = np.arange(_BINS + 1) / _BINS
    return low * (1 - steps) + high * steps


def axis_top(shares: Mapping[Any, NDArray[np.float64]]) -> float:
    """Returns a round share that none of the shares exceeds, for the end of an axis.

    >>> axis_top({"a": np.array([0.12, 0.31])})
    0.4
    """
    largest = max((float(share.max(initial=0)) for share in shares.values()), default=0.0)
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    steps = (1, 2, 4, 5, 6, 8, 10)
    return round(next(s * power for s in steps if s * power >= largest - 1e-12), 12)


class CurvePanel(NamedTuple):
    """Curves of finite values over steps, with common axes.

    `quantity` is in words, with its unit. `run` names the run; "" = several runs.
    """

    title: str
    quantity: str
    curves: Mapping[str, Curve]
    lines: Mapping[str, Line]
    logarithmic: bool
    run: str = ""


def curve_panel(
    title: str, quantity: str, curves: Mapping[str, Curve], logarithmic: bool = False
) -> CurvePanel:
    """Returns a panel of the curves that have points; long ones are thinned.

    A logarithmic panel leaves out values that are not positive.
    """
    thinned_curves = {}
    for name, (steps, values) in curves.items():
        drawn = np.isfinite(values) & ((values > 0) | (not logarithmic))
        if drawn.any():
            steps, values = steps[drawn], values[drawn]
            thinned = np.unique(np.linspace(0, len(steps) - 1, _POINTS).astype(int))
            thinned_curves[name] = Curve(steps[thinned], values[thinned])
    return CurvePanel(title, quantity, thinned_curves, lines_of(list(thinned_curves)), logarithmic)


class AcceptancePanel(NamedTuple):
    """The share of responses that is accepted at each risk; the risk is named in words.

    Attributes:
      targets: limits of the risk, rising: [targets]; `target` is the limit that was asked for.
      guaranteed: the share accepted with the guarantee at each target: [targets].
      risks: the risk among calibration rows at each of their thresholds: [thresholds].
      accepted: the share of calibration rows accepted at each threshold: [thresholds].
    """

    title: str
    risk: str
    targets: NDArray[np.float64]
    guaranteed: NDArray[np.float64]
    risks: NDArray[np.float64]
    accepted: NDArray[np.float64]
    target: float
