"""The protocol `thresholds` of `faith-jax evaluate`: below which score is an answer wrong?"""

import math
from collections.abc import Sequence

from faith_jax.core.table import Table
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    check_several_rows,
    chosen_corpora,
    cluster_fields,
)
from faith_jax.statistics.scored_corpora import Corpus, check_usable, only_fields
from faith_jax.statistics.thresholds import Wish, held_out_figures
from faith_jax.statistics.units import units_of

_COLUMNS = ("corpus", "scorer", "wish", "threshold", "on held-out rows", "rows")
_TIDY = ("corpus", "scorer", "wish", "threshold", "share", "low", "high", "rows", "units")


def threshold_table(corpus: Corpus, options: EvaluateOptions) -> Table:
    """Returns the thresholds of each scorer of a corpus whose rows are all usable."""
    units = units_of([corpus], options.cluster_field)
    rows, tidy = [], []
    for scorer, scores in corpus.scores.items():
        for name, wish, share in (
            (f"read {100 * options.catch:g}% of the errors", Wish.CATCH, options.catch),
            (f"accept with at most {100 * options.risk:g}% errors", Wish.ACCEPT, options.risk),
        ):
            figures = held_out_figures(
                wish, scores, corpus.labels, share, units.numbers, options.seed
            )
            low, high = figures.share.interval(options.confidence, (0.0, 1.0))
            between = "" if math.isnan(low) else f" ({low:.1%} to {high:.1%})"
            value = "undefined" if math.isnan(figures.share.value) else f"{figures.share.value:.1%}"
            if wish is Wish.CATCH:
                why_none, kind = "no row has an error", "of the errors are read"
                sign, acts = "<=", "are read"
            else:
                why_none, kind = "the highest scores have more errors", "of the accepted are wrong"
                sign, acts = ">=", "are accepted"
            cells = ("none", why_none, "")
            if not math.isnan(figures.threshold):
                figure_cell = f"{value}{between} {kind}"
                cells = f"{sign} {figures.threshold:.4g}", figure_cell, f"{figures.rows:.1%} {acts}"
            rows.append((corpus.name, scorer, name, *cells))
            tidy.append(
                (corpus.name, scorer, name, figures.threshold, figures.share.value)
                + (low, high, figures.rows, figures.share.units)
            )
    return Table(
        "Thresholds by the labels, and what they do on rows that did not choose them",
        _COLUMNS,
        tuple(rows),
        units.notes(corpus.name),
        tidy=Table("", _TIDY, tuple(tidy)),
    )


def _evaluate_thresholds(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    corpora = chosen_corpora(files, options, only_fields(*cluster_fields(options)))
    check_usable(corpora)
    check_several_rows({name: corpus.ids for name, corpus in corpora.items()})
    tables = [threshold_table(c.part(c.usable()), options) for c in corpora.values()]
    notes = (
        f"On held-out rows: by cross-validation, with {100 * options.confidence:g}% intervals. A "
        "threshold holds for answers like these; label some again when the system changes.",
        *(note for table in tables for note in table.notes),
    )
    rows = tuple(row for table in tables for row in table.rows)
    records = [record for table in tables for record in (table.tidy or table).records()]
    table = tables[0]._replace(rows=rows, notes=notes)
    return Evaluation(table, {"rows": records}, corpora)


THRESHOLDS = EvaluationProtocol(
    _evaluate_thresholds,
    frozenset(("catch", "risk", "cluster_field", "confidence", "seed", "scorers", "ensemble")),
)
