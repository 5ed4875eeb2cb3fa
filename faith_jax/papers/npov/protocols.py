"""Detection of NPOV errors (Chang 2024, tables 1 and 3)."""

import functools
from collections.abc import Mapping, Sequence

from faith_jax.core.errors import InputError
from faith_jax.core.table import Table
from faith_jax.papers.npov.detection import (
    ERROR_FIELDS,
    npov_cells,
    npov_figures,
    npov_rows,
    with_errors,
    without_spans,
)
from faith_jax.runs.options import Comparison, EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    ReportTables,
    chosen_corpora,
)
from faith_jax.statistics.scored_corpora import Corpus


def _evaluate_detection(files: Sequence[str], options: EvaluateOptions, words: bool) -> Evaluation:
    corpora = chosen_corpora(files, options)
    drawn = options.resamples, options.confidence, options.seed
    cells = npov_cells(corpora, options.slice_field, *drawn, words=words)
    notes = without_spans(corpora, options.slice_field) if words else ()
    if not cells:
        problem = notes[0] if notes else "None of the scorers has scores of words; see the scorers."
        raise InputError(problem)
    table = npov_rows(cells, options.confidence, words)
    table = table._replace(notes=table.notes + notes)
    return Evaluation(table, npov_figures(cells), corpora)


def _report_tables(corpora: Mapping[str, Corpus], options: Comparison) -> list[Table]:
    labelled = with_errors(corpora)
    drawn = options.resamples, options.confidence, options.seed
    return [npov_rows(npov_cells(labelled, "", *drawn), options.confidence)] if labelled else []


_OPTIONS = frozenset(
    ("slice_field", "resamples", "confidence", "seed", "scorers", "histograms", "roc_curves")
)
NPOV = EvaluationProtocol(
    functools.partial(_evaluate_detection, words=False),
    _OPTIONS,
    report=ReportTables(tuple(ERROR_FIELDS.values()), _report_tables),
)
NPOV_WORDS = EvaluationProtocol(functools.partial(_evaluate_detection, words=True), _OPTIONS)
