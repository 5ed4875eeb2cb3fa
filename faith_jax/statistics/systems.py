"""Table of systems compared on the same rows: figures, differences and verdicts."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, join_in_sentence, pluralize
from faith_jax.core.table import MARK, MINUS, Table
from faith_jax.statistics.intervals import method_note, name_with_p_value
from faith_jax.statistics.measures import (
    EMPTY,
    UNDEFINED,
    Cell,
    Measure,
    bleu_measure,
    compare_measures,
    join_replicates,
    mean_measure,
    missing_share,
)
from faith_jax.statistics.scored_corpora import Corpus, few_rows
from faith_jax.statistics.significance import SIGNIFICANT
from faith_jax.statistics.units import AUTO, Units, settling_text, units_of


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of the table: a mean of scores, with `low` mapped to 0 and `high` to 1.

    Attributes:
      scorer: the scorer of the scores.
      below: if set, the column shows the share of rows with a score below it.
      reference: without a scorer, the field with the references for lower-cased corpus BLEU-4 (0 to
        100).
      low: the mean that is shown as 0.
      high: the mean that is shown as 1; 0.01 shows per cent. Nothing is clipped.
      digits: number of decimals.
      only: the corpora that have the column; empty = all.
      bounds: the ends of the scorer's scale, within which intervals stay; None = unknown.
    """

    scorer: str = ""
    below: float | None = None
    reference: str = ""
    low: float = 0.0
    high: float = 1.0
    digits: int = 3
    only: Sequence[str] = ()
    bounds: tuple[float, float] | None = None

    def measure(self, corpus: Corpus) -> Measure:
        """Returns the column's figure for a system's rows."""
        if not self.scorer:
            return bleu_measure(corpus.responses, corpus.field(self.reference), lowercase=True)
        values, bounds = corpus.scores[self.scorer], self.bounds
        # NaN < x is False, but an undefined score must not count as a score that is not below x.
        if self.below is not None:
            values, bounds = np.where(np.isnan(values), np.nan, values < self.below), (0.0, 1.0)
        return mean_measure(values, self.low, self.high, bounds)


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The columns of a table, by name, and the figures that a paper prints for them.

    Columns whose scorer the rows lack are left out. Published figures are by corpus, system and
    column; `notes` explain them.
    """

    title: str = "Systems"
    columns: Mapping[str, Column] = {}
    published: Mapping[str, Mapping[str, Mapping[str, int | float]]] = {}
    notes: tuple[str, ...] = ()


def systems_table(
    rows: Mapping[tuple[str, str], Sequence[Corpus]],
    layout: Layout,
    baselines: Mapping[str, str],
    confidence: float = 0.95,
    cluster_field: str = AUTO,
    differences: bool = False,
    undefined: float = math.nan,
) -> Table:
    """Returns the table of systems by corpus.

    The rows of all replicates of a system are pooled: responses to the same row are one unit. If
    any score is undefined or any response is empty, further rows show each system's share of them.

    Args:
      rows: replicates, such as trainings with several seeds, by corpus and system.
      layout: the columns; without columns, the means of all scorers are shown.
      baselines: maps a system to its baseline; pairs that a corpus lacks are left out.
      confidence: confidence of the intervals.
      cluster_field: see `faith_jax.statistics.units.units_of`.
      differences: whether to show each system's difference from its baseline in a row below it, and
        a verdict on which of the two is better, corrected over all means.
      undefined: the score that replaces undefined ones; NaN = none.

    Raises:
      InputError: on systems with different rows, a missing field of a column, if the rows have no
        scorer of the layout, and if all scores are undefined.
      ConfigError: on an unknown baseline.
    """
    # Compare the systems that exist, in the columns whose scorers the rows have.
    system_names = {system for _, system in rows}
    for name in {*baselines, *baselines.values()} - system_names:
        raise ConfigError(
            f"There is no system {name!r}.{did_you_mean(name, system_names)} The systems are: "
            f"{', '.join(sorted(system_names))}."
        )
    scorers = sorted({name for corpora in rows.values() for name in corpora[0].scores})
    columns = layout.columns or {name: Column(name) for name in scorers}
    columns = {
        n: column for n, column in columns.items() if not column.scorer or column.scorer in scorers
    }
    if not columns:
        raise InputError("The rows have none of the table's scorers.")
    _check_defined(rows, columns, undefined)
    # A verdict picks among all means, so they are one family of tests.
    means = [n for n, column in columns.items() if column.scorer and column.below is None]
    together = means if differences else []
    figures = []
    # Process each corpus separately; paired tests need its systems' rows in the same order.
    for corpus in dict.fromkeys(corpus for corpus, _ in rows):
        systems = {
            system: _align_rows(corpus, system, replicates, rows)
            for (of, system), replicates in rows.items()
            if of == corpus
        }
        tested = {name: base for name, base in baselines.items() if {name, base} <= set(systems)}
        members = [part for replicates in systems.values() for part in replicates]
        units = units_of(members, cluster_field)
        measures = _measure_columns(corpus, systems, columns, undefined)
        cells = compare_measures(measures, tested, confidence, units.numbers, together)
        missing = {
            kind: compare_measures(shares, tested, confidence, units.numbers)
            for kind, shares in _measure_missing_shares(systems, columns, cells).items()
        }
        sizes = {name: sum(len(part.ids) for part in parts) for name, parts in systems.items()}
        figures.append(_CorpusFigures(corpus, tested, units, sizes, cells, missing))
    lines = [row for part in figures for row in _format_rows(part, layout, columns, differences)]
    names = ("corpus", "system", "column", "rows", "value", "low", "high", "spread", "p_value")
    further = ("significant", "published", "difference", "difference_low", "difference_high")
    tidy = tuple(row for part in figures for row in _tidy_rows(part, layout))
    plain = Table("", (*names, *further, "p_corrected", "difference_rows"), tidy)
    notes = [
        *(
            _format_verdict(part, system, together)
            for part in figures
            for system in part.cells
            if together and system in part.tested
        ),
        *(line for part in figures for line in _format_missing_warnings(part, undefined)),
        *_collect_table_notes(layout, columns, figures, confidence, together),
        *(note for part in figures for note in (*part.units.notes(part.corpus), *_row_notes(part))),
    ]
    if not math.isnan(undefined):
        notes.append(f"Undefined scores count as {undefined:g}.")
    notes += few_rows({part.corpus: len(part.units.numbers) for part in figures})
    return Table(layout.title, ("corpus", "system", *columns), tuple(lines), tuple(notes), plain)


class _CorpusFigures(NamedTuple):
    """The figures of a corpus's systems.

    Attributes:
      tested: maps a system to its baseline.
      sizes: number of rows in all replicates, by system.
      cells: by system and column.
      missing: the shares of undefined scores and of empty answers, by `UNDEFINED` and `EMPTY`,
        system and column.
    """

    corpus: str
    tested: Mapping[str, str]
    units: Units
    sizes: Mapping[str, int]
    cells: Mapping[str, Mapping[str, Cell]]
    missing: Mapping[str, Mapping[str, Mapping[str, Cell]]]


def _format_rows(
    figures: _CorpusFigures, layout: Layout, columns: Mapping[str, Column], differences: bool
) -> Iterator[tuple[str, ...]]:
    """Yields the table's rows for a corpus."""
    corpus, tested = figures.corpus, figures.tested

    def row(
        name: str, text: Callable[[Cell, int], str], cells: Mapping[str, Cell], digits: int | None
    ) -> tuple[str, ...]:
        texts = (
            text(cells[column], form.digits if digits is None else digits)
            if column in cells
            else ""
            for column, form in columns.items()
        )
        return (corpus, name, *texts)

    for system, cells in figures.cells.items():
        yield row(system, Cell.text, cells, None)
        if system in tested and differences:
            yield row(f"{system} {MINUS} {tested[system]}", Cell.difference_text, cells, None)
        # The next row has the figures that a paper prints for the system.
        if published := layout.published.get(corpus, {}).get(system, {}):
            texts = (f"{published[c]:g}" if c in published else "" for c in columns)
            yield (corpus, f"{system} (published)", *texts)
    for kind, shares in figures.missing.items():
        for system, cells in shares.items():
            yield row(f"{system}: {kind}", Cell.text, cells, 1)
            if system in tested:
                name = f"{system} {MINUS} {tested[system]}: {kind}"
                yield row(name, Cell.difference_text, cells, 1)


