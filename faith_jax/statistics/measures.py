"""Figures of systems on the same rows: means and BLEU, their errors, and paired differences.

A figure is a function of sums over rows: a mean, a share, or a corpus's BLEU. `Measure` keeps each
row's summands, so that the figure without a given unit needs only a subtraction. A difference is
computed on the rows for which both systems have a figure.

>>> better, worse = mean_measure([0.9, 0.8, 0.7]), mean_measure([0.1, 0.2, 0.3])
>>> cells = compare_measures({"plain": {"f1": worse}, "pmi": {"f1": better}}, {"pmi": "plain"})
>>> f"{cells['plain']['f1'].value:.2f}", f"{cells['pmi']['f1'].value:.2f}"
('0.20', '0.80')
"""

import math
import statistics
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.core.errors import pluralize
from faith_jax.core.table import DASH, MARK, difference_text, figure_text
from faith_jax.statistics.bootstrap import Interval, cluster_numbers
from faith_jax.statistics.intervals import (
    Estimate,
    corrected_text,
    jackknife_sums,
    p_value_text,
    unit_sums,
)
from faith_jax.statistics.significance import SIGNIFICANT, holm_by_baseline

Floats = NDArray[np.float64]
# Names of the shares of rows that lack something.
UNDEFINED, EMPTY = "undefined, %", "empty answers, %"


class Measure(NamedTuple):
    """A figure computed from rows.

    Attributes:
      summands: float64 [rows, sums].
      value: maps totals of summands [n, sums] to figures [n]; NaN if undefined.
      counts: [rows], number of replicates that have a value; 0 = the row has no figure.
      bounds: the ends of the figure's scale; None = unknown.
      spread: standard deviation over replicates; NaN for a single one.
      replicates: number of replicates.
    """

    summands: Floats
    value: Callable[[Floats], Floats]
    counts: NDArray[np.intp]
    bounds: tuple[float, float] | None = None
    spread: float = math.nan
    replicates: int = 1

    @property
    def defined(self) -> int:
        """The number of rows with a value, over all replicates."""
        return int(self.counts.sum())

    def estimate(self, units: NDArray[np.intp] | None = None) -> Estimate:
        """Returns the figure of all rows with a value, with its error; `units` are [rows]."""
        return _jackknife_measures([self], self.counts > 0, units)

    def difference(self, baseline: "Measure", units: NDArray[np.intp] | None = None) -> Estimate:
        """Returns this figure less the baseline's, on the rows that both have."""
        # A paired comparison: on the same rows, how easy or hard they are cancels out.
        return _jackknife_measures([self, baseline], self.shared_rows(baseline), units)

    def shared_rows(self, baseline: "Measure") -> NDArray[np.bool_]:
        """Returns which rows have a value in all replicates of both: [rows]."""
        # Replicates' summands are added up: a row that is missing in a replicate would weigh less
        # in one mean than in the other.
        return (self.counts == self.replicates) & (baseline.counts == baseline.replicates)


def _jackknife_measures(
    measures: Sequence[Measure], where: NDArray[np.bool_], units: NDArray[np.intp] | None
) -> Estimate:
    """Returns the first figure on some rows, less the second if there is one."""
    if not where.any():
        return Estimate(math.nan, math.nan, math.nan, 0)
    size = int(where.sum())
    numbers = cluster_numbers(size, None if units is None else units[where].tolist())
    sizes = np.bincount(numbers)
    # Summands are added up by unit, [units, sums], because units are left out whole.
    summands = np.concatenate([measure.summands[where] for measure in measures], axis=1)
    sums = unit_sums(summands, numbers, len(sizes))

    def figure(totals: Floats) -> Floats:
        # Both figures leave out the same unit at a time, so the difference has the error of a
        # paired comparison.
        parts = zip(measures, np.split(totals, len(measures), axis=1), strict=True)
        first, *second = (measure.value(part) for measure, part in parts)
        return first - second[0] if second else first

    return jackknife_sums(figure, sums, sizes)


