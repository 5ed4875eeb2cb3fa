"""Values of gin files, parsed without looking up or running anything that they name."""

import dataclasses
import re
import tokenize
from collections.abc import Iterator, Mapping
from typing import Any

from gin import config_parser

# Errors that `parse_statements` raises for a text that gin cannot read.
PARSE_ERRORS = (SyntaxError, ValueError, TypeError, tokenize.TokenError)


@dataclasses.dataclass(frozen=True, repr=False)
class Reference:
    """`@name` or `@name()`; its `repr` is gin's form."""

    name: str
    evaluate: bool = True

    def __repr__(self) -> str:
        return f"@{self.name}{'()' if self.evaluate else ''}"


@dataclasses.dataclass(frozen=True, repr=False)
class Macro:
    """`%NAME`; its `repr` is gin's form."""

    name: str

    def __repr__(self) -> str:
        return f"%{self.name}"


REQUIRED = Macro("gin.REQUIRED")  # the value of a macro that the user must set


class _Values(config_parser.ParserDelegate):
    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
        """Returns the reference as written."""
        return Reference(scoped_configurable_name, evaluate)

    def macro(self, name: str) -> Macro:
        """Returns the macro as written."""
        return Macro(name)


def parse_statements(text: str) -> Iterator[Any]:
    """Yields gin's statements of a text, with this module's classes for references and macros."""
    yield from config_parser.ConfigParser(text, _Values())


def gin_problem(text: str) -> str:
    """Returns gin's message about an unreadable text, on one line and without Python's names.

    >>> gin_problem("malformed node or string on line 1: <ast.Name object at 0x7f0a>")
    'expected a value: a number, a text in quotes, a list, @NAME or %NAME.'
    >>> gin_problem("'tasks' was not imported. In bindings string line 59 A = @tasks.b() ^")
    "'tasks' was not imported: A = @tasks.b()"
    """
    expected = "expected a value: a number, a text in quotes, a list, @NAME or %NAME."
    text = re.sub(r"malformed node or string.*? object at \w+>", expected, " ".join(text.split()))
    # Bindings of the command line, and files of T5X in translation, have no lines that users know.
    return re.sub(r"\.? In bindings string line \d+ (.*?)(?: \^)?$", r": \1", text)


def resolve(value: Any, macros: Mapping[str, Any]) -> Any:
    """Returns a value with macros replaced by their values; macros without a value stay."""
    passed = set[str]()
    while isinstance(value, Macro) and macros.get(value.name, REQUIRED) != REQUIRED:
        if value.name in passed:  # a circle, which gin reports
            return value
        passed.add(value.name)
        value = macros[value.name]
    rest = {name: each for name, each in macros.items() if name not in passed}
    if isinstance(value, dict):
        return {key: resolve(each, rest) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(resolve(each, rest) for each in value)
    return value