def _tidy_rows(figures: _CorpusFigures, layout: Layout) -> Iterator[tuple[Any, ...]]:
    """Yields the machine-readable figures of a corpus, each in a row of its own."""
    cells = []
    for system, row in figures.cells.items():
        published = layout.published.get(figures.corpus, {}).get(system, {})
        cells += [(system, column, cell, published.get(column)) for column, cell in row.items()]
    for kind, shares in figures.missing.items():
        for system, row in shares.items():
            for column, cell in row.items():
                name = kind if kind == EMPTY else f"{column}: {kind}"
                cells.append((system, name, cell, None))
    for system, name, cell, value in cells:
        gap: tuple[float | None, ...] = (None, None, None)
        if cell.difference is not None:
            gap = (cell.difference.value, *cell.difference.interval)
        yield (
            *(figures.corpus, system, name, cell.rows, cell.value, *cell.interval, cell.spread),
            *(cell.p_value, cell.significant, value, *gap, cell.corrected),
            cell.difference and cell.difference.rows,
        )


def _check_defined(
    rows: Mapping[tuple[str, str], Sequence[Corpus]],
    columns: Mapping[str, Column],
    undefined: float,
) -> None:
    """Raises an InputError if all scores are undefined, so that no figure can be computed."""
    scorers = {column.scorer for column in columns.values()}
    if "" in scorers or not math.isnan(undefined):
        return
    parts = [part for corpora in rows.values() for part in corpora]
    if all(np.isnan(part.scores[s]).all() for part in parts for s in scorers & set(part.scores)):
        raise InputError(
            f"All scores of {', '.join(sorted(scorers))} are undefined in all rows; the field "
            "'undefined' of the rows says why, and --undefined=VALUE counts them as a score."
        )


