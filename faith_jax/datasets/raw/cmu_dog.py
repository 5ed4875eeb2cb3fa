"""CMU-DoG (Zhou 2018): two people talk about a film, one or both of whom read about it meanwhile.

One example for each turn of a speaker who reads; consecutive utterances of a speaker are one turn.
"""

import itertools
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.fields import (
    checked_text,
    choice_field,
    field_error,
    integer_field,
    is_blank,
    list_field,
    object_field,
    required,
    text_field,
)
from faith_jax.core.json_items import read_object
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.rows import BadRows, Row, decoded, parsed, read_lines
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, TEXTS, RawDataset, RawFile, files_by_name

_COMMIT = "618a14f27546165859305649aa84e6ac8710bb63"
_HOMEPAGE = "https://github.com/festvox/datasets-CMU_DoG"
_FILMS = "WikiData/"
_USERS = ("user1", "user2")
_SCENES = ("1", "2", "3")

# A film's name, and the texts of its four sections.
Film = tuple[str, tuple[str, ...]]


def read_films(path: pathlib.Path, bad_rows: BadRows) -> dict[int, Film]:
    """Returns the films by their numbers.

    Args:
      path: the folder WikiData, or one JSON file with all films by name.
      bad_rows: what to do with a bad film.
    """
    if path.is_dir():
        rows = _json_files(path, bad_rows)
    else:
        rows = (row for _, row in read_object(path, bad_rows=bad_rows))
    return dict(parsed(rows, _film, bad_rows))


def _film(row: Mapping[str, Any], place: str) -> tuple[int, Film]:
    facts = object_field(row, "0", place)
    where = f"{place}['0']"
    name = text_field(facts, "movieName", where)
    scenes = [text_field(row, number, place) for number in _SCENES]
    return integer_field(row, "wikiDocumentIdx", place), (
        name,
        (_facts_text(facts, where), *scenes),
    )


def _facts_text(facts: Mapping[str, Any], place: str) -> str:
    """Returns what the first section says, as `name: value`, lists joined by commas.

    The authors' files have some empty texts in lists.
    """
    parts = []
    for key, value in facts.items():
        values = value if isinstance(value, list) else [value]
        texts = [checked_text(v, key, place) for v in values if not is_blank(v)]
        name = "movie name" if key == "movieName" else key.replace("_", " ")
        if texts:
            parts.append(f"{name}: {', '.join(texts)}")
    return " ".join(parts)


