"""The training sets of NPOV error classifiers (Chang 2024, section 5.2), as JSON lines.

`faith-jax reproduce npov_detection` writes them from a generator's responses; each set holds all
that those before it hold:

- `synth`: error-free responses to training topics, and the same with synthetic errors;
- `para`: and the same with paraphrased arguments;
- `dev`: and all that of the development topics;
- `org`: and responses with errors that people found.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.fields import (
    choice_field,
    field_error,
    integer_field,
    list_field,
    optional_text,
    text_field,
    texts_field,
)
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.raw.npov import PROCON_NPOV
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, TEXTS, RawDataset, RawFile, files_by_name

_ERRORS = ("none", "hallucination", "coverage", "both", "organic")
_VALIDATION = "validation.jsonl"
_TEST = ("test_unparaphrased_synthetic.jsonl", "test_paraphrased_synthetic.jsonl")


def _example(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    added = row.get("added_argument", "")
    return {
        "id": text_field(row, "id", place),
        "topic": text_field(row, "topic", place),
        "query": text_field(row, "query", place),
        "pro_arguments": texts_field(row, "pro_arguments", place),
        "con_arguments": texts_field(row, "con_arguments", place),
        "response": text_field(row, "response", place),
        "has_hallucination": _flag(row, "has_hallucination", place),
        "has_coverage_error": _flag(row, "has_coverage_error", place),
        "error": choice_field(row, "error", place, _ERRORS),
        "removed_argument": optional_text(row, "removed_argument", place),
        # Of organic errors several may be left out, which a list tells.
        "added_arguments": texts_field(
            {"added_argument": [added] if isinstance(added, str) and added else added or []},
            "added_argument",
            place,
        ),
        "paraphrased": _flag(row, "paraphrased", place),
        "hallucinated_spans": json.dumps(list_field(row, "hallucinated_spans", place, minimum=0)),
    }


def _flag(row: Mapping[str, Any], field: str, place: str) -> int:
    value = integer_field(row, field, place)
    if value not in (0, 1):
        raise field_error(place, field, "0 or 1", value)
    return value


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        yield from parsed(read_jsonl(path, bad_rows), _example, bad_rows)


def _training_set(name: str, description: str) -> RawDataset:
    train = f"train_{name}.jsonl"
    return RawDataset(
        name="npov_detection",
        splits={"train": (train,), "validation": (_VALIDATION,), "test": _TEST},
        files=files_by_name(*map(RawFile, (train, _VALIDATION, *_TEST))),
        features={
            "id": TEXT,
            "topic": TEXT,
            "query": TEXT,
            "pro_arguments": TEXTS,
            "con_arguments": TEXTS,
            "response": TEXT,
            "has_hallucination": INTEGER,
            "has_coverage_error": INTEGER,
            "error": TEXT,
            "removed_argument": TEXT,
            "added_arguments": TEXTS,
            "paraphrased": INTEGER,
            "hallucinated_spans": TEXT,
        },
        read=_read,
        description=f"Responses of a generator with errors and without: {description}",
        homepage=PROCON_NPOV.homepage,
        licence=PROCON_NPOV.licence,
        citation=PROCON_NPOV.citation,
        by_hand=(
            "Make them with `faith-jax reproduce npov_detection --model=GENERATOR "
            "--output=FOLDER`; they are in FOLDER/data (docs/detection.md)."
        ),
    )


TRAINING_SETS = {
    "synth": _training_set("synth", "synthetic errors, training topics."),
    "para": _training_set("para", "synth, and the same with paraphrased arguments."),
    "dev": _training_set("dev", "para, and the same of the development topics."),
    "org": _training_set("org", "dev, and errors that annotators found."),
}
