"""Figures of several decodings of the same rows, with intervals and paired tests.

A figure is a function of sums over rows: a mean, or the BLEU of a corpus. So that it can be had for
any choice of rows at once, `Measure` keeps each row's summands.

>>> better, worse = mean_measure([0.9, 0.8, 0.7]), mean_measure([0.1, 0.2, 0.3])
>>> cells = compared({"plain": {"f1": worse}, "pmi": {"f1": better}}, "plain")
>>> f"{cells['plain']['f1'].value:.2f}", f"{cells['pmi']['f1'].value:.2f}"
('0.20', '0.80')
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.evaluation.auc_table import SIGNIFICANT
from faith_jax.evaluation.bootstrap import (
    RESAMPLES,
    Interval,
    percentile_interval,
    resampled_counts,
)
from faith_jax.evaluation.significance import holm

Floats = NDArray[np.float64]
_ROUNDS_AT_ONCE = 100


class Measure(NamedTuple):
    """A figure of rows.

    Attributes:
      summands: float64 [rows, sums].
      value: of their totals, [n, sums] to [n]; NaN where it is undefined.
      defined: how many rows count.
    """

    summands: Floats
    value: Callable[[Floats], Floats]
    defined: int


class Cell(NamedTuple):
    """A decoding's figure.

    Attributes:
      value: of all rows.
      interval: percentile bootstrap over rows.
      p_value: two-sided, of the difference from the baseline; NaN for the baseline itself.
      significant: whether it differs after Holm's correction over the decodings.
      rows: how many count.
    """

    value: float
    interval: Interval
    p_value: float
    significant: bool
    rows: int


def mean_measure(values: ArrayLike, low: float = 0.0, high: float = 1.0) -> Measure:
    """Returns the mean of the values that are not NaN, where `low` is 0 and `high` is 1.

    Args:
      values: [rows].
      low: the value that becomes 0.
      high: the value that becomes 1; nothing is clipped.
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
    """Returns sacrebleu's BLEU-4 of the corpus, 0 to 100 (`text_metrics.corpus_bleu`).

    Args:
      responses: the texts to judge.
      references: as many, one for each.
      lowercase: compare both in lower case.
    """
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
    decodings: Mapping[str, Mapping[str, Measure]],
    baseline: str,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, dict[str, Cell]]:
    """Returns each decoding's figures, by the measure's name.

    Differences are tested by approximate randomisation (Noreen 1989): the two decodings' rows are
    exchanged at random, one by one.

    Args:
      decodings: the measures of each; all of the same rows, in the same order.
      baseline: the decoding that others are tested against; one that is not there = no tests.
      resamples: of the bootstrap, and rounds of the test.
      confidence: of the intervals.
      seed: of both.
    """
    rows = len(next(iter(next(iter(decodings.values())).values())).summands)
    counts = resampled_counts(rows, resamples, seed).T.astype(np.float64)
    p_values: dict[str, dict[str, float]] = {name: {} for name in decodings}
    for measure in next(iter(decodings.values())):
        found = [
            math.nan
            if baseline not in decodings or name == baseline
            else randomization(measures[measure], decodings[baseline][measure], resamples, seed)
            for name, measures in decodings.items()
        ]
        for name, p_value in zip(decodings, found, strict=True):
            p_values[name][measure] = p_value
    corrected = {
        measure: dict(zip(decodings, holm([p_values[name][measure] for name in decodings])))  # noqa: B905
        for measure in next(iter(decodings.values()))
    }
    return {
        name: {
            measure: Cell(
                float(it.value(it.summands.sum(axis=0, keepdims=True))[0]),
                percentile_interval(it.value(counts @ it.summands), confidence),
                p_values[name][measure],
                bool(corrected[measure][name] <= SIGNIFICANT),
                it.defined,
            )
            for measure, it in measures.items()
        }
        for name, measures in decodings.items()
    }


def randomization(first: Measure, second: Measure, rounds: int = RESAMPLES, seed: int = 0) -> float:
    """Returns the two-sided p-value of the difference of two figures of the same rows.

    It is at least 1 / (rounds + 1); NaN where a figure is undefined.
    """
    own, other = (m.summands.sum(axis=0, keepdims=True) for m in (first, second))
    difference = float(first.value(own)[0] - second.value(other)[0])
    if math.isnan(difference):
        return math.nan
    apart = second.summands - first.summands
    generator = np.random.default_rng(seed)
    extreme = 0
    for start in range(0, rounds, _ROUNDS_AT_ONCE):
        count = min(_ROUNDS_AT_ONCE, rounds - start)
        swapped = (generator.random((count, len(apart))) < 0.5).astype(np.float64) @ apart
        exchanged = first.value(own + swapped) - second.value(other - swapped)
        extreme += int(np.count_nonzero(np.abs(exchanged) >= abs(difference) - 1e-12))
    return (extreme + 1) / (rounds + 1)
