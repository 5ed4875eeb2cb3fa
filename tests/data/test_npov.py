import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.data import npov
from faith_jax.errors import InputError

TEA = {
    "id": "tea",
    "title": "Tea",
    "question": "Should tea be served cold?",
    "split": "train",
    "pro": ["Cold tea is refreshing.", {"text": "It keeps.", "paraphrases": ["It lasts."]}],
    "con": [{"text": "Tea is best hot.", "explanation": "Heat frees it."}, "Ice thins it."],
}
CATS = {
    "id": "cats",
    "title": "Cats",
    "question": "Are cats good pets?",
    "split": "test",
    "pro": ["Cats are quiet."],
    "con": ["Cats scratch."],
}
RESPONSE = {"id": "tea-1", "topic": "tea", "pro": [1, 0], "con": [0, 1], "response": "Views vary."}


def write_rows(folder, name, rows):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def load(folder, topics, responses=None):
    write_rows(folder, npov.TOPICS_FILE, topics)
    if responses is not None:
        write_rows(folder, npov.RESPONSES_FILE, responses)
    loaded = npov.load_topics(folder)
    return loaded, npov.load_responses(folder, loaded)


def test_topics_and_responses_are_read(tmp_path):
    topics, responses = load(tmp_path, [TEA, CATS], [RESPONSE])
    assert topics[0] == npov.Topic(
        id="tea",
        title="Tea",
        question="Should tea be served cold?",
        split="train",
        pro=(npov.Argument("Cold tea is refreshing."), npov.Argument("It keeps.", ("It lasts.",))),
        con=(
            npov.Argument("Tea is best hot.", explanation="Heat frees it."),
            npov.Argument("Ice thins it."),
        ),
    )
    assert [topic.id for topic in topics] == ["tea", "cats"]
    assert responses == (npov.WrittenResponse("tea-1", "tea", (1, 0), (0, 1), "Views vary."),)


def test_responses_are_optional_and_carry_their_source(tmp_path):
    assert load(tmp_path / "a", [TEA])[1] == ()
    (response,) = load(tmp_path / "b", [TEA], [RESPONSE | {"source": "template"}])[1]
    assert response.source == "template"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pro": []}, "field 'pro': expected a list of at least one argument, got []; add an arg"),
        ({"con": "Ice."}, "field 'con': expected a list with an argument each, got \"Ice.\"."),
        ({"con": [""]}, "field 'con[0]': expected a text that is not empty, got \"\"."),
        ({"con": [7]}, "field 'con[0]': expected a text, or an object with a 'text', got 7."),
        ({"con": [{"txt": "a"}]}, "'con[0].text' is missing. Did you mean 'con[0].txt'?"),
        ({"con": [{"text": " "}]}, "field 'con[0].text': expected a text that is not empty"),
        (
            {"con": [{"text": "a", "paraphrases": "b"}]},
            "field 'con[0].paraphrases': expected a list with a text each",
        ),
        (
            {"con": [{"text": "a", "paraphrases": ["b", ""]}]},
            "field 'con[0].paraphrases[1]': expected a text that is not empty",
        ),
        ({"split": "dev"}, "got \"dev\"; write 'validation'."),
        ({"split": "holdout"}, "field 'split': expected 'train', 'validation' or 'test', got"),
        ({"question": ""}, "field 'question': expected a text that is not empty, got \"\"."),
        ({"title": None}, "field 'title': expected a text that is not empty, got null."),
        ({"id": 3}, "field 'id': expected a text that is not empty, got 3."),
    ],
)
def test_a_bad_topic_is_named_with_its_line_and_field(tmp_path, change, message):
    with pytest.raises(InputError) as caught:
        load(tmp_path, [CATS, TEA | change])
    assert f"{tmp_path / 'topics.jsonl'}:2: " in str(caught.value)
    assert message in str(caught.value)


