"""Natural language inference of one's own, as JSON lines; the sample has this form.

ANLI and MultiNLI themselves are read from TFDS.
"""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.fields import choice_field, text_field
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.labels import NliLabel
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.raw_dataset import TEXT, RawDataset, RawFile, files_by_name


def _example(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    return {
        "id": text_field(row, "id", place),
        "premise": text_field(row, "premise", place),
        "hypothesis": text_field(row, "hypothesis", place),
        "label": choice_field(row, "label", place, NliLabel),
    }


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        yield from parsed(read_jsonl(path, bad_rows), _example, bad_rows)


_SPLITS = ("train", "validation", "test")

NLI = RawDataset(
    name="nli",
    splits={split: (f"{split}.jsonl",) for split in _SPLITS},
    files=files_by_name(*(RawFile(f"{split}.jsonl") for split in _SPLITS)),
    features={"id": TEXT, "premise": TEXT, "hypothesis": TEXT, "label": TEXT},
    read=_read,
    description=(
        "Premises and hypotheses with the labels entailment, neutral and contradiction, from files "
        "of the user's own."
    ),
    homepage="docs/datasets.md",
    licence="the sample: Apache-2.0",
    citation="",
    by_hand=(
        "Write train.jsonl, validation.jsonl or test.jsonl with the fields id, premise, hypothesis "
        "and label."
    ),
)
