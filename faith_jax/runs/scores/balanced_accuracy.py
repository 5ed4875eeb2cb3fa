"""The protocol `balanced_accuracy` of `faith-jax evaluate`: calls at 0.5, and at tuned thresholds.

LLM-AggreFact (Tang 2024), FaithBench (Bao 2025) and SummEdits (Laban 2023) compare judges this way:
with a threshold for each part of the data, and the mean over the parts.
"""

import dataclasses
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.table import DASH, Table, difference_text, figure_text
from faith_jax.runs.options import SPLIT, EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    chosen_corpora,
    cluster_fields,
    counting_undefined,
    development_notes,
    turned_labels_notes,
    with_undefined_shares,
)
from faith_jax.statistics.auc_table import shared_scorers
from faith_jax.statistics.detection import (
    balanced_accuracy,
    balanced_accuracy_difference,
    best_balanced_threshold,
)
from faith_jax.statistics.intervals import (
    ENOUGH_UNITS,
    Estimate,
    corrected_text,
    mean_estimate,
    method_note,
)
from faith_jax.statistics.scored_corpora import AVERAGE, Corpus, Kept, check_usable, only_fields
from faith_jax.statistics.significance import holm
from faith_jax.statistics.units import Units, units_of

logger = logging.getLogger("faith_jax")

FIXED, TUNED = "0.5", "tuned"
COMMON_ROWS = "Figures are of the {rows} that every scorer has"
_SHARE = (0.0, 1.0)  # the ends of the scale
_TIDY = ("threshold", "scorer", "part", "balanced accuracy", "low", "high", "cut", "rows", "units")

Parts = Mapping[str, Corpus]


class _Row(NamedTuple):
    """A scorer's row: the kind of its thresholds, and each part's threshold (NaN = undefined)."""

    kind: str
    scorer: str
    cuts: Mapping[str, float]


def parts_of(corpora: Parts, field: str) -> dict[str, Corpus]:
    """Returns parts of corpora by a field, named by its values; one without the field is one part.

    Warns if there is only one corpus and none of its rows has the field.

    Raises:
      InputError: two parts have the same name.
    """
    parts: dict[str, Corpus] = {}
    if field and len(corpora) == 1:  # several corpora are parts already
        ((name, only),) = corpora.items()
        if not any(field in fields for fields in only.fields):
            message = "--slice-field: no row of %s has the field %r, so that it is one part"
            logger.warning(message, name, field)
    for name, corpus in corpora.items():
        parts_here = {name: corpus}
        if field and any(field in fields for fields in corpus.fields):
            values = np.array(corpus.field(field))
            parts_here = {
                value: dataclasses.replace(corpus.part(values == value), name=value)
                for value in dict.fromkeys(values.tolist())
            }
        for value, part in parts_here.items():
            if value in parts:
                raise InputError(
                    f"{name}: the part {value!r} is in another file too; give one file with all "
                    "rows of a part."
                )
            parts[value] = part
    return parts


def read_parts(
    files: Sequence[str], options: EvaluateOptions, selection: Kept | None = None
) -> dict[str, Corpus]:
    """Returns the parts of scored files; a part without usable rows is an error."""
    selection = selection or only_fields(*cluster_fields(options), options.slice_field)
    parts = parts_of(chosen_corpora(files, options, selection), options.slice_field)
    check_usable(counting_undefined(parts, options))
    return parts


def usable_parts(
    parts: Parts, scorers: Sequence[str], options: EvaluateOptions
) -> dict[str, Corpus]:
    """Returns the rows with a label and a score of every scorer, after filling undefined scores.

    Scorers are tuned and judged on the same rows, so that none can gain by leaving hard rows
    undefined.
    """
    chosen = {name: corpus.only(scorers) for name, corpus in parts.items()}
    counted = counting_undefined(chosen, options)
    return {name: corpus.part(corpus.usable()) for name, corpus in counted.items()}


def parts_notes(units: Mapping[str, Units], corpora: Parts) -> Iterator[str]:
    """Yields sentences on the units of parts, and warnings about few units and turned labels."""
    for name, corpus in corpora.items():
        yield from turned_labels_notes(name, [(corpus, units[name])])
    by_field: dict[str, list[str]] = {}
    for name, its_units in units.items():
        if its_units.field:
            size = f"{name} {its_units.total:,} of {len(its_units.numbers):,} rows"
            by_field.setdefault(its_units.field, []).append(size)
    for field, sizes in by_field.items():
        yield f"Rows with the same {field} are one unit: {', '.join(sizes)}."
    lacking = [
        name
        for name, its_units in units.items()
        if not its_units.field and not corpora[name].hashes["grounding"].any()
    ]
    if lacking:
        yield (
            f"Each row counts as independent in {', '.join(lacking)}, whose rows have no "
            "grounding; --cluster-field=NAME names a column that says which depend on each other."
        )
    few = [
        f"{name} ({its_units.total})"
        for name, its_units in units.items()
        if its_units.total < ENOUGH_UNITS
    ]
    if few:
        yield (
            f"Few units in {', '.join(few)}: intervals rest on their values being about normal; of "
            "one unit there is none."
        )


