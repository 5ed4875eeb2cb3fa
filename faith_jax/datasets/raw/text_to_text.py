"""Text to text of one's own, as JSON lines: what `tools/make_mini_corpus.py` writes."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.fields import text_field
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.raw_dataset import TEXT, RawDataset, RawFile, files_by_name

_FIELDS = ("id", "inputs", "targets")


def _example(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    return {field: text_field(row, field, place) for field in _FIELDS}


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        yield from parsed(read_jsonl(path, bad_rows), _example, bad_rows)


_SPLITS = ("train", "validation", "test")

TEXT_TO_TEXT = RawDataset(
    name="text_to_text",
    splits={split: (f"{split}.jsonl",) for split in _SPLITS},
    files=files_by_name(*(RawFile(f"{split}.jsonl") for split in _SPLITS)),
    features=dict.fromkeys(_FIELDS, TEXT),
    read=_read,
    description="What a model reads and what it should write, from files of the user's own.",
    homepage="docs/datasets.md",
    licence="the sample: Apache-2.0",
    citation="",
    by_hand=(
        "Write train.jsonl, validation.jsonl or test.jsonl with the fields id, inputs and targets; "
        "tools/make_mini_corpus.py makes the first two from plain text."
    ),
)
