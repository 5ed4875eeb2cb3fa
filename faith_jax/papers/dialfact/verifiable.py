"""Which claims can be verified (Gupta 2022, table 3)."""

import math
from collections.abc import Sequence

import numpy as np

from faith_jax.core.table import Table
from faith_jax.papers.development import THRESHOLD_OPTIONS, development_and_test
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.protocols import Evaluation, EvaluationProtocol, interval_draws
from faith_jax.statistics.bootstrap import (
    interval_note,
)
from faith_jax.statistics.classification import (
    ACCURACY,
    DRAWS,
    NO_THRESHOLD,
    UNDEFINED,
    DirectedThreshold,
    Draws,
    Figure,
    call_figures,
    directed_threshold,
)
from faith_jax.statistics.estimates import NO_INTERVAL
from faith_jax.statistics.scored_corpora import Corpus

_KINDS = ("non-verifiable", "verifiable")  # by the label


def verifiable_table(development: Corpus, test: Corpus, draws: Draws = DRAWS) -> Table:
    """Returns Gupta 2022's table 3, in per cent with intervals: which claims can be verified (1).

    Of each scorer, development chooses the threshold and whether claims are verifiable at or above
    it or at or below it, by the best macro F1; the paper does not say by which figure it chooses,
    nor which way its scores point. Undefined scores call a claim not verifiable. The row "random"
    calls half of the claims verifiable: the accuracy, and the F1 of the expected counts.
    """
    labelled = ~np.isnan(test.labels)
    labels = test.labels[labelled]
    rows: list[tuple[str, DirectedThreshold, list[Figure]]] = []
    for scorer, scores in test.scores.items():
        cut = directed_threshold(development.scores[scorer], development.labels)
        figures: dict[str, Figure] = {}
        if labels.size and not math.isnan(cut.threshold):
            truth, calls = (
                [_KINDS[int(value)] for value in side]
                for side in (labels, cut.calls(scores[labelled]))
            )
            figures = call_figures(truth, calls, draws)
        rows.append((scorer, cut, [figures.get(name, UNDEFINED) for name in (ACCURACY, *_KINDS)]))
    share = float(labels.mean()) if labels.size else math.nan
    expected = (50.0, *(100 * part / (part + 0.5) for part in (1 - share, share)))
    rows.append(("random", NO_THRESHOLD, [Figure(value, NO_INTERVAL) for value in expected]))
    order = (0, 2, 1)  # the class of those that can be verified comes first
    columns = (ACCURACY, "F1 verifiable", "F1 non-verifiable")
    ends = (f"{name}{end}" for name in columns for end in ("", " low", " high"))
    return Table(
        "Verifiable claims: threshold of the best macro F1 on development (Gupta 2022, table 3)",
        ("scorer", "verifiable", "F1 development", *columns),
        tuple(
            (scorer, *cut.texts, *(figures[place].text for place in order))
            for scorer, cut, figures in rows
        ),
        (
            interval_note(draws.confidence, draws.resamples),
            "An undefined score calls a claim not verifiable.",
        ),
        Table(
            "",
            ("scorer", "threshold", "direction", "F1 development", *ends),
            tuple(
                (
                    *(scorer, cut.threshold, cut.direction, cut.macro_f1),
                    *(x for n in order for x in (figures[n].value, *figures[n].interval)),
                )
                for scorer, cut, figures in rows
            ),
        ),
    )


def _evaluate_verifiable(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    development, test, notes = development_and_test(files, options)
    table = verifiable_table(development, test, interval_draws(options))
    table = table._replace(notes=table.notes + notes)
    return Evaluation(table, {"rows": (table.tidy or table).records()}, {test.name: test})


VERIFIABLE = EvaluationProtocol(
    _evaluate_verifiable, THRESHOLD_OPTIONS | {"resamples", "confidence"}
)
