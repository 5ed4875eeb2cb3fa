"""Conversion of rows of raw files to msgspec Structs, with errors that name file, line and field.

A schema is a `msgspec.Struct` or a dataclass. White space around texts is dropped before a row is
converted. Null counts as missing, and fields that the schema does not name are ignored.

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

import dataclasses
import enum
import pathlib
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from faith_jax.core.errors import (
    ConfigError,
    FaithJaxError,
    InputError,
    did_you_mean,
    format_value,
)
from faith_jax.core.rows import BadRows, Row, open_text, parse_rows, read_json
from faith_jax.core.settings import describe_type, expand_union, list_choices

# No `pattern`: in a union, msgspec 0.22 releases it once too often, and Python crashes.
Text = Annotated[str, msgspec.Meta(min_length=1, description="a text that is not empty")]
Texts = Annotated[list[Text], msgspec.Meta(min_length=1)]
Whole = Annotated[
    int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, description="a whole number of 64 bits")
]
Flag = Annotated[Literal[0, 1] | bool, msgspec.Meta(description="0, 1, true or false")]

Schema = TypeVar("Schema")
_Made = TypeVar("_Made")


def convert_row(
    fields: Mapping[str, Any], place: str, schema: type[Schema], strip: bool = True
) -> Schema:
    """Converts a row to an instance of its schema, any type that msgspec supports.

    `strip` drops white space around texts. `place` is `path:line`.

    Raises:
      InputError: names the first field that is missing or has a wrong value.
    """
    try:
        return _convert(fields, schema, strip)
    except UnicodeEncodeError:
        raise InputError(f"{place}: holds half of a surrogate pair, no character.") from None
    except msgspec.ValidationError as error:
        if not isinstance(fields, Mapping):
            problem = f"expected a JSON object, got {format_value(fields)}."
        else:
            problem = _explain_refusal(fields, schema, "", strip, error)
        raise InputError(f"{place}: {problem}") from None


def read_json_as(
    path: pathlib.Path, schema: type[Schema], error: type[FaithJaxError] = ConfigError
) -> Schema:
    """Returns the object in a JSON file as an instance of its schema, or raises `error`."""
    try:
        return convert_row(read_json(path, error), str(path), schema, strip=False)
    except InputError as caught:
        raise error(str(caught)) from None


def read_toml_as(path: pathlib.Path, schema: type[Schema]) -> Schema:
    """Returns the table in a TOML file as an instance of its schema.

    Raises:
      ConfigError: if the file is missing or not TOML; or names the first missing or wrong field.
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
    """Yields the values of `make(row, place)` for each row; an InputError makes it a bad row."""

    def parse(fields: Mapping[str, Any], place: str) -> list[_Made]:
        return list(make(convert_row(fields, place, schema, strip), place))

    for values in parse_rows(rows, parse, bad_rows):
        yield from values


def _convert(value: Any, kind: Any, strip: bool) -> Any:
    """Converts a value to a type; without `strip`, a blank text still counts as empty."""
    if not strip:
        msgspec.convert(_drop_nulls(value, strip=True), kind)
    return msgspec.convert(_drop_nulls(value, strip), kind)


def _drop_nulls(value: Any, strip: bool) -> Any:
    """Returns a value without nulls in objects.

    Raises:
      UnicodeEncodeError: if a text has half of a surrogate pair.
    """
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


class _Field(NamedTuple):
    """A field of an object, according to its schema."""

    hint: Any  # the type of its values
    is_required: bool


def _explain_refusal(
    value: Any, hint: Any, path: str, strip: bool, error: msgspec.ValidationError
) -> str:
    """Describes why a value does not fit its type, for the first part that is wrong.

    `path` is the value's path in its row, such as `turns[1].role`.
    """
    kinds = [
        typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
        for kind in expand_union(hint)
    ]
    parts = dict[str, tuple[Any, Any]]()  # the value's parts and their types, by path
    fields, unknown, missing = dict[str, _Field](), list[str](), list[str]()
    if isinstance(value, Mapping):
        fields, has_others = _fields_of(value, kinds)
        parts = {
            _join_path(path, name): (value[name], field.hint)
            for name, field in fields.items()
            if value.get(name) is not None
        }
        unknown = [] if has_others else [name for name in value if name not in fields]
        missing = [name for name in fields if fields[name].is_required and value.get(name) is None]
    for kind in kinds:
        origin, types = typing.get_origin(kind), typing.get_args(kind)
        if origin is dict and isinstance(value, Mapping):
            for key, inner in value.items():
                parts[f"{path}[{key!r}]" if path else key] = inner, types[1]
        if origin in (list, tuple) and isinstance(value, list):
            is_fixed = origin is tuple and Ellipsis not in types
            item_types = types if is_fixed else types[:1] * len(value)
            for number, item in enumerate(zip(value, item_types, strict=False)):
                parts[f"{path}[{number}]"] = item
    for part_path, (part, part_hint) in parts.items():
        try:
            _convert(part, part_hint, strip)
        except msgspec.ValidationError as refusal:
            return _explain_refusal(part, part_hint, part_path, strip, refusal)
    if unknown:
        field, near = _join_path(path, unknown[0]), did_you_mean(unknown[0], fields)
        return f"field '{field}' is unknown.{near} There are: {', '.join(fields)}."
    if missing and missing[0] in value:
        return f"field '{_join_path(path, missing[0])}': expected a value, got null."
    if missing:
        field = _join_path(path, missing[0])
        near = did_you_mean(missing[0], sorted(set(value).difference(fields)))
        return f"field '{field}' is missing.{near}"
    near = did_you_mean(value, map(str, list_choices(hint))) if isinstance(value, str) else ""
    # If an object has the right fields, the error comes from its class.
    expected = str(error).partition(" - at `$")[0] if fields else describe_type(hint, of_json=True)
    return f"field '{path}': expected {expected}, got {format_value(value)}.{near}"


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _fields_of(value: Mapping[str, Any], kinds: list[Any]) -> tuple[dict[str, _Field], bool]:
    """Returns the fields of an object of one of some types, and whether it may have others.

    If there are several Structs, the object's tag selects one.
    """
    by_tag = {
        kind.__struct_config__.tag: kind for kind in kinds if hasattr(kind, "__struct_config__")
    }
    fields, tags = dict[str, _Field](), tuple(tag for tag in by_tag if tag is not None)
    struct = by_tag.get(None)
    if tags:
        tag_field = by_tag[tags[0]].__struct_config__.tag_field
        fields[tag_field] = _Field(Literal[tags], is_required=True)
        struct = by_tag.get(str(value.get(tag_field)))
    if struct:
        for field in msgspec.structs.fields(struct):
            fields[field.encode_name] = _Field(field.type, field.required)
        return fields, not struct.__struct_config__.forbid_unknown_fields
    for kind in filter(dataclasses.is_dataclass, kinds):
        hints = typing.get_type_hints(kind, include_extras=True)
        for part in dataclasses.fields(kind):
            is_required = part.default is part.default_factory is dataclasses.MISSING
            fields[part.name] = _Field(hints[part.name], is_required)
    return fields, True


def columns_of(schema: Any) -> list[str]:
    """Returns the names of a Struct's required fields."""
    return [field.encode_name for field in msgspec.structs.fields(schema) if field.required]


def as_example(row: Any, place: str) -> Iterator[dict[str, Any]]:
    """Yields a row as a single example with the same fields."""
    yield {
        name: value.value if isinstance(value, enum.Enum) else value
        for name, value in msgspec.structs.asdict(row).items()
    }
