"""RAGTruth (Niu 2024): responses of six models to retrieved texts, with hallucinated spans.

Responses and their sources are in two files, joined by `source_id`. A source is an article, a
question with passages, or an object of facts, which becomes JSON.
"""

import json
from typing import Any, Literal, NamedTuple

import msgspec

from faith_jax.core.errors import InputError, field_error
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.schema import Text, Whole, convert_row, read_as
from faith_jax.datasets.raw_dataset import Examples, Paths, load_card

SpanType = Literal[
    "Evident Conflict", "Subtle Conflict", "Evident Baseless Info", "Subtle Baseless Info"
]
_RESPONSES, _SOURCES = "response.jsonl", "source_info.jsonl"


class _Question(msgspec.Struct):
    """A question with the passages retrieved for it."""

    question: Text
    passages: Text


class _Summary(msgspec.Struct, tag_field="task_type", tag="Summary"):
    """An article to summarize."""

    source_id: Whole | Text
    source_info: Text


class _Answer(msgspec.Struct, tag_field="task_type", tag="QA"):
    """A question to answer."""

    source_id: Whole | Text
    source_info: _Question


class _Facts(msgspec.Struct, tag_field="task_type", tag="Data2txt"):
    """Facts to put into words."""

    source_id: Whole | Text
    source_info: dict[str, Any]


_ANY_SOURCE: Any = _Summary | _Answer | _Facts


class _Source(NamedTuple):
    """The source of responses: the task, the grounding, and a question ("" = none)."""

    task: str
    grounding: str
    question: str


class _Span(msgspec.Struct):
    """A hallucinated part of a response, in characters from 0."""

    start: Whole
    end: Whole
    label_type: SpanType


class _Response(msgspec.Struct):
    """A model's response."""

    id: Whole | Text
    source_id: Whole | Text
    model: Text
    labels: list[_Span]
    split: Literal["train", "test"]
    response: str
    quality: str = ""


def _read_examples(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    sources: dict[str, _Source] = {}
    for line in read_jsonl(paths[_SOURCES]):
        raw: Any = convert_row(line.fields, line.place, _ANY_SOURCE)
        grounding, question = raw.source_info, ""
        if isinstance(raw, _Answer):
            grounding, question = raw.source_info.passages, raw.source_info.question
        elif isinstance(raw, _Facts):
            # Left as they are, since a null means that something is not known.
            grounding = json.dumps(line.fields["source_info"], ensure_ascii=False)
        sources[str(raw.source_id)] = _Source(raw.__struct_config__.tag, grounding, question)

    def make(row: _Response, place: str) -> Examples:
        if row.split != split:
            return
        source_id = str(row.source_id)
        if source_id not in sources:
            raise InputError(f"{place}: field 'source_id': {_SOURCES} has no source {source_id!r}.")
        for number, span in enumerate(row.labels):
            if not 0 <= span.start <= span.end <= len(row.response):
                expected = f"0 <= start <= end <= {len(row.response)}, the response's length"
                field = f"labels[{number}].start and end"
                raise field_error(place, field, expected, [span.start, span.end])
        source = sources[source_id]
        spans = sorted(row.labels, key=lambda span: (span.start, span.end))
        yield {
            "id": str(row.id),
            "corpus": source.task,
            "source_id": source_id,
            "grounding": source.grounding,
            "history": source.question,
            "generated_text": row.response,
            "label": int(not spans),
            "hallucinated_spans": json.dumps([[span.start, span.end] for span in spans]),
            "span_types": [span.label_type for span in spans],
            "model": row.model,
            "quality": row.quality,
        }

    # Texts are not stripped, since spans count their characters.
    rows = read_jsonl(paths[_RESPONSES], bad_rows)
    return read_as(_Response, rows, make, bad_rows, strip=False)


RAGTRUTH = load_card("ragtruth", _read_examples)
