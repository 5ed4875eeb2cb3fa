import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.core import templates
from faith_jax.core.cutting import (
    Kind,
    Part,
    concatenate_pieces,
    cut,
    fit,
    in_tokens,
    one_part,
    parse,
)
from faith_jax.core.errors import InputError
from faith_jax.tokenizers.vocabularies import load_vocabulary

TOKENIZER = load_vocabulary("english_4096")
KNOWLEDGE = "Tea is a leaf that grows on hills in many lands of the world. " * 3
TURNS = ["Hi there!", "Hello, how are you?", "What is tea made of?"]
WORDS = st.lists(st.sampled_from(["tea", "leaf", "{x}", "a<b>", "¿qué?", "é", "I"]), min_size=1)
TEXTS = WORDS.map(" ".join)


def texts_of(text, kind):
    return [text[p.text_start : p.text_end] for p in parse(text) if p.kind == kind]


def decoded(fitted):
    return TOKENIZER.decode(fitted.ids)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_parse_is_the_inverse_of_the_dialogue_form(knowledge, turns):
    text = templates.dialogue_inputs(knowledge, turns)
    assert texts_of(text, Kind.KNOWLEDGE) == [templates.clean_tagged(knowledge)]
    assert texts_of(text, Kind.HISTORY) == [templates.clean_tagged(turn) for turn in turns]


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=2), st.lists(TEXTS, max_size=2))
def test_parse_is_the_inverse_of_the_curly_braces_form(query, response, pro, con):
    text = templates.npov_classifier_inputs(query, response, pro, con)
    values = [
        templates.clean_value(" ".join(map(templates.clean_value, side))) for side in (pro, con)
    ]
    assert texts_of(text, Kind.KNOWLEDGE) == values
    assert texts_of(text, Kind.HISTORY) == [templates.clean_value(query)]
    assert texts_of(text, Kind.RESPONSE) == [templates.clean_value(response)]


def test_parse_of_other_forms():
    assert texts_of(templates.nli_inputs("A b.", "C d."), Kind.KNOWLEDGE) == ["A b."]
    assert texts_of(templates.nli_inputs("A b.", "C d."), Kind.RESPONSE) == ["C d."]
    assert parse("Any other text.") == []
    context = "{context: One. [EOT] Two. [EOT] Three.} {claim: Four.}"
    assert texts_of(context, Kind.HISTORY) == ["One. [EOT]", " Two. [EOT]", " Three."]


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), st.integers(1, 90))
def test_both_branches_have_the_same_history_and_the_most_knowledge_that_fits(
    knowledge, turns, limit
):
    text = templates.dialogue_inputs(knowledge, turns)
    ids = TOKENIZER.encode(text)
    parts = in_tokens(parse(text), text, ids, TOKENIZER)
    turn_ids = [ids[p.start : p.end] for p in parts if p.kind == Kind.HISTORY]
    try:
        fitted = fit(TOKENIZER, text, limit, "knowledge", "row 1")
    except InputError:
        knowledge_tokens = parts[0].text_end - parts[0].text_start
        older = sum(map(len, turn_ids[:-1]))
        assert len(ids) - knowledge_tokens - older > limit
        return
    suffixes = [list(itertools.chain(*turn_ids[n:])) for n in range(len(turn_ids))]
    dropped = suffixes.index(fitted.without_knowledge)
    assert len(fitted.ids) == min(limit, len(ids) - len(suffixes[0]) + len(suffixes[dropped]))
    # What follows the knowledge is the other branch.
    assert fitted.ids[len(fitted.ids) - len(fitted.without_knowledge) :] == fitted.without_knowledge
    # A turn goes only where it does not fit without any knowledge.
    if dropped:
        assert len(suffixes[dropped - 1]) + parts[0].text_start > limit


def test_the_knowledge_loses_its_end_and_nothing_else():
    text = templates.dialogue_inputs(KNOWLEDGE, TURNS)
    whole = TOKENIZER.encode(text)
    fitted = fit(TOKENIZER, text, len(whole) - 30, "knowledge", "row 1")
    assert decoded(fitted).endswith(
        "<seeker> Hi there! <wizard> Hello, how are you? <seeker> What is tea made of?"
    )
    assert decoded(fitted).startswith("<knowledge> Tea is a leaf that grows")
    assert fitted.cut == {Kind.KNOWLEDGE: 30}
    assert len(fitted.ids) == len(whole) - 30


def test_the_policy_history_cuts_turns_before_knowledge():
    text = templates.dialogue_inputs("Tea is a leaf.", TURNS)
    whole = len(TOKENIZER.encode(text))
    fitted = fit(TOKENIZER, text, whole - 1, "history", "row 1")
    assert decoded(fitted) == (
        "<knowledge> Tea is a leaf. <wizard> Hello, how are you? <seeker> What is tea made of?"
    )
    last = fit(TOKENIZER, text, 30, "history", "row 1")
    assert decoded(last).endswith("<seeker> What is tea made of?")
    assert set(last.cut) == {Kind.KNOWLEDGE, Kind.HISTORY}


def test_what_stands_outside_known_parts_is_never_cut():
    keep, tokens = cut(10, [Part(Kind.KNOWLEDGE, 2, 3, 7, 8)], 8, "knowledge", "row 1")
    assert np.flatnonzero(~keep).tolist() == [5, 6]
    assert tokens == {Kind.KNOWLEDGE: 2}


