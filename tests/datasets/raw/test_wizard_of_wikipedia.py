import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw.wizard_of_wikipedia import (
    WIZARD_OF_WIKIPEDIA,
    WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS,
    read_turns,
)


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


def dialogue(*turns, **fields):
    return {
        "chosen_topic": "Tea",
        "persona": "i drink.",
        "wizard_eval": 4,
        "chosen_topic_passage": ["Tea is a leaf.", "", "It is brewed."],
        "dialog": list(turns),
    } | fields


def read(tmp_path, *dialogues, bad_rows=None):
    path = tmp_path / "test_topic_split.json"
    path.write_text(json.dumps(dialogues), encoding="utf-8")
    return list(read_turns(path, bad_rows or BadRows()))


def test_fields_of_a_turn(tmp_path):
    turns = dialogue(
        apprentice(" Hello. "),
        wizard("It is a leaf.", {"chosen_Tea_0": "Tea is a leaf."}, {"chosen_topic_0_Tea": "Tea"}),
    )
    (row,) = read(tmp_path, turns)
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
        "control_tokens": [],
    }
    assert row.keys() == WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS.features.keys()


def test_the_wizard_is_shown_what_was_retrieved_for_the_last_turn_of_both(tmp_path):
    turns = dialogue(
        wizard("One.", Milk=["Milk is white."]),
        apprentice("Two.", Cup=["A cup holds tea."]),
        wizard("Three.", Pot=["A pot pours."]),
        apprentice("Four.", Spoon=["A spoon stirs."]),
        wizard("Five."),
    )
    titles = [row["passage_titles"] for row in read(tmp_path, turns)]
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
    asked = apprentice("?", Cup=["A cup is round.", "Both say so."], Mug=["Both say so."])
    (row,) = read(tmp_path, dialogue(asked, wizard("x", sentence, passage)))
    assert (row["knowledge"], row["knowledge_title"]) == expected


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            dialogue(apprentice("x") | {"speaker": "Seeker"}),
            r"speaker': expected a text that holds 'Wizard' or 'Apprentice'",
        ),
        (dialogue(wizard("")), r"\[1\]: field 'dialog\[0\].text': expected a text"),
        (dialogue(wizard("x", [1])), "checked_sentence': expected an object"),
        (dialogue(apprentice("x", Tea="y")), r"'Tea'\]': expected a list"),
    ],
)
def test_bad_dialogues(tmp_path, bad, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, dialogue(wizard("x")), bad)
    bad_rows = BadRows(skip=True)
    assert len(read(tmp_path, dialogue(wizard("x")), bad, bad_rows=bad_rows)) == 1
    assert bad_rows.count == 1


TOKENS = ["<first-person>", "<low-prec>", "<non-entailed>"]
MARKED = wizard("I drink it.", {"a_0": "Tea is a leaf."}) | {"control_tokens": TOKENS}


def controlled(tmp_path, split, name, *turns):
    (tmp_path / name).write_text(json.dumps([dialogue(*turns)]), encoding="utf-8")
    dataset = WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS
    return list(dataset.examples({name: tmp_path / name}, split))


def test_control_tokens(tmp_path):
    name = "valid_topic_split_control-tokens.json"
    turns = (apprentice("Hi."), MARKED, wizard("Fine."))
    (row,) = controlled(tmp_path, "validation_unseen", name, *turns)
    assert (row["id"], row["control_tokens"]) == ("valid_topic_split-0-1", TOKENS)
    assert row.keys() == WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS.features.keys()
    # In test, faithful responses are asked for.
    (row,) = controlled(tmp_path, "test_unseen", "test_topic_split.json", *turns)
    assert row["control_tokens"] == ["<no-first-person>", "<high-prec>", "<entailed>"]
    paths = {"valid_topic_split.json": tmp_path / name}
    plain = list(WIZARD_OF_WIKIPEDIA.examples(paths, "validation_unseen"))
    assert [row.keys() for row in plain] == [WIZARD_OF_WIKIPEDIA.features.keys()] * 2


def test_a_turn_without_control_tokens(tmp_path):
    bare = {name: value for name, value in MARKED.items() if name != "control_tokens"}
    message = r"the turn train-0-1 has no control_tokens; faith-jax control-tokens adds them"
    with pytest.raises(InputError, match=message):
        controlled(tmp_path, "train", "train_control-tokens.json", MARKED, bare)
    wrong = MARKED | {"control_tokens": TOKENS[:2]}
    with pytest.raises(InputError, match="control_tokens': expected a list of 3"):
        controlled(tmp_path, "train", "train_control-tokens.json", wrong)
