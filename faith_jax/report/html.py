"""One HTML page of scored rows: tables, curves, histograms, and the examples.

It needs no network, and no other file where the examples are not too many to be inside the page
(`faith_jax.report.examples`). All text is escaped: in the page by Jinja, in the examples (which are
JSON) by never writing "<", and in the browser by setting text, never markup.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.table import Table
from faith_jax.report.examples import BLOCK, PageFiles, page_examples
from faith_jax.report.panels import (
    CLASS_COLOURS,
    CLASSES,
    HistogramPanel,
    Line,
    histogram_panels,
    lines_of,
    roc_panel,
    scorers_of,
)
from faith_jax.report.table_pages import page_template
from faith_jax.statistics.scored_corpora import Corpus

# A curve of more points is thinned: no screen shows them.
_CURVE_POINTS = 200


def report_page(
    title: str,
    corpora: Mapping[str, Corpus],
    tables: Sequence[Table],
    rows: Iterable[Mapping[str, Any]],
    left_out: int = 0,
    salience_note: str = "",
    salience: Sequence[Mapping[str, Any]] = (),
    meanings: Mapping[str, str] | None = None,
    files: PageFiles | None = None,
) -> str:
    """Returns the page.

    Args:
      title: of the page.
      corpora: what the curves and histograms show.
      tables: the figures.
      rows: the examples, in the form of `faith_jax.export.scored_rows`; they are read once.
      left_out: how many examples there are beside these.
      salience_note: which rows have a salience map.
      salience: their maps, from `faith_jax.report.salience.salience_section`.
      meanings: what scores mean, by scorer.
      files: beside the page, for many examples; None = all are in the page.
    """
    scorers, lines = scorers_of(corpora), lines_of(scorers_of(corpora))
    drawn = [curves(corpus, lines) for corpus in corpora.values()]
    examples = page_examples(rows, scorers, files)
    return page_template("report.html").render(
        title=title,
        tables=tables,
        curves=[curve for curve in drawn if curve["lines"]],
        curveless=[curve["corpus"] for curve in drawn if not curve["lines"]],
        histograms=[histogram(panel) for panel in histogram_panels(corpora)],
        outline=outline,
        scorers=scorers,
        word_scorers=[(i, name) for i, name in enumerate(scorers) if i in examples.ranges],
        corpora=list(corpora),
        labelled=any(not np.isnan(corpus.labels).all() for corpus in corpora.values()),
        left_out=left_out,
        examples=examples,
        block=BLOCK,
        salience_note=salience_note,
        salience=salience,
        meanings=meanings or {},
    )


def curves(corpus: Corpus, lines: Mapping[str, Line]) -> dict[str, Any]:
    """Returns a corpus's best ROC curves as points in the unit square, y downwards as in SVG."""
    panel = roc_panel(corpus)
    drawn = []
    for name, curve in panel.curves.items():
        point_numbers = np.unique(np.linspace(0, len(curve.x) - 1, _CURVE_POINTS).astype(int))
        drawn.append(
            {
                "name": name,
                "points": " ".join(f"{curve.x[i]:.4f},{1 - curve.y[i]:.4f}" for i in point_numbers),
                "auc": f"{100 * panel.areas[name]:.1f}",
                "colour": lines[name].colour,
                "dashes": " ".join(f"{0.01 * length:g}" for length in lines[name].dashes),
            }
        )
    return {"corpus": corpus.name, "lines": drawn, "left_out": panel.left_out, "rows": panel.rows}


def histogram(panel: HistogramPanel) -> dict[str, Any]:
    """Returns a scorer's distribution by class; heights [bins] are shares of the axis."""
    classes = [
        {
            "name": name,
            "count": panel.counts[name],
            "heights": (shares / panel.top).tolist(),
            "colour": CLASS_COLOURS[name],
            "filled": name != CLASSES[1],
        }
        for name, shares in panel.shares.items()
    ]
    return {
        "corpus": panel.corpus,
        "scorer": panel.scorer,
        "classes": classes,
        "low": f"{panel.edges[0]:.3g}",
        "high": f"{panel.edges[-1]:.3g}",
        "top": f"{100 * panel.top:g} %",
        "width": 1 / (len(panel.edges) - 1),
    }


def outline(heights: Sequence[float], width: float) -> str:
    """Returns the outline of a histogram as points for SVG, 0.6 high."""
    points = [(0.0, 0.6)]
    for number, height in enumerate(heights):
        y = 0.6 - 0.6 * height
        points += [(number * width, y), ((number + 1) * width, y)]
    return " ".join(f"{x:.4f},{y:.4f}" for x, y in [*points, (1.0, 0.6)])
