import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw.cmu_dog import CMU_DOG, read_films, read_turns
from tests.paths import REAL, needs_shared

FACTS = {
    "movieName": "Moons",
    "year": "1999",
    "cast": ["A B as C", "", "D"],
    "critical_response": [],
}
FILM = {"0": FACTS, "1": "One.", "2": "Two. ", "3": "Three.", "wikiDocumentIdx": 4}
FIRST = "movie name: Moons year: 1999 cast: A B as C, D"


def said(user, text, section=0):
    return {"uid": user, "text": text, "docIdx": section, "utcTimestamp": "t"}


def read(tmp_path, *history, film=FILM, readers=("user1",)):
    folders = {name: tmp_path / name for name in CMU_DOG.splits["test"]}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    talk = {"history": history, "wikiDocumentIdx": 4, "whoSawDoc": readers}
    talk |= {"rating": 3, "status": True}
    (tmp_path / "Conversations/test/c0.json").write_text(json.dumps(talk), encoding="utf-8")
    (tmp_path / "WikiData/Moons.json").write_text(json.dumps(film), encoding="utf-8")
    return list(CMU_DOG.examples(folders, "test"))


def test_fields_of_a_turn(tmp_path):
    (row,) = read(tmp_path, said("user2", " Hi. "), said("user1", "It is of 1999."))
    assert row == {
        "id": "c0-1",
        "dialogue": "c0",
        "turn": 1,
        "film": "Moons",
        "speaker": "user1",
        "sections": ["0"],
        "knowledge": FIRST,
        "history": ["Hi."],
        "response": "It is of 1999.",
        "rating": 3,
        "finished": 1,
    }
    assert row.keys() == CMU_DOG.features.keys()


def test_utterances_behind_each_other_are_one_turn(tmp_path):
    first, last = read(
        tmp_path,
        said("user1", "a", 1),
        said("user2", " ", 1),  # says nothing and parts nothing
        said("user1", "b", 2),
        said("user1", "c", 1),
        said("user2", "d", 2),
        said("user2", "e", 2),
        said("user1", "f", 3),
    )
    assert (first["response"], first["sections"]) == ("a b c", ["1", "2"])
    assert first["knowledge"] == "One. Two."
    assert (last["turn"], last["history"], last["knowledge"]) == (2, ["a b c", "d e"], "Three.")


def test_both_may_read(tmp_path):
    rows = read(tmp_path, said("user1", "a"), said("user2", "b"), readers=("user1", "user2"))
    assert [row["speaker"] for row in rows] == ["user1", "user2"]


def test_bad_films_and_files(tmp_path):
    nameless = FILM | {"0": FACTS | {"movieName": ""}}
    with pytest.raises(InputError, match=r"Moons\.json: field '0.movieName'"):
        read(tmp_path, said("user1", "a"), film=nameless)
    (tmp_path / "Conversations/test/c0.json").write_text('{"a": ', encoding="utf-8")
    with pytest.raises(InputError, match=r"c0\.json: not valid JSON: .*; get the file again"):
        list(read_turns(tmp_path / "Conversations/test", {}, BadRows()))


@needs_shared
def test_the_real_sample():
    folder = REAL / "cmu_dog"
    films = read_films(folder / "wikidata.json", BadRows())
    rows = list(read_turns(folder / "conversations_valid_40.jsonl", films, BadRows()))
    assert len(films) == 30
    assert (len(rows), len({row["dialogue"] for row in rows})) == (797, 40)
    assert all(row["knowledge"] for row in rows)
