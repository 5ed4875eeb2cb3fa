"""Pictures of prompt-tuned runs: curves over steps, as a PNG file."""

import pathlib
from collections.abc import Sequence
from typing import Any

from faith_jax.report.curve_panels import CurvePanel
from faith_jax.report.figures import save_pages


def save_curves(panels: Sequence[CurvePanel], path: pathlib.Path) -> list[pathlib.Path]:
    """Draws panels, at most 12 in a file; those that follow are written as NAME-2.png and so on.

    Returns:
      The files.

    Raises:
      ConfigError: where a file cannot be written.
    """
    return save_pages(panels, _draw, path, columns=3, lines=4, size=(5.2, 3.4))


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
    axes.legend(fontsize="small")
