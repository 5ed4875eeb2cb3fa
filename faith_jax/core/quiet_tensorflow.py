"""TensorFlow, which only reads and writes data here, is imported late and without its messages."""

import os
import sys


def quiet_tensorflow(with_seqio: bool = True) -> None:
    """Imports TensorFlow without its start-up messages, and leaves the accelerator to JAX.

    They are written by its C++ side whatever TF_CPP_MIN_LOG_LEVEL says, so the descriptor of
    stderr is turned away while it is imported.

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
        if with_seqio:
            import seqio  # noqa: F401
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
