"""Systems compared on the same rows: means of scores, with intervals and paired tests.

A figure is a function of sums over rows: a mean, a share, or the BLEU of a corpus. `Measure` keeps
each row's summands, so that the figure without any unit is a subtraction away. A difference is of
the rows for which both systems have a figure.

>>> better, worse = mean_measure([0.9, 0.8, 0.7]), mean_measure([0.1, 0.2, 0.3])
>>> cells = compare_measures({"plain": {"f1": worse}, "pmi": {"f1": better}}, {"pmi": "plain"})
>>> f"{cells['plain']['f1'].value:.2f}", f"{cells['pmi']['f1'].value:.2f}"
('0.20', '0.80')
"""

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, pluralize
from faith_jax.core.table import DASH, MARK, Table, difference_text, figure_text
from faith_jax.statistics.bootstrap import Interval, cluster_numbers
from faith_jax.statistics.estimates import (
    Estimate,
    corrected_text,
    jackknife,
    method_note,
    p_value_text,
    unit_sums,
)
from faith_jax.statistics.scored_corpora import Corpus, few_rows
from faith_jax.statistics.significance import SIGNIFICANT, holm_by_baseline
from faith_jax.statistics.units import AUTO, Units, units_of

Floats = NDArray[np.float64]
MINUS = "\u2212"
_MANY = 100_000  # more rows are not counted one by one
UNDEFINED, EMPTY = "undefined, %", "empty answers, %"


class Measure(NamedTuple):
    """A figure of rows.

    Attributes:
      summands: float64 [rows, sums].
      value: of their totals, [n, sums] to [n]; NaN where it is undefined.
      counts: [rows], how many replicates count; 0 = the row has no figure.
      bounds: the ends of its scale; None = unknown.
      spread: standard deviation over replicates; NaN for a single one.
      replicates: how many there are.
    """

    summands: Floats
    value: Callable[[Floats], Floats]
    counts: NDArray[np.intp]
    bounds: tuple[float, float] | None = None
    spread: float = math.nan
    replicates: int = 1

    @property
    def defined(self) -> int:
        """How many rows of all replicates count."""
        return int(self.counts.sum())

    def estimate(self, units: NDArray[np.intp] | None = None) -> Estimate:
        """Returns the figure of the rows that count, with its error; `units` are [rows]."""
        return _jackknife_measures([self], self.counts > 0, units)

    def difference(self, baseline: "Measure", units: NDArray[np.intp] | None = None) -> Estimate:
        """Returns this figure less another of the same rows, on those that both have."""
        # Paired: on the same rows, what both systems find easy or hard cancels out.
        return _jackknife_measures([self, baseline], self.shared_rows(baseline), units)

    def shared_rows(self, baseline: "Measure") -> NDArray[np.bool_]:
        """Returns which rows all replicates of both have: [rows]."""
        # Replicates' summands are added up: a row that one of them lacks would weigh less in one
        # mean than in the other.
        return (self.counts == self.replicates) & (baseline.counts == baseline.replicates)


def _jackknife_measures(
    measures: Sequence[Measure], where: NDArray[np.bool_], units: NDArray[np.intp] | None
) -> Estimate:
    """Returns the first figure, less the second if there is one, of some rows."""
    if not where.any():
        return Estimate(math.nan, math.nan, math.nan, 0)
    size = int(where.sum())
    numbers = cluster_numbers(size, None if units is None else units[where].tolist())
    sizes = np.bincount(numbers)
    figures = []  # of all units, and without each of them: [1 + units]
    for measure in measures:
        # Summands are added up by unit, [units, sums], because units are left out whole.
        sums = unit_sums(measure.summands[where], numbers, len(sizes))
        # The total less a unit's sums is the total without it: no figure is computed from rows
        # again.
        total = sums.sum(axis=0)
        figures.append(measure.value(np.concatenate([total[None], total - sums])))
    first, *second = figures
    # Both figures without the same unit, and only then their difference: so its error is that of
    # pairs.
    values = first - second[0] if second else first
    return jackknife(float(values[0]), values[1:], sizes)


class Difference(NamedTuple):
    """How far a system's figure is above that of its baseline, on the rows that both have.

    Attributes:
      estimate: of the difference.
      interval: of the difference.
      rows: how many both have.
      of: how many rows there are.
    """

    estimate: Estimate
    interval: Interval
    rows: int
    of: int

    @property
    def value(self) -> float:
        """The difference."""
        return self.estimate.value


