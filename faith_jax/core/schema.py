"""Rows of raw files as msgspec Structs: one converter, whose errors name file, line and field.

A schema is a `msgspec.Struct` or a dataclass. A row loses the white space around its texts before
it is converted. Null counts as missing, and fields that the schema does not name are ignored.

>>> class Topic(msgspec.Struct):
...     title: Text
...     side: Literal["pro", "con"] = "pro"
>>> convert_row({"title": " Tea ", "note": 1}, "topics.jsonl:3", Topic)
Topic(title='Tea', side='pro')
>>> convert_row({"title": "Tea", "side": "por"}, "topics.jsonl:3", Topic)
Traceback (most recent call last):
  ...
faith_jax.core.errors.InputError: topics.jsonl:3: field 'side': expected one of pro, con, got \
"por". Did you mean 'pro'?
"""

import atexit
import dataclasses
import enum
import gc
import pathlib
import re
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from faith_jax.core.errors import (
    ConfigError,
    FaithJaxError,
    InputError,
    did_you_mean,
    field_error,
    format_value,
)
from faith_jax.core.rows import BadRows, Row, open_text, parse_rows, read_json
from faith_jax.core.settings import expand_union

# At the end of Python, collecting what msgspec has made of a `Meta` can crash the process, after
# all its work (msgspec issue 717); what is frozen is not collected.
atexit.register(gc.freeze)

