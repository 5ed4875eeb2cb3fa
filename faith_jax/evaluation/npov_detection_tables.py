"""The tables of Chang 2024's detection study in the paper's form, beside the paper's figures."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.evaluation.auc_table import SIGNIFICANT
from faith_jax.evaluation.dataset_statistics import Table
from faith_jax.evaluation.npov_detection import (
    AGGREGATIONS,
    Detection,
    Key,
    comparisons,
    detections,
    salience_name,
)
from faith_jax.evaluation.npov_table import ERRORS
from faith_jax.evaluation.published import PUBLISHED
from faith_jax.evaluation.scored_corpora import Corpus

MARK = "*"
_HEADS = {"hallucination": "hallucinations", "coverage": "coverage errors"}
TIDY = (
    "table", "test set", "error", "method", "rows", "errors", "auc", "low", "high", "p_value",
    "best", "published",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TableForm:
    """One of the paper's tables.

    Attributes:
      number: in the paper.
      title: what it shows.
      methods: its columns for each error, or, where `by_rows`, its rows.
      scorers: the name of each method's scores, with {error} for the error.
      published: the table's name in `PUBLISHED`, and how rows are named there.
      words: whether it is of words.
      by_rows: whether methods are rows, as in table 6.
    """

    number: int
    title: str
    methods: tuple[str, ...]
    scorers: tuple[str, ...]
    published: str
    keys: tuple[str, ...]
    words: bool = False
    by_rows: bool = False

    def scorer_names(self) -> dict[str, dict[str, str]]:
        """Returns the names of each method's scores by error."""
        return {
            method: {error: scorer.format(error=error) for error in ERRORS}
            for method, scorer in zip(self.methods, self.scorers, strict=True)
        }

    def theirs(self, key: Key) -> float | None:
        """Returns the paper's figure for a cell, as a share; None where it has none."""
        row = self.keys[self.methods.index(key.method)].format(error=key.error)
        value = PUBLISHED[self.published].rows.get((key.error, row), {}).get(key.slice)
        return None if value is None else value / 100


_ROUGE, _SALIENCE, _CLASSIFIER = "npov_rouge1_{error}", "salience_{error}", "npov_{error}"
_TRAINED_ON = ("synth", "para", "dev", "org")

FORMS = (
    TableForm(
        1,
        "Detection of errors",
        ("ROUGE", "salience", "classifier"),
        (_ROUGE, _SALIENCE, _CLASSIFIER),
        "npov",
        (_ROUGE, _SALIENCE, _CLASSIFIER),
    ),
    TableForm(
        2,
        "Detection of errors by classifiers, by what they are trained on",
        tuple(f"+{name.capitalize()}" for name in _TRAINED_ON),
        tuple(f"{_CLASSIFIER}_{name}" for name in _TRAINED_ON),
        "npov_training",
        _TRAINED_ON,
    ),
    TableForm(
        3,
        "Detection of erroneous words",
        ("ROUGE", "salience"),
        (_ROUGE, _SALIENCE),
        "npov_words",
        (_ROUGE, _SALIENCE),
        words=True,
    ),
    TableForm(
        5,
        "Detection of errors by classifiers without annotation",
        ("annotation-free",),
        (f"{_CLASSIFIER}_annotation_free",),
        "npov_annotation_free",
        ("annotation_free",),
    ),
    TableForm(
        6,
        "Detection of errors by salience, by how a word's entries are aggregated",
        ("max", "sum", "negative entropy"),
        tuple(salience_name("{error}", name) for name in AGGREGATIONS),
        "npov_aggregation",
        AGGREGATIONS,
        by_rows=True,
    ),
)


def detection_tables(
    corpora: Mapping[str, Corpus],
    slices: Mapping[str, str],
    resamples: int = 1000,
    seed: int = 0,
    cluster_field: str = "topic",
) -> list[Table]:
    """Returns the tables.

    Args:
      corpora: the scored test sets by name.
      slices: all test sets in the tables' order, with what their cells say where there is none.
      resamples: of the bootstrap.
      seed: of the resamples.
      cluster_field: rows with the same value are drawn together.
    """
    tables = []
    for form in FORMS:
        found = detections(corpora, form.scorer_names(), form.words, resamples, seed, cluster_field)
        rows = _rows(form, found, slices)
        heads = tuple(f"{_HEADS[error]}: {m}" for error in ERRORS for m in form.methods)
        columns = ("test set", *heads)
        if form.by_rows:
            columns = ("aggregation", "test set", *_HEADS.values())
        title = f"{form.title} (Chang 2024, table {form.number}): ROC AUC"
        notes = tuple(_notes(form, found))
        tables.append(Table(title, columns, tuple(rows), notes, _tidy(form, found)))
    return tables


def _rows(
    form: TableForm, found: Mapping[Key, Detection], slices: Mapping[str, str]
) -> Iterator[tuple[Any, ...]]:
    groups = [(method,) for method in form.methods] if form.by_rows else [form.methods]
    for methods in groups:
        for name, absent in slices.items():
            keys = [Key(name, error, method) for error in ERRORS for method in methods]
            first = (*methods, name) if form.by_rows else (name,)
            yield (*first, *(_text(form, key, found, absent) for key in keys))
            theirs = [form.theirs(key) for key in keys]
            if any(value is not None for value in theirs):
                shown = (None if value is None else f"{value:.3f}" for value in theirs)
                yield (*first[:-1], f"{name} (published)", *shown)


def _text(form: TableForm, key: Key, found: Mapping[Key, Detection], absent: str) -> str:
    if key not in found:
        return absent or "not scored"
    detection = found[key]
    area, interval = detection.cell.auc, detection.cell.interval
    if math.isnan(area):
        return "one class"
    return (
        f"{area:.3f}{MARK * _beats_all(key, found)} ({interval.low:.3f}\u2013{interval.high:.3f})"
    )


def _beats_all(key: Key, found: Mapping[Key, Detection]) -> bool:
    """Returns whether a method is the best, significantly better than each of the others."""
    others = [
        other
        for place, other in found.items()
        if place[:2] == key[:2] and place.method != key.method
    ]
    return found[key].best and bool(others) and all(other.significant for other in others)


def _notes(form: TableForm, found: Mapping[Key, Detection]) -> Iterator[str]:
    number = comparisons(found)
    if number:
        what = "words" if form.words else "rows"
        yield (
            f"{MARK} the best of its test set and error, significantly better than each of the "
            f"others there: two-sided p \u2264 {SIGNIFICANT:g} by Hanley and McNeil's test with "
            f"Bonferroni's correction for all {number} comparisons of the table; the test takes "
            f"{what} as independent."
        )
    unknown = [method for method in form.methods if not any(key.method == method for key in found)]
    if unknown:
        yield f"Not scored: {', '.join(unknown)}, of which no classifier is given."
    yield PUBLISHED[form.published].note


def _tidy(form: TableForm, found: Mapping[Key, Detection]) -> Table:
    rows = []
    for key, detection in found.items():
        cell = detection.cell
        counts = detection.rows, detection.errors
        figures = cell.auc, *cell.interval, detection.p_value, int(detection.best)
        rows.append((form.number, *key, *counts, *figures, form.theirs(key)))
    return Table("", TIDY, tuple(rows))


def joined_tidy(tables: Sequence[Table]) -> Table:
    """Returns the figures of all tables in one."""
    return Table("", TIDY, tuple(row for table in tables if table.tidy for row in table.tidy.rows))
