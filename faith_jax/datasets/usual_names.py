"""Finds a table's columns by the names that evaluation programs usually give them.

Case, spaces, hyphens and underscores in names do not matter. docs/data_formats.md lists the names
with the programs that write them.

>>> fields = ("User Input", "retrieved_contexts", "reference", "response")
>>> [usual_name(part, fields) for part in ("history", "grounding", "response", "label")]
['User Input', 'retrieved_contexts', 'response', '']
"""

import contextlib
import functools
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import InputError

# The names of each part, in ranks: the first rank with a column in the table counts, and two
# columns of the same rank are ambiguous. TRUE's names come first.
USUAL: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "grounding": (
        ("grounding",),
        ("knowledge",),
        ("evidence",),
        ("pro=pro_arguments,con=con_arguments",),
        ("premise",),
        (
            *("contexts", "retrieved_contexts", "retrieval_context", "retrieved_context"),
            *("passages", "source_documents", "retrieved_documents", "retrieval.documents"),
            *("documents", "source_nodes"),
        ),
        ("passage", "retrieved_text"),
        ("reference_contexts",),
    ),
    "response": (
        ("generated_text",),
        ("prediction",),
        ("response", "actual_output", "output", "output_text", "generated_answer"),
        ("hypothesis",),
        ("result",),
        ("answer",),
    ),
    "history": (
        ("history",),
        ("chat_history", "conversation_history"),
        ("context",),
        ("message",),
        ("query",),
        ("question", "user_input"),
        ("input",),
    ),
    "label": (("label",),),
    "id": (("id",),),
    "corpus": (("corpus",),),
}
# A column `context` is the evidence, not the dialogue, if one of _QUESTIONS is present. A column
# `reference` is the evidence beside both names of a pair, as in Phoenix; elsewhere it is an ideal
# answer. In DeepEval's rows, which have a `retrieval_context`, `context` is the ideal evidence.
_QUESTIONS = ("query", "question", "user_input", "input")
_BESIDE_REFERENCE = (("input", "output"), ("query", "response"))
# Objects in which rows may keep their values, in the order of the search for each part.
_OBJECTS: Mapping[str, tuple[str, ...]] = {
    "grounding": ("", "outputs.", "output.", "inputs.", "input.", "item.", "attributes."),
    "response": ("", "outputs.", "output.", "sample.", "item.", "attributes."),
    "history": ("", "inputs.", "input.", "item.", "attributes."),
}
_CONTAINERS = frozenset(("inputs", "outputs", "item", "sample", "attributes"))
# These may also be texts; as objects they are flattened if they hold one of these parts.
TEXTS_OR_OBJECTS: Mapping[str, tuple[str, ...]] = {
    "input": ("history", "grounding"),
    "output": ("response",),
}
_MAYBE_OBJECTS = _CONTAINERS | TEXTS_OR_OBJECTS.keys()
_MOST_LEVELS = 4
# Several systems may respond to one row, and several trainings of one system.
SYSTEM_FIELDS = ("system", "replicate")


def usual_name(
    part: str,
    fields: Iterable[str],
    excluded: Collection[str] = (),
    remedy: str = "say which does with {}",
) -> str:
    """Returns the column that holds a part of an example by its name; "" = none.

    Pro and con arguments are returned together, as "pro=NAME,con=NAME".

    Args:
      part: a key of `USUAL`.
      fields: the columns.
      excluded: columns that hold another part.
      remedy: the advice if two columns may hold the part; {} = the option that names one.

    Raises:
      InputError: two columns may hold the part; the message does not name a place.
    """
    by_name: dict[str, list[str]] = {}
    fields = tuple(fields)
    is_deepeval = part == "history" and "retrievalcontext" in map(_normalize_name, fields)
    for field in fields:
        if field not in excluded and not (is_deepeval and _normalize_name(field) == "context"):
            by_name.setdefault(_normalize_name(field), []).append(field)
    for prefix in _OBJECTS.get(part, ("",)):
        for rank in USUAL[part]:
            matching = [
                name for usual in rank for name in _find_matching_columns(prefix, usual, by_name)
            ]
            if len(matching) > 1:
                raise InputError(
                    f"the columns {' and '.join(map(repr, matching))} may both hold the {part}; "
                    + remedy.format(f"--{part}-column={matching[0]}")
                )
            if matching:
                return matching[0]
        if part == "grounding" and (name := _context_or_reference(prefix, by_name)):
            return name
    return ""


def has_usual_name(part: str, fields: Iterable[str]) -> bool:
    """Returns whether one or more columns may hold a part of an example by their names."""
    try:
        return bool(usual_name(part, fields))
    except InputError:
        return True


def question_beside(history: str, fields: Iterable[str]) -> str:
    """Returns the column with the question that follows earlier turns; "" = none.

    >>> question_beside("inputs.chat_history", ["inputs.question", "model"])
    'inputs.question'
    """
    prefix, dot, name = history.rpartition(".")
    earlier_turns = (*USUAL["history"][0], *USUAL["history"][1])
    if _normalize_name(name) not in map(_normalize_name, earlier_turns):
        return ""
    by_name = {_normalize_name(field): field for field in fields}
    questions = (_normalize_name(prefix + dot + question) for question in _QUESTIONS[:-1])
    return next((by_name[question] for question in questions if question in by_name), "")


