import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.benchmarks.ragtruth import RAGTRUTH
from tests.datasets.raw import files

SPAN = {"start": 8, "end": 13, "text": "green", "label_type": "Subtle Conflict", "meta": ""}
RESPONSE = {
    "id": "7",
    "source_id": "1",
    "model": "gpt-4-0613",
    "temperature": 0.7,
    "labels": [SPAN],
    "split": "test",
    "quality": "good",
    "response": " Tea is green.",
}
SOURCES = (
    {"source_id": "1", "task_type": "Summary", "source_info": "Tea is black.\n"},
    {"source_id": "2", "task_type": "QA", "source_info": {"question": "Why?", "passages": "P."}},
    {"source_id": "3", "task_type": "Data2txt", "source_info": {"name": "Café", "hours": None}},
)


def test_responses_are_joined_with_their_sources(tmp_path):
    responses = [
        RESPONSE,
        {**RESPONSE, "id": "8", "source_id": "2", "labels": []},
        {**RESPONSE, "id": "9", "source_id": "3", "labels": []},
        {**RESPONSE, "id": "10", "split": "train"},
    ]
    rows = files.read(RAGTRUTH, "test", tmp_path, responses, SOURCES)
    assert rows[0] == {
        "id": "7",
        "corpus": "Summary",
        "source_id": "1",
        "grounding": "Tea is black.",
        "history": "",
        "generated_text": " Tea is green.",
        "label": 0,
        "hallucinated_spans": "[[8, 13]]",
        "span_types": ["Subtle Conflict"],
        "model": "gpt-4-0613",
        "quality": "good",
    }
    texts = [(row["corpus"], row["grounding"], row["history"], row["label"]) for row in rows[1:]]
    assert texts == [
        ("QA", "P.", "Why?", 1),
        ("Data2txt", '{"name": "Café", "hours": null}', "", 1),
    ]
    # The span is of the text as it stands, with the space in front.
    ((start, end),) = json.loads(rows[0]["hallucinated_spans"])
    assert rows[0]["generated_text"][start:end] == "green"


@pytest.mark.parametrize(
    ("task", "message"), [("Poem", "'task_type': expected one of"), ("QA", "'source_info': exp")]
)
def test_a_bad_source(tmp_path, task, message):
    source = {"source_id": "1", "task_type": task, "source_info": "x"}
    with pytest.raises(InputError, match=rf"source_info\.jsonl:1: field {message}"):
        files.read(RAGTRUTH, "test", tmp_path, [RESPONSE], [source])
