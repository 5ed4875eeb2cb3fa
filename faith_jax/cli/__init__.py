"""The commands `faith-jax` and `t5x`: parse, call a run, and print errors people can act on.

Heavy imports happen inside the functions, so that `--help` answers at once. Exit status: 0 done,
1 failure, 2 a user's mistake (one line, no traceback), 143 stopped by SIGTERM with all saved.
"""

import argparse
import contextlib
import logging
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from faith_jax.cli.checkpoint_commands import (
    ExportCheckpoint,
    ExportPrompt,
    ImportCheckpoint,
    ImportPrompt,
    PromptReport,
    WriteManifest,
)
from faith_jax.cli.data_commands import Describe, Prepare, Tasks
from faith_jax.cli.evaluate_commands import Accept, Annotate, Calibrate, Evaluate, Explain, Report
from faith_jax.cli.gin_commands import BINDING, Eval, Infer, Plan, Train
from faith_jax.cli.knowledge_commands import Check, Embed, Evidence, Index
from faith_jax.cli.parser import CommandParser, add_commands, command_name, output_paths
from faith_jax.cli.score_commands import Certify, ExportScorer, Score, Scorers
from faith_jax.cli.shared import (
    TerminatedError,
    first_line,
    keep_compiled_programs,
    raising_signals,
    show,
)
from faith_jax.cli.t5x_flags import translate_flags
from faith_jax.core.errors import (
    ConfigError,
    DivergenceError,
    FaithJaxError,
    MetricError,
    ProcessError,
    StorageError,
    did_you_mean,
    path_failure,
    storage_failure,
)
from faith_jax.core.files.whole import is_standard_output, only_outputs_on_standard_output
from faith_jax.core.table import printable
from faith_jax.core.user_modules import entry_point_names, load_named
from faith_jax.version import __version__

_GIN_RUNS = (Train, Eval, Infer)
_COMMANDS = (
    *(*_GIN_RUNS, Plan),
    *(ImportCheckpoint, ExportCheckpoint, WriteManifest),
    *(PromptReport, ExportPrompt, ImportPrompt),
    *(Tasks, Prepare, Describe),
    *(Index, Embed, Evidence, Check),
    *(Score, Scorers, Evaluate, Report, Explain, Annotate),
    *(Calibrate, Accept, Certify, ExportScorer),
)
_EXAMPLES = """examples:
  faith-jax quickstart runs/quickstart --steps=20
  faith-jax score --scorers=groundedness --input=answers.csv --output=scores.jsonl
  faith-jax evaluate old_system.jsonl new_system.jsonl
  faith-jax train --gin_file=quickstart.gin --gin.MODEL_DIR=runs/first

faith-jax COMMAND --help shows those of a command."""
_AGAIN = ", then run this again."
# Group of entry points for the commands of papers and of users' packages.
COMMAND_ENTRY_POINTS = "faith_jax.commands"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `faith-jax`; returns its exit status."""
    command_line = sys.argv[1:] if arguments is None else arguments
    parser = CommandParser(
        prog="faith-jax",
        description="Train, decode, score and measure faithful grounded generation in JAX.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Import only the command that runs; if none is named, list all.
    first = command_line[0] if command_line else ""
    commands: list[type] = [command for command in _COMMANDS if command_name(command) == first]
    names = [] if commands else entry_point_names(COMMAND_ENTRY_POINTS)
    if first in names:
        names = [first]
    elif not commands:
        commands = list(_COMMANDS)
    for name in names:
        try:
            commands.append(load_named(name, COMMAND_ENTRY_POINTS, type, "command"))
        except ConfigError as error:  # a broken package; list the other commands
            if name == first:
                show(f"{parser.prog}: {first_line(error)}", sys.stderr)
                return 2
            show(f"{parser.prog}: warning: {first_line(error)}", sys.stderr)
    return _run_command_line(parser, commands, command_line)


def t5x_main(arguments: Sequence[str] | None = None) -> int:
    """Runs `t5x`; returns its exit status."""
    parser = CommandParser(
        prog="t5x", description="faith_jax's runs, with the gin dialect and flags of T5X."
    )
    try:
        command_line, notices = translate_flags(sys.argv[1:] if arguments is None else arguments)
    except ConfigError as error:
        show(f"{parser.prog}: {first_line(error)}", sys.stderr)
        return 2
    for line in notices:
        show(f"{parser.prog}: {line}", sys.stderr)
    return _run_command_line(parser, _GIN_RUNS, command_line)


class LogFormat(logging.Formatter):
    """Formats records as time and message, with "warning: " in front of warnings."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        if record.levelno == logging.WARNING:
            record.message = f"warning: {record.message}"
        record.message = printable(record.message, "\n\t")
        return super().formatMessage(record)