def test_ids_and_questions_are_unique(tmp_path):
    with pytest.raises(InputError, match="field 'id': expected a value that line 1 does not have"):
        load(tmp_path, [TEA, CATS | {"id": "tea"}])
    with pytest.raises(InputError, match="field 'question': expected a value that line 1"):
        load(tmp_path, [TEA, CATS | {"question": "should tea be  served COLD"}])
    with pytest.raises(InputError, match=r"responses\.jsonl:2: field 'id'"):
        load(tmp_path, [TEA], [RESPONSE, RESPONSE])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic": "teas"}, "field 'topic': 'teas' is not in topics.jsonl. Did you mean 'tea'?"),
        ({"pro": [0, 2]}, "field 'pro[1]': expected an index from 0 to 1, got 2."),
        ({"pro": [0]}, "the same number of arguments on both sides, got 1 pro and 2 con."),
        ({"pro": [], "con": []}, "field 'pro': expected a list of at least one index, got []"),
        ({"pro": [0, 0]}, "field 'pro': expected distinct indices, got [0, 0]"),
        ({"response": "  "}, "field 'response': expected a text that is not empty"),
    ],
)
def test_a_bad_response_is_named_with_its_line_and_field(tmp_path, change, message):
    with pytest.raises(InputError) as caught:
        load(tmp_path, [TEA], [RESPONSE | change])
    assert f"{tmp_path / 'responses.jsonl'}:1: " in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_folder_or_file_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere: no such folder; an NPOV data set is a folder"):
        npov.load_topics(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"topics\.jsonl: no such file"):
        npov.load_topics(tmp_path)
    with pytest.raises(InputError, match="holds no topics"):
        load(tmp_path, [])


def test_generation_examples_follow_the_indices(tmp_path):
    topics, responses = load(tmp_path, [TEA, CATS], [RESPONSE])
    assert list(npov.generation_examples(topics, responses, "train")) == [
        {
            "id": "tea-1",
            "topic": "tea",
            "query": "Should tea be served cold?",
            "pro_arguments": ["It keeps.", "Cold tea is refreshing."],
            "con_arguments": ["Tea is best hot.", "Ice thins it."],
            "response": "Views vary.",
        }
    ]
    assert list(npov.generation_examples(topics, responses, "test")) == []
    with pytest.raises(InputError, match="Unknown split 'dev'"):
        list(npov.generation_examples(topics, responses, "dev"))


def test_query_examples_pass_over_counts_that_a_topic_lacks(tmp_path):
    topics, _ = load(tmp_path, [TEA, CATS])
    rows = list(npov.query_examples(topics, "train", counts=(1, 2, 3)))
    assert [row["id"] for row in rows] == ["tea-1-of-each", "tea-2-of-each"]
    assert [len(row["con_arguments"]) for row in rows] == [1, 2]
    assert {row["response"] for row in rows} == {""}


def topic_of(pro, con, topic_id="t"):
    def arguments(side, count):
        return tuple(npov.Argument(f"{side} {i}.") for i in range(count))

    return npov.Topic(topic_id, "T", "T?", "train", arguments("pro", pro), arguments("con", con))


@given(pro=st.integers(1, 9), con=st.integers(1, 9), seed=st.integers(0, 99), data=st.data())
def test_chosen_arguments_are_distinct_and_of_the_topic(pro, con, seed, data):
    topic = topic_of(pro, con)
    count = data.draw(st.integers(1, min(pro, con)))
    chosen = npov.choose_arguments(topic, count, seed)
    assert [len(set(side)) for side in chosen] == [count, count]
    assert set(chosen[0]) <= set(topic.pro)
    assert set(chosen[1]) <= set(topic.con)
    assert chosen == npov.choose_arguments(topic, count, seed)


def test_the_choice_is_the_same_on_every_machine_and_moves_with_the_seed():
    topic = topic_of(5, 5)
    pro, con = npov.choose_arguments(topic, 3, seed=0)
    assert [a.text for a in pro + con] == [
        "pro 3.",
        "pro 2.",
        "pro 0.",
        "con 1.",
        "con 3.",
        "con 2.",
    ]
    draws = {npov.choose_arguments(topic, 3, seed) for seed in range(20)}
    assert len(draws) > 10


def test_too_large_a_count_is_an_error():
    with pytest.raises(InputError, match="topic 't' has 2 con arguments: expected a count from 1"):
        npov.choose_arguments(topic_of(5, 2), 3)
    with pytest.raises(InputError, match=r"has 1 pro argument: .* got 0"):
        npov.choose_arguments(topic_of(1, 2), 0)
