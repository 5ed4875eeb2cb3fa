"""One self-contained HTML page on the health of prompt-tuned runs.

Nothing is fetched and nothing is run in it; all text is escaped.
"""

import math
from collections.abc import Sequence
from typing import Any

from faith_jax.report.curve_panels import CurvePanel, axes_of, label_of, points_of
from faith_jax.report.html import page_template
from faith_jax.report.prompt_tables import PromptReport, all_tables, all_warnings

# A grid of more vectors is not readable.
_LARGEST_GRID = 30
_HEIGHT = 0.65


def prompt_page(title: str, report: PromptReport, panels: Sequence[CurvePanel]) -> str:
    """Returns the page.

    Args:
      title: of the page.
      report: what it says.
      panels: the curves.
    """
    return page_template("prompts.html").render(
        title=title,
        warnings=all_warnings(report),
        tables=all_tables(report),
        panels=[drawn(panel) for panel in panels],
        grids=_grids(report),
    )


def drawn(panel: CurvePanel) -> dict[str, Any]:
    """Returns a panel as SVG has it: points in [0, 1] x [0, 0.65], y downwards."""
    axes = axes_of(panel)
    curves = []
    for name, line in panel.lines.items():
        points = [(f"{x:.4f}", f"{_HEIGHT * (1 - y):.4f}") for x, y in points_of(panel, name, axes)]
        curves.append(
            {
                "name": name,
                "points": " ".join(f"{x},{y}" for x, y in points),
                "dot": points[0] if len(points) == 1 else None,
                "colour": line.colour,
                "dashes": " ".join(f"{0.01 * length:g}" for length in line.dashes),
            }
        )
    return {
        "title": panel.title,
        "quantity": panel.quantity,
        "logarithmic": panel.logarithmic,
        "curves": curves,
        "first": axes.first,
        "last": axes.last,
        "low": label_of(panel, axes.low),
        "high": label_of(panel, axes.high),
    }


def _grids(report: PromptReport) -> list[dict[str, Any]]:
    """Returns the cosines between each prompt's vectors, shaded by their size."""
    return [
        {
            "title": f"{run.name}: {prompt.name}",
            "rows": [[_cell(value) for value in row] for row in prompt.cosines.tolist()],
        }
        for run in report.runs
        for prompt in run.prompts.values()
        if 1 < len(prompt.vectors) <= _LARGEST_GRID
    ]


def _cell(value: float) -> dict[str, Any]:
    if math.isnan(value):
        return {"text": "\u2013", "weight": "0", "negative": False}
    return {"text": f"{value:.2f}", "weight": f"{0.6 * abs(value):.2f}", "negative": value < 0}
