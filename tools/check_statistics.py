"""Checks intervals and tests by simulation: do 95% of the intervals contain the true value?

Draws samples from populations with known figures, and computes the statistics of `evaluate` for
each: the interval of a mean, of a share and of an AUC, and the p-value of two systems or scorers
that do not differ (level) and that do (power). The populations have independent rows, or groups of
dependent rows, of equal and of very unequal size; scores with ties; and scores that are undefined
in different rows for each system.

    python tools/check_statistics.py                     # 4,000 samples each, a few minutes
    python tools/check_statistics.py --quick             # 400 samples each, half a minute
    python tools/check_statistics.py --markdown=table.md

The aims: coverage from 93% to 97%, level from 4% to 6%, each within the simulation's own error,
which is printed below the table. Figures that miss an aim are marked.
"""

import argparse
import concurrent.futures
import math
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.core.table import Table
from faith_jax.report.table_pages import render_table
from faith_jax.statistics.auc import area_components
from faith_jax.statistics.intervals import Estimate
from faith_jax.statistics.measures import mean_measure

Floats = NDArray[np.float64]
_COVERAGE, _LEVEL = (0.93, 0.97), (0.04, 0.06)
_SHARE = (0.0, 1.0)
_QUICK, _FULL = 400, 4000


class Design(NamedTuple):
    """The number of rows in a sample, and their grouping.

    Attributes:
      name: the design's name in the table.
      rows: the number of rows, or with groups the mean number of rows in a group.
      groups: the number of groups; 0 = rows are independent.
      sizes: sizes of groups: "equal", "unequal" (2 plus a geometric number), or "" without groups.
    """

    name: str
    rows: int
    groups: int = 0
    sizes: str = ""

    def units(self, generator: np.random.Generator) -> NDArray[np.intp]:
        """Returns the index of each row's unit (its group, or the row itself): [rows]."""
        if not self.groups:
            return np.arange(self.rows)
        sizes = np.full(self.groups, self.rows)
        if self.sizes == "unequal":
            sizes = 2 + generator.geometric(1 / (self.rows - 2), self.groups)
        return np.repeat(np.arange(self.groups), sizes)


DESIGNS = (
    *(Design(f"{rows} rows", rows) for rows in (20, 40, 100)),
    *(
        Design(f"{groups} {name}", 7, groups, sizes)
        for groups in (5, 10, 30)
        for name, sizes in (("groups", "equal"), ("unequal", "unequal"))
    ),
)


class Sample(NamedTuple):
    """The estimates from one sample.

    Attributes:
      figure: the estimate of a figure with a known true value.
      truth: the true value of the figure.
      bounds: the ends of the figure's scale; None = unbounded.
      null: the estimate of a difference whose true value is 0.
      nonzero: the estimate of a difference whose true value is not 0.
    """

    figure: Estimate
    truth: float
    bounds: tuple[float, float] | None
    null: Estimate
    nonzero: Estimate


def correlated(
    generator: np.random.Generator, units: NDArray[np.intp], correlation: float = 0.3
) -> Floats:
    """Returns normal values [rows] with this correlation between the rows of a unit."""
    of_units = generator.normal(size=int(units.max()) + 1)[units]
    row_noise = generator.normal(size=len(units))
    return np.sqrt(correlation) * of_units + np.sqrt(1 - correlation) * row_noise


def means(generator: np.random.Generator, units: NDArray[np.intp], effect: float) -> Sample:
    """Samples means of unbounded scores: normal, with true mean 0."""
    first, second = (correlated(generator, units) for _ in range(2))
    return _compared(first, second, first + effect, 0.0, None, units)


def skewed(generator: np.random.Generator, units: NDArray[np.intp], effect: float) -> Sample:
    """Samples means of scores in [0, 1], mostly near 1: uniform values to the power 0.3."""
    first, second = (_uniform(correlated(generator, units)) ** 0.3 for _ in range(2))
    better = np.minimum(1, first + effect * 0.27)
    return _compared(first, second, better, 1 / 1.3, _SHARE, units)