class Cell(NamedTuple):
    """A system's figure.

    Attributes:
      value: of all rows that count.
      interval: of the value; NaN where there is none.
      p_value: two-sided, of the difference from the baseline; NaN without a baseline.
      significant: whether it differs after Holm's correction.
      rows: how many count.
      spread: standard deviation over replicates; NaN for a single one.
      difference: from the baseline; None without a baseline.
      corrected: the p-value after Holm's correction; NaN without a baseline.
    """

    value: float
    interval: Interval
    p_value: float
    significant: bool
    rows: int
    spread: float = math.nan
    difference: Difference | None = None
    corrected: float = math.nan

    def text(self, digits: int) -> str:
        """Returns the figure as the table shows it."""
        if math.isnan(self.value):
            return DASH
        mark = MARK if self.significant else ""
        return figure_text(self.value, self.interval, digits, mark, self.spread)

    def difference_text(self, digits: int) -> str:
        """Returns the difference from the baseline as the table shows it."""
        if self.difference is None or math.isnan(self.difference.value):
            return DASH
        mark = MARK if self.significant else ""
        text = difference_text(self.difference.value, self.difference.interval, digits, mark)
        if not math.isnan(self.corrected):
            text += f", {corrected_text(self.p_value, self.corrected)}"
        if self.difference.rows < self.difference.of:
            text += f", {self.difference.rows:,} of {pluralize(self.difference.of, 'row')}"
        return text


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of the table: a mean of scores, mapped so that `low` is 0 and `high` is 1.

    Attributes:
      scorer: whose scores.
      below: in place of the scores, the share of rows below this one.
      reference: without a scorer, the field with the reference texts of the lower-cased corpus's
        BLEU-4 (0 to 100).
      low: the mean that is shown as 0.
      high: the mean that is shown as 1; 0.01 shows per cent. Nothing is clipped.
      digits: after the point.
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
        """Returns the column's figure of a system's rows."""
        if not self.scorer:
            return bleu_measure(corpus.responses, corpus.field(self.reference), lowercase=True)
        values, bounds = corpus.scores[self.scorer], self.bounds
        # NaN < x is False; an undefined score must not count as one that is not below.
        if self.below is not None:
            values, bounds = np.where(np.isnan(values), np.nan, values < self.below), (0.0, 1.0)
        return mean_measure(values, self.low, self.high, bounds)


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The columns of a table, by name, and the figures that a paper prints for it.

    Columns whose scorer the rows lack are left out. Published figures are by corpus, system and
    column; the notes are on these.
    """

    title: str = "Systems"
    columns: Mapping[str, Column] = {}
    published: Mapping[str, Mapping[str, Mapping[str, int | float]]] = {}
    notes: tuple[str, ...] = ()


def mean_measure(
    values: ArrayLike,
    low: float = 0.0,
    high: float = 1.0,
    bounds: tuple[float, float] | None = None,
) -> Measure:
    """Returns the mean of the values [rows] that are not NaN; `low` becomes 0 and `high` 1.

    Nothing is clipped. `bounds` are the ends of the values' own scale.
    """
    scores = np.asarray(values, np.float64)
    defined = ~np.isnan(scores)
    # A mean is a ratio of two sums, [rows, 2]: leaving out a unit also takes its rows from the
    # count.
    summands = np.stack([np.where(defined, scores, 0.0), defined.astype(np.float64)], axis=1)
    ends = None
    if bounds is not None:
        ends = (bounds[0] - low) / (high - low), (bounds[1] - low) / (high - low)

    def value(totals: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            # Linear, and so the same of the mean as of each row.
            return (totals[:, 0] / totals[:, 1] - low) / (high - low)

    return Measure(summands, value, defined.astype(np.intp), ends)


def bleu_measure(
    responses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> Measure:
    """Returns sacrebleu's BLEU-4 of the corpus, 0 to 100, with a reference for each response."""
    from sacrebleu.metrics import BLEU

    # BLEU of a corpus is no mean of sentences: it is of sums of matching and of all n-grams, and of
    # lengths. A sentence's order decides its own score alone, which is not used here.
    bleu = BLEU(effective_order=True, lowercase=lowercase)
    sentences = [
        bleu.sentence_score(text, [gold]) for text, gold in zip(responses, references, strict=True)
    ]
    # Matches of 1 to 4 words, n-grams of 1 to 4 words, and two lengths: [rows, 10].
    summands = np.array(
        [[*f.counts, *f.totals, f.sys_len, f.ref_len] for f in sentences], np.float64
    ).reshape(len(sentences), 10)

    def value(totals: Floats) -> Floats:
        scores = []
        # Counts are whole again after sums in float64.
        for counts in np.rint(totals).astype(int).tolist():
            lengths = counts[8], counts[9]
            scores.append(BLEU.compute_bleu(counts[:4], counts[4:8], *lengths, "exp").score)
        return np.array(scores, np.float64)

    return Measure(summands, value, np.ones(len(sentences), np.intp), (0.0, 100.0))


