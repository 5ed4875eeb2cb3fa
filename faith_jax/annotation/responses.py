"""Responses for people to judge, from the rows that our commands read and write.

- rows of `t5x infer`: `inputs` in curly braces and `prediction`;
- NPOV rows: `query`, `pro_arguments`, `con_arguments` and `response` or `generated_text`;
- rows with a `grounding` (`knowledge`, `evidence`), and rows of `faith-jax score`.

Rows of `infer` hold the arguments of a side as one text. It is split into the arguments of a
knowledge base, or into sentences if these arguments do not make up the text.
"""

import functools
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.annotation.sheets import one_line_end
from faith_jax.core.errors import InputError, field_error
from faith_jax.core.rows import Row
from faith_jax.core.templates import clean_value, npov_response
from faith_jax.core.types import SIDE_FIELDS, SIDES, GroundedExample, Grounding
from faith_jax.core.words import split_sentences
from faith_jax.datasets import npov
from faith_jax.datasets.grounded_rows import Columns, cell_text, example_rows
from faith_jax.datasets.tables import read_rows

_GROUNDINGS = ("grounding", "knowledge", "evidence")
_RESPONSES = ("prediction", "generated_text", "response")
_HISTORIES = ("history", "context", "message", "query")
# Results of `score`, and texts that the example holds in another form.
_DROPPED = frozenset(
    ("scores", "words", "cut_tokens", "cut", "fields", "inputs", "predictions")
    + ("perspectives", "label", *_GROUNDINGS, *SIDE_FIELDS, *_RESPONSES, *_HISTORIES)
)
_PAIR = re.compile(r"\{(\w+):([^}]*)\}")

Topics = Callable[[], Sequence[npov.Topic]]


class AnnotationResponse(NamedTuple):
    """A response to judge, as annotators see it, and the other fields of its row.

    If `by_sentence`, its arguments could not be told apart, so each sentence counts as an argument.
    """

    example: GroundedExample
    fields: Mapping[str, Any]
    by_sentence: bool = False


def read_responses(
    path: pathlib.Path, knowledge: str = "procon_npov", several: bool = False
) -> list[AnnotationResponse]:
    """Reads responses from a JSONL, CSV, TSV or Parquet file.

    With `several` systems, responses may share ids. Arguments of `infer`'s rows are looked up in
    `knowledge`: a folder of the raw NPOV format, or the name of an embedded sample.

    Raises:
      InputError: the file or a row is bad, an id occurs twice, or the file has no rows.
    """
    topics = functools.cache(functools.partial(npov.load_topics, knowledge))
    responses: list[AnnotationResponse] = []
    ids: set[str] = set()
    for number, (place, fields) in enumerate(read_rows(path), start=1):
        identifier = cell_text(fields.get("id"), place, "id") or str(number)
        if identifier in ids and not several:
            remedy = "give each response its own, or none to any: then they are numbered"
            raise field_error(place, "id", "an id that no earlier row has", identifier, remedy)
        texts, by_sentence = _normalize_fields(fields, place, topics)
        adapted = Row(place, texts | {"id": identifier})
        (row,) = example_rows([adapted], Columns(label_column="", corpus_column=""), path.stem)
        further_fields = {name: value for name, value in row.fields.items() if name not in _DROPPED}
        ids.add(identifier)
        sides = row.example.grounding.perspectives
        if set(sides) in ({"pro"}, {"con"}):
            lacking = "con_arguments" if "pro" in sides else "pro_arguments"
            raise field_error(place, lacking, "at least one argument, as on the other side", [])
        example = GroundedExample(
            row.example.id,
            Grounding(tuple(map(one_line_end, row.example.grounding.texts)), sides),
            tuple(map(one_line_end, row.example.history)),
            one_line_end(row.example.response),
        )
        responses.append(AnnotationResponse(example, further_fields, by_sentence))
    if not responses:
        raise InputError(f"{path}: holds no responses.")
    return responses


def _normalize_fields(
    fields: Mapping[str, Any], place: str, topics: Topics
) -> tuple[dict[str, Any], bool]:
    """Returns a row for `example_rows`, and whether its arguments are single sentences."""
    response = _find_first_field(_RESPONSES, fields, place, "response")
    if fields[response] is None:
        raise field_error(place, response, "a text", None)
    grounding = _find_first_field(
        (*_GROUNDINGS, *SIDE_FIELDS, "inputs"), fields, place, "grounding"
    )
    texts: dict[str, Any] = {}
    if "scores" in fields and isinstance(fields.get("fields"), dict | list):
        # `score` writes further fields into `fields`, in Parquet as a list of pairs.
        scored_fields = dict(fields["fields"])
        texts = {name: value for name, value in scored_fields.items() if name not in _DROPPED}
    texts |= {name: value for name, value in fields.items() if name not in _RESPONSES}
    texts["response"] = fields[response]
    # A grounding in one field stays as it is.
    if grounding in _GROUNDINGS:
        return texts, False
    # An NPOV row has a field for each side; a missing one becomes None, which fails later.
    if grounding in SIDE_FIELDS:
        return texts | {name: fields.get(name) for name in SIDE_FIELDS}, False
    # A row of `infer` has the query and both sides as one text.
    inputs = fields["inputs"]
    pairs = dict(_PAIR.findall(inputs)) if isinstance(inputs, str) else {}
    if not {"query", *SIDES} <= set(pairs):
        raise field_error(
            place, "inputs", "a text as '{query: ...} {pro: ...} {con: ...}'", inputs,
            f"give {' and '.join(SIDE_FIELDS)}, or a grounding",
        )  # fmt: skip
    known_topics = topics()
    try:
        topic = npov.retrieve(known_topics, pairs["query"].strip())
    except InputError:  # the query is on none of the topics
        topic = None
    sides: dict[str, list[str]] = {}
    by_sentence = False
    for side, field in zip(SIDES, SIDE_FIELDS, strict=True):
        text = pairs[side].strip()
        topic_arguments = [argument.text for argument in getattr(topic, side)] if topic else []
        arguments = split_into_arguments(text, topic_arguments)
        by_sentence |= arguments is None
        sides[field] = arguments or split_sentences(text)
    if isinstance(texts["response"], str):  # infer keeps the braces for given `inputs`
        texts["response"] = npov_response(texts["response"])
    # A row's own history stays: it is the query with the turns before it.
    return {"history": pairs["query"].strip(), **texts, **sides}, by_sentence


def _find_first_field(
    names: Sequence[str], fields: Mapping[str, Any], place: str, kind: str
) -> str:
    name = next((name for name in names if name in fields), None)
    if name is None:
        raise InputError(
            f"{place}: no field holds the {kind}: expected {' or '.join(names)}, got "
            f"{', '.join(fields) or 'none'}; rename the field that holds it."
        )
    return name


def split_into_arguments(text: str, arguments: Sequence[str]) -> list[str] | None:
    """Returns the arguments that, joined by spaces as in a generator's input, form a text, or None.

    One argument may be the beginning of another. So if the rest of the text after an argument
    cannot be split, the next argument that starts the text is tried.

    >>> split_into_arguments("It is mild. It calms.", ["It calms.", "It is mild.", "It is cheap."])
    ['It is mild.', 'It calms.']
    """
    if not text:
        return []
    for argument in arguments:
        cleaned = clean_value(argument)
        if text == cleaned or text.startswith(f"{cleaned} "):
            remaining = [candidate for candidate in arguments if candidate != argument]
            rest = split_into_arguments(text[len(cleaned) :].lstrip(), remaining)
            if rest is not None:
                return [argument, *rest]
    return None
