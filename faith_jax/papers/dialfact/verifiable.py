"""The protocol `verifiable`: which claims can be verified (Gupta 2022, table 3)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from faith_jax.core.table import DASH, Table
from faith_jax.papers.development import THRESHOLD_OPTIONS, development_and_test
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    cluster_fields,
    interval_draws,
    undefined_score,
    with_undefined_shares,
)
from faith_jax.statistics.bootstrap import DRAWS, NO_INTERVAL, Draws, interval_note
from faith_jax.statistics.classification import (
    ACCURACY,
    UNDEFINED,
    Figure,
    best_threshold,
    call_figures,
)
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.units import AUTO, units_of

_KINDS = ("non-verifiable", "verifiable")  # by the label


class _Threshold(NamedTuple):
    """A threshold for calling a row 1, and its quality on development.

    Attributes:
      threshold: threshold of the score; NaN = none.
      direction: "high", if scores at or above the threshold call a 1; "low", at or below.
      macro_f1: the mean F1 of both classes on development, in per cent.
    """

    threshold: float
    direction: str
    macro_f1: float

    @property
    def texts(self) -> tuple[str, str]:
        """The threshold and the macro F1 as texts for a table."""
        if math.isnan(self.threshold):
            return DASH, DASH
        sign = "≥" if self.direction == "high" else "≤"
        return f"{sign} {self.threshold:.4g}", f"{self.macro_f1:.1f}"

    def calls(self, scores: np.ndarray) -> np.ndarray:
        """Returns which rows are called 1, bool [rows]; an undefined score never is."""
        return scores >= self.threshold if self.direction == "high" else scores <= self.threshold


_NO_THRESHOLD = _Threshold(math.nan, "", math.nan)


def _choose_threshold(scores: ArrayLike, labels: ArrayLike) -> _Threshold:
    """Returns the threshold and direction with the best macro F1; "high" in a tie.

    Scores are [rows], labels [rows], 1 or 0; rows with NaN in either are ignored.
    """
    from sklearn import metrics  # imported here, as it takes a second

    values, truth = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    defined = ~np.isnan(values + truth)
    values, truth = values[defined], truth[defined]
    best = _NO_THRESHOLD
    # Scores at or below a threshold are negated scores at or above the negated one.
    for direction, sign in (("high", 1), ("low", -1)):
        threshold = sign * best_threshold(sign * values, truth, macro=True)
        if math.isnan(threshold):
            return _NO_THRESHOLD
        candidate = _Threshold(threshold, direction, 0.0)
        f1 = metrics.f1_score(truth, candidate.calls(values), average="macro", zero_division=0)
        # "low" must be better by more than rounding.
        if direction == "high" or 100 * f1 > best.macro_f1 + 1e-9:
            best = candidate._replace(macro_f1=100 * float(f1))
    return best


def verifiable_table(
    development: Corpus, test: Corpus, draws: Draws = DRAWS, cluster_field: str = AUTO
) -> Table:
    """Returns Gupta 2022's table 3, in per cent with intervals: which claims can be verified (1).

    For each scorer, the best macro F1 on development chooses the threshold, and whether claims are
    verifiable at or above it, or at or below it; the paper states neither its criterion nor its
    scores' direction. Undefined scores call a claim not verifiable. The row "random" calls half of
    the claims verifiable and shows accuracy and F1 of the expected counts. Claims are drawn by
    units; see `faith_jax.statistics.units.units_of`.
    """
    test = test.part(~np.isnan(test.labels))
    labels, units = test.labels, units_of([test], cluster_field)
    rows: list[tuple[str, _Threshold, list[Figure]]] = []
    for scorer, scores in test.scores.items():
        cut = _choose_threshold(development.scores[scorer], development.labels)
        figures: dict[str, Figure] = {}
        if labels.size and not math.isnan(cut.threshold):
            truth, calls = (
                [_KINDS[int(value)] for value in side] for side in (labels, cut.calls(scores))
            )
            figures = call_figures(truth, calls, draws, units.numbers.tolist())
        rows.append((scorer, cut, [figures.get(name, UNDEFINED) for name in (ACCURACY, *_KINDS)]))
    share = float(labels.mean()) if labels.size else math.nan
    expected = (50.0, *(100 * part / (part + 0.5) for part in (1 - share, share)))
    rows.append(("random", _NO_THRESHOLD, [Figure(value, NO_INTERVAL) for value in expected]))
    order = (0, 2, 1)  # the verifiable class comes first
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
            interval_note(draws.confidence, draws.resamples, units.kind),
            *units.notes(test.name, resampled=True),
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
    development, test, notes = development_and_test(files, options, *cluster_fields(options))
    score = undefined_score(options)
    development, counted = (part.counting_undefined(score) for part in (development, test))
    drawn = interval_draws(options), options.cluster_field
    table = verifiable_table(development, counted, *drawn)
    if options.undefined is None:
        notes = ("An undefined score calls a claim not verifiable.", *notes)
    table = table._replace(notes=table.notes + notes)
    outcome = Evaluation(table, {"rows": table.records()}, {test.name: test})
    meaning = "A claim without a score is called not verifiable"
    return with_undefined_shares(outcome, meaning, options)


VERIFIABLE = EvaluationProtocol(
    _evaluate_verifiable,
    THRESHOLD_OPTIONS | {"cluster_field", "undefined", "resamples", "confidence"},
)
