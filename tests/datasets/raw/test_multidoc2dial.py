import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.raw.multidoc2dial import MULTIDOC2DIAL, MULTIDOC2DIAL_SPANS
from tests.datasets.raw import files

TEXT = "Cards\nA card is free. Bring a letter. It opens at nine.  "
SECTION = "Cards\nA card is free. Bring a letter."


def span(number, start, end, section=SECTION):
    return {"id_sp": number, "start_sp": start, "end_sp": end, "text_sec": section}


SPANS = {
    "1": span("1", 6, 22),
    "2": span("2", 22, 38),
    "3": span("3", 38, len(TEXT), "It opens at nine."),
}
DOCUMENTS = {
    "library": {
        "Cards#1": {"title": "Cards", "doc_text": TEXT, "spans": SPANS},
        "Pool#1": {"title": "Pool", "doc_text": "Swim here.", "spans": {"1": span("1", 0, 10, "")}},
    }
}


def turn(number, role, text, *references, **fields):
    spans = [{"doc_id": doc, "id_sp": key, "label": "solution"} for doc, key in references]
    plain = {"turn_id": number, "role": role, "da": "respond_solution", "utterance": text}
    return plain | {"references": spans} | fields


def read(tmp_path, *turns, documents=DOCUMENTS, dataset=MULTIDOC2DIAL_SPANS):
    first = {"dial_id": "d1", "turns": turns}
    second = {"dial_id": "d2", "turns": [turn(1, "user", "u"), turn(2, "agent", "a")]}
    dialogues = {"dial_data": {"library": [first], "pool": [second]}}
    return files.read(dataset, "train", tmp_path, dialogues, {"doc_data": documents})


def test_fields_of_a_turn(tmp_path):
    user = turn(1, "user", "Free? ", ("Cards#1", "1"))
    row, second = read(tmp_path, user, turn(2, "agent", "Yes.", ("Cards#1", "1")))
    assert row == {
        "id": "d1_1",
        "dialogue": "d1",
        "turn": 2,
        "domain": "library",
        "history": ["Free?"],
        "dialogue_act": "respond_solution",
        "knowledge": "A card is free.",
        "sections": [SECTION],
        "documents": ["Cards#1"],
        "titles": ["Cards"],
        "response": "Yes.",
    }
    assert row.keys() == MULTIDOC2DIAL_SPANS.features.keys()
    assert (second["id"], second["domain"], second["knowledge"]) == ("d2_1", "pool", "")


def test_only_turns_of_the_agent_behind_one_of_the_user_are_examples(tmp_path):
    roles = ("agent", "user", "agent", "agent", "user", "user", "agent")
    rows = read(tmp_path, *(turn(i, role, f"t{i}") for i, role in enumerate(roles, start=1)))
    assert [row["id"] for row in rows] == ["d1_2", "d1_6", "d2_1"]
    assert rows[1]["history"] == [f"t{i}" for i in range(1, 7)]


def test_the_knowledge_reaches_from_the_first_to_the_last_span_of_each_document(tmp_path):
    references = (("Cards#1", "3"), ("Pool#1", "1"), ("Cards#1", "1"))
    row, _ = read(tmp_path, turn(1, "user", "?"), turn(2, "agent", "!", *references))
    assert row["knowledge"] == "A card is free. Bring a letter. It opens at nine. Swim here."
    assert row["documents"] == ["Cards#1", "Pool#1"]
    assert row["sections"] == ["It opens at nine.", SECTION]


def test_the_name_that_doc2dial_gives_a_span(tmp_path):
    references = [{"doc_id": "Cards#1", "sp_id": "2"}]
    row, _ = read(tmp_path, turn(1, "user", "?"), turn(2, "agent", "!", references=references))
    assert row["knowledge"] == "Bring a letter."


# Spans as the authors publish them: a heading is a span with its own title, and span numbers are
# sorted as texts. Spans 1 to 3 are a passage (cards), 4 and 10 are one, and 11 is one.
PARTS = [
    ("1", "Cards", "\n\nCards \n"),
    ("2", "Cards", "A card is free. "),
    ("3", "Cards", "Bring a letter. "),
    ("4", "Loans", "\n\nLoans \n"),
    ("10", "Loans", "A loan lasts four weeks. "),
    ("11", "Cards", "A lost card costs five coins. "),
]


def published_document(title, parts):
    """Returns a document in the authors' layout, with its spans out of order."""
    spans, start = {}, 0
    for key, heading, text in parts:
        end = start + len(text)
        place = {"id_sp": key, "start_sp": start, "end_sp": end}
        spans[key] = place | {"text_sp": text, "title": heading, "text_sec": text}
        start = end
    spans = dict(sorted(spans.items()))  # "1", "10", "11", "2" …
    return {"title": title, "doc_text": "".join(text for *_, text in parts), "spans": spans}


