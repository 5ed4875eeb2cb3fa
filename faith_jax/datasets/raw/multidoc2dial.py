"""MultiDoc2Dial (Feng 2021): dialogues of a user and an agent who reads documents of an office.

The same files are read in two forms:

- `MULTIDOC2DIAL` is the form of Nandwani 2023, as made by their code (process_md2d.py of pmi-faith
  with segmentation_type="passage"). Every turn of the agent is an example (24,603, 4,699 and 4,567;
  table 2), whoever spoke before, with or without references. The knowledge is the whole passage of
  each reference, in order and without repeats. A passage is all neighbouring spans of a document
  under the same title, with the heading (166 words on average). Consecutive turns of a speaker are
  one utterance of the history, which begins with the speaker's name.
- `MULTIDOC2DIAL_SPANS` is the form of the shared task (doc2dial_pub.py of multidoc2dial): an
  example is a turn of the agent that answers the user. The knowledge is the text from the first to
  the last span that the turn refers to (15 to 40 words).
"""

import functools
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from faith_jax.core.errors import InputError, field_error
from faith_jax.core.rows import BadRows, Row
from faith_jax.core.schema import Text, Whole, read_as
from faith_jax.datasets.json_items import read_arrays, read_object
from faith_jax.datasets.raw_dataset import Examples, Paths, load_card

_DOCUMENTS = "multidoc2dial_doc.json"
_USER, _AGENT = "user", "agent"


class _Span(msgspec.Struct):
    """A part of a document that a turn may refer to, in characters of the document's text.

    The texts of the span, its title and its section are as published, with surrounding white space.
    """

    start_sp: Whole
    end_sp: Whole
    text_sp: str = ""
    title: str = ""
    text_sec: str = ""


class _RawDocument(msgspec.Struct):
    """A document as published."""

    title: Text
    doc_text: Text
    spans: dict[str, _Span]


class _Document(NamedTuple):
    """A document, with its text as published, since spans refer to its characters.

    `passages` maps a span's id to the text of its passage: neighbouring spans with the same title.
    """

    title: str
    text: str
    spans: Mapping[str, _Span]
    passages: Mapping[str, str]


class _Reference(msgspec.Struct):
    """A span that a turn refers to; Doc2Dial, the predecessor, calls the id sp_id."""

    doc_id: Text
    id_sp: str = ""
    sp_id: str = ""


class _Turn(msgspec.Struct):
    """A turn, with its dialogue act."""

    role: Literal["user", "agent"]
    turn_id: Whole
    utterance: Text
    da: str = ""
    references: list[_Reference] = []


class _Dialogue(msgspec.Struct):
    """A dialogue."""

    dial_id: Text
    turns: Annotated[list[_Turn], msgspec.Meta(min_length=1)]


def _read_documents(path: pathlib.Path, bad_rows: BadRows, passages: bool) -> dict[str, _Document]:
    """Returns the documents of all domains in multidoc2dial_doc.json, by id.

    With `passages`, the spans of a document must have texts.
    """
    documents: dict[str, _Document] = {}
    make = functools.partial(_build_document, passages=passages)
    for _, domain in read_object(path, "doc_data", bad_rows):
        for key, fields in domain.fields.items():
            row = Row(f"{domain.place}[{key!r}]", fields)
            for document in read_as(_RawDocument, [row], make, bad_rows, strip=False):
                documents[key] = document
    return documents


def _build_document(raw: _RawDocument, place: str, passages: bool) -> Iterator[_Document]:
    numbered = []
    if passages and raw.spans and not any(span.text_sp for span in raw.spans.values()):
        raise InputError(f"{place}: field 'text_sp' is missing in all spans; passages need it.")
    for key, span in raw.spans.items():
        if not 0 <= span.start_sp < span.end_sp <= len(raw.doc_text):
            expected = f"start_sp < end_sp <= {len(raw.doc_text)}, the document's characters"
            got = [span.start_sp, span.end_sp]
            raise field_error(place, f"spans[{key!r}].end_sp", expected, got)
        if not key.isdecimal():
            raise field_error(place, f"spans[{key!r}]", "a whole number as the span's id", key)
        numbered.append((int(key), span.title, key, span.text_sp))
    texts_by_span: dict[str, str] = {}
    for _, group in itertools.groupby(sorted(numbered), key=lambda span: span[1]):
        members = list(group)
        text = "".join(part for *_, part in members)
        texts_by_span |= {key: text for _, _, key, _ in members}
    yield _Document(raw.title.strip(), raw.doc_text, raw.spans, texts_by_span)


