"""ROC AUC of several scorers on several corpora, as Steen 2023 prints it (table 1).

Each cell has a percentile bootstrap interval, the average one over the corpora's resamples, and a
mark where a scorer is significantly better than the baseline on the same rows. All scorers of a
corpus are compared on the rows that every one of them has a score for.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from faith_jax.errors import ConfigError
from faith_jax.evaluation.bootstrap import Interval, bootstrap_auc, percentile_interval
from faith_jax.evaluation.roc import roc_auc
from faith_jax.evaluation.scored_corpora import Corpus
from faith_jax.evaluation.significance import (
    Comparison,
    Exchanges,
    average_randomization,
    delong_test,
    exchanges,
    hanley_mcneil_test,
    holm,
)

TESTS = ("approximate_randomization", "delong", "hanley_mcneil")
SIGNIFICANT = 0.05


@dataclasses.dataclass(frozen=True)
class AucCell:
    """A scorer on a corpus.

    Attributes:
      auc: in [0, 1]; NaN where a class is missing.
      interval: of the AUC.
      p_value: of the comparison with the baseline, corrected; NaN where there is none.
      better: whether the scorer is significantly better than the baseline.
    """

    auc: float
    interval: Interval
    p_value: float = math.nan
    better: bool = False


@dataclasses.dataclass(frozen=True)
class AucTable:
    """The cells of all scorers and corpora.

    Attributes:
      scorers: the rows, in order.
      rows: for each corpus how many rows were used.
      left_out: for each corpus how many had no label or an undefined score.
      cells: by scorer, then corpus.
      average: by scorer, over the corpora with both classes; empty where fewer than two have.
      baseline: the scorer that others are compared with, or "".
      test: of `TESTS`, in the columns of corpora; the average's is approximate randomisation.
      resamples: of the bootstrap, and rounds of the randomisation.
      confidence: of the intervals.
      seed: of both.
      cluster_field: what is resampled and exchanged together; "" = each row on its own.
    """

    scorers: tuple[str, ...]
    rows: Mapping[str, int]
    left_out: Mapping[str, int]
    cells: Mapping[str, Mapping[str, AucCell]]
    average: Mapping[str, AucCell]
    baseline: str = ""
    test: str = TESTS[0]
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0
    cluster_field: str = ""

    def comparisons(self) -> int:
        """Returns how many comparisons each column has: the family that is corrected for."""
        return len(self.scorers) - 1 if self.baseline else 0

    def least_resamples(self) -> int:
        """Returns how many rounds randomisation needs for any corrected p-value to be 0.05."""
        return round(self.comparisons() / SIGNIFICANT) - 1


def auc_table(
    corpora: Mapping[str, Corpus],
    baseline: str = "",
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    test: str = "approximate_randomization",
    cluster_field: str = "",
) -> AucTable:
    """Returns the table.

    Args:
      corpora: with scores of the same scorers.
      baseline: the scorer that the others are compared with; "" = none.
      resamples: of the bootstrap, and rounds of the randomisation test.
      confidence: of the intervals.
      seed: of the resamples and rounds.
      test: of `TESTS`, for each corpus; averages are compared by approximate randomisation, with
        exchanges within each corpus. Holm's method corrects the p-values of a column (a corpus, or
        the average) for the number of scorers that are compared in it.
      cluster_field: rows with the same value of this field are resampled and exchanged together;
        "" = each row on its own.

    Raises:
      ValueError: for corpora with different scorers, an unknown baseline or test.
      ConfigError: for Hanley and McNeil's test with clusters, which it cannot respect.
      InputError: where a row lacks the cluster field.
    """
    scorers = _shared_scorers(corpora)
    _check(scorers, baseline, test, cluster_field)
    cells: dict[str, dict[str, AucCell]] = {scorer: {} for scorer in scorers}
    drawn: list[np.ndarray] = []
    exchanged: dict[str, list[Exchanges]] = {s: [] for s in scorers if baseline and s != baseline}
    # Without an average other tests need no exchanges.
    rounds = resamples if test == TESTS[0] or len(corpora) > 1 else 1
    rows, left_out = {}, {}
    for number, (name, corpus) in enumerate(corpora.items()):
        own = (seed, number)  # else corpora of one size would be resampled alike
        part = corpus.part(corpus.usable())
        rows[name], left_out[name] = len(part.ids), len(corpus.ids) - len(part.ids)
        clusters = part.field(cluster_field) if cluster_field else None
        found, areas = _corpus_cells(part, scorers, resamples, confidence, own, clusters)
        if not math.isnan(found[scorers[0]].auc):
            drawn.append(areas)
            compared = {}
            for scorer, parts in exchanged.items():
                pair = part.scores[scorer], part.scores[baseline], part.labels
                parts.append(exchanges(*pair, rounds, own, clusters))
                compared[scorer] = _comparison(test, pair, parts[-1], clusters)
            found = _marked(found, compared)
        for scorer in scorers:
            cells[scorer][name] = found[scorer]
    average: dict[str, AucCell] = {}
    if len(drawn) > 1:
        average = _averages(cells, scorers, drawn, confidence)
        average = _marked(average, {s: average_randomization(e) for s, e in exchanged.items()})
    options = (baseline, test, resamples, confidence, seed, cluster_field)
    return AucTable(tuple(scorers), rows, left_out, cells, average, *options)


def _check(scorers: Sequence[str], baseline: str, test: str, cluster_field: str) -> None:
    if baseline and baseline not in scorers:
        raise ValueError(f"The baseline {baseline!r} is none of {', '.join(scorers)}.")
    if test not in TESTS:
        raise ValueError(f"There is no test {test!r}: choose of {', '.join(TESTS)}.")
    if cluster_field and test == "hanley_mcneil":
        raise ConfigError(
            "hanley_mcneil takes all rows as independent, and cannot respect the clusters of "
            f"{cluster_field!r}; approximate_randomization and delong can."
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


def _corpus_cells(
    part: Corpus,
    scorers: Sequence[str],
    resamples: int,
    confidence: float,
    seed: Sequence[int],
    clusters: Sequence[str] | None,
) -> tuple[dict[str, AucCell], np.ndarray]:
    """Returns the cells without comparisons, and the resampled areas [scorers, resamples]."""
    if len(set(part.labels.tolist())) < 2:
        nothing = AucCell(math.nan, Interval(math.nan, math.nan))
        return dict.fromkeys(scorers, nothing), np.zeros((len(scorers), 0))
    scores = np.stack([part.scores[scorer] for scorer in scorers])
    areas = bootstrap_auc(scores, part.labels, resamples, seed, clusters)
    cells = {
        scorer: AucCell(roc_auc(row, part.labels), percentile_interval(values, confidence))
        for scorer, row, values in zip(scorers, scores, areas, strict=True)
    }
    return cells, areas


def _comparison(
    test: str,
    pair: tuple[np.ndarray, np.ndarray, np.ndarray],
    exchanged: Exchanges,
    clusters: Sequence[str] | None,
) -> Comparison:
    """Returns the comparison of a scorer with the baseline: of (scores, baseline's, labels)."""
    if test == "delong":
        return delong_test(*pair, clusters)
    return hanley_mcneil_test(*pair) if test != TESTS[0] else average_randomization([exchanged])


def _marked(cells: Mapping[str, AucCell], compared: Mapping[str, Comparison]) -> dict[str, AucCell]:
    """Returns the cells of a column with corrected p-values, and marks on those that are better."""
    corrected = holm([comparison.p_value for comparison in compared.values()])
    found = dict(cells)
    for (scorer, comparison), p_value in zip(compared.items(), corrected.tolist(), strict=True):
        better = comparison.difference > 0 and p_value <= SIGNIFICANT
        found[scorer] = dataclasses.replace(cells[scorer], p_value=p_value, better=better)
    return found


def _averages(
    cells: Mapping[str, Mapping[str, AucCell]],
    scorers: Sequence[str],
    drawn: Sequence[np.ndarray],
    confidence: float,
) -> dict[str, AucCell]:
    """Returns the mean AUC over corpora; its interval is that of the mean of their resamples."""
    found = {}
    for place, scorer in enumerate(scorers):
        areas = [cell.auc for cell in cells[scorer].values() if not math.isnan(cell.auc)]
        means = np.mean([values[place] for values in drawn], axis=0)
        found[scorer] = AucCell(float(np.mean(areas)), percentile_interval(means, confidence))
    return found
