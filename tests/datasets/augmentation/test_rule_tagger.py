import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.datasets.augmentation.rule_tagger import RuleTagger


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
        ("in June, they left", [("June", "DATE")]),
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
        ("He said that I'm right and I know", []),
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
        ("She stopped", [("stopped", "VERB", "VBD", "stop")]),
        ("and carried", [("carried", "VERB", "VBD", "carry")]),
        ("running, washes", [("running", "VERB", "VBG", "run"), ("washes", "VERB", "VBZ", "wash")]),
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