def _balanced_accuracy_tables(
    test: Parts, development: Parts, options: EvaluateOptions
) -> tuple[Table, ...]:
    """Returns the table of balanced accuracies in per cent and, with a baseline, of differences.

    Args:
      test: the parts to measure, with usable rows only.
      development: parts of the same names that choose thresholds; {} = only 0.5.
      options: how intervals, units and the baseline are chosen.
    """
    units = {name: units_of([corpus], options.cluster_field) for name, corpus in test.items()}
    rows, notes = _build_table_rows(test, development)
    names = [*test, *([AVERAGE] if len(test) > 1 else [])]
    table_rows, tidy, undefined = [], [], set[str]()
    untuned = [
        name for name in test if name in development and len(set(development[name].labels)) < 2
    ]
    for row in rows:
        estimates = {}
        for name, corpus in test.items():
            calls = corpus.scores[row.scorer] >= row.cuts[name]  # all False for NaN
            if not math.isnan(row.cuts[name]):
                estimates[name] = balanced_accuracy(corpus.labels, calls, units[name].numbers)
        averaged = {n: e for n, e in estimates.items() if not math.isnan(e.value)}
        undefined |= {n for n, e in estimates.items() if math.isnan(e.value)}
        if len(test) > 1 and averaged:
            estimates[AVERAGE] = mean_estimate([*averaged.values()])
        cells = dict.fromkeys(names, DASH)
        for name, estimate in estimates.items():
            low, high = estimate.interval(options.confidence, _SHARE)
            if not math.isnan(estimate.value):
                cells[name] = figure_text(100 * estimate.value, (100 * low, 100 * high), 1)
            size = sum(len(test[n].ids) for n in ([name] if name in test else averaged))
            cut = row.cuts.get(name)
            record = (name, estimate.value, low, high, cut, size, estimate.units)
            tidy.append((row.kind, row.scorer, *record))
        table_rows.append((row.kind, row.scorer, *(cells[name] for name in names)))
    if undefined:
        notes.append(
            f"{DASH}: not both classes in {', '.join(n for n in test if n in undefined)}, which "
            "the average leaves out."
        )
    if untuned:
        notes.append(
            f"{TUNED}: no threshold for {', '.join(untuned)}, whose development rows are not of "
            "both classes; the average leaves these parts out."
        )
    notes += [method_note(options.confidence), *parts_notes(units, test)]
    title = "Balanced accuracy in per cent"
    columns = ("threshold", "scorer", *names)
    table = Table(title, columns, tuple(table_rows), tuple(notes), Table("", _TIDY, tuple(tidy)))
    if not options.baseline:
        return (table,)
    return table, _compare_with_baseline(test, rows, units, options)


def _build_table_rows(test: Parts, development: Parts) -> tuple[list[_Row], list[str]]:
    """Returns the rows of the table, and notes on their thresholds."""
    rows, notes = [], []
    scorers = list(next(iter(test.values())).scores)
    for scorer in scorers:
        values = np.concatenate([corpus.scores[scorer] for corpus in test.values()])
        if values.min(initial=0) >= 0 and values.max(initial=0) <= 1:
            rows.append(_Row(FIXED, scorer, dict.fromkeys(test, 0.5)))
        else:
            notes.append(f"{scorer}: no row at 0.5, as its scores are not all from 0 to 1.")
    for scorer in scorers if development else ():
        cuts = {
            name: best_balanced_threshold(
                development[name].scores[scorer], development[name].labels
            )
            for name in test
        }
        rows.append(_Row(TUNED, scorer, cuts))
        for name in cuts:
            tuned = development[name].scores[scorer]
            tested = test[name].scores[scorer]
            if len(tested) and (tested.min() > np.max(tuned) or tested.max() < np.min(tuned)):
                notes.append(
                    f"{scorer}: all test scores of {name} ({tested.min():g} to {tested.max():g}) "
                    f"are outside of the range of its development scores ({np.min(tuned):g} to "
                    f"{np.max(tuned):g}); are both on one scale?"
                )
    kinds = [f"{FIXED}: a score of at least 0.5 calls a row faithful."]
    if development:
        kinds.append(
            f"{TUNED}: the score of the development rows of each part from which on calls have the "
            "best balanced accuracy there; intervals take it as given."
        )
    if not rows:
        raise InputError(
            f"No threshold for {', '.join(scorers)}: 0.5 is one for scores from 0 to 1, others "
            "need --development=FILE, the scored development part."
        )
    return rows, [*notes, *kinds]