PUBLISHED = {
    "library": {
        "Library#1": published_document("Library", PARTS),
        "Pool#1": published_document("Pool", [("1", "Pool", "Swim here. ")]),
    }
}
CARDS = "Cards \nA card is free. Bring a letter."
LOANS = "Loans \nA loan lasts four weeks."


def read_passages(tmp_path, *turns, documents=PUBLISHED):
    return read(tmp_path, *turns, documents=documents, dataset=MULTIDOC2DIAL)


def test_every_turn_of_the_agent_is_an_example(tmp_path):
    """As Nandwani 2023 counts: also first, after the agent's own turn, and without references."""
    turns = [
        turn(1, "agent", "Welcome."),
        turn(2, "user", "Is a card free?", ("Library#1", "2")),
        turn(3, "agent", "It is.", ("Library#1", "2")),
        turn(4, "agent", "Do you live here?", ("Library#1", "3")),
        turn(5, "user", "Yes."),
        turn(6, "user", "And is there a café?"),
        turn(7, "agent", "I do not know.", da="respond_no_solution"),
    ]
    rows = read_passages(tmp_path, *turns)
    roles = [t["role"] for t in turns]
    assert len(rows) == roles.count("agent") + 1  # and one of the other dialogue
    assert [row["id"] for row in rows] == ["d1#1", "d1#3", "d1#4", "d1#7", "d2#2"]
    assert [row["turn"] for row in rows] == [1, 3, 4, 7, 2]
    assert [row["knowledge"] for row in rows] == ["", CARDS, CARDS, "", ""]
    assert [row["response"] for row in rows[:2]] == ["Welcome.", "It is."]
    spans = read(tmp_path, *turns, documents=PUBLISHED)
    assert [row["id"] for row in spans] == ["d1_2", "d1_6", "d2_1"]
    assert [row["knowledge"] for row in spans] == ["A card is free.", "", ""]


def test_the_history_names_speakers_and_joins_their_neighbouring_turns(tmp_path):
    turns = [
        turn(1, "user", "Is a card free? "),
        turn(2, "agent", "It is."),
        turn(3, "agent", "Do you live here?"),
        turn(4, "user", "Yes."),
        turn(5, "user", "Why?"),
        turn(6, "agent", "It matters."),
    ]
    rows = read_passages(tmp_path, *turns)
    assert [row["history"] for row in rows[:3]] == [
        ["user: Is a card free?"],
        ["user: Is a card free?", "agent: It is."],
        ["user: Is a card free?", "agent: It is.. Do you live here?", "user: Yes.. Why?"],
    ]


@pytest.mark.parametrize(
    ("references", "knowledge"),
    [
        ([("Library#1", "2")], CARDS),
        ([("Library#1", "1")], CARDS),  # the heading is of the passage
        ([("Library#1", "10")], LOANS),  # numbers are counted, not spelt
        ([("Library#1", "11")], "A lost card costs five coins."),  # the same title, elsewhere
        ([("Library#1", "3"), ("Library#1", "2")], CARDS),  # once
        ([("Library#1", "10"), ("Library#1", "2")], f"{LOANS} {CARDS}"),  # in their order
        ([("Library#1", "2"), ("Pool#1", "1"), ("Library#1", "4")], f"{CARDS} Swim here. {LOANS}"),
    ],
)
def test_the_knowledge_is_the_passage_of_each_reference(tmp_path, references, knowledge):
    row, _ = read_passages(tmp_path, turn(1, "user", "?"), turn(2, "agent", "!", *references))
    assert row["knowledge"] == knowledge
    assert row["documents"] == list(dict.fromkeys(name for name, _ in references))


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("1", {"text_sp": None}, "field 'text_sp' is missing in all spans; passages need it"),
        ("1", {"start_sp": 3, "end_sp": 3}, "end_sp': expected start_sp < end_sp <= 11, the docu"),
        ("1", {"end_sp": 99}, "end_sp': expected start_sp < end_sp <= 11, the document's"),
        ("one", {}, "expected a whole number as the span's id"),
    ],
)
def test_bad_spans(tmp_path, key, change, message):
    document = PUBLISHED["library"]["Pool#1"]
    spans = {key: document["spans"]["1"] | change}
    documents = {"library": {"Pool#1": document | {"spans": spans}}}
    with pytest.raises(InputError, match=message):
        read_passages(tmp_path, turn(1, "user", "?"), documents=documents)
