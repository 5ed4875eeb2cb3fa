"""How prompt-tuned runs of other seeds and initialisers compare."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from faith_jax.evaluation.prompt_health import Floats, RunHealth, cosines


class Spread(NamedTuple):
    """The final validation losses of runs.

    Attributes:
      runs: how many have one.
      mean: NaN for none.
      low: the smallest.
      high: the largest.
      deviation: the sample's standard deviation, NaN for fewer than two.
    """

    runs: int
    mean: float
    low: float
    high: float
    deviation: float


class Pair(NamedTuple):
    """Two runs' prompts of one name.

    Attributes:
      first: name of a run.
      second: name of another.
      prompt: "encoder_prompt" or "decoder_prompt".
      matches: for each vector of the shorter prompt the vector of the other that it is matched
        with, so that the cosines' sum is largest.
      cosines: of the matched vectors, NaN for zeros.
      start_cosines: the same matching's mean between the starts; NaN where one is not known.
    """

    first: str
    second: str
    prompt: str
    matches: tuple[int, ...]
    cosines: tuple[float, ...]
    start_cosine: float

    @property
    def mean(self) -> float:
        """The mean cosine of the matched vectors."""
        return float(np.mean(self.cosines))


def spread(values: Sequence[float]) -> Spread:
    """Returns the spread of numbers; NaN among them are left out.

    >>> spread([1.0, 3.0])
    Spread(runs=2, mean=2.0, low=1.0, high=3.0, deviation=1.4142135623730951)
    """
    found = np.array([value for value in values if not np.isnan(value)], np.float64)
    if not found.size:
        return Spread(0, np.nan, np.nan, np.nan, np.nan)
    deviation = float(found.std(ddof=1)) if found.size > 1 else np.nan
    return Spread(
        found.size, float(found.mean()), float(found.min()), float(found.max()), deviation
    )


def by_initializer(runs: Sequence[RunHealth]) -> dict[str, Spread]:
    """Returns the spread of the final validation losses of each initialiser's runs."""
    names = dict.fromkeys(run.initializer for run in runs)
    return {n: spread([run.final_loss for run in runs if run.initializer == n]) for n in names}


def matching(first: Floats, second: Floats) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Matches the vectors of two prompts, whose order may differ, one to one.

    Args:
      first: [n, embed].
      second: [m, embed]; if it is the shorter one, its vectors are the ones that are matched.

    Returns:
      For each vector of the shorter prompt the other's index, and their cosine.
    """
    table = cosines(first, second)
    if table.shape[0] > table.shape[1]:
        table = table.T
    rows, columns = linear_sum_assignment(np.nan_to_num(table, nan=-2.0), maximize=True)
    return tuple(columns.tolist()), tuple(table[rows, columns].tolist())


def pairs(runs: Sequence[RunHealth]) -> list[Pair]:
    """Compares each two runs of one base model that have a prompt of the same name and width."""
    found = []
    for i, first in enumerate(runs):
        for second in runs[i + 1 :]:
            if first.base != second.base or not first.base:
                continue
            for name in first.prompts:
                if name in second.prompts:
                    found.append(_pair(first, second, name))
    return found


def _pair(first: RunHealth, second: RunHealth, name: str) -> Pair:
    one, other = first.prompts[name], second.prompts[name]
    matches, values = matching(one.vectors, other.vectors)
    start = np.nan
    if one.start is not None and other.start is not None:
        start = float(np.mean(matching(one.start, other.start)[1]))
    return Pair(first.name, second.name, name, matches, values, start)
