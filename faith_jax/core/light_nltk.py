"""Modules of NLTK without the whole of it, whose import takes two seconds.

`import nltk` imports all of NLTK, and with it SciPy, scikit-learn and pandas. The Porter stemmer
and the splitter of sentences need none of these: while they are imported, NLTK's packages stand
there without what their `__init__` imports.
"""

import importlib
import importlib.util
import pathlib
import sys
import threading
import types
from typing import Any

_PACKAGES = ("nltk", "nltk.stem", "nltk.tokenize")
_LOCK = threading.Lock()


def light_module(name: str) -> Any:
    """Returns a module of NLTK's, or one that imports such modules, imported without the rest.

    Args:
      name: dotted; what it uses of NLTK lies in the modules of `_PACKAGES`.
    """
    with _LOCK:
        if name in sys.modules or "nltk" in sys.modules:
            return importlib.import_module(name)
        try:
            sys.modules |= {package: _bare(package) for package in _PACKAGES}
            return importlib.import_module(name)
        except ImportError:  # of a version of NLTK whose modules need their packages
            _forget_nltk()
            return importlib.import_module(name)
        finally:
            if getattr(sys.modules["nltk"], "is_bare", False):
                _forget_nltk()  # who imports NLTK later gets all of it


def _bare(package: str) -> types.ModuleType:
    spec = importlib.util.find_spec("nltk")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'nltk'", name="nltk")
    module = types.ModuleType(package)
    folder = pathlib.Path(spec.origin).parent.joinpath(*package.split(".")[1:])
    module.__dict__.update(__path__=[str(folder)], is_bare=True)
    return module


def _forget_nltk() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "nltk"]:
        del sys.modules[name]
