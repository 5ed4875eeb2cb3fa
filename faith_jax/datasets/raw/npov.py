"""The NPOV data sets (Chang 2024).

`procon_npov` has one example for each response in the raw format of `faith_jax.datasets.npov`;
`npov_errors` has each response once without an error and once with each kind of synthetic error.

`npov_detection` has the training sets of error classifiers (section 5.2), as JSON lines that
`faith-jax reproduce npov_detection` writes from a generator's responses. Each set contains the
sets before it:

- `synth`: error-free responses to training topics, and the same with synthetic errors;
- `para`: in addition, the same with paraphrased arguments;
- `dev`: in addition, all these for the development topics;
- `org`: in addition, responses with errors that people found.
"""

import functools
import json
from typing import Any, Literal

import msgspec

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.schema import Flag, Text
from faith_jax.datasets import npov
from faith_jax.datasets.npov.synthetic_errors import synthetic_rows
from faith_jax.datasets.raw_dataset import Examples, Paths, each_row, load_card

ERROR_SEED = 0


def _read_responses(
    paths: Paths, split: str, bad_rows: BadRows, with_errors: bool = False
) -> Examples:
    path = paths[npov.RESPONSES_FILE]
    topics = npov.load_topics(paths[npov.TOPICS_FILE].parent, bad_rows)
    responses = npov.load_responses(path, topics, bad_rows)
    if not responses:
        raise InputError(f"{path}: holds no responses, which are the data set's examples.")
    by_id = {topic.id: topic for topic in topics}
    for row in npov.generation_examples(topics, responses, split):
        if with_errors:
            yield from synthetic_rows(row, by_id[row["topic"]], seed=ERROR_SEED)
        else:
            yield row


class _Labelled(msgspec.Struct):
    """A row of `npov_detection`; responses with organic errors may leave out several arguments."""

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


def _labelled_example(row: _Labelled, place: str) -> Examples:
    added = row.added_argument
    yield msgspec.structs.asdict(row) | {
        "has_hallucination": int(row.has_hallucination),
        "has_coverage_error": int(row.has_coverage_error),
        "added_arguments": [added] if isinstance(added, str) and added else list(added),
        "paraphrased": int(row.paraphrased),
        "hallucinated_spans": json.dumps(row.hallucinated_spans),
    }


PROCON_NPOV = load_card("procon_npov", _read_responses)
NPOV_ERRORS = load_card("npov_errors", functools.partial(_read_responses, with_errors=True))
TRAINING_SETS = {
    part: load_card("npov_detection", each_row(read_jsonl, _Labelled, _labelled_example), part=part)
    for part in ("synth", "para", "dev", "org")
}
