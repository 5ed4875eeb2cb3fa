"""faith_jax: train, decode, score and measure faithful grounded generation in JAX.

`import faith_jax` is cheap: what needs JAX is imported when it is first used.

>>> import faith_jax
>>> callable(faith_jax.load_model)
True
"""

import importlib
from typing import TYPE_CHECKING, Any

from faith_jax.core.errors import FaithJaxError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.version import __version__

if TYPE_CHECKING:
    from faith_jax.inference import CausalModel, EncoderDecoderModel, EncoderModel, load_model
    from faith_jax.scoring.registry import load_scorer, scorer_names

__all__ = [
    "CausalModel",
    "EncoderDecoderModel",
    "EncoderModel",
    "FaithJaxError",
    "GroundedExample",
    "Grounding",
    "__version__",
    "load_model",
    "load_scorer",
    "scorer_names",
]

_LAZY = {
    "CausalModel": "faith_jax.inference",
    "EncoderDecoderModel": "faith_jax.inference",
    "EncoderModel": "faith_jax.inference",
    "load_model": "faith_jax.inference",
    "load_scorer": "faith_jax.scoring.registry",
    "scorer_names": "faith_jax.scoring.registry",
}
# Names of former versions.
_FORMER = {"CausalLanguageModel": "CausalModel", "LanguageModel": "EncoderDecoderModel"}


def __getattr__(name: str) -> Any:
    """Imports the names in `_LAZY` on first use."""
    name = _FORMER.get(name, name)
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'faith_jax' has no attribute {name!r}")
