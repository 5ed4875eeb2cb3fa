import collections
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.procon.text import LostWords, argument_text


def text_of(*fragments):
    return argument_text(fragments, collections.Counter())


@pytest.mark.parametrize(
    ("fragments", "text"),
    [
        (["\n", "Zoos teach. ", "\n"], "Zoos teach."),
        (["Zoos  \n\t teach\u00a0people,"], "Zoos teach people."),
        (["zoos teach."], "Zoos teach."),
        (["eBay helps collectors."], "eBay helps collectors."),
        (['Zoos are "fun"'], 'Zoos are "fun".'),
        (["Zoos teach.."], "Zoos teach."),
        (["Zoos teach, entertain, etc..."], "Zoos teach, entertain, etc..."),
        # fragments
        (["Zoos ", "teach", " people."], "Zoos teach people."),
        (["The ", "Endangered Species Act", " saves animals."], None),
        (["Zoos teach.", "They also entertain."], "Zoos teach. They also entertain."),
        (["In zoos, ", " animals are fed."], "In zoos, animals are fed."),
        (["The ", "in-state students", " pay less."], "The in-state students pay less."),
        (["It costs 1.", "5 million."], "It costs 1.5 million."),
        # numbering and labels
        (["1. Zoos teach."], "Zoos teach."),
        (["Con #12: Zoos teach."], "Zoos teach."),
        (["\u2022 Zoos teach."], "Zoos teach."),
        (["81% of teachers like zoos."], "81% of teachers like zoos."),
        (["Pro-zoo groups are honest."], "Pro-zoo groups are honest."),
        (["Con artists love zoos."], "Con artists love zoos."),
        # characters
        (["Zoos aren\u2019t \u201cbad\u201d\u2026 ever."], 'Zoos aren\'t "bad"... ever.'),
        (["Zoos aren&#8217;t bad &amp; sad."], "Zoos aren't bad & sad."),
        (["Zoos arenâ€™t bad."], "Zoos aren't bad."),
        (["Zoos are â€œgoodâ€\x9d at the cafÃ©."], 'Zoos are "good" at the café.'),
        (["Zo\u00ados <em>teach</em>\u200b people.[12][3, 4]"], "Zoos teach people."),
        (["Zoos teach.\u00b9\u00b2 Fish are 5 m\u00b2 apart."], "Zoos teach. Fish are 5 m² apart."),
        (["Cafe\u0301s in zoos pay."], "Cafés in zoos pay."),
        # nothing to argue
        ([" ", "\n"], ""),
        (["Read More"], ""),
    ],
)
def test_arguments_become_sentences(fragments, text):
    expected = text or "".join(fragments)
    assert text_of(*fragments) == ("" if text == "" else expected)


@pytest.mark.parametrize(
    "fragments",
    [
        ["The decision in ", " was wrong."],  # a link's words are gone
        ["The law, which", "The"],
        ["A study in ", "."],
        ["Polls by ", " show that zoos teach."],
        ["The decision in  was wrong."],
        [", which is wrong."],
        ["Zoos are protected by the "],
        ["Zoos te\ufffdch."],
    ],
)
def test_holes_are_seen(fragments):
    with pytest.raises(LostWords):
        text_of(*fragments)


@pytest.mark.parametrize(
    "text",
    [
        "In states with zoos, the will of the people counts.",
        "Each of the zoos is a place that people want to live in",
        "The for-profit zoo is the best that there is.",
    ],
)
def test_whole_sentences_are_not_taken_for_holed_ones(text):
    assert text_of(text) == text.rstrip(".") + "."
    for cut in (m.start() for m in re.finditer(" ", text)):
        assert text_of(text[:cut], text[cut:]) == text.rstrip(".") + "."


@given(st.lists(st.text(), max_size=4))
def test_any_text_becomes_one_line_with_a_sentence_end_or_nothing(fragments):
    try:
        text = argument_text(fragments, collections.Counter())
    except LostWords:
        return
    if text:
        assert text == " ".join(text.split())
        assert text.rstrip("\"')]")[-1] in ".!?"


def test_repairs_are_counted():
    repairs = collections.Counter()
    argument_text(["1. zoos ", "teach\u2019"], repairs)
    assert +repairs == {
        "numbers of headings removed": 1,
        "typographic characters made plain": 1,
        "arguments joined from several fragments": 1,
        "capitals given": 1,
        "full stops given": 1,
    }
