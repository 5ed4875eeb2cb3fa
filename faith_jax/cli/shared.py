"""What the commands share: quiet imports, and errors in one line."""

import argparse
import hashlib
import os
import platform
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from faith_jax.core.errors import ConfigError, did_you_mean

_MOST_COMPILED = 4 * 1024**3  # bytes; the programs that were used last are kept
_INVALID = re.compile(r"argument (.*): invalid choice: '(.*)' \(choose from (.*)\)")


class CommandParser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, with the nearest name where one is unknown."""

    def error(self, message: str) -> NoReturn:
        """Raises the line as a ConfigError."""
        if found := _INVALID.fullmatch(message):
            what, given, choices = found.groups()
            known = [choice.strip("'") for choice in choices.split(", ")]
            hint = did_you_mean(given, known)
            message = f"{what}: there is no {given!r}.{hint} There are: {', '.join(known)}."
        raise ConfigError(f"{self.prog}: {message.rstrip('.')}; see {self.prog} --help.")


def parser_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Any:
    """Returns the parser of the command, and of its part, that was called."""
    for action in _subparsers(parser):
        name = getattr(options, action.dest, None)
        if name in action.choices:
            return parser_of(action.choices[name], options)
    return parser


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[Any]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield action


def option_names(parser: argparse.ArgumentParser) -> list[str]:
    """Returns the options that a command has, as --name."""
    return [name for name in parser._option_string_actions if name.startswith("--")]


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


def keep_compiled_programs() -> None:
    """Makes JAX keep compiled programs in a folder of the user's, for all commands.

    Programs for a CPU have the instructions of this one, so each kind of CPU has its own folder.
    Where JAX is imported already, or JAX_COMPILATION_CACHE_DIR is set, nothing changes; an empty
    value keeps nothing.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        cpu = platform.processor()
    kind = f"{platform.machine()}-{hashlib.sha256(cpu.encode()).hexdigest()[:8]}"
    for name, value in {
        "JAX_COMPILATION_CACHE_DIR": os.path.join(caches, "faith_jax", "compiled", kind),
        "JAX_COMPILATION_CACHE_MAX_SIZE": str(_MOST_COMPILED),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
    }.items():
        os.environ.setdefault(name, value)
