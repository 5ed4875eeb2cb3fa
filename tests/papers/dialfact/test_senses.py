"""Texts of a similar sense: the list, WordNet's co-hyponyms, and neighbours among vectors."""

import json

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.papers.dialfact.antonyms import load_antonyms
from faith_jax.papers.dialfact.senses import load_senses
from tests.papers.dialfact import wordnets

# Vectors of towns point to the right, those of animals up; Oslo has one of each.
VECTORS = {
    "Oslo|GPE": (1, 0.1),
    "Bergen|GPE": (1, 0.2),
    "New_York|GPE": (1, 0.5),
    "Oslo_Airport|GPE": (1, 0.1),
    "Greenland|GPE": (-1, 0),
    "moose|NOUN": (1, 0.1),
    "elk|NOUN": (0.9, 0.2),
    "oslo|NOUN": (0, 1),
    "owl|NOUN": (0.1, 1),
}


def write_vectors(path, vectors=VECTORS):
    lines = [f"{len(vectors)} 2"]
    lines += [f"{key} {x} {y}" for key, (x, y) in vectors.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_list_knows_others_of_a_group():
    senses = load_senses("list")
    assert senses("violin", "") == senses("Violin", "NOUN")
    assert "cello" in senses("violin", "")
    assert "violin" not in senses("violin", "")
    assert senses("harmonium", "") == ()
    assert load_senses("none")("violin", "") == ()


def test_wordnets_co_hyponyms(tmp_path):
    folder = wordnets.write(tmp_path / "wordnet")
    senses = load_senses(f"wordnet:{folder}")
    assert set(senses("lute", "")) == {"zither", "hurdy gurdy"}  # of its first sense alone
    assert senses("Lutes", "") == senses("lute", "")  # by noun.exc
    assert set(senses("wheel fiddle", "")) == {"lute", "zither"}
    assert senses("turku", "GPE") == ("Bergen",)  # of instances
    assert senses("instrument", "") == senses("gong", "") == ()
    assert load_antonyms(f"wordnet:{folder}")("warm") == ("cool",)


@pytest.mark.parametrize("broken", ["data.noun", "index.noun", ""])
def test_a_folder_without_wordnet(tmp_path, broken):
    folder = tmp_path / "wordnet"
    if broken:
        wordnets.write(folder)
        (folder / broken).unlink()
    with pytest.raises(ConfigError, match="no complete WordNet") as error:
        load_senses(f"wordnet:{folder}")("lute", "")
    assert str(folder) in str(error.value)


def test_neighbours_of_the_same_sense(tmp_path):
    senses = load_senses(f"vectors:{write_vectors(tmp_path / 'vectors.txt')}")
    # No forms of the text itself, and nothing that points elsewhere.
    assert senses("Oslo", "GPE") == ("Bergen", "New York")
    assert senses("Oslo", "PERSON") == ("Bergen", "New York")
    assert senses("oslo", "NOUN") == ("owl", "elk", "moose")
    assert senses("new york", "GPE")[0] == "Bergen"
    assert senses("Turku", "GPE") == ()


def test_plain_words_are_all_of_one_sense(tmp_path):
    plain = {key.partition("|")[0]: value for key, value in VECTORS.items()}
    senses = load_senses(f"vectors:{write_vectors(tmp_path / 'plain.txt', plain)}")
    assert senses("Bergen", "GPE")[:2] == ("elk", "Oslo")


def test_vectors_of_sense2vec_and_of_spacy(tmp_path):
    spacy = pytest.importorskip("spacy")
    from spacy.strings import StringStore
    from spacy.vectors import Vectors

    folder = tmp_path / "s2v"
    strings, table = StringStore(), Vectors(shape=(len(VECTORS), 2))
    for key, vector in VECTORS.items():
        table.add(strings.add(key), vector=np.array(vector, np.float32))
    table.to_disk(folder)
    strings.to_disk(folder / "strings.json")
    frequencies = [[strings["oslo|NOUN"], 9], [strings["Oslo|GPE"], 5]]
    (folder / "freqs.json").write_text(json.dumps(frequencies))
    (folder / "cfg").write_text(json.dumps({"senses": ["GPE", "NOUN"]}))
    senses = load_senses(f"vectors:{folder}")
    assert senses("Oslo", "GPE") == ("Bergen", "New York")
    assert senses("OSLO", "") == ("owl", "elk", "moose")  # the more frequent sense

    pipeline = spacy.blank("en")
    for word, vector in (("lute", (1, 0)), ("zither", (1, 0.1)), ("boat", (-1, 0))):
        pipeline.vocab.set_vector(word, np.array(vector, np.float32))
    pipeline.to_disk(tmp_path / "pipeline")
    assert load_senses(f"spacy:{tmp_path / 'pipeline'}")("lute", "") == ("zither",)
    spacy.blank("en").to_disk(tmp_path / "bare")
    with pytest.raises(ConfigError, match="has no vectors"):
        load_senses(f"spacy:{tmp_path / 'bare'}")
    with pytest.raises(ConfigError, match="not a folder of sense2vec's vectors"):
        load_senses(f"vectors:{tmp_path}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lute 1 0\n", ":1: expected the number of vectors and of their values"),
        ("2 2\nlute 1 0\n", "has 1 vectors, its first line says 2"),
        ("1 2\nlute 1 0\nzither 0 1\n", ":3: expected a word and 2 numbers, on 1 lines"),
        ("1 2\nlute 1 x\n", ":2: expected a word and 2 numbers"),
        ("", "has 0 vectors"),
    ],
)
def test_broken_vectors(tmp_path, text, message):
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(InputError) as error:
        load_senses(f"vectors:{tmp_path / 'v.txt'}")
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["thesaurus", "vectors:nowhere.txt"])
def test_what_is_not_there(name):
    with pytest.raises(ConfigError):
        load_senses(name)
