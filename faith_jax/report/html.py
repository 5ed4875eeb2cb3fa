"""One self-contained HTML page of scored rows: tables, curves, histograms, and the examples.

Everything is inside the page: no network, no other file. All text is escaped: in the page by Jinja,
in the examples (which are JSON) by never writing "<", and in the browser by setting text, never
markup.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.evaluation.dataset_statistics import Table
from faith_jax.evaluation.roc import roc_auc, roc_curve
from faith_jax.evaluation.scored_corpora import Corpus
from faith_jax.report.tables import cell_text

# A curve of more points is thinned: no screen shows them.
_CURVE_POINTS = 200
_BINS = 20
# Colours that people with any colour vision tell apart (Okabe 2008), on light and dark grounds.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")


def report_page(
    title: str,
    corpora: Mapping[str, Corpus],
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    left_out: int = 0,
) -> str:
    """Returns the page.

    Args:
      title: of the page.
      corpora: what the curves and histograms show.
      table: the figures.
      rows: the examples, in the form of `faith_jax.export.scored_rows`.
      left_out: how many examples there are beside these.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("faith_jax.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    scorers = list(dict.fromkeys(name for corpus in corpora.values() for name in corpus.scores))
    return environment.get_template("report.html").render(
        title=title,
        table=table,
        cells=[[cell_text(value) for value in row] for row in table.rows],
        curves=[curves(corpus) for corpus in corpora.values()],
        histograms=[histogram(c, s) for c in corpora.values() for s in scorers if s in c.scores],
        colours=COLOURS,
        scorers=scorers,
        corpora=list(corpora),
        count=len(rows),
        left_out=left_out,
        examples=embedded_json(_example(row, scorers) for row in rows),
    )


def embedded_json(values: Iterable[Any]) -> str:
    """Returns a list as JSON that ends no script element, whatever its texts hold."""
    text = json.dumps(list(values), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


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
    }


def _words(row: Mapping[str, Any], scorer: str) -> list[list[Any]]:
    """Returns a scorer's words with their places as JavaScript counts: in UTF-16 units."""
    found = []
    for start, end, score, place in row["words"][scorer]:
        text = row["generated_text"] if place is None else row["grounding"][place]
        if any(character > "\uffff" for character in text):
            start, end = (len(text[:i].encode("utf-16-le")) // 2 for i in (start, end))
        found.append([start, end, score, place])
    return found


def curves(corpus: Corpus) -> dict[str, Any]:
    """Returns the ROC curves of a corpus as points in the unit square, y downwards as SVG has it.

    Args:
      corpus: the scored rows; scorers without both classes have no curve.
    """
    lines = []
    for name, values in corpus.scores.items():
        known = ~(np.isnan(values) | np.isnan(corpus.labels))
        labels = corpus.labels[known]
        if len(set(labels.tolist())) < 2:
            continue
        curve = roc_curve(values[known], labels)
        kept = np.unique(np.linspace(0, len(curve.x) - 1, _CURVE_POINTS).astype(int))
        points = " ".join(f"{curve.x[i]:.4f},{1 - curve.y[i]:.4f}" for i in kept)
        area = 100 * roc_auc(values[known], labels)
        lines.append({"name": name, "points": points, "auc": f"{area:.1f}"})
    return {"corpus": corpus.name, "lines": lines}


def histogram(corpus: Corpus, scorer: str) -> dict[str, Any]:
    """Returns how a scorer's values are distributed, for faithful rows and for others.

    Args:
      corpus: the scored rows.
      scorer: one of its scorers.

    Returns:
      For each class the shares of its rows by bin, relative to the largest share: [bins].
    """
    values = corpus.scores[scorer]
    known = ~np.isnan(values)
    edges = np.histogram_bin_edges(values[known], _BINS) if known.any() else np.array([0.0, 1.0])
    chosen = {
        name: values[known & (corpus.labels == label)]
        for label, name in ((1, "faithful"), (0, "not faithful"))
    }
    shares = {
        name: np.histogram(found, edges)[0] / max(1, len(found)) for name, found in chosen.items()
    }
    largest = max(float(share.max(initial=0)) for share in shares.values()) or 1.0
    classes = [
        {"name": name, "count": len(chosen[name]), "heights": (share / largest).tolist()}
        for name, share in shares.items()
    ]
    return {
        "corpus": corpus.name,
        "scorer": scorer,
        "classes": classes,
        "low": f"{edges[0]:.3g}",
        "high": f"{edges[-1]:.3g}",
        "width": 1 / (len(edges) - 1),
    }
