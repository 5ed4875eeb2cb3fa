"""Late imports of other libraries, without their unused dependencies and start-up messages.

`import nltk` imports all of NLTK, and with it SciPy, scikit-learn and pandas. The Porter stemmer
and the sentence splitter do not need these libraries, so the two are imported while NLTK's packages
are replaced by bare modules, without the imports of their `__init__`.

TensorFlow is only used to read and write data.

JAX loads libtpu to look for TPUs. Without a TPU, JAX works as if libtpu was not installed, but
libtpu prints a page of errors. `faith-jax plan` needs libtpu on machines without TPUs.
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
    """Imports a module of NLTK, or one that imports such modules, without the rest of NLTK.

    Args:
      name: the dotted name; the module may only use NLTK's modules in `_PACKAGES`.
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
        except ImportError:  # a version of NLTK whose modules need their packages
            _forget_nltk()
            return importlib.import_module(name)
        finally:
            if getattr(sys.modules.get("nltk"), "is_bare", False):
                _forget_nltk()  # later imports of NLTK get all of it


def _forget_nltk() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "nltk"]:
        del sys.modules[name]


# Keras, which TensorFlow imports, imports these packages if they are installed, for features that
# are not used here. They take a fifth of the total import time.
_UNCALLED = ("sklearn", "matplotlib", "pandas")


def quiet_tensorflow(with_seqio: bool = True) -> None:
    """Imports TensorFlow without its start-up messages, and leaves the accelerator to JAX.

    TensorFlow's C++ code writes messages regardless of TF_CPP_MIN_LOG_LEVEL, so the descriptor of
    stderr is redirected during the import. Keras's wrappers of scikit-learn and its image galleries
    are not loaded. `with_seqio` imports SeqIO too, which takes some seconds more.
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
    """Prevents imports of packages that are not imported yet, in a `with` block."""
    hidden = [name for name in names if name not in sys.modules]
    nothing: Any = dict.fromkeys(hidden)  # None = absent for Python, but not for typeshed
    sys.modules |= nothing
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


_GOOGLE = "0x1ae0"  # the PCI vendor id of TPUs, by which JAX finds them too
_PCI = pathlib.Path("/sys/bus/pci/devices")
# libtpu complains if the environment names no TPU type and no hosts.
_NAMES = {"TPU_ACCELERATOR_TYPE": "v4-8", "TPU_WORKER_HOSTNAMES": "localhost"}


def quiet_libtpu() -> None:
    """Sets the variables that libtpu asks for, unless there is a TPU or the user requests one."""
    if {"JAX_PLATFORMS", "JAX_FORCE_TPU_INIT"} & os.environ.keys():
        return
    if importlib.util.find_spec("libtpu") is None:
        return
    if any(path.read_text().strip() == _GOOGLE for path in _PCI.glob("*/vendor")):
        return
    for name, value in _NAMES.items():
        os.environ.setdefault(name, value)
