import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.benchmarks.ragtruth import RAGTRUTH

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


def examples(folder, responses, sources=SOURCES, split="test", bad_rows=None):
    paths = {}
    for name, rows in (("response.jsonl", responses), ("source_info.jsonl", sources)):
        paths[name] = folder / name
        text = "".join(json.dumps(row) + "\n" for row in rows)
        paths[name].write_text(text, encoding="utf-8")
    return list(RAGTRUTH.examples(paths, split, bad_rows))


def test_responses_are_joined_with_their_sources(tmp_path):
    rows = examples(
        tmp_path,
        [
            RESPONSE,
            {**RESPONSE, "id": "8", "source_id": "2", "labels": []},
            {**RESPONSE, "id": "9", "source_id": "3", "labels": []},
            {**RESPONSE, "id": "10", "split": "train"},
        ],
    )
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
    ("changes", "message"),
    [
        ({"source_id": "4"}, r"field 'source_id': source_info\.jsonl has no source '4'"),
        ({"labels": [{**SPAN, "end": 15}]}, r"field 'labels\[0\]\.start and end': .* <= 14, the"),
        ({"labels": [SPAN, {**SPAN, "end": 2}]}, r"field 'labels\[1\]\.start and end'"),
        (
            {"labels": [{**SPAN, "label_type": "Lie"}]},
            r"field 'labels\[0\]\.label_type': .*Evident",
        ),
    ],
)
def test_a_bad_response(tmp_path, changes, message):
    rows = [{**RESPONSE, "id": "1", "labels": []}, {**RESPONSE, **changes}]
    with pytest.raises(InputError, match=rf"response\.jsonl:2: {message}"):
        examples(tmp_path, rows)
    bad_rows = BadRows(skip=True)
    assert len(examples(tmp_path, rows, bad_rows=bad_rows)) == bad_rows.count == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            {"source_id": "1", "task_type": "Poem", "source_info": "x"},
            "'task_type': expected one of",
        ),
        (
            {"source_id": "1", "task_type": "QA", "source_info": "x"},
            "'source_info': expected an obj",
        ),
    ],
)
def test_a_bad_source(tmp_path, source, message):
    with pytest.raises(InputError, match=rf"source_info\.jsonl:1: field {message}"):
        examples(tmp_path, [RESPONSE], [source])
