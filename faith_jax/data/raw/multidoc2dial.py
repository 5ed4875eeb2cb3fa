"""MultiDoc2Dial (Feng 2021): dialogues of a user and an agent who reads documents of an office.

One example for each turn of the agent that answers the user.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.data.fields import (
    choice_field,
    field_error,
    integer_field,
    list_field,
    object_field,
    optional_text,
    required,
    text_field,
)
from faith_jax.data.json_items import read_arrays, read_object
from faith_jax.data.raw_dataset import INTEGER, TEXT, TEXTS, RawDataset, RawFile, files_by_name
from faith_jax.data.rows import BadRows, Row, parsed
from faith_jax.errors import InputError

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
    """A document with its spans by their ids."""

    title: str
    text: str
    spans: Mapping[str, Span]


def read_documents(path: pathlib.Path, bad_rows: BadRows) -> dict[str, Document]:
    """Returns the documents of multidoc2dial_doc.json by their ids, over all domains.

    Args:
      path: the file.
      bad_rows: what to do with a bad domain or document.
    """
    documents: dict[str, Document] = {}
    for _, domain in read_object(path, "doc_data", bad_rows):
        rows = [
            Row(f"{domain.place}[{key!r}]", {"document": domain.fields[key], "id": key})
            for key in domain.fields
        ]
        documents |= dict(parsed(rows, _document, bad_rows))
    return documents


def _document(row: Mapping[str, Any], place: str) -> tuple[str, Document]:
    fields = object_field(row, "document", place)
    text = required(fields, "doc_text", place)  # not stripped: spans count its characters
    if not isinstance(text, str) or not text.strip():
        raise field_error(place, "doc_text", "a text that is not empty", text)
    spans = {}
    for key, value in object_field(fields, "spans", place).items():
        where = f"{place}.spans[{key!r}]"
        span = object_field({key: value}, key, where)
        start = integer_field(span, "start_sp", where)
        end = integer_field(span, "end_sp", where)
        if not 0 <= start < end <= len(text):
            expected = f"0 <= start_sp < end_sp <= {len(text)}, the document's characters"
            raise field_error(where, "end_sp", expected, [start, end])
        spans[key] = Span(start, end, optional_text(span, "text_sec", where))
    return row["id"], Document(text_field(fields, "title", place), text, spans)


def read_turns(
    path: pathlib.Path, documents: Mapping[str, Document], bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    """Yields the agent's turns of a file; see `MULTIDOC2DIAL.features`.

    Args:
      path: multidoc2dial_dial_{train,validation,test}.json.
      documents: from `read_documents`.
      bad_rows: what to do with a bad dialogue or turn.
    """
    for domain, dialogue in read_arrays(path, "dial_data", bad_rows):
        try:
            turns = _agent_turns(dialogue, domain, documents)
        except InputError as error:
            bad_rows.add(error)
            continue
        yield from parsed(turns, _turn, bad_rows)


def _agent_turns(dialogue: Row, domain: str, documents: Mapping[str, Document]) -> list[Row]:
    """Returns a row for each turn of the agent behind one of the user.

    As in the shared task, its id is that of the dialogue and of the user's turn.
    """
    place, fields = dialogue
    name = text_field(fields, "dial_id", place)
    rows, history, asked = [], [], None
    for number, turn in enumerate(list_field(fields, "turns", place, of="turn")):
        where = f"{place}.turns[{number}]"
        if not isinstance(turn, dict):
            raise field_error(place, f"turns[{number}]", "an object", turn)
        role = choice_field(turn, "role", where, (_USER, _AGENT))
        if role == _AGENT and asked is not None:
            example = {
                "id": f"{name}_{asked}",
                "dialogue": name,
                "turn": integer_field(turn, "turn_id", where),
                "domain": domain,
                "history": list(history),
            }
            rows.append(Row(where, turn | {"_example": example, "_documents": documents}))
        asked = integer_field(turn, "turn_id", where) if role == _USER else None
        history.append(text_field(turn, "utterance", where))
    return rows


def _turn(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    referred = _references(row, row["_documents"], place)
    documents = [row["_documents"][name] for name in referred]
    sections = [
        document.spans[key].section
        for document, keys in zip(documents, referred.values(), strict=True)
        for key in keys
    ]
    return row["_example"] | {
        "dialogue_act": optional_text(row, "da", place),
        "knowledge": " ".join(map(_grounding, documents, referred.values())),
        "sections": [section for section in dict.fromkeys(sections) if section],
        "documents": list(referred),
        "titles": [document.title for document in documents],
        "response": text_field(row, "utterance", place),
    }


def _grounding(document: Document, keys: Sequence[str]) -> str:
    """Returns the text from the first to the last span, what lies between them included.

    So the authors' code has it.
    """
    start = min(document.spans[key].start for key in keys)
    end = max(document.spans[key].end for key in keys)
    return document.text[start:end].strip()


def _references(
    row: Mapping[str, Any], documents: Mapping[str, Document], place: str
) -> dict[str, list[str]]:
    """Returns the ids of the spans that a turn refers to, by the ids of their documents."""
    found: dict[str, list[str]] = {}
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
        found.setdefault(name, []).append(key)
    return found


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    documents = read_documents(paths[_DOCUMENTS], bad_rows)
    for name, path in paths.items():
        if name != _DOCUMENTS:
            yield from read_turns(path, documents, bad_rows)


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
    read=_read,
    description=(
        "Dialogues about documents of public offices; one example for each turn of the agent that "
        "answers the user. `knowledge` is the grounding text, from the first to the last span that "
        "the turn refers to, and empty where there is no answer; `sections` are those that hold "
        "the spans."
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
