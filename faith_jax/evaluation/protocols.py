"""The protocols by which papers compare scorers, beside plain ROC AUC."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from faith_jax.errors import InputError
from faith_jax.evaluation.classification import best_threshold, thresholded
from faith_jax.evaluation.correlation import correlation
from faith_jax.evaluation.dataset_statistics import Table
from faith_jax.evaluation.scored_corpora import Corpus
from faith_jax.words import STEEN_PRONOUNS, first_person_count


def threshold_table(
    development: Corpus, test: Corpus, group_field: str = "source", criterion: str = "f1"
) -> Table:
    """Returns BEGIN's table of Nandwani 2023 (table 1), in per cent.

    Each scorer's threshold is the one with the best F1 on the whole development part; precision,
    recall, F1 (of class 1) and accuracy are those of the test part at that threshold, and F1 also
    for each group on its own. Undefined scores count as unfaithful: they reach no threshold.

    Args:
      development: with the scorers of `test`.
      test: what is reported.
      group_field: the field that parts the test rows; "" = no groups.
      criterion: of `faith_jax.evaluation.classification.CRITERIA`.

    Raises:
      ValueError: for scorers that one part lacks.
      InputError: where a test row lacks the group field.
    """
    if set(development.scores) != set(test.scores):
        raise ValueError(
            f"The development part has scores of {', '.join(development.scores)}, the test part of "
            f"{', '.join(test.scores)}."
        )
    groups = test.field(group_field) if group_field else []
    names = sorted(set(groups))
    rows = []
    for scorer in test.scores:
        threshold = _threshold(development, scorer, criterion)
        whole = _figures(test, scorer, threshold)
        parts = [_figures(_group(test, groups, name), scorer, threshold)["f1"] for name in names]
        rows.append((scorer, threshold, *whole.values(), *parts))
    columns = ("scorer", "threshold", "P", "R", "F1", "Acc", *(f"F1 {name}" for name in names))
    title = f"Threshold of the best {criterion} on development, figures of test in per cent"
    return Table(title, columns, tuple(rows))


def _threshold(development: Corpus, scorer: str, criterion: str) -> float:
    known = [
        (score, label)
        for score, label in zip(development.scores[scorer], development.labels, strict=True)
        if not (math.isnan(score) or math.isnan(label))
    ]
    return best_threshold([s for s, _ in known], [int(label) for _, label in known], criterion)


def _group(corpus: Corpus, groups: list[str], name: str) -> Corpus:
    return corpus.part(np.array([group == name for group in groups]))


def _figures(corpus: Corpus, scorer: str, threshold: float) -> dict[str, float]:
    if math.isnan(threshold):
        return dict.fromkeys(("precision", "recall", "f1", "accuracy"), math.nan)
    labelled = corpus.part(~np.isnan(corpus.labels))
    # Reaching the threshold is all that counts; an undefined score does not.
    scores = (labelled.scores[scorer] >= threshold).astype(float)
    report = thresholded(scores, labelled.labels, 0.5)
    return {
        "precision": 100 * report.precision(1),
        "recall": 100 * report.recall(1),
        "f1": 100 * report.f1(1),
        "accuracy": 100 * report.accuracy,
    }


def pronoun_table(
    corpora: Mapping[str, Corpus], pronouns: frozenset[str] = STEEN_PRONOUNS
) -> Table:
    """Returns Steen 2023's table 3: correlations with first-person pronouns (Kendall's tau-b).

    A scorer that goes down where the label does not distrusts whoever speaks of themselves. Rows
    without a label, or with an undefined score, are left out of that figure.

    Args:
      corpora: the scored rows.
      pronouns: that are counted, in lower case; the paper counts "I".
    """
    columns: dict[str, dict[str, Any]] = {}
    for name, corpus in corpora.items():
        if not corpus.responses:
            raise InputError(f"{name}: rows without generated_text, in which pronouns are counted.")
        counts = [first_person_count(text, pronouns) for text in corpus.responses]
        given = {"label": corpus.labels, **corpus.scores}
        columns[name] = {what: _tau(values.tolist(), counts) for what, values in given.items()}
    names = dict.fromkeys(what for column in columns.values() for what in column)
    rows = tuple(
        (what, *(column.get(what, math.nan) for column in columns.values())) for what in names
    )
    counted = ", ".join(f'"{"I" if word == "i" else word}"' for word in sorted(pronouns))
    title = f"Kendall's tau of labels and scores with the count of {counted} (Steen 2023, table 3)"
    undefined = any(math.isnan(value) for row in rows for value in row[1:])
    notes = ("\u2013: no correlation, where all values or all counts are equal.",)
    return Table(title, ("", *columns), rows, notes if undefined else ())


def _tau(values: list[float], counts: list[int]) -> float:
    known = [(v, c) for v, c in zip(values, counts, strict=True) if not math.isnan(v)]
    if len(known) < 2:
        return math.nan
    return correlation([v for v, _ in known], [c for _, c in known], "kendall").coefficient
