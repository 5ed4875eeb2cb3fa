"""faith_jax: train, decode, score and measure faithful grounded generation in JAX.

`import faith_jax` is cheap: what needs JAX is imported when it is first used.

>>> import faith_jax
>>> callable(faith_jax.load_model)
True
"""

import importlib
from typing import TYPE_CHECKING, Any

from faith_jax.errors import FaithJaxError
from faith_jax.types import GroundedExample, Grounding
from faith_jax.version import __version__

if TYPE_CHECKING:
    from faith_jax.language_model import (
        CausalLanguageModel,
        EncoderModel,
        LanguageModel,
        load_model,
    )
    from faith_jax.scoring.registry import load_scorer, scorer_names

__all__ = [
    "CausalLanguageModel",
    "EncoderModel",
    "FaithJaxError",
    "GroundedExample",
    "Grounding",
    "LanguageModel",
    "__version__",
    "load_model",
    "load_scorer",
    "scorer_names",
]

_LAZY = {
    "CausalLanguageModel": "faith_jax.language_model",
    "EncoderModel": "faith_jax.language_model",
    "LanguageModel": "faith_jax.language_model",
    "load_model": "faith_jax.language_model",
    "load_scorer": "faith_jax.scoring.registry",
    "scorer_names": "faith_jax.scoring.registry",
}


def __getattr__(name: str) -> Any:
    """Imports the names in `_LAZY` on first use."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'faith_jax' has no attribute {name!r}")
