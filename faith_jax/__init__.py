"""faith_jax: train, decode, score and measure faithful grounded generation in JAX.

`import faith_jax` is cheap: modules that need JAX are imported on first use.

>>> import faith_jax
>>> callable(faith_jax.load_model)
True
>>> faith_jax.load_vocabulary().decode(faith_jax.load_vocabulary().encode("Tea is a leaf."))
'Tea is a leaf.'
"""

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

with contextlib.suppress(ImportError):
    # Imported before TensorFlow, because Python would otherwise use its SQLite, which lacks FTS5.
    import sqlite3  # noqa: F401

from faith_jax.core.errors import FaithJaxError
from faith_jax.core.heavy_imports import quiet_libtpu
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.version import __version__

if TYPE_CHECKING:
    from faith_jax.inference import CausalModel, EncoderDecoderModel, EncoderModel, load_model
    from faith_jax.inference.opening import clear_models
    from faith_jax.runs.judges.verdicts import judge
    from faith_jax.runs.scores.explain import explain
    from faith_jax.runs.scores.fact_checker import FactChecker
    from faith_jax.runs.scores.frames import compare, evaluate, write_report
    from faith_jax.runs.scores.score_frames import score
    from faith_jax.scoring.registry import load_scorer, scorer_names
    from faith_jax.scoring.user_scorers import scorer
    from faith_jax.tokenizers.vocabularies import load_vocabulary

quiet_libtpu()  # before JAX loads libtpu

__all__ = [
    "CausalModel",
    "EncoderDecoderModel",
    "EncoderModel",
    "FactChecker",
    "FaithJaxError",
    "GroundedExample",
    "Grounding",
    "__version__",
    "clear_models",
    "compare",
    "evaluate",
    "explain",
    "judge",
    "load_model",
    "load_scorer",
    "load_vocabulary",
    "score",
    "scorer",
    "scorer_names",
    "write_report",
]

_LAZY = {
    "CausalModel": "faith_jax.inference",
    "EncoderDecoderModel": "faith_jax.inference",
    "EncoderModel": "faith_jax.inference",
    "FactChecker": "faith_jax.runs.scores.fact_checker",
    "clear_models": "faith_jax.inference.opening",
    "compare": "faith_jax.runs.scores.frames",
    "evaluate": "faith_jax.runs.scores.frames",
    "explain": "faith_jax.runs.scores.explain",
    "judge": "faith_jax.runs.judges.verdicts",
    "load_model": "faith_jax.inference",
    "load_scorer": "faith_jax.scoring.registry",
    "load_vocabulary": "faith_jax.tokenizers.vocabularies",
    "score": "faith_jax.runs.scores.score_frames",
    "scorer": "faith_jax.scoring.user_scorers",
    "scorer_names": "faith_jax.scoring.registry",
    "write_report": "faith_jax.runs.scores.frames",
}
# Names in former versions.
_FORMER = {"CausalLanguageModel": "CausalModel", "LanguageModel": "EncoderDecoderModel"}


def __dir__() -> list[str]:
    """Returns the public names, including objects that are not imported yet."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Imports the names in `_LAZY` on first use."""
    name = _FORMER.get(name, name)
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'faith_jax' has no attribute {name!r}")
