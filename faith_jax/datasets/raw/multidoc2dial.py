"""MultiDoc2Dial (Feng 2021): dialogues of a user and an agent who reads documents of an office.

Two forms of the same files:

- `MULTIDOC2DIAL` is Nandwani 2023's, as their code makes it (process_md2d.py of pmi-faith, with
  segmentation_type="passage"). Every turn of the agent is one example, so that a split has as many
  as its dialogues have turns of the agent: 24,603, 4,699 and 4,567 (table 2). It does not matter
  who spoke before, whether the turn gives an answer, or whether it refers to anything; without
  references its knowledge is empty. The knowledge is the whole passage of each reference, once
  each, in the references' order: the neighbouring spans of a document under the same title,
  heading included (166 words on average). Neighbouring turns of one speaker are one utterance of
  the history, which begins with the speaker's name.
- `MULTIDOC2DIAL_SPANS` is the shared task's (doc2dial_pub.py of multidoc2dial): one example for
  each turn of the agent that answers the user. The knowledge is the text from the first to the
  last span that the turn refers to (15 to 40 words).
"""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import InputError
from faith_jax.core.fields import (
    choice_field,
    field_error,
    integer_field,
    list_field,
    object_field,
    optional_text,
    required,
    text_field,
)
from faith_jax.core.json_items import read_arrays, read_object
from faith_jax.core.rows import BadRows, Row, parsed
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, TEXTS, RawDataset, RawFile, files_by_name

_ARCHIVE = "https://doc2dial.github.io/multidoc2dial/file/multidoc2dial.zip"
_SHA256 = "sha256:f0c034c249663d7b3cb08b19cf2cc2c3d101372485be982621d4711931a1ce00"
_DOCUMENTS = "multidoc2dial_doc.json"
_USER, _AGENT = "user", "agent"


class Span(NamedTuple):
    """A part of a document that a turn may refer to.

    Attributes:
      start: of the part in the document's text, in characters.
      end: behind its last character.
      section: the text of the section that holds it, or "".
    """

    start: int
    end: int
    section: str


class Document(NamedTuple):
    """A document.

    Attributes:
      title: its title.
      text: all of it, as published: spans count its characters.
      spans: its parts by their ids.
      passages: the text of the passage that each span lies in, by the span's id; empty where
        spans alone are read.
    """

    title: str
    text: str
    spans: Mapping[str, Span]
    passages: Mapping[str, str]


def read_documents(
    path: pathlib.Path, bad_rows: BadRows, passages: bool = False
) -> dict[str, Document]:
    """Returns the documents of multidoc2dial_doc.json by their ids, over all domains.

    Args:
      path: the file.
      bad_rows: what to do with a bad domain or document.
      passages: read them too; spans then need `title` and `text_sp`.
    """
    documents: dict[str, Document] = {}
    for _, domain in read_object(path, "doc_data", bad_rows):
        rows = [
            Row(f"{domain.place}[{key!r}]", {"document": domain.fields[key], "id": key})
            for key in domain.fields
        ]
        read = functools.partial(_document, passages=passages)
        documents |= dict(parsed(rows, read, bad_rows))
    return documents


def _document(row: Mapping[str, Any], place: str, passages: bool) -> tuple[str, Document]:
    fields = object_field(row, "document", place)
    text_field(fields, "doc_text", place)
    text = fields["doc_text"]  # not stripped: spans count its characters
    spans = {}
    for key, span, where in _spans(fields, place):
        start = integer_field(span, "start_sp", where)
        end = integer_field(span, "end_sp", where)
        if not 0 <= start < end <= len(text):
            expected = f"0 <= start_sp < end_sp <= {len(text)}, the document's characters"
            raise field_error(where, "end_sp", expected, [start, end])
        spans[key] = Span(start, end, optional_text(span, "text_sec", where))
    found = _passages(fields, place) if passages else {}
    return row["id"], Document(text_field(fields, "title", place), text, spans, found)


