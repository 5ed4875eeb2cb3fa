"""What the commands share: quiet imports, and errors in one line."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any


def first_line(error: BaseException) -> str:
    """Returns an error's message without what gin adds of its call stack."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


class TerminatedError(KeyboardInterrupt):
    """The process was asked to end (SIGTERM); like a Ctrl-C, it unwinds what is going on."""


def resumable(run: Callable[[], int], kept: Callable[[], str]) -> int:
    """Runs what can be taken up again, and says how where it is stopped.

    Args:
      run: returns the exit status.
      kept: says what is kept of a run that was stopped, and how to go on.

    Returns:
      The exit status: 130 after Ctrl-C, 143 after SIGTERM.
    """

    def stop(number: int, frame: Any) -> None:
        raise TerminatedError

    # Only the main thread may say what happens to signals.
    listens = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if listens else None
    try:
        return run()
    except KeyboardInterrupt as stopped:
        terminated = isinstance(stopped, TerminatedError)
        what = "terminated" if terminated else "interrupted"
        print(f"faith-jax: {what}; {kept()}", file=sys.stderr)
        return 143 if terminated else 130
    finally:
        if listens:
            signal.signal(signal.SIGTERM, before)


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
