"""Commands from dataclasses: the fields are the options, the docstring is the help.

A class is named like its command, unless it has a `name`: `ImportCheckpoint` is import-checkpoint.
The first line of its docstring appears in the list of commands, "Attributes:" describes each
option, and "Examples:" comes last in the help. A field's name (with dashes, unless the class has
`underscores`), type and default become the option's; without a default, the option is required:

    bool                  a flag
    tuple[str, ...]       may be given several times
    dict[str, T]          NAME=VALUE, may be given several times
    Literal["a", "b"]     choices
    X | None              None if not given
    str | bool            True if given without a value
    Annotated[T, read]    the result of `read(text)`, which may raise a ValueError with a message
    OutputPath            a path; "-" is standard output, which nothing else is then printed on
    Annotated[T, Meta]    a number in a range; see `faith_jax.core.settings`

Fields that are not `KW_ONLY` are positional arguments. The placeholder for a value in the help is
in parentheses, as in "output (FOLDER): all that is made"; so is an option's own name, such as
"(--gin.NAME=VALUE)". Options inherited from a class with a `group` are listed under this title. A
class with `opens_checkpoints` also has the option --no-verify.
"""

import argparse
import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from faith_jax.core.errors import ConfigError, did_you_mean, first_duplicate
from faith_jax.core.settings import OutputReader, from_text

_INVALID = re.compile(r"argument (.*): invalid choice: '(.*)' \(choose from (.*)\)")
_ATTRIBUTE = re.compile(r"(\w+)(?: \((.*?)\))?: (.*)", re.DOTALL)