def compare_measures(
    systems: Mapping[str, Mapping[str, Measure]],
    baselines: Mapping[str, str],
    confidence: float = 0.95,
    units: NDArray[np.intp] | None = None,
    together: Collection[str] = (),
) -> dict[str, dict[str, Cell]]:
    """Returns each system's figures, by the measure's name; arguments are those of `systems_table`.

    All measures are of the same rows, in the same order; `units` are the numbers of the rows'
    units [rows], None = each row is one. A difference, its interval and its p-value are of the rows
    that both systems have. P-values are corrected over the systems that share a baseline, and also
    over the measures that are named in `together`.
    """
    measures = next(iter(systems.values()))
    differences = {
        (name, baseline, label): systems[name][label].difference(systems[baseline][label], units)
        for name, baseline in baselines.items()
        for label in measures
    }
    p_values: dict[str, dict[tuple[str, str], float]] = {}
    for (name, baseline, label), estimate in differences.items():
        # Holm's correction is over a family: all figures from which one might pick the one that
        # differs.
        family = "" if label in together else label
        # A null character stands in no name, so that no two names and labels make one key.
        p_values.setdefault(family, {})[f"{name}\0{label}", baseline] = estimate.p_value()
    corrected = {
        pair: value
        for of_family in p_values.values()
        for pair, value in holm_by_baseline(of_family).items()
    }
    cells: dict[str, dict[str, Cell]] = {name: {} for name in systems}
    for name, row in systems.items():
        for label, measure in row.items():
            estimate, difference, p_value, holm = measure.estimate(units), None, math.nan, math.nan
            if name in baselines:
                baseline = baselines[name]
                apart = differences[name, baseline, label]
                shared = int(measure.shared_rows(systems[baseline][label]).sum())
                interval = apart.difference_interval(confidence, measure.bounds)
                difference = Difference(apart, interval, shared, len(measure.counts))
                p_value, holm = apart.p_value(), corrected[f"{name}\0{label}", baseline]
            cells[name][label] = Cell(
                estimate.value,
                estimate.interval(confidence, measure.bounds),
                p_value,
                holm <= SIGNIFICANT,
                measure.defined,
                measure.spread,
                difference,
                holm,
            )
    return cells


