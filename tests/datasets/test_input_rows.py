"""The text that a model responds to, made from the fields of a row."""

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.input_rows import input_row

SIDES = {"query": "Is it?", "pro_arguments": ["It is."], "con_arguments": ["It is not.", "No."]}
INPUTS = "{query: Is it?} {pro: It is.} {con: It is not. No.}"
DIALOGUE = "<knowledge> Tea is a leaf. It is hot."


def row(fields, look_up=None):
    return input_row(fields, "rows.jsonl:3", "3", look_up)


@pytest.mark.parametrize(
    "fields",
    [
        SIDES,
        {"query": "Is it?", "pro": ["It is."], "con": ["It is not.", "No."]},
        {"query": "Is it?", "pro": "It is.", "con_arguments": "It is not. No."},
    ],
)
def test_arguments_have_two_names_and_are_texts_or_lists(fields):
    new_row = row({**fields, "note": "mine", "knowledge": None})
    assert new_row.inputs == INPUTS
    assert set(new_row.fields) == {"query", "pro_arguments", "con_arguments", "note"}
    assert new_row.fields["pro_arguments"] == ["It is."]
    assert new_row.postprocess("{response: Views differ.}") == "Views differ."


def test_the_numbers_of_arguments_stay_beside_them():
    new_row = row({**SIDES, "pro": [2], "con": [1, 3]})
    assert (new_row.inputs, new_row.fields["pro"], new_row.fields["con"]) == (INPUTS, [2], [1, 3])


@pytest.mark.parametrize(
    "knowledge", ["Tea is a leaf. It is hot.", ["Tea is a leaf.", "It is hot."]]
)
@pytest.mark.parametrize(
    ("asked", "turns"),
    [
        ({"query": "Why?"}, "<seeker> Why?"),
        ({"query": "Why?", "history": []}, "<seeker> Why?"),
        ({"history": "Why?"}, "<seeker> Why?"),
        (
            {"history": ["Hi!", "Hello."], "query": "Why?"},
            "<seeker> Hi! <wizard> Hello. <seeker> Why?",
        ),
    ],
)
def test_knowledge_comes_with_a_query_a_history_or_both(knowledge, asked, turns):
    new_row = row({"knowledge": knowledge, **asked})
    assert new_row.inputs == f"{DIALOGUE} {turns}"
    assert new_row.postprocess("{response: a}") == "{response: a}"


def test_the_arguments_of_a_query_alone_are_looked_up():
    new_row = row({"query": "Is it?"}, lambda query: ([f"{query} Yes."], ["No."]))
    assert new_row.inputs == "{query: Is it?} {pro: Is it? Yes.} {con: No.}"
    with pytest.raises(
        InputError, match=r"rows.jsonl:3: field 'query': give 'knowledge', or 'pro'"
    ):
        row({"query": "Is it?"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pro_argument", "pro_arguments"),
        ("Con_Arguments", "con_arguments"),
        ("knowlege", "knowledge"),
        ("ID", "id"),
    ],
)
def test_a_misspelled_field_is_named_with_the_one_that_is_meant(name, meant):
    with pytest.raises(
        InputError,
        match=rf"^rows.jsonl:3: field '{name}' is not known. Did you mean '{meant}'\? Rename it",
    ):
        row({**SIDES, name: "x"})


@pytest.mark.parametrize("name", ["topic", "query_id", "prob", "note"])
def test_columns_of_the_user_s_own_stay(name):
    assert row({**SIDES, name: "x"}).fields[name] == "x"


@pytest.mark.parametrize(
    ("name", "meant"), [("question", "query"), ("pro_args", "pro"), ("Con_Args", "con")]
)
def test_another_name_of_a_field_that_is_missing_gets_a_hint(name, meant):
    fields = {"query": "Is it?", "pro": "Yes.", "con": "No."}
    with pytest.raises(InputError, match=rf"'{name}' is not known. Did you mean '{meant}'\?"):
        row({field: text for field, text in fields.items() if field != meant} | {name: "x"})
    assert row(fields | {name: "x"}).fields[name] == "x"
    assert row({"inputs": "Is it?", name: "x"}).fields[name] == "x"


@pytest.mark.parametrize("name", ["contexts", "retrieved_contexts", "Documents"])
def test_passages_of_a_retrieval_system_are_not_passed_over(name):
    def find_no_topic(query):
        raise InputError(f"No topic matches {query!r}.")

    for look_up in (None, find_no_topic):
        with pytest.raises(InputError, match=rf"rename '{name}' to 'knowledge'\.$"):
            row({"query": "Is it?", name: ["It is."]}, look_up)
    # Where the query is answered otherwise, the column is the user's own.
    new_row = row({"query": "Is it?", name: ["x"]}, lambda _: (["Yes."], ["No."]))
    assert new_row.fields[name] == ["x"]
    assert row({**SIDES, name: ["x"]}).fields[name] == ["x"]
    assert row({"query": "Is it?", "knowledge": "It is.", name: ["x"]}).fields[name] == ["x"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"asked": "?"}, r"expected 'query' with .*, got the fields \['asked'\]"),
        ({"knowledge": "Tea."}, r"expected 'query' with .*, got the fields \['knowledge'\]"),
        ({"history": "?"}, "field 'knowledge' is missing"),
        (
            {"history": [], "knowledge": "Tea."},
            r"field 'history': expected a text .* or a list of at least 1 item, got \[\]\.",
        ),
        ({**SIDES, "pro": "x"}, "field 'pro' is another name of 'pro_arguments'; give one of them"),
        ({"query": "?", "con": "x"}, "field 'pro_arguments' is missing; give both sides"),
        (
            {"query": "?", "con": ["x", 1], "pro": "y"},
            r"field 'con\[1\]': expected a text that is not empty",
        ),
    ],
)
def test_wrong_fields_are_named(fields, message):
    with pytest.raises(InputError, match=rf"^rows.jsonl:3: {message}"):
        row(fields)
