"""Users' own scorers: decorated functions in their files or in packages with entry points."""

import dataclasses
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

from faith_jax.core.errors import ConfigError, FaithJaxError, InputError, reason
from faith_jax.core.settings import check_value, to_python_scalar
from faith_jax.core.types import GroundedExample, Score, ScorerCard
from faith_jax.core.user_modules import import_user_module, module_digest
from faith_jax.scoring import registry
from faith_jax.scoring.words.text_scorer import ALL_SCRIPTS, TextScorer

Judge = Callable[..., float | Score | None]
_OPTION = "--scorer-module"


def scorer(
    name: str,
    description: str = "",
    low: float = 0.0,
    high: float = 1.0,
    source: str = "",
    needs_history: bool = False,
) -> Callable[[Judge], Judge]:
    """Decorates a function of an example, and of options by keyword, to register it as a scorer.

    The function returns a number from `low` to `high`, higher = more faithful, or None if the score
    is undefined. It is not called for empty responses.

    Args:
      name: the scorer's name; replaces your own scorer of this name, so that cells can run twice.
      description: a sentence on what the scorer measures.
      low: the smallest value, may be -inf.
      high: the largest value, may be inf.
      source: the origin of the method.
      needs_history: examples without a history cannot be scored.

    Raises:
      ConfigError: faith_jax has a scorer of this name.

    docs/extending.md has an example.
    """
    if callable(name) or not description:
        raise ConfigError("faith_jax.scorer: write @faith_jax.scorer(NAME, DESCRIPTION).")
    card = ScorerCard(name, description, low, high, source, needs_history=needs_history)

    def register(judge: Judge) -> Judge:
        signature = registry.typed_signature(judge)
        further = list(signature.parameters.values())[1:]

        def make(**options: Any) -> TextScorer:
            try:
                signature.bind(None, **options)
            except TypeError as error:
                raise ConfigError(f"{error}.") from None
            for option, value in options.items():
                kind = signature.parameters[option].annotation
                if kind in (bool, int, float, str):
                    check_value(option, value, kind)
            return TextScorer(
                card, functools.partial(_score_with_judge, judge, card, options), ALL_SCRIPTS
            )

        make.__signature__ = inspect.Signature(further)  # type: ignore[attr-defined]
        registry.register_user_scorer(name, make, card)
        return judge

    return register


def _score_with_judge(
    judge: Judge, card: ScorerCard, options: dict[str, Any], example: GroundedExample
) -> Score:
    """Scores an example by a user's function; raises InputError for invalid results."""
    where = f"scorer {card.name}: example {example.id!r}"
    try:
        value = judge(example, **options)
    except FaithJaxError:
        raise
    except Exception as error:  # whatever the user's code raises
        raise InputError(f"{where}: it failed ({reason(error)}).") from error
    if value is None:
        return Score(math.nan, undefined="the scorer returned None")
    score = value if isinstance(value, Score) else Score(math.nan)
    given = to_python_scalar(value.value if isinstance(value, Score) else value)
    if not isinstance(given, numbers.Real):
        raise InputError(f"{where}: expected a number or None, got {value!r}.")
    number = float(given)
    if math.isnan(number):
        undefined = score.undefined or "the scorer returned NaN"
        return dataclasses.replace(score, value=number, undefined=undefined)
    if not card.low <= number <= card.high:
        raise InputError(
            f"{where}: the score {number:g} is outside of its range, {card.low:g} to {card.high:g}."
        )
    return dataclasses.replace(score, value=number)


def load_scorer_modules(places: Iterable[str]) -> dict[str, str]:
    """Imports users' modules, which register their scorers; returns the digests of their code.

    Raises:
      ConfigError: a module cannot be imported, or the name of one of its scorers is taken.
    """
    return {place: module_digest(import_user_module(place, _OPTION)) for place in places}
