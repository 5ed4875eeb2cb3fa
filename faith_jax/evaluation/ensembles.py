"""Ensembles of scorers: the mean of their scores, each mapped to 0 to 1 by its range first.

TRUE's ensemble is of three scorers from 0 to 1 (Honovich 2022); others, such as e-c from -1 to 1,
would else count by the width of their scale.

>>> ensemble_scores({"e_minus_c": [-1.0, 0.5]}, {"e_minus_c": Range(-1.0, 1.0)}).tolist()
[0.0, 0.75]
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faith_jax.errors import ConfigError, InputError, did_you_mean
from faith_jax.evaluation.scored_corpora import Corpus

# Sums of float32 probabilities end a little beside their range.
_TOLERANCE = 1e-5


class Range(NamedTuple):
    """The ends of a scorer's scale."""

    low: float
    high: float


def unit_scaled(values: ArrayLike, scale: Range) -> NDArray[np.float64]:
    """Returns scores mapped linearly, the scale's low end to 0 and its high end to 1.

    Args:
      values: of any shape; NaN = undefined, which stays.
      scale: what the scorer declares.

    Raises:
      ConfigError: for a scale without two finite ends in order.
      InputError: for a score outside of it.
    """
    low, high = scale
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"expected a finite range in order, got {low:g} to {high:g}.")
    scaled = (np.asarray(values, np.float64) - low) / (high - low)
    outside = (scaled < -_TOLERANCE) | (scaled > 1 + _TOLERANCE)
    if outside.any():
        value = float(np.asarray(values, np.float64)[outside].flat[0])
        raise InputError(f"the score {value:g} is outside of its range, {low:g} to {high:g}.")
    return np.clip(scaled, 0.0, 1.0)


def ensemble_scores(
    scores: Mapping[str, ArrayLike], ranges: Mapping[str, Range]
) -> NDArray[np.float64]:
    """Returns the mean of scorers' scores after `unit_scaled`, from 0 to 1.

    Args:
      scores: for each member [rows].
      ranges: at least the members'.

    Returns:
      [rows]; NaN where one of the members is.

    Raises:
      ConfigError: without members, and for a range that is missing or not finite.
      InputError: for a score outside of its range.
    """
    if not scores:
        raise ConfigError("an ensemble needs at least one scorer.")
    scaled = []
    for name, values in scores.items():
        if name not in ranges:
            raise ConfigError(f"{name}: its range is not known.")
        try:
            scaled.append(unit_scaled(values, ranges[name]))
        except (ConfigError, InputError) as error:
            raise type(error)(f"{name}: {error}") from None
    return np.mean(scaled, axis=0)


def with_ensembles(
    corpora: Mapping[str, Corpus],
    ensembles: Mapping[str, Sequence[str]],
    ranges: Mapping[str, Range],
) -> dict[str, Corpus]:
    """Returns the corpora with ensembles as further scorers.

    Args:
      corpora: the scored rows.
      ensembles: the members of each by its name.
      ranges: of all members.

    Raises:
      ConfigError: see `ensemble_scores`.
      InputError: see `check_members` and `ensemble_scores`.
    """
    check_members(corpora, ensembles)
    found = {}
    for corpus_name, corpus in corpora.items():
        scores = dict(corpus.scores)
        for name, members in ensembles.items():
            try:
                scores[name] = ensemble_scores({m: corpus.scores[m] for m in members}, ranges)
            except (ConfigError, InputError) as error:
                raise type(error)(f"{corpus_name}: ensemble {name}: {error}") from None
        found[corpus_name] = dataclasses.replace(corpus, scores=scores)
    return found


def check_members(corpora: Mapping[str, Corpus], ensembles: Mapping[str, Sequence[str]]) -> None:
    """Checks that corpora have scores of all members.

    Raises:
      InputError: for a member that a corpus has no scores of, and an ensemble with the name of a
        scorer.
    """
    for corpus_name, corpus in corpora.items():
        for name, members in ensembles.items():
            where = f"{corpus_name}: ensemble {name}"
            if name in corpus.scores:
                raise InputError(f"{where}: is a scorer's name; give the ensemble another.")
            for member in members:
                if member not in corpus.scores:
                    hint = did_you_mean(member, corpus.scores)
                    known = ", ".join(corpus.scores)
                    raise InputError(
                        f"{where}: there are no scores of {member!r}, only of {known}.{hint}"
                    )
