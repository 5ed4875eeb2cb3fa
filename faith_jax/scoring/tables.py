"""Scores of texts by several scorers, as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.types import Grounding
from faith_jax.scoring.base import BaseScorer
from faith_jax.scoring.registry import load_scorer, scorer_options

Texts = str | Sequence[str] | Mapping[str, Sequence[str]] | Grounding


def score(
    groundings: Sequence[Texts],
    responses: Sequence[str],
    scorers: Sequence[str] | Mapping[str, Mapping[str, Any]],
    histories: Sequence[Sequence[str]] | None = None,
    labels: Sequence[int | None] | None = None,
    **options: Any,
) -> Any:
    """Returns the scores of responses, higher = more faithful, a row for each response.

    Args:
      groundings: of each response: a text, several, or a text or several by perspective, such as
        {"pro": […], "con": […]}.
      responses: as many.
      scorers: names of scorers; or options by name, of which "NAME=SCORER" is called NAME.
      histories: of each response the turns before it, oldest first.
      labels: of each response, 1 = faithful, 0 = unfaithful, None = unknown.
      **options: of the scorers, such as model="checkpoints/nli": each has those that it knows.

    Returns:
      A pandas DataFrame where pandas is installed, otherwise a list of dicts. Columns are
      `grounding`, `response`, `history` and `label` where given, and one for each scorer, NaN where
      the score is undefined, as of an empty response.

    Raises:
      ConfigError: for an unknown scorer, an option that none of them has, or a wrong value.
      ValueError: for lengths that differ, and texts that are none.

    Examples:
      >>> rows = score(["Tea is hot."], ["The tea is hot!"], scorers=["token_f1"])
      >>> print(rows["token_f1"][0])
      1.0
    """
    loaded = _loaded(scorers, options)
    if labels is not None and len(labels) != len(responses):
        raise ValueError(f"{len(responses)} responses, {len(labels)} labels.")
    columns: dict[str, Sequence[Any]] = {"grounding": groundings, "response": responses}
    columns |= {} if histories is None else {"history": histories}
    columns |= {} if labels is None else {"label": labels}
    for name, scorer in loaded.items():
        found = scorer.score(groundings, responses, histories)
        columns[name] = [one.value for one in found]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows, columns=list(columns))


def _loaded(
    scorers: Sequence[str] | Mapping[str, Mapping[str, Any]], options: Mapping[str, Any]
) -> dict[str, BaseScorer]:
    if isinstance(scorers, str) or not scorers:
        raise ConfigError(f"scorers: expected a list of names, got {scorers!r}.")
    told = scorers if isinstance(scorers, Mapping) else {name: {} for name in scorers}
    known = {name: scorer_options(name.rpartition("=")[2]) for name in told}
    for option in options:
        if not any(option in names for names in known.values()):
            every = [name for names in known.values() for name in names]
            raise ConfigError(f"no scorer has an option {option!r}.{did_you_mean(option, every)}")
    loaded: dict[str, BaseScorer] = {}
    for name, own in told.items():
        shared = {option: value for option, value in options.items() if option in known[name]}
        loaded[name.partition("=")[0]] = load_scorer(name.rpartition("=")[2], **{**shared, **own})
    return loaded
