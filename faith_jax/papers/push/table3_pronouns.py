"""Correlations with first-person pronouns (Steen 2023, table 3)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from faith_jax.core.errors import InputError
from faith_jax.core.table import Table
from faith_jax.core.words import STEEN_PRONOUNS, first_person_count
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.protocols import Evaluation, EvaluationProtocol, chosen_corpora
from faith_jax.statistics.scored_corpora import Corpus, only_fields


def pronoun_table(corpora: Mapping[str, Corpus]) -> Table:
    """Returns Steen 2023's table 3: correlations with first-person pronouns (Kendall's tau-b).

    A scorer with a lower correlation than the label distrusts responses in the first person. Rows
    without a label, or with an undefined score, are left out of that figure. Only whether a
    response has a pronoun ("I" in the paper) counts, not how often: this gives the published -0.03
    for Q2's labels (counts give -0.05). The authors' code for it is not published.
    """
    columns: dict[str, dict[str, Any]] = {}
    for name, corpus in corpora.items():
        if not corpus.responses:
            raise InputError(f"{name}: rows without generated_text, in which pronouns are counted.")
        occurs = np.array(
            [first_person_count(text, STEEN_PRONOUNS) > 0 for text in corpus.responses], int
        )
        columns[name] = {}
        for scorer, values in {"label": corpus.labels, **corpus.scores}.items():
            defined = ~np.isnan(values)
            pair = values[defined], occurs[defined]
            varies = defined.sum() > 1 and all(np.ptp(side) != 0 for side in pair)
            tau = float(stats.kendalltau(*pair).statistic) if varies else math.nan
            columns[name][scorer] = tau
    names = dict.fromkeys(scorer for column in columns.values() for scorer in column)
    rows = tuple(
        (scorer, *(column.get(scorer, math.nan) for column in columns.values())) for scorer in names
    )
    title = 'Kendall\'s tau of labels and scores with having "I" or not (Steen 2023, table 3)'
    undefined = any(math.isnan(value) for row in rows for value in row[1:])
    notes = ("\u2013: no correlation: all values are equal, or all or no responses have one.",)
    return Table(title, ("", *columns), rows, notes if undefined else ())


def _evaluate_pronouns(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    corpora = chosen_corpora(files, options, only_fields()._replace(texts=True))
    table = pronoun_table(corpora)
    return Evaluation(table, {"rows": table.records()}, corpora)


PRONOUNS = EvaluationProtocol(
    _evaluate_pronouns, frozenset(("scorers", "ensemble", "histograms", "roc_curves"))
)