def _agent_turns(
    dialogue: _Dialogue, place: str, domain: str, documents: Mapping[str, _Document], passages: bool
) -> Examples:
    """Yields each turn of the agent (with `passages`), or only turns that answer the user.

    The id contains the id of the agent's turn, or, as in the shared task, of the user's turn.
    """
    utterances: list[tuple[str, str]] = []
    question_id = None
    for number, turn in enumerate(dialogue.turns):
        if turn.role == _AGENT and (passages or question_id is not None):
            name = dialogue.dial_id
            yield {
                "id": f"{name}#{turn.turn_id}" if passages else f"{name}_{question_id}",
                "dialogue": name,
                "turn": turn.turn_id,
                "domain": domain,
                "history": _by_speaker(utterances) if passages else [t for _, t in utterances],
                "dialogue_act": turn.da,
                "response": turn.utterance,
                **_collect_knowledge(turn, f"{place}.turns[{number}]", documents, passages),
            }
        question_id = turn.turn_id if turn.role == _USER else None
        utterances.append((turn.role, turn.utterance))


def _by_speaker(utterances: Iterable[tuple[str, str]]) -> list[str]:
    """Returns utterances that begin with their speaker, joining consecutive turns of a speaker.

    >>> _by_speaker([("user", "Hi"), ("agent", "Hello"), ("agent", "What is it?")])
    ['user: Hi', 'agent: Hello. What is it?']
    """
    return [
        f"{speaker}: {'. '.join(text for _, text in turns)}"
        for speaker, turns in itertools.groupby(utterances, key=lambda turn: turn[0])
    ]


def _collect_knowledge(
    turn: _Turn, place: str, documents: Mapping[str, _Document], passages: bool
) -> dict[str, Any]:
    """Returns the features of the documents and spans that a turn refers to."""
    referred: dict[str, list[_Span]] = {}
    passage_texts: dict[str, None] = {}
    for number, reference in enumerate(turn.references):
        name, key = reference.doc_id, reference.sp_id or reference.id_sp
        if name not in documents:
            field, remedy = f"references[{number}].doc_id", f"{_DOCUMENTS} has no such document"
            raise field_error(place, field, "the id of a document", name, remedy)
        document = documents[name]
        if key not in document.spans:
            expected = f"the id of a span of {name}"
            raise field_error(place, f"references[{number}].id_sp", expected, key)
        referred.setdefault(name, []).append(document.spans[key])
        passage_texts[document.passages[key].strip()] = None
    # The text from the first to the last span of each document, including the text between them.
    span_texts = [
        documents[name].text[min(s.start_sp for s in spans) : max(s.end_sp for s in spans)].strip()
        for name, spans in referred.items()
    ]
    sections = [span.text_sec.strip() for spans in referred.values() for span in spans]
    return {
        "knowledge": " ".join(passage_texts if passages else span_texts),
        "sections": list(dict.fromkeys(filter(None, sections))),
        "documents": list(referred),
        "titles": [documents[name].title for name in referred],
    }


def _read_examples(paths: Paths, split: str, bad_rows: BadRows, passages: bool) -> Examples:
    documents = _read_documents(paths[_DOCUMENTS], bad_rows, passages)
    make = functools.partial(_agent_turns, documents=documents, passages=passages)
    for path in (path for name, path in paths.items() if name != _DOCUMENTS):
        for domain, dialogue in read_arrays(path, "dial_data", bad_rows):
            in_domain = functools.partial(make, domain=domain)
            yield from read_as(_Dialogue, [dialogue], in_domain, bad_rows)


MULTIDOC2DIAL = load_card("multidoc2dial", functools.partial(_read_examples, passages=True))
MULTIDOC2DIAL_SPANS = load_card(
    "multidoc2dial", functools.partial(_read_examples, passages=False), part="spans"
)
