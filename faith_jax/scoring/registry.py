"""Finding scorers by name.

>>> load_scorer("rouge1_precision").card.description
"Share of the response's words that the grounding has (ROUGE-1; ASCII letters and digits)."
"""

import functools
import importlib
import inspect
import typing
from collections.abc import Callable
from typing import Any

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.types import ScorerCard
from faith_jax.scoring import lexical, model_cards
from faith_jax.scoring.base import BaseScorer
from faith_jax.statistics.text_metrics import ROUGE_TYPES

_FACTORIES: dict[str, Callable[[], Callable[..., BaseScorer]]] = {}
_CARDS: dict[str, ScorerCard] = {}


def register_scorer(
    name: str, make: Callable[..., BaseScorer], card: ScorerCard | None = None
) -> None:
    """Makes a scorer known under a name.

    Args:
      name: new among the names.
      make: returns the scorer; its keyword arguments are the scorer's options, also those of
        `**options: Unpack[SomeTypedDict]`.
      card: what the scorer declares; default: that of the scorer without options.

    Raises:
      ValueError: for a name that is taken.
    """
    _register(name, lambda: make, card)


def _register(
    name: str, find: Callable[[], Callable[..., BaseScorer]], card: ScorerCard | None
) -> None:
    if name in _FACTORIES:
        raise ValueError(f"There is a scorer {name!r} already.")
    _FACTORIES[name] = find
    if card is not None:
        _CARDS[name] = card


def scorer_names() -> list[str]:
    """Returns the names of all scorers, in alphabetical order."""
    return sorted(_FACTORIES)


def scorer_card(name: str) -> ScorerCard:
    """Returns what a scorer declares, without loading the model that it may need.

    Raises:
      ConfigError: for an unknown scorer.
    """
    _check_name(name)
    return _CARDS[name] if name in _CARDS else load_scorer(name).card


def scorer_options(name: str) -> list[str]:
    """Returns the names of a scorer's options.

    Raises:
      ConfigError: for an unknown scorer.
    """
    _check_name(name)
    options: list[str] = []
    for parameter in inspect.signature(_FACTORIES[name]()).parameters.values():
        shared = parameter.kind is parameter.VAR_KEYWORD and typing.get_args(parameter.annotation)
        options += shared[0].__annotations__ if shared else [parameter.name]
    return options


def _check_name(name: str) -> None:
    if name not in _FACTORIES:
        hint = did_you_mean(name, _FACTORIES) or f" There are: {', '.join(scorer_names())}."
        raise ConfigError(f"There is no scorer {name!r}.{hint}")


def load_scorer(name: str, **options: Any) -> BaseScorer:
    """Returns a scorer.

    Args:
      name: one of `scorer_names()`.
      **options: the scorer's own.

    Raises:
      ConfigError: for an unknown scorer or option, and for an option's wrong value.
    """
    _check_name(name)
    make, known = _FACTORIES[name](), scorer_options(name)
    for option in options:
        if option not in known:
            shown = f"Its options: {', '.join(known)}." if known else "It has no options."
            raise ConfigError(
                f"{name} has no option {option!r}.{did_you_mean(option, known)} {shown}"
            )
    try:
        return make(**options)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _register_lexical() -> None:
    for part in ("precision", "recall", "f1"):
        register_scorer(f"token_{part}", functools.partial(lexical.token_scorer, part))
        for kind in ROUGE_TYPES:
            register_scorer(f"{kind}_{part}", functools.partial(lexical.rouge_scorer, kind, part))
    for make in (
        lexical.bleu_scorer,
        lexical.q2_baseline_bleu_scorer,
        lexical.stemmed_rouge_l_scorer,
        lexical.coverage_scorer,
        lexical.density_scorer,
        lexical.npov_hallucination_detector,
        lexical.npov_coverage_detector,
        lexical.LexicalOverlapScorer,
        lexical.FirstPersonCountScorer,
    ):
        register_scorer(make().card.name, make)
    # It needs spaCy, so that its card is known without making one.
    card = lexical.Q2_BASELINE_TOKEN_F1
    register_scorer(card.name, lexical.q2_baseline_token_f1_scorer, card)


def _register_models() -> None:
    """Names the scorers of models; what they need is imported when one is loaded."""
    families = {
        "pmi_faith.pmi_faith_scorer": model_cards.PMI_FAITH,
        "nli.nli_scorer": model_cards.NLI,
        "nli.faith_critic_scorer": model_cards.FAITH_CRITIC,
        "salience.scorers.salience_scorer": model_cards.SALIENCE,
        "npov_labels.npov_label_scorer": model_cards.NPOV_LABELS,
        "q2.q2_scorer": model_cards.Q2,
    }
    single = {
        "summac.summac_zs_scorer": model_cards.SUMMAC_ZS,
        "bertscore.bertscore_scorer": model_cards.BERTSCORE,
    }
    for place, cards in families.items():
        for name, card in cards.items():
            _register(name, functools.partial(_imported, place, name), card)
    for place, card in single.items():
        _register(card.name, functools.partial(_imported, place), card)


def _imported(place: str, *first: str) -> Callable[..., BaseScorer]:
    module, _, function = place.rpartition(".")
    make = getattr(importlib.import_module(f"faith_jax.scoring.{module}"), function)
    return functools.partial(make, *first)


_register_lexical()
_register_models()