Text = Annotated[str, msgspec.Meta(pattern=r"\S")]  # not empty, nor blank
Texts = Annotated[list[Text], msgspec.Meta(min_length=1)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Flag = Literal[0, 1] | bool

Schema = TypeVar("Schema")
_Made = TypeVar("_Made")

# What msgspec calls a type, and what its messages say of it.
_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_WORDS = {
    r" matching regex '\\\\S'": " that is not empty",
    r" of length >= 1(?!\d)": " of at least 1 item",
    r" of length >= (\d+)": r" of at least \1 items",
    r" of length (\d+)": r" of \1 items",
    r" <= 9223372036854775807| >= -9223372036854775808": " of 64 bits",
    r", got .*$": "",
}
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def convert_row(
    fields: Mapping[str, Any], place: str, schema: type[Schema], strip: bool = True
) -> Schema:
    """Returns a row as an instance of its schema, a type that msgspec converts to.

    White space around texts is dropped with `strip`. The `place` is `path:line`.

    Raises:
      InputError: names the first field that is missing or has a wrong value.
    """
    try:
        return msgspec.convert(_drop_nulls(fields, strip), schema)
    except UnicodeEncodeError:
        raise InputError(f"{place}: holds half of a surrogate pair, no character.") from None
    except msgspec.ValidationError as error:
        raise _input_error(str(error), fields, place, schema) from None


def read_json_as(
    path: pathlib.Path, schema: type[Schema], error: type[FaithJaxError] = ConfigError
) -> Schema:
    """Returns the object in a JSON file as an instance of its schema, or raises `error`."""
    try:
        return convert_row(read_json(path, error), str(path), schema, strip=False)
    except InputError as caught:
        raise error(str(caught)) from None


def read_toml_as(path: pathlib.Path, schema: type[Schema]) -> Schema:
    """Returns the table of a TOML file as an instance of its schema.

    Raises:
      ConfigError: the file is missing or no TOML, or the first field that is missing or wrong.
    """
    try:
        with open_text(path) as file:
            return convert_row(tomllib.loads(file.read().decode()), str(path), schema, strip=False)
    except InputError as error:
        raise ConfigError(str(error)) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected UTF-8; save the file as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is no TOML ({error}).") from None


def read_as(
    schema: type[Schema],
    rows: Iterable[Row],
    make: Callable[[Schema, str], Iterable[_Made]],
    bad_rows: BadRows,
    strip: bool = True,
) -> Iterator[_Made]:
    """Yields the values of `make(row, place)` of each row; an InputError makes it a bad row."""

    def parse(fields: Mapping[str, Any], place: str) -> list[_Made]:
        return list(make(convert_row(fields, place, schema, strip), place))

    for values in parse_rows(rows, parse, bad_rows):
        yield from values


def _drop_nulls(value: Any, strip: bool) -> Any:
    """Returns a value without nulls in objects; UnicodeEncodeError for half a surrogate pair."""
    if isinstance(value, str):
        if not value.isascii():
            value.encode()
        return value.strip() if strip else value
    if isinstance(value, Mapping):
        return {
            _drop_nulls(name, strip=False): _drop_nulls(inner, strip)
            for name, inner in value.items()
            if inner is not None
        }
    return [_drop_nulls(inner, strip) for inner in value] if isinstance(value, list) else value


def _input_error(problem: str, fields: Mapping[str, Any], place: str, schema: Any) -> InputError:
    """Returns the error for a row, given msgspec's message."""
    problem, _, path = problem.partition(" - at `$")
    value: Any = fields
    field, kind = "", schema
    for name, item in _STEP.findall(path.removesuffix("`")):
        step, kind = _follow_step(value, kind, name, item)
        value = value.get(step) if isinstance(value, Mapping) else value[step]
        field += f".{step}" if name or not field else f"[{step!r}]"
    field = field.removeprefix(".")
    if not field and not isinstance(fields, Mapping):
        return InputError(f"{place}: expected a JSON object, got {format_value(fields)}.")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", problem):
        name = missing[1]
        field = f"{field}.{name}" if field else name
        if name not in value:
            structs = (
                alternative
                for alternative in _plain_types(kind)
                if hasattr(alternative, "__struct_fields__")
            )
            other_names = set(value).difference(
                *(alternative.__struct_encode_fields__ for alternative in structs)
            )
            hint = did_you_mean(name, sorted(other_names))
            return InputError(f"{place}: field '{field}' is missing.{hint}")
        value, problem = None, "Expected a value"
    if extra := re.fullmatch(r"Object contains unknown field `(.+)`", problem):
        name = f"{field}.{extra[1]}" if field else extra[1]
        names = _field_names(value, kind)
        hint = did_you_mean(extra[1], names)
        return InputError(
            f"{place}: field '{name}' is unknown.{hint} There are: {', '.join(names)}."
        )
    if problem.startswith(("Invalid enum value", "Invalid value")):  # the second of a tag
        # Of a number and its text, once.
        choices = dict[str, None]()
        for alternative in _plain_types(kind):
            values: Iterable[Any] = ()
            if isinstance(alternative, enum.EnumType):
                values = [choice.value for choice in typing.cast(type[enum.Enum], alternative)]
            elif typing.get_origin(alternative) is Literal:
                values = typing.get_args(alternative)
            choices |= dict.fromkeys(map(str, values))
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        error = field_error(place, field, f"one of {', '.join(choices)}", value)
        return InputError(f"{error}{hint}")
    expected = re.sub(
        r"`([\w |]+)`",
        lambda kinds: " or ".join(_KINDS.get(k, k) for k in kinds[1].split(" | ") if k != "null"),
        problem,
    )
    for pattern, words in _WORDS.items():
        expected = re.sub(pattern, words, expected)
    return field_error(place, field, expected.removeprefix("Expected "), value)


def _plain_types(kind: Any) -> list[Any]:
    """Returns the types that a type hint stands for, without annotations."""
    return [
        typing.get_args(alternative)[0]
        if typing.get_origin(alternative) is Annotated
        else alternative
        for alternative in expand_union(kind)
    ]


def _follow_step(value: Any, kind: Any, name: str, item: str) -> tuple[Any, Any]:
    """Returns the key or index of a step in msgspec's path, and the type below it."""
    structs = [s for s in _plain_types(kind) if hasattr(s, "__struct_config__")]
    # Of several Structs, the one that the value's tag names comes first.
    named = [s for s in structs if _has_tag_of(value, s)]
    for alternative in [*named, *_plain_types(kind)]:
        if name and dataclasses.is_dataclass(alternative):
            return name, typing.get_type_hints(alternative, include_extras=True)[name]
        if name and isinstance(alternative, type) and issubclass(alternative, msgspec.Struct):
            inner = {field.encode_name: field.type for field in msgspec.structs.fields(alternative)}
            return name, inner.get(name) or Literal[
                tuple(sorted(struct.__struct_config__.tag for struct in structs))
            ]
        if item and item != "..." and typing.get_origin(alternative) in (list, tuple):
            return int(item), typing.get_args(alternative)[0]
        if item == "...":  # msgspec does not say which key of a dictionary it is
            inner_kind = typing.get_args(alternative)[1]
            return _first_bad(value, inner_kind), inner_kind
    return int(item), Any  # of a tuple


def _has_tag_of(value: Any, struct: Any) -> bool:
    config = struct.__struct_config__
    has_tag = config.tag is not None and isinstance(value, Mapping)
    return has_tag and value.get(config.tag_field) == config.tag


def _field_names(value: Any, kind: Any) -> list[str]:
    """Returns the names of the fields of a Struct, of several that which the value's tag names."""
    names = list[str]()
    for struct in (s for s in _plain_types(kind) if hasattr(s, "__struct_config__")):
        config = struct.__struct_config__
        if config.tag is None or _has_tag_of(value, struct):
            names = [*struct.__struct_encode_fields__]
            return names if config.tag is None else [config.tag_field, *names]
    return names


def _first_bad(values: Mapping[str, Any], kind: Any) -> str:
    for key, value in values.items():
        try:
            msgspec.convert(_drop_nulls(value, strip=True), kind)
        except msgspec.ValidationError:
            return key
    return next(iter(values))


def columns_of(schema: Any) -> list[str]:
    """Returns the names of a Struct's required fields."""
    return [field.encode_name for field in msgspec.structs.fields(schema) if field.required]


def as_example(row: Any, place: str) -> Iterator[dict[str, Any]]:
    """Yields a row whose fields are those of its one example."""
    yield {
        name: value.value if isinstance(value, enum.Enum) else value
        for name, value in msgspec.structs.asdict(row).items()
    }
