"""Figures that papers print for scorers that are here too, to be set beside ours."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from faith_jax.core.table import Table


class Published(NamedTuple):
    """Rows of a paper's table.

    Attributes:
      note: which table they stand in, and what to know when comparing.
      rows: by the first cells of our row (such as the scorer), the values by column; columns that
        our table lacks are added.
    """

    note: str
    rows: Mapping[tuple[str, ...], Mapping[str, float]] = {}


_BEGIN = ("P", "R", "F1", "Acc", "F1 cmu", "F1 tc", "F1 wow")
_SLICES = ("full organic", "unparaphrased synthetic", "paraphrased synthetic", "ambiguous organic")
_ORGANIC = ("full organic", "ambiguous organic")
_NPOV = (
    "of another model (64 billion parameters; its classifiers 62) on the paper's test sets, which "
    "are not public; ours are errors in other texts"
)


def _row(columns: tuple[str, ...], *values: float) -> dict[str, float]:
    pairs = zip(columns, values, strict=True)
    return {column: value for column, value in pairs if not math.isnan(value)}


PUBLISHED = {
    "true": Published("Steen 2023's table 1 has scorers with models only; none is among these."),
    # By their published code: F1-U, BLEU and BERTScore are the baselines of Q²'s authors, ROUGE-L
    # is of Porter stems, the critic says 1 or 0, and PMI-Faith is a mean over cue and response.
    "begin": Published(
        "Published: Nandwani 2023, table 1, F1-U, BLEU, RougeL, BERT (deberta-xlarge-mnli), "
        "faithc. (FaithDial's roberta-large), Q\u00b2 (which form is not said; q2_nli is its "
        "authors' first) and PMI-Faith (BLOOM-560m).",
        {
            ("q2_baseline_token_f1",): _row(_BEGIN, 40.1, 78.5, 53.1, 67.7, 46.2, 42.9, 58.7),
            ("q2_baseline_bleu",): _row(_BEGIN, 47.8, 47.9, 47.9, 75.7, 2.7, math.nan, 62.0),
            ("rougeL_f1_stemmed",): _row(_BEGIN, 48.7, 55.2, 51.8, 76.0, 14.0, 5.0, 64.7),
            ("bertscore",): _row(_BEGIN, 45.9, 67.3, 54.6, 73.9, 29.4, 43.2, 61.2),
            ("faith_critic_call",): _row(_BEGIN, 68.4, 49.2, 57.3, 82.9, 15.6, 3.9, 79.4),
            ("q2_nli",): _row(_BEGIN, 51.7, 74.4, 61.0, 77.9, 54.3, 48.7, 70.5),
            ("pmi_faith_mean",): _row(_BEGIN, 60.7, 81.8, 69.7, 83.4, 66.3, 58.4, 77.1),
        },
    ),
    "npov": Published(
        f"Published: Chang 2024, table 1, {_NPOV}.",
        {
            ("hallucination", "npov_rouge1_hallucination"): _row(_SLICES, 84.0, 77.2, 68.0, 81.4),
            ("hallucination", "salience_hallucination"): _row(_SLICES, 80.8, 73.6, 70.8, 77.2),
            ("hallucination", "npov_hallucination"): _row(_SLICES, 95.3, 99.8, 97.7, 85.1),
            ("coverage", "npov_rouge1_coverage"): _row(_SLICES, 79.5, 89.0, 74.6, 83.4),
            ("coverage", "salience_coverage"): _row(_SLICES, 85.2, 87.5, 83.1, 75.5),
            ("coverage", "npov_coverage"): _row(_SLICES, 90.5, 98.6, 99.3, 75.6),
        },
    ),
    # Classifiers by the data that they are trained on.
    "npov_training": Published(
        f"Published: Chang 2024, table 2, {_NPOV}.",
        {
            ("hallucination", "synth"): _row(_ORGANIC, 78.9, 80.7),
            ("hallucination", "para"): _row(_ORGANIC, 82.8, 82.0),
            ("hallucination", "dev"): _row(_ORGANIC, 95.3, 85.1),
            ("hallucination", "org"): _row(_ORGANIC, 92.0, 86.2),
            ("coverage", "synth"): _row(_ORGANIC, 88.0, 70.2),
            ("coverage", "para"): _row(_ORGANIC, 90.3, 52.9),
            ("coverage", "dev"): _row(_ORGANIC, 90.5, 75.6),
            ("coverage", "org"): _row(_ORGANIC, 95.6, 64.0),
        },
    ),
    "npov_annotation_free": Published(
        f"Published: Chang 2024, table 5, {_NPOV}.",
        {
            ("hallucination", "annotation_free"): _row(_ORGANIC, 73.9, 73.2),
            ("coverage", "annotation_free"): _row(_ORGANIC, 89.6, 80.4),
        },
    ),
    # Salience by how the entries of a word are aggregated.
    "npov_aggregation": Published(
        f"Published: Chang 2024, table 6, {_NPOV}.",
        {
            ("hallucination", "max"): _row(_ORGANIC[:1], 80.8),
            ("hallucination", "sum"): _row(_ORGANIC[:1], 84.6),
            ("hallucination", "negative_entropy"): _row(_ORGANIC[:1], 78.6),
            ("coverage", "max"): _row(_ORGANIC[:1], 85.2),
            ("coverage", "sum"): _row(_ORGANIC[:1], 80.9),
            ("coverage", "negative_entropy"): _row(_ORGANIC[:1], 66.4),
        },
    ),
    "npov_words": Published(
        f"Published: Chang 2024, table 3, {_NPOV}.",
        {
            ("hallucination", "npov_rouge1_hallucination"): _row(_SLICES, 67.3, 69.7, 61.4, 54.2),
            ("hallucination", "salience_hallucination"): _row(_SLICES, 72.4, 71.0, 67.3, 54.2),
            ("coverage", "npov_rouge1_coverage"): _row(_SLICES, 66.9, 69.3, 58.2, 73.8),
            ("coverage", "salience_coverage"): _row(_SLICES, 79.9, 80.8, 74.2, 74.0),
        },
    ),
    "pronouns": Published(
        "Published: Steen 2023, table 3, gold label.",
        {("label",): {"begin": -0.35, "q2": -0.03, "dialfact": 0.05}},
    ),
}


def with_published(table: Table, published: Published) -> Table:
    """Returns the table with a row of published figures below each of ours that has some.

    Args:
      table: ours; its tidy form must have our row's first cells, the column, and the value as a
        share.
      published: of the same table.
    """
    size = len(next(iter(published.rows), ()))
    shown = {row[:size]: published.rows.get(row[:size], {}) for row in table.rows}
    more = {name: None for values in shown.values() for name in values if name not in table.columns}
    rows: list[tuple[Any, ...]] = []
    for row in table.rows:
        rows.append((*row, *more.values()))
        if values := shown[row[:size]]:
            texts = isinstance(row[-1], str)  # ours have intervals
            cells = [values.get(column) for column in (*table.columns[size:], *more)]
            rows.append(
                (*_name(row[:size]), *(f"{v:.1f}" if texts and v is not None else v for v in cells))
            )
    tidy = table.tidy and table.tidy._replace(
        rows=(*table.tidy.rows, *_tidy_rows(shown, len(table.tidy.columns)))
    )
    notes = (*table.notes, published.note)
    return Table(table.title, (*table.columns, *more), tuple(rows), notes, tidy)


def _name(cells: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*cells[:-1], f"{cells[-1]} (published)")


def _tidy_rows(
    shown: Mapping[tuple[Any, ...], Mapping[str, float]], width: int
) -> list[tuple[Any, ...]]:
    rows = []
    for key, values in shown.items():
        for column, value in values.items():
            row = (*_name(key), column, value / 100)
            rows.append((*row, *(None,) * (width - len(row))))
    return rows