class Difference(NamedTuple):
    """How far a system's figure is above its baseline's, on the rows that both have.

    `rows` is the number of these rows, out of `of` rows.
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
    """A system's figure on all rows with a value, and its difference from the baseline, if any.

    Attributes:
      interval: interval of the value; NaN if there is none.
      p_value: two-sided p-value of the difference; NaN without a baseline.
      significant: whether the difference is significant after Holm's correction.
      spread: standard deviation over replicates; NaN for a single one.
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

    @property
    def differs(self) -> bool:
        """Whether the figure differs from the baseline by more than rounding."""
        return self.difference is not None and abs(self.difference.value) > 1e-9

    def test_text(self) -> str:
        """Returns the difference's p-value for use in a sentence, " (p = 0.018)"; "" = none."""
        return "" if math.isnan(self.corrected) else f" ({p_value_text(self.corrected)})"

    def text(self, digits: int) -> str:
        """Returns the figure as text for the table."""
        if math.isnan(self.value):
            return DASH
        mark = MARK if self.significant else ""
        return figure_text(self.value, self.interval, digits, mark, self.spread)

    def difference_text(self, digits: int) -> str:
        """Returns the difference from the baseline as text for the table."""
        if self.difference is None or math.isnan(self.difference.value):
            return DASH
        mark = MARK if self.significant else ""
        text = difference_text(self.difference.value, self.difference.interval, digits, mark)
        if not math.isnan(self.corrected):
            text += f", {corrected_text(self.p_value, self.corrected)}"
        if self.difference.rows < self.difference.of:
            text += f", {self.difference.rows:,} of {pluralize(self.difference.of, 'row')}"
        return text


def mean_measure(
    values: ArrayLike,
    low: float = 0.0,
    high: float = 1.0,
    bounds: tuple[float, float] | None = None,
) -> Measure:
    """Returns the mean of the values [rows] that are not NaN, mapping `low` to 0 and `high` to 1.

    Nothing is clipped. `bounds` are the ends of the values' own scale.
    """
    scores = np.asarray(values, np.float64)
    defined = ~np.isnan(scores)
    # A mean is a ratio of two sums, [rows, 2]: leaving out a unit also lowers the count of rows.
    summands = np.stack([np.where(defined, scores, 0.0), defined.astype(np.float64)], axis=1)
    ends = None
    if bounds is not None:
        ends = (bounds[0] - low) / (high - low), (bounds[1] - low) / (high - low)

    def value(totals: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            # The mapping is linear, so it may be applied to the mean.
            return (totals[:, 0] / totals[:, 1] - low) / (high - low)

    return Measure(summands, value, defined.astype(np.intp), ends)


def missing_share(replicates: Sequence[ArrayLike]) -> Measure:
    """Returns the share of rows that lack something (`UNDEFINED`, `EMPTY`), in per cent.

    Without this share, a mean may look better than it is. Each replicate has 1 for a row that lacks
    it and 0 for others, [rows]; NaN = unknown.
    """
    return join_replicates(
        # A high end of 0.01 shows shares in per cent.
        [mean_measure(is_missing, high=0.01, bounds=(0.0, 1.0)) for is_missing in replicates]
    )


def bleu_measure(
    responses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> Measure:
    """Returns sacrebleu's corpus BLEU-4, from 0 to 100, with one reference for each response."""
    from sacrebleu.metrics import BLEU

    # Corpus BLEU is not a mean over sentences: it is computed from sums of matching n-grams, of all
    # n-grams, and of lengths. `effective_order` affects only sentence scores, which are not used.
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
        # Round the float64 sums back to integer counts.
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
    """Returns each system's figures by the measure's name; arguments as in `systems_table`.

    All measures have the same rows in the same order; `units` are the numbers of the rows' units,
    [rows]; None = each row is a unit. A difference, its interval and its p-value are on the rows
    that both systems have. P-values are corrected over the systems that share a baseline, and also
    over the measures named in `together`.
    """
    measures = next(iter(systems.values()))
    differences = {
        (name, baseline, label): systems[name][label].difference(systems[baseline][label], units)
        for name, baseline in baselines.items()
        for label in measures
    }
    p_values: dict[str, dict[tuple[Hashable, str], float]] = {}
    for (name, baseline, label), estimate in differences.items():
        # Holm's correction is over a family: all figures among which one might pick a significant
        # one.
        family = "" if label in together else label
        p_values.setdefault(family, {})[(name, label), baseline] = estimate.p_value()
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
                gap = differences[name, baseline, label]
                shared = int(measure.shared_rows(systems[baseline][label]).sum())
                interval = gap.difference_interval(confidence, measure.bounds)
                difference = Difference(gap, interval, shared, len(measure.counts))
                p_value, holm = gap.p_value(), corrected[(name, label), baseline]
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


def join_replicates(replicates: Sequence[Measure]) -> Measure:
    """Joins replicates: returns the figure over the rows of all of them."""
    totals = [float(m.value(m.summands.sum(axis=0, keepdims=True))[0]) for m in replicates]
    return replicates[0]._replace(
        # All replicates' responses to a row are one unit: they depend on each other, and more
        # replicates do not add rows.
        summands=np.sum([measure.summands for measure in replicates], axis=0),
        counts=np.sum([measure.counts for measure in replicates], axis=0),
        # The spread is due to training or sampling again; an estimate's error is due to the rows.
        spread=statistics.stdev(totals) if len(totals) > 1 else math.nan,
        replicates=len(replicates),
    )