def _hint_at_argument(argument: str, called: CommandParser) -> str:
    """Returns a sentence on the likely meaning of an argument that a command does not have."""
    option, _, value = argument.partition("=")
    names = called.option_names()
    if not option.startswith("--"):
        return f" A file is given as --input={argument}." if "--input" in names else ""
    name = option.removeprefix("--")
    if value and BINDING in names and name.isidentifier() and "gin" not in name:
        return f" A setting of the gin file is given as --gin.{name.upper()}={value}."
    return did_you_mean(name, (option_name.removeprefix("--") for option_name in names), "--")


def _run_command_line(
    parser: CommandParser, commands: Sequence[type], command_line: Sequence[str]
) -> int:
    parser.add_argument("--version", action="version", version=f"faith_jax {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    try:
        add_commands(subparsers, commands, command_line[1:])
    except ConfigError as error:
        show(f"{parser.prog}: {first_line(error)}", sys.stderr)
        return 2
    if not command_line:
        parser.print_help()
        return 0
    for argument in command_line:
        if argument != argument.encode("utf-8", "replace").decode():
            problem = f"{argument!r}: not UTF-8, as names of files must be; rename the file."
            show(f"{parser.prog}: {problem}", sys.stderr)
            return 2
    split = [
        [BINDING, a.removeprefix("--gin.")] if a.startswith("--gin.") and "=" in a else [a]
        for a in command_line
    ]
    try:
        options, unknown = parser.parse_known_args([part for parts in split for part in parts])
    except ConfigError as error:
        show(first_line(error), sys.stderr)
        return 2
    if unknown:
        called, argument = parser.find_called_parser(options), unknown[0]
        option = argument.partition("=")[0]
        name = option.lstrip("-").removeprefix("gin.")
        if argument != BINDING and (option.startswith("--gin.") or name.isupper()):
            problem = f"{argument}: write --gin.{name}=VALUE."
        else:
            problem = f"{called.prog} has no argument {argument!r}."
            problem += f"{_hint_at_argument(argument, called)} See {called.prog} --help."
        show(f"{parser.prog}: {problem}", sys.stderr)
        return 2
    keep_compiled_programs()
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormat("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("faith_jax").setLevel(logging.INFO)
    # Orbax and SeqIO warn of things that are fine here (absent optional files, generous lengths).
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        status = _run_reporting_errors(options, parser.prog)
    except BaseException:
        _end_processes(1)
        raise
    if status:
        _end_processes(status)
    return status


def _end_processes(status: int) -> None:
    if "jax" in sys.modules:
        from faith_jax.core.processes import end_together

        end_together(status)


def _run_reporting_errors(options: argparse.Namespace, prog: str) -> int:
    """Runs a command and shows its result; turns a user's mistake into one line."""
    command: Any = None
    try:
        with contextlib.ExitStack() as held:
            held.enter_context(raising_signals(prog))
            command = options.make(options)
            if any(map(is_standard_output, map(pathlib.Path, output_paths(command)))):
                held.enter_context(only_outputs_on_standard_output())
            if getattr(options, "no_verify", False):
                from faith_jax.checkpoints.manifest import without_verification

                held.enter_context(without_verification())
                logging.getLogger("faith_jax").warning(
                    "--no-verify: checkpoints are opened whatever their manifest.json says; what "
                    "is written from one gets a new manifest"
                )
            outcome = command.run()
            if isinstance(outcome, int):
                return outcome
            for text in [outcome] if isinstance(outcome, str) else outcome or ():
                show(text)
        return 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        problem, status = _describe_failure(error, command)
        if not problem:
            raise
    except KeyboardInterrupt as stopped:
        terminated = isinstance(stopped, TerminatedError)
        kept = _describe_kept(command) or "outputs that were not finished are not written."
        problem = f"{'terminated' if terminated else 'interrupted'}; {kept}"
        status = 143 if terminated else 130
    show(f"{prog}: {problem}", sys.stderr)
    return status


def _describe_kept(command: Any) -> str:
    """Returns a note on the kept work of a stopped command; "" if nothing is kept or known."""
    try:
        return str(getattr(command, "kept", ""))
    except (Exception, KeyboardInterrupt):  # the storage does not answer, or a second Ctrl-C
        return ""


def _describe_failure(error: Exception, command: Any) -> tuple[str, int]:
    """Returns the message on an error, "" if it is our bug, and the exit status."""
    full_disk = storage_failure(error)
    kept = _describe_kept(command) if full_disk else ""
    if full_disk and (kept or isinstance(error, StorageError)):
        return f"{full_disk}. Free some space{f'; {kept}' if kept else _AGAIN}", 1
    if isinstance(error, ProcessError):
        return first_line(error), error.status
    if isinstance(error, FaithJaxError | MetricError | DivergenceError):
        return first_line(error), 2 if isinstance(error, FaithJaxError) else 1
    if failure := path_failure(error):
        return f"{failure}.", 2
    from faith_jax.core.files.stores import store_failure

    if problem := store_failure(error):
        status = 2 if isinstance(error, OSError) else 1
        return f"{problem}; run this again when it is mended.", status
    return (f"{full_disk}. Free some space{_AGAIN}" if full_disk else ""), 1
