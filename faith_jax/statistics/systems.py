"""Systems compared on the same rows: means of scores, with intervals and paired tests.

A figure is a function of sums over rows: a mean, a share, or the BLEU of a corpus. `Measure` keeps
each row's summands, so that the figure of any resample is one matrix product away.

>>> better, worse = mean_measure([0.9, 0.8, 0.7]), mean_measure([0.1, 0.2, 0.3])
>>> cells = compared({"plain": {"f1": worse}, "pmi": {"f1": better}}, {"pmi": "plain"})
>>> f"{cells['plain']['f1'].value:.2f}", f"{cells['pmi']['f1'].value:.2f}"
('0.20', '0.80')
"""

import math
import statistics
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.core.errors import ConfigError, InputError, counted, did_you_mean
from faith_jax.core.table import DASH, MARK, Table, figure_text
from faith_jax.statistics.bootstrap import (
    RESAMPLES,
    Interval,
    cluster_numbers,
    drawn_counts,
    interval_note,
    percentile_interval,
)
from faith_jax.statistics.scored_corpora import Corpus, few_rows
from faith_jax.statistics.significance import (
    SIGNIFICANT,
    holm_by_baseline,
    randomization_p_value,
)

Floats = NDArray[np.float64]
# Rounds of exchanges that are drawn at once, and cells [rounds or resamples, rows] that are held.
_ROUNDS_AT_ONCE = 100
_CELLS = 1 << 22


class Measure(NamedTuple):
    """A figure of rows.

    Attributes:
      summands: float64 [rows, sums].
      value: of their totals, [n, sums] to [n]; NaN where it is undefined.
      defined: how many rows count.
      spread: standard deviation over replicates; NaN for a single one.
    """

    summands: Floats
    value: Callable[[Floats], Floats]
    defined: int
    spread: float = math.nan


class Difference(NamedTuple):
    """How far a system's figure is above that of its baseline, with the interval."""

    value: float
    interval: Interval


class Cell(NamedTuple):
    """A system's figure.

    Attributes:
      value: of all rows.
      interval: percentile bootstrap over rows.
      p_value: two-sided, of the difference from the baseline; NaN without a baseline.
      significant: whether it differs after Holm's correction over the baseline's systems.
      rows: how many count.
      spread: standard deviation over replicates; NaN for a single one.
      difference: from the baseline, with percentile bootstrap; None without a baseline.
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
        low, high = self.difference.interval
        ends = f"{low:+.{digits}f} to {high:+.{digits}f}"
        mark = MARK if self.significant else ""
        p_value = "p < 0.001" if self.corrected < 0.001 else f"p = {self.corrected:.3f}"
        return f"{self.difference.value:+.{digits}f}{mark} ({ends}), {p_value}"


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a column of the table shows: a mean of scores, mapped so that `low` is 0, `high` is 1.

    Attributes:
      scorer: whose scores.
      below: in place of the scores, the share of rows below this one.
      reference: without a scorer, the field with the reference texts of the lower-cased corpus's
        BLEU-4 (0 to 100).
      low: the mean that is shown as 0.
      high: the mean that is shown as 1; 0.01 shows per cent. Nothing is clipped.
      digits: after the point.
      only: the corpora that have the column; empty = all.
    """

    scorer: str = ""
    below: float | None = None
    reference: str = ""
    low: float = 0.0
    high: float = 1.0
    digits: int = 3
    only: Sequence[str] = ()

    def measure(self, corpus: Corpus) -> Measure:
        """Returns the column's figure of a system's rows."""
        if not self.scorer:
            return bleu_measure(corpus.responses, corpus.field(self.reference), lowercase=True)
        values = corpus.scores[self.scorer]
        if self.below is not None:
            values = np.where(np.isnan(values), np.nan, values < self.below)
        return mean_measure(values, self.low, self.high)


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The columns of a table, by name, and the figures that a paper prints for it.

    Columns whose scorer the rows lack are left out. Published figures are by corpus, system and
    column; the notes are on these.
    """

    title: str = "Systems"
    columns: Mapping[str, Column] = {}
    published: Mapping[str, Mapping[str, Mapping[str, int | float]]] = {}
    notes: tuple[str, ...] = ()


def mean_measure(values: ArrayLike, low: float = 0.0, high: float = 1.0) -> Measure:
    """Returns the mean of the values [rows] that are not NaN; `low` becomes 0 and `high` 1.

    Nothing is clipped.
    """
    given = np.asarray(values, np.float64)
    defined = ~np.isnan(given)
    summands = np.stack([np.where(defined, given, 0.0), defined.astype(np.float64)], axis=1)

    def value(totals: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return (totals[:, 0] / totals[:, 1] - low) / (high - low)

    return Measure(summands, value, int(defined.sum()))


def bleu_measure(
    responses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> Measure:
    """Returns sacrebleu's BLEU-4 of the corpus, 0 to 100, with a reference for each response."""
    from sacrebleu.metrics import BLEU

    bleu = BLEU(effective_order=True, lowercase=lowercase)
    found = [
        bleu.sentence_score(text, [gold]) for text, gold in zip(responses, references, strict=True)
    ]
    summands = np.array(
        [[*f.counts, *f.totals, f.sys_len, f.ref_len] for f in found], np.float64
    ).reshape(len(found), 10)

    def value(totals: Floats) -> Floats:
        scores = []
        for counts in np.rint(totals).astype(int).tolist():
            lengths = counts[8], counts[9]
            scores.append(BLEU.compute_bleu(counts[:4], counts[4:8], *lengths, "exp").score)
        return np.array(scores, np.float64)

    return Measure(summands, value, len(found))


