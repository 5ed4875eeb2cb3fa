"""The commands `faith-jax` and `t5x`: parse, call a run, and print errors people can act on.

Heavy imports happen inside the functions, so that `--help` answers at once. Exit status: 0 done,
1 failure, 2 a user's mistake (one line, no traceback), 143 stopped by SIGTERM with all saved.
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence

from faith_jax.cli.annotate_commands import add_annotate_commands
from faith_jax.cli.checkpoint_commands import add_checkpoint_commands
from faith_jax.cli.data_commands import add_data_commands
from faith_jax.cli.evaluate_commands import add_evaluate_commands
from faith_jax.cli.explain_commands import add_explain_command
from faith_jax.cli.faithdial_commands import add_faithdial_commands
from faith_jax.cli.gin_commands import add_gin_commands
from faith_jax.cli.prompt_commands import add_prompt_commands
from faith_jax.cli.reproduce_commands import add_reproduce_command
from faith_jax.cli.score_commands import add_score_commands
from faith_jax.cli.shared import (
    CommandParser,
    first_line,
    keep_compiled_programs,
    option_names,
    parser_of,
)
from faith_jax.core.errors import ConfigError, FaithJaxError, ProcessError, did_you_mean


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `faith-jax`; returns its exit status."""
    parser = CommandParser(
        prog="faith-jax",
        description="Train, decode, score and measure faithful grounded generation in JAX.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = add_gin_commands(parser)
    add_checkpoint_commands(commands)
    add_prompt_commands(commands)
    add_data_commands(commands)
    add_faithdial_commands(commands)
    add_score_commands(commands)
    add_evaluate_commands(commands)
    add_reproduce_command(commands)
    add_explain_command(commands)
    add_annotate_commands(commands)
    return _dispatch(parser, arguments)


def t5x_main(arguments: Sequence[str] | None = None) -> int:
    """Runs `t5x`; returns its exit status."""
    parser = CommandParser(
        prog="t5x",
        description="faith_jax's runs, with the gin dialect and flags of T5X.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_gin_commands(parser)
    return _dispatch(parser, arguments)


class LogFormat(logging.Formatter):
    """The time and the message, with "warning: " in front of warnings."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        if record.levelno == logging.WARNING:
            record.message = f"warning: {record.message}"
        return super().formatMessage(record)


def _dispatch(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    bindings = [a.removeprefix("--gin.") for a in given if _is_binding(a)]
    try:
        options, unknown = parser.parse_known_args([a for a in given if not _is_binding(a)])
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    if unknown:
        called = parser_of(parser, options)
        print(f"{parser.prog}: {_unknown(called, unknown[0])}", file=sys.stderr)
        return 2
    options.bindings = bindings
    keep_compiled_programs()
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormat("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("faith_jax").setLevel(logging.INFO)
    # Orbax and SeqIO warn of what is in order here (absent optional files, generous lengths).
    logging.getLogger("absl").setLevel(logging.ERROR)
    return _guarded(lambda: options.run(options), parser.prog)


def _unknown(parser: argparse.ArgumentParser, argument: str) -> str:
    """Returns what is wrong with an argument that a command's parser does not know."""
    name = argument.lstrip("-").partition("=")[0].removeprefix("gin.")
    if argument.startswith("--gin.") or name.isupper():
        return f"{argument}: write --gin.{name}=VALUE."
    option = argument.partition("=")[0]
    hint = did_you_mean(option, option_names(parser)) if option.startswith("--") else ""
    return f"{parser.prog} has no argument {argument!r}.{hint} See {parser.prog} --help."


def _is_binding(argument: str) -> bool:
    return argument.startswith("--gin.") and "=" in argument


def _guarded(run: Callable[[], int], prog: str) -> int:
    """Turns a user's mistake into one line and status 2."""
    try:
        return run()
    except FaithJaxError as error:
        print(f"{prog}: {first_line(error)}", file=sys.stderr)
        return 2
    except ProcessError as error:
        print(f"{prog}: {first_line(error)}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
