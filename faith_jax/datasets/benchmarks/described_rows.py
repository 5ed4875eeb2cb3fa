"""Data sets of labelled pairs whose cards describe the fields of the raw rows.

The raw files may be CSV, TSV, JSON lines, a JSON array or Parquet. For example, the card of
LLM-AggreFact (cards/llm_aggrefact.toml) has:

    [row]
    corpus = "dataset"
    grounding = "doc"
    generated_text = "claim"
    label = "label"

    [row.labels]
    1 = 1
    0 = 0
"""

import hashlib
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from faith_jax.core.errors import InputError, field_error
from faith_jax.core.rows import BadRows, parse_rows
from faith_jax.core.schema import Text, convert_row
from faith_jax.datasets.raw_dataset import (
    Examples,
    Paths,
    RawDataset,
    card,
    load_card,
)
from faith_jax.datasets.tables import read_rows


class OtherTexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Groundings that are stored in separate files.

    Attributes:
      ending: the ending of these files' names.
      key: the field that names a text.
      text: the field with the text.
    """

    ending: str
    key: str
    text: str


class RowFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of the fields of a raw row; dots separate the names of nested objects.

    Attributes:
      grounding: a text or a list of texts, which are joined by spaces; with `texts`, a text's name.
      generated_text: the response; or several responses, each with its label.
      label: one of `labels`.
      labels: the meaning of each label: 1 = faithful, 0 = not.
      corpus: the part of the benchmark that the row belongs to; "" = given by the file's name.
      corpora: the name of each part, by the value of the field or the file's name.
      id: unique in the part; "" = the row's number.
      source_id: the id of the document; "" = rows with the same grounding share a document.
      history: a text before the response, such as a question.
      kept: further fields to keep; values that are not texts become JSON.
      texts: the files with the groundings, if they are separate.
    """

    grounding: str
    generated_text: str | dict[str, Literal[0, 1]]
    label: str = ""
    labels: dict[str, Literal[0, 1]] = {}
    corpus: str = ""
    corpora: dict[str, str] = {}
    id: str = ""
    source_id: str = ""
    history: str = ""
    kept: tuple[str, ...] = ()
    texts: OtherTexts | None = None

    @property
    def responses(self) -> dict[str, int | None]:
        """The fields of responses with their labels; None = the row has the label."""
        if isinstance(self.generated_text, str):
            return {self.generated_text: None}
        return {**self.generated_text}

    def kinds(self) -> dict[str, Any]:
        """Returns the type of each field that a row must have."""
        names = [self.id, self.source_id, self.history, *self.responses]
        kinds: dict[str, Any] = {name: Text for name in names if name}
        kinds[self.grounding] = Text if self.texts else Text | list[str]
        if self.label:
            kinds[self.label] = _build_literal_type(self.labels)
        if self.corpus:
            kinds[self.corpus] = _build_literal_type(self.corpora) if self.corpora else Text
        return kinds


