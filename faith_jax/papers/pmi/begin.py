"""BEGIN's protocol (Nandwani 2023, table 1): thresholds from development, figures on test."""

import math
from collections.abc import Sequence

import numpy as np

from faith_jax.core.table import Table
from faith_jax.papers.development import THRESHOLD_OPTIONS, development_and_test
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    undefined_score,
    with_undefined_shares,
)
from faith_jax.statistics.classification import best_threshold
from faith_jax.statistics.scored_corpora import Corpus


def threshold_table(development: Corpus, test: Corpus, group_field: str = "source") -> Table:
    """Returns BEGIN's table of Nandwani 2023 (table 1), in per cent.

    Each scorer's threshold has the best F1 on the whole development part; precision, recall, F1 (of
    class 1) and accuracy are on the test part at that threshold, and F1 also for each value of
    `group_field` ("" = no groups). Undefined scores are below any threshold.

    Raises:
      InputError: if a test row lacks the group field.
    """
    groups = np.array(test.field(group_field) if group_field else [])
    names = sorted(set(groups.tolist()))
    labelled = ~np.isnan(test.labels)
    rows = []
    for scorer, scores in test.scores.items():
        defined = ~np.isnan(development.scores[scorer] + development.labels)
        threshold = best_threshold(development.scores[scorer][defined], development.labels[defined])
        calls = scores >= threshold
        figures = _class_figures(test.labels[labelled], calls[labelled], threshold)
        parts = [labelled & (groups == name) for name in names]
        by_group = [_class_figures(test.labels[p], calls[p], threshold)[2] for p in parts]
        rows.append((scorer, threshold, *figures, *by_group))
    columns = ("scorer", "threshold", "P", "R", "F1", "Acc", *(f"F1 {name}" for name in names))
    title = "Threshold of the best f1 on development, figures of test in per cent"
    return Table(title, columns, tuple(rows))


def _class_figures(labels: np.ndarray, calls: np.ndarray, threshold: float) -> list[float]:
    """Returns precision, recall and F1 of class 1, and accuracy, in per cent."""
    from sklearn import metrics  # imported here, as it takes a second

    if math.isnan(threshold) or not labels.size:
        return [math.nan] * 4
    *figures, _ = metrics.precision_recall_fscore_support(
        labels, calls, labels=[1], zero_division=np.nan
    )
    accuracy = metrics.accuracy_score(labels, calls)
    return [100 * float(figure) for figure in (*(f[0] for f in figures), accuracy)]


def _evaluate_begin(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    development, test, notes = development_and_test(files, options, options.group_field)
    if options.group_field:
        test.field(
            options.group_field,
            " F1 is also shown for each value of it: name another field (--group-field=NAME), or "
            "leave this out (--group-field=).",
        )
    score = undefined_score(options)
    development, counted = (part.counting_undefined(score) for part in (development, test))
    table = threshold_table(development, counted, options.group_field)
    if options.undefined is None:
        notes = ("An undefined score reaches no threshold.", *notes)
    table = table._replace(notes=table.notes + notes)
    outcome = Evaluation(table, {"rows": table.records()}, {test.name: test})
    return with_undefined_shares(outcome, "A row without a score is called unfaithful", options)


BEGIN = EvaluationProtocol(_evaluate_begin, THRESHOLD_OPTIONS | {"group_field", "undefined"})