def read_turns(
    path: pathlib.Path, films: Mapping[int, Film], bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    """Yields the turns of all conversations; see `CMU_DOG.features`.

    Args:
      path: a folder with one JSON file for each conversation, or a JSON lines file with one on
        each line, named by its field `conversation_id`.
      films: from `read_films`.
      bad_rows: what to do with a bad conversation.
    """
    rows = _json_files(path, bad_rows) if path.is_dir() else read_jsonl(path, bad_rows)
    conversations = (Row(row.place, {**row.fields, "_films": films}) for row in rows)
    for turns in parsed(conversations, _turns, bad_rows):
        yield from turns


def _json_files(folder: pathlib.Path, bad_rows: BadRows) -> Iterator[Row]:
    """Yields the objects of a folder's JSON files, in the order of their names.

    Each gets the field `conversation_id`, its file's name.
    """
    for path in sorted(folder.glob("*.json")):
        place = str(path)
        try:
            fields = json.loads(decoded(b"".join(read_lines(path)), place))
            if not isinstance(fields, dict):
                raise InputError(f"{place}: expected a JSON object.")
        except (ValueError, RecursionError) as error:
            if not isinstance(error, InputError):
                error = InputError(f"{place}: not valid JSON: {error}; get the file again.")
            bad_rows.add(error)
            continue
        yield Row(place, {"conversation_id": path.stem, **fields})


def _turns(row: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    name = text_field(row, "conversation_id", place)
    number = integer_field(row, "wikiDocumentIdx", place)
    if number not in row["_films"]:
        raise field_error(place, "wikiDocumentIdx", f"the number of a film in {_FILMS}", number)
    title, sections = row["_films"][number]
    readers = _readers(row, place)
    shared = {
        "dialogue": name,
        "film": title,
        "rating": integer_field(row, "rating", place, default=0),
        "finished": integer_field(row, "status", place, default=0),
    }
    examples: list[dict[str, Any]] = []
    history: list[str] = []
    for turn, (user, utterances) in enumerate(_merged(row, place)):
        text = " ".join(text for text, _ in utterances)
        shown = list(dict.fromkeys(section for _, section in utterances))
        if user in readers:
            about = {
                "id": f"{name}-{turn}",
                "turn": turn,
                "speaker": user,
                "sections": [str(section) for section in shown],
                "knowledge": " ".join(sections[section] for section in shown),
                "history": list(history),
                "response": text,
            }
            examples.append(shared | about)
        history.append(text)
    return examples


def _readers(row: Mapping[str, Any], place: str) -> list[str]:
    users = list_field(row, "whoSawDoc", place, of="user")
    for number, user in enumerate(users):
        field = f"whoSawDoc[{number}]"
        choice_field({field: user}, field, place, _USERS)
    return users


def _merged(row: Mapping[str, Any], place: str) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yields runs of utterances of one user, each with the section shown meanwhile.

    The authors' files have some blank utterances, which say nothing.
    """
    said = []
    for number, item in enumerate(list_field(row, "history", place, of="utterance")):
        where = f"{place}.history[{number}]"
        utterance = object_field({"utterance": item}, "utterance", where)
        user = choice_field(utterance, "uid", where, _USERS)
        section = integer_field(utterance, "docIdx", where)
        if not 0 <= section <= len(_SCENES):
            raise field_error(where, "docIdx", f"a section from 0 to {len(_SCENES)}", section)
        if not is_blank(required(utterance, "text", where)):
            said.append((user, text_field(utterance, "text", where), section))
    for user, run in itertools.groupby(said, key=lambda item: item[0]):
        yield user, [(text, section) for _, text, section in run]


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    conversations, films = paths.values()
    return read_turns(conversations, read_films(films, bad_rows), bad_rows)


_FOLDERS = {
    split: f"Conversations/{folder}/"
    for split, folder in (("train", "train"), ("validation", "valid"), ("test", "test"))
}

CMU_DOG = RawDataset(
    name="cmu_dog",
    splits={split: (folder, _FILMS) for split, folder in _FOLDERS.items()},
    files=files_by_name(*map(RawFile, (*_FOLDERS.values(), _FILMS))),
    features={
        "id": TEXT,
        "dialogue": TEXT,
        "turn": INTEGER,
        "film": TEXT,
        "speaker": TEXT,
        "sections": TEXTS,
        "knowledge": TEXT,
        "history": TEXTS,
        "response": TEXT,
        "rating": INTEGER,
        "finished": INTEGER,
    },
    read=_read,
    description=(
        "Conversations about films; one example for each turn of a speaker who reads about the "
        "film meanwhile. `knowledge` is the section that the speaker was shown (0 = facts, 1 to 3 "
        "= scenes), `rating` the conversation's, from 1 (low) to 3."
    ),
    homepage=_HOMEPAGE,
    licence="none stated by its authors",
    citation="""
@inproceedings{zhou2018dataset,
  title = {A Dataset for Document Grounded Conversations},
  author = {Zhou, Kangyan and Prabhumoye, Shrimai and Black, Alan W},
  booktitle = {Proceedings of the 2018 Conference on Empirical Methods in Natural Language
               Processing},
  year = {2018},
}
""",
    by_hand=(
        f"Clone {_HOMEPAGE} and check out {_COMMIT}; its folders Conversations/train, "
        "Conversations/valid, Conversations/test and WikiData are read."
    ),
)