class _Schema:
    """The fields of a raw row that are read, with their types."""

    def __init__(self, kinds: Mapping[str, Any]):
        # The fields of a Struct need names that are valid in Python.
        names = {f"field_{number}": name for number, name in enumerate(kinds)}
        fields = zip(names, kinds.values(), strict=True)
        self._struct = msgspec.defstruct("DescribedRow", fields, rename=names)
        self._names = list(kinds)
        # The nested objects, outer ones first: of "a.b.c", "a" and "a.b".
        self._objects = [n[:end] for n in kinds for end, sign in enumerate(n) if sign == "."]

    def values(self, row: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Returns the values of a row's fields by name; an InputError names the place."""
        fields = {**row}
        for outer in self._objects:
            inner = fields.pop(outer, None)
            if isinstance(inner, Mapping):
                fields |= {f"{outer}.{name}": value for name, value in inner.items()}
        values = msgspec.structs.astuple(convert_row(fields, place, self._struct))
        return dict(zip(self._names, values, strict=True))


def load_row_card(name: str, part: str = "") -> RawDataset:
    """Returns the data set of a card that has a `row`, or one of the card's `parts`."""
    fields = convert_row(card(name, part)["row"], f"cards/{name}.toml: row", RowFields, strip=False)

    def read(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
        schema = _Schema(fields.kinds())  # built here: Beam sends workers no types
        ending = fields.texts.ending if fields.texts else None
        text_files = [path for path in paths.values() if ending and path.name.endswith(ending)]
        text_of = text_finder(fields.texts, text_files) if fields.texts else None
        for path in paths.values():
            if path not in text_files:
                yield from _file_examples(path, fields, schema, text_of, bad_rows)

    return load_card(name, read, part)


def source_of(grounding: str) -> str:
    """Returns a name for a document without one, derived from its text."""
    return hashlib.sha256(grounding.encode()).hexdigest()[:16]


def _file_examples(
    path: pathlib.Path,
    fields: RowFields,
    schema: _Schema,
    text_of: Callable[[str, str], str] | None,
    bad_rows: BadRows,
) -> Examples:
    number = 0

    def parse(raw: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
        nonlocal number
        number += 1  # counts rows, not lines, so that ids are the same in CSV and Parquet
        values = schema.values(raw, place)
        key = values[fields.grounding]
        texts = [key] if isinstance(key, str) else key
        grounding = text_of(key, place) if text_of else " ".join(texts)
        if not grounding.strip():
            raise field_error(place, fields.grounding, "a text that is not empty", key)
        named_corpus = str(values[fields.corpus]) if fields.corpus else path.stem
        corpus = fields.corpora.get(named_corpus, named_corpus)
        row_id = values.get(fields.id, number)
        shared = {
            "corpus": corpus,
            "source_id": values.get(fields.source_id) or source_of(grounding),
            "grounding": grounding,
            "history": values.get(fields.history, ""),
        }
        for name in fields.kept:
            value = raw.get(name)
            is_text = isinstance(value, str | None)
            shared[name] = (value or "").strip() if is_text else json.dumps(value, default=str)
        return [
            {
                "id": f"{corpus}-{row_id}{f'-{name}' if len(fields.responses) > 1 else ''}",
                "generated_text": values[name],
                "label": fields.labels[str(values[fields.label])] if label is None else label,
                **shared,
            }
            for name, label in fields.responses.items()
        ]

    for examples in parse_rows(read_rows(path, bad_rows=bad_rows), parse, bad_rows):
        yield from examples


def text_finder(texts: OtherTexts, files: Iterable[pathlib.Path]) -> Callable[[str, str], str]:
    """Returns a function that takes a text's name, and a place for errors, and returns the text."""
    schema = _Schema({texts.key: Text, texts.text: Text})
    by_name: dict[str, str] = {}
    names = []
    for file in files:
        names.append(file.name)
        for place, fields in read_rows(file):
            row = schema.values(fields, place)
            by_name[row[texts.key]] = row[texts.text]

    def find(name: str, place: str) -> str:
        if name not in by_name:
            raise InputError(f"{place}: {', '.join(names)} has no {texts.key} {name!r}.")
        return by_name[name]

    return find


def _build_literal_type(meanings: Mapping[str, Any]) -> Any:
    """Returns a Literal of a mapping's keys; keys that are whole numbers may also be ints."""
    numbers = [int(name) for name in meanings if name.isdecimal()]
    return Literal[(*numbers, *meanings)]


LLM_AGGREFACT = load_row_card("llm_aggrefact")
SUMMEDITS = load_row_card("summedits")
WICE = {part: load_row_card("wice", part) for part in ("claims", "subclaims")}
HALUEVAL = {part: load_row_card("halueval", part) for part in ("qa", "dialogue", "summarization")}
TOFUEVAL = {part: load_row_card("tofueval", part) for part in ("mediasum", "meetingbank")}