def shares(generator: np.random.Generator, units: NDArray[np.intp], effect: float) -> Sample:
    """Samples shares of rows: scores are 0 or 1, with a true share of 80%."""
    values = [correlated(generator, units) for _ in range(2)]
    limit = 0.8416212  # the 80% quantile of the normal distribution
    first, second = ((values_of_scorer < limit).astype(float) for values_of_scorer in values)
    fewer = (values[0] < limit - effect).astype(float)
    return _compared(first, second, fewer, 0.8, _SHARE, units)


def ties(generator: np.random.Generator, units: NDArray[np.intp], effect: float) -> Sample:
    """Samples means of marks from 1 to 5, so that two systems agree in many rows."""
    values = [np.clip(np.round(correlated(generator, units) + 3), 1, 5) for _ in range(2)]
    higher = np.clip(values[0] + (generator.random(len(units)) < effect), 1, 5)
    return _compared(values[0], values[1], higher, 3.0, (1.0, 5.0), units)


def undefined(generator: np.random.Generator, units: NDArray[np.intp], effect: float) -> Sample:
    """Samples means where each system is undefined in its own random fifth of the rows."""
    first, second = (correlated(generator, units) for _ in range(2))
    silent = [generator.random(len(units)) < 0.2 for _ in range(2)]
    first = np.where(silent[0], math.nan, first)
    return _compared(
        first, np.where(silent[1], math.nan, second), first + effect, 0.0, None, units, silent[1]
    )


def _compared(
    first: Floats,
    second: Floats,
    better: Floats,
    truth: float,
    bounds: tuple[float, float] | None,
    units: NDArray[np.intp],
    silent: NDArray[np.bool_] | None = None,
) -> Sample:
    """Returns the mean of `first`, and its differences from an equal and from a better system.

    `second` is the equal system. The better one is `second` plus the gain of `better` over `first`.
    """
    figure, equal = mean_measure(first, bounds=bounds), mean_measure(second, bounds=bounds)
    gain = better - first
    higher = second + (gain if silent is None else np.where(silent, math.nan, gain))
    return Sample(
        figure.estimate(units),
        truth,
        bounds,
        figure.difference(equal, units),
        mean_measure(higher).difference(figure, units),
    )


def _uniform(values: Floats) -> Floats:
    from scipy import special

    return np.asarray(special.ndtr(values))


def areas(
    generator: np.random.Generator,
    units: NDArray[np.intp],
    effect: float,
    separation: float = 1.0,
    step: float = 0.0,
) -> Sample:
    """Samples AUCs: scores of faithful rows are higher by `separation` standard deviations.

    The labels within a unit are correlated. Scores are rounded to multiples of `step`; 0 = not
    rounded.
    """
    leaning = generator.choice([0.3, 0.7], int(units.max()) + 1)[units]
    is_alone = len(leaning) == units.max() + 1
    labels = generator.random(len(units)) < (0.5 if is_alone else leaning)
    if labels.all() or not labels.any():
        labels[0] = not labels[0]
    scores = np.stack([correlated(generator, units) + separation * labels for _ in range(3)])
    scores[2] += effect * labels
    truth = float(_uniform(np.array(separation / math.sqrt(2))))
    if step:
        scores = step * np.round(scores / step)
        truth = _area_of_ties(separation, step)
    groups = None if is_alone else units.tolist()
    parts = area_components(scores, labels, groups)
    return Sample(
        parts.estimate([1, 0, 0]),
        truth,
        _SHARE,
        parts.estimate([1, -1, 0]),
        parts.estimate([0, -1, 1]),
    )


def _area_of_ties(separation: float, step: float) -> float:
    """Returns the AUC of two normal distributions with values rounded to multiples of `step`."""
    places = step * np.arange(-20, 21)
    ends = np.append(places - step / 2, places[-1] + step / 2)
    low, high = (np.diff(_uniform(ends - shift)) for shift in (0.0, separation))
    return float(high @ (np.cumsum(low) - low / 2))


class Figure(NamedTuple):
    """A kind of figure: its name, its sampling function, and the effect for the power."""

    name: str
    sample: Callable[..., Sample]
    effect: float
    options: dict[str, Any]


