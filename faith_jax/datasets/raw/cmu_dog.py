"""CMU-DoG (Zhou 2018): two people talk about a film, while one or both of them read about it.

Each turn of a reading speaker is an example; consecutive utterances of a speaker are one turn.
"""

import functools
import itertools
import pathlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec

from faith_jax.core.errors import InputError, field_error
from faith_jax.core.rows import BadRows, Row, read_json, read_jsonl
from faith_jax.core.schema import Text, Whole, read_as
from faith_jax.datasets.json_items import read_object
from faith_jax.datasets.raw_dataset import Examples, Paths, load_card

_FILMS = "WikiData/"
_User = Literal["user1", "user2"]


class _RawFilm(msgspec.Struct):
    """A film: three scenes, and facts by name, each a text or a list of texts."""

    wikiDocumentIdx: Whole
    facts: dict[str, str | list[str]] = msgspec.field(name="0")
    scene_1: Text = msgspec.field(name="1")
    scene_2: Text = msgspec.field(name="2")
    scene_3: Text = msgspec.field(name="3")


class _Utterance(msgspec.Struct):
    """An utterance of a user, and the section that was shown at the time."""

    uid: _User
    docIdx: Annotated[int, msgspec.Meta(ge=0, le=3)]
    text: str  # some are blank in the authors' files, and are skipped


class _Conversation(msgspec.Struct):
    """A conversation, with its rating and whether the users finished it."""

    conversation_id: Text
    wikiDocumentIdx: Whole
    whoSawDoc: Annotated[list[_User], msgspec.Meta(min_length=1)]
    history: Annotated[list[_Utterance], msgspec.Meta(min_length=1)]
    rating: Whole | bool = 0
    status: Whole | bool = 0


# A film's name, and the texts of its four sections.
Film = tuple[str, tuple[str, ...]]


def read_films(path: pathlib.Path, bad_rows: BadRows) -> dict[int, Film]:
    """Returns the films by their numbers, from the folder WikiData or a JSON file of all films."""
    if path.is_dir():
        rows = _json_files(path, bad_rows)
    else:
        rows = (row for _, row in read_object(path, bad_rows=bad_rows))
    return dict(read_as(_RawFilm, rows, _parse_film, bad_rows))


def _parse_film(film: _RawFilm, place: str) -> Iterator[tuple[int, Film]]:
    name = film.facts.get("movieName")
    if not isinstance(name, str) or not name:
        raise field_error(place, "0.movieName", "a text that is not empty", name)
    facts = []  # the first section
    for key, value in film.facts.items():
        values = [text for text in (value if isinstance(value, list) else [value]) if text]
        label = "movie name" if key == "movieName" else key.replace("_", " ")
        if values:
            facts.append(f"{label}: {', '.join(values)}")
    sections = (" ".join(facts), film.scene_1, film.scene_2, film.scene_3)
    yield film.wikiDocumentIdx, (name, sections)


def read_turns(path: pathlib.Path, films: Mapping[int, Film], bad_rows: BadRows) -> Examples:
    """Yields the turns of all conversations.

    `path` is a folder with a JSON file for each conversation, or a JSON lines file whose rows have
    the field `conversation_id`; `films` come from `read_films`.
    """
    rows = _json_files(path, bad_rows) if path.is_dir() else read_jsonl(path, bad_rows)
    return read_as(_Conversation, rows, functools.partial(_build_turns, films=films), bad_rows)


def _json_files(folder: pathlib.Path, bad_rows: BadRows) -> Iterator[Row]:
    """Yields the objects in a folder's JSON files, sorted by file name, which is the default id."""
    for path in sorted(folder.glob("*.json")):
        try:
            fields = read_json(path, InputError)
        except InputError as error:
            bad_rows.add(error)
        else:
            yield Row(str(path), {"conversation_id": path.stem, **fields})


def _build_turns(conversation: _Conversation, place: str, films: Mapping[int, Film]) -> Examples:
    number = conversation.wikiDocumentIdx
    if number not in films:
        raise field_error(place, "wikiDocumentIdx", f"the number of a film in {_FILMS}", number)
    title, sections = films[number]
    spoken = [utterance for utterance in conversation.history if utterance.text]
    history: list[str] = []
    for turn, (user, run) in enumerate(
        itertools.groupby(spoken, key=lambda utterance: utterance.uid)
    ):
        utterances = list(run)
        text = " ".join(utterance.text for utterance in utterances)
        docs_shown = list(dict.fromkeys(utterance.docIdx for utterance in utterances))
        if user in conversation.whoSawDoc:
            yield {
                "id": f"{conversation.conversation_id}-{turn}",
                "dialogue": conversation.conversation_id,
                "turn": turn,
                "film": title,
                "speaker": user,
                "sections": [str(section) for section in docs_shown],
                "knowledge": " ".join(sections[section] for section in docs_shown),
                "history": list(history),
                "response": text,
                "rating": int(conversation.rating),
                "finished": int(conversation.status),
            }
        history.append(text)


def _read_examples(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    conversations, films = paths.values()
    return read_turns(conversations, read_films(films, bad_rows), bad_rows)


CMU_DOG = load_card("cmu_dog", _read_examples)
