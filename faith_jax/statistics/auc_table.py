"""ROC AUCs of scorers on several corpora, compared with baselines (Steen 2023, tables 1 and 2).

All scorers of a corpus are compared on the rows that every one of them has a score for, and in the
same resamples. The average over corpora is resampled too.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError
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
    """A scorer on a corpus, or on average.

    Attributes:
      auc: in [0, 1]; NaN where a class is missing.
      interval: of the AUC.
      compared: by baseline.
    """

    auc: float
    interval: Interval
    compared: Mapping[str, Compared] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class AucTable:
    """The cells of all scorers and corpora.

    Attributes:
      rows: for each corpus how many rows were used.
      left_out: for each corpus how many had no label or an undefined score.
      cells: by scorer, then corpus.
      averaged: the corpora of the average, which have both classes.
      average: by scorer; empty with fewer than two such corpora.
      tested: by baseline the scorers that are compared with it.
      test: of `TESTS`, in the columns of corpora; the average's is approximate randomisation.
      resamples: of the bootstrap, and rounds of the randomisation.
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
    """Returns the table.

    Args:
      corpora: with scores of the same scorers.
      baselines: the scorer that all others are compared with, "" = none; or for each baseline the
        scorers that are compared with it, of which those without scores are left out.
      resamples: of the bootstrap, and rounds of the randomisation test.
      confidence: of the intervals.
      seed: of the resamples and rounds.
      test: of `TESTS`, for each corpus; averages are compared by approximate randomisation, with
        exchanges within each corpus.
      cluster_field: rows with the same value of this field are resampled and exchanged together;
        "" = each row on its own.
      averaged: corpora that count in the average, where both classes are there; None = all.

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
    average: dict[str, AucCell] = {}
    if len(both) > 1:
        average = _cells(scorers, _mean([columns[name] for name in both]), confidence)
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
    """What is known of a corpus, or of the average.

    Attributes:
      areas: [scorers].
      drawn: resampled areas, [scorers, resamples].
      tests: by (scorer, baseline).
      exchanged: by (scorer, baseline); empty for the average.
    """

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
