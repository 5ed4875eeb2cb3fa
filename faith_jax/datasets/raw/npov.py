"""The NPOV data sets (Chang 2024).

`procon_npov` has one example for each response in the raw format of `faith_jax.datasets.npov`;
`npov_errors` has each response once without and once with each kind of synthetic error.

`npov_detection` are the training sets of error classifiers (section 5.2), as JSON lines that
`faith-jax reproduce npov_detection` writes from a generator's responses; each set holds all that
those before it hold:

- `synth`: error-free responses to training topics, and the same with synthetic errors;
- `para`: and the same with paraphrased arguments;
- `dev`: and all that of the development topics;
- `org`: and responses with errors that people found.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.schema import Flag, Text
from faith_jax.datasets import npov
from faith_jax.datasets.augmentation.npov_errors import NpovErrorExample, synthetic_errors
from faith_jax.datasets.raw_dataset import described, each_row

ERROR_SEED = 0


def _load(
    paths: Mapping[str, pathlib.Path], bad_rows: BadRows
) -> tuple[tuple[npov.Topic, ...], tuple[npov.WrittenResponse, ...]]:
    path = paths[npov.RESPONSES_FILE]
    topics = npov.load_topics(paths[npov.TOPICS_FILE].parent, bad_rows)
    responses = npov.read_responses(path, topics, bad_rows)
    if not responses:
        raise InputError(f"{path}: holds no responses, which are the data set's examples.")
    return topics, responses


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    yield from npov.generation_examples(*_load(paths, bad_rows), split)


def _read_errors(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    topics, responses = _load(paths, bad_rows)
    by_id = {topic.id: topic for topic in topics}
    used = {response.id: response for response in responses}
    for row in npov.generation_examples(topics, responses, split):
        topic, response = by_id[row["topic"]], used[row["id"]]
        pro_unused = [a.text for i, a in enumerate(topic.pro) if i not in response.pro]
        con_unused = [a.text for i, a in enumerate(topic.con) if i not in response.con]
        example = NpovErrorExample(
            id=row["id"],
            topic=row["topic"],
            query=row["query"],
            pro_arguments=tuple(row["pro_arguments"]),
            con_arguments=tuple(row["con_arguments"]),
            response=row["response"],
        )
        for changed in synthetic_errors(example, pro_unused, con_unused, seed=ERROR_SEED):
            yield _error_row(changed)


def _error_row(example: NpovErrorExample) -> dict[str, Any]:
    return {
        "id": example.id,
        "topic": example.topic,
        "query": example.query,
        "pro_arguments": list(example.pro_arguments),
        "con_arguments": list(example.con_arguments),
        "response": example.response,
        "error": example.kind.value,
        "removed_argument": example.removed_argument,
        "added_argument": example.added_argument,
        "has_hallucination": int(example.has_hallucination),
        "has_coverage_error": int(example.has_coverage_error),
    }


class Labelled(msgspec.Struct):
    """A row of `npov_detection`; of organic errors several arguments may be left out."""

    id: Text
    topic: Text
    query: Text
    response: Text
    has_hallucination: Flag
    has_coverage_error: Flag
    error: Literal["none", "hallucination", "coverage", "both", "organic"]
    paraphrased: Flag
    pro_arguments: list[Text] = []
    con_arguments: list[Text] = []
    removed_argument: str = ""
    added_argument: str | list[Text] = ""
    hallucinated_spans: list[Any] = []


def _labelled_example(row: Labelled, place: str) -> Iterator[dict[str, Any]]:
    added = row.added_argument
    yield {
        "id": row.id,
        "topic": row.topic,
        "query": row.query,
        "pro_arguments": row.pro_arguments,
        "con_arguments": row.con_arguments,
        "response": row.response,
        "has_hallucination": int(row.has_hallucination),
        "has_coverage_error": int(row.has_coverage_error),
        "error": row.error,
        "removed_argument": row.removed_argument,
        "added_arguments": [added] if isinstance(added, str) and added else list(added),
        "paraphrased": int(row.paraphrased),
        "hallucinated_spans": json.dumps(row.hallucinated_spans),
    }


PROCON_NPOV = described("procon_npov", _read)
NPOV_ERRORS = described("npov_errors", _read_errors)
TRAINING_SETS = {
    part: described("npov_detection", each_row(read_jsonl, Labelled, _labelled_example), part=part)
    for part in ("synth", "para", "dev", "org")
}
