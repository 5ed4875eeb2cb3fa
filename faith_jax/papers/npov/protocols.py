"""The protocols `npov` and `npov_words`: detection of NPOV errors (Chang 2024, tables 1 and 3)."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.errors import InputError
from faith_jax.core.table import Table
from faith_jax.papers.npov.detection import ERROR_FIELDS, ERRORS, detections, detectors, has_spans
from faith_jax.runs.options import Comparison, EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    ReportTables,
    chosen_corpora,
)
from faith_jax.statistics.auc_table import CELL_COLUMNS, AucCell
from faith_jax.statistics.bootstrap import interval_note
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.units import AUTO, units_of


def npov_cells(
    corpora: Mapping[str, Corpus],
    slice_field: str = "",
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    words: bool = False,
    cluster_field: str = AUTO,
) -> dict[tuple[str, str], dict[str, AucCell]]:
    """Returns the AUC of each scorer by (error, scorer), then slice; NaN if a class is missing.

    A scorer detects the error that its name contains ("npov_rouge1_coverage"), or both errors if it
    contains neither. `slice_field` is the field with an example's slice; "" = each corpus is a
    slice. The other arguments are as in `detections`.
    """
    parts = _split_into_slices(corpora, slice_field)
    scorers = dict.fromkeys(scorer for part in parts.values() for scorer in part.scores)
    methods = {scorer: dict.fromkeys(ERRORS, scorer) for scorer in scorers}
    cells: dict[tuple[str, str], dict[str, AucCell]] = {}
    settings = words, resamples, seed, cluster_field, confidence
    for key, detection in detections(parts, methods, *settings).items():
        cells.setdefault((key.error, key.method), {})[key.slice] = detection.cell
    return cells


def _split_into_slices(corpora: Mapping[str, Corpus], field: str) -> dict[str, Corpus]:
    slices: dict[str, Corpus] = {}
    for corpus in corpora.values() if field else ():
        names = corpus.field(field)
        for name in dict.fromkeys(names):
            if name in slices:
                raise InputError(f"Two corpora have the slice {name!r}.")
            slices[name] = corpus.part(np.array([row_name == name for row_name in names]))
    return slices if field else dict(corpora)


def npov_rows(
    cells: Mapping[tuple[str, str], Mapping[str, AucCell]],
    confidence: float = 0.95,
    words: bool = False,
) -> Table:
    """Returns Chang 2024's table 1 or 3 in per cent, with a row for each error and scorer.

    Cells are from `npov_cells`.
    """
    slices = list(dict.fromkeys(name for row in cells.values() for name in row))
    rows = tuple(
        (*key, *(row[name].text() if name in row else None for name in slices))
        for key, row in cells.items()
    )
    kind, number = ("erroneous words", 3) if words else ("errors", 1)
    title = (
        f"Detection of {kind}, ROC AUC in per cent with {100 * confidence:g}% bootstrap intervals "
        f"(Chang 2024, table {number})"
    )
    tidy = tuple(
        (*key, name, cell.auc, *cell.interval)
        for key, row in cells.items()
        for name, cell in row.items()
    )
    by_slice = Table("", ("error", "scorer", "slice", *CELL_COLUMNS[:3]), tidy)
    return Table(title, ("error", "scorer", *slices), rows, tidy=by_slice)


def _evaluate_detection(files: Sequence[str], options: EvaluateOptions, words: bool) -> Evaluation:
    corpora = chosen_corpora(files, options)
    drawn = options.resamples, options.confidence, options.seed
    cells = npov_cells(corpora, options.slice_field, *drawn, words, options.cluster_field)
    notes = _notes_without_spans(corpora, options.slice_field) if words else ()
    if not cells:
        problem = notes[0] if notes else "None of the scorers has scores of words; see the scorers."
        raise InputError(problem)
    table = npov_rows(cells, options.confidence, words)
    figures: dict[str, dict[str, Any]] = {}  # by error, scorer and slice
    for (error, scorer), row in cells.items():
        figures.setdefault(error, {})[scorer] = {name: cell.figures() for name, cell in row.items()}
    notes = (*_unit_notes(corpora, options.slice_field, options), *notes)
    return Evaluation(table._replace(notes=table.notes + notes), figures, corpora)


def _unit_notes(
    corpora: Mapping[str, Corpus], slice_field: str, options: Comparison
) -> Iterator[str]:
    """Yields notes on the intervals, and on the units of each slice."""
    units = {
        name: units_of([part], options.cluster_field)
        for name, part in _split_into_slices(corpora, slice_field).items()
    }
    kinds = " or ".join(sorted({of_slice.kind for of_slice in units.values()}))
    yield interval_note(options.confidence, options.resamples, kinds)
    for name, of_slice in units.items():
        yield from of_slice.notes(name, resampled=True)


def _notes_without_spans(corpora: Mapping[str, Corpus], slice_field: str) -> tuple[str, ...]:
    """Returns a note on slices where hallucinated words cannot be detected, if there are any."""
    lacking = [
        name
        for name, part in _split_into_slices(corpora, slice_field).items()
        if not has_spans(part) and set(detectors(part, "hallucination")) & set(part.words)
    ]
    note = (
        f"Hallucinations: left out for {', '.join(lacking)}, whose rows do not say which words are "
        "hallucinated (the field 'hallucinated_spans')."
    )
    return (note,) if lacking else ()


def _report_tables(corpora: Mapping[str, Corpus], options: Comparison) -> list[Table]:
    needed = {*ERROR_FIELDS.values()}
    labelled = {  # corpora whose rows all say which errors they have
        name: corpus
        for name, corpus in corpora.items()
        if corpus.fields and all(needed <= fields.keys() for fields in corpus.fields)
    }
    if not labelled:
        return []
    drawn = options.resamples, options.confidence, options.seed
    cells = npov_cells(labelled, "", *drawn, cluster_field=options.cluster_field)
    notes = tuple(_unit_notes(labelled, "", options))
    return [npov_rows(cells, options.confidence)._replace(notes=notes)]


_OPTIONS = frozenset(
    ("slice_field", "cluster_field", "resamples", "confidence", "seed", "scorers")
    + ("histograms", "roc_curves")
)
NPOV = EvaluationProtocol(
    functools.partial(_evaluate_detection, words=False),
    _OPTIONS,
    report=ReportTables(tuple(ERROR_FIELDS.values()), _report_tables),
)
NPOV_WORDS = EvaluationProtocol(functools.partial(_evaluate_detection, words=True), _OPTIONS)
