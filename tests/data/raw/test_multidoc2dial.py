import json

import pytest

from faith_jax.data.raw.multidoc2dial import MULTIDOC2DIAL
from faith_jax.data.raw_files import sample_files
from faith_jax.data.rows import BadRows
from faith_jax.errors import InputError

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
    found = [{"doc_id": doc, "id_sp": key, "label": "solution"} for doc, key in references]
    return {
        "turn_id": number,
        "role": role,
        "da": "respond_solution",
        "references": found,
        "utterance": text,
    } | fields


def read(tmp_path, *turns, documents=DOCUMENTS, bad_rows=None):
    first = {"dial_id": "d1", "turns": list(turns)}
    second = {"dial_id": "d2", "turns": [turn(1, "user", "u"), turn(2, "agent", "a")]}
    values = [{"dial_data": {"library": [first], "pool": [second]}}, {"doc_data": documents}]
    names = MULTIDOC2DIAL.splits["train"]
    for name, value in zip(names, values, strict=True):
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
    paths = {name: tmp_path / name for name in names}
    return list(MULTIDOC2DIAL.examples(paths, "train", bad_rows or BadRows()))


def test_fields_of_a_turn(tmp_path):
    user = turn(1, "user", "Free? ", ("Cards#1", "1"))
    row, other = read(tmp_path, user, turn(2, "agent", "Yes.", ("Cards#1", "1")))
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
    assert row.keys() == MULTIDOC2DIAL.features.keys()
    assert (other["id"], other["domain"], other["knowledge"]) == ("d2_1", "pool", "")


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"references": [{"doc_id": "Card#1", "id_sp": "1"}]}, "'doc_id': expected the id of a"),
        ({"references": [{"doc_id": "Cards#1", "id_sp": "9"}]}, "the id of a span of Cards#1"),
        ({"references": ["x"]}, r"references\[0\]: field 'reference': expected an object"),
        ({"role": "system"}, "'role': expected one of user, agent"),
        ({"utterance": ""}, r"turns\[1\]: field 'utterance': expected a text"),
        ({"turn_id": "2"}, "'turn_id': expected a whole number"),
    ],
)
def test_bad_turns(tmp_path, change, message):
    turns = turn(1, "user", "?"), turn(2, "agent", "!") | change
    with pytest.raises(InputError, match=message):
        read(tmp_path, *turns)
    bad_rows = BadRows(skip=True)
    assert [row["id"] for row in read(tmp_path, *turns, bad_rows=bad_rows)] == ["d2_1"]
    assert bad_rows.count == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spans": {"1": span("1", 6, 99)}}, r"0 <= start_sp < end_sp <= 57, the document's"),
        ({"spans": {"1": span("1", 6, 6)}}, "start_sp < end_sp"),
        ({"spans": {"1": 3}}, r"spans\['1'\]: field '1': expected an object"),
        ({"doc_text": " "}, "'doc_text': expected a text that is not empty"),
        ({"title": None}, "field 'title' is missing|'title': expected a text"),
    ],
)
def test_bad_documents(tmp_path, change, message):
    documents = {"library": {"Cards#1": DOCUMENTS["library"]["Cards#1"] | change}}
    with pytest.raises(InputError, match=message):
        read(tmp_path, turn(1, "user", "?"), turn(2, "agent", "!"), documents=documents)


def test_knowledge_of_the_sample_stands_in_its_document():
    files = sample_files(MULTIDOC2DIAL)
    documents = json.loads(files["multidoc2dial_doc.json"].read_text(encoding="utf-8"))
    texts = {k: v["doc_text"] for d in documents["doc_data"].values() for k, v in d.items()}
    for split, names in MULTIDOC2DIAL.splits.items():
        paths = {name: files[name] for name in names}
        for row in MULTIDOC2DIAL.examples(paths, split, BadRows()):
            if len(row["documents"]) == 1:
                assert row["knowledge"] in texts[row["documents"][0]]
