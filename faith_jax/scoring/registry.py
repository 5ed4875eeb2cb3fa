"""Finds scorers by name.

>>> load_scorer("rouge1_precision").card.description
"Share of the response's words that the grounding has (ROUGE-1; ASCII letters and digits)."
"""

import builtins
import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.types import ScorerCard
from faith_jax.core.user_modules import load_entry_points
from faith_jax.scoring.base import BaseScorer
from faith_jax.scoring.judges.card import ENDING, preset_names, read_card
from faith_jax.scoring.model_cards import MODEL_SCORERS
from faith_jax.scoring.words import lexical

# Functions, by scorer name, that return a scorer's factory; those of MODEL_SCORERS import it first.
_FACTORIES: dict[str, Callable[[], Callable[..., BaseScorer]]] = {}
_CARDS: dict[str, ScorerCard] = {}
_OF_USERS: set[str] = set()  # names of scorers in the user's files or other packages


def register_scorer(
    name: str, make: Callable[..., BaseScorer], card: ScorerCard | None = None
) -> None:
    """Registers a scorer under a name.

    The keyword arguments of `make`, which returns the scorer, are its options, including those in
    `**options: Unpack[SomeTypedDict]`. `card` defaults to the card of the scorer without options.

    Raises:
      ValueError: the name is taken.
    """
    _add_factory(name, lambda: make, card)


def _add_factory(
    name: str, find: Callable[[], Callable[..., BaseScorer]], card: ScorerCard | None
) -> None:
    if name in _FACTORIES:
        raise ValueError(f"There is a scorer {name!r} already.")
    _FACTORIES[name] = find
    if card is not None:
        _CARDS[name] = card


def register_user_scorer(name: str, make: Callable[..., BaseScorer], card: ScorerCard) -> None:
    """Registers a scorer as `register_scorer` does, replacing a user's scorer of the same name.

    Raises:
      ConfigError: the package has a scorer of this name.
    """
    if name in _FACTORIES and name not in _OF_USERS:
        raise ConfigError(f"There is a scorer {name!r} already; give yours another name.")
    _OF_USERS.add(name)
    _FACTORIES[name], _CARDS[name] = lambda: make, card


@functools.cache
def _load_entry_points() -> None:
    """Imports the modules that packages name in their entry points "faith_jax.scorers"."""
    load_entry_points("faith_jax.scorers")


def scorer_names() -> list[str]:
    """Returns the names of all scorers, in alphabetical order."""
    _load_entry_points()
    return sorted(_FACTORIES)


def scorer_card(name: str) -> ScorerCard:
    """Returns a scorer's card, without loading its model; raises as `load_scorer` does."""
    _check_name(name)
    if is_judge(name):
        return read_card(name).scorer_card(name)
    return _CARDS[name] if name in _CARDS else load_scorer(name).card


def is_judge(name: str) -> bool:
    """Returns whether a name is that of a judge's card in the package, or of a file with a card."""
    return name.endswith(ENDING) or (name in preset_names() and name not in _OF_USERS)


def scorer_options(name: str) -> list[str]:
    """Returns the names of a scorer's options; raises as `load_scorer` does."""
    return list(_option_types(name))


def takes_words(name: str, option: str) -> type | None:
    """Returns `str` or `list` if an option takes words as they are typed, as one text or a list.

    Returns None for an option that may be a number.
    """
    hint = _option_type(name, option)
    if hint == Sequence[str]:
        return list
    kinds = set(typing.get_args(hint) or (hint,))
    return str if str in kinds and kinds <= {str, Sequence[str], type(None)} else None


def takes_none(name: str, option: str) -> bool:
    """Returns whether "None" given for a scorer's option means None and not that text."""
    return _option_type(name, option) is not str


def _option_type(name: str, option: str) -> Any:
    """Returns the type of a scorer's option.

    If there is no such scorer (tables use model names), any scorer with this option is used.
    """
    scorers = [name] if name in _FACTORIES or is_judge(name) else scorer_names()
    types = (_option_types(scorer).get(option) for scorer in scorers)
    return next((hint for hint in types if hint is not None), None)