def _measure_missing_shares(
    systems: Mapping[str, Sequence[Corpus]],
    columns: Mapping[str, Column],
    cells: Mapping[str, Mapping[str, Cell]],
) -> dict[str, dict[str, dict[str, Measure]]]:
    """Returns the shares of undefined scores and of empty answers, in per cent.

    The result is keyed by kind (`UNDEFINED`, `EMPTY`), system and column; a share that is 0 for all
    systems is left out. A scorer's share is in its first column, empty answers in the first of all.
    """
    shown_columns = next(iter(cells.values()))
    first_columns: dict[str, str] = {}
    for column in shown_columns:
        if scorer := columns[column].scorer:
            first_columns.setdefault(scorer, column)
    # For each share: its kind, its column, and by system the mask [rows] of each replicate.
    missing: list[tuple[str, str, dict[str, list[NDArray[Any]]]]] = []
    for scorer, column in first_columns.items():
        values = {n: [np.isnan(part.scores[scorer]) for part in r] for n, r in systems.items()}
        missing.append((UNDEFINED, column, values))
    parts = [part for replicates in systems.values() for part in replicates]
    if shown_columns and all(len(p.is_empty) and not np.isnan(p.is_empty).any() for p in parts):
        values = {name: [part.is_empty for part in r] for name, r in systems.items()}
        missing.append((EMPTY, next(iter(shown_columns)), values))
    shares: dict[str, dict[str, dict[str, Measure]]] = {}
    for kind, column, values in missing:
        if any(part.any() for replicates in values.values() for part in replicates):
            for name, replicates in values.items():
                of_system = shares.setdefault(kind, {}).setdefault(name, {})
                of_system[column] = missing_share(replicates)
    return shares


def _format_missing_warnings(figures: _CorpusFigures, undefined: float) -> Iterator[str]:
    """Yields a warning for each undefined or empty share that differs from the baseline's."""
    left_out = (
        "Means are of the rows that a system has, differences of the rows that both have; "
        "--undefined=VALUE counts an undefined score as VALUE."
    )
    counted = f"They count as {undefined:g} in means and differences."
    for kind, shares in figures.missing.items():
        for system, baseline in figures.tested.items():
            for column, cell in shares[system].items():
                if not cell.differs:
                    continue
                if kind == EMPTY:
                    subject, meaning = "answers are empty", "An empty answer has no score."
                else:
                    subject = f"scores of {column} are undefined"
                    meaning = left_out if math.isnan(undefined) else counted
                yield (
                    f"{figures.corpus}: Warning: {cell.value:.1f}% of {system}'s {subject}, "
                    f"{shares[baseline][column].value:.1f}% of {baseline}'s{cell.test_text()}. "
                    f"{meaning}"
                )


def _measure_columns(
    corpus: str,
    systems: Mapping[str, Sequence[Corpus]],
    columns: Mapping[str, Column],
    undefined: float,
) -> dict[str, dict[str, Measure]]:
    """Returns, by system, the figures of the columns that a corpus's first system has.

    Raises:
      InputError: another system lacks the scores of such a column.
    """
    first = next(iter(systems.values()))[0]
    for system, replicates in systems.items():
        for scorer in sorted({c.scorer for c in columns.values()} & set(first.scores)):
            if any(scorer not in part.scores for part in replicates):
                raise InputError(
                    f"{corpus}: {system} has no scores of {scorer}, which the first system has; "
                    "score it by the same scorers."
                )
    return {
        system: {
            name: join_replicates(
                [column.measure(part.counting_undefined(undefined)) for part in replicates]
            )
            for name, column in columns.items()
            if (not column.scorer or column.scorer in first.scores)
            and (not column.only or corpus in column.only)
        }
        for system, replicates in systems.items()
    }


