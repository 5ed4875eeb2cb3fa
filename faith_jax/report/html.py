"""One self-contained HTML page of scored rows: tables, curves, histograms, and the examples.

Everything is inside the page: no network, no other file. All text is escaped: in the page by Jinja,
in the examples (which are JSON) by never writing "<", and in the browser by setting text, never
markup.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.table import Table
from faith_jax.core.words import lower_words
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
    rows: Sequence[Mapping[str, Any]],
    left_out: int = 0,
    salience_note: str = "",
    salience: Sequence[Mapping[str, Any]] = (),
    meanings: Mapping[str, str] | None = None,
) -> str:
    """Returns the page.

    Args:
      title: of the page.
      corpora: what the curves and histograms show.
      tables: the figures.
      rows: the examples, in the form of `faith_jax.export.scored_rows`.
      left_out: how many examples there are beside these.
      salience_note: which rows have a salience map.
      salience: their maps, from `faith_jax.report.salience.salience_section`.
      meanings: what scores mean, by scorer.
    """
    scorers, lines = scorers_of(corpora), lines_of(scorers_of(corpora))
    drawn = [curves(corpus, lines) for corpus in corpora.values()]
    with_words = {name for row in rows for name, words in row["words"].items() if words}
    return page_template("report.html").render(
        title=title,
        tables=tables,
        curves=[curve for curve in drawn if curve["lines"]],
        curveless=[curve["corpus"] for curve in drawn if not curve["lines"]],
        histograms=[histogram(panel) for panel in histogram_panels(corpora)],
        outline=outline,
        scorers=scorers,
        word_scorers=[(i, name) for i, name in enumerate(scorers) if name in with_words],
        corpora=list(corpora),
        systems=_are_systems(rows),
        labelled=any(not np.isnan(corpus.labels).all() for corpus in corpora.values()),
        count=len(rows),
        left_out=left_out,
        examples=embedded_json(_examples(rows, scorers)),
        salience_note=salience_note,
        salience=salience,
        meanings=meanings or {},
    )


def _are_systems(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether rows of several corpora respond to the same grounding."""
    seen: dict[tuple[Any, ...], str] = {}
    keys = ((row["corpus"], (row["id"], *row["grounding"])) for row in rows)
    return any(seen.setdefault(key, corpus) != corpus for corpus, key in keys)


def embedded_json(values: Iterable[Any]) -> str:
    """Returns a list as JSON that ends no script element, whatever its texts hold."""
    text = json.dumps(list(values), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _examples(
    rows: Iterable[Mapping[str, Any]], scorers: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yields rows as the page has them; those of a corpus and label with equal words are alike."""
    known: dict[tuple[Any, ...], int] = {}
    for row in rows:
        key = (row["corpus"], row["label"], *lower_words(row["generated_text"]))
        yield _example(row, scorers) | {"alike": known.setdefault(key, len(known))}


def _example(row: Mapping[str, Any], scorers: Sequence[str]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "corpus": row["corpus"],
        "label": row["label"],
        "grounding": row["grounding"],
        "perspectives": row.get("perspectives") or [],
        "history": row.get("history") or [],
        "response": row["generated_text"],
        "scores": [row["scores"].get(name) for name in scorers],
        "words": {scorers.index(n): _words(row, n) for n in row["words"] if n in scorers},
        "missing": _missing(row),
    }


def _missing(row: Mapping[str, Any]) -> list[int]:
    """Returns the texts of the grounding to which a scorer of whole texts gives 0."""
    found = set()
    for words in row["words"].values():
        placed = [word for word in words if word[3] is not None]
        if all((w[0], w[1]) == (0, len(row["grounding"][w[3]])) for w in placed):
            found |= {word[3] for word in placed if word[2] == 0}
    return sorted(found)


def _words(row: Mapping[str, Any], scorer: str) -> list[list[Any]]:
    """Returns a scorer's words with their places as JavaScript counts: in UTF-16 units."""
    found = []
    for start, end, score, place in row["words"][scorer]:
        text = row["generated_text"] if place is None else row["grounding"][place]
        if any(character > "\uffff" for character in text):
            start, end = (len(text[:i].encode("utf-16-le")) // 2 for i in (start, end))
        found.append([start, end, score, place])
    return found


def curves(corpus: Corpus, lines: Mapping[str, Line]) -> dict[str, Any]:
    """Returns a corpus's best ROC curves as points in the unit square, y downwards as in SVG."""
    panel = roc_panel(corpus)
    drawn = []
    for name, curve in panel.curves.items():
        kept = np.unique(np.linspace(0, len(curve.x) - 1, _CURVE_POINTS).astype(int))
        drawn.append(
            {
                "name": name,
                "points": " ".join(f"{curve.x[i]:.4f},{1 - curve.y[i]:.4f}" for i in kept),
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
