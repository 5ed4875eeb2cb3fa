"""Ensembles of scorers: the mean of their scores, each mapped from its range to 0 to 1."""

import math
from collections.abc import Iterable, Mapping

from faith_jax.core.errors import ConfigError
from faith_jax.runs.options import (
    split_names,
)
from faith_jax.scoring.registry import scorer_card, scorer_names
from faith_jax.statistics.scored_corpora import (
    Range,
)


def read_ensembles(texts: Iterable[str]) -> dict[str, dict[str, Range | None]]:
    """Returns by name each ensemble's scorers with their ranges, None = not given."""
    ranges_by_ensemble: dict[str, dict[str, Range | None]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        members = [member.split(":") for member in split_names(listed)]
        try:
            ranges = {s: Range(*map(float, ends)) if ends else None for s, *ends in members}
        except (ValueError, TypeError):
            ranges = {}
        if not name or len(ranges) < 2 or name in ranges_by_ensemble:
            raise ConfigError(
                "--ensemble: expected NAME=SCORER,SCORER, each name once and each scorer as SCORER "
                f"or SCORER:LOW:HIGH, got {text!r}. -SCORER counts low scores as high ones."
            )
        ranges_by_ensemble[name] = ranges
    return ranges_by_ensemble


def score_range(ranges: Mapping[str, Range | None], scorer: str) -> Range:
    """Returns the range that is given, or the one that the scorer's card declares."""
    if (given_range := ranges[scorer]) is not None:
        return given_range
    scorer, low, high = scorer.removeprefix("-"), math.nan, math.nan
    if scorer in scorer_names():
        low, high = scorer_card(scorer).low, scorer_card(scorer).high
    if not math.isfinite(high - low):
        raise ConfigError(
            f"--ensemble: {scorer} has no known finite range; say it: {scorer}:LOW:HIGH, such as "
            f"{scorer}:0:1."
        )
    return Range(low, high)


def ensemble_note(ensembles: Mapping[str, Mapping[str, Range | None]]) -> str:
    """Returns a note that names the scorers of each ensemble."""
    parts = []
    for name, members in ensembles.items():
        ranges = {member: score_range(members, member) for member in members}
        listed = ", ".join(f"{m} ({low:g} to {high:g})" for m, (low, high) in ranges.items())
        parts.append(f"{name} = {listed}")
    return f"Ensembles: the mean of scores mapped from their range to 0 to 1: {'; '.join(parts)}."