def add_commands(
    commands: argparse._SubParsersAction, classes: Iterable[type], arguments: Sequence[str] = ()
) -> None:
    """Adds the commands of classes.

    A class with `parts` is a command with subcommands; `parts` may be a function of the arguments
    after it. Other classes have a method `run` that returns the exit status, or a text or lines to
    print. A command that can resume also has `kept`, which says what a stopped run has kept and how
    to resume it.
    """
    for cls in classes:
        body, _, examples = inspect.cleandoc(cls.__doc__ or "").partition("\n\nExamples:\n")
        description = body.partition("\n\nAttributes:\n")[0]
        parser = commands.add_parser(
            command_name(cls),
            help=description.partition("\n")[0],
            description=description,
            epilog=examples and f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if parts := getattr(cls, "parts", ()):
            nested = parts(arguments) if callable(parts) else parts
            metavar = "|".join(map(command_name, nested)) if len(nested) < 5 else "TABLE"
            add_commands(parser.add_subparsers(dest="part", metavar=metavar, required=True), nested)
            continue
        parser.set_defaults(make=functools.partial(_make_command, cls))
        fields = {field.name: field for field in dataclasses.fields(cls)}
        declared = {base: vars(base).get("__annotations__", ()) for base in reversed(cls.__mro__)}
        # A field that several classes declare belongs to the last one.
        owners = {name: base for base, names in declared.items() for name in names}
        help_texts = dict[str, tuple[str, str]]()  # by field; the last class wins
        for base in reversed(cls.__mro__):
            text = base.__doc__ or ""
            listed = inspect.cleandoc(text).partition("Attributes:\n")[2].partition("\n\n")[0]
            entries = re.split(r"^  (?=\S)", listed, flags=re.MULTILINE)[1:]
            matches = [_ATTRIBUTE.fullmatch(" ".join(entry.split())) for entry in entries]
            help_texts |= {match[1]: (match[2] or "", match[3]) for match in matches if match}
        for base, names in declared.items():
            title = vars(base).get("group")
            group = parser.add_argument_group(title) if title else parser
            between = "_" if hasattr(cls, "underscores") else "-"
            for name in (n for n in names if n in fields and owners[n] is base):
                _add_option(group, fields[name], *help_texts.get(name, ("", "")), between)
        if getattr(cls, "opens_checkpoints", False):
            parser.add_argument(
                "--no_verify" if hasattr(cls, "underscores") else "--no-verify",
                action="store_true",
                help="open checkpoints without comparing them with their manifest.json",
            )


def command_name(cls: type) -> str:
    """Returns the name of a class's command."""
    dashed = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()
    return str(getattr(cls, "name", dashed))


def _add_option(
    group: Any, field: dataclasses.Field, value: str, help_text: str, between: str
) -> None:
    """Adds a field's option to a group or parser.

    `value` is the placeholder for the value in the help. A meaningful default is added to
    `help_text`. `between` joins the words of the name ("-" or "_"); the other spelling works, too.
    """
    kinds, origin = typing.get_args(field.type), typing.get_origin(field.type)
    is_required = field.default is field.default_factory is dataclasses.MISSING
    is_list = origin in (tuple, dict)
    if not is_required and not is_list and field.default not in (None, "", ()):
        default: Any = field.default
        default_text = ",".join(map(str, default)) if isinstance(default, tuple) else default
        if default is not False and "(default: " not in help_text:
            help_text += f" (default: {default_text})"
    settings: dict[str, Any] = {"help": help_text, "default": argparse.SUPPRESS}
    if value:
        settings["metavar"] = value
    for kind in (field.type, *kinds):
        if typing.get_origin(kind) is typing.Literal:
            settings["choices"] = typing.get_args(kind)
    if field.type is bool:
        settings["action"] = "store_true"
    elif origin is typing.Annotated:
        settings["type"] = functools.partial(_parse_option_value, field.type)
    elif origin is dict:
        settings["type"] = functools.partial(_parse_named_value, value, kinds[1])
    elif "choices" not in settings:
        settings["type"] = functools.partial(_parse_option_value, kinds[0] if kinds else field.type)
    if not field.kw_only:
        if is_list:
            settings["nargs"] = "+" if is_required else "*"
        elif not is_required:
            settings["nargs"] = "?"
        settings["default"] = None  # not the field's default: argparse would parse a text
        group.add_argument(field.name, **settings)
        return
    if is_list:
        settings["action"] = "append"
    if bool in kinds:
        settings |= {"nargs": "?", "const": True}
    name = f"--{field.name.replace('_', between)}"
    if value.startswith("--"):
        name, settings["metavar"] = value, ""
    action = group.add_argument(name, dest=field.name, required=is_required, **settings)
    for spelling in (name.replace("-", "_").replace("__", "--", 1), name.replace("_", "-")):
        group._option_string_actions.setdefault(spelling, action)


def _parse_option_value(hint: Any, text: str) -> Any:
    """Returns the value of an option's text."""
    read = hint.__metadata__[0] if typing.get_origin(hint) is typing.Annotated else None
    try:
        return read(text) if callable(read) else text if hint is str else from_text(text, hint)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parse_named_value(form: str, hint: Any, text: str) -> tuple[str, Any]:
    """Returns the name and the value of NAME=VALUE."""
    name, _, value = (part.strip() for part in text.partition("="))
    if not (name and value):
        raise argparse.ArgumentTypeError(f"expected {form}, got {text!r}")
    return name, _parse_option_value(hint, value)


def _make_command(cls: type[Any], options: argparse.Namespace) -> Any:
    """Returns the command with its options, as they were given."""
    field_values = {}
    for field in dataclasses.fields(cls):
        if (value := getattr(options, field.name, None)) is None:
            continue
        if typing.get_origin(field.type) is dict:
            if twice := first_duplicate(name for name, _ in value):
                raise ConfigError(f"--{field.name}: {twice!r} is given twice.")
            value = dict(value)
        field_values[field.name] = tuple(value) if isinstance(value, list) else value
    return cls(**field_values)


def output_paths(command: Any) -> list[str]:
    """Returns the paths of the outputs that a command was given."""
    return [
        value
        for field in dataclasses.fields(command)
        if any(isinstance(part, OutputReader) for part in getattr(field.type, "__metadata__", ()))
        and (value := getattr(command, field.name))
    ]


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line, which suggests the nearest name for an unknown one."""

    def __init__(self, **settings: Any):
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raises the message as a ConfigError."""
        if match := _INVALID.fullmatch(message):
            argument, choice, listed = match.groups()
            choices = [quoted.strip("'") for quoted in listed.split(", ")]
            hint = did_you_mean(choice, choices)
            message = f"{argument}: there is no {choice!r}.{hint} There are: {', '.join(choices)}."
        raise ConfigError(f"{self.prog}: {message.rstrip('.')}; see {self.prog} --help.")

    def find_called_parser(self, options: argparse.Namespace) -> "CommandParser":
        """Returns the parser of the command or subcommand that was called."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                part: Any = action.choices.get(getattr(options, action.dest, ""))
                return part.find_called_parser(options) if part else self
        return self

    def option_names(self) -> list[str]:
        """Returns the names of a command's options, as --name."""
        return [action.option_strings[-1] for action in self._actions if action.option_strings]
