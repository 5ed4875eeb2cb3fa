"""Files of the user's own as JSON lines: pairs for natural language inference, and text to text.

The samples have these forms. ANLI and MultiNLI themselves are read from TFDS.
"""

from typing import Any

import msgspec

from faith_jax.core.labels import NliLabel
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text
from faith_jax.datasets.raw_dataset import RawDataset, each_row, texts


class Pair(msgspec.Struct):
    """A premise and a hypothesis."""

    id: Text
    premise: Text
    hypothesis: Text
    label: NliLabel


class TextToText(msgspec.Struct):
    """What a model reads and what it should write; `tools/make_mini_corpus.py` writes such rows."""

    id: Text
    inputs: Text
    targets: Text


_SHARED: dict[str, Any] = {
    "splits": {split: (f"{split}.jsonl",) for split in ("train", "validation", "test")},
    "homepage": "docs/datasets.md",
    "licence": "the sample: Apache-2.0",
    "citation": "",
}

NLI = RawDataset(
    name="nli",
    features=texts("id", "premise", "hypothesis", "label"),
    read=each_row(read_jsonl, Pair),
    description=(
        "Premises and hypotheses with the labels entailment, neutral and contradiction, from files "
        "of the user's own."
    ),
    by_hand=(
        "Write train.jsonl, validation.jsonl or test.jsonl with the fields id, premise, hypothesis "
        "and label."
    ),
    **_SHARED,
)

TEXT_TO_TEXT = RawDataset(
    name="text_to_text",
    features=texts("id", "inputs", "targets"),
    read=each_row(read_jsonl, TextToText),
    description="What a model reads and what it should write, from files of the user's own.",
    by_hand=(
        "Write train.jsonl, validation.jsonl or test.jsonl with the fields id, inputs and targets; "
        "tools/make_mini_corpus.py makes the first two from plain text."
    ),
    **_SHARED,
)