FIGURES = (
    Figure("mean", means, 0.8, {}),
    Figure("mean of skewed scores", skewed, 0.8, {}),
    Figure("mean with ties", ties, 0.8, {}),
    Figure("mean, a fifth undefined", undefined, 0.8, {}),
    Figure("share (80%)", shares, 0.8, {}),
    Figure("AUC 0.76", areas, 1.5, {}),
    Figure("AUC 0.92", areas, 1.5, {"separation": 2.0}),
    Figure("AUC with ties", areas, 1.5, {"step": 1.0}),
)


class Measured(NamedTuple):
    """The result of a simulation: coverage, level and power as shares of the samples."""

    figure: str
    design: str
    coverage: float
    level: float
    power: float
    samples: int


def measured(figure: Figure, design: Design, samples: int, seed: int) -> Measured:
    """Returns how often intervals contain the true value, and how often tests reject."""
    generator = np.random.default_rng([seed, FIGURES.index(figure), DESIGNS.index(design)])
    covered = rejected = significant = 0
    for _ in range(samples):
        sample = figure.sample(generator, design.units(generator), figure.effect, **figure.options)
        low, high = sample.figure.interval(0.95, sample.bounds)
        covered += low <= sample.truth <= high
        rejected += sample.null.p_value() <= 0.05
        significant += sample.nonzero.p_value() <= 0.05
    counts = (count / samples for count in (covered, rejected, significant))
    return Measured(figure.name, design.name, *counts, samples)


def table(results: Sequence[Measured]) -> Table:
    """Returns the results in per cent by figure and design, and marks those that miss an aim."""
    samples = results[0].samples
    errors = [2 * math.sqrt(share * (1 - share) / samples) for share in (_COVERAGE[0], _LEVEL[1])]
    by_place = {(result.figure, result.design): result for result in results}
    designs = list(dict.fromkeys(result.design for result in results))
    rows: list[tuple[str, ...]] = []
    for figure in dict.fromkeys(result.figure for result in results):
        of_figure = [by_place[figure, design] for design in designs]
        coverage = (_format_share(result.coverage, _COVERAGE, errors[0]) for result in of_figure)
        level = (_format_share(result.level, _LEVEL, errors[1]) for result in of_figure)
        rows.append((figure, "coverage", *coverage))
        rows.append(("", "level", *level))
        rows.append(("", "power", *(f"{100 * result.power:.0f}" for result in of_figure)))
    note = (
        f"{samples:,} samples each: coverage is known to {100 * errors[0]:.1f} points, level to "
        f"{100 * errors[1]:.1f}. Marked (!) is what lies outside of the aims by more: coverage 93 "
        "to 97%, level 4 to 6%."
    )
    title = "Coverage of 95% intervals, level and power of tests at 5%, in per cent"
    return Table(title, ("", "", *designs), tuple(rows), (note,))


def _format_share(share: float, aim: tuple[float, float], error: float) -> str:
    is_met = aim[0] - error <= share <= aim[1] + error
    return f"{100 * share:.1f}{'' if is_met else ' !'}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the simulation and prints its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    parser.add_argument("--samples", type=int, default=0, help="of each setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", default="", help="only figures whose names hold this text")
    parser.add_argument("--markdown", type=pathlib.Path, help="also write the table here")
    options = parser.parse_args(arguments)
    samples = options.samples or (_QUICK if options.quick else _FULL)
    if samples < 1:
        sys.exit(f"--samples: expected a positive number, got {samples}.")
    tasks = [
        (figure, design, samples, options.seed)
        for figure in FIGURES
        if options.figure in figure.name
        for design in DESIGNS
    ]
    if not tasks:
        names = ", ".join(figure.name for figure in FIGURES)
        sys.exit(f"--figure: expected part of one of {names}, got {options.figure!r}.")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(measured, *zip(*tasks, strict=True)))
    coverage = table(results)
    print(render_table(coverage))
    if options.markdown:
        options.markdown.write_text(render_table(coverage, "markdown"), encoding="utf-8")


if __name__ == "__main__":
    main()
