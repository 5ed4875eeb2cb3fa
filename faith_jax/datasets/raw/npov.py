"""The NPOV data sets (Chang 2024), read from the raw format of `faith_jax.datasets.npov`.

`procon_npov` has one example for each response; `npov_errors` has each response once without
and once with each kind of synthetic error.
"""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets import npov
from faith_jax.datasets.augmentation.npov_errors import NpovErrorExample, synthetic_errors
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, TEXTS, RawDataset, RawFile, files_by_name

ERROR_SEED = 0

_FILES = files_by_name(RawFile(npov.TOPICS_FILE), RawFile(npov.RESPONSES_FILE))
_SPLITS = {split: tuple(_FILES) for split in npov.SPLITS}
_BY_HAND = (
    "Write topics.jsonl and responses.jsonl (docs/data_formats.md), or make them from scraped "
    "ProCon.org topic pages: python tools/prepare_procon.py PAGES_FOLDER --output FOLDER."
)
_SHARED: dict[str, Any] = {
    "splits": _SPLITS,
    "files": _FILES,
    "folder": "procon_npov",
    "homepage": "https://arxiv.org/abs/2403.08904",
    "licence": "the sample: Apache-2.0; ProCon.org's text: research use",
    "by_hand": _BY_HAND,
    "citation": """
@article{chang2024detecting,
  title = {Detecting Hallucination and Coverage Errors in Retrieval Augmented Generation for
           Controversial Topics},
  author = {Chang, Tyler A. and Tomanek, Katrin and Hoffmann, Jessica and Thain, Nithum and
            van Liemt, Erin and Meier-Hellstern, Kathleen and Dixon, Lucas},
  journal = {arXiv preprint arXiv:2403.08904},
  year = {2024},
}
""",
}


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


_EXAMPLE = {
    "id": TEXT,
    "topic": TEXT,
    "query": TEXT,
    "pro_arguments": TEXTS,
    "con_arguments": TEXTS,
    "response": TEXT,
}

PROCON_NPOV = RawDataset(
    name="procon_npov",
    features=_EXAMPLE,
    read=_read,
    description=(
        "Controversial topics in the form of the NPOV Response Task: a leading question as the "
        "query, pro and con arguments (the same number of both), and a response that tells "
        "exactly these arguments. No topic is in two splits."
    ),
    **_SHARED,
)

NPOV_ERRORS = RawDataset(
    name="npov_errors",
    features=_EXAMPLE
    | {
        "error": TEXT,
        "removed_argument": TEXT,
        "added_argument": TEXT,
        "has_hallucination": INTEGER,
        "has_coverage_error": INTEGER,
    },
    read=_read_errors,
    description=(
        "The responses of procon_npov, each with its own arguments (no error), with one removed "
        "(a hallucination), with an unused one added (a coverage error), and with both."
    ),
    **_SHARED,
)
