"""ROC AUCs of scorers on several corpora, compared with baselines (Steen 2023, tables 1 and 2).

All scorers of a corpus are compared on the rows for which every one of them has a score, and in
the same resamples. The average over corpora is resampled too.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.table import MARK, Table, figure_text, plain
from faith_jax.statistics.bootstrap import Interval, bootstrap_auc, percentile_interval
from faith_jax.statistics.roc import roc_auc
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.significance import (
    SIGNIFICANT,
    Comparison,
    Exchanges,
    approximate_randomization,
    delong_test,
    exchanges,
    hanley_mcneil_test,
    holm_by_baseline,
)

AVERAGE = "average"
TESTS = ("approximate_randomization", "delong", "hanley_mcneil")


@dataclasses.dataclass(frozen=True)
class Compared:
    """A scorer compared with a baseline.

    Attributes:
      difference: of the AUCs; above 0 = the scorer is better.
      interval: of the difference, by the paired bootstrap.
      p_value: two-sided; NaN where the test is undefined.
      corrected: the p-value after Holm's correction over all scorers of this baseline and column (a
        corpus, or the average).
    """

    difference: float
    interval: Interval
    p_value: float
    corrected: float

    @property
    def better(self) -> bool:
        """Whether the scorer is significantly better after the correction."""
        return self.difference > 0 and self.corrected <= SIGNIFICANT

    @property
    def better_uncorrected(self) -> bool:
        """Whether the scorer is significantly better by this test alone."""
        return self.difference > 0 and self.p_value <= SIGNIFICANT


@dataclasses.dataclass(frozen=True)
class AucCell:
    """A scorer's AUC on a corpus or on average, NaN where a class is missing, by baseline."""

    auc: float
    interval: Interval
    compared: Mapping[str, Compared] = dataclasses.field(default_factory=dict)

    def text(self, baseline: str = "") -> str:
        """Returns the AUC in per cent, marked where it is significantly above the baseline's."""
        if math.isnan(self.auc):
            return "one class"
        better = baseline in self.compared and self.compared[baseline].better
        low, high = (100 * end for end in self.interval)
        return figure_text(100 * self.auc, (low, high), 1, MARK if better else "")

    def figures(self, baseline: str = "") -> dict[str, Any]:
        """Returns the figures as JSON has them."""
        compared = self.compared.get(baseline)
        found = {"auc": self.auc, "low": self.interval.low, "high": self.interval.high}
        p_value = compared.corrected if compared else None
        better = compared is not None and compared.better
        return plain(found | {"p_value": p_value, "better": better})


@dataclasses.dataclass(frozen=True)
class AucTable:
    """The cells of all scorers and corpora.

    Attributes:
      rows: by corpus how many rows were used.
      left_out: by corpus how many had no label or an undefined score.
      cells: by scorer, then corpus.
      averaged: the corpora of the average, which have both classes.
      average: by scorer; empty with fewer than two such corpora.
      tested: by baseline the scorers that are compared with it.
      test: of `TESTS`, for each corpus; averages are compared by approximate randomization.
      resamples: of the bootstrap, and rounds of the randomization.
      confidence: of the intervals.
      seed: of both.
      cluster_field: what is resampled and exchanged together; "" = each row on its own.
    """

    rows: Mapping[str, int]
    left_out: Mapping[str, int]
    cells: Mapping[str, Mapping[str, AucCell]]
    averaged: tuple[str, ...] = ()
    average: Mapping[str, AucCell] = dataclasses.field(default_factory=dict)
    tested: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    test: str = TESTS[0]
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0
    cluster_field: str = ""

    @property
    def baseline(self) -> str:
        """The first baseline; "" = none."""
        return next(iter(self.tested), "")

    @property
    def columns(self) -> list[str]:
        """The corpora, and the average where there is one."""
        return [*self.rows, *([AVERAGE] if self.average else [])]

    def row(self, scorer: str) -> dict[str, AucCell]:
        """Returns a scorer's cells by column."""
        average = {AVERAGE: self.average[scorer]} if self.average else {}
        return {**self.cells[scorer], **average}


