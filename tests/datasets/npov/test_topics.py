import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets import npov
from faith_jax.datasets.samples import sample_folder

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


def test_a_bad_topic_is_named_with_its_line_and_field(tmp_path):
    with pytest.raises(InputError) as caught:
        load(tmp_path, [CATS, TEA | {"con": [{"txt": "a"}]}])
    assert str(caught.value) == (
        f"{tmp_path / 'topics.jsonl'}:2: field 'con[0].text' is missing. Did you mean 'txt'?"
    )


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
        ({"pro": [0, 2]}, "field 'pro': expected distinct indices from 0 to 1, got [0, 2]."),
        ({"pro": [0]}, "the same number of arguments on both sides, got 1 pro and 2 con."),
        ({"pro": [0, 0]}, "field 'pro': expected distinct indices from 0 to 1, got [0, 0]"),
    ],
)
def test_a_bad_response_is_named_with_its_line_and_field(tmp_path, change, message):
    with pytest.raises(InputError) as caught:
        load(tmp_path, [TEA], [RESPONSE | change])
    assert f"{tmp_path / 'responses.jsonl'}:1: " in str(caught.value)
    assert message in str(caught.value)


def test_a_data_set_is_a_folder_or_a_sample(tmp_path):
    assert npov.topics_folder(tmp_path) == tmp_path
    for name in ("sample", "procon_npov"):
        assert npov.topics_folder(name) == sample_folder("procon_npov")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: expected a folder, got a file; an NPOV data set"):
        npov.topics_folder(tmp_path / "file")
    with pytest.raises(InputError, match=r"^procon: no such folder; .* Did you mean 'procon_npov'"):
        npov.topics_folder("procon")


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


@pytest.mark.parametrize(
    ("query", "found"),
    [("  should TEA be served cold ", "tea"), ("Cats", "cats"), ("ARE CATS GOOD PETS", "cats")],
)
def test_retrieval(tmp_path, query, found):
    topics, _ = load(tmp_path, [TEA, CATS])
    assert npov.retrieve(topics, query).id == found


def test_retrieval_errors(tmp_path):
    topics, _ = load(tmp_path, [TEA, CATS])
    for query in ("", " \n"):
        with pytest.raises(InputError, match="The query is empty"):
            npov.retrieve(topics, query)
    for query, nearest in (
        ("Is tea any good when it is cold?", "Should tea be served cold? Are cats good pets?"),
        ("Arre catts goood petts", "Are cats good pets?"),
    ):
        with pytest.raises(InputError) as caught:
            npov.retrieve(topics, query)
        assert str(caught.value).endswith(f"Nearest questions: {nearest}")
    with pytest.raises(InputError, match="No topic matches the query '\\?!'"):
        npov.retrieve(topics, "?!")
    twins, _ = load(tmp_path, [TEA, CATS | {"title": "Tea"}])
    with pytest.raises(InputError, match=r"matches several topics \(tea, cats\): ask by id"):
        npov.retrieve(twins, "Tea!")
