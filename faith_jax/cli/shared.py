"""What the commands share: quiet imports, and errors in one line."""

import os
import sys


def first_line(error: BaseException) -> str:
    """Returns an error's message without what gin adds of its call stack."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def quiet_tensorflow() -> None:
    """Imports TensorFlow, which only reads data here, without its start-up messages.

    They are written by its C++ side whatever TF_CPP_MIN_LOG_LEVEL says, so the descriptor of
    stderr is turned away while it is imported.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import seqio  # noqa: F401
        import tensorflow as tf

        # The accelerator is JAX's.
        tf.config.set_visible_devices([], "GPU")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