def _find_matching_columns(
    prefix: str, usual: str, by_name: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    """Returns the columns that match a usual name in an object."""
    if "=" in usual:
        sides = [side.split("=") for side in usual.split(",")]
        columns = [by_name.get(_normalize_name(prefix + name), [])[:1] for _, name in sides]
        if not all(columns):
            return []
        return [",".join(f"{s}={c[0]}" for (s, _), c in zip(sides, columns, strict=True))]
    plain = _normalize_name(prefix + usual)
    return by_name.get(plain) or by_name.get(f"{plain}.value", [])


def _context_or_reference(prefix: str, by_name: Mapping[str, Sequence[str]]) -> str:
    """Returns `context` or `reference` if it is the evidence beside the other columns, else ""."""
    part = 2 if prefix else 0  # a column such as `input.query` is in the object `input`
    names = {*by_name, *(name.partition(".")[part] for name in by_name)}
    if (context := by_name.get(prefix + "context")) and names & {*map(_normalize_name, _QUESTIONS)}:
        return context[0]
    reference = by_name.get("reference") if not prefix else None
    pairs = [{*map(_normalize_name, pair)} for pair in _BESIDE_REFERENCE]
    return reference[0] if reference and any(pair <= names for pair in pairs) else ""


def field_named(name: str, fields: Collection[str]) -> str:
    """Returns the column that a user named, or `name` if there is no such column.

    Case, spaces, hyphens and underscores do not matter.

    Raises:
      InputError: several columns match; the message does not name a place.
    """
    if name in fields:
        return name
    matching = [field for field in fields if _normalize_name(field) == _normalize_name(name)]
    if len(matching) > 1:
        columns = ", ".join(map(repr, matching))
        raise InputError(f"the column {name!r} may be any of {columns}; name it exactly")
    return matching[0] if matching else name


@functools.lru_cache
def system_columns(fields: tuple[str, ...]) -> Mapping[str, str]:
    """Returns the columns that are `SYSTEM_FIELDS` in another spelling, with their usual names.

    >>> dict(system_columns(("id", " System")))
    {' System': 'system'}

    Raises:
      InputError: several columns match one; the message does not name a place.
    """
    columns = {field_named(name, fields): name for name in SYSTEM_FIELDS}
    return {column: name for column, name in columns.items() if column != name}


def _normalize_name(name: str) -> str:
    return re.sub(r"[\s_\-]+", "", name).casefold()


def flatten_row(fields: Mapping[str, Any], named: Collection[str] = ()) -> Mapping[str, Any]:
    """Returns a row in which the values of objects such as `inputs` and `outputs` are columns.

    LangSmith and OpenAI's evals use such rows; a cell of CSV may hold such an object as JSON.
    Langfuse's `input` and `output` are texts, or objects with the question and the answer; other
    objects in their place stay as they are, unless a user named one of their columns.

    >>> flatten_row({"item": {"question": "Hot?"}, "sample": {"output_text": "Yes."}})
    {'item.question': 'Hot?', 'sample.output_text': 'Yes.'}
    """
    objects: dict[str, Mapping[str, Any]] = {}
    for name in _MAYBE_OBJECTS.intersection(fields).difference(named):
        value = fields[name]
        content = json_object(value) if isinstance(value, str) else value
        is_named = any(column.startswith(f"{name}.") for column in named)
        # JSON text in `input` or `output` may itself be an answer, unless an option names a column.
        if isinstance(content, dict) and (
            name in _CONTAINERS
            or is_named
            or (
                content is value and not _names_within(name).isdisjoint(map(_normalize_name, value))
            )
        ):
            objects[name] = content
    if not objects:
        return fields
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if name in objects:
            flat.update(_flatten_object(name, objects[name], _MOST_LEVELS))
        else:
            flat[name] = value
    return flat


def json_object(text: str) -> dict[str, Any] | None:
    """Returns the JSON object that a text encodes; None if it does not."""
    if text.lstrip()[:1] == "{":
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
    return None


def key_hints(part: str, fields: Mapping[str, Any]) -> list[str]:
    """Returns hints on taking a part from a row's objects in `TEXTS_OR_OBJECTS`."""
    values = ((name, fields[name]) for name in TEXTS_OR_OBJECTS if name in fields)
    objects = {name: json_object(v) if isinstance(v, str) else v for name, v in values}
    return [
        f"--{part}-column={name}.KEY takes what a key has: {', '.join(content)}"
        for name, content in objects.items()
        if isinstance(content, Mapping)
    ]


@functools.cache
def _names_within(name: str) -> frozenset[str]:
    """Returns the names that cause an object in `TEXTS_OR_OBJECTS` to be flattened."""
    names = (n for part in TEXTS_OR_OBJECTS[name] for rank in USUAL[part] for n in rank)
    return frozenset(("value", *map(_normalize_name, names)))


def _flatten_object(name: str, value: Mapping[str, Any], levels: int) -> Iterable[tuple[str, Any]]:
    for inner, content in value.items():
        path = f"{name}.{inner}"
        if isinstance(content, dict) and content and levels:
            yield from _flatten_object(path, content, levels - 1)
        else:
            yield path, content
