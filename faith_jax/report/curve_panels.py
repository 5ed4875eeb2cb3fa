"""Curves over steps, whatever draws them: as PNG files or inside a page."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.report.panels import Line, lines_of
from faith_jax.statistics.prompt_health import Curve, RunHealth

# More curves in one panel cannot be told apart.
MOST_CURVES = 10
# No screen shows more points.
_POINTS = 400


class CurvePanel(NamedTuple):
    """Curves with common axes.

    Attributes:
      title: of the panel.
      quantity: what is drawn, in words, with its unit.
      curves: by name; points that are not finite are left out.
      lines: how each is drawn.
      logarithmic: the scale of the values.
      run: whose curves they are; "" = of several.
    """

    title: str
    quantity: str
    curves: Mapping[str, Curve]
    lines: Mapping[str, Line]
    logarithmic: bool
    run: str = ""


def prompt_panels(runs: Sequence[RunHealth]) -> list[CurvePanel]:
    """Returns the panels of a report; what was not logged has none.

    They are the validation losses of several runs, and for each run its losses and, by vector,
    gradient norms and movement.
    """
    panels = []
    if len(runs) > 1:
        together = {run.name: run.validation_loss for run in runs[:MOST_CURVES]}
        panels.append(curve_panel("all runs", "validation loss, nats a token", together))
    for run in runs:
        losses = {"training": run.training_loss, "validation": run.validation_loss}
        own = [curve_panel(run.name, "loss, nats a token", losses)]
        for name, prompt in run.prompts.items():
            title = run.name if len(run.prompts) == 1 else f"{run.name} {name}"
            own += [
                curve_panel(title, "gradient norm", by_vector(prompt.gradient_norms), True),
                curve_panel(title, "L2 distance from the start", by_vector(prompt.movements)),
            ]
        panels += [panel._replace(run=run.name) for panel in own]
    return [panel for panel in panels if panel.curves]


def by_vector(curve: Curve) -> dict[str, Curve]:
    """Returns a curve for each vector; of many vectors the smallest, the median and the largest."""
    steps, values = curve
    if not len(steps):
        return {}
    if values.shape[1] <= MOST_CURVES:
        return {f"vector {i}": Curve(steps, values[:, i]) for i in range(values.shape[1])}
    return {
        "smallest": Curve(steps, values.min(axis=1)),
        "median": Curve(steps, np.median(values, axis=1)),
        "largest": Curve(steps, values.max(axis=1)),
    }


def curve_panel(
    title: str, quantity: str, curves: Mapping[str, Curve], logarithmic: bool = False
) -> CurvePanel:
    """Returns a panel of the curves that have points.

    Args:
      title: of the panel.
      quantity: what is drawn.
      curves: by name; long ones are thinned.
      logarithmic: draw logarithms; values that are not positive are left out.
    """
    kept = {}
    for name, (steps, values) in curves.items():
        drawn = np.isfinite(values) & ((values > 0) | (not logarithmic))
        if drawn.any():
            steps, values = steps[drawn], values[drawn]
            thinned = np.unique(np.linspace(0, len(steps) - 1, _POINTS).astype(int))
            kept[name] = Curve(steps[thinned], values[thinned])
    return CurvePanel(title, quantity, kept, lines_of(list(kept)), logarithmic)


class Axes(NamedTuple):
    """The ends of a panel's axes.

    Attributes:
      first: step.
      last: step.
      low: value, or its decimal logarithm.
      high: the same.
    """

    first: int
    last: int
    low: float
    high: float


def axes_of(panel: CurvePanel) -> Axes:
    """Returns the ends of axes that hold all points of a panel that has some."""
    steps = np.concatenate([curve.steps for curve in panel.curves.values()])
    values = np.concatenate([_height(curve.values, panel) for curve in panel.curves.values()])
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-9):
        around = abs(low) / 10 or 1.0
        low, high = low - around, high + around
    return Axes(int(steps.min()), int(steps.max()), low, high)


def points_of(panel: CurvePanel, name: str, axes: Axes) -> list[tuple[float, float]]:
    """Returns a curve's points in the unit square, the lowest value at 0."""
    steps, values = panel.curves[name]
    x = (steps - axes.first) / max(1, axes.last - axes.first)
    y = (_height(values, panel) - axes.low) / (axes.high - axes.low)
    return list(zip(x.tolist(), y.tolist(), strict=True))


def label_of(panel: CurvePanel, end: float) -> str:
    """Returns the text at an end of the axis of values."""
    value = 10**end if panel.logarithmic else end
    return f"{value:.3g}" if math.isfinite(value) else "\u2013"


def _height(values: NDArray[np.float64], panel: CurvePanel) -> NDArray[np.float64]:
    return np.log10(values) if panel.logarithmic else values
