"""Responses for people to judge, from the rows that our commands read and write.

- what `t5x infer` writes: `inputs` in curly braces and `prediction`;
- NPOV rows: `query`, `pro_arguments`, `con_arguments` and `response` or `generated_text`;
- rows with a `grounding` (`knowledge`, `evidence`), and what `faith-jax score` writes.

The rows of `infer` hold the arguments of a side as one text. They are told apart by the topics of
a knowledge base, or, where the query is of none of them, by sentences.
"""

import functools
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.data import npov, npov_retrieval, samples
from faith_jax.data.annotation_sheets import SIDE, AnnotationItem, numbered_arguments
from faith_jax.data.fields import field_error, is_blank
from faith_jax.data.grounded_rows import Columns, ExampleRow, example_rows, read_rows
from faith_jax.data.rows import Row
from faith_jax.errors import InputError
from faith_jax.sentences import split_sentences
from faith_jax.templates import clean_value, npov_response
from faith_jax.types import Grounding

SIDES = ("pro", "con")
_SIDE_FIELDS = tuple(f"{side}_arguments" for side in SIDES)
_GROUNDINGS = ("grounding", "knowledge", "evidence")
_RESPONSES = ("prediction", "generated_text", "response")
_HISTORIES = ("history", "context", "message", "query")
# What `score` found out, and texts that are told in another form.
_DROPPED = frozenset(
    ("scores", "words", "cut_tokens", "cut", "fields", "inputs", "predictions")
    + ("perspectives", "label", *_GROUNDINGS, *_SIDE_FIELDS, *_RESPONSES, *_HISTORIES)
)
_PAIR = re.compile(r"\{(\w+):([^}]*)\}")
_FORM = "'{query: ...} {pro: ...} {con: ...}'"


class AnnotationResponse(NamedTuple):
    """A response to judge.

    Attributes:
      item: what annotators see.
      fields: what else its row says, such as its topic.
      by_sentence: its arguments could not be told apart, so that each sentence counts as one.
    """

    item: AnnotationItem
    fields: Mapping[str, Any]
    by_sentence: bool = False


def read_annotation_responses(
    path: pathlib.Path, knowledge: str = "procon_npov"
) -> list[AnnotationResponse]:
    """Reads responses from a JSONL, CSV, TSV or Parquet file.

    Args:
      path: the file.
      knowledge: where arguments in `infer`'s rows are looked up: a folder of the raw NPOV format,
        or the name of an embedded sample.

    Raises:
      InputError: for a bad file or row, arguments on one side only, an id that occurs twice, and
        where there are no rows.
    """
    topics = functools.cache(lambda: npov.load_topics(_folder(knowledge)))
    by_sentence: list[bool] = []
    rows = _adapted_rows(path, topics, by_sentence)
    found = [
        AnnotationResponse(_item(row), _other_fields(row), by_sentence[number])
        for number, row in enumerate(example_rows(rows, Columns(label="", corpus=""), path.stem))
    ]
    if not found:
        raise InputError(f"{path}: holds no responses.")
    return found


def _folder(knowledge: str) -> pathlib.Path:
    folder = pathlib.Path(knowledge)
    return folder if folder.is_dir() else samples.sample_folder(knowledge)


def _adapted_rows(
    path: pathlib.Path, topics: Callable[[], Sequence[npov.Topic]], by_sentence: list[bool]
) -> Iterator[Row]:
    """Yields the rows with their texts under the names that `example_rows` knows."""
    seen: dict[str, str] = {}
    for number, (place, fields) in enumerate(read_rows(path), start=1):
        named = fields.get("id")
        identifier = str(number) if named is None or is_blank(named) else str(named)
        if identifier in seen:
            raise field_error(
                place, "id", f"an id that {seen[identifier]} does not have", identifier,
                "give each response its own, or none to any: then they are numbered",
            )  # fmt: skip
        seen[identifier] = place
        texts, split = _texts(fields, place, topics)
        by_sentence.append(split)
        kept = {name: value for name, value in fields.items() if name not in _DROPPED}
        others = _scored_fields(fields)
        yield Row(place, others | kept | texts | {"id": identifier})