def auc_table(
    corpora: Mapping[str, Corpus],
    baselines: str | Mapping[str, Sequence[str]] = "",
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    test: str = TESTS[0],
    cluster_field: str = "",
    averaged: Collection[str] | None = None,
) -> AucTable:
    """Returns the table; `AucTable` describes the arguments that it keeps.

    `baselines` is the scorer that all others are compared with ("" = none), or has for each
    baseline the scorers that are compared with it; those without scores are left out. Corpora that
    are `averaged` (None = all) count in the average if they have both classes.

    Raises:
      ValueError: for corpora with different scorers, an unknown baseline or test.
      ConfigError: for Hanley and McNeil's test with clusters, which it cannot respect.
      InputError: where a row lacks the cluster field.
    """
    scorers = _shared_scorers(corpora)
    tested = _tested(scorers, baselines)
    if test not in TESTS:
        raise ValueError(f"There is no test {test!r}: choose of {', '.join(TESTS)}.")
    if cluster_field and test == "hanley_mcneil":
        raise ConfigError(
            "hanley_mcneil takes all rows as independent, and cannot respect the clusters of "
            f"{cluster_field!r}; approximate_randomization and delong can."
        )
    parts = {name: corpus.part(corpus.usable()) for name, corpus in corpora.items()}
    columns = {}
    # Without an average other tests need no exchanges.
    rounds = resamples if test == TESTS[0] or len(corpora) > 1 else 1
    for number, (name, part) in enumerate(parts.items()):
        clusters = part.field(cluster_field) if cluster_field else None
        own = (seed, number)  # else corpora of one size would be resampled alike
        columns[name] = _column(part, scorers, tested, test, (resamples, rounds), own, clusters)
    both = [
        name
        for name, column in columns.items()
        if (averaged is None or name in averaged) and not np.isnan(column.areas).any()
    ]
    mean = _mean([columns[name] for name in both]) if len(both) > 1 else None
    average = {} if mean is None else _cells(scorers, mean, confidence)
    by_corpus = {name: _cells(scorers, column, confidence) for name, column in columns.items()}
    return AucTable(
        rows={name: len(part.ids) for name, part in parts.items()},
        left_out={n: len(corpus.ids) - len(parts[n].ids) for n, corpus in corpora.items()},
        cells={s: {name: cells[s] for name, cells in by_corpus.items()} for s in scorers},
        averaged=tuple(both),
        average=average,
        tested=tested,
        test=test,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        cluster_field=cluster_field,
    )


def _shared_scorers(corpora: Mapping[str, Corpus]) -> list[str]:
    first = next(iter(corpora.values()))
    for corpus in corpora.values():
        if set(corpus.scores) != set(first.scores):
            raise ValueError(
                f"The corpus {corpus.name!r} has scores of {', '.join(corpus.scores)}, but "
                f"{first.name!r} of {', '.join(first.scores)}. If they are of the same responses, "
                f'give the rows the same corpus, as by "corpus": "{first.name}" in each (without '
                "it a row's is the file's name); otherwise score all corpora with the same scorers."
            )
    return list(first.scores)


