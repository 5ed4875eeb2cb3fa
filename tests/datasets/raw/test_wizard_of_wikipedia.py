import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.raw.wizard_of_wikipedia import (
    WIZARD_OF_WIKIPEDIA,
    WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS,
)
from tests.datasets.raw import files


def apprentice(text, **passages):
    return {
        "speaker": "0_Apprentice",
        "text": text,
        "retrieved_passages": [{title: sentences} for title, sentences in passages.items()],
    }


def wizard(text, sentence=None, passage=None, **passages):
    return apprentice(text, **passages) | {
        "speaker": "1_Wizard",
        "checked_sentence": sentence or {},
        "checked_passage": passage or {},
    }


def read(tmp_path, *turns, dataset=WIZARD_OF_WIKIPEDIA, split="test_unseen"):
    dialogue = {"chosen_topic": "Tea", "persona": "i drink.", "wizard_eval": 4, "dialog": turns}
    dialogue["chosen_topic_passage"] = ["Tea is a leaf.", "", "It is brewed."]
    return files.read(dataset, split, tmp_path, [dialogue])


def test_fields_of_a_turn(tmp_path):
    ticked = {"chosen_Tea_0": "Tea is a leaf."}, {"chosen_topic_0_Tea": "Tea"}
    (row,) = read(tmp_path, apprentice(" Hello. "), wizard("It is a leaf.", *ticked))
    assert row == {
        "id": "test_topic_split-0-1",
        "dialogue": 0,
        "turn": 1,
        "topic": "Tea",
        "persona": "i drink.",
        "wizard_eval": 4,
        "history": ["Hello."],
        "knowledge": "Tea is a leaf.",
        "knowledge_title": "Tea",
        "response": "It is a leaf.",
        "passage_titles": ["Tea", "Tea"],
        "passage_sentences": ["Tea is a leaf.", "It is brewed."],
    }


def test_the_wizard_is_shown_what_was_retrieved_for_the_last_turn_of_both(tmp_path):
    rows = read(
        tmp_path,
        wizard("One.", Milk=["Milk is white."]),
        apprentice("Two.", Cup=["A cup holds tea."]),
        wizard("Three.", Pot=["A pot pours."]),
        apprentice("Four.", Spoon=["A spoon stirs."]),
        wizard("Five."),
    )
    titles = [row["passage_titles"] for row in rows]
    assert titles == [["Tea", "Tea"], ["Tea", "Tea", "Cup", "Milk"], ["Tea", "Tea", "Spoon", "Pot"]]


UNUSED = {"no_passages_used": "no_passages_used"}


@pytest.mark.parametrize(
    ("sentence", "passage", "expected"),
    [
        ({}, {}, ("", "")),
        (UNUSED, UNUSED, ("", "")),
        (
            {"partner_Cup_0": "A cup is round."},
            {"partner_0_Cup": "Cup"},
            ("A cup is round.", "Cup"),
        ),
        # The title is also found where `checked_passage` lacks it or says that nothing was used.
        ({"partner_Cup_0": "A cup is round."}, {}, ("A cup is round.", "Cup")),
        ({"partner_Cup_0": "A cup is round."}, UNUSED | {"c": "Cup"}, ("A cup is round.", "Cup")),
        # A sentence that two articles share belongs to the one that was ticked.
        ({"x": "Both say so."}, {"y": "Mug"}, ("Both say so.", "Mug")),
        ({"x": "Not shown."}, {"y": "Elsewhere"}, ("Not shown.", "Elsewhere")),
    ],
)
def test_the_sentence_that_was_ticked(tmp_path, sentence, passage, expected):
    turn = apprentice("?", Cup=["A cup is round.", "Both say so."], Mug=["Both say so."])
    (row,) = read(tmp_path, turn, wizard("x", sentence, passage))
    assert (row["knowledge"], row["knowledge_title"]) == expected


TOKENS = ["<first-person>", "<low-prec>", "<non-entailed>"]
BARE = wizard("I drink it.", {"a_0": "Tea is a leaf."})
MARKED = BARE | {"control_tokens": TOKENS}


def test_control_tokens(tmp_path):
    def controlled(split, *turns):
        return read(tmp_path, *turns, dataset=WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS, split=split)

    turns = (apprentice("Hi."), MARKED, wizard("Fine."))
    (row,) = controlled("validation_unseen", *turns)
    assert (row["id"], row["control_tokens"]) == ("valid_topic_split-0-1", TOKENS)
    # In test, faithful responses are asked for.
    (row,) = controlled("test_unseen", *turns)
    assert row["control_tokens"] == ["<no-first-person>", "<high-prec>", "<entailed>"]
    assert [row["turn"] for row in read(tmp_path, *turns)] == [1, 2]
    message = "the turn train-0-1 has no control_tokens; faith-jax control-tokens adds them"
    with pytest.raises(InputError, match=message):
        controlled("train", MARKED, BARE)
    with pytest.raises(InputError, match="control_tokens': expected a list of 3"):
        controlled("train", BARE | {"control_tokens": TOKENS[:2]})