def _spans(fields: Mapping[str, Any], place: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yields id, fields and place of each span of a document."""
    for key, value in object_field(fields, "spans", place).items():
        where = f"{place}.spans[{key!r}]"
        yield key, object_field({key: value}, key, where), where


def _passages(fields: Mapping[str, Any], place: str) -> dict[str, str]:
    """Returns each span's passage: the spans next to it, by number, that share its title."""
    numbered = []
    for key, span, where in _spans(fields, place):
        if not key.isdecimal():
            raise field_error(place, f"spans[{key!r}]", "a whole number as the span's id", key)
        for field in ("title", "text_sp"):
            required(span, field, where)
            optional_text(span, field, where)
        numbered.append((int(key), span["title"] or "", key, span["text_sp"] or ""))
    passages: dict[str, str] = {}
    for _, group in itertools.groupby(sorted(numbered), key=lambda span: span[1]):
        members = list(group)
        text = "".join(part for *_, part in members)
        passages |= {key: text for _, _, key, _ in members}
    return passages


def read_turns(
    path: pathlib.Path,
    documents: Mapping[str, Document],
    bad_rows: BadRows,
    passages: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yields the agent's turns of a file; see `MULTIDOC2DIAL.features`.

    Args:
      path: multidoc2dial_dial_{train,validation,test}.json.
      documents: from `read_documents`.
      bad_rows: what to do with a bad dialogue or turn.
      passages: all turns of the agent, with passages; else those that answer the user, with
        spans.
    """
    for domain, dialogue in read_arrays(path, "dial_data", bad_rows):
        try:
            turns = _agent_turns(dialogue, domain, passages)
        except InputError as error:
            bad_rows.add(error)
            continue
        read = functools.partial(_turn, documents=documents, passages=passages)
        yield from parsed(turns, read, bad_rows)


def _agent_turns(dialogue: Row, domain: str, passages: bool) -> list[Row]:
    """Returns a row for each turn of the agent, or for each that answers the user.

    Its id is that of the dialogue and of the agent's turn, or, as in the shared task, of the
    user's.
    """
    place, fields = dialogue
    name = text_field(fields, "dial_id", place)
    rows: list[Row] = []
    said: list[tuple[str, str]] = []
    asked = None
    for number, turn in enumerate(list_field(fields, "turns", place, of="turn")):
        where = f"{place}.turns[{number}]"
        if not isinstance(turn, dict):
            raise field_error(place, f"turns[{number}]", "an object", turn)
        role = choice_field(turn, "role", where, (_USER, _AGENT))
        turn_id = integer_field(turn, "turn_id", where)
        if role == _AGENT and (passages or asked is not None):
            example = {
                "id": f"{name}#{turn_id}" if passages else f"{name}_{asked}",
                "dialogue": name,
                "turn": turn_id,
                "domain": domain,
                "history": _by_speaker(said) if passages else [text for _, text in said],
            }
            rows.append(Row(where, turn | {"_example": example}))
        asked = turn_id if role == _USER else None
        said.append((role, text_field(turn, "utterance", where)))
    return rows


def _by_speaker(said: Iterable[tuple[str, str]]) -> list[str]:
    """Returns utterances that begin with their speaker; neighbouring ones of a speaker are one.

    >>> _by_speaker([("user", "Hi"), ("agent", "Hello"), ("agent", "What is it?")])
    ['user: Hi', 'agent: Hello. What is it?']
    """
    return [
        f"{speaker}: {'. '.join(text for _, text in turns)}"
        for speaker, turns in itertools.groupby(said, key=lambda turn: turn[0])
    ]


def _turn(
    row: Mapping[str, Any], place: str, documents: Mapping[str, Document], passages: bool
) -> dict[str, Any]:
    references = _references(row, documents, place)
    referred: dict[str, list[str]] = {}
    for name, key in references:
        referred.setdefault(name, []).append(key)
    if passages:
        texts = [documents[name].passages[key].strip() for name, key in references]
    else:
        texts = [_from_first_to_last(documents[name], keys) for name, keys in referred.items()]
    sections = [
        documents[name].spans[key].section for name, keys in referred.items() for key in keys
    ]
    return row["_example"] | {
        "dialogue_act": optional_text(row, "da", place),
        "knowledge": " ".join(dict.fromkeys(texts) if passages else texts),
        "sections": [section for section in dict.fromkeys(sections) if section],
        "documents": list(referred),
        "titles": [documents[name].title for name in referred],
        "response": text_field(row, "utterance", place),
    }


def _from_first_to_last(document: Document, keys: Sequence[str]) -> str:
    """Returns the text from the first to the last span, what lies between them included."""
    start = min(document.spans[key].start for key in keys)
    end = max(document.spans[key].end for key in keys)
    return document.text[start:end].strip()


def _references(
    row: Mapping[str, Any], documents: Mapping[str, Document], place: str
) -> list[tuple[str, str]]:
    """Returns the ids of the document and of the span of each of a turn's references."""
    found = []
    for number, item in enumerate(list_field(row, "references", place, minimum=0)):
        where = f"{place}.references[{number}]"
        reference = object_field({"reference": item}, "reference", where)
        name = text_field(reference, "doc_id", where)
        # Doc2Dial, the data set before this one, calls the field sp_id.
        key = text_field(reference, "sp_id" if "sp_id" in reference else "id_sp", where)
        if name not in documents:
            remedy = f"{_DOCUMENTS} has no such document"
            raise field_error(where, "doc_id", "the id of a document", name, remedy)
        if key not in documents[name].spans:
            raise field_error(where, "id_sp", f"the id of a span of {name}", key)
        found.append((name, key))
    return found


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows, passages: bool
) -> Iterator[dict[str, Any]]:
    documents = read_documents(paths[_DOCUMENTS], bad_rows, passages)
    for name, path in paths.items():
        if name != _DOCUMENTS:
            yield from read_turns(path, documents, bad_rows, passages)


_DIALOGUES = {
    split: f"multidoc2dial_dial_{split}.json" for split in ("train", "validation", "test")
}

MULTIDOC2DIAL = RawDataset(
    name="multidoc2dial",
    splits={split: (name, _DOCUMENTS) for split, name in _DIALOGUES.items()},
    files=files_by_name(
        *(
            RawFile(name, _ARCHIVE, _SHA256, member=f"multidoc2dial/{name}")
            for name in (*_DIALOGUES.values(), _DOCUMENTS)
        )
    ),
    features={
        "id": TEXT,
        "dialogue": TEXT,
        "turn": INTEGER,
        "domain": TEXT,
        "history": TEXTS,
        "dialogue_act": TEXT,
        "knowledge": TEXT,
        "sections": TEXTS,
        "documents": TEXTS,
        "titles": TEXTS,
        "response": TEXT,
    },
    read=functools.partial(_read, passages=True),
    description=(
        "Dialogues about documents of public offices; one example for each turn of the agent. "
        "`knowledge` is the passages that hold the spans which the turn refers to, and empty "
        "where it refers to none; `sections` are those that hold the spans."
    ),
    homepage="https://doc2dial.github.io/multidoc2dial/",
    licence="Apache-2.0",
    citation="""
@inproceedings{feng2021multidoc2dial,
  title = {{MultiDoc2Dial}: Modeling Dialogues Grounded in Multiple Documents},
  author = {Feng, Song and Patel, Siva Sankalp and Wan, Hui and Joshi, Sachindra},
  booktitle = {Proceedings of the 2021 Conference on Empirical Methods in Natural Language
               Processing},
  year = {2021},
}
""",
    by_hand=f"Get {_ARCHIVE} and unpack it.",
)

MULTIDOC2DIAL_SPANS = dataclasses.replace(
    MULTIDOC2DIAL,
    read=functools.partial(_read, passages=False),
    description=(
        "Dialogues about documents of public offices; one example for each turn of the agent that "
        "answers the user. `knowledge` is the text from the first to the last span that the turn "
        "refers to, and empty where it refers to none; `sections` are those that hold the spans."
    ),
)
