"""ROC AUC of several scorers on several corpora, as Steen 2023 prints it (table 1).

Each cell has a percentile bootstrap interval, the average one over the corpora's resamples, and a
mark where a scorer is significantly better than the baseline on the same rows. All scorers of a
corpus are compared on the rows that every one of them has a score for.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from faith_jax.evaluation.bootstrap import Interval, bootstrap_auc, percentile_interval
from faith_jax.evaluation.roc import roc_auc
from faith_jax.evaluation.scored_corpora import Corpus
from faith_jax.evaluation.significance import (
    Comparison,
    approximate_randomization,
    delong_test,
    hanley_mcneil_test,
    holm,
)

TESTS = {
    "approximate_randomization": approximate_randomization,
    "delong": delong_test,
    "hanley_mcneil": hanley_mcneil_test,
}
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
      average: by scorer, over the corpora with both classes.
      baseline: the scorer that others are compared with, or "".
    """

    scorers: tuple[str, ...]
    rows: Mapping[str, int]
    left_out: Mapping[str, int]
    cells: Mapping[str, Mapping[str, AucCell]]
    average: Mapping[str, AucCell]
    baseline: str = ""


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
      test: of `TESTS`; the p-values of a corpus are corrected by Holm's method.
      cluster_field: rows with the same value of this field are resampled together; "" = each row
        on its own.

    Raises:
      ValueError: for corpora with different scorers, an unknown baseline or test.
      InputError: where a row lacks the cluster field.
    """
    scorers = _shared_scorers(corpora)
    if baseline and baseline not in scorers:
        raise ValueError(f"The baseline {baseline!r} is none of {', '.join(scorers)}.")
    if test not in TESTS:
        raise ValueError(f"There is no test {test!r}: choose of {', '.join(TESTS)}.")
    cells: dict[str, dict[str, AucCell]] = {scorer: {} for scorer in scorers}
    drawn: list[np.ndarray] = []
    rows, left_out = {}, {}
    for number, (name, corpus) in enumerate(corpora.items()):
        own = (seed, number)  # else corpora of one size would be resampled alike
        part = corpus.part(corpus.usable())
        rows[name], left_out[name] = len(part.ids), len(corpus.ids) - len(part.ids)
        clusters = part.field(cluster_field) if cluster_field else None
        found, areas = _corpus_cells(part, scorers, resamples, confidence, own, clusters)
        compared = _compared(part, scorers, baseline, test, resamples, own)
        for scorer in scorers:
            comparison, p_value = compared.get(scorer, (None, math.nan))
            better = comparison is not None and comparison.difference > 0 and p_value <= SIGNIFICANT
            cells[scorer][name] = dataclasses.replace(found[scorer], p_value=p_value, better=better)
        if not math.isnan(found[scorers[0]].auc):
            drawn.append(areas)
    average = _averages(cells, scorers, drawn, confidence)
    return AucTable(tuple(scorers), rows, left_out, cells, average, baseline)


def _shared_scorers(corpora: Mapping[str, Corpus]) -> list[str]:
    first = next(iter(corpora.values()))
    for corpus in corpora.values():
        if set(corpus.scores) != set(first.scores):
            raise ValueError(
                f"{corpus.name} has scores of {', '.join(corpus.scores)}, but {first.name} of "
                f"{', '.join(first.scores)}; score all corpora with the same scorers."
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


def _compared(
    part: Corpus,
    scorers: Sequence[str],
    baseline: str,
    test: str,
    rounds: int,
    seed: Sequence[int],
) -> dict[str, tuple[Comparison, float]]:
    """Returns each other scorer's comparison with the baseline, and its corrected p-value."""
    if not baseline or len(set(part.labels.tolist())) < 2:
        return {}
    others = [scorer for scorer in scorers if scorer != baseline]
    options = {"rounds": rounds, "seed": seed} if test == "approximate_randomization" else {}
    found = [
        TESTS[test](part.scores[scorer], part.scores[baseline], part.labels, **options)
        for scorer in others
    ]
    corrected = holm([comparison.p_value for comparison in found])
    return {s: (c, float(p)) for s, c, p in zip(others, found, corrected, strict=True)}


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
        if not areas:
            found[scorer] = AucCell(math.nan, Interval(math.nan, math.nan))
            continue
        means = np.mean([values[place] for values in drawn], axis=0)
        found[scorer] = AucCell(float(np.mean(areas)), percentile_interval(means, confidence))
    return found