def _compute_total_value(measure: Measure) -> float:
    return float(measure.value(measure.summands.sum(axis=0, keepdims=True))[0])


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

    The rows of all replicates of a system count together: a row's responses are of one unit. Where
    any score is undefined or any response empty, further rows show the share of each system.

    Args:
      rows: by corpus and system its replicates, such as trainings of several seeds.
      layout: without columns, the means of all scorers are shown.
      baselines: by system the one that it is tested against; what a corpus lacks is left out.
      confidence: of the intervals.
      cluster_field: what rows of a unit share; see `faith_jax.statistics.units.units_of`.
      differences: a row below each system that has a baseline shows the difference from it, and a
        verdict which of the two is better, corrected over all means.
      undefined: the score that an undefined one counts as; NaN = none.

    Raises:
      InputError: for systems of different rows, a column's field that is missing, where no scorer
        of the layout is there, and where all scores are undefined.
      ConfigError: for an unknown baseline.
    """
    # What is compared: systems that are there, in columns whose scorers the rows have.
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
    # A verdict picks among all means, which makes them one family of tests.
    means = [n for n, column in columns.items() if column.scorer and column.below is None]
    together = means if differences else []
    shown: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    verdicts: list[str] = []
    warnings: list[str] = []
    notes: list[str] = []
    fewest: dict[str, int] = {}
    used: dict[str, str] = {}
    # Each corpus by itself; its systems have their rows in one order, as paired tests need them.
    for corpus in dict.fromkeys(corpus for corpus, _ in rows):
        systems = {
            system: _align_rows(corpus, system, replicates, rows)
            for (of, system), replicates in rows.items()
            if of == corpus
        }
        tested = {name: base for name, base in baselines.items() if {name, base} <= set(systems)}
        used |= tested
        every = [part for replicates in systems.values() for part in replicates]
        units = units_of(every, cluster_field)
        measures = _measure_columns(corpus, systems, columns, undefined)
        cells = compare_measures(measures, tested, confidence, units.numbers, together)
        digits = {name: column.digits for name, column in columns.items()}
        for system, row in cells.items():
            theirs = layout.published.get(corpus, {}).get(system, {})
            shown.append((corpus, system, *_format_row_cells(Cell.text, row, digits)))
            if system in tested and differences:
                name = f"{system} {MINUS} {tested[system]}"
                shown.append((corpus, name, *_format_row_cells(Cell.difference_text, row, digits)))
                rivals = sum(base == tested[system] for base in tested.values())
                verdicts.append(
                    _format_verdict(corpus, (system, tested[system]), row, rivals, together, units)
                )
            # Below, what a paper prints for the system.
            if theirs:
                texts = [f"{theirs[c]:g}" if c in theirs else "" for c in columns]
                shown.append((corpus, f"{system} (published)", *texts))
            tidy += [
                _tidy_row(corpus, system, column, cell, theirs.get(column))
                for column, cell in row.items()
            ]
        # Rows on undefined scores and empty answers, without which a mean may look better than it
        # is.
        for silence, shares in _measure_missing_scores(systems, columns, cells).items():
            silent = compare_measures(shares, tested, confidence, units.numbers)
            digits = dict.fromkeys(columns, 1)
            for system, row in silent.items():
                shown.append(
                    (corpus, f"{system}: {silence}", *_format_row_cells(Cell.text, row, digits))
                )
                if system in tested:
                    name = f"{system} {MINUS} {tested[system]}: {silence}"
                    shown.append(
                        (corpus, name, *_format_row_cells(Cell.difference_text, row, digits))
                    )
                    warnings += _format_missing_warnings(
                        corpus, silence, system, tested[system], silent
                    )
                for column, cell in row.items():
                    name = silence if silence == EMPTY else f"{column}: {silence}"
                    tidy.append(_tidy_row(corpus, system, name, cell, None))
        notes += units.notes(corpus)
        sizes = {name: sum(len(part.ids) for part in parts) for name, parts in systems.items()}
        notes += _row_notes(corpus, cells, sizes)
        fewest[corpus] = min(sizes.values())
    if not math.isnan(undefined):
        notes.append(f"Undefined scores count as {undefined:g}.")
    notes += few_rows(fewest)
    names = ("corpus", "system", "column", "rows", "value", "low", "high", "spread", "p_value")
    further = ("significant", "published", "difference", "difference_low", "difference_high")
    plain = Table("", (*names, *further, "p_corrected", "difference_rows"), tuple(tidy))
    all_notes = (
        *verdicts,
        *warnings,
        *_collect_table_notes(layout, columns, used, confidence, together),
        *notes,
    )
    return Table(layout.title, ("corpus", "system", *columns), tuple(shown), all_notes, plain)


def _format_row_cells(
    text: Callable[[Cell, int], str], row: Mapping[str, Cell], digits: Mapping[str, int]
) -> list[str]:
    """Returns a row's cells as the table shows them, "" where it has none: [columns]."""
    return [text(row[name], places) if name in row else "" for name, places in digits.items()]


def _check_defined(
    rows: Mapping[tuple[str, str], Sequence[Corpus]],
    columns: Mapping[str, Column],
    undefined: float,
) -> None:
    """Refuses rows without a single score, from which no figure can be computed."""
    scorers = {column.scorer for column in columns.values()}
    if "" in scorers or not math.isnan(undefined):
        return
    every = [part for corpora in rows.values() for part in corpora]
    if all(np.isnan(part.scores[s]).all() for part in every for s in scorers & set(part.scores)):
        raise InputError(
            f"All scores of {', '.join(sorted(scorers))} are undefined in all rows; the field "
            "'undefined' of the rows says why, and --undefined=VALUE counts them as a score."
        )


def _tidy_row(
    corpus: str, system: str, column: str, cell: Cell, published: float | None
) -> tuple[Any, ...]:
    apart: tuple[float | None, ...] = (None, None, None)
    rows = None
    if cell.difference is not None:
        apart = (cell.difference.value, *cell.difference.interval)
        rows = cell.difference.rows
    return (
        *(corpus, system, column, cell.rows, cell.value, *cell.interval, cell.spread),
        *(cell.p_value, cell.significant, published, *apart, cell.corrected, rows),
    )


