"""The entry point of the commands, which handles Ctrl-C and SIGTERM from the start.

Importing the rest takes 0.2 seconds, during which Python would answer with a traceback.
"""

import os
import signal
from typing import Any


def main() -> int:
    """Runs `faith-jax`; returns its exit status."""
    _answer_signals("faith-jax")
    from faith_jax import cli

    return cli.main()


def t5x_main() -> int:
    """Runs `t5x`; returns its exit status."""
    _answer_signals("t5x")
    from faith_jax import cli

    return cli.t5x_main()


def _answer_signals(program: str) -> None:
    """Makes a signal end the process with one line, until `cli` installs its own handlers."""

    def end(number: int, frame: Any) -> None:
        kind = "interrupted" if number == signal.SIGINT else "terminated"
        os.write(2, f"{program}: {kind}; nothing was begun.\n".encode())
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # ignored in a shell's background processes
            signal.signal(number, end)
