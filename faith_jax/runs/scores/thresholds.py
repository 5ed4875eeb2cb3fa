"""The protocol `thresholds` of `faith-jax evaluate`: chooses thresholds by labelled rows."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from faith_jax.core.errors import pluralize
from faith_jax.core.table import Table
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    check_several_rows,
    chosen_corpora,
    cluster_fields,
    counting_undefined,
    turned_labels_notes,
)
from faith_jax.statistics.scored_corpora import Corpus, check_usable, only_fields
from faith_jax.statistics.thresholds import Wish, held_out_figures
from faith_jax.statistics.units import units_of

_COLUMNS = ("corpus", "scorer", "wish", "threshold", "on held-out rows", "rows")
_TIDY = ("corpus", "scorer", "wish", "threshold", "share", "low", "high", "rows", "units")


def _split_by_gaps(corpora: Mapping[str, Corpus]) -> dict[str, list[Corpus]]:
    """Returns each corpus as corpora of a scorer each, if scorers are undefined in different rows.

    A scorer's thresholds do not depend on which other scorers the rows have.
    """
    parts: dict[str, list[Corpus]] = {}
    for name, corpus in corpora.items():
        gaps = np.array([np.isnan(scores) for scores in corpus.scores.values()])
        parts[name] = [corpus]
        if (gaps != gaps[0]).any():
            parts[name] = [
                dataclasses.replace(corpus.only([scorer]), name=f"{name}, {scorer}")
                for scorer in corpus.scores
            ]
    return parts


def _evaluate_thresholds(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    corpora = chosen_corpora(files, options, only_fields(*cluster_fields(options)))
    parts_of = _split_by_gaps(counting_undefined(corpora, options))
    split = {part.name: part for parts in parts_of.values() for part in parts}
    check_usable(split)
    check_several_rows({name: corpus.ids for name, corpus in corpora.items()})
    wishes = (
        (Wish.CATCH, options.catch, f"read {100 * options.catch:g}% of the errors"),
        (Wish.ACCEPT, options.risk, f"accept with at most {100 * options.risk:g}% errors"),
    )
    rows, tidy = [], []
    notes = [
        f"On held-out rows: by cross-validation, with {100 * options.confidence:g}% intervals. A "
        "threshold holds for answers like these; label some again when the system changes."
    ]
    used = {name: corpus.part(corpus.usable()) for name, corpus in split.items()}
    units_by_part = {name: units_of([part], options.cluster_field) for name, part in used.items()}
    for name, parts in parts_of.items():
        judged = ((used[part.name], units_by_part[part.name]) for part in parts)
        notes += turned_labels_notes(name, judged)
    for of, corpus in ((name, corpus) for name, parts in parts_of.items() for corpus in parts):
        part, units = used[corpus.name], units_by_part[corpus.name]
        notes += units.notes(part.name)
        errors, of_part = (int((labels == 0).sum()) for labels in (corpus.labels, part.labels))
        if of_part < errors:
            notes.append(
                f"{part.name}: {errors - of_part} of {pluralize(errors, 'error')} have no score, "
                "and are in no share; read rows without a score too, or count them as VALUE with "
                "--undefined=VALUE."
            )
        for scorer, scores in part.scores.items():
            for wish, share, name in wishes:
                figures = held_out_figures(
                    wish, scores, part.labels, share, units.numbers, options.seed
                )
                value = figures.share.value
                low, high = figures.share.interval(options.confidence, (0.0, 1.0))
                if wish is Wish.CATCH:
                    why_none, kind = "no row has an error", "of the errors are read"
                    sign, acts, lost = "<=", "are read", "all errors are in one fold"
                else:
                    why_none = "the highest scores have more errors"
                    kind, sign, acts = "of the accepted are wrong", ">=", "are accepted"
                    lost = "without the rows of one fold the highest scores have more errors"
                cells = ("none", why_none, "")
                if not math.isnan(figures.threshold):
                    between = "" if math.isnan(low) else f" ({low:.1%} to {high:.1%})"
                    text = "undefined" if math.isnan(value) else f"{value:.1%}"
                    threshold = f"{sign} {figures.threshold:.4g}"
                    cells = threshold, f"{text}{between} {kind}", f"{figures.rows:.1%} {acts}"
                    if math.isnan(figures.rows):
                        cells = threshold, "unknown", "unknown"
                        lost += ", so that the others choose no threshold"
                        if units.total == 1:
                            lost = "the rows of the only group cannot be held out"
                        notes.append(
                            f"{part.name}: {scorer}, {name}: unknown on held-out rows, as {lost}."
                        )
                rows.append((of, scorer, name, *cells))
                record = (of, scorer, name, figures.threshold, value, low, high)
                tidy.append((*record, figures.rows, figures.share.units))
    title = "Thresholds by the labels, and what they do on rows that did not choose them"
    table = Table(title, _COLUMNS, tuple(rows), tuple(notes), Table("", _TIDY, tuple(tidy)))
    return Evaluation(table, {"rows": table.records()}, split)


THRESHOLDS = EvaluationProtocol(
    _evaluate_thresholds,
    frozenset(
        ("catch", "risk", "cluster_field", "confidence", "seed", "scorers", "ensemble", "undefined")
    ),
)