def _measure_missing_scores(
    systems: Mapping[str, Sequence[Corpus]],
    columns: Mapping[str, Column],
    cells: Mapping[str, Mapping[str, Cell]],
) -> dict[str, dict[str, dict[str, Measure]]]:
    """Returns the shares of undefined scores and of empty answers, in per cent.

    They are by what they are, system and column; a share that is 0 for all systems is left out. A
    scorer's stands in its first column, that of empty answers in the first column of all.
    """
    shares: dict[str, dict[str, dict[str, Measure]]] = {}
    first_cells = next(iter(cells.values()))
    firsts: dict[str, str] = {}
    for column in first_cells:
        if scorer := columns[column].scorer:
            firsts.setdefault(scorer, column)
    for scorer, column in firsts.items():
        values = {
            name: [np.isnan(part.scores[scorer]) for part in replicates]
            for name, replicates in systems.items()
        }
        _add_shares(shares, UNDEFINED, column, values)
    every = [part for replicates in systems.values() for part in replicates]
    if first_cells and all(
        len(part.is_empty) and not np.isnan(part.is_empty).any() for part in every
    ):
        values = {
            name: [part.is_empty for part in replicates] for name, replicates in systems.items()
        }
        _add_shares(shares, EMPTY, next(iter(first_cells)), values)
    return shares


def _add_shares(
    shares: dict[str, dict[str, dict[str, Measure]]],
    silence: str,
    column: str,
    values: Mapping[str, Sequence[NDArray[Any]]],
) -> None:
    if not any(part.any() for replicates in values.values() for part in replicates):
        return
    for name, replicates in values.items():
        # A high end of 0.01 shows shares in per cent.
        share = _join_replicates(
            [mean_measure(part, high=0.01, bounds=(0.0, 1.0)) for part in replicates]
        )
        shares.setdefault(silence, {}).setdefault(name, {})[column] = share


def _format_missing_warnings(
    corpus: str,
    silence: str,
    system: str,
    baseline: str,
    cells: Mapping[str, Mapping[str, Cell]],
) -> Iterator[str]:
    """Yields a warning for each share of undefined scores or empty answers that differs."""
    for column, cell in cells[system].items():
        base = cells[baseline][column]
        # Shares that differ by rounding alone.
        if abs(cell.value - base.value) < 1e-9:
            continue
        test = "" if math.isnan(cell.corrected) else f" ({p_value_text(cell.corrected)})"
        subject = "answers are empty" if silence == EMPTY else f"scores of {column} are undefined"
        meaning = (
            "An empty answer has no score."
            if silence == EMPTY
            else "Means are of the rows that a system has, differences of the rows that both have; "
            "--undefined=VALUE counts an undefined score as VALUE."
        )
        yield (
            f"{corpus}: Warning: {cell.value:.1f}% of {system}'s {subject}, {base.value:.1f}% of "
            f"{baseline}'s{test}. {meaning}"
        )


def _measure_columns(
    corpus: str,
    systems: Mapping[str, Sequence[Corpus]],
    columns: Mapping[str, Column],
    undefined: float,
) -> dict[str, dict[str, Measure]]:
    """Returns by system the figures of the columns that a corpus has."""
    first = next(iter(systems.values()))[0]
    return {
        system: {
            name: _join_replicates(
                [column.measure(part.counting_undefined(undefined)) for part in replicates]
            )
            for name, column in columns.items()
            if (not column.scorer or column.scorer in first.scores)
            and (not column.only or corpus in column.only)
        }
        for system, replicates in systems.items()
    }


def _join_replicates(replicates: Sequence[Measure]) -> Measure:
    """Returns the figure of the rows of all replicates together."""
    return replicates[0]._replace(
        # Responses of all replicates to a row are one unit: they depend on each other, and more
        # replicates make no more rows.
        summands=np.sum([measure.summands for measure in replicates], axis=0),
        counts=np.sum([measure.counts for measure in replicates], axis=0),
        # How much training or sampling again changes the figure; the error above is of other rows.
        spread=statistics.stdev(map(_compute_total_value, replicates))
        if len(replicates) > 1
        else math.nan,
        replicates=len(replicates),
    )


