"""Settings: dataclasses whose fields are checked against type hints; flags for blocks of code.

>>> @dataclasses.dataclass(frozen=True)
... class Search(Settings):
...     width: Positive = 1
...     order: Literal["best", "first"] = "best"
>>> Search(width=0)
Traceback (most recent call last):
  ...
faith_jax.core.errors.ConfigError: Search.width: expected a positive whole number, got 0.
"""

import contextlib
import contextvars
import dataclasses
import enum
import functools
import pathlib
import re
import sys
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from faith_jax.core.errors import ConfigError, pluralize

_MAX = sys.float_info.max
Positive = Annotated[int, msgspec.Meta(ge=1, description="a positive whole number")]
NotNegative = Annotated[int, msgspec.Meta(ge=0, description="0 or a positive whole number")]
Path = Annotated[str, msgspec.Meta(min_length=1, description="a path")]
TokenId = Annotated[int, msgspec.Meta(ge=0, description="a token id")]
TokenIds = Annotated[tuple[TokenId, ...], msgspec.Meta(min_length=1, description="several")]
Number = Annotated[float, msgspec.Meta(ge=-_MAX, le=_MAX, description="a number")]
PositiveNumber = Annotated[float, msgspec.Meta(gt=0, le=_MAX, description="a positive number")]
NotNegativeNumber = Annotated[
    float, msgspec.Meta(ge=0, le=_MAX, description="0 or a positive number")
]
BatchSize = Annotated[
    int, msgspec.Meta(ge=1, le=2**20, description="a whole number from 1 to 1,048,576")
]
Share = Annotated[float, msgspec.Meta(ge=0, le=1, description="a share in [0, 1]")]
ShareBelow1 = Annotated[float, msgspec.Meta(ge=0, lt=1, description="a share in [0, 1)")]
PositiveShare = Annotated[float, msgspec.Meta(gt=0, le=1, description="a share in (0, 1]")]


@dataclasses.dataclass(frozen=True)
class OutputReader:
    """Reads the path of an output on the command line; `ending` = the only one, besides none."""

    ending: str = ""

    def __call__(self, text: str) -> str:
        if not text:
            raise ValueError("the path is empty; name a file or folder, or leave the option out")
        if self.ending and pathlib.Path(text).suffix not in ("", self.ending):
            written = f"what is written is {self.ending[1:].upper()}; name a {self.ending} file"
            raise ValueError(f"{text}: {written}")
        return text


OutputPath = Annotated[str, OutputReader()]


class BlockFlag:
    """A flag that is set within a block `with flag():`, including the functions it calls."""

    def __init__(self, name: str):
        self._value = contextvars.ContextVar(name, default=False)

    @property
    def is_set(self) -> bool:
        return self._value.get()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        former = self._value.set(True)
        try:
            yield
        finally:
            self._value.reset(former)


# If set, rows are padded to shapes of earlier calls if that is cheaper than compiling a program.
# This is for services, whose calls are small and of any size. It is not for jobs: the last digits
# of a score depend on its batch's shape, and a resumed job has a different history of calls.
sharing_programs = BlockFlag("sharing_programs")

InputFormat = Literal["jsonl", "json", "csv", "tsv", "parquet", "arrow"]


class Settings:
    """A base class of frozen dataclasses that checks the fields of new instances.

    Lists are converted to tuples, and NumPy scalars to Python scalars.

    Raises:
      ConfigError: names the field, the expected type and the value.
    """

    def __post_init__(self):
        hints: dict[str, Any] = _resolve_type_hints(type(self))  # type: ignore[arg-type]
        for name, hint in hints.items():
            value = check_value(f"{type(self).__name__}.{name}", getattr(self, name), hint)
            object.__setattr__(self, name, value)

    def require(self, field: str, holds: bool, expected: str) -> None:
        """Raises a ConfigError unless a condition holds that type hints cannot express."""
        if not holds:
            name = f"{type(self).__name__}.{field}"
            raise ConfigError(f"{name}: expected {expected}, got {getattr(self, field)!r}.")


@functools.cache
def _resolve_type_hints(settings: type) -> dict[str, Any]:
    return typing.get_type_hints(settings, include_extras=True)


def expand_union(hint: Any) -> tuple[Any, ...]:
    """Returns the types of a union, or a tuple of the type itself."""
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if is_union else (hint,)


