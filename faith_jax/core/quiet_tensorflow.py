"""TensorFlow, which only reads and writes data here, is imported late and without its messages."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

# Keras, which TensorFlow imports, takes these where they are, for what nobody calls here: a fifth
# of the seconds that the import of all takes.
_UNCALLED = ("sklearn", "matplotlib", "pandas")


def quiet_tensorflow(with_seqio: bool = True) -> None:
    """Imports TensorFlow without its start-up messages, and leaves the accelerator to JAX.

    They are written by its C++ side whatever TF_CPP_MIN_LOG_LEVEL says, so the descriptor of
    stderr is turned away while it is imported. Keras's wrappers of scikit-learn and its galleries
    of pictures are left out.

    Args:
      with_seqio: also import SeqIO, which takes seconds more.
    """
    if "tensorflow" in sys.modules and (not with_seqio or "seqio" in sys.modules):
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with _absent(*_UNCALLED):
            import tensorflow as tf
        if with_seqio:
            import seqio  # noqa: F401

        tf.config.set_visible_devices([], "GPU")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def _absent(*names: str) -> Iterator[None]:
    """Keeps packages that are not imported yet from being imported in a `with` block."""
    hidden = [name for name in names if name not in sys.modules]
    nothing: Any = dict.fromkeys(hidden)  # typeshed has no None, which Python knows as absent
    sys.modules |= nothing
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
