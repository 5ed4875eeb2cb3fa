"""Columns are found by the names that programs give them."""

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.usual_names import field_named, flatten_row, usual_name

PARTS = ("grounding", "response", "history")


def names_of(columns):
    names = []
    for part in PARTS:
        names.append(usual_name(part, columns, names))
    return tuple(names)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        # ragas, today and before
        ("user_input retrieved_contexts response reference",
         ("retrieved_contexts", "response", "user_input")),
        ("question contexts answer ground_truth", ("contexts", "answer", "question")),
        # DeepEval, in Python and in its JSON
        ("input actual_output expected_output retrieval_context context",
         ("retrieval_context", "actual_output", "input")),
        ("input actualOutput retrievalContext", ("retrievalContext", "actualOutput", "input")),
        # LangSmith
        ("inputs.question outputs.answer outputs.contexts reference.answer feedback.correct",
         ("outputs.contexts", "outputs.answer", "inputs.question")),
        # Phoenix
        ("query response reference", ("reference", "response", "query")),
        ("attributes.input.value attributes.output.value attributes.retrieval.documents",
         ("attributes.retrieval.documents", "attributes.output.value", "attributes.input.value")),
        # Langfuse
        ("input.question output.answer context", ("context", "output.answer", "input.question")),
        # LlamaIndex
        ("query response source_nodes", ("source_nodes", "response", "query")),
        # dialogues
        ("knowledge context response", ("knowledge", "response", "context")),
        ("context message response", ("", "response", "context")),
        # an ideal answer is no evidence
        ("user_input response reference", ("", "response", "user_input")),
    ],
)  # fmt: skip
def test_the_columns_of_programs(columns, names):
    assert names_of(columns.split()) == names


@pytest.mark.parametrize(
    ("part", "columns", "message"),
    [
        ("response", ["actual_output", "output"],
         "the columns 'actual_output' and 'output' may both hold the response; say which does "
         "with --response-column=actual_output"),
        ("response", ["Answer", "answer"], "'Answer' and 'answer' may both hold the response"),
        ("history", ["question", "user_input"], "with --history-column=question"),
    ],
)  # fmt: skip
def test_two_columns_of_one_part_are_an_error_that_names_the_option(part, columns, message):
    with pytest.raises(InputError, match=message):
        usual_name(part, columns)
    assert usual_name(part, columns, excluded=columns[:1]) == columns[1]


def test_columns_that_a_user_names():
    assert usual_name("grounding", ["Retrieved Contexts"]) == "Retrieved Contexts"
    columns = ["My Answer", "text", "Text"]
    assert field_named("my_answer", columns) == "My Answer"
    assert field_named("text", columns) == "text"
    assert field_named("other", columns) == "other"
    with pytest.raises(InputError, match=r"'TEXT' may be any of 'text', 'Text'; name it exactly"):
        field_named("TEXT", columns)


def test_objects_of_rows_become_columns():
    row = {"id": 1, "inputs": {"question": "Hot?"}, "outputs": '{"answer": "Yes.", "n": {"a": 1}}'}
    assert flatten_row(row) == {
        "id": 1, "inputs.question": "Hot?", "outputs.answer": "Yes.", "outputs.n.a": 1
    }  # fmt: skip
    row = {"input": {"query": "Hot?"}, "output": {"value": "Yes."}}
    assert flatten_row(row) == {"input.query": "Hot?", "output.value": "Yes."}
    assert flatten_row(row, ["output", "a"]) == {"input.query": "Hot?", "output": {"value": "Yes."}}
    # An answer that is JSON, among others that are not.
    row = {"output": '{"answer": "Yes."}'}
    assert flatten_row(row) == row
    assert flatten_row(row, ["output.answer"]) == {"output.answer": "Yes."}
    row = {"output": {"content": "Yes."}}
    assert flatten_row(row, ["output.content"]) == {"output.content": "Yes."}
    plain = [row, {"input": '{"code": 1}', "output": "{"}, {"inputs": "{query: q}"}]
    for row in [*plain, {"inputs": "text", "a": {"b": 1}}, {"item": ["x"]}]:
        assert flatten_row(row) == row