def _scored_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a scored row knows of its response besides; {} for other rows."""
    known = fields.get("fields") if "scores" in fields else None
    if isinstance(known, list):  # Parquet has pairs
        known = dict(known)
    if not isinstance(known, Mapping):
        return {}
    return {name: value for name, value in known.items() if name not in _DROPPED}


def _texts(
    fields: Mapping[str, Any], place: str, topics: Callable[[], Sequence[npov.Topic]]
) -> tuple[dict[str, Any], bool]:
    """Returns the fields that are judged, and whether arguments are single sentences."""
    response = next((name for name in _RESPONSES if name in fields), None)
    if response is None:
        raise _lacking(place, "response", _RESPONSES, fields)
    history = next((name for name in _HISTORIES if name in fields), None)
    texts: dict[str, Any] = {"response": fields[response]}
    if history is not None:
        texts["history"] = fields[history]
    grounding = next((name for name in _GROUNDINGS if name in fields), None)
    if grounding is not None:
        texts |= {"grounding": fields[grounding]}
        if fields.get("perspectives"):
            perspectives = _perspectives(fields["perspectives"], fields[grounding], place)
            texts |= {"perspectives": perspectives}
        return texts, False
    given = [name for name in _SIDE_FIELDS if name in fields]
    if given:
        for name in _SIDE_FIELDS:
            _check_side(fields.get(name), name, place)
        return texts | {name: fields[name] for name in _SIDE_FIELDS}, False
    if "inputs" not in fields:
        raise _lacking(place, "grounding", (*_GROUNDINGS, *_SIDE_FIELDS, "inputs"), fields)
    query, sides, split = _inputs(fields["inputs"], place, topics)
    if "{response:" in str(fields[response]):  # infer leaves the braces to who gave the inputs
        texts["response"] = npov_response(fields[response])
    return {"history": query} | texts | sides, split


def _lacking(place: str, what: str, names: Sequence[str], fields: Mapping[str, Any]) -> InputError:
    return InputError(
        f"{place}: no field holds the {what}: expected {' or '.join(names)}, got "
        f"{', '.join(fields) or 'none'}; rename the field that holds it."
    )


def _check_side(value: Any, name: str, place: str) -> None:
    texts = value if isinstance(value, list | tuple) else [value]
    if all(text is None or is_blank(text) for text in texts):
        raise field_error(
            place, name, "at least one argument, as on the other side", value,
            "give arguments on both sides",
        )  # fmt: skip


def _inputs(
    value: Any, place: str, topics: Callable[[], Sequence[npov.Topic]]
) -> tuple[str, dict[str, list[str]], bool]:
    """Returns the query and arguments of a generator's input."""
    pairs = dict(_PAIR.findall(value)) if isinstance(value, str) else {}
    texts = {name: text.strip() for name, text in pairs.items()}
    if not {"query", *SIDES} <= set(texts):
        raise field_error(
            place, "inputs", f"a text as {_FORM}", value,
            f"give {' and '.join(_SIDE_FIELDS)}, or a grounding",
        )  # fmt: skip
    found: dict[str, list[str]] = {}
    split = False
    for side in SIDES:
        _check_side(texts[side], "inputs", place)
        known = told_apart(texts[side], _known_arguments(texts["query"], side, topics))
        split |= known is None
        found[f"{side}_arguments"] = known or split_sentences(texts[side])
    return texts["query"], found, split


def _known_arguments(
    query: str, side: str, topics: Callable[[], Sequence[npov.Topic]]
) -> list[str]:
    known = topics()
    try:
        topic = npov_retrieval.retrieve(known, query)
    except InputError:
        return []
    return [argument.text for argument in getattr(topic, side)]


def told_apart(text: str, arguments: Sequence[str]) -> list[str] | None:
    """Returns which arguments, joined by spaces, make a text; None where none do.

    Args:
      text: as `faith_jax.templates.npov_generate_inputs` has it.
      arguments: those that may be in it, as they are written.

    >>> told_apart("It is mild. It calms.", ["It calms.", "It is mild.", "It is cheap."])
    ['It is mild.', 'It calms.']
    """
    if not text:
        return []
    for argument in arguments:
        cleaned = clean_value(argument)
        if text == cleaned or text.startswith(f"{cleaned} "):
            others = [other for other in arguments if other != argument]
            rest = told_apart(text[len(cleaned) :].lstrip(), others)
            if rest is not None:
                return [argument, *rest]
    return None


def _perspectives(value: Any, grounding: Any, place: str) -> list[str]:
    """Returns the side of each text of a grounding, checked."""
    texts = grounding if isinstance(grounding, list | tuple) else [grounding]
    texts = [text for text in texts if not is_blank(text)]
    if not isinstance(value, list | tuple) or len(value) != len(texts):
        expected = f"the side of each of the {len(texts)} texts of the grounding"
        raise field_error(place, "perspectives", expected, value)
    sides = [str(side) for side in value]
    if len(set(sides)) == 1 and sides[0] in SIDES:
        raise field_error(
            place, "perspectives", "arguments on both sides, pro and con", value,
            "give arguments on both sides",
        )  # fmt: skip
    for side in sides:
        if not SIDE.fullmatch(side):
            raise field_error(place, "perspectives", "single words, such as 'pro'", side)
    return sides


def _item(row: ExampleRow) -> AnnotationItem:
    example = row.example
    sides = tuple(row.fields.get("perspectives", example.grounding.perspectives))
    arguments = numbered_arguments(Grounding(example.grounding.texts, sides))
    return AnnotationItem(example.id, "\n".join(example.history), arguments, example.response)


def _other_fields(row: ExampleRow) -> dict[str, Any]:
    return {name: value for name, value in row.fields.items() if name not in _DROPPED}
