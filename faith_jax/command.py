"""The entry of the commands, which answers a Ctrl-C or SIGTERM from its first moment.

The rest takes 0.2 seconds to import, in which Python would answer with a traceback.
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
    """Makes a signal end the process with one line, until `cli` has handlers of its own."""

    def end(number: int, frame: Any) -> None:
        kind = "interrupted" if number == signal.SIGINT else "terminated"
        os.write(2, f"{program}: {kind}; nothing was begun.\n".encode())
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # as of a shell's background processes
            signal.signal(number, end)