def check_value(name: str, value: Any, hint: Any) -> Any:
    """Returns a value converted to a type hint, lists to tuples; raises a ConfigError otherwise."""
    if dataclasses.is_dataclass(value) and isinstance(value, expand_union(hint)):
        return value
    if type(value) is int and not _is_int64(value):
        bits = value.bit_length()
        raise ConfigError(f"{name}: expected a number of 64 bits, got one of {bits:,}.")
    try:
        if isinstance(value, dict):  # msgspec would make a dataclass and ignore unknown keys
            raise msgspec.ValidationError
        return msgspec.convert(to_python_scalar(value), hint)
    except msgspec.ValidationError:
        raise ConfigError(f"{name}: expected {describe_type(hint)}, got {value!r}.") from None


def how_to_quote(macro: str, value: Any) -> str:
    """Returns a hint on how to give a number as text on a command line; "" for other values."""
    # The shell removes the outer quotation marks.
    return (
        f"; for a text write --gin.{macro}=\"'{value}'\"" if isinstance(value, int | float) else ""
    )


def to_python_scalar(value: Any) -> Any:
    """Converts a scalar of NumPy or JAX, or an array without axes, to Python; keeps other values.

    >>> to_python_scalar("text")
    'text'
    """
    if getattr(value, "shape", None) != ():
        return value
    try:
        return value.item()
    except (AttributeError, NotImplementedError):  # a dtype, a random key of JAX
        return value


def _is_int64(number: int) -> bool:
    return -(2**63) <= number < 2**63


def from_text(text: str, hint: Any) -> Any:
    """Parses a number of the type of a hint; raises a ValueError for other texts."""
    written = re.sub(r"^(-?)\.(?=\d)", r"\g<1>0.", text.strip())  # .5 is not a JSON number
    try:
        number = msgspec.convert(written, hint, strict=False)
    except msgspec.ValidationError:
        raise ValueError(f"expected {describe_type(hint)}, got {text}") from None
    if type(number) is int and not _is_int64(number):
        raise ValueError(f"expected a number of 64 bits, got {text}")
    return number


def unescape(text: str) -> str:
    r"""Replaces `\n` and `\t` in a text from the command line by line breaks and tabs.

    >>> unescape(r"a\nb")
    'a\nb'
    """
    characters = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}
    return re.sub(r"\\[nt\\]", lambda match: characters[match.group()], text)


def list_choices(hint: Any) -> list[Any]:
    """Returns the values that a type hint lists; of values with the same text, only the first."""
    choices = dict[str, Any]()
    for kind in expand_union(hint):
        values: tuple[Any, ...] = ()
        if typing.get_origin(kind) is Literal:
            values = typing.get_args(kind)
        elif isinstance(kind, enum.EnumType):
            values = tuple(choice.value for choice in typing.cast(type[enum.Enum], kind))
        for value in values:
            choices.setdefault(str(value), value)
    return list(choices.values())


def describe_type(hint: Any, of_json: bool = False) -> str:
    """Returns a description of the values that a type hint allows, in Python or in JSON."""
    *words, last = _describe_kinds(hint, of_json)
    return f"{', '.join(words)} or {last}" if words else last


def _describe_kinds(hint: Any, of_json: bool) -> Iterator[str]:
    names = {str: "a text", int: "a whole number", float: "a number", type(None): "None"}
    names |= {bool: "true or false" if of_json else "True or False", dict: "an object"}
    for kind in expand_union(hint):
        origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
        if of_json and kind is type(None):  # null counts as missing
            continue
        if origin is Annotated:
            meta = kind.__metadata__[0]
            yield (
                meta.description
                or f"{describe_type(arguments[0], of_json)}{_describe_limits(meta)}"
            )
        elif origin is Literal or isinstance(kind, enum.EnumType):
            continue
        elif origin in (list, tuple):
            is_fixed = origin is tuple and Ellipsis not in arguments
            each = "" if of_json else f", each {describe_type(arguments[0])}"
            yield f"a list of {pluralize(len(arguments), 'item')}" if is_fixed else f"a list{each}"
        elif of_json and (dataclasses.is_dataclass(origin) or issubclass(origin, msgspec.Struct)):
            yield "an object"
        else:
            yield names.get(origin) or f"a {kind.__name__}"
    if choices := list_choices(hint):
        yield f"one of {', '.join(map(str, choices))}" if choices[1:] else repr(choices[0])


def _describe_limits(limits: msgspec.Meta) -> str:
    """Returns the limits of an annotation that does not describe itself."""
    if limits.min_length is not None:
        least = "" if limits.min_length == limits.max_length else "at least "
        return f" of {least}{pluralize(limits.min_length, 'item')}"
    if limits.ge is not None and limits.le is not None:
        return f" from {limits.ge:,} to {limits.le:,}"
    return f" of at least {limits.ge:,}" if limits.ge is not None else ""