def _align_rows(
    corpus: str,
    system: str,
    replicates: Sequence[Corpus],
    rows: Mapping[tuple[str, str], Sequence[Corpus]],
) -> list[Corpus]:
    """Returns a system's rows in the order of those of the corpus's first system."""
    ids = next(replicates[0].ids for (of, _), replicates in rows.items() if of == corpus)
    for part in replicates:
        if differing := sorted(set(part.ids) ^ set(ids)):
            raise InputError(
                f"{corpus}: {system} has other rows than the first system: {differing[0]!r} is one "
                f"of {pluralize(len(differing), 'row')} that only one of them has."
            )
    return [part if part.ids == ids else part.reorder(ids) for part in replicates]


def _format_verdict(
    corpus: str,
    pair: tuple[str, str],
    cells: Mapping[str, Cell],
    rivals: int,
    scorers: Sequence[str],
    units: Units,
) -> str:
    """Returns in one line which of two systems is better by which scorer, and how sure that is.

    The pair is a system, whose cells are given, and its baseline, which has so many rivals.
    P-values are after the correction. Undecided differences have the number of rows, or of units,
    that would settle one of this size with a power of 0.8 at the corrected level.
    """
    system, baseline = pair
    shown = {name: cell for name, cell in cells.items() if name in scorers}
    # The size of the family that Holm's correction was over.
    count = rivals * len(shown)
    better: list[str] = []
    worse: list[str] = []
    undecided: list[str] = []
    for name, cell in shown.items():
        if cell.difference is None or math.isnan(cell.corrected):
            undecided.append(f"{name} (no test)")
        elif cell.significant:
            side = better if cell.difference.value > 0 else worse
            side.append(f"{name} ({p_value_text(cell.corrected)})")
        else:
            undecided.append(
                f"{name} ({p_value_text(cell.corrected)}"
                f"{settling_text(cell.difference.estimate, count, units)})"
            )
    parts = []
    if better:
        parts.append(f"{system} is better by {join_in_sentence(better)}")
    if worse:
        parts.append(f"{baseline} is better by {join_in_sentence(worse)}")
    if undecided and not parts:
        parts.append(f"{system} against {baseline}: undecided by {join_in_sentence(undecided)}")
    elif undecided:
        parts.append(f"undecided by {join_in_sentence(undecided)}")
    over = pluralize(len(shown), "scorer")
    if rivals > 1:
        over += f" and {pluralize(rivals, 'comparison')} of systems"
    rows = {cell.difference.rows for cell in shown.values() if cell.difference}
    few, all_rows = min(rows, default=0), max(rows, default=0)
    # Differences are of the rows that both systems have, which may be fewer, and differ by scorer.
    counted = ""
    if few < len(units.numbers):
        counted = f"{few:,} of " if few == all_rows else f"{few:,} to {all_rows:,} of "
    size = units.text(counted)
    texts = [", ".join(parts), *([f"corrected over {over}"] if count > 1 else [])]
    return f"{corpus}: {units.verdict('; '.join(texts), size)}"


def join_in_sentence(texts: Sequence[str]) -> str:
    """Returns texts as a list in a sentence.

    >>> join_in_sentence(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def settling_text(estimate: Estimate, comparisons: int, units: Units) -> str:
    """Returns how many rows or units would settle a difference of this size; "" = unknown."""
    # At the level of Holm's first and strictest step, by which the smallest p-value is judged.
    count = estimate.units_to_settle(SIGNIFICANT / max(1, comparisons))
    if not math.isfinite(count) or count <= estimate.units:
        return ""
    kind = "groups" if units.field else "rows"
    size = f"about {count:,}" if count <= _MANY else f"more than {_MANY:,}"
    return f"; a difference of this size needs {size} {kind}"


def _collect_table_notes(
    layout: Layout,
    columns: Mapping[str, Column],
    baselines: Mapping[str, str],
    confidence: float,
    together: Sequence[str],
) -> Iterator[str]:
    yield method_note(confidence)
    if baselines:
        against = ", ".join(dict.fromkeys(baselines.values()))
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


def _row_notes(
    corpus: str, cells: Mapping[str, Mapping[str, Cell]], sizes: Mapping[str, int]
) -> Iterator[str]:
    missing = [
        f"{system}, {column}: {sizes[system] - cell.rows:,}"
        for system, row in cells.items()
        for column, cell in row.items()
        if cell.rows < sizes[system]
    ]
    if missing:
        yield f"{corpus}: undefined scores, which are not in the means: {'; '.join(missing)}."
