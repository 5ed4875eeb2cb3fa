import itertools
import sys
import types

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation import tagging
from faith_jax.datasets.augmentation.tagging import (
    Entity,
    Replacement,
    RuleTagger,
    load_tagger,
    replace_pieces,
)

TEXT = "Ann Lee drew 20 bright maps of Oslo."
ENTITIES = (
    Entity("Ann Lee", 0, 7, "PERSON"),
    Entity("20", 13, 15, "CARDINAL"),
    Entity("Oslo", 31, 35, "GPE"),
)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """A real spaCy pipeline that knows a few words by rules, saved to a folder."""
    tagger = spacy.blank("en")
    ruler = tagger.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": e.type, "pattern": e.text} for e in ENTITIES])
    grammar = tagger.add_pipe("attribute_ruler")
    grammar.add([[{"LOWER": "drew"}]], {"POS": "VERB", "TAG": "VBD", "LEMMA": "draw"})
    grammar.add([[{"LOWER": "bright"}]], {"POS": "ADJ", "TAG": "JJ", "LEMMA": "bright"})
    folder = tmp_path_factory.mktemp("spacy") / "pipeline"
    tagger.to_disk(folder)
    return folder


def test_a_spacy_pipeline(pipeline):
    tagger = load_tagger(f"spacy:{pipeline}")
    tagged, empty, spaced = tagger.tag([TEXT, "", "Two  spaces\n"])
    assert tagged.entities == ENTITIES
    assert [token.text for token in tagged.tokens] == [*TEXT[:-1].split(), "."]
    verb, adjective = tagged.tokens[2], tagged.tokens[4]
    assert (verb.part, verb.tag, verb.lemma) == ("VERB", "VBD", "draw")
    assert (adjective.part, adjective.tag) == ("ADJ", "JJ")
    assert all(TEXT[token.start : token.end] == token.text for token in tagged.tokens)
    assert tagged.tokens[0].lemma == "ann"  # the pipeline has no lemma of it
    assert (empty.tokens, empty.entities) == ((), ())
    assert [token.text for token in spaced.tokens] == ["Two", "spaces"]


def test_noun_chunks_are_those_of_a_parse(monkeypatch):
    parsed = spacy.tokens.Doc(
        spacy.blank("en").vocab,
        words=["The", "old", "boat", "passed", "us"],
        pos=["DET", "ADJ", "NOUN", "VERB", "PRON"],
        heads=[2, 2, 3, 3, 3],
        deps=["det", "amod", "nsubj", "ROOT", "dobj"],
    )
    monkeypatch.setattr(
        tagging, "load_pipeline", lambda _: types.SimpleNamespace(pipe=lambda texts: [parsed])
    )
    (tagged,) = load_tagger("spacy:parser").tag([parsed.text])
    assert tagged.noun_chunks == (("The old boat", 0, 12), ("us", 20, 22))


def test_a_pipeline_that_is_not_installed():
    message = (
        r"The spaCy pipeline 'en_core_web_zz' cannot be loaded .* python -m spacy download "
        r"en_core_web_zz; .* the tagger 'rules', which needs none"
    )
    with pytest.raises(ConfigError, match=message):
        load_tagger("spacy:en_core_web_zz")


def test_without_spacy(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    load_tagger("rules")
    with pytest.raises(ConfigError, match=r"pip install 'faith_jax\[augmentation\]'"):
        load_tagger()


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("an apple", "apple", "pear", "a pear"),
        ("It was A pear.", "pear", "apple", "It was An apple."),
        ("the pear", "pear", "apple", "the apple"),
        ("a\tpear", "pear", "apple", "an\tapple"),
    ],
)
def test_articles_agree(text, old, new, expected):
    start = text.index(old)
    assert replace_pieces(text, [Replacement(start, start + len(old), old, new)]) == expected


@given(st.lists(st.text("xyz ", max_size=4), min_size=1, max_size=9))
def test_only_what_is_replaced_changes(pieces):
    """Every second piece of a text is replaced by itself in capitals."""
    text, expected, places = "", "", []
    for number, piece in enumerate(pieces):
        if number % 2:
            places.append(Replacement(len(text), len(text) + len(piece), piece, piece.upper()))
        text += piece
        expected += piece.upper() if number % 2 else piece
    assert replace_pieces(text, places) == expected


def tag(text):
    return RuleTagger().tag([text])[0]


def entities(text):
    return [(entity.text, entity.type) for entity in tag(text).entities]


def grammar(text):
    return [(t.text, t.part, t.tag, t.lemma) for t in tag(text).tokens if t.part]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It opened in 1908.", [("1908", "DATE")]),
        ("On 3 May 1931 it rained", [("3 May 1931", "DATE")]),
        ("It ended on May 3, 1931.", [("May 3, 1931", "DATE")]),
        ("It cost $3.5 million or 20%", [("$3.5 million", "MONEY"), ("20%", "PERCENT")]),
        (
            "with 1,200 people in twenty-one cars",
            [("1,200", "CARDINAL"), ("twenty-one", "CARDINAL")],
        ),
        (
            "the University of Oslo and J. K. Lee",
            [("University of Oslo", "MISC"), ("J. K. Lee", "MISC")],
        ),
        ("One of them is here. Then it left.", []),
        ("Marie Curie met Ann.", [("Curie", "MISC"), ("Ann", "MISC")]),
        ('He left. "Paris is far," said Ann.', [("Ann", "MISC")]),
        ("", []),
    ],
)
def test_entities(text, expected):
    assert entities(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He built it", [("built", "VERB", "VBD", "build")]),
        ("and carried", [("carried", "VERB", "VBD", "carry")]),
        ("it was written", [("written", "VERB", "VBN", "write")]),
        ("A large new map", [("large", "ADJ", "JJ", "large"), ("new", "ADJ", "JJ", "new")]),
        ("the open door opens", [("open", "ADJ", "JJ", "open"), ("opens", "VERB", "VBZ", "open")]),
        ("played, mixing, staying, used", [
            ("played", "VERB", "VBD", "play"), ("mixing", "VERB", "VBG", "mix"),
            ("staying", "VERB", "VBG", "stay"), ("used", "VERB", "VBD", "use")]),
    ],
)  # fmt: skip
def test_grammar(text, expected):
    assert grammar(text) == expected


@given(st.text(st.sampled_from("Aa b.1,%$'May The \n"), max_size=40) | st.text(max_size=30))
def test_places_are_right_and_in_order(text):
    tagged = tag(text)
    for pieces in (tagged.tokens, tagged.entities):
        assert all(text[piece.start : piece.end] == piece.text for piece in pieces)
        assert all(piece.text.strip() for piece in pieces)
        assert all(a.end <= b.start for a, b in itertools.pairwise(pieces))