def _compare_with_baseline(
    test: Parts, rows: Sequence[_Row], units: Mapping[str, Units], options: EvaluateOptions
) -> Table:
    """Returns the table of scorers' average improvement over the baseline, across the parts."""
    if options.baseline not in (scorers := next(iter(test.values())).scores):
        hint = did_you_mean(options.baseline, scorers)
        raise ConfigError(
            f"--baseline: there are no scores of {options.baseline!r}, only of "
            f"{', '.join(scorers)}.{hint}"
        )
    cells, tidy = [], []
    for kind in dict.fromkeys(row.kind for row in rows):
        cuts = {row.scorer: row.cuts for row in rows if row.kind == kind}
        if options.baseline not in cuts:
            continue
        others = [scorer for scorer in cuts if scorer != options.baseline]
        means = []
        for scorer in others:
            estimates = []  # of parts that have both classes
            for name, corpus in test.items():
                cut, base_cut = cuts[scorer][name], cuts[options.baseline][name]
                calls = corpus.scores[scorer] >= cut
                base_calls = corpus.scores[options.baseline] >= base_cut
                of_part = balanced_accuracy_difference(
                    corpus.labels, calls, base_calls, units[name].numbers
                )
                if not math.isnan(of_part.value + cut + base_cut):
                    estimates.append(of_part)
            none = Estimate(math.nan, math.nan, math.nan, 0)
            means.append(mean_estimate(estimates) if estimates else none)
        p_values = [mean.p_value() for mean in means]
        corrected = holm(p_values).tolist()
        for scorer, mean, *both_p_values in zip(others, means, p_values, corrected, strict=True):
            low, high = mean.difference_interval(options.confidence, _SHARE)
            text = difference_text(100 * mean.value, (100 * low, 100 * high), 1)
            p_value = DASH if math.isnan(both_p_values[0]) else corrected_text(*both_p_values)
            cells.append((kind, scorer, text, p_value))
            tidy.append((kind, scorer, mean.value, low, high, *both_p_values, mean.units))
    title = f"Average balanced accuracy less that of {options.baseline}, paired by unit"
    notes = ("Corrected: by Holm's method, over the scorers of a kind of threshold.",)
    figures = ("difference", "low", "high", "p_value", "p_corrected", "units")
    table = Table(title, ("threshold", "scorer", "difference", "p"), tuple(cells), notes)
    return table._replace(tidy=Table("", ("threshold", "scorer", *figures), tuple(tidy)))


def _evaluate_balanced_accuracy(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    if options.development == SPLIT:
        raise ConfigError("--development: give a file; without one, calls are made at 0.5 alone.")
    parts = read_parts(files, options)
    development = read_parts([options.development], options) if options.development else {}
    for name, corpus in parts.items() if development else ():
        if name not in development:
            raise InputError(
                f"{options.development}: no rows of the part {name!r}, only of "
                f"{', '.join(development)}; thresholds are chosen for each part: a file, or with "
                "--slice-field=NAME the rows with one value of a field."
            )
        if missing := [s for s in corpus.scores if s not in development[name].scores]:
            raise InputError(
                f"{options.development}: no scores of {missing[0]!r} in the part {name!r}, only "
                f"of {', '.join(development[name].scores)}."
            )
    scorers = shared_scorers(parts)
    tuning = {name: development[name].only(scorers) for name in parts if development}
    table, *further = _balanced_accuracy_tables(
        usable_parts(parts, scorers, options), usable_parts(tuning, scorers, options), options
    )
    table = table._replace(notes=(*table.notes, *development_notes(tuning, options)))
    figures = {"rows": table.records()}
    if further:
        (differences,) = further
        figures["differences"] = differences.records()
    outcome = Evaluation(table, figures, parts, tuple(further))
    return with_undefined_shares(outcome, COMMON_ROWS, options)


BALANCED_ACCURACY = EvaluationProtocol(
    _evaluate_balanced_accuracy,
    frozenset(
        ("development", "slice_field", "baseline", "cluster_field", "undefined", "confidence")
        + ("scorers", "ensemble", "histograms", "roc_curves")
    ),
)