def _align_rows(
    corpus: str,
    system: str,
    replicates: Sequence[Corpus],
    rows: Mapping[tuple[str, str], Sequence[Corpus]],
) -> list[Corpus]:
    """Returns a system's rows in the order of the corpus's first system."""
    ids = next(replicates[0].ids for (of, _), replicates in rows.items() if of == corpus)
    for part in replicates:
        if differing := sorted(set(part.ids) ^ set(ids)):
            raise InputError(
                f"{corpus}: {system} has other rows than the first system: {differing[0]!r} is one "
                f"of {pluralize(len(differing), 'row')} that only one of them has."
            )
    return [part if part.ids == ids else part.reorder(ids) for part in replicates]


def _format_verdict(figures: _CorpusFigures, system: str, scorers: Sequence[str]) -> str:
    """Returns a line on whether a system or its baseline is better, and by which scorers.

    P-values are corrected. For undecided differences, the line says how many rows or units would
    settle a difference of this size with a power of 0.8 at the corrected level.
    """
    baseline, units = figures.tested[system], figures.units
    rivals = sum(base == baseline for base in figures.tested.values())
    scorer_cells = {n: cell for n, cell in figures.cells[system].items() if n in scorers}
    # The size of the family of Holm's correction.
    count = rivals * len(scorer_cells)
    better, worse, undecided = list[str](), list[str](), list[str]()
    for name, cell in scorer_cells.items():
        if cell.difference is None:
            undecided.append(name_with_p_value(name, math.nan))
        elif cell.significant:
            side = better if cell.difference.value > 0 else worse
            side.append(name_with_p_value(name, cell.corrected))
        else:
            settling = settling_text(cell.difference.estimate, count, units)
            undecided.append(name_with_p_value(name, cell.corrected, settling))
    parts = []
    if better:
        parts.append(f"{system} is better by {join_in_sentence(better)}")
    if worse:
        parts.append(f"{baseline} is better by {join_in_sentence(worse)}")
    if undecided and not parts:
        parts.append(f"{system} against {baseline}: undecided by {join_in_sentence(undecided)}")
    elif undecided:
        parts.append(f"undecided by {join_in_sentence(undecided)}")
    over = pluralize(len(scorer_cells), "scorer")
    if rivals > 1:
        over += f" and {pluralize(rivals, 'comparison')} of systems"
    rows = {cell.difference.rows for cell in scorer_cells.values() if cell.difference}
    few, all_rows = min(rows, default=0), max(rows, default=0)
    # Differences are on the rows that both systems have, which may be fewer, and vary by scorer.
    counted = ""
    if few < len(units.numbers):
        counted = f"{few:,} of " if few == all_rows else f"{few:,} to {all_rows:,} of "
    size = units.text(counted)
    texts = [", ".join(parts), *([f"corrected over {over}"] if count > 1 else [])]
    return f"{figures.corpus}: {units.verdict('; '.join(texts), size)}"


def _collect_table_notes(
    layout: Layout,
    columns: Mapping[str, Column],
    figures: Sequence[_CorpusFigures],
    confidence: float,
    together: Sequence[str],
) -> Iterator[str]:
    yield method_note(confidence)
    if baselines := dict.fromkeys(base for part in figures for base in part.tested.values()):
        against = ", ".join(baselines)
        over = "over the systems of a baseline"
        if len(together) > 1:
            over += f", and for means over the {len(together)} scorers too"
        yield (
            f"{MARK} differs from its baseline ({against}) on the rows that both have: two-sided p "
            f"\u2264 {SIGNIFICANT:g}, with Holm's correction {over}."
        )
    if left_out := [name for name in layout.columns if name not in columns]:
        columns_left_out = ", ".join(f"{name} ({layout.columns[name].scorer})" for name in left_out)
        yield f"Left out, because the rows have no such scores: {columns_left_out}."
    yield from layout.notes


def _row_notes(figures: _CorpusFigures) -> Iterator[str]:
    missing = [
        f"{system}, {column}: {figures.sizes[system] - cell.rows:,}"
        for system, row in figures.cells.items()
        for column, cell in row.items()
        if cell.rows < figures.sizes[system]
    ]
    if missing:
        yield (
            f"{figures.corpus}: undefined scores, which are not in the means: {'; '.join(missing)}."
        )
