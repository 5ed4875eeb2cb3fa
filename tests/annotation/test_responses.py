import json

import pytest

from faith_jax.annotation.responses import read_responses, split_into_arguments
from faith_jax.core import templates
from faith_jax.core.errors import InputError
from faith_jax.core.types import Grounding
from faith_jax.datasets import npov, samples

TOPIC = npov.load_topics(samples.sample_folder("procon_npov"))[0]


def read(folder, *rows, **options):
    path = folder / "responses.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_responses(path, **options)


def infer_row(query, pro, con, **fields):
    return {"id": "1", "inputs": templates.npov_generate_inputs(query, pro, con)} | fields


def test_rows_of_infer_get_their_arguments_back(tmp_path):
    pro, con = [TOPIC.pro[2].text, TOPIC.pro[0].text], [TOPIC.con[1].text]
    row = infer_row(TOPIC.question, pro, con, prediction="So.", target="Gold.", log_prob=-1.5)
    (response,) = read(tmp_path, row)
    assert response.example.grounding == Grounding((*pro, *con), ("pro", "pro", "con"))
    assert (response.example.history, response.example.response) == ((TOPIC.question,), "So.")
    assert response.fields == {"target": "Gold.", "log_prob": -1.5}
    assert not response.by_sentence


def test_arguments_of_unknown_topics_are_sentences(tmp_path):
    row = infer_row("Tea?", ["It calms. It warms."], ["It stains."], prediction="So.")
    (response,) = read(tmp_path, row)
    texts = ("It calms.", "It warms.", "It stains.")
    assert response.example.grounding == Grounding(texts, ("pro", "pro", "con"))
    assert response.by_sentence


@pytest.mark.parametrize(
    ("prediction", "response"),
    [("{response: So it is.} tail", "So it is."), ("Use {x} or {y}.", "Use {x} or {y}.")],
)
def test_responses_in_the_form_of_their_inputs_lose_it(tmp_path, prediction, response):
    row = infer_row("Tea?", ["It calms."], ["It stains."], prediction=prediction)
    (read_back,) = read(tmp_path, row)
    assert read_back.example.response == response


def test_topics_of_ones_own_tell_arguments_apart(tmp_path):
    topic = {"id": "tea", "title": "Tea", "question": "Tea?", "split": "test"}
    topic |= {"pro": ["It calms.", "It calms. It {warms}."], "con": ["It stains."]}
    (tmp_path / "topics.jsonl").write_text(json.dumps(topic))
    row = infer_row("Tea?", topic["pro"][::-1], topic["con"], prediction="So.")
    (response,) = read(tmp_path, row, knowledge=str(tmp_path))
    assert [list(response.example.grounding.of(side)) for side in ("pro", "con")] == [
        topic["pro"][::-1],
        topic["con"],
    ]


def test_told_apart_goes_back_where_the_first_choice_leads_nowhere():
    assert split_into_arguments("A. B. C.", ["A.", "A. B.", "C."]) == ["A. B.", "C."]
    assert split_into_arguments("A. A.", ["A."]) is None
    assert split_into_arguments("AB.", ["A"]) is None


@pytest.mark.parametrize("name", ["response", "generated_text", "prediction"])
def test_rows_with_arguments(tmp_path, name):
    row = {"id": 7, "query": "Tea?", "pro_arguments": ["a", "b"], "con_arguments": "c", name: " r "}
    (response,) = read(tmp_path, row | {"topic": "t", "label": "odd"})
    example = response.example
    assert example.grounding == Grounding(("a", "b", "c"), ("pro", "pro", "con"))
    assert (example.id, example.history, example.response) == ("7", ("Tea?",), "r")
    assert response.fields == {"topic": "t"}


def test_rows_of_score(tmp_path):
    row = {"id": "1", "corpus": "c", "grounding": ["a", "b"], "perspectives": ["pro", "con"]}
    row |= {"history": ["Tea?"], "generated_text": "r", "label": None, "fields": {"topic": "t"}}
    row |= {"scores": {"s": 0.5}, "words": {}, "cut_tokens": {"s": 0}, "cut": {}}
    (response,) = read(tmp_path, row)
    assert response.example.grounding == Grounding(("a", "b"), ("pro", "con"))
    assert response.example.history == ("Tea?",)
    assert response.fields == {"topic": "t", "corpus": "c"}


def test_a_grounding_without_sides(tmp_path):
    first, second = read(
        tmp_path, {"knowledge": "k", "response": "r"}, {"grounding": ["a", "b"], "response": ""}
    )
    assert (first.example.id, first.example.grounding) == ("1", Grounding(("k",)))
    assert (second.example.id, second.example.grounding) == ("2", Grounding(("a", "b")))


GOOD = {"query": "q", "pro_arguments": ["a"], "con_arguments": ["b"], "response": "r"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (GOOD | {"con_arguments": []}, "field 'con_arguments': .*as on the other side"),
        (GOOD | {"pro_arguments": None}, "field 'pro_arguments': .*as on the other side"),
        ({"pro_arguments": ["a"], "response": "r"}, "field 'con_arguments': expected at least one"),
        (
            {"query": "q", "text": "r"},
            "no field holds the response: expected prediction or .*rename",
        ),
        ({"query": "q", "response": "r"}, "no field holds the grounding: .* or inputs, got query"),
        (
            {"inputs": "<knowledge> k", "prediction": "r"},
            "field 'inputs': expected a text as '{que",
        ),
        (
            {"inputs": "{query: q} {pro: } {con: b.}", "prediction": "r"},
            "field 'pro_arguments': expected at least one argument",
        ),
        (GOOD | {"response": None}, "field 'response': expected a text, got null"),
        (
            {"grounding": ["a", "b"], "perspectives": ["pro"], "response": "r"},
            "field 'perspectives': expected the side of each of the 2 texts",
        ),
        (
            {"grounding": ["a", "b"], "perspectives": ["pro", "pro"], "response": "r"},
            "field 'con_arguments': expected at least one argument",
        ),
    ],
)
def test_bad_rows_are_named(tmp_path, row, message):
    with pytest.raises(InputError, match=f"responses.jsonl:2: {message}"):
        read(tmp_path, GOOD | {"id": "first"}, row)


def test_an_id_that_occurs_twice_and_an_empty_file(tmp_path):
    with pytest.raises(InputError, match=r"jsonl:2: field 'id': .*no earlier row has, got \"x\""):
        read(tmp_path, GOOD | {"id": "x"}, GOOD | {"id": "x"})
    with pytest.raises(InputError, match=r"jsonl:1: field 'id': expected a text or a number"):
        read(tmp_path, GOOD | {"id": True})
    rows = read(tmp_path, GOOD | {"id": None}, GOOD | {"id": 5.0})
    assert [row.example.id for row in rows] == ["1", "5"]
    with pytest.raises(InputError, match="holds no responses"):
        read(tmp_path)
    with pytest.raises(InputError, match=r"No embedded sample is named 'procon_npv'.*mean"):
        read(tmp_path, infer_row("q", ["a"], ["b"], prediction="r"), knowledge="procon_npv")