def _tested(
    scorers: Sequence[str], baselines: str | Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Returns by baseline the scorers that are compared with it."""
    if isinstance(baselines, str):
        if baselines and baselines not in scorers:
            raise ValueError(f"The baseline {baselines!r} is none of {', '.join(scorers)}.")
        baselines = {baselines: scorers} if baselines else {}
    return {
        baseline: [scorer for scorer in compared if scorer in scorers and scorer != baseline]
        for baseline, compared in baselines.items()
        if baseline in scorers
    }


class _Column(NamedTuple):
    """A corpus, or the average: areas [scorers], and resampled [scorers, resamples], and tests."""

    areas: np.ndarray
    drawn: np.ndarray
    tests: Mapping[tuple[str, str], Comparison] = {}
    exchanged: Mapping[tuple[str, str], Exchanges] = {}


def _column(
    part: Corpus,
    scorers: Sequence[str],
    tested: Mapping[str, Sequence[str]],
    test: str,
    counts: tuple[int, int],
    seed: Sequence[int],
    clusters: Sequence[str] | None,
) -> _Column:
    """Returns what is known of a corpus; `counts` are of resamples and of rounds of exchanges."""
    resamples, rounds = counts
    if len(set(part.labels.tolist())) < 2:
        nothing = np.full((len(scorers), 1), math.nan)
        return _Column(nothing[:, 0], nothing)
    scores = np.stack([part.scores[scorer] for scorer in scorers])
    areas = np.array([roc_auc(row, part.labels) for row in scores])
    drawn = bootstrap_auc(scores, part.labels, resamples, seed, clusters)
    tests, exchanged = {}, {}
    for baseline, compared in tested.items():
        for scorer in compared:
            pair = part.scores[scorer], part.scores[baseline], part.labels
            found = exchanges(*pair, rounds, seed, clusters)
            exchanged[scorer, baseline] = found
            if test == "delong":
                tests[scorer, baseline] = delong_test(*pair, clusters)
            elif test == "hanley_mcneil":
                tests[scorer, baseline] = hanley_mcneil_test(*pair)
            else:
                tests[scorer, baseline] = approximate_randomization([found])
    return _Column(areas, drawn, tests, exchanged)


def _mean(columns: Sequence[_Column]) -> _Column:
    """Returns the average; its resampled areas are the means of the corpora's."""
    areas = np.stack([column.areas for column in columns], axis=1).mean(axis=1)
    drawn = np.mean([column.drawn for column in columns], axis=0)
    pairs = columns[0].exchanged
    tests = {
        pair: approximate_randomization([c.exchanged[pair] for c in columns]) for pair in pairs
    }
    return _Column(areas, drawn, tests)


def _cells(scorers: Sequence[str], column: _Column, confidence: float) -> dict[str, AucCell]:
    drawn = dict(zip(scorers, column.drawn, strict=True))
    corrected = holm_by_baseline({pair: test.p_value for pair, test in column.tests.items()})
    compared: dict[str, dict[str, Compared]] = {scorer: {} for scorer in scorers}
    for (scorer, baseline), test in column.tests.items():
        interval = percentile_interval(drawn[scorer] - drawn[baseline], confidence)
        p_values = test.p_value, corrected[scorer, baseline]
        compared[scorer][baseline] = Compared(test.difference, interval, *p_values)
    return {
        scorer: AucCell(
            float(area), percentile_interval(drawn[scorer], confidence), compared[scorer]
        )
        for scorer, area in zip(scorers, column.areas, strict=True)
    }


def auc_rows(table: AucTable) -> Table:
    """Returns AUCs in per cent, a row for each scorer; one baseline at most."""
    rows: list[tuple[Any, ...]] = []
    for scorer in table.cells:
        cells = table.row(scorer).items()
        texts = (
            cell.text(table.baseline) if table.rows.get(c, 1) else "no labels" for c, cell in cells
        )
        rows.append((scorer, *texts))
    counts = {"rows": table.rows}
    if any(table.left_out.values()):
        counts["rows left out"] = table.left_out
    for name, sizes in counts.items():
        rows.append((name, *(f"{sizes[c]:,}" if c in sizes else "" for c in table.columns)))
    title = f"ROC AUC in per cent, with {100 * table.confidence:g}% bootstrap intervals"
    return Table(title, ("scorer", *table.columns), tuple(rows), _notes(table), _tidy(table))


def _notes(table: AucTable) -> tuple[str, ...]:
    """Returns what the figures and marks mean."""
    notes = [f"Intervals: percentile bootstrap of {counted(table.resamples, 'resample')}."]
    if table.cluster_field:
        notes.append(f"Rows with the same {table.cluster_field} are taken as dependent in all.")
    if any(table.left_out.values()):
        notes.append("Left out: rows without a label, or without a defined score of every scorer.")
    count = len(table.tested.get(table.baseline, ()))
    if not count:
        return tuple(notes)
    rounds = f"approximate randomization of {counted(table.resamples, 'round')}"
    test = {"delong": "DeLong's test", "hanley_mcneil": "Hanley and McNeil's test"}.get(table.test)
    columns = "corpus, and of the average," if table.average else "corpus"
    notes.append(
        f"{MARK} significantly better than {table.baseline} on the same rows: two-sided p \u2264 "
        f"{SIGNIFICANT:g} by {test or rounds}, with Holm's correction for the "
        f"{counted(count, 'comparison')} of each {columns} on its own."
    )
    if table.average and test:
        notes.append(f"Averages are compared by {rounds}.")
    least = round(count / SIGNIFICANT) - 1  # else no corrected p-value is so small
    if table.resamples < least and (table.average or not test):
        notes.append(
            f"So few rounds allow no mark, whatever the scores; at least {least:,} are needed."
        )
    return tuple(notes)


_CELL_COLUMNS = ("auc", "low", "high", "p_value", "significantly_better")


def _tidy(table: AucTable) -> Table:
    """Returns a row for each scorer and corpus."""
    rows: list[tuple[Any, ...]] = []
    for scorer in table.cells:
        for corpus, cell in table.row(scorer).items():
            sizes = table.rows.get(corpus), table.left_out.get(corpus)
            *figures, better = cell.figures(table.baseline).values()
            compared = None if figures[-1] is None else int(better)
            rows.append((scorer, corpus, *sizes, *figures, compared))
    return Table("", ("scorer", "corpus", "rows", "left_out", *_CELL_COLUMNS), tuple(rows))


def auc_figures(table: AucTable) -> dict[str, Any]:
    """Returns all figures of a table with one baseline at most, as JSON has them."""
    settings = ("test", "resamples", "confidence", "seed", "cluster_field")
    baseline = table.baseline
    return {
        "baseline": baseline,
        **{name: getattr(table, name) for name in settings},
        "rows": dict(table.rows),
        "left_out": dict(table.left_out),
        "corpora": {
            scorer: {corpus: cell.figures(baseline) for corpus, cell in cells.items()}
            for scorer, cells in table.cells.items()
        },
        "average": {scorer: cell.figures(baseline) for scorer, cell in table.average.items()},
    }


def npov_rows(
    cells: Mapping[tuple[str, str], Mapping[str, AucCell]],
    confidence: float = 0.95,
    words: bool = False,
) -> Table:
    """Returns Chang 2024's table 1 or 3 in per cent, a row for each error and scorer.

    Cells are from `faith_jax.statistics.npov_detection.npov_cells`.
    """
    slices = list(dict.fromkeys(name for row in cells.values() for name in row))
    rows = tuple(
        (*key, *(row[name].text() if name in row else None for name in slices))
        for key, row in cells.items()
    )
    what, number = ("erroneous words", 3) if words else ("errors", 1)
    title = (
        f"Detection of {what}, ROC AUC in per cent with {100 * confidence:g}% bootstrap intervals "
        f"(Chang 2024, table {number})"
    )
    tidy = tuple(
        (*key, name, cell.auc, *cell.interval)
        for key, row in cells.items()
        for name, cell in row.items()
    )
    by_slice = Table("", ("error", "scorer", "slice", *_CELL_COLUMNS[:3]), tidy)
    return Table(title, ("error", "scorer", *slices), rows, tidy=by_slice)


def npov_figures(cells: Mapping[tuple[str, str], Mapping[str, AucCell]]) -> dict[str, Any]:
    """Returns the figures of `npov_rows` as JSON has them, by error, scorer and slice."""
    found: dict[str, Any] = {}
    for (error, scorer), row in cells.items():
        found.setdefault(error, {})[scorer] = {name: it.figures() for name, it in row.items()}
    return found