def _option_types(name: str) -> dict[str, Any]:
    """Returns the types of a scorer's options, by name; raises as `load_scorer` does."""
    _check_name(name)
    types: dict[str, Any] = {}
    for parameter in typed_signature(_find_factory(name)).parameters.values():
        shared = parameter.kind is parameter.VAR_KEYWORD and typing.get_args(parameter.annotation)
        if shared:
            hints = typing.get_type_hints(shared[0])
            types |= {option: hints[option] for option in shared[0].__annotations__}
        else:
            types[parameter.name] = parameter.annotation
    return types


def default_model(name: str) -> str:
    """Returns the checkpoint that a scorer opens if its option `model` is not given; "" = none."""
    parameter = typed_signature(_find_factory(name)).parameters.get("model")
    default = parameter and parameter.default
    return default if isinstance(default, str) else ""


def typed_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Returns a signature whose annotations are types, even if they are strings in the code.

    `from __future__ import annotations` turns all annotations into strings.
    """
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:  # a name that only type checkers import, or a string that is not a type
        signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=getattr(builtins, parameter.annotation, parameter.annotation))
        if isinstance(parameter.annotation, str)
        else parameter
        for parameter in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters)


def _find_factory(name: str) -> Callable[..., BaseScorer]:
    if name.endswith(ENDING):
        return _import_factory("judges.scorer.JudgeScorer", name)
    return _FACTORIES[name]()


def _check_name(name: str) -> None:
    if name.endswith(ENDING):
        return  # `read_card` reports a missing file
    if name not in _FACTORIES:
        _load_entry_points()
    if name not in _FACTORIES:
        hint = did_you_mean(name, _FACTORIES) or f" There are: {', '.join(scorer_names())}."
        raise ConfigError(
            f"There is no scorer {name!r}.{hint} One of your own needs --scorer-module=FILE (in "
            f"Python, import its module), and a judge of your own is the FILE{ENDING} of its card."
        )


def check_scorer(name: str, options: Iterable[str]) -> None:
    """Checks the names of a scorer and of its options; raises as `load_scorer` does."""
    option_names = scorer_options(name)
    for option in options:
        if option not in option_names:
            note = (
                f"Its options: {', '.join(option_names)}." if option_names else "It has no options."
            )
            raise ConfigError(
                f"{name} has no option {option!r}.{did_you_mean(option, option_names)} {note}"
            )


def load_scorer(name: str, **options: Any) -> BaseScorer:
    """Returns a scorer, one of `scorer_names()` or a card's file, with its own options.

    Raises:
      ConfigError: the scorer or an option is unknown, or an option's value is wrong.
    """
    check_scorer(name, options)
    try:
        return _find_factory(name)(**options)
    except ConfigError as error:
        # Errors about a card's file already begin with its name.
        told = str(error).removeprefix(f"{name}: ")
        raise ConfigError(f"{name}: {told}") from None


def _import_factory(place: str, *first: str) -> Callable[..., BaseScorer]:
    module, _, function = place.rpartition(".")
    make = getattr(importlib.import_module(f"faith_jax.scoring.{module}"), function)
    return functools.partial(make, *first)


for _name, _make in lexical.FACTORIES.items():
    register_scorer(_name, _make)
# Making this scorer needs spaCy, so its card is listed here.
_CARDS[lexical.Q2_BASELINE_TOKEN_F1.name] = lexical.Q2_BASELINE_TOKEN_F1
for _place, _cards in MODEL_SCORERS.items():
    for _card in _cards:
        _first = (_card.name,) if len(_cards) > 1 else ()
        _add_factory(_card.name, functools.partial(_import_factory, _place, *_first), _card)
for _name in preset_names():
    _add_factory(
        _name, functools.partial(_import_factory, "judges.scorer.JudgeScorer", _name), None
    )
