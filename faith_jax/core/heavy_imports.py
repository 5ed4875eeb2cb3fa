"""Imports of other libraries: late, without what nobody calls here, and without their messages.

`import nltk` imports all of NLTK, and with it SciPy, scikit-learn and pandas. The Porter stemmer
and the splitter of sentences need none of these: while they are imported, NLTK's packages stand
there without what their `__init__` imports.

TensorFlow only reads and writes data here.

JAX loads libtpu to look for TPUs. Without one it then runs as it would without libtpu, but libtpu
has written a page of errors. It is installed on such machines for `faith-jax plan`.
"""

import contextlib
import importlib
import importlib.util
import os
import pathlib
import sys
import threading
import types
from collections.abc import Iterator
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
            spec = importlib.util.find_spec("nltk")
            if spec is None or spec.origin is None:
                raise ModuleNotFoundError("No module named 'nltk'", name="nltk")
            for package in _PACKAGES:
                module = types.ModuleType(package)
                folder = pathlib.Path(spec.origin).parent.joinpath(*package.split(".")[1:])
                module.__dict__.update(__path__=[str(folder)], is_bare=True)
                sys.modules[package] = module
            return importlib.import_module(name)
        except ImportError:  # of a version of NLTK whose modules need their packages
            _forget_nltk()
            return importlib.import_module(name)
        finally:
            if getattr(sys.modules.get("nltk"), "is_bare", False):
                _forget_nltk()  # who imports NLTK later gets all of it


def _forget_nltk() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "nltk"]:
        del sys.modules[name]


# Keras, which TensorFlow imports, takes these where they are, for what nobody calls here: a fifth
# of the seconds that the import of all takes.
_UNCALLED = ("sklearn", "matplotlib", "pandas")


def quiet_tensorflow(with_seqio: bool = True) -> None:
    """Imports TensorFlow without its start-up messages, and leaves the accelerator to JAX.

    They are written by its C++ side whatever TF_CPP_MIN_LOG_LEVEL says, so the descriptor of
    stderr is turned away while it is imported. Keras's wrappers of scikit-learn and its galleries
    of pictures are left out. `with_seqio` imports SeqIO too, which takes seconds more.
    """
    if "tensorflow" in sys.modules and (not with_seqio or "seqio" in sys.modules):
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    sys.stderr.flush()
    saved_stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with _hide_packages(*_UNCALLED):
            import tensorflow as tf
        if with_seqio:
            import seqio  # noqa: F401

        tf.config.set_visible_devices([], "GPU")
    finally:
        os.dup2(saved_stderr, 2)
        os.close(saved_stderr)
        os.close(nowhere)


@contextlib.contextmanager
def _hide_packages(*names: str) -> Iterator[None]:
    """Keeps packages that are not imported yet from being imported in a `with` block."""
    hidden = [name for name in names if name not in sys.modules]
    nothing: Any = dict.fromkeys(hidden)  # typeshed has no None, which Python knows as absent
    sys.modules |= nothing
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


_GOOGLE = "0x1ae0"  # the vendor of TPUs on the PCI bus, by which JAX finds them too
_PCI = pathlib.Path("/sys/bus/pci/devices")
# That a host names no type of TPU, and no host of others, is what libtpu complains of.
_NAMES = {"TPU_ACCELERATOR_TYPE": "v4-8", "TPU_WORKER_HOSTNAMES": "localhost"}


def quiet_libtpu() -> None:
    """Gives libtpu the names that it asks for, unless there is a TPU or one is asked for."""
    if {"JAX_PLATFORMS", "JAX_FORCE_TPU_INIT"} & os.environ.keys():
        return
    if importlib.util.find_spec("libtpu") is None:
        return
    if any(path.read_text().strip() == _GOOGLE for path in _PCI.glob("*/vendor")):
        return
    for name, value in _NAMES.items():
        os.environ.setdefault(name, value)