def test_a_long_response_loses_its_end_last():
    parts = [Part(Kind.KNOWLEDGE, 0, 1, 9, 10), Part(Kind.RESPONSE, 10, 11, 31, 32)]
    keep, tokens = cut(32, parts, 16, "knowledge", "row 1")
    # A quarter of 16 tokens is the knowledge's; 4 tokens are marks.
    assert tokens == {Kind.KNOWLEDGE: 4, Kind.RESPONSE: 12}
    assert keep.sum() == 16
    assert keep[[0, 1, 4, 9, 10, 11, 18, 31]].all()
    assert not keep[[5, 8, 19, 30]].any()


@pytest.mark.parametrize(
    ("text", "limit", "policy", "message"),
    [
        (templates.dialogue_inputs("Tea.", TURNS), 12, "knowledge", "no room for the last turn"),
        (templates.dialogue_inputs("", TURNS), 3, "history", "no room for the last turn"),
        ("A text of no known form.", 3, "knowledge", "without knowledge or history that could"),
        (templates.nli_inputs("A b.", "C d."), 2, "knowledge", "what stands around its parts"),
        (templates.dialogue_inputs("Tea.", TURNS), 40, "error", "the cut policy is 'error'"),
    ],
)
def test_what_cannot_be_cut_is_an_error(text, limit, policy, message):
    with pytest.raises(InputError, match=message) as error:
        fit(TOKENIZER, text, limit, policy, "rows.jsonl:7: MAX_INPUT_LENGTH")
    assert str(error.value).startswith("rows.jsonl:7: MAX_INPUT_LENGTH")
    assert ("'end' (CUT_POLICY)" in str(error.value)) == (not parse(text))
    if policy != "error":
        least = limit + int(re.search(r"at least (\d+)", str(error.value))[1])
        fit(TOKENIZER, text, least, policy, "row 1")
        with pytest.raises(InputError, match="no room"):
            fit(TOKENIZER, text, least - 1, policy, "row 1")


def test_a_long_history_costs_the_knowledge_and_not_the_response():
    # 40 of knowledge, three turns of 30, a response of 10: 140 tokens.
    parts = [Part(Kind.KNOWLEDGE, 0, 0, 40, 40)]
    parts += [Part(Kind.HISTORY, start, start, start + 30, start + 30) for start in (40, 70, 100)]
    parts += [Part(Kind.RESPONSE, 130, 130, 140, 140)]
    for policy, limit, expected in (
        ("knowledge", 104, {Kind.KNOWLEDGE: 36}),
        ("knowledge", 99, {Kind.KNOWLEDGE: 11, Kind.HISTORY: 30}),
        ("history", 104, {Kind.HISTORY: 60}),
        ("history", 79, {Kind.KNOWLEDGE: 1, Kind.HISTORY: 60}),
        ("knowledge", 44, {Kind.KNOWLEDGE: 36, Kind.HISTORY: 60}),
        # What the last turn leaves are 8 tokens: 2 of them are the knowledge's.
        ("knowledge", 38, {Kind.KNOWLEDGE: 38, Kind.HISTORY: 60, Kind.RESPONSE: 4}),
    ):
        keep, tokens = cut(140, parts, limit, policy, "row 1")
        assert tokens == expected
        assert keep.sum() == limit if sum(expected.values()) == 140 - limit else keep.sum() < limit
    with pytest.raises(
        InputError, match="without its knowledge and earlier turns, the input has 40"
    ):
        cut(140, parts, 30, "knowledge", "row 1")


def test_marks_of_another_form_within_a_text_are_text():
    text = templates.npov_classifier_inputs("Tea?", "See <wizard> there.", ["It <seeker> is."], [])
    assert texts_of(text, Kind.RESPONSE) == ["See <wizard> there."]
    assert texts_of(text, Kind.KNOWLEDGE) == ["It <seeker> is.", ""]
    text = templates.nli_inputs("Say {query: x} or <knowledge> y.", "C d.")
    assert texts_of(text, Kind.KNOWLEDGE) == ["Say {query: x} or <knowledge> y."]
    assert texts_of(text, Kind.RESPONSE) == ["C d."]
    text = templates.dialogue_inputs("Write {query: x}.", ["Now {claim: y}?"])
    assert texts_of(text, Kind.KNOWLEDGE) == ["Write {query: x}."]
    assert texts_of(text, Kind.HISTORY) == ["Now {claim: y}?"]


def test_pieces_are_one_input():
    piece = ([5, 6], [one_part(Kind.KNOWLEDGE, 2)])
    two = ([7, 8, 9], [Part(Kind.HISTORY, 0, 1, 2, 3)])
    ids, parts = concatenate_pieces([piece, ([4], []), two])
    assert ids.tolist() == [5, 6, 4, 7, 8, 9]
    assert parts == [Part(Kind.KNOWLEDGE, 0, 0, 2, 2), Part(Kind.HISTORY, 3, 4, 5, 6)]


def test_the_policy_end_cuts_whatever_stands_there():
    text = templates.dialogue_inputs("Tea is a leaf.", TURNS)
    fitted = fit(TOKENIZER, text, 20, "end", "row 1")
    assert fitted.ids == TOKENIZER.encode(text)[:20]
    assert set(fitted.cut) == {Kind.HISTORY}
    assert fitted.cut.last_turn
    assert fitted.cut.knowledge == len(TOKENIZER.encode(" Tea is a leaf."))
    assert not fit(TOKENIZER, text, 43, "knowledge", "row 1").cut.last_turn


def test_a_tokenizer_without_offsets_gives_the_same_parts():
    class Plain:
        encode = staticmethod(TOKENIZER.encode)

    text = templates.dialogue_inputs(KNOWLEDGE, TURNS)
    ids = TOKENIZER.encode(text)
    assert in_tokens(parse(text), text, ids, Plain()) == in_tokens(
        parse(text), text, ids, TOKENIZER
    )