def compared(
    systems: Mapping[str, Mapping[str, Measure]],
    baselines: Mapping[str, str],
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> dict[str, dict[str, Cell]]:
    """Returns each system's figures, by the measure's name; arguments are those of `systems_table`.

    All measures are of the same rows, in the same order. Differences are tested by approximate
    randomization (Noreen 1989): the rows of two systems are exchanged at random, one by one, or
    with all rows of their cluster. P-values are corrected over the systems that share a baseline.
    """
    measures = next(iter(systems.values()))
    rows = len(next(iter(measures.values())).summands)
    places = [(name, measure) for name in systems for measure in measures]
    # Of all figures in one matrix, so that each drawing is one product.
    summands = np.concatenate([systems[name][measure].summands for name, measure in places], axis=1)
    draws = drawn_counts(rows, resamples, seed, clusters, cells=_CELLS)
    drawn = np.concatenate([counts.astype(np.float64) @ summands for counts in draws])
    ends = np.cumsum([systems[name][measure].summands.shape[1] for name, measure in places])
    totals = dict(zip(places, np.split(drawn, ends[:-1], axis=1), strict=True))
    cells: dict[str, dict[str, Cell]] = {name: {} for name in systems}
    for measure in measures:
        p_values = {
            (name, baseline): randomization(
                systems[name][measure], systems[baseline][measure], resamples, seed, clusters
            )
            for name, baseline in baselines.items()
        }
        corrected = holm_by_baseline(p_values)
        drawn_values = {
            name: given[measure].value(totals[name, measure]) for name, given in systems.items()
        }
        for name, given in systems.items():
            it, pair, difference = given[measure], (name, baselines.get(name, "")), None
            if (baseline := baselines.get(name)) is not None:
                apart = drawn_values[name] - drawn_values[baseline]
                value = _total(it) - _total(systems[baseline][measure])
                difference = Difference(value, percentile_interval(apart, confidence))
            cells[name][measure] = Cell(
                _total(it),
                percentile_interval(drawn_values[name], confidence),
                p_values.get(pair, math.nan),
                corrected.get(pair, math.nan) <= SIGNIFICANT,
                it.defined,
                it.spread,
                difference,
                corrected.get(pair, math.nan),
            )
    return cells


def _total(measure: Measure) -> float:
    return float(measure.value(measure.summands.sum(axis=0, keepdims=True))[0])


def randomization(
    first: Measure,
    second: Measure,
    rounds: int = RESAMPLES,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> float:
    """Returns the two-sided p-value of the difference of two figures of the same rows.

    It is at least 1 / (rounds + 1); NaN where a figure is undefined. The rows of a cluster are
    exchanged together.
    """
    own, other = (m.summands.sum(axis=0, keepdims=True) for m in (first, second))
    apart = second.summands - first.summands
    if clusters is not None:
        groups = cluster_numbers(len(apart), clusters)
        rows, apart = apart, np.zeros((int(groups.max()) + 1, apart.shape[1]))
        np.add.at(apart, groups, rows)
    generator = np.random.default_rng(seed)
    exchanged = []
    step = max(1, min(_ROUNDS_AT_ONCE, _CELLS // max(1, len(apart))))
    for start in range(0, rounds, step):
        count = min(step, rounds - start)
        swapped = (generator.random((count, len(apart))) < 0.5).astype(np.float64) @ apart
        exchanged.append(first.value(own + swapped) - second.value(other - swapped))
    return randomization_p_value(_total(first) - _total(second), np.concatenate(exchanged))


def systems_table(
    rows: Mapping[tuple[str, str], Sequence[Corpus]],
    layout: Layout,
    baselines: Mapping[str, str],
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
    clusters: Mapping[str, Sequence[Hashable]] | None = None,
    differences: bool = False,
) -> Table:
    """Returns the table of systems by corpus.

    The rows of all replicates of a system count together: a row's responses are drawn and exchanged
    together.

    Args:
      rows: by corpus and system its replicates, such as trainings of several seeds.
      layout: without columns, the means of all scorers are shown.
      baselines: by system the one that it is tested against; what a corpus lacks is left out.
      resamples: of the bootstrap, and rounds of the test.
      confidence: of the intervals.
      seed: of both.
      clusters: by corpus, for each row of its first system what it is drawn and exchanged together
        with; a corpus that is not here has independent rows.
      differences: a row below each system that has a baseline shows the difference from it.

    Raises:
      InputError: for systems of different rows, a column's field that is missing, and where no
        scorer of the layout is there.
      ConfigError: for an unknown baseline.
    """
    known = {system for _, system in rows}
    for name in {*baselines, *baselines.values()} - known:
        raise ConfigError(
            f"There is no system {name!r}.{did_you_mean(name, known)} The systems are: "
            f"{', '.join(sorted(known))}."
        )
    scorers = sorted({name for corpora in rows.values() for name in corpora[0].scores})
    columns = layout.columns or {name: Column(name) for name in scorers}
    columns = {name: it for name, it in columns.items() if not it.scorer or it.scorer in scorers}
    if not columns:
        raise InputError("The rows have none of the table's scorers.")
    shown: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    notes: list[str] = []
    used: dict[str, str] = {}
    for corpus in dict.fromkeys(corpus for corpus, _ in rows):
        given = {system: found for (of, system), found in rows.items() if of == corpus}
        tested = {name: it for name, it in baselines.items() if {name, it} <= set(given)}
        used |= tested
        measures = _measures(corpus, given, columns)
        together = (clusters or {}).get(corpus)
        cells = compared(measures, tested, resamples, confidence, seed, together)
        sizes = {name: sum(len(one.ids) for one in it) for name, it in given.items()}
        notes += _row_notes(corpus, cells, sizes)
        for system, found in cells.items():
            theirs = layout.published.get(corpus, {}).get(system, {})
            texts = [found[c].text(columns[c].digits) if c in found else "" for c in columns]
            shown.append((corpus, system, *texts))
            if system in tested and differences:
                texts = [
                    found[c].difference_text(columns[c].digits) if c in found else ""
                    for c in columns
                ]
                shown.append((corpus, f"{system} \u2212 {tested[system]}", *texts))
            if theirs:
                texts = [f"{theirs[c]:g}" if c in theirs else "" for c in columns]
                shown.append((corpus, f"{system} (published)", *texts))
            tidy += [
                (corpus, system, column, cell.rows, cell.value, *cell.interval, cell.spread)
                + (cell.p_value, cell.significant, theirs.get(column), *_apart(cell))
                for column, cell in found.items()
            ]
    names = ("corpus", "system", "column", "rows", "value", "low", "high", "spread", "p_value")
    further = ("significant", "published", "difference", "difference_low", "difference_high")
    plain = Table("", (*names, *further), tuple(tidy))
    told = (*_notes(layout, columns, used, resamples, confidence), *notes)
    return Table(layout.title, ("corpus", "system", *columns), tuple(shown), told, plain)


def _apart(cell: Cell) -> tuple[float | None, ...]:
    """Returns the difference from the baseline and its interval's ends."""
    if cell.difference is None:
        return (None, None, None)
    return (cell.difference.value, *cell.difference.interval)


def _measures(
    corpus: str, systems: Mapping[str, Sequence[Corpus]], columns: Mapping[str, Column]
) -> dict[str, dict[str, Measure]]:
    """Returns by system the figures of the columns that a corpus has."""
    first = next(iter(systems.values()))[0]
    found: dict[str, dict[str, Measure]] = {}
    for system, replicates in systems.items():
        ordered = [_in_order(corpus, system, one, first.ids) for one in replicates]
        found[system] = {
            name: _joined([column.measure(one) for one in ordered])
            for name, column in columns.items()
            if (not column.scorer or column.scorer in first.scores)
            and (not column.only or corpus in column.only)
        }
    return found


def _joined(replicates: Sequence[Measure]) -> Measure:
    """Returns the figure of the rows of all replicates together."""
    summands = np.sum([measure.summands for measure in replicates], axis=0)
    defined = sum(measure.defined for measure in replicates)
    spread = statistics.stdev(map(_total, replicates)) if len(replicates) > 1 else math.nan
    return Measure(summands, replicates[0].value, defined, spread)


def _in_order(corpus: str, system: str, given: Corpus, ids: Sequence[str]) -> Corpus:
    """Returns a system's rows in the order of the first system's."""
    if given.ids == ids:
        return given
    if differing := sorted(set(given.ids) ^ set(ids)):
        raise InputError(
            f"{corpus}: {system} has other rows than the first system: {differing[0]!r} is one of "
            f"{counted(len(differing), 'row')} that only one of them has."
        )
    return given.ordered(ids)


def _notes(
    layout: Layout,
    columns: Mapping[str, Column],
    baselines: Mapping[str, str],
    resamples: int,
    confidence: float,
) -> Iterator[str]:
    yield interval_note(confidence, resamples)
    if baselines:
        against = ", ".join(dict.fromkeys(baselines.values()))
        yield (
            f"{MARK} differs from its baseline ({against}) on the same rows: two-sided p \u2264 "
            f"{SIGNIFICANT:g} by approximate randomization of {counted(resamples, 'round')}, with "
            "Holm's correction over the systems of a baseline."
        )
    if left_out := [name for name in layout.columns if name not in columns]:
        told = ", ".join(f"{name} ({layout.columns[name].scorer})" for name in left_out)
        yield f"Left out, because the rows have no such scores: {told}."
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
    yield from few_rows({corpus: min(sizes.values())})
