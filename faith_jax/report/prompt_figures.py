"""Pictures of prompt-tuned runs: curves over steps, as a PNG file."""

import itertools
import pathlib
from collections.abc import Sequence
from typing import Any

from faith_jax.report.curve_panels import CurvePanel
from faith_jax.report.figures import save_pages

_COLUMNS = 3


def save_curves(panels: Sequence[CurvePanel], path: pathlib.Path) -> list[pathlib.Path]:
    """Draws panels, four lines of three at most in a file; each run begins a line.

    Those that follow are written as NAME-2.png and so on.

    Returns:
      The files.

    Raises:
      ConfigError: where a file cannot be written.
    """
    return save_pages(placed(panels), _draw, path, columns=_COLUMNS, lines=4, size=(6.4, 3.4))


def placed(panels: Sequence[CurvePanel]) -> list[CurvePanel | None]:
    """Returns the panels in lines of three, where each run begins one; None = an empty place."""
    places: list[CurvePanel | None] = []
    for _, group in itertools.groupby(panels, key=lambda panel: panel.run):
        own = list(group)
        if places:
            places += [None] * (-len(places) % _COLUMNS)
        places += own
    return places


def _draw(axes: Any, panel: CurvePanel) -> None:
    for name, curve in panel.curves.items():
        colour, dashes = panel.lines[name]
        style: Any = (0, dashes) if dashes else "-"
        marker = "." if len(curve.steps) < 30 else ""
        # Matplotlib leaves out names that begin with "_", and sets formulas between "$".
        label = ("./" if name.startswith("_") else "") + name.replace("$", r"\$")
        axes.plot(
            curve.steps, curve.values, color=colour, linestyle=style, marker=marker, label=label
        )
    if panel.logarithmic:
        axes.set_yscale("log")
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="step", ylabel=panel.quantity)
    axes.set_title(panel.title.replace("$", r"\$"), fontsize="medium", wrap=True)
    # Beside the curves, whose ends it would cover.
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))
